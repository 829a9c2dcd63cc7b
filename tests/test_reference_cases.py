"""Reference and brute force on cases with known answers: ends, control tokens, refusals, bounds, permutations."""

from __future__ import annotations

import pytest

from guided.automaton.reference.language import Language
from guided.automaton.reference.token_masks import ReferenceGrammar, accepts, viable
from guided.errors import LimitExceeded, SpecError, UnsupportedError, VocabularyError
from guided.ir.nodes import (
    ANY_CHAR,
    EMPTY,
    EPSILON,
    Alt,
    And,
    Encoded,
    Grammar,
    Length,
    Member,
    Node,
    Not,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Text,
)
from tests.brute_force import HEX, TOY, Outputs, fewest_tokens, language


def follow(reference: ReferenceGrammar, tokens: list[int]):
    state = reference.initial()
    for token in tokens:
        state = reference.accept_token(state, token)
        if state is None:
            return None
    return state


def test_ends_terminate():
    reference = ReferenceGrammar(Grammar({"start": Text("a")}), [b"a", b"b", None, b""], {7, 2})
    start = reference.initial()
    assert reference.mask(start) == {0} and reference.min_tokens(start) == 2
    done = reference.accept_token(start, 0)
    assert reference.mask(done) == {2, 7} == reference.budget_mask(done, 1) and reference.budget_mask(done, 0) == set()
    ended = reference.accept_token(done, 7)
    assert reference.is_accepting(ended) and reference.is_terminated(ended) and not reference.is_terminated(done)
    assert reference.mask(ended) == {2, 7} == reference.budget_mask(ended, 1) and reference.min_tokens(ended) == 0
    assert reference.accept_token(ended, 2) is ended and reference.step(ended, 97) is None
    assert reference.accept_token(ended, 0) is None


def test_bytes_in_longer_tokens_only():
    nest = Alt((Seq((Text("("), Ref("start"), Text(")"))), Text("x")))
    texts = [b"((", b"x", b")", b"("]
    reference = ReferenceGrammar(Grammar({"start": nest}), texts, {9})
    assert reference.mask(reference.initial()) == {0, 1, 3}
    even = Grammar({"start": Seq((Repeat(Text("a"), 0, None), Repeat(Text("b"), 1, 1)))})
    reference = ReferenceGrammar(even, [b"aa", b"ab", b"b", b"aaa"], {9})
    assert reference.mask(reference.initial()) == {0, 1, 2, 3}
    odd = Grammar({"start": Seq((Repeat(Text("aa"), 0, None), Text("b")))})
    reference = ReferenceGrammar(odd, [b"aaa", b"ab", b"c"], {9})
    assert reference.mask(reference.initial()) == {0}, "aaa ab"
    assert reference.mask(follow(reference, [0])) == {0, 1}
    with pytest.raises(VocabularyError):
        ReferenceGrammar(odd, [b"aa", b"cb"], {9})


def test_control_tokens():
    grammar = Grammar({"start": Seq((Special("<s>"), Text("<s>"), Special(0)))})
    reference = ReferenceGrammar(grammar, [b"<s>", b"<", b"s", b">", b"<s>"], {9}, {4: "<s>"})
    assert reference.mask(reference.initial()) == {4}
    assert reference.mask(follow(reference, [4])) == {0, 1}, "a plain token that is named stays text elsewhere"
    assert reference.mask(follow(reference, [4, 1, 2, 3])) == {0}
    assert reference.mask(follow(reference, [4, 0, 0])) == {9}
    for token in ("<t>", 12, -1):
        with pytest.raises(VocabularyError):
            ReferenceGrammar(Grammar({"start": Alt((Special(token), Text("<")))}), [b"<"], {9}, {4: "<s>"})


def test_states_meet_again():
    loop = Grammar({"start": Alt((Seq((Ref("start"), Text("a"))), Seq((Text("b"), Ref("start"))), EPSILON))})
    language = Language(loop)
    state = language.start
    states = set()
    for byte in b"bab" * 20:
        state = language.step(state, byte) or language.start
        states.add(state)
    assert len(states) < 6


@pytest.mark.parametrize(
    "item",
    [
        EMPTY,
        And((Text("a"), Text("b"))),
        And((Text("ba"), Text("bb"))),
        Repeat(Text("a"), 2, 1),
        Ref("start"),
        Seq((Text("a"), Ref("start"))),
        Length(ANY_CHAR, 2, None),
    ],
)
def test_empty_languages_are_refused(item):
    with pytest.raises(SpecError):
        ReferenceGrammar(Grammar({"start": item}), [b"a", b"b"], {9})
    assert not viable(Grammar({"start": item}), b"")


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (Ref("nowhere"), SpecError),
        (Not(Ref("nowhere")), SpecError),
        (Not(Ref("start")), SpecError),
        (Not(Special(1)), SpecError),
        (Encoded(Permutation((), EPSILON), HEX), SpecError),
        (Not(Encoded(Text("a"), HEX)), UnsupportedError),
        (Permutation((Member(EPSILON),), EPSILON), SpecError),
    ],
)
def test_malformed_grammars_are_refused(item, error):
    with pytest.raises(error):
        Language(Grammar({"start": item}))
    with pytest.raises(SpecError):
        Language(Grammar({"other": EPSILON}))


