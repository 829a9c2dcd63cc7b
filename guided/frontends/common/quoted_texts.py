"""Builds the language of quotations: the substrings of some documents. In: the documents. Out: nodes of the IR.

With whitespace "normalised", each run of whitespace in a document is written as one space. So a quotation may span
several lines of a document.

Cost: linear in the documents. A minimum of n words is an intersection with an automaton that counts to n. This makes
the core's automaton about n times as large, which `Limits.states` bounds.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from guided.close_names import find_closest_name
from guided.errors import SpecError, brief
from guided.frontends.regex import parse_regex
from guided.ir.nodes import And, Substrings
from guided.ir.ranges import has_surrogate

__all__ = [
    "WHITESPACE",
    "OriginalOffsets",
    "Whitespace",
    "check_documents",
    "has_words",
    "normalise",
    "quotation_node",
    "with_min_words",
    "without_document_texts",
]

Whitespace: TypeAlias = Literal["exact", "normalised"]
WHITESPACE: Final = ("exact", "normalised")
_WHITESPACE_RUN: Final = re.compile(r"\s+")
_LONG_WHITESPACE_RUN: Final = re.compile(r"\s{2,}")


def normalise(text: str) -> str:
    """The text with one space for each run of whitespace."""
    return _WHITESPACE_RUN.sub(" ", text)


def quotation_node(documents: Mapping[Any, str], whitespace: str = "exact", words: bool = False) -> Substrings:
    """The quotations from some documents, each at least one character long.

    Args:
        documents: name -> text.
        whitespace: "exact" or "normalised".
        words: whether a quotation may neither begin nor end inside a word or with whitespace.

    Raises:
        SpecError: there is no document, a document is empty or contains a surrogate, or an option is unknown.
    """
    if whitespace not in WHITESPACE:
        similar_name = find_closest_name(whitespace, WHITESPACE)
        hint = f"did you mean {similar_name!r}?" if similar_name else f"one of {', '.join(WHITESPACE)}"
        raise SpecError(f"whitespace={brief(whitespace)} is unknown for a quotation", hint=hint)
    if not isinstance(words, bool):
        raise SpecError(f"words={brief(words)} for a quotation must be True or False")
    if not documents:
        raise SpecError("there is no document to quote from", hint="give at least one text")
    texts = tuple(map(normalise, documents.values()) if whitespace == "normalised" else documents.values())
    return Substrings(texts, words)


def has_words(text: str, min_words: int) -> bool:
    """Whether a text has at least `min_words` words, which are runs of characters without whitespace."""
    return not min_words or len(text.split()) >= min_words


def with_min_words(quotations: Substrings, min_words: int) -> Substrings | And:
    """The quotations that have at least `min_words` words. A part of a word at either end counts as a word.

    Raises:
        SpecError: `min_words` is not a number of words, or no document has that many.
    """
    if isinstance(min_words, bool) or not isinstance(min_words, int) or min_words < 0:
        raise SpecError(f"min_words={brief(min_words)} for a quotation must be a number of words", hint="such as 3")
    if not min_words:
        return quotations
    max_words = max(len(text.split()) for text in quotations.texts)
    if min_words > max_words:
        raise SpecError(f"no document has {brief(min_words)} words", hint=f"the longest has {max_words}")
    return And((quotations, parse_regex(rf"\s*(\S+\s+){{{min_words - 1}}}\S[\s\S]*")))


def check_documents(documents: Mapping[Any, Any] | None, *, numbered: bool = False) -> dict[Any, str]:
    """Check a mapping from names to texts, and return a copy. `numbered`: the names are numbers.

    Raises:
        SpecError: it is not a mapping, a name is not a string, or a text is not a string, is empty, or contains a
            surrogate.
    """
    if documents is None:
        return {}
    hint = 'write {"report": "the text ..."}'
    if not isinstance(documents, Mapping):
        raise SpecError(f"documents must be a mapping from names to texts, not a {type(documents).__name__}", hint=hint)
    for name, text in documents.items():
        if not numbered and not isinstance(name, str):
            raise SpecError(f"the name of a document is {brief(name)}, not a string", hint=hint)
        if not isinstance(text, str):
            raise SpecError(f"document {brief(name)} is a {type(text).__name__}, not a string", hint="decode it")
        if not text:
            raise SpecError(f"document {brief(name)} is empty, so nothing can be quoted from it", hint="leave it out")
        if has_surrogate(text):
            raise SpecError(f"document {brief(name)} contains a lone surrogate, which cannot occur in a text")
    return dict(documents)


class OriginalOffsets:
    """Maps offsets in a normalised text to offsets in the original one."""

    def __init__(self, text: str) -> None:
        self._run_offsets: list[int] = []  # the offsets of long runs in the normalised text
        self._removed_counts = [0]  # characters removed up to the end of each of these runs; 0 before the first
        for run in _LONG_WHITESPACE_RUN.finditer(text):
            self._run_offsets.append(run.start() - self._removed_counts[-1])
            self._removed_counts.append(self._removed_counts[-1] + len(run[0]) - 1)

    def __getitem__(self, offset: int) -> int:
        return offset + self._removed_counts[bisect_left(self._run_offsets, offset)]


def without_document_texts(schema: Any) -> Any:
    """A copy of a JSON Schema for a prompt: `x-guided-quote` names its documents and does not contain their texts."""
    if isinstance(schema, list):
        return [without_document_texts(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    out = {key: without_document_texts(value) for key, value in schema.items()}
    quote = out.get("x-guided-quote")
    if isinstance(quote, dict) and isinstance(quote.get("documents"), dict):
        quote["documents"] = list(quote["documents"])
    return out
