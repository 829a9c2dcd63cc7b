"""Completes an unfinished JSON text while it is written: gives the shortest valid JSON with all that is certain.

    {"city": "Os            ->   {"city": "Os"}
    {"days": 1              ->   {}                 the number may continue
    {"days": 12, "to        ->   {"days": 12}

An incomplete string is kept as far as it was written. A name without its value, and a number, `true`, `false` or `null`
that may continue, are left out.

Cost: `read` visits each character once, except in a number or word that may continue. `certain_prefix` is linear in the
nesting depth, and `completed_text` copies the text.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["PartialJson", "completed_json"]

_TOKEN: Final = re.compile(r'\s*([{}\[\],:"]|[-+.0-9A-Za-z]+)')  # a number ends where the next token begins
_MARKS: Final = '{}[],:"'
_CHARACTERS: Final = re.compile(  # complete characters, not half of a surrogate pair
    r'(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4})*', re.DOTALL
)


class PartialJson:
    """Reads one value, piece by piece.

    Attributes:
        end: the offset at which the value ends; -1 if it is not known yet.
    """

    def __init__(self) -> None:
        self.end = -1
        self._pieces: list[str] = []
        self._window, self._base = "", 0  # the text that is still needed, and its offset
        self._at = 0  # the end of the last token, in the window
        self._string_end = -1  # the end of the last complete character of a string, in the window; -1: outside
        self._closers: list[str] = []
        self._is_name = False  # whether the next string is the name of a member
        self._certain, self._certain_closers = 0, ""

    @property
    def text(self) -> str:
        """The text that was read."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def read(self, piece: str) -> str:
        """Read a piece, and return the text after the value, if it has ended."""
        self._pieces.append(piece)
        self._window += piece
        while self.end < 0 and self._step():
            pass
        read_end = self._at if self._string_end < 0 else self._string_end
        self._window, self._base = self._window[read_end:], self._base + read_end
        self._at, self._string_end = 0, min(self._string_end, 0)
        if self.end < 0:
            return ""
        after, self._window = self._window, ""
        return after

    @property
    def certain_prefix(self) -> tuple[int, str]:
        """The number of characters of the text that are certain, and the text that completes them."""
        if self._string_end >= 0 and not self._is_name:
            return self._base + self._string_end, f'"{"".join(reversed(self._closers))}'
        return self._certain, self._certain_closers

    def completed_text(self, *, with_unfinished_strings: bool = True) -> str:
        """The certain part of the value as JSON; "" if nothing is certain."""
        length, closers = self.certain_prefix if with_unfinished_strings else (self._certain, self._certain_closers)
        return self.text[:length] + closers

    def _step(self) -> bool:
        """Read a token. Returns False if it is not complete."""
        if self._string_end >= 0:
            match = _CHARACTERS.match(self._window, self._string_end)
            assert match is not None
            self._string_end = match.end()
            if not self._window.startswith('"', self._string_end):
                return False
            self._at, self._string_end = self._string_end + 1, -1
            if not self._is_name:
                self._value()
            return True
        match = _TOKEN.match(self._window, self._at)
        if match is None or (match.end() == len(self._window) and match[1] not in _MARKS):
            return False
        token, self._at = match[1], match.end()
        match token:
            case '"':
                self._string_end = self._at
            case "{" | "[":
                self._closers.append("}" if token == "{" else "]")
                self._is_name = token == "{"
                self._remember()
            case "}" | "]":
                del self._closers[-1:]
                self._is_name = False
                self._value()
            case ",":
                self._is_name = self._closers[-1:] == ["}"]
            case ":":
                self._is_name = False
            case _ if not self._is_name:
                self._value()
        return True

    def _value(self) -> None:
        self._remember()
        if not self._closers:
            self.end = self._base + self._at

    def _remember(self) -> None:
        self._certain, self._certain_closers = self._base + self._at, "".join(reversed(self._closers))


def completed_json(text: str, *, with_unfinished_strings: bool = True) -> str:
    """The completed text; "" if nothing is certain yet."""
    reader = PartialJson()
    reader.read(text)
    return reader.completed_text(with_unfinished_strings=with_unfinished_strings)
