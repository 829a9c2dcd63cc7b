"""hypothesis strategies of a specification: its texts, and texts just outside of it.

    from hypothesis import given
    from guided.testing import near_misses, sentences

    @given(sentences(SCHEMA))
    def test_my_parser_reads_all_of_it(text): ...

    @given(near_misses(SCHEMA))
    def test_my_parser_refuses_the_rest(text): ...

In: a constraint. Out: strategies of str. How: a sentence is a walk through the states of the language, a choice at each
byte that is not forced, among those after which a text is still short enough. Of the choices the end comes first, then
what leads to shorter texts, then letters and digits: so hypothesis shrinks to short and plain texts. A near miss is a
sentence with one change, that the specification refuses.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from guided.errors import BudgetError, GuidedError, LimitExceeded
from guided.keywords import check_integer
from guided.matching.compiled import CompiledGrammar
from guided.matching.constraint import Constraint
from guided.matching.matcher import GrammarMatcher
from guided.testing.comparing import subset
from guided.testing.language import Language, over_bytes

__all__ = ["near_misses", "sentences"]

_MOST_PAIRS = 1000  # of states that are searched for a text that is refused
_LONGEST_CHARACTER = 4  # bytes of UTF-8
_OTHERS = st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" \n"))  # what parsers often overlook


def sentences(constraint: Constraint, *, max_length: int = 100, **options: Any) -> SearchStrategy[str]:
    """Texts that the specification allows, of at most `max_length` bytes.

    Raises:
        SpecError, UnsupportedError: the specification. BudgetError: none of its texts is so short.
        OptionError: `max_length` is no length.
    """
    check_integer("max_length", max_length, least=0)
    language = Language(over_bytes(constraint, **options))
    if (shortest := language.least(language.start)) > max_length:
        raise BudgetError(shortest, max_length)
    return _sentences(language, max_length)


def near_misses(constraint: Constraint, *, max_length: int = 100, **options: Any) -> SearchStrategy[str]:
    """Texts that the specification refuses, one change away from one that it allows: a character is left out, written
    twice, replaced, put in or added at the end, two change places, or the end is cut off.

    Arguments and errors are those of `sentences`; and

    Raises:
        GuidedError: there is none, because every text is allowed, or every one that is short enough. Of a language that
            is not regular this may stay unknown; hypothesis then says that it found no example.
    """
    grammar = over_bytes(constraint, **options)
    check_integer("max_length", max_length, least=0)
    _check_refuses(grammar, max_length)
    return _changed(sentences(grammar, max_length=max_length)).filter(lambda text: not _allows(grammar, text))


def _check_refuses(grammar: CompiledGrammar, max_length: int) -> None:
    """Raise a GuidedError where no text that is short enough is refused."""
    try:
        found = subset("(?s:.*)", grammar, max_pairs=_MOST_PAIRS)
    except LimitExceeded:  # then some are looked for
        return
    if found is None:
        raise GuidedError("every text is allowed: there is no near miss")
    if len(found.data) > max_length + _LONGEST_CHARACTER:
        raise GuidedError(
            f"the shortest text that is refused has {len(found.data)} bytes: texts of at most {max_length} bytes have "
            "no near miss; give a larger max_length"
        )


@st.composite
def _sentences(draw: DrawFn, language: Language, max_length: int) -> str:
    state, out = language.start, bytearray()
    while True:
        room = max_length - len(out)
        ways = [byte for byte, least in language.ways(state) if least < room]
        ends = [None] if language.accepts(state) else []
        byte = draw(st.sampled_from(ends + ways)) if len(ends) + len(ways) > 1 else (ends + ways)[0]
        if byte is None:
            return out.decode()
        state = language.moves(state)[byte]
        out.append(byte)


@st.composite
def _changed(draw: DrawFn, texts: SearchStrategy[str]) -> str:
    text = draw(texts)
    change = draw(st.sampled_from(("cut", "leave out", "twice", "replace", "add", "put in", "swap")))
    at = draw(st.integers(0, max(0, len(text) - 1)))
    other = draw(_OTHERS) if change in ("replace", "add", "put in") else ""
    match change:
        case "cut":
            return text[:at]
        case "leave out":
            return text[:at] + text[at + 1 :]
        case "twice":
            return text[: at + 1] + text[at:]
        case "replace":
            return text[:at] + other + text[at + 1 :]
        case "add":
            return text + other
        case "put in":
            return text[:at] + other + text[at:]
    return text[:at] + text[at : at + 2][::-1] + text[at + 2 :]


def _allows(grammar: CompiledGrammar, text: str) -> bool:
    matcher = GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()
