"""Quotations: text that occurs verbatim in a document, with its offsets there.

    class Answer(BaseModel):
        claim: str
        source: Annotated[str, guided.Quote(document)]

    "According to the report, \u201c" + guided.Quote(document) + "\u201d"

In: documents. Out: a `Quote`: a part of a composed specification, a constraint by itself, or a constraint of a string
type. `Quote.find` locates a quotation in the documents.

Cost: linear in the documents when the specification is compiled (`ir.Substrings`), and for each search.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from guided.errors import brief
from guided.frontends.combinators import NodePart
from guided.frontends.common.quoted_texts import (
    OriginalOffsets,
    Whitespace,
    check_documents,
    has_words,
    normalise,
    quotation_node,
    with_min_words,
)
from guided.frontends.python_types.string_types import StringConstraint
from guided.frontends.python_types.type_parts import name_of
from guided.ir.nodes import Substrings
from guided.ir.substrings import is_substring, occurrences

__all__ = ["Quote", "QuoteLocation"]


class QuoteLocation(NamedTuple):
    """A place in a document: `text[start:end]`.

    Attributes:
        document: its name, or its position among the arguments of `Quote`.
        start, end: offsets in characters.
    """

    document: Any
    start: int
    end: int


class Quote(NodePart, StringConstraint):
    """A text of at least one character that occurs verbatim in a document.

    As a constraint, or as a part of a composed specification, it allows exactly such texts. In
    `Annotated[str, Quote(document)]`, it constrains the string, however JSON spells it; the value is an ordinary `str`.
    """

    __slots__ = ("_offsets", "_texts", "documents", "min_words", "whitespace", "words")

    documents: Mapping[Any, str]
    whitespace: Whitespace
    words: bool
    min_words: int
    _texts: Substrings
    _offsets: dict[Any, OriginalOffsets]

    def __init__(
        self,
        *documents: str | Mapping[str, str],
        whitespace: Whitespace = "exact",
        words: bool = False,
        min_words: int = 0,
    ) -> None:
        """
        Args:
            documents: texts, or one mapping from names to texts.
            whitespace: "exact", or "normalised": each run of whitespace in a document is quoted as one space.
            words: if true, a quotation does not begin or end inside a word, or with whitespace.
            min_words: the minimum number of words, which are runs of characters that are not whitespace, as in
                `str.split`. Only the quotation is split, not the document. So punctuation counts as a word if the
                quotation cuts off the word next to it. Without `words=True`, so does a part of a word.

        Raises:
            SpecError: there is no document, no document has `min_words` words, or a document is not a text, is empty
                or contains a surrogate.
        """
        if len(documents) == 1 and isinstance(documents[0], Mapping):
            texts = check_documents(documents[0])
        else:
            texts = check_documents(dict(enumerate(documents)), numbered=True)
        node = quotation_node(texts, whitespace, words)
        NodePart.__init__(self, with_min_words(node, min_words))
        options = {"whitespace": whitespace, "words": words, "min_words": min_words}
        values = {"documents": texts, **options, "_texts": node, "_offsets": {}}
        for name, value in values.items():
            object.__setattr__(self, name, value)  # parts of specifications are frozen

    def __reduce__(self) -> tuple[Any, ...]:
        """How `copy` and `pickle` make another object: they call the constructor."""
        is_named = all(isinstance(name, str) for name in self.documents)
        make = partial(type(self), whitespace=self.whitespace, words=self.words, min_words=self.min_words)
        return make, (dict(self.documents),) if is_named else tuple(self.documents.values())

    def __repr__(self) -> str:
        return f"Quote({', '.join(brief(text) for text in self.documents.values())})"

    def find(self, text: str) -> list[QuoteLocation]:
        """Where a quotation occurs, in the order of the documents; an empty list if `text` is not a quotation.

        Occurrences may overlap. With whitespace "normalised", the offsets are those of the original document, and
        `text` may be spelled with any whitespace.
        """
        if not isinstance(text, str):
            raise TypeError(f"a quotation is a string, not a {type(text).__name__}")
        quotation = self._normalise(text)
        if not has_words(quotation, self.min_words):
            return []
        names = list(self.documents)
        return [
            self._location(names[number], start, start + len(quotation))
            for number, start in occurrences(self._texts, quotation)
        ]

    def _normalise(self, text: str) -> str:
        return normalise(text) if self.whitespace == "normalised" else text

    def _location(self, name: Any, start: int, end: int) -> QuoteLocation:
        if self.whitespace == "exact":
            return QuoteLocation(name, start, end)
        if name not in self._offsets:
            self._offsets[name] = OriginalOffsets(self.documents[name])
        offsets = self._offsets[name]
        return QuoteLocation(name, offsets[start], offsets[end])

    # --- a constraint of strings

    def keywords(self) -> dict[str, Any]:
        """The keywords of JSON Schema for this constraint."""
        value: dict[str, Any] = {"documents": {str(name): text for name, text in self.documents.items()}}
        if self.whitespace != "exact":
            value["whitespace"] = self.whitespace
        if self.words:
            value["words"] = True
        if self.min_words:
            value["minWords"] = self.min_words
        return {"x-guided-quote": value}

    def problem(self, text: str) -> str:
        """What is wrong with a string; "" if it is a quotation."""
        if not is_substring(self._texts, text):
            return "does not occur in the documents"
        return "" if has_words(text, self.min_words) else f"has fewer than {self.min_words} words"

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        strings = inner = handler(source)
        while (inner := handler.resolve_ref_schema(inner))["type"] in ("function-after", "function-before"):
            inner = inner["schema"]  # under a validator, such as the one of another Quote
        if inner["type"] != "str":
            raise self.refusal(name_of(source))
        return core_schema.no_info_after_validator_function(self._validate, strings)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return self.add_to(handler(schema))

    def _validate(self, text: Any) -> str:
        if not isinstance(text, str):
            raise ValueError(f"{brief(text)} is not a string")
        if problem := self.problem(text):
            raise ValueError(f"{brief(text)} {problem}")
        return text
