"""Completes JSON text that is still being written: the shortest valid JSON that contains everything certain so far.

    {"city": "Os            ->   {"city": "Os"}
    {"days": 1              ->   {}                 the number may continue
    {"days": 12, "to        ->   {"days": 12}

An incomplete string is kept as far as it was written. Left out are a name without its value, and a number, `true`,
`false` or `null` that may continue.

Cost: `read` visits each character once, except in a number or word that may continue. `certain_prefix` is linear in the
nesting depth, and `completed_text` copies the text.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["PartialJson", "completed_json"]

_TOKEN: Final = re.compile(r'\s*([{}\[\],:"]|[-+.0-9A-Za-z]+)')  # a number ends where the next token begins
_PUNCTUATION: Final = '{}[],:"'
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
        self._token_end = 0  # the end of the last token, in the window
        self._string_end = -1  # the end of the last complete character of a string, in the window; -1: outside
        self._closers: list[str] = []
        self._is_name = False  # whether the next string is the name of a member
        self._certain_end, self._certain_closers = 0, ""

    @property
    def text(self) -> str:
        """The text that was read."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def read(self, piece: str) -> str:
        """Read a piece, and return the text after the value, if it has ended."""
        self._pieces.append(piece)
        self._window += piece
        while self.end < 0 and self._read_token():
            pass
        read_end = self._token_end if self._string_end < 0 else self._string_end
        self._window, self._base = self._window[read_end:], self._base + read_end
        self._token_end, self._string_end = 0, min(self._string_end, 0)
        if self.end < 0:
            return ""
        rest, self._window = self._window, ""
        return rest

    @property
    def certain_prefix(self) -> tuple[int, str]:
        """The number of characters of the text that are certain, and the text that completes them."""
        if self._string_end >= 0 and not self._is_name:
            return self._base + self._string_end, f'"{"".join(reversed(self._closers))}'
        return self._certain_end, self._certain_closers

    def completed_text(self, *, with_unfinished_strings: bool = True) -> str:
        """The certain part of the value as JSON; "" if nothing is certain."""
        length, closers = self.certain_prefix if with_unfinished_strings else (self._certain_end, self._certain_closers)
        return self.text[:length] + closers

    def _read_token(self) -> bool:
        """Read a token. Returns False if it is not complete."""
        if self._string_end >= 0:
            match = _CHARACTERS.match(self._window, self._string_end)
            assert match is not None
            self._string_end = match.end()
            if not self._window.startswith('"', self._string_end):
                return False
            self._token_end, self._string_end = self._string_end + 1, -1
            if not self._is_name:
                self._end_value()
            return True
        match = _TOKEN.match(self._window, self._token_end)
        if match is None or (match.end() == len(self._window) and match[1] not in _PUNCTUATION):
            return False
        token, self._token_end = match[1], match.end()
        match token:
            case '"':
                self._string_end = self._token_end
            case "{" | "[":
                self._closers.append("}" if token == "{" else "]")
                self._is_name = token == "{"
                self._mark_certain()
            case "}" | "]":
                del self._closers[-1:]
                self._is_name = False
                self._end_value()
            case ",":
                self._is_name = self._closers[-1:] == ["}"]
            case ":":
                self._is_name = False
            case _ if not self._is_name:
                self._end_value()
        return True

    def _end_value(self) -> None:
        self._mark_certain()
        if not self._closers:
            self.end = self._base + self._token_end

    def _mark_certain(self) -> None:
        self._certain_end, self._certain_closers = self._base + self._token_end, "".join(reversed(self._closers))


def completed_json(text: str, *, with_unfinished_strings: bool = True) -> str:
    """The completed text; "" if nothing is certain yet."""
    reader = PartialJson()
    reader.read(text)
    return reader.completed_text(with_unfinished_strings=with_unfinished_strings)
