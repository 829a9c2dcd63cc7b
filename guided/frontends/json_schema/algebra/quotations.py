"""`x-guided-quote`: a string that occurs verbatim in a document. In: the keyword's value. Out: a node of the IR.

    "x-guided-quote": "report"                                    the document of this name
    "x-guided-quote": ["report", "minutes"]                       one of these
    "x-guided-quote": {"documents": "report", "minWords": 3}      with options
    "x-guided-quote": {"documents": {"report": "In May ..."}}     with the text itself

The caller passes the documents by name. The options are those of `guided.Quote`. Like `pattern`, the keyword constrains
strings only.

Cost: equal values of the keyword share one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from guided.close_names import close_name
from guided.errors import SpecError, brief
from guided.frontends.common.quoted_texts import checked_documents, quotation_node, with_min_words
from guided.frontends.json_schema.documents.malformed import malformed
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Json, count_of
from guided.ir.nodes import And, Substrings

__all__ = ["Quotations"]

_KEYWORD: Final = "x-guided-quote"
_FIELDS: Final = ("documents", "whitespace", "words", "minWords")
_FORMS: Final = "the name of a document, a list of names, or an object"


class Quotations:
    """Reads the keyword in the schemas of one compilation. `documents`: name -> text."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        self._documents = documents
        self._nodes: dict[Substrings | And, Substrings | And] = {}

    def read(self, schema: Schema) -> Substrings | And:
        """The strings that the keyword of a schema allows."""
        value = schema.get(_KEYWORD)
        try:
            if not isinstance(value, dict):
                node: Substrings | And = quotation_node(self._texts(schema, value))
            else:
                node = self._with_options(schema, value)
        except SpecError as error:
            if not error.pointer:
                error.pointer = schema.at(_KEYWORD)
            raise
        return self._nodes.setdefault(node, node)

    def _with_options(self, schema: Schema, value: dict[str, Json]) -> Substrings | And:
        for name in value:
            if name not in _FIELDS:
                close = close_name(name, _FIELDS)
                hint = f"did you mean {close!r}?" if close else f"the fields are {', '.join(_FIELDS)}"
                raise SpecError(f"{_KEYWORD} has no field {brief(name)}", pointer=schema.at(_KEYWORD, name), hint=hint)
        texts = self._texts(schema, value.get("documents"), "documents")
        words, whitespace = value.get("words", False), value.get("whitespace", "exact")
        if not isinstance(whitespace, str):
            raise malformed(schema, _KEYWORD, "a name", whitespace, "whitespace", hint="exact or normalised")
        if not isinstance(words, bool):
            raise malformed(schema, _KEYWORD, "true or false", words, "words", hint="leave it out")
        least = count_of(value["minWords"]) if "minWords" in value else 0
        if least is None:
            raise malformed(schema, _KEYWORD, "a number of words", value["minWords"], "minWords", hint="such as 3")
        node = quotation_node(texts, whitespace, words)
        try:
            return with_min_words(node, least)
        except SpecError as error:
            error.pointer = schema.at(_KEYWORD, "minWords")
            raise

    def _texts(self, schema: Schema, value: Json, *at: str) -> dict[str, str]:
        """The documents that a value names or contains. `at`: its location in the keyword."""
        if isinstance(value, dict):
            return checked_documents(value)
        names = value if isinstance(value, list) else [value]
        if not names or not all(isinstance(name, str) for name in names):
            raise malformed(schema, _KEYWORD, _FORMS, value, *at)
        for number, name in enumerate(names):
            if name not in self._documents:
                where = schema.at(_KEYWORD, *at, *((number,) if isinstance(value, list) else ()))
                raise SpecError(f"there is no document {brief(name)}", pointer=where, hint=self._hint(name))
        return {str(name): self._documents[str(name)] for name in names}

    def _hint(self, name: object) -> str:
        close = close_name(name, self._documents)
        if close:
            return f"did you mean {close!r}?"
        known = ", ".join(self._documents)
        return f"the documents are {known:.200}" if known else f"pass its text in documents={{{brief(name)}: text}}"
