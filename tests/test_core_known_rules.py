"""Rules that a vocabulary has cached from earlier grammars: a grammar with such rules equals the same grammar without a
cache.

The bodies of rules are drawn from a small pool and refer to each other in any order. So most grammars contain rules of
earlier grammars, but with other callees, which may be empty, generate nothing, or lead back to them.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from guided.errors import GuidedError
from guided.frontends.json_schema.text.spelling import JSON_STRING, quoted
from guided.ir import (
    EMPTY,
    EPSILON,
    Alt,
    And,
    Chars,
    Distinct,
    Encoded,
    Entry,
    Grammar,
    Length,
    Member,
    Node,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Text,
)
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import SANITIZED, mask_of

TOKENS: list[bytes | None] = [
    b"a",
    b"b",
    b"(",
    b")",
    b",",
    b'"',
    b"{",
    b"}",
    b":",
    b"1",
    b"ab",
    b'"a',
    b'":',
    b",,",
    None,
]
GRAMMARS = 60 if SANITIZED else 250
NAMES = ("start", "one", "two", "three")
LETTERS = Chars(((0x61, 0x62),))
STRING = quoted(Repeat(LETTERS, 1, None), JSON_STRING)


def fresh() -> GrammarCompiler:
    """A compiler whose vocabulary has no cached rules."""
    vocabulary = Vocabulary(TOKENS, eos_token_ids=[len(TOKENS)], special_tokens={len(TOKENS) - 1: "<call>"})
    return GrammarCompiler(vocabulary, cache_bytes=0)


def body(rng: random.Random, depth: int = 0) -> Node:
    """A node over references to any of the rules."""
    kind = rng.randrange(16 if depth < 3 else 6)
    if kind < 3:
        return Ref(rng.choice(NAMES[1:] if rng.random() < 0.9 else NAMES))
    if kind < 6:
        return rng.choice((Text("a"), Text("ab"), Text(","), LETTERS, Encoded(Text("b"), JSON_STRING), STRING))
    if kind < 10:
        return Seq(tuple(body(rng, depth + 1) for _ in range(rng.randint(1, 3))))
    if kind < 12:
        return Alt(tuple(body(rng, depth + 1) for _ in range(rng.randint(1, 3))))
    if kind == 12:
        item = body(rng, depth + 1)
        if rng.random() < 0.4:
            counted = Repeat(Seq((item, Text(","))), 1, 60), Repeat(Alt((Text("a"), item)), rng.randint(0, 3), 30)
            return rng.choice((Length(Repeat(LETTERS, 1, None), 2, 300), *counted))
        return Repeat(item, rng.randint(0, 1), rng.choice((1, 2, 40, None)))
    if kind == 13:
        member = Seq((Entry(STRING), Text(":"), body(rng, depth + 1)))
        known = rng.choice(((), ("a",), ("a", "b")))
        return Seq((Text("{"), Distinct(Seq((member, Repeat(Seq((Text(","), member)), 0, None))), known), Text("}")))
    if kind == 14:
        members = tuple(Member(Seq((Text(c), body(rng, depth + 1))), rng.random() < 0.5) for c in "ab")
        return Permutation(members, Text(","))
    return rng.choice(
        (EMPTY, EPSILON, Special("<call>"), Length(And((LETTERS, Ref("two"))), 0, 2), Repeat(Text("ab"), 2, 90))
    )


def drawn(seed: int) -> Grammar:
    """Four rules. There are few different bodies, so grammars share them."""
    rng = random.Random(seed)
    return Grammar({name: body(random.Random(rng.randrange(40))) for name in NAMES})


def record(compiler: GrammarCompiler, grammar: Grammar, seed: int) -> list[object]:
    """The observations of a random walk, or the reason why the grammar is refused."""
    try:
        matcher = GrammarMatcher(compiler.compile_grammar(grammar))
    except GuidedError as error:
        return [type(error).__name__, str(error)]
    rng, out = random.Random(seed), list[object]()
    for _ in range(12):
        mask = mask_of(matcher)
        out += [mask, matcher.is_accepting()]
        assert mask == tuple(matcher._walk_mask())
        if not mask or matcher.is_terminated():
            break
        assert matcher.accept_token(rng.choice(mask))
    return out


@pytest.mark.parametrize("part", range(4))
def test_cached_rules_equal_new_ones(part: int) -> None:
    warm = fresh()
    for seed in range(part * GRAMMARS, (part + 1) * GRAMMARS):
        grammar = drawn(seed)
        expected = record(fresh(), grammar, seed)
        assert record(warm, grammar, seed) == expected, grammar
        assert record(warm, grammar, seed) == expected, grammar


@pytest.mark.parametrize(("low", "high"), [(0, 40), (1, 40), (2, 9), (5, None)])
@pytest.mark.parametrize("prefix", [EPSILON, Text("b"), Repeat(Text("b"), 0, 20)])
def test_counted_rules_that_call_rules_without_texts(low: int, high: int | None, prefix: Node) -> None:
    """The same counted body in two grammars: in the first one, a rule that it calls generates nothing."""
    start = Repeat(Seq((prefix, Alt((LETTERS, Seq((Text("("), Ref("one"), Text(")"))))))), low, high)
    warm = fresh()
    for one in (Seq((Text("a"), Ref("one"))), Text("a"), EMPTY, Seq((Text(","), Repeat(Ref("one"), 0, 1)))):
        grammar = Grammar({"start": start, "one": one})
        for seed in range(3):
            assert record(warm, grammar, seed) == record(fresh(), grammar, seed), one


def test_counters_that_are_nested_twice() -> None:
    """Each of forty counters is called by two others: there are 2^40 paths through them."""
    node: Node = Seq((Text("a"), Ref("one")))
    for _ in range(40):
        node = Seq((Repeat(node, 2, 90), Text(","), Repeat(node, 2, 91)))
    grammar = Grammar({"start": node, "one": Alt((Text("b"), Seq((Text("("), Ref("one"), Text(")")))))})
    warm = fresh()
    first, second = (warm.compile_grammar(grammar).native for _ in range(2))
    assert (first.positions, first.rules) == (second.positions, second.rules)


def test_a_counter_of_two_rules() -> None:
    """A cached grammar contains a counter once, as the first grammar does, although two rules call it."""
    pairs = Repeat(Seq((Text(","), Ref("one"), Ref("one"))), 20, 90)
    two = Alt((Text("b"), Seq((Text("("), Ref("two"), pairs, Text(")")))))
    grammar = Grammar({"start": Seq((Text("a"), pairs, Ref("two"))), "one": Seq((Text("("), Ref("two"))), "two": two})
    warm = fresh()
    first, second = (warm.compile_grammar(grammar).native for _ in range(2))
    assert (first.positions, first.rules) == (second.positions, second.rules)


def test_known_rules_on_many_threads() -> None:
    seeds = range(GRAMMARS)
    expected = [record(fresh(), drawn(seed), seed) for seed in seeds]
    warm = fresh()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda seed: record(warm, drawn(seed), seed), seeds)) == expected


def test_the_cache_is_bounded() -> None:
    """More rules than the cache holds. The first ones come again, whether they are still cached or not."""
    compiler = fresh()
    first = [compiler.compile_grammar(_words(number)).native.positions for number in range(20)]
    for number in range(20, 400):
        compiler.compile_grammar(_words(number))
    assert [compiler.compile_grammar(_words(number)).native.positions for number in range(20)] == first


def _words(number: int) -> Grammar:
    rng = random.Random(number)
    words = Alt(tuple(Text("".join(rng.choices("ab", k=40))) for _ in range(40)))
    return Grammar({"start": Seq((Text("("), Ref("words"), Text(")"))), "words": words})
