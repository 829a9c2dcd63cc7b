"""Pattern tuples: the classes of a vocabulary of 65 characters, and the language compared with `re`."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.automaton.reference.token_masks import ReferenceGrammar, accepts
from guided.errors import SpecError
from guided.frontends.pattern import CLASS_NAMES, pattern_to_grammar
from guided.ir.nodes import Chars

CHARACTERS = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
NAME_LINE = [("UPPER", "+"), (":", "1"), (" ", "1"), ("LOWER", "+"), ("\n", "1")]


def _tokens(ids):
    return "".join(CHARACTERS[i] for i in sorted(ids))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("UPPER", 26),
        ("LOWER", 26),
        ("DIGIT", 1),
        ("NEWLINE", 1),
        ("SPACE", 1),
        ("PUNCT", 10),
        ("LETTER", 52),
        ("ANY", 65),
    ],
)
def test_classes_over_65_characters(name, count):
    assert len(CHARACTERS) == 65
    node = pattern_to_grammar([(name, "1")]).rules["start"].items[0]
    assert isinstance(node, Chars)
    assert sum(any(low <= ord(c) <= high for low, high in node.ranges) for c in CHARACTERS) == count


def test_name_line_masks():
    """The masks along `HE: a` equal those of the machine with six states, but every state may be left at once."""
    tokens = [c.encode() for c in CHARACTERS]
    grammar = ReferenceGrammar(pattern_to_grammar(NAME_LINE), [*tokens, None], [65])
    upper, lower = CHARACTERS[13:39], CHARACTERS[39:]
    state, seen = grammar.initial(), []
    for char in "HE: a\n":
        seen.append(_tokens(grammar.mask(state)))
        state = grammar.accept_token(state, CHARACTERS.index(char))
    assert seen == [upper, ":" + upper, ":" + upper, " ", lower, "\n" + lower]
    assert grammar.mask(state) == {65}


def test_overlap_and_trailing_plus():
    grammar = pattern_to_grammar([("UPPER", "+"), ("A", "1")])
    assert [accepts(grammar, t.encode()) for t in ("BA", "AA", "A", "ABBA", "AB")] == [True, True, False, True, False]
    grammar = pattern_to_grammar([("a", "+")])
    assert [accepts(grammar, b"a" * n) for n in range(4)] == [False, True, True, True]


_GIVEN = {"V": "ae", "C": {"b", "c"}, "W": [" "]}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([*_GIVEN, "a", "b", "€"]), st.sampled_from("1+")), min_size=1, max_size=5),
    st.lists(st.text("abce €", max_size=6), max_size=8),
)
def test_language_against_re(elements, texts):
    pattern = "".join(f"[{''.join(_GIVEN.get(name, name))}]{q.strip('1')}" for name, q in elements)
    grammar = pattern_to_grammar(elements, _GIVEN)
    likely = "".join(sorted(_GIVEN.get(name, name))[0] for name, _ in elements)
    for text in [*texts, likely]:
        assert accepts(grammar, text.encode()) == bool(re.fullmatch(pattern, text))


@pytest.mark.parametrize(
    ("elements", "classes", "message", "pointer", "hint"),
    [
        ([], None, "the pattern has no elements", "", 'write at least one, such as ("LETTER", "+")'),
        (["UPPER"], None, "element 0 is not a pair of strings", "/0", 'write ("UPPER", "+") or (":", "1")'),
        ([("UPPER", 1)], None, "element 0 is not a pair of strings", "/0", 'write ("UPPER", "+") or (":", "1")'),
        ([("a", "1"), ("UPER", "+")], None, "element 1: 'UPER' is neither a class nor one character", "/1/0",
         "did you mean 'UPPER'?"),
        ([("xyz", "1")], None, "element 0: 'xyz' is neither a class nor one character", "/0/0",
         f"the classes are {', '.join(CLASS_NAMES)}; write longer texts character by character"),
        ([("a", "*")], None, "element 0: the quantifier '*' is unknown", "/0/1", 'write "1" or "+"'),
        ([("\ud800", "1")], {"X": "a"}, "element 0: '\\ud800' is neither a class nor one character", "/0/0",
         "the classes are X; write longer texts character by character"),
        ([("X", "1")], {"X": ""}, "class 'X' has no characters", "", "give at least one; lone surrogates do not count"),
        ([("X", "1")], {"X": ["ab"]}, "class 'X': 'ab' is not one character", "",
         "give a string or a set of characters"),
    ],
)  # fmt: skip
def test_refusals(elements, classes, message, pointer, hint):
    with pytest.raises(SpecError) as caught:
        pattern_to_grammar(elements, classes)
    assert (caught.value.message, caught.value.pointer, caught.value.hint) == (message, pointer, hint)
