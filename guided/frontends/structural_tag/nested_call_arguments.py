"""Reads the arguments of one call while they are written, in styles whose elements nest. In: pieces of text. Out: valid
JSON at any time.

    <cofl:value name="at" type="dict"><cofl:value name="city" type="raw">Os      ->      {"at": {"city": "Os"}}

The interface is that of `call_arguments.py`. The style writes the type of an element's content. Otherwise, the type
follows from what the schema allows there (`argument_places.py`) and from the text. Cost: each character is visited
once, except in a number that may continue, and `text` copies the arguments so far.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from guided.frontends.structural_tag.argument_places import Place, Places, is_json
from guided.frontends.structural_tag.call_arguments import json_string, kept
from guided.frontends.structural_tag.element_forms import ElementForm

__all__ = ["NestedArguments"]

_SPACE: Final = " \t\r\n"
_KINDS: Final = {"raw": {"string"}, "json": {"number", "boolean", "null"}, "dict": {"object"}, "list": {"array"}}


@dataclass
class _Container:
    """An object or array that is being written.

    Attributes:
        place: its place in the schema.
        name: the JSON text before it, if it is a member: the member's name.
        end: the end of its element.
        parts: the JSON of its members or items so far.
    """

    kind: str
    place: Place
    name: str = ""
    end: str = ""
    parts: list[str] = field(default_factory=list)


@dataclass
class _Value:
    """An element that is not known yet to be an object or array.

    Attributes:
        sure: the certain part of its text, as a part of a JSON string. It was removed from the buffer.
        searched: this many characters of the buffer do not begin its end.
        is_emitted: whether `fresh` has returned its name.
    """

    place: Place
    kinds: set[str]
    name: str
    end: str
    sure: str = ""
    searched: int = 0
    is_emitted: bool = False


class NestedArguments:
    """An element for each argument. `may_end`: whether the arguments may end here."""

    def __init__(self, form: ElementForm, parameters: Any) -> None:
        self._form = form
        self._places = None if form.is_typed else Places.of_schema(parameters, form)
        self._open_containers = [_Container("object", frozenset() if self._places is None else self._places.root)]
        self._value: _Value | None = None
        self._buffer = ""
        self._fresh = ["{"]
        self._headers = {kind: _header(form, kind) for kind in ("object", "array")}

    @property
    def may_end(self) -> bool:
        """Whether the arguments may end here."""
        return len(self._open_containers) == 1 and self._value is None

    def read(self, piece: str) -> str:
        """Read a piece, and return the text after the last element."""
        self._buffer += piece
        while self._step():
            pass
        rest, self._buffer = (self._buffer, "") if self.may_end else ("", self._buffer)
        return rest

    def text(self) -> str:
        """The arguments so far."""
        last = ""
        if self._value is not None and self._value.kinds == {"string"}:
            last = f'{self._value.name}"{self._value.sure}"'
        for container in reversed(self._open_containers):
            last = _join(container.kind, container.name, [*container.parts, *([last] if last else [])])
        return last

    def fresh(self, *, ended: bool) -> str:
        """The certain text that was not returned before. `ended`: whether the arguments have ended."""
        fresh_text, self._fresh = "".join([*self._fresh, "}" * ended]), []
        return fresh_text

    def _emit_begin(self, name: str, begin: str) -> None:
        """Add the begin of a member or an item to the fresh text."""
        self._fresh.append(f"{', ' if self._open_containers[-1].parts else ''}{name}{begin}")

    def _step(self) -> bool:
        """Read an element's begin, its value or its end. Returns False if none is complete."""
        if self._value is not None:
            return self._read_value(self._value)
        container = self._open_containers[-1]
        skipped = self._buffer.lstrip(_SPACE)
        if container.end and skipped.startswith(container.end):
            self._buffer = skipped[len(container.end) :]
            self._open_containers.pop()
            self._fresh.append("}" if container.kind == "object" else "]")
            self._open_containers[-1].parts.append(_join(container.kind, container.name, container.parts))
            return True
        found = self._headers[container.kind].match(skipped)
        if found is None:
            return False
        self._buffer = skipped[found.end() :]
        self._begin(container, found)
        return True

    def _begin(self, container: _Container, found: re.Match[str]) -> None:
        """Begin an element."""
        name, end, place, key = "", self._form.item_end, container.place, ""
        if container.kind == "object":
            key = self._form.name_read(found["name"])
            name, end = f"{json_string(key)}: ", self._form.end.replace("{name}", found["name"])
        kinds: Collection[str] = _KINDS[found["type"]] if self._form.is_typed else _KINDS["raw"]
        if (places := self._places) is not None:
            place, known = places.read(place, len(container.parts) if container.kind == "array" else key)
            kinds = known or kinds
        self._value = _Value(place, set(kinds), name, end)

    def _read_value(self, value: _Value) -> bool:
        if inner := value.kinds & {"object", "array"}:
            opens = self._opens()
            if opens is None:
                return False
            if opens:
                (kind,) = inner
                self._emit_begin(value.name, "{" if kind == "object" else "[")
                self._open_containers.append(_Container(kind, value.place, value.name, value.end))
                self._value = None
                return True
            value.kinds -= inner
        stop = self._buffer.find(value.end, value.searched)
        if value.kinds == {"string"}:
            sure = stop if stop >= 0 else len(self._buffer) - kept(self._buffer, {value.end: ""})
            more = json_string(self._buffer[:sure])[1:-1]
            if not value.is_emitted:
                self._emit_begin(value.name, '"')
                value.is_emitted = True
            self._fresh.append(more)
            value.sure += more
            self._buffer, stop = self._buffer[sure:], min(stop, 0)
        if stop < 0:
            value.searched = max(0, len(self._buffer) - len(value.end) + 1)
            return False
        written = self._buffer[:stop]
        self._buffer = self._buffer[stop + len(value.end) :]
        if value.kinds == {"string"}:
            out = f'"{value.sure}"'
            self._fresh.append('"')
        elif "string" in value.kinds and not is_json(written, value.kinds, nests=True):
            out = json_string(written)
        else:
            out = written.strip(_SPACE)
        if not value.is_emitted:
            self._emit_begin(value.name, out)
        self._open_containers[-1].parts.append(value.name + out)
        self._value = None
        return True

    def _opens(self) -> bool | None:
        """Whether an element contains, or could contain, elements. None if unknown."""
        if self._form.is_typed:
            return True
        written, mark = self._buffer.lstrip(_SPACE), self._form.excluded
        return True if written.startswith(mark) else None if mark.startswith(written) else False


def _header(form: ElementForm, kind: str) -> re.Pattern[str]:
    """A pattern for the begin of an element in an object or array, before its value."""
    name = f"(?P<name>{form.name_pattern})"
    types = re.escape(form.other).replace(re.escape("{type}"), f"(?P<type>{'|'.join(_KINDS)})")
    begin = f"{re.escape(form.begin)}{name}{re.escape(form.after)}" if kind == "object" else re.escape(form.item)
    return re.compile(begin + types)


def _join(kind: str, name: str, parts: list[str]) -> str:
    inner = ", ".join(parts)
    return f"{name}{{{inner}}}" if kind == "object" else f"{name}[{inner}]"
