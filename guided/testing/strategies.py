"""Hypothesis strategies for a specification: its texts, and texts just outside it.

    from hypothesis import given
    from guided.testing import near_misses, sentences

    @given(sentences(SCHEMA))
    def test_my_parser_reads_all_of_it(text): ...

    @given(near_misses(SCHEMA))
    def test_my_parser_refuses_the_rest(text): ...

In: a constraint. Out: strategies for str. How: a sentence is a walk through the states of the language. At each byte
that is not forced, hypothesis chooses among the bytes after which the text can still be short enough. The choices are
sorted: the end comes first, then the bytes by the length of their shortest completion. If these lengths are equal,
letters and digits come first. So hypothesis shrinks to short and simple texts. A near miss is a sentence with one
change that the specification refuses.
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

_MAX_PAIRS = 1000  # pairs of states to search for a text that is refused
_MAX_CHARACTER_BYTES = 4  # bytes of UTF-8
_CHARACTERS = st.one_of(
    st.characters(exclude_categories=["Cs"]), st.sampled_from(" \n")
)  # any character, and often whitespace, which parsers overlook


def sentences(constraint: Constraint, *, max_length: int = 100, **options: Any) -> SearchStrategy[str]:
    """Texts that the specification allows, of at most `max_length` bytes.

    Raises:
        SpecError, UnsupportedError: the specification is invalid. BudgetError: no text is short enough.
        OptionError: `max_length` is out of range.
    """
    check_integer("max_length", max_length, minimum=0)
    language = Language(over_bytes(constraint, **options))
    if (shortest_length := language.completion_length(language.start)) > max_length:
        raise BudgetError(shortest_length, max_length)
    return _draw_sentence(language, max_length)


def near_misses(constraint: Constraint, *, max_length: int = 100, **options: Any) -> SearchStrategy[str]:
    """Texts that the specification refuses, one change away from an allowed text: a character is removed, doubled,
    replaced, inserted, appended or changed in case, two characters are swapped, or the end is cut off.

    Arguments and errors: see `sentences`. In addition:

    Raises:
        GuidedError: there is no near miss, because all texts, or all that are short enough, are allowed. For a
            language that is not regular, this may remain unknown; hypothesis then reports that it found no example.
    """
    grammar = over_bytes(constraint, **options)
    check_integer("max_length", max_length, minimum=0)
    _check_near_misses_exist(grammar, max_length)
    return _draw_changed_text(sentences(grammar, max_length=max_length)).filter(
        lambda text: not _is_allowed(grammar, text)
    )


def _check_near_misses_exist(grammar: CompiledGrammar, max_length: int) -> None:
    """Raise a GuidedError if no short enough text is refused."""
    try:
        example = subset("(?s:.*)", grammar, max_pairs=_MAX_PAIRS)
    except LimitExceeded:  # unknown: let hypothesis search
        return
    if example is None:
        raise GuidedError("every text is allowed: there is no near miss")
    if len(example.data) > max_length + _MAX_CHARACTER_BYTES:
        raise GuidedError(
            f"the shortest text that is refused has {len(example.data)} bytes: texts of at most {max_length} bytes "
            "have no near miss; set a larger max_length"
        )


@st.composite
def _draw_sentence(draw: DrawFn, language: Language, max_length: int) -> str:
    state, data = language.start, bytearray()
    while True:
        bytes_left = max_length - len(data)
        choices = [byte for byte, min_bytes in language.sorted_moves(state) if min_bytes < bytes_left]
        end_choices = [None] if language.accepts(state) else []
        byte = (
            draw(st.sampled_from(end_choices + choices))
            if len(end_choices) + len(choices) > 1
            else (end_choices + choices)[0]
        )
        if byte is None:
            return data.decode()
        state = language.moves(state)[byte]
        data.append(byte)


@st.composite
def _draw_changed_text(draw: DrawFn, texts: SearchStrategy[str]) -> str:
    text = draw(texts)
    change = draw(
        st.sampled_from(("truncate", "remove", "double", "replace", "change case", "append", "insert", "swap"))
    )
    position = draw(st.integers(0, max(0, len(text) - 1)))
    character = draw(_CHARACTERS) if change in ("replace", "append", "insert") else ""
    match change:
        case "truncate":
            return text[:position]
        case "remove":
            return text[:position] + text[position + 1 :]
        case "double":
            return text[: position + 1] + text[position:]
        case "replace":
            return text[:position] + character + text[position + 1 :]
        case "change case":
            return text[:position] + text[position : position + 1].swapcase() + text[position + 1 :]
        case "append":
            return text + character
        case "insert":
            return text[:position] + character + text[position:]
    return text[:position] + text[position : position + 2][::-1] + text[position + 2 :]


def _is_allowed(grammar: CompiledGrammar, text: str) -> bool:
    matcher = GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()
