"""Reads `x-guided-quote`: a string that occurs verbatim in a document. In: the keyword's value. Out: a node of the IR.

    "x-guided-quote": "report"                                    the document with this name
    "x-guided-quote": ["report", "minutes"]                       one of these documents
    "x-guided-quote": {"documents": "report", "minWords": 3}      with options
    "x-guided-quote": {"documents": {"report": "In May ..."}}     with the text itself

The caller passes the documents by name. The keyword has the options of `guided.Quote`. Like `pattern`, it constrains
strings only.

Cost: equal values of the keyword share one node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from guided.close_names import find_closest_name
from guided.errors import SpecError, brief
from guided.frontends.common.quoted_texts import WHITESPACE, check_documents, quotation_node, with_min_words
from guided.frontends.json_schema.documents.malformed import describe, malformed_error
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Json, read_count
from guided.ir.nodes import And, Substrings

__all__ = ["Quotations"]

_KEYWORD: Final = "x-guided-quote"
_FIELDS: Final = ("documents", "whitespace", "words", "minWords")
_FORMS: Final = "the name of a document, a list of names, or an object"
_TEXTS: Final = "the name of a document, a list of names, or an object of texts"
_ADD_DOCUMENTS: Final = 'as in "documents": {"report": "In May ..."}'


class Quotations:
    """Reads the keyword in the schemas of one compilation. `documents`: name -> text."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        self._documents = documents
        self._nodes: dict[Substrings | And, Substrings | And] = {}

    def read(self, schema: Schema) -> Substrings | And:
        """The strings that the keyword of a schema allows."""
        value = schema.get(_KEYWORD)
        if isinstance(value, dict):
            node = self._with_options(schema, value)
        else:
            node = quotation_node(self._texts(schema, value))
        return self._nodes.setdefault(node, node)

    def _with_options(self, schema: Schema, value: dict[str, Json]) -> Substrings | And:
        for name in value:
            if name not in _FIELDS:
                close = find_closest_name(name, _FIELDS)
                hint = f"did you mean {close!r}?" if close else f"the fields are {', '.join(_FIELDS)}"
                raise SpecError(
                    f"{_KEYWORD} has no field {brief(name)}", pointer=schema.location_of(_KEYWORD, name), hint=hint
                )
        if "documents" not in value:
            raise SpecError(f"{_KEYWORD} names no document", pointer=schema.location_of(_KEYWORD), hint=_ADD_DOCUMENTS)
        texts = self._texts(schema, value["documents"], "documents")
        words, whitespace = value.get("words", False), value.get("whitespace", "exact")
        if whitespace not in WHITESPACE:
            close = find_closest_name(whitespace, WHITESPACE)
            hint = f"did you mean {close!r}?" if close else "leave it out for exact"
            raise _malformed_field(schema, "whitespace", " or ".join(WHITESPACE), whitespace, hint)
        if not isinstance(words, bool):
            raise _malformed_field(schema, "words", "true or false", words, "leave it out for false")
        min_words = read_count(value["minWords"]) if "minWords" in value else 0
        if min_words is None:
            raise _malformed_field(schema, "minWords", "a number of words", value["minWords"], "such as 3")
        node = quotation_node(texts, str(whitespace), words)
        with _locate_errors(schema, "minWords"):
            return with_min_words(node, min_words)

    def _texts(self, schema: Schema, value: Json, *path: str) -> dict[str, str]:
        """The documents that a value names or contains. `path`: the location of the value in the keyword."""
        if isinstance(value, dict) and value:
            return {name: _text(schema, name, text, *path) for name, text in value.items()}
        if isinstance(value, list) and value:
            return {name: self._document_text(schema, name, *path, index) for index, name in enumerate(value)}
        if isinstance(value, str):
            return {value: self._document_text(schema, value, *path)}
        if path:
            raise _malformed_field(schema, path[0], _TEXTS, value, _ADD_DOCUMENTS)
        raise malformed_error(schema, _KEYWORD, _FORMS, value)

    def _document_text(self, schema: Schema, name: Json, *path: str | int) -> str:
        """The text of the document with this name."""
        pointer = schema.location_of(_KEYWORD, *path)
        if not isinstance(name, str):
            reason = f"{describe(name)} is not the name of a document"
            raise SpecError(reason, pointer=pointer, hint='list names, such as "report"')
        if name not in self._documents:
            raise SpecError(f"there is no document {brief(name)}", pointer=pointer, hint=self._hint(name))
        return self._documents[name]

    def _hint(self, name: object) -> str:
        close = find_closest_name(name, self._documents)
        if close:
            return f"did you mean {close!r}?"
        names = ", ".join(self._documents)
        return f"the documents are {names:.200}" if names else f"pass its text in documents={{{brief(name)}: text}}"


def _text(schema: Schema, name: str, text: Json, *path: str) -> str:
    """The text of a document that the keyword contains."""
    if not isinstance(text, str):
        reason = f"document {brief(name)} must be a string, not {describe(text)}"
        raise SpecError(reason, pointer=schema.location_of(_KEYWORD, *path, name), hint=_ADD_DOCUMENTS)
    with _locate_errors(schema, *path, name):
        return check_documents({name: text})[name]


@contextmanager
def _locate_errors(schema: Schema, *path: str) -> Iterator[None]:
    """Add the location in the keyword to errors of functions that `guided.Quote` shares."""
    try:
        yield
    except SpecError as error:
        error.pointer = schema.location_of(_KEYWORD, *path)
        raise


def _malformed_field(schema: Schema, field: str, must_be: str, value: Json, hint: str) -> SpecError:
    message = f"{field} of {_KEYWORD} must be {must_be}, not {describe(value)}"
    return SpecError(message, pointer=schema.location_of(_KEYWORD, field), hint=hint)
