"""Completes JSON text that is still being written: the shortest valid JSON that contains everything certain so far.

    {"city": "Os            ->   {"city": "Os"}
    {"days": 1              ->   {}                 the number may continue
    {"days": 12, "to        ->   {"days": 12}

An incomplete string is kept as far as it was written. Left out are a name without its value, and a number, `true`,
`false` or `null` that may continue.

Cost: `read` visits each character once. `certain_length_and_closers` is linear in the nesting depth, and
`completed_text` copies the text. Not done: checking the text. It stops at a character that it cannot read.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["PartialJson", "completed_json"]

_WHITESPACE: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"[-+.0-9A-Za-z]*")  # a number or a constant ends where the next token begins
_CHARACTERS: Final = re.compile(  # complete characters, not half of a surrogate pair
    r'(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4})*', re.DOTALL
)
_MAX_INCOMPLETE: Final = len(r"\ud83d\ude0")  # the longest beginning of a character that is not complete


class PartialJson:
    """Reads one value, piece by piece.

    Attributes:
        end: the offset at which the value ends; -1 if it is not known yet.
    """

    def __init__(self) -> None:
        self.end = -1
        self._pieces: list[str] = []
        self._window, self._base = "", 0  # the text that is not read yet, and its offset
        self._position = 0  # the end of the text that has been read, in the window
        self._in_string = self._in_word = self._is_invalid = False
        self._closers: list[str] = []
        self._is_name = False  # whether the current or next string is the name of a member
        self._certain_end = 0  # the end of the last complete value, or of the last opening bracket

    @property
    def text(self) -> str:
        """The text that was read."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def read(self, piece: str) -> str:
        """Read a piece, and return the text after the value, if it has ended."""
        self._pieces.append(piece)
        if self._is_invalid:
            return ""
        self._window += piece
        while self.end < 0 and self._read_next():
            pass
        self._window, self._base = self._window[self._position :], self._base + self._position
        self._position = 0
        if self.end < 0:
            return ""
        rest, self._window = self._window, ""
        return rest

    @property
    def certain_length_and_closers(self) -> tuple[int, str]:
        """The number of characters of the text that are certain, and the text that completes them."""
        closers = "".join(reversed(self._closers))
        if self._in_string and not self._is_name:
            return self._base, '"' + closers
        return self._certain_end, closers

    def completed_text(self, *, with_unfinished_strings: bool = True) -> str:
        """The certain part of the value as JSON; "" if nothing is certain."""
        length, closers = self.certain_length_and_closers
        if not with_unfinished_strings:
            length, closers = self._certain_end, closers.removeprefix('"')
        return self.text[:length] + closers

    def _read_next(self) -> bool:
        """Read a string, a word or a punctuation mark, or a part of one. Returns False if more text is needed."""
        if self._in_string:
            return self._read_string()
        if self._in_word:
            self._position = _end_of(_WORD, self._window, self._position)
            if self._position == len(self._window):
                return False
            self._in_word = False
            if not self._is_name:
                self._end_value()
            return True
        self._position = _end_of(_WHITESPACE, self._window, self._position)
        if self._position == len(self._window):
            return False
        match char := self._window[self._position]:
            case '"':
                self._in_string = True
            case "{" | "[":
                self._closers.append("}" if char == "{" else "]")
                self._is_name = char == "{"
                self._certain_end = self._base + self._position + 1
            case "}" | "]":
                del self._closers[-1:]
                self._is_name = False
                self._position += 1
                self._end_value()
                return True
            case ",":
                self._is_name = self._closers[-1:] == ["}"]
            case ":":
                self._is_name = False
            case _:
                self._in_word = _WORD.fullmatch(char) is not None
                self._is_invalid = not self._in_word
                return self._in_word
        self._position += 1
        return True

    def _read_string(self) -> bool:
        """Read the characters of a string that are complete, and its end."""
        self._position = _end_of(_CHARACTERS, self._window, self._position)
        if not self._window.startswith('"', self._position):
            self._is_invalid = len(self._window) - self._position > _MAX_INCOMPLETE
            return False
        self._position += 1
        self._in_string = False
        if not self._is_name:
            self._end_value()
        return True

    def _end_value(self) -> None:
        self._certain_end = self._base + self._position
        if not self._closers:
            self.end = self._certain_end


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    assert match is not None  # the patterns match the empty text
    return match.end()


def completed_json(text: str, *, with_unfinished_strings: bool = True) -> str:
    """The completed text; "" if nothing is certain yet."""
    reader = PartialJson()
    reader.read(text)
    return reader.completed_text(with_unfinished_strings=with_unfinished_strings)
