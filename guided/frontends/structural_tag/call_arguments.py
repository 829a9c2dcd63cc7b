"""Reads the arguments of one call while they are written. In: pieces of text. Out: valid JSON at any time.

    <cofl:value name="at" type="dict"><cofl:value name="city" type="raw">Os      ->      {"at": {"city": "Os"}}

Two readers have the same interface: `JsonArguments`, and `XmlArguments` for the styles that write each argument as an
element (element_forms.py), in some of them also members and items of values. Either the style marks the type of a
value, or the type follows from the schema (`argument_places.py`) and the text. `read` takes a piece, and returns the
text after the arguments once they may end; the caller passes this text again with the next piece. `text` is valid JSON
at any time. `new_text` returns new JSON text that can no longer change. All its results together are the text of the
arguments.

Cost: each character is read once, except in a number that may continue. `text` copies the arguments so far.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from guided.frontends.json_schema.documents.source_spans import pointer_of, scalar_spans
from guided.frontends.structural_tag.argument_places import Place, Places, is_json
from guided.frontends.structural_tag.element_forms import ElementForm
from guided.frontends.structural_tag.partial_json import PartialJson

__all__ = ["JsonArguments", "XmlArguments", "json_string", "possible_mark_length"]

_SPACE: Final = " \t\r\n"
_STRING: Final = frozenset(("string",))
_OTHERS: Final = frozenset(("object", "array", "number", "boolean", "null"))
_KINDS: Final = {"json": {"number", "boolean", "null"}, "dict": {"object"}, "list": {"array"}}


class JsonArguments:
    """Reads arguments that are a JSON object."""

    def __init__(self) -> None:
        self._json, self._new_parts = PartialJson(), list[str]()

    @property
    def may_end(self) -> bool:
        """Whether the arguments may end here."""
        return self._json.end >= 0

    def read(self, piece: str) -> str:
        """Read a piece, and return the text after the arguments."""
        if self._json.end >= 0:
            return piece
        after = self._json.read(piece)
        self._new_parts.append(piece[: len(piece) - len(after)])
        return after

    def new_text(self, *, is_complete: bool) -> str:
        """The new JSON text that can no longer change; `is_complete`: the arguments are complete."""
        new_text, self._new_parts = "".join(self._new_parts), []
        return new_text

    def text(self) -> str:
        """The arguments so far."""
        return self._json.completed_text() or "{}"

    def spans(self) -> list[tuple[str, int, int]]:
        """For each value of complete arguments, except nonempty containers: its JSON Pointer and its span in them."""
        return _spans_of(self._json.text[: self._json.end])


@dataclass
class _Container:
    """An object or array whose elements are being read.

    Attributes:
        place: its place in the schema.
        name: the JSON text before it: its name, if it is a member.
        end: the text that ends its element.
        parts: the JSON of its members or items so far.
        path: the keys and indices that lead to it.
    """

    kind: str
    place: Place
    name: str = ""
    end: str = ""
    parts: list[str] = field(default_factory=list)
    path: tuple[str | int, ...] = ()


@dataclass
class _Value:
    """An element whose value is being read, and is not known to be an object or array.

    Attributes:
        kinds: the types that the value may have.
        certain: the part of a string value that was removed from the buffer, as JSON without quotation marks.
        searched: the offset in the buffer from which the end of the element is searched.
        is_emitted: whether `new_text` has returned its name.
        is_framed: whether it is a string with a line end before and after it.
        path: the keys and indices that lead to it.
        start: where it begins in the text of the arguments.
    """

    place: Place
    kinds: set[str]
    name: str
    end: str
    path: tuple[str | int, ...]
    start: int
    certain: str = ""
    searched: int = 0
    is_emitted: bool = False
    is_framed: bool = False


class XmlArguments:
    """Reads arguments that are elements."""

    def __init__(self, form: ElementForm, parameters: Any) -> None:
        self._form = form
        self._places = None if form.is_typed else Places.of_schema(parameters, form)
        self._open = [_Container("object", frozenset() if self._places is None else self._places.root)]
        self._value: _Value | None = None
        self._buffer, self._size = "", 0  # the text that is not interpreted yet; the size of all text so far
        self._spans: list[tuple[str, int, int]] = []
        self._new_parts = ["{"]
        self._headers = {kind: _header(form, kind) for kind in (("object", "array") if form.nests else ("object",))}

    @property
    def may_end(self) -> bool:
        """Whether the arguments may end here."""
        return len(self._open) == 1 and self._value is None

    def read(self, piece: str) -> str:
        """Read a piece, and return the text after the last complete element, if the arguments may end there."""
        self._buffer += piece
        self._size += len(piece)
        while self._step():
            pass
        rest, self._buffer = (self._buffer, "") if self.may_end else ("", self._buffer)
        self._size -= len(rest)
        return rest

    def text(self) -> str:
        """The arguments so far."""
        last = ""
        if self._value is not None and self._value.kinds == {"string"}:
            last = f'{self._value.name}"{self._value.certain}"'
        for container in reversed(self._open):
            last = _format_container(container.kind, container.name, [*container.parts, *([last] if last else [])])
        return last

    def new_text(self, *, is_complete: bool) -> str:
        """The new JSON text that can no longer change; `is_complete`: the arguments are complete."""
        new_text, self._new_parts = "".join([*self._new_parts, "}" * is_complete]), []
        return new_text

    def spans(self) -> list[tuple[str, int, int]]:
        """As for `JsonArguments`. The span of a string includes the whitespace around it."""
        return self._spans

    def _emit_begin(self, name: str, begin: str) -> None:
        """Emit the beginning of a member or an item."""
        self._new_parts.append(f"{', ' if self._open[-1].parts else ''}{name}{begin}")

    def _step(self) -> bool:
        """Read the beginning, the value or the end of an element. Returns False if this is incomplete."""
        if self._value is not None:
            return self._read_value(self._value)
        container = self._open[-1]
        skipped = self._buffer.lstrip(_SPACE)
        if container.end and skipped.startswith(container.end):
            self._buffer = skipped[len(container.end) :]
            self._open.pop()
            self._new_parts.append("}" if container.kind == "object" else "]")
            self._open[-1].parts.append(_format_container(container.kind, container.name, container.parts))
            return True
        match = self._headers[container.kind].match(skipped)
        if match is None:
            return False
        self._buffer = skipped[match.end() :]
        self._begin(container, match)
        return True

    def _begin(self, container: _Container, match: re.Match[str]) -> None:
        """Begin an element."""
        name, end, place = "", self._form.item_end, container.place
        key: str | int = len(container.parts)
        if container.kind == "object":
            key = self._form.decode_name(match["name"])
            name, end = f"{json_string(key)}: ", self._form.end.replace("{name}", match["name"])
        kinds: Collection[str] = _STRING if self._form.nests else _STRING | _OTHERS
        if self._form.is_typed:
            kinds = _STRING if match["string"] else _KINDS.get(match.groupdict().get("type", ""), _OTHERS)
        elif (places := self._places) is not None:
            place, place_kinds = places.read(place, key)
            kinds = place_kinds or kinds  # `place_kinds` is empty for a name that only the compiler's options allow
        start = self._size - len(self._buffer)
        self._value = _Value(place, set(kinds), name, end, (*container.path, key), start)

    def _read_value(self, value: _Value) -> bool:
        """Read the value of an element as far as it is in the buffer. Returns False if more text is needed."""
        if self._form.nests and (inner := value.kinds & {"object", "array"}):
            has_elements = self._has_elements()
            if has_elements is None:
                return False
            if has_elements:
                (kind,) = inner
                self._emit_begin(value.name, "{" if kind == "object" else "[")
                self._open.append(_Container(kind, value.place, value.name, value.end, path=value.path))
                self._value = None
                return True
            value.kinds -= inner
        stop = self._buffer.find(value.end, value.searched)
        if value.kinds == {"string"}:
            length = self._read_string(value, stop)
            self._buffer, stop = self._buffer[length:], stop - length if stop >= 0 else stop
        if stop < 0:
            value.searched = max(0, len(self._buffer) - len(value.end) + 1)
            return False
        raw = self._buffer[:stop]
        spans = [("", value.start, self._size - len(self._buffer) + stop)]
        self._buffer = self._buffer[stop + len(value.end) :]
        if value.kinds == {"string"}:
            out = f'"{value.certain}"'
            self._new_parts.append('"')
        elif "string" in value.kinds and not is_json(raw, value.kinds, nests=self._form.nests):
            is_framed = self._form.lines and len(raw) > 1 and raw[0] == "\n"
            out = json_string(raw[1:].removesuffix("\n") if is_framed else raw)
        else:
            out = raw.strip(_SPACE)
            spans = [(inner, value.start + start, value.start + end) for inner, start, end in _spans_of(raw)]
        self._spans += [(pointer_of(value.path) + inner, start, end) for inner, start, end in spans]
        if not value.is_emitted:
            self._emit_begin(value.name, out)
        self._open[-1].parts.append(value.name + out)
        self._value = None
        return True

    def _read_string(self, value: _Value, stop: int) -> int:
        """Emit the certain part of a string, and return its length in the buffer."""
        if not value.is_emitted:
            self._emit_begin(value.name, '"')
            value.is_emitted = True
        begin, certain = (
            0,
            stop if stop >= 0 else len(self._buffer) - possible_mark_length(self._buffer, {value.end: ""}),
        )
        if self._form.lines:
            if not value.certain and not value.is_framed and self._buffer.startswith("\n") and stop != 1:
                if certain < 2:  # the line end may be the whole string
                    return 0
                begin, value.is_framed = 1, True
            certain -= value.is_framed and certain > begin and self._buffer[certain - 1] == "\n"
        new_text = json_string(self._buffer[begin:certain])[1:-1]
        self._new_parts.append(new_text)
        value.certain += new_text
        return certain

    def _has_elements(self) -> bool | None:
        """Whether the value of an element consists of elements; None if this is not known yet."""
        if self._form.is_typed:
            return True
        buffered, mark = self._buffer.lstrip(_SPACE), self._form.excluded
        return True if buffered.startswith(mark) else None if mark.startswith(buffered) else False


def _spans_of(text: str) -> list[tuple[str, int, int]]:
    """As `scalar_spans`; the whole text if it is not JSON."""
    try:
        return list(scalar_spans(text))
    except (ValueError, IndexError):
        return [("", 0, len(text))]


def possible_mark_length(text: str, marks: Mapping[str, str]) -> int:
    """The number of characters at the end of the text that may begin a mark."""
    longest = max(map(len, marks), default=1) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-size:]) for mark in marks):
            return size
    return 0


def json_string(text: str) -> str:
    """A string as JSON."""
    return json.dumps(text, ensure_ascii=False)


def _header(form: ElementForm, kind: str) -> re.Pattern[str]:
    """A pattern for the text before the value of a member (`kind` is "object") or an item."""

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
