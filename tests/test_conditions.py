"""Conditions on members: every answer equals that of trying all sets and orders of members."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Literal

import pytest

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.ir.conditions import AllOf, AnyOf, Condition, NoneOf, Written
from guided.ir.nodes import Grammar, Member, Permutation, Text
from guided.matching import GrammarMatcher, allocate_token_bitmask, allowed_tokens
from tests.brute_force import holds
from tests.effort import every
from tests.json_schema_support import byte_compiler

LETTERS = "abcdefgh"


def condition(rng: random.Random, members: int, depth: int) -> Condition:
    """A condition on a given number of members."""
    if depth == 0 or rng.random() < 0.2:
        return Written(tuple(rng.sample(range(members), rng.randint(1, min(3, members)))))
    kinds: list[Callable[[tuple[Condition, ...]], Condition]] = [AllOf, AnyOf, NoneOf, AnyOf]
    return rng.choice(kinds)(tuple(condition(rng, members, depth - 1) for _ in range(rng.randint(1, 3))))


def permutation(rng: random.Random) -> Permutation:
    """Members of one letter each. Some share a slot, may be repeated, or are required."""
    count = rng.randint(2, 4)
    slots: list[int] = []
    repeatable: list[bool] = []
    for at in range(count):
        shares = bool(slots) and not repeatable[-1] and rng.random() < 0.3
        slots.append(slots[-1] if shares else at)
        repeatable.append(not shares and rng.random() < 0.25)
    members = tuple(
        Member(Text(LETTERS[at] * rng.randint(1, 3)), rng.random() < 0.1, repeatable[at]) for at in range(count)
    )
    low = rng.choice([1, 1, 2, 3])
    high = rng.choice([None, None, low, low + 1])
    return Permutation(members, Text(","), low, high, tuple(slots), rng.random() < 0.4, condition(rng, count, 3))


def texts(node: Permutation, most: int) -> set[str]:
    """All texts of at most `most` members."""
    assert node.condition is not None
    members = [member.item.text for member in node.members if isinstance(member.item, Text)]
    ranks = [len(members) if member.repeatable else slot for member, slot in zip(node.members, node.slots, strict=True)]
    out = set()
    for count in range(max(node.min, 1), min(most, most if node.max is None else node.max) + 1):
        for order in itertools.product(range(len(members)), repeat=count):
            written = [at for at in order if not node.members[at].repeatable]
            if len({node.slots[at] for at in written}) < len(written):
                continue
            if node.ordered and any(ranks[a] > ranks[b] for a, b in itertools.pairwise(order)):
                continue
            needed = {at for at, member in enumerate(node.members) if member.required}
            if needed <= set(order) and holds(node.condition, set(order)):
                out.add(",".join(members[at] for at in order))
    return out


@pytest.mark.parametrize("seed", every(3, range(300)))
def test_answers_match_a_search_of_all_texts(seed: int) -> None:
    """A byte is allowed if and only if some text continues with it. With the smallest budget a text is completed."""
    node = permutation(random.Random(seed))
    longest = 6 if node.max is None else node.max
    every = texts(node, longest)
    compiler = byte_compiler()
    if not every:
        with pytest.raises(SpecError, match="allows no output"):
            compiler.compile_grammar(Grammar({"start": node}))
        return
    compiled = compiler.compile_grammar(Grammar({"start": node}))
    following: dict[str, set[str]] = {}
    least: dict[str, int] = {}
    for text in every:
        for size in range(len(text) + 1):
            following.setdefault(text[:size], set()).update(text[size : size + 1])
            least[text[:size]] = min(least.get(text[:size], len(text)), len(text) - size)
    prefixes = [prefix for prefix in following if node.max is not None or prefix.count(",") < 3]
    for prefix in random.Random(seed).sample(sorted(prefixes), min(60, len(prefixes))):
        matcher = GrammarMatcher(compiled)
        assert matcher.accept_string(prefix), prefix
        allowed = {letter for letter in LETTERS + "," if matcher.fork().accept_string(letter)}
        assert allowed == following[prefix], prefix
        assert matcher.is_accepting() == (prefix in every), prefix
        left = matcher.min_tokens_to_finish()
        assert least[prefix] <= left - 1, prefix
        assert prefix + completion(matcher, left) in every, prefix


def completion(matcher: GrammarMatcher, left: int) -> str:
    """The text of the first allowed token of each mask, under a budget."""
    out = ""
    bitmask = allocate_token_bitmask(1, 257)
    while True:
        matcher.fill_next_token_bitmask(bitmask, max_tokens=left - len(out))
        token = allowed_tokens(bitmask)[0]
        if token == 256:
            return out
        assert matcher.accept_token(token)
        out += chr(token)


def groups(count: int) -> Permutation:
    """Members p0, p1, ..., declared before q0, q1, ...: if one of a pair is present, so is the other."""
    members = [Member(Text(f"p{at};")) for at in range(count)] + [Member(Text(f"q{at};")) for at in range(count)]
    pairs = [AnyOf((NoneOf((Written((at,)),)), Written((at + count,)))) for at in range(count)]
    some = Written(tuple(range(count)))
    return Permutation(tuple(members), Text(","), 1, None, (), False, AllOf((*pairs, some)))


def test_the_order_of_slots_follows_the_condition() -> None:
    """In the order of declaration, the diagram of sixty pairs would have 2^60 nodes."""
    matcher = GrammarMatcher(byte_compiler().compile_grammar(Grammar({"start": groups(60)})))
    assert matcher.accept_string("q5;,p7;,")
    assert not matcher.fork().accept_string("q5;")
    assert matcher.accept_string("p59;") and not matcher.is_accepting()
    assert matcher.accept_string(",q7;,q59;") and matcher.is_accepting()


def odd(members: Sequence[int]) -> Condition:
    """An odd number of these members is present."""
    out: Condition = Written((members[0],))
    for member in members[1:]:
        one = Written((member,))
        out = AnyOf((AllOf((out, NoneOf((one,)))), AllOf((NoneOf((out,)), one))))
    return out


def test_facts_that_no_search_finds() -> None:
    """With z, the number of others is odd and even: only all 2^25 sets of them show that z is never possible."""
    names = "abcdefghijklmnopqrstuvwxyz"
    others = range(len(names) - 1)
    never = AllOf((odd(others), NoneOf((odd(others[::-1]),))))
    condition = AnyOf((NoneOf((Written((25,)),)), never))
    node = Permutation(tuple(Member(Text(name)) for name in names), Text(","), 1, None, (), False, condition)
    matcher = GrammarMatcher(byte_compiler().compile_grammar(Grammar({"start": node})))
    for name in names[:25]:
        assert not matcher.fork().accept_string("z")
        assert matcher.accept_string(name) and matcher.is_accepting()
        assert matcher.accept_string(",") == (name != "y")


def test_a_condition_without_a_small_diagram_is_refused_when_it_is_compiled() -> None:
    """Random clauses of three members each over seventy members: the diagram is large for every order of slots."""
    rng = random.Random(5)
    every = range(70)
    parts = [
        AnyOf(tuple(Written((at,)) if rng.random() < 0.5 else NoneOf((Written((at,)),)) for at in rng.sample(every, 3)))
        for _ in range(290)
    ]
    node = Permutation(
        tuple(Member(Text(f"m{at};")) for at in every), Text(","), 1, None, (), False, AllOf(tuple(parts))
    )
    with pytest.raises(UnsupportedError, match="decision diagram") as refused:
        byte_compiler().compile_grammar(Grammar({"start": node}))
    assert "fewer members" in refused.value.hint


def exactly_one(count: int) -> dict[str, object]:
    """Alternatives that each require two members of their own and forbid nothing. Exactly one of them must hold."""
    kinds = [{"required": [f"a{at}", f"b{at}"]} for at in range(count)]
    names = [f"{letter}{at}" for letter in "ab" for at in range(count)]
    return {"type": "object", "properties": {name: {"type": "null"} for name in names}, "oneOf": kinds}


@pytest.mark.parametrize("order", ["any", "declared"])
def test_many_alternatives_are_answered_after_each_member(order: Literal["any", "declared"]) -> None:
    """One member of each pair is present. Once one pair is complete, no other pair may become complete."""
    matcher = GrammarMatcher(byte_compiler().compile_json_schema(exactly_one(40), property_order=order))
    rng = random.Random(1)
    written = [f"{'a' if order == 'declared' else rng.choice('ab')}{at}" for at in range(39)]
    others = [f"{'b' if name[0] == 'a' else 'a'}{name[1:]}" for name in written]
    assert matcher.accept_string("{" + ", ".join(f'"{name}": null' for name in written))
    assert not matcher.fork().accept_string("}")
    assert all(matcher.fork().accept_string(f', "{name}": null') for name in others)
    assert matcher.accept_string(f', "{others[0]}": null')
    assert matcher.fork().accept_string("}")
    assert not any(matcher.fork().accept_string(f', "{name}": null') for name in others[1:])
    assert matcher.accept_string(', "b39": null')
    assert not matcher.accept_string(', "a39": null')


def test_the_error_of_a_fixed_bound_has_advice() -> None:
    """Members with the same spelling: it is unknown which of them are present, and there are too many sets of them."""
    members = tuple(Member(Text("x")) for _ in range(22))
    matcher = GrammarMatcher(byte_compiler().compile_grammar(Grammar({"start": Permutation(members, Text(","), 1)})))
    with pytest.raises(LimitExceeded, match="can be read in that many ways") as error:
        matcher.accept_string("x," * 11)
    assert error.value.fixed
