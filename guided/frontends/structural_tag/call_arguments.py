"""The arguments of one call, read while they are written. In: pieces of text. Out: valid JSON at any time.

    <cofl:value name="at" type="dict"><cofl:value name="city" type="raw">Os      ->      {"at": {"city": "Os"}}

Readers with the same interface: `JsonArguments`, and `XmlArguments` for the styles in which an argument is an element
(element_forms.py), and in some of them members and items, too. What an element holds, the style says by a type, or it
follows from what the schema allows there (`argument_places.py`) and from what was written. `read` takes a piece and
returns what lies behind the arguments. While they go on, that is nothing, or the begin of an element, which is to be
given again with the next piece. `text` is valid JSON at any time. `fresh` returns the part of the arguments' JSON text
that can no longer change and was not returned before: all its results together are the text.

Cost: each character is looked at once, but for a number that may go on, and `text` copies the arguments so far.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from guided.frontends.structural_tag.argument_places import Place, Places, is_json
from guided.frontends.structural_tag.element_forms import ElementForm
from guided.frontends.structural_tag.partial_json import PartialJson

__all__ = ["JsonArguments", "XmlArguments", "json_string", "possible_mark_length"]

_SPACE: Final = " \t\r\n"
_STRING: Final = frozenset(("string",))
_OTHERS: Final = frozenset(("object", "array", "number", "boolean", "null"))
_KINDS: Final = {"json": {"number", "boolean", "null"}, "dict": {"object"}, "list": {"array"}}


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
        """The new JSON text that can no longer change; `ended`: the arguments are complete."""
        fresh, self._fresh = "".join(self._fresh), []
        return fresh

    def text(self) -> str:
        """The arguments so far."""
        return self._json.completed() or "{}"


@dataclass
class _Container:
    """An object or array that is written.

    Attributes:
        place: where in the schema it stands.
        name: before it in the JSON text: the name of the member that it is.
        end: of its element.
        parts: the JSON of its members or items so far.
    """

    kind: str
    place: Place
    name: str = ""
    end: str = ""
    parts: list[str] = field(default_factory=list)


@dataclass
class _Value:
    """An element of which it is not known yet that it is an object or array.

    Attributes:
        sure: its text, as a part of a JSON string, as far as it was taken from the buffer.
        searched: so much of the buffer does not begin its end.
        is_emitted: whether `fresh` has returned its name.
        is_framed: whether it is a string on lines of its own.
    """

    place: Place
    kinds: set[str]
    name: str
    end: str
    sure: str = ""
    searched: int = 0
    is_emitted: bool = False
    is_framed: bool = False


class XmlArguments:
    """An element for each argument. `may_end`: whether they may end here."""

    def __init__(self, form: ElementForm, parameters: Any) -> None:
        self._form = form
        self._places = None if form.is_typed else Places.of_schema(parameters, form)
        self._open = [_Container("object", frozenset() if self._places is None else self._places.root)]
        self._value: _Value | None = None
        self._buffer = ""
        self._fresh = ["{"]
        self._headers = {kind: _header(form, kind) for kind in (("object", "array") if form.nests else ("object",))}

    @property
    def may_end(self) -> bool:
        """Whether the arguments may end here."""
        return len(self._open) == 1 and self._value is None

    def read(self, piece: str) -> str:
        """Read on, and return what is behind the last element."""
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
        for container in reversed(self._open):
            last = _format_container(container.kind, container.name, [*container.parts, *([last] if last else [])])
        return last

    def fresh(self, *, ended: bool) -> str:
        """The new JSON text that can no longer change; `ended`: the arguments are complete."""
        fresh, self._fresh = "".join([*self._fresh, "}" * ended]), []
        return fresh

    def _emit_begin(self, name: str, begin: str) -> None:
        """Tell that a member or an item begins."""
        self._fresh.append(f"{', ' if self._open[-1].parts else ''}{name}{begin}")

    def _step(self) -> bool:
        """Read an element's begin, its value or its end; false if none is complete."""
        if self._value is not None:
            return self._read_value(self._value)
        container = self._open[-1]
        skipped = self._buffer.lstrip(_SPACE)
        if container.end and skipped.startswith(container.end):
            self._buffer = skipped[len(container.end) :]
            self._open.pop()
            self._fresh.append("}" if container.kind == "object" else "]")
            self._open[-1].parts.append(_format_container(container.kind, container.name, container.parts))
            return True
        match = self._headers[container.kind].match(skipped)
        if match is None:
            return False
        self._buffer = skipped[match.end() :]
        self._begin(container, match)
        return True

    def _begin(self, container: _Container, match: re.Match[str]) -> None:
        """An element begins."""
        name, end, place, key = "", self._form.item_end, container.place, ""
        if container.kind == "object":
            key = self._form.name_read(match["name"])
            name, end = f"{json_string(key)}: ", self._form.end.replace("{name}", match["name"])
        kinds: Collection[str] = _STRING if self._form.nests else _STRING | _OTHERS
        if self._form.is_typed:
            kinds = _STRING if match["string"] else _KINDS.get(match.groupdict().get("type", ""), _OTHERS)
        elif (places := self._places) is not None:
            place, known = places.read(place, len(container.parts) if container.kind == "array" else key)
            kinds = known or kinds  # nothing is known of a name that the options of the compiler let in
        self._value = _Value(place, set(kinds), name, end)

    def _read_value(self, value: _Value) -> bool:
        """Read the value of an element as far as it is there. False: more text is needed."""
        if self._form.nests and (inner := value.kinds & {"object", "array"}):
            opens = self._opens()
            if opens is None:
                return False
            if opens:
                (kind,) = inner
                self._emit_begin(value.name, "{" if kind == "object" else "[")
                self._open.append(_Container(kind, value.place, value.name, value.end))
                self._value = None
                return True
            value.kinds -= inner
        stop = self._buffer.find(value.end, value.searched)
        if value.kinds == {"string"}:
            taken = self._read_string(value, stop)
            self._buffer, stop = self._buffer[taken:], stop - taken if stop >= 0 else stop
        if stop < 0:
            value.searched = max(0, len(self._buffer) - len(value.end) + 1)
            return False
        written = self._buffer[:stop]
        self._buffer = self._buffer[stop + len(value.end) :]
        if value.kinds == {"string"}:
            out = f'"{value.sure}"'
            self._fresh.append('"')
        elif "string" in value.kinds and not is_json(written, value.kinds, nests=self._form.nests):
            is_framed = self._form.lines and len(written) > 1 and written[0] == "\n"
            out = json_string(written[1:].removesuffix("\n") if is_framed else written)
        else:
            out = written.strip(_SPACE)
        if not value.is_emitted:
            self._emit_begin(value.name, out)
        self._open[-1].parts.append(value.name + out)
        self._value = None
        return True

    def _read_string(self, value: _Value, stop: int) -> int:
        """Tell what is sure of a string, and return how many characters of the buffer that is."""
        if not value.is_emitted:
            self._emit_begin(value.name, '"')
            value.is_emitted = True
        begin, sure = 0, stop if stop >= 0 else len(self._buffer) - possible_mark_length(self._buffer, {value.end: ""})
        if self._form.lines:
            if not value.sure and not value.is_framed and self._buffer.startswith("\n") and stop != 1:
                if sure < 2:  # a line end alone is the string itself
                    return 0
                begin, value.is_framed = 1, True
            sure -= value.is_framed and sure > begin and self._buffer[sure - 1] == "\n"
        more = json_string(self._buffer[begin:sure])[1:-1]
        self._fresh.append(more)
        value.sure += more
        return sure

    def _opens(self) -> bool | None:
        """Whether an element has elements in it, or could; None if that is not known yet."""
        if self._form.is_typed:
            return True
        written, mark = self._buffer.lstrip(_SPACE), self._form.excluded
        return True if written.startswith(mark) else None if mark.startswith(written) else False


def possible_mark_length(text: str, marks: Mapping[str, str]) -> int:
    """How many characters at the end of the text may begin a mark."""
    longest = max(map(len, marks), default=1) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-size:]) for mark in marks):
            return size
    return 0


def json_string(text: str) -> str:
    """A string as JSON."""
    return json.dumps(text, ensure_ascii=False)


def _header(form: ElementForm, kind: str) -> re.Pattern[str]:
    """What begins an element of an object or array, before its value."""

    def pattern(text: str) -> str:
        return re.escape(text).replace(re.escape("{gap}"), r"[ \t\r\n]*")

    name = f"(?P<name>{form.name_pattern})"
    types = "|".join(dict.fromkeys(form.types.values())) or "[a-z]+"
    other = pattern(form.other).replace(re.escape("{type}"), f"(?P<type>{types})")
    begin = f"{pattern(form.begin)}{name}{pattern(form.after)}" if kind == "object" else pattern(form.item)
    return re.compile(f"{begin}(?:(?P<string>{pattern(form.string)})|{other})")


def _format_container(kind: str, name: str, parts: list[str]) -> str:
    inner = ", ".join(parts)
    return f"{name}{{{inner}}}" if kind == "object" else f"{name}[{inner}]"
