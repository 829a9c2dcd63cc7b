"""Reads the arguments of one call while they are written. In: pieces of text. Out: valid JSON at any time.

There are three readers with the same interface: `JsonArguments`, `XmlArguments` for the styles in which an argument is
an element (element_forms.py), and `NestedArguments` for styles whose elements nest (nested_call_arguments.py). `read`
takes a piece and returns the text after the arguments. While the arguments continue, this is "", or the beginning of an
element, which the caller must pass again with the next piece. `text` is valid JSON at any time. `fresh` is the certain
part of the JSON text that was not returned before; all its results together are the text. Cost: each character is
visited once, and `text` copies the arguments so far.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from guided.frontends.structural_tag.argument_places import Places, is_json
from guided.frontends.structural_tag.element_forms import ElementForm
from guided.frontends.structural_tag.partial_json import PartialJson

__all__ = ["JsonArguments", "XmlArguments", "json_string", "kept"]

_SPACE = " \t\r\n"
_STRING = frozenset(("string",))
_OTHERS = frozenset(("object", "array", "number", "boolean", "null"))
_ALL = _STRING | _OTHERS


class JsonArguments:
    """A JSON value."""

    def __init__(self) -> None:
        self._json, self._fresh = PartialJson(), list[str]()

    @property
    def may_end(self) -> bool:
        """Whether the arguments may end here."""
        return self._json.end >= 0

    def read(self, piece: str) -> str:
        """Read a piece, and return the text after the arguments."""
        if self._json.end >= 0:
            return piece
        behind = self._json.read(piece)
        self._fresh.append(piece[: len(piece) - len(behind)])
        return behind

    def fresh(self, *, ended: bool) -> str:
        """The certain text that was not returned before. `ended`: whether the arguments have ended."""
        fresh_text, self._fresh = "".join(self._fresh), []
        return fresh_text

    def text(self) -> str:
        """The arguments so far."""
        return self._json.completed() or "{}"


class XmlArguments:
    """An element for each argument. `may_end`: whether the arguments may end here."""

    def __init__(self, form: ElementForm, parameters: Any) -> None:
        self.may_end = True
        self._form = form
        self._places = None if form.is_typed else Places.of_schema(parameters, form)
        self._header = _header(form)
        self._members: list[str] = []  # members of the object
        self._name, self._kinds = "", frozenset[str]()  # of the element that is being written
        self._value, self._searched = "", 0
        self._escaped, self._escaped_to = "", 0
        self._fresh, self._emitted_length = (
            ["{"],
            -1,
        )  # characters of the current string; -1: its name was not returned yet

    def read(self, piece: str) -> str:
        """Read a piece, and return the text after the last element."""
        while True:
            if self.may_end:
                found = self._header.match(piece)
                if found is None:
                    return piece
                self._begin(found)
                piece = piece[found.end() :]
            self._value += piece
            stop = self._value.find(self._form.end, self._searched)
            if stop < 0:
                self._searched = max(0, len(self._value) - len(self._form.end) + 1)
                return ""
            piece = self._value[stop + len(self._form.end) :]
            self._end(self._value[:stop])

    def text(self) -> str:
        """The arguments so far."""
        written = [] if self.may_end or self._kinds != _STRING else [f'{json_string(self._name)}: "{self._partial()}"']
        return f"{{{', '.join([*self._members, *written])}}}"

    def fresh(self, *, ended: bool) -> str:
        """The certain text that was not returned before. `ended`: whether the arguments have ended."""
        if not self.may_end and self._kinds == _STRING:
            self._emit_string(self._partial())
        fresh_text, self._fresh = "".join([*self._fresh, "}" * ended]), []
        return fresh_text

    def _emit_string(self, escaped: str) -> None:
        """Add the certain part of a string to the fresh text."""
        if self._emitted_length < 0:
            self._fresh.append(f'{", " if self._members else ""}{json_string(self._name)}: "')
            self._emitted_length = 0
        self._fresh.append(escaped[self._emitted_length :])
        self._emitted_length = len(escaped)

    def _begin(self, found: re.Match[str]) -> None:
        self.may_end, self._name, self._emitted_length = False, self._form.name_read(found["name"]), -1
        if self._form.is_typed:
            self._kinds = _STRING if found["string"] is not None else _OTHERS
        else:
            places = self._places
            known = frozenset[str]() if places is None else places.read(places.root, self._name)[1]
            self._kinds = known or _ALL  # unknown for a name that the compiler's options allow
        self._value, self._searched, self._escaped, self._escaped_to = "", 0, "", 0

    def _end(self, written: str) -> None:
        is_string = "string" in self._kinds and not is_json(written, self._kinds, nests=False)
        if is_string and self._form.lines and len(written) > 1 and written[0] == "\n":
            written = written[1:].removesuffix("\n")
        value = json_string(written) if is_string else written.strip(_SPACE)
        if is_string:
            self._emit_string(value[1:-1])
            self._fresh.append('"')
        else:
            self._fresh.append(f"{', ' if self._members else ''}{json_string(self._name)}: {value}")
        self._members.append(f"{json_string(self._name)}: {value}")
        self.may_end = True

    def _partial(self) -> str:
        """The escaped string so far, without a possible beginning of the end of the element or of its frame."""
        value = self._value
        framed = self._form.lines and value.startswith("\n")
        sure = len(value) - kept(value, {self._form.end: ""})
        if framed and sure > 1 and value[sure - 1] == "\n":
            sure -= 1
        begin = max(self._escaped_to, 1 if framed else 0)
        if sure > begin:
            self._escaped += json_string(value[begin:sure])[1:-1]
            self._escaped_to = sure
        return self._escaped


def kept(text: str, marks: Mapping[str, str]) -> int:
    """How many characters at the end of the text may begin a mark."""
    longest = max(map(len, marks), default=1) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-size:]) for mark in marks):
            return size
    return 0


def json_string(text: str) -> str:
    """A string as JSON."""
    return json.dumps(text, ensure_ascii=False)


def _header(form: ElementForm) -> re.Pattern[str]:
    """The text before a value: the begin of its element, and its name, which ends as early as possible."""

    def pattern(text: str) -> str:
        gap = r"[ \t\r\n]*"
        return re.escape(text).replace(re.escape("{gap}"), gap).replace(re.escape("{type}"), "[a-z]+")

    name = f"(?P<name>{form.name_pattern})"
    kinds = f"(?:(?P<string>{pattern(form.string)})|{pattern(form.other)})"
    return re.compile(rf"[ \t\r\n]*{re.escape(form.begin)}{name}{pattern(form.after)}{kinds}")
