"""Reads the arguments of one call that are literals (literal_forms.py), while they are written.

    city='Os                  ->      {"city": "Os"}
    city='Oslo', days=3)      ->      {"city": "Oslo", "days": 3}, and the rest of the text

How: the text is translated into JSON piece by piece, and `JsonArguments` reads this JSON. A word, such as a number or a
constant, is translated once the next character shows its end. A string is translated as far as its characters and
escapes are complete. The constants of Python and of JSON are accepted in every style. The arguments end at the
first closing bracket outside a value.

Cost: each character is read once. Not done: checking the text. Characters that cannot be read are skipped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from guided.frontends.json_schema.documents.source_spans import pointer_of
from guided.frontends.structural_tag.call_arguments import JsonArguments, json_string, possible_mark_length
from guided.frontends.structural_tag.literal_forms import LiteralForm

__all__ = ["LiteralArguments"]

_WHITESPACE: Final = re.compile(r"[ \t\r\n]*")
_CLOSING: Final = ")]}"
_WORD_END: Final = re.compile(r"[\s,:=()\[\]{}]")
_NAME_END: Final = re.compile(r"[=:,()\[\]{}]")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_CONSTANTS: Final = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_INCOMPLETE_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{0,1}|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|)\Z")
_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "\\": "\\", "'": "'", '"': '"',
    "\n": "",
}  # fmt: skip


@dataclass(slots=True)
class _OpenContainer:
    """An object or array that is being read. `key`: the name or index of its current value. `count`: its values so
    far.
    """

    is_object: bool
    key: str | int = 0
    count: int = 0


class LiteralArguments:
    """Reads arguments that are literals. It has the interface of `JsonArguments`."""

    def __init__(self, form: LiteralForm) -> None:
        self._form, self._json = form, JsonArguments()
        self._buffer, self._offset = "", 0  # the text that is not interpreted yet, and its offset in the arguments
        self._position = 0  # the end of the text that has been interpreted, in the buffer
        self._open_containers = [_OpenContainer(True)]
        self._expects = "brace" if form.braces else "name"  # name, value, comma, or the brace before the arguments
        self._quote = ""  # the delimiter of the string that is being read; "": none
        self._value_start = 0  # where the value begins
        self._word_parts: list[str] = []  # the beginning of a name without delimiters or a word, which may continue
        self._name_parts: list[str] = []  # the beginning of a name with delimiters
        self._spans: list[tuple[str, int, int]] = []
        self._emit("{")

    @property
    def may_end(self) -> bool:
        """Whether the arguments may end here."""
        return not self._open_containers

    def read(self, piece: str) -> str:
        """Read a piece, and return the text after the arguments."""
        if not self._open_containers:
            return piece
        self._buffer += piece
        while self._open_containers and self._read_next():
            pass
        rest, self._offset, self._position = self._buffer[self._position :], self._offset + self._position, 0
        self._buffer = rest if self._open_containers else ""
        return "" if self._open_containers else rest

    def text(self) -> str:
        """The arguments so far, as valid JSON."""
        return self._json.text()

    def new_text(self, *, is_complete: bool) -> str:
        """The new JSON text that can no longer change; `is_complete`: the arguments are complete."""
        return self._json.new_text(is_complete=is_complete)

    def spans(self) -> list[tuple[str, int, int]]:
        """Like `JsonArguments.spans`. The span of a string includes its delimiters."""
        return self._spans

    def _emit(self, json: str) -> None:
        self._json.read(json)

    def _read_next(self) -> bool:
        """Read a name, a value, a separator or a bracket, or a part of one. Returns False if more text is needed."""
        if self._quote:
            return self._read_string()
        if not self._word_parts and (space := _WHITESPACE.match(self._buffer, self._position)) is not None:
            self._position = space.end()
        if self._position == len(self._buffer):
            return False
        char = self._buffer[self._position]
        if self._expects == "brace":
            self._position += 1
            self._expects = "name" if char == "{" else "brace"
            return True
        if self._expects != "value" and char in _CLOSING and not self._word_parts:
            return self._close()
        if self._expects == "comma":
            if char == ",":
                self._expects = "name" if self._open_containers[-1].is_object else "value"
            self._position += 1
            return True
        return self._read_name() if self._expects == "name" else self._read_value()

    def _close(self) -> bool:
        """End the innermost object or array, or the arguments. Then the bracket is part of them only if the form has
        braces.
        """
        container = self._open_containers.pop()
        self._emit("}" if container.is_object else "]")
        self._position += bool(self._open_containers or self._form.braces)
        if self._open_containers and not container.count:
            self._add_span()
        self._expects = "comma"
        return True

    def _begin_quote(self) -> bool | None:
        """Begin a string, if there is a delimiter. Returns None if more text is needed to decide."""
        for quote in dict.fromkeys((*self._form.quotes, *(("'", '"') if self._form.escapes else ()))):
            if self._buffer.startswith(quote, self._position):
                self._quote, self._value_start = quote, self._offset + self._position
                self._position += len(quote)
                return True
            if quote.startswith(self._buffer[self._position : self._position + len(quote)]):
                return None
        return False

    def _read_word(self, end_pattern: re.Pattern[str]) -> str | None:
        """Read the text before the next match of a pattern. Returns None if more text is needed."""
        match = end_pattern.search(self._buffer, self._position)
        end = len(self._buffer) if match is None else match.start()
        self._word_parts.append(self._buffer[self._position : end])
        self._position = end
        if match is None:
            return None
        word, self._word_parts = "".join(self._word_parts), []
        return word

    def _read_name(self) -> bool:
        begins_string = self._begin_quote() if not self._word_parts else False
        if begins_string is None:
            return False
        if begins_string:
            self._name_parts = []
            return True
        name = self._read_word(_NAME_END)
        if name is None:
            return False
        end_char = self._buffer[self._position]
        if end_char in "=:":
            self._begin_member(name.strip())
        self._position += end_char not in _CLOSING  # a name without = or : has no value, and is skipped
        return True

    def _begin_member(self, name: str) -> None:
        container = self._open_containers[-1]
        self._emit(f"{', ' if container.count else ''}{json_string(name)}: ")
        container.key, container.count = name, container.count + 1
        self._expects = "value"

    def _begin_value(self) -> None:
        """Begin a value. In an array, count it, and write the comma before it."""
        container = self._open_containers[-1]
        if not container.is_object:
            self._emit(", " if container.count else "")
            container.key, container.count = container.count, container.count + 1

    def _read_value(self) -> bool:
        if self._word_parts:
            return self._read_word_value()
        first_char = self._buffer[self._position]
        if first_char in _CLOSING:
            if self._open_containers[-1].is_object:  # a name without a value
                self._emit("null")
            return self._close()
        begins_string = self._begin_quote()
        if begins_string is None:
            return False
        if begins_string:
            self._begin_value()
            self._emit('"')
        elif first_char in "[{(":
            self._begin_value()
            self._emit("{" if first_char == "{" else "[")
            self._value_start = self._offset + self._position
            self._open_containers.append(_OpenContainer(first_char == "{"))
            self._expects = "name" if first_char == "{" else "value"
            self._position += 1
        elif _WORD_END.match(first_char) is not None:
            self._position += 1
        else:
            self._value_start = self._offset + self._position
            return self._read_word_value()
        return True

    def _read_word_value(self) -> bool:
        """Read a number or a constant. Returns False if it may continue."""
        word = self._read_word(_WORD_END)
        if word is None:
            return False
        self._begin_value()
        self._emit(_json_word(word))
        self._add_span()
        self._expects = "comma"
        return True

    def _read_string(self) -> bool:
        """Read the characters of a string that are complete, and its end. Returns False if more text is needed."""
        offset, pieces = self._position, list[str]()
        while offset < len(self._buffer):
            char = self._buffer[offset]
            if self._buffer.startswith(self._quote, offset):
                self._add_characters("".join(pieces))
                self._position = offset + len(self._quote)
                self._end_string()
                return True
            if char == "\\" and self._form.escapes:
                match = None if _INCOMPLETE_ESCAPE.match(self._buffer, offset) else _ESCAPE.match(self._buffer, offset)
                if match is None:
                    break
                pieces.append(_decode_escape(match[1]))
                offset = match.end()
                continue
            if (
                offset + len(self._quote) > len(self._buffer)
                and possible_mark_length(self._buffer[offset:], {self._quote: ""}) == len(self._buffer) - offset
            ):
                break
            pieces.append(char)
            offset += 1
        self._add_characters("".join(pieces))
        self._position = offset
        return False

    def _add_characters(self, text: str) -> None:
        if self._expects == "name":
            self._name_parts.append(text)
        else:
            self._emit(json_string(text)[1:-1])

    def _end_string(self) -> None:
        self._quote = ""
        if self._expects == "value":
            self._emit('"')
            self._add_span()
            self._expects = "comma"
            return
        self._begin_member("".join(self._name_parts))  # the colon after the name is skipped

    def _add_span(self) -> None:
        """Add the span of the value that ends here."""
        pointer = pointer_of(container.key for container in self._open_containers)
        self._spans.append((pointer, self._value_start, self._offset + self._position))


def _json_word(word: str) -> str:
    """A number or constant as JSON; any other word becomes a string."""
    return word if _NUMBER.fullmatch(word) else _CONSTANTS.get(word) or json_string(word)


def _decode_escape(escape: str) -> str:
    """The text of an escape without its backslash. A surrogate is not a character, and becomes U+FFFD."""
    if len(escape) > 1:
        code = int(escape[1:], 16)
        return chr(code) if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else "\ufffd"
    return _SIMPLE_ESCAPES.get(escape, "\\" + escape)
