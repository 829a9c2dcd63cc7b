"""Reads the arguments of one call while they are written. In: pieces of text. Out: valid JSON at any time.

    <cofl:value name="at" type="dict"><cofl:value name="city" type="raw">Os      ->      {"at": {"city": "Os"}}

`JsonArguments` reads JSON. `XmlArguments`, with the same interface, reads the styles that write each argument as an
element (element_forms.py); some of these also write members and items of values as elements. Either the style marks the
type of a value, or the type follows from the schema (`argument_types.py`) and the text. `read` takes a piece, and
returns the text after the arguments once they may end; the caller passes this text again with the next piece. `text` is
valid JSON at any time. `new_text` returns new JSON text that can no longer change. The results of all its calls,
joined, are the JSON text of the arguments.

Cost: each character is read once. The beginning of an element is read again when it may be complete. `text` copies the
arguments so far.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from guided.frontends.json_schema.documents.source_spans import pointer_of, scalar_spans
from guided.frontends.structural_tag.argument_types import ArgumentTypes, Goals, is_json
from guided.frontends.structural_tag.element_forms import ElementForm
from guided.frontends.structural_tag.partial_json import PartialJson

__all__ = ["JsonArguments", "XmlArguments", "json_string", "possible_mark_length"]

_WHITESPACE: Final = " \t\r\n"
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING_KIND: Final = frozenset(("string",))
_OTHER_KINDS: Final = frozenset(("object", "array", "number", "boolean", "null"))
_KINDS_BY_LABEL: Final = {"json": {"number", "boolean", "null"}, "dict": {"object"}, "list": {"array"}}


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
        rest = self._json.read(piece)
        self._new_parts.append(piece[: len(piece) - len(rest)])
        return rest

    def new_text(self, *, is_complete: bool) -> str:
        """The new JSON text that can no longer change; `is_complete`: the arguments are complete."""
        new_text, self._new_parts = "".join(self._new_parts), []
        return new_text

    def text(self) -> str:
        """The arguments so far."""
        return self._json.completed_text() or "{}"

    def spans(self) -> list[tuple[str, int, int]]:
        """For each value of complete arguments, except nonempty containers: its JSON Pointer and its span in them."""
        return _value_spans(self._json.text[: self._json.end])


@dataclass
class _Container:
    """An object or array whose elements are being read.

    Attributes:
        goals: what its schema allows.
        name: the JSON text before it: its name and a colon if it is a member, otherwise empty.
        end: the text that ends its element.
        parts: the JSON of its members or items so far.
        key: its name or index in the container around it.
    """

    kind: str
    goals: Goals
    name: str = ""
    end: str = ""
    parts: list[str] = field(default_factory=list)
    key: str | int = ""


@dataclass
class _Value:
    """An element whose value is being read, and is not known to be an object or array.

    Attributes:
        kinds: the types that the value may have.
        parts: the text that was removed from the buffer. If the value is certainly a string: as JSON, without quotation
            marks.
        is_emitted: whether `new_text` has returned its name.
        is_framed: whether it is a string with a line end before and after it.
        key: its name or index.
        start: where it begins in the text of the arguments.
    """

    goals: Goals
    kinds: set[str]
    name: str
    end: str
    key: str | int
    start: int
    parts: list[str] = field(default_factory=list)
    is_emitted: bool = False
    is_framed: bool = False


class XmlArguments:
    """Reads arguments that are elements."""

    def __init__(self, form: ElementForm, parameters: Any) -> None:
        self._form = form
        self._types = None if form.is_typed else ArgumentTypes.of_schema(parameters, form)
        self._open_containers = [_Container("object", frozenset() if self._types is None else self._types.root)]
        self._value: _Value | None = None
        self._buffer, self._size = "", 0  # the text that is not interpreted yet; the size of all text so far
        self._position = 0  # the end of the text that has been interpreted, in the buffer
        self._searched_length = 0  # how much of the buffer is known to contain no complete header
        self._spans: list[tuple[str, int, int]] = []
        self._new_parts = ["{"]
        kinds = ("object", "array") if form.has_nested_elements else ("object",)
        self._headers = {kind: _header_pattern(form, kind) for kind in kinds}
        self._header_ends = {kind: _header_ends(form, kind) for kind in kinds}

    @property
    def may_end(self) -> bool:
        """Whether the arguments may end here."""
        return len(self._open_containers) == 1 and self._value is None

    def read(self, piece: str) -> str:
        """Read a piece, and return the text after the last complete element, if the arguments may end there."""
        self._buffer += piece
        self._size += len(piece)
        while self._may_complete() and self._read_next():
            pass
        rest, self._position = self._buffer[self._position :], 0
        self._searched_length = len(rest) if self._value is None else 0
        if not self.may_end:
            self._buffer = rest
            return ""
        self._buffer = ""
        self._size -= len(rest)
        return rest

    def text(self) -> str:
        """The arguments so far."""
        open_value = ""
        if self._value is not None and self._value.kinds == {"string"}:
            open_value = f'{self._value.name}"{"".join(self._value.parts)}"'
        for container in reversed(self._open_containers):
            open_value = _format_container(
                container.kind, container.name, [*container.parts, *([open_value] if open_value else [])]
            )
        return open_value

    def new_text(self, *, is_complete: bool) -> str:
        """The new JSON text that can no longer change; `is_complete`: the arguments are complete."""
        new_text, self._new_parts = "".join([*self._new_parts, "}" * is_complete]), []
        return new_text

    def spans(self) -> list[tuple[str, int, int]]:
        """Like `JsonArguments.spans`. The span of a string includes the whitespace around it."""
        return self._spans

    def _emit_begin(self, name: str, begin: str) -> None:
        """Emit the beginning of a member or an item."""
        self._new_parts.append(f"{', ' if self._open_containers[-1].parts else ''}{name}{begin}")

    def _may_complete(self) -> bool:
        """False if the buffer begins with an incomplete header or end of a container, and the new text cannot complete
        it.
        """
        container = self._open_containers[-1]
        ends = self._header_ends[container.kind]
        if self._value is not None or self._position or not self._searched_length or not ends:
            return True
        return any(self._buffer.find(end, self._searched_length) >= 0 for end in (*ends, *container.end[-1:]))

    def _read_next(self) -> bool:
        """Read the beginning, the value or the end of an element. Returns False if more text is needed."""
        if self._value is not None:
            return self._read_value(self._value)
        container = self._open_containers[-1]
        start = self._skip_space()
        if container.end and self._buffer.startswith(container.end, start):
            self._position = start + len(container.end)
            self._open_containers.pop()
            self._new_parts.append("}" if container.kind == "object" else "]")
            self._open_containers[-1].parts.append(_format_container(container.kind, container.name, container.parts))
            return True
        match = self._headers[container.kind].match(self._buffer, start)
        if match is None:
            if container.end:
                self._position = start
            return False
        self._position = match.end()
        self._begin_element(container, match)
        return True

    def _skip_space(self) -> int:
        """The offset in the buffer of the next character that is not whitespace."""
        match = _SPACE.match(self._buffer, self._position)
        return self._position if match is None else match.end()

    def _begin_element(self, container: _Container, match: re.Match[str]) -> None:
        """Begin the element whose header matched: find its end, its key, and the types that its value may have."""
        name, end, goals = "", self._form.item_end, container.goals
        key: str | int = len(container.parts)
        if container.kind == "object":
            key = self._form.decode_name(match["name"])
            name, end = f"{json_string(key)}: ", self._form.end.replace("{name}", match["name"])
        kinds: Collection[str] = _STRING_KIND if self._form.has_nested_elements else _STRING_KIND | _OTHER_KINDS
        if self._form.is_typed:
            kinds = (
                _STRING_KIND
                if match["string"]
                else _KINDS_BY_LABEL.get(match.groupdict().get("type", ""), _OTHER_KINDS)
            )
        elif (types := self._types) is not None:
            goals, schema_kinds = types.read(goals, key)
            kinds = schema_kinds or kinds  # `schema_kinds` is empty for a name that only the compiler's options allow
        start = self._size - len(self._buffer) + self._position
        self._value = _Value(goals, set(kinds), name, end, key, start)

    def _read_value(self, value: _Value) -> bool:
        """Read the value of an element as far as it is in the buffer. Returns False if more text is needed."""
        if self._form.has_nested_elements and (container_kinds := value.kinds & {"object", "array"}):
            has_elements = self._has_elements(value)
            if has_elements is None:
                return False
            if has_elements:
                (kind,) = container_kinds
                self._emit_begin(value.name, "{" if kind == "object" else "[")
                self._open_containers.append(_Container(kind, value.goals, value.name, value.end, key=value.key))
                self._value = None
                return True
            value.kinds -= container_kinds
        end_offset = self._buffer.find(value.end, self._position)
        if value.kinds == {"string"}:
            self._read_string(value, end_offset)
        else:
            self._move_to_parts(value, end_offset if end_offset >= 0 else len(self._buffer) - len(value.end) + 1)
        if end_offset < 0:
            return False
        value_text = "".join(value.parts)
        spans = [("", value.start, self._size - len(self._buffer) + end_offset)]
        self._position = end_offset + len(value.end)
        if value.kinds == {"string"}:
            json_value = f'"{value_text}"'
            self._new_parts.append('"')
        elif "string" in value.kinds and not is_json(value_text, value.kinds, nests=self._form.has_nested_elements):
            is_framed = self._form.lines and len(value_text) > 1 and value_text[0] == "\n"
            json_value = json_string(value_text[1:].removesuffix("\n") if is_framed else value_text)
        else:
            json_value = value_text.strip(_WHITESPACE)
            spans = [(inner, value.start + start, value.start + end) for inner, start, end in _value_spans(value_text)]
        pointer = pointer_of([*(container.key for container in self._open_containers[1:]), value.key])
        self._spans += [(pointer + inner, start, end) for inner, start, end in spans]
        if not value.is_emitted:
            self._emit_begin(value.name, json_value)
        self._open_containers[-1].parts.append(value.name + json_value)
        self._value = None
        return True

    def _move_to_parts(self, value: _Value, end: int) -> None:
        """Remove the text of a value before an offset from the buffer."""
        if end > self._position:
            value.parts.append(self._buffer[self._position : end])
            self._position = end

    def _read_string(self, value: _Value, end_offset: int) -> None:
        """Emit the certain part of a string, and remove it from the buffer."""
        if not value.is_emitted:
            self._emit_begin(value.name, '"')
            value.is_emitted = True
        begin = self._position
        certain_end = end_offset
        if end_offset < 0:
            certain_end = len(self._buffer) - possible_mark_length(self._buffer[begin:], {value.end: ""})
        if self._form.lines:
            is_first = not value.parts and not value.is_framed
            if is_first and self._buffer.startswith("\n", begin) and end_offset != begin + 1:
                if certain_end < begin + 2:  # the line end may be the whole string
                    return
                begin, value.is_framed = begin + 1, True
            certain_end -= value.is_framed and certain_end > begin and self._buffer[certain_end - 1] == "\n"
        if certain_end > begin:
            value.parts.append(json_string(self._buffer[begin:certain_end])[1:-1])
            self._new_parts.append(value.parts[-1])
        self._position = certain_end if end_offset < 0 else end_offset

    def _has_elements(self, value: _Value) -> bool | None:
        """Whether a value consists of elements; None if this is not known yet."""
        if self._form.is_typed:
            return True
        start, (element_begin,) = self._skip_space(), self._form.forbidden_texts
        if self._buffer.startswith(element_begin, start):
            value.parts.clear()  # whitespace before the first element
            return True
        if element_begin.startswith(self._buffer[start : start + len(element_begin)]):
            self._move_to_parts(value, start)
            return None
        if value.parts:
            self._buffer, self._position = "".join((*value.parts, self._buffer[self._position :])), 0
            value.parts.clear()
        return False


def _value_spans(text: str) -> list[tuple[str, int, int]]:
    """Like `scalar_spans`; the whole text if it is not JSON."""
    try:
        return list(scalar_spans(text))
    except (ValueError, IndexError):
        return [("", 0, len(text))]


def possible_mark_length(text: str, marks: Mapping[str, str]) -> int:
    """The length of the longest suffix that begins a key of `marks`, and is shorter than the longest key; 0 without
    one."""
    max_length = max(map(len, marks), default=1) - 1
    for size in range(min(max_length, len(text)), 0, -1):
        if any(mark.startswith(text[-size:]) for mark in marks):
            return size
    return 0


def json_string(text: str) -> str:
    """A string as JSON."""
    return json.dumps(text, ensure_ascii=False)


def _header_pattern(form: ElementForm, kind: str) -> re.Pattern[str]:
    """A pattern for the text before the value of a member (`kind` is "object") or an item."""

    def pattern(text: str) -> str:
        return re.escape(text).replace(re.escape("{gap}"), r"[ \t\r\n]*")

    name = f"(?P<name>{form.name_pattern})"
    types = "|".join(dict.fromkeys(form.types.values())) or "[a-z]+"
    other = pattern(form.other).replace(re.escape("{type}"), f"(?P<type>{types})")
    begin = f"{pattern(form.begin)}{name}{pattern(form.after)}" if kind == "object" else pattern(form.item)
    return re.compile(f"{begin}(?:(?P<string>{pattern(form.string)})|{other})")


def _header_ends(form: ElementForm, kind: str) -> set[str]:
    """The last characters of the texts that `_header_pattern` matches; empty if they are not known."""
    ends = {
        (form.after if kind == "object" else form.item) + value_prefix for value_prefix in (form.string, form.other)
    }
    return set() if any(not end or end.endswith("}") for end in ends) else {end[-1] for end in ends}


def _format_container(kind: str, name: str, parts: list[str]) -> str:
    inner = ", ".join(parts)
    return f"{name}{{{inner}}}" if kind == "object" else f"{name}[{inner}]"
