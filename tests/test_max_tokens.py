"""`MaxTokens` and Lark's `max_tokens`: the core against its twin on random grammars and vocabularies, and against all
sequences of tokens by brute force; Lark's attribute with llguidance as a second judge."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.automaton.reference.token_masks import ReferenceGrammar
from guided.frontends.lark import read_lark
from guided.frontends.lint import lint_grammar
from guided.frontends.regex import parse_regex
from guided.ir.nodes import (
    Alt,
    And,
    Distinct,
    Entry,
    Grammar,
    MaxTokens,
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
from tests.effort import examples

LONGER = [b"ab", b"bc", b"ca", b"aa", b"abc", b"cab", b"bb", b"cc", b",a", b"a,", b"b,c", b",,"]
PATTERNS = ["[ab]*", "[abc]+", "[ab]*c", "abab", "(ab|c)+", "a?", "(a|bc){2,3}", "[^,]*,", "b*a?c", "é*b"]


def tokens_of(rng: random.Random) -> list[bytes]:
    return [*(bytes([byte]) for byte in "abc,é".encode()), *rng.sample(LONGER, rng.randint(2, 6)), "bé".encode()]


def random_rules(rng: random.Random) -> dict[str, Node]:
    """Rules with limits next to each other, in lists, in recursion on both sides, and in choices."""

    def limited() -> Node:
        return MaxTokens(parse_regex(rng.choice(PATTERNS)), rng.randint(0, 4))

    def part(depth: int) -> Node:
        kind = rng.choice(["text", "limited", "limited", "seq", "alt", "many", "ref"]) if depth else "limited"
        match kind:
            case "text":
                return Text(rng.choice(["a", "b", "c", ",", "ab", "é"]))
            case "limited":
                return limited()
            case "seq":
                return Seq((part(depth - 1), part(depth - 1)))
            case "alt":
                return Alt((part(depth - 1), part(depth - 1)))
            case "many":
                return Repeat(part(depth - 1), rng.randint(0, 1), rng.choice([1, 2, None]))
        return Ref("more")

    more = rng.choice(
        [
            Alt((Text("c"), Seq((Text("a"), Ref("more"), Text("b"))))),
            Alt((limited(), Seq((Ref("more"), Text(","), limited())))),
            Alt((Text(","), Seq((limited(), Ref("more"))))),
        ]
    )
    return {"start": Seq((part(2), part(2))), "more": more}


@examples(60, 1500)
@given(st.randoms(use_true_random=False))
def test_the_core_and_its_twin(rng: random.Random) -> None:
    tokens = tokens_of(rng)
    end = len(tokens)
    grammar = Grammar(random_rules(rng))
    try:
        twin = ReferenceGrammar(grammar, tokens, [end])
    except guided.LimitExceeded:  # only of the twin
        return
    except (guided.UnsupportedError, guided.SpecError) as error:
        with pytest.raises(type(error)):
            GrammarCompiler(Vocabulary(tokens, eos_token_ids=[end])).compile_grammar(grammar)
        return
    matcher = GrammarMatcher(GrammarCompiler(Vocabulary(tokens, eos_token_ids=[end])).compile_grammar(grammar))
    state = twin.initial()
    bitmask = guided.allocate_token_bitmask(1, end + 1)
    for _ in range(rng.randint(3, 10)):
        try:
            expected = twin.mask(state)
            least = twin.min_tokens(state)
        except guided.LimitExceeded:
            return
        matcher.fill_next_token_bitmask(bitmask)
        assert set(guided.allowed_tokens(bitmask)) == expected == set(matcher._walk_mask())
        needed = matcher.min_tokens_to_finish()
        assert least is not None and needed >= least
        budget = needed + rng.randint(0, 2)
        matcher.fill_next_token_bitmask(bitmask, max_tokens=budget)
        allowed = set(guided.allowed_tokens(bitmask))
        assert allowed and allowed <= expected
        for token in allowed:  # each can be completed in time
            after = matcher.fork()
            assert after.accept_token(token)
            assert after.is_terminated() or after.min_tokens_to_finish() < budget
        token = rng.choice(sorted(expected))
        following = twin.accept_token(state, token)
        assert matcher.accept_token(token) and following is not None
        if token == end:
            break
        if rng.random() < 0.3:  # a rollback restores the count
            other = rng.choice(sorted(expected))
            matcher.rollback(1)
            assert matcher.accept_token(other)
            matcher.rollback(1)
            assert matcher.accept_token(token)
        state = following


@pytest.mark.parametrize(
    ("before", "after", "longer"),
    [("", "cd", [b"ab", b"bcd"]), ("d", "c", [b"ab", b"da", b"bc"]), ("d", "", [b"ab", b"da"])],
)
def test_completions_do_not_cross_the_borders(before: str, after: str, longer: list[bytes]) -> None:
    tokens = [b"a", b"b", b"c", b"d", *longer]
    compiler = GrammarCompiler(Vocabulary(tokens, eos_token_ids=[len(tokens)]))
    start = Seq((Text(before), MaxTokens(Text("ab"), 1), Text(after)))
    matcher = GrammarMatcher(compiler.compile_grammar(Grammar({"start": start})))
    for name in filter(None, [*before, "ab", *after]):
        needed = matcher.min_tokens_to_finish()
        bitmask = guided.allocate_token_bitmask(1, len(tokens) + 1)
        matcher.fill_next_token_bitmask(bitmask, max_tokens=needed)
        assert guided.allowed_tokens(bitmask) == [tokens.index(name.encode())]
        assert matcher.accept_token(tokens.index(name.encode())) and matcher.min_tokens_to_finish() == needed - 1
    assert matcher.is_accepting() and matcher.min_tokens_to_finish() == 1


# --- all sequences of tokens

TOKENS = [b"a", b"b", b",", b"ab", b"ba", b"a,", b",b", b"b,a"]


def fewest(pattern: str, begun: str) -> int | None:
    """The smallest number of tokens that complete `begun` to a text of the pattern without going past its end; by brute
    force.
    """
    level = {begun}
    for count in range(8):
        if any(re.fullmatch(pattern, text) for text in level):
            return count
        level = {text + token.decode() for text in level for token in TOKENS if len(text) < 8}
    return None


def allowed_by_definition(ids: tuple[int, ...], pattern: str, most: int) -> bool:
    """Whether some reading of these tokens as `,`, a text of the pattern and `b` respects the limit."""
    ends = list(itertools.accumulate(len(TOKENS[id]) for id in ids))
    text = b"".join(TOKENS[id] for id in ids).decode()
    if not text.startswith(",") or not text.endswith("b") or not re.fullmatch(pattern, text[1:-1]):
        return False
    start, end = 1, len(text) - 1
    count = 0
    for first, last in zip([0, *ends], ends, strict=False):
        if first < end and last > start:  # some of its text belongs to the pattern
            count += 1
            if last < end:
                needed = fewest(pattern, text[start:last])
                if needed is None or count + max(needed, 1) > most:
                    return False
    return count <= most


@pytest.mark.parametrize("pattern", ["[ab]*", "(ab)*", "a*b", "(a,|b)+", "aba?"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_all_sequences_of_tokens(pattern: str, most: int) -> None:
    compiler = GrammarCompiler(Vocabulary(TOKENS, eos_token_ids=[len(TOKENS)]))
    whole = Seq((Text(","), MaxTokens(parse_regex(pattern), most), Text("b")))
    least = fewest(pattern, "")
    if least is None or least > most:
        with pytest.raises(guided.UnsupportedError, match="the shortest text takes"):
            compiler.compile_grammar(Grammar({"start": whole}))
        return
    grammar = compiler.compile_grammar(Grammar({"start": whole}))
    found = 0
    for length in range(1, 6):
        for ids in itertools.product(range(len(TOKENS)), repeat=length):
            matcher = GrammarMatcher(grammar)
            accepted = all(map(matcher.accept_token, ids)) and matcher.is_accepting()
            assert accepted == allowed_by_definition(ids, pattern, most), [TOKENS[id] for id in ids]
            found += accepted
    assert found


# --- Lark's attribute

BYTES = [bytes([byte]) for byte in range(256)]
COMPILER = GrammarCompiler(Vocabulary([*BYTES, b"</", b"think", b"</think>", b"ab", b"b."], eos_token_ids=[261]))


def written(text: str, *tokens: bytes) -> bool:
    """Whether these tokens are accepted one after the other, and the output may then end."""
    matcher = GrammarMatcher(COMPILER.compile_lark(text))
    ids = [COMPILER.vocabulary.tokens.index(token) for token in tokens]
    return all(map(matcher.accept_token, ids)) and matcher.is_accepting()


def test_lark() -> None:
    think = 'start: think /[0-9]/\nthink[max_tokens=4]: /(.|\\n)*/ "</think>"'
    assert written(think, b"a", b"ab", b"\n", b"</think>", b"1")
    assert not written(think, b"a", b"ab", b"\n", b"b", b"</think>", b"1")
    assert written(think, b"a", b"</", b"think", b">", b"1")
    assert not written(think, b"a", b"a", b"</", b"think", b">", b"1")
    words = "start: w (',' w)*\nw[max_tokens=2]: /[a-c]+/".replace("'", '"')
    assert written(words, b"a", b"ab", b",", b"ab", b"ab", b",", b"a")
    assert not written(words, b"a", b"ab", b"a")
    dot = 'start: w "."\nw[max_tokens=2]: /[a-c]*/'
    assert written(dot, b"ab", b"ab", b".") and written(dot, b"ab", b"b.") and written(dot, b".")
    assert not written(dot, b"ab", b"ab", b"b.")  # a token that crosses the end counts
    ahead = 'start: "a" w "."\nw[max_tokens=1]: /[a-c]*/'
    assert written(ahead, b"ab", b".") and not written(
        ahead, b"ab", b"c", b"."
    )  # and so does one that crosses the beginning
    assert written('start: w "."\nw[max_tokens=0]: /a*/', b".") and not written(
        'start: w "."\nw[max_tokens=0]: /a*/', b"a", b"."
    )


def test_with_other_attributes_and_ignored_text() -> None:
    text = 'start: (head /[0-9]+/)*\nhead[lazy, max_tokens=3, capture]: /[a-z]*/ "."\n%ignore " "'
    assert written(text, b"ab", b"b.", b" ", b"1", b" ", b"a", b"ab", b".", b"2")
    assert not written(text, b"ab", b"a", b"b", b".", b"1")
    matcher = GrammarMatcher(COMPILER.compile_lark(text))
    for token in [259, 260, 32, 49, 50, 97, 46, 51]:
        assert matcher.accept_token(token)
    assert matcher.captures() == {"head": [b"abb.", b"a."]}


def test_captures_know_the_limit() -> None:
    text = "start: a b\na[max_tokens=2, capture]: /[a-c]*/\nb[capture]: /[a-c]*/"
    matcher = GrammarMatcher(COMPILER.compile_lark(text))
    for token in [97, 259, 98, 99]:
        assert matcher.accept_token(token)
    assert matcher.captures() == {"a": [b"aab"], "b": [b"bc"]}
    matcher.rollback(3)
    assert matcher.accept_string("abcabc")  # one step, which counts as one token
    assert matcher.captures() == {"a": [b"aabcabc"], "b": [b""]}
    think = 'start: think /[0-9]/\nthink[max_tokens=4, capture]: /(.|\\n)*/ "</think>"'
    matcher = GrammarMatcher(COMPILER.compile_lark(think))
    for token in [97, 97, 97, 258]:
        assert matcher.accept_token(token)
    assert matcher.captures() == {"think": [b"aaa</think>"]}
    assert matcher.forced_tokens() == [] and matcher.min_tokens_to_finish() == 2


@pytest.mark.parametrize("most", range(1, 7))
def test_llguidance_counts_the_same(most: int) -> None:
    """Tokens that do not cross the boundaries. llguidance does not check whether the rest can be written in time."""
    llguidance = pytest.importorskip("llguidance", reason="llguidance is not installed")
    tokens = [*BYTES, b"ab", b"cab"]

    class Wrapped:
        def __init__(self) -> None:
            self.eos_token_id, self.bos_token_id = 258, None
            self.tokens, self.special_token_ids = [*tokens, b"</s>"], [258]

        def __call__(self, text: str | bytes) -> list[int]:
            return list(text.encode() if isinstance(text, str) else text)

    text = f'start: t "."\nt[max_tokens={most}]: /[a-c]*/'
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Wrapped()))
    grammar = llguidance.LLMatcher.grammar_from_lark(text)
    compiled = GrammarCompiler(Vocabulary(tokens, eos_token_ids=[258])).compile_lark(text)
    rng = random.Random(most)
    for _ in range(40):
        ids = [rng.choice([97, 98, 99, 256, 257]) for _ in range(rng.randint(0, 7))]
        theirs, ours = llguidance.LLMatcher(tokenizer, grammar), GrammarMatcher(compiled)
        accepted = [(theirs.consume_token(id), ours.accept_token(id)) for id in [*ids, 46]]
        assert len(ids) <= most or not accepted[most][0]
        assert all(a == b for a, b in itertools.takewhile(lambda pair: pair[1], accepted)), ids
        assert all(b for _, b in accepted) == (len(ids) <= most)


# --- refusals


def test_refusals() -> None:
    with pytest.raises(
        guided.UnsupportedError, match="the shortest text takes 3 tokens, and max_tokens is 2"
    ) as caught:
        COMPILER.compile_lark('start: t\nt[max_tokens=2]: "abcd"')
    assert "allow more tokens" in caught.value.hint
    with pytest.raises(guided.UnsupportedError, match="a lexer does not support max_tokens") as caught:
        COMPILER.compile_lark('start: t\nt[max_tokens=2]: "ab"', semantics="lexer")
    assert "scannerless" in caught.value.hint
    limited = MaxTokens(parse_regex("a*"), 3)
    for node in (And((limited, Text("a"))), MaxTokens(Special(7), 1), MaxTokens(limited, 2)):
        with pytest.raises(guided.UnsupportedError):
            COMPILER.compile_grammar(Grammar({"start": node}))
    without_bytes = GrammarCompiler(Vocabulary([b"ab", b"b"], eos_token_ids=[2]))
    with pytest.raises(guided.UnsupportedError, match="every byte is also a token by itself"):
        without_bytes.compile_grammar(Grammar({"start": limited}))
    with pytest.raises(guided.UnsupportedError):
        COMPILER.compile_grammar(
            Grammar({"start": MaxTokens(Ref("r"), 2), "r": Alt((Text("a"), Seq((Text("b"), Ref("r")))))})
        )
    with pytest.raises(guided.SpecError):
        COMPILER.compile_grammar(Grammar({"start": MaxTokens(Text("a"), -1)}))


def test_a_limit_inside_of_values_that_must_differ_is_refused() -> None:
    string = Seq((Text('"'), Ref("letters"), Text('"')))
    values = Distinct(Repeat(Seq((Entry(string), Text(";"))), 1, 3))
    rules: dict[str, Node] = {"letters": MaxTokens(parse_regex("[a-c]*"), 2), "start": values}
    with pytest.raises(guided.UnsupportedError, match="MaxTokens inside an Entry"):
        COMPILER.compile_grammar(Grammar(rules))
    beside = Seq((Ref("letters"), Distinct(Repeat(Seq((Entry(parse_regex('"[a-c]"')), Text(";"))), 1, 3))))
    matcher = GrammarMatcher(COMPILER.compile_grammar(Grammar({**rules, "start": beside})))
    assert matcher.accept_token(97) and matcher.accept_token(259) and not matcher.accept_token(98)
    assert matcher.accept_string('"a";') and not matcher.accept_string('"a";') and matcher.accept_string('"b";')


def test_a_limit_with_members_in_any_order() -> None:
    members = Permutation((Member(Text("x"), True), Member(Text("y"))), Text(","))
    grammar = Grammar({"start": Seq((MaxTokens(parse_regex("[a-c]+"), 2), Text(":"), members))})
    matcher = GrammarMatcher(COMPILER.compile_grammar(grammar))
    assert matcher.accept_token(97) and matcher.accept_string(":y,x") and matcher.is_accepting()


def test_limited_rules_are_bounded() -> None:
    text = 'start: t "." u\nt{}: /[a-c]*/ "</t>"\nu: /[0-9]/'
    found = [lint_grammar(read_lark(text.format(each)), "lark") for each in ("[max_tokens=5]", "[lazy]")]
    assert [[remark.kind for remark in remarks] for remarks in found] == [[], ["unbounded"]]
