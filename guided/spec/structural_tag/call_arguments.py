"""The arguments of one call, read while they are written. In: pieces of text. Out: valid JSON at any time.

Readers with the same interface: `JsonArguments`, `XmlArguments` for the styles in which an argument is an element
(arguments.py), and for those whose elements nest `NestedArguments` (nested_call_arguments.py). `read` takes a piece,
and returns what lies behind the arguments; while they go on, that is nothing, or the begin of an element, which is to
be given again with the next piece. `text` is valid JSON at any time; `fresh` is what is sure of the arguments' JSON
text and was not told before, so that all of it put together is the text. Cost: each character is looked at once, and
`text` copies the arguments so far.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from guided.spec.structural_tag.arguments import (
    OTHER_NAME,
    Element,
    is_json,
    kinds_of,
    other_members,
    shared_definitions,
)
from guided.spec.structural_tag.partial_json import PartialJson

__all__ = ["JsonArguments", "XmlArguments", "json_string", "kept"]

_SPACE = " \t\r\n"


class JsonArguments:
    """A JSON value."""

    def __init__(self) -> None:
        self._json, self._fresh = PartialJson(), list[str]()

    @property
    def may_end(self) -> bool:
        """Whether they may end here."""
        return self._json.end >= 0

    def read(self, piece: str) -> str:
        """Read on, and return what is behind the arguments."""
        if self._json.end >= 0:
            return piece
        behind = self._json.read(piece)
        self._fresh.append(piece[: len(piece) - len(behind)])
        return behind

    def fresh(self, *, ended: bool) -> str:
        """What is sure and was not told before; `ended`: the arguments have."""
        told, self._fresh = "".join(self._fresh), []
        return told

    def text(self) -> str:
        """The arguments so far."""
        return self._json.completed() or "{}"


class XmlArguments:
    """An element for each argument. `may_end`: whether they may end here."""

    def __init__(self, element: Element, parameters: Any) -> None:
        self.may_end = True
        self._element, self._parameters = element, parameters
        names = parameters.get("properties", {}) if isinstance(parameters, dict) else {}
        self._names: Mapping[str, Any] = names
        self._others = other_members(parameters)
        self._header = _header(element, names, self._others is not None)
        self._done: list[str] = []  # members of the object
        self._name, self._kinds = "", set[str]()  # of the element that is written
        self._value, self._searched = "", 0
        self._escaped, self._escaped_to = "", 0
        self._fresh, self._told = ["{"], -1  # characters of the string that is written; -1: its name is not told

    def read(self, piece: str) -> str:
        """Read on, and return what is behind the last element."""
        while True:
            if self.may_end:
                found = self._header.match(piece)
                if found is None:
                    return piece
                self._begin(found)
                piece = piece[found.end() :]
            self._value += piece
            stop = self._value.find(self._element.end, self._searched)
            if stop < 0:
                self._searched = max(0, len(self._value) - len(self._element.end) + 1)
                return ""
            piece = self._value[stop + len(self._element.end) :]
            self._end(self._value[:stop])

    def text(self) -> str:
        """The arguments so far."""
        written = (
            [] if self.may_end or self._kinds != {"string"} else [f'{json_string(self._name)}: "{self._partial()}"']
        )
        return f"{{{', '.join([*self._done, *written])}}}"

    def fresh(self, *, ended: bool) -> str:
        """What is sure and was not told before; `ended`: the arguments have."""
        if not self.may_end and self._kinds == {"string"}:
            self._tell(self._partial())
        told, self._fresh = "".join([*self._fresh, "}" * ended]), []
        return told

    def _tell(self, escaped: str) -> None:
        """Tell of a string as far as it goes."""
        if self._told < 0:
            self._fresh.append(f'{", " if self._done else ""}{json_string(self._name)}: "')
            self._told = 0
        self._fresh.append(escaped[self._told :])
        self._told = len(escaped)

    def _begin(self, found: re.Match[str]) -> None:
        self.may_end, self._name, self._told = False, found["name"], -1
        schema = self._names.get(self._name, self._others)
        kinds = kinds_of(schema, shared_definitions(self._parameters))
        if self._element.string != self._element.other:
            kinds = {"string"} if found["string"] is not None else kinds - {"string"}
        self._kinds, self._value, self._searched, self._escaped, self._escaped_to = kinds, "", 0, "", 0

    def _end(self, written: str) -> None:
        is_string = "string" in self._kinds and (self._kinds == {"string"} or not is_json(written, self._kinds))
        if is_string and self._element.framed and len(written) > 1 and written[0] == "\n":
            written = written[1:].removesuffix("\n")
        value = json_string(written) if is_string else written.strip(_SPACE)
        if is_string:
            self._tell(value[1:-1])
            self._fresh.append('"')
        else:
            self._fresh.append(f"{', ' if self._done else ''}{json_string(self._name)}: {value}")
        self._done.append(f"{json_string(self._name)}: {value}")
        self.may_end = True

    def _partial(self) -> str:
        """The string so far, escaped, without what may be the end of the element or of its frame."""
        value = self._value
        framed = self._element.framed and value.startswith("\n")
        sure = len(value) - kept(value, {self._element.end: ""})
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


def _header(element: Element, names: Mapping[str, Any], others: bool) -> re.Pattern[str]:
    """What stands before a value: the begin of its element, with the name of an argument; `others`: or any other."""

    def pattern(text: str) -> str:
        gap = r"[ \t\r\n]*"
        return re.escape(text).replace(re.escape("{gap}"), gap).replace(re.escape("{type}"), "[a-z]+")

    known = [*map(re.escape, sorted(names, key=len, reverse=True)), *([OTHER_NAME] if others else [])]
    listed = "|".join(known) or "(?!)"
    kinds = f"(?:(?P<string>{pattern(element.string)})|{pattern(element.other)})"
    return re.compile(rf"[ \t\r\n]*{re.escape(element.begin)}(?P<name>{listed}){kinds}")