@pytest.mark.parametrize("wrap", [lambda item: Seq((item,)), lambda item: Not(item), lambda item: Encoded(item, HEX)])
def test_deep_nesting_is_refused(wrap):
    node: Node = Text("a")
    for _ in range(400):
        node = wrap(node)
    with pytest.raises((LimitExceeded, UnsupportedError)):
        Language(Grammar({"start": node}))


def test_wide_boolean_rules_are_refused():
    rules: dict[str, Node] = {f"r{i}": Seq((Ref(f"r{i + 1}"), Ref(f"r{i + 1}"))) for i in range(40)}
    with pytest.raises(LimitExceeded):
        Language(Grammar({**rules, "r40": ANY_CHAR, "start": Not(Ref("r0"))}))


def test_large_bounds():
    grammar = Grammar({"start": Seq((Repeat(ANY_CHAR, 3, 1_000_000), Repeat(Ref("x"), 0, 10**9))), "x": Text("xy")})
    assert accepts(grammar, "€".encode() * 3) and not accepts(grammar, b"ab") and viable(grammar, b"")
    counted = Grammar({"start": Length(Repeat(ANY_CHAR, 0, None), 2, 1000)})
    assert accepts(counted, b"a" * 1000) and not viable(counted, b"a" * 1001)
    window = Grammar({"start": Encoded(Length(Not(Text("ab")), 2, 2), TOY)})
    assert accepts(window, b"!b!a") and not accepts(window, b"ab") and accepts(window, "!cbé".encode())
    assert not accepts(window, b"!a!b"), "a b is excluded, all other readings are longer"
    assert accepts(Grammar({"start": Encoded(Length(Not(Text("ab")), 2, 3), TOY)}), b"!a!b"), "! a b"


def test_invalid_utf8_is_in_no_language():
    anything = Grammar({"start": Not(EMPTY)})
    for data in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xe0\x80\x80"):
        assert not viable(anything, data)
    for data in (b"\xf4\x8f\xbf\xbf", b"\xed\x9f\xbf", b"\xee\x80\x80"):
        assert accepts(anything, data) and viable(anything, data[:-1]) and not accepts(anything, data[:-1])


def test_permutation_counts():
    members = (Member(Text("a"), required=True), Member(Text("b"), required=True, repeatable=True), Member(Text("c")))
    grammar = Grammar({"start": Permutation(members, Text(","), 3, 4)})
    yes = [b"a,b,c", b"b,b,a", b"c,b,b,a", b"b,a,b,b"]
    no = [b"a,b", b"a,a,b", b"b,b,b", b"a,b,c,", b"b,b,b,b", b"a,b,b,b,b", b"a,c,c,b", b"a,,b,c", b""]
    assert all(accepts(grammar, data) for data in yes) and not any(accepts(grammar, data) for data in no)
    assert not viable(grammar, b"b,b,b,b") and not viable(grammar, b"b,b,b,c") and viable(grammar, b"b,b,b,")


def test_members_that_cannot_be_written():
    def empty(*members: Member, separator: Node = EPSILON, low: int = 0, high: int | None = None) -> bool:
        return Language(Grammar({"start": Permutation(members, separator, low, high)})).start is None

    a, b, never = Member(Text("a")), Member(Text("b"), repeatable=True), Member(EMPTY, repeatable=True)
    assert empty(a, low=2) and not empty(a, b, low=9) and empty(a, never, low=2) and not empty(a, never, low=1)
    assert empty(a, Member(EMPTY, required=True)) and empty(low=1) and not empty() and empty(a, low=2, high=1)
    assert not empty(a, b, separator=EMPTY, low=1) and empty(a, b, separator=EMPTY, low=2)
    assert empty(Member(Text("a"), True), Member(Text("b"), True), low=0, high=1)
    alone = Grammar({"start": Permutation((a, b), EMPTY)})
    assert accepts(alone, b"") and accepts(alone, b"b") and not viable(alone, b"ab")


def test_outputs_of_the_oracle():
    """The brute force itself, on cases with known answers."""
    expression = Alt((Seq((Ref("start"), Text("a"), Ref("start"))), Text("b")))
    assert {bytes(output) for output in Outputs(Grammar({"start": expression}), b"ab", 5).found["start"]} == {
        b"b", b"bab", b"babab"}  # fmt: skip
    assert {bytes(output) for output in language(Grammar({"start": Encoded(Text("é"), TOY)}), "é!cb".encode(), 3)} == {
        "é".encode(), b"!cb"}  # fmt: skip
    assert fewest_tokens(tuple(b"aab"), [b"a", b"ab", b"b"]) == 2 and fewest_tokens((97,), [b"aa"]) is None
