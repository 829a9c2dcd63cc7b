"""The beginning of a JSON text, completed while it is written: the shortest valid JSON that says what is sure.

    {"city": "Os            ->   {"city": "Os"}
    {"days": 1              ->   {}                 the number may go on
    {"days": 12, "to        ->   {"days": 12}

A string that is not complete stands as far as it was written; a name without its value, and a number, `true`, `false`
or `null` that may go on, are left out. Cost: what is read is looked at once, but for a number that may go on.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["PartialJson", "completed_json"]

_TOKEN: Final = re.compile(r'\s*([{}\[\],:"]|[^\s{}\[\],:"]+)')
_MARKS: Final = '{}[],:"'
_CHARACTERS: Final = re.compile(  # whole ones: no half of a pair of surrogates
    r'(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4})*', re.DOTALL
)


class PartialJson:
    """Reads one value, piece by piece.

    Attributes:
        text: what was read.
        end: where the value ends; -1 while it is not known.
    """

    def __init__(self) -> None:
        self.text, self.end = "", -1
        self._at = 0  # behind the last token
        self._inside = -1  # behind the last whole character of a string that is written
        self._closers: list[str] = []
        self._is_name = False  # of a member: the next string
        self._sure, self._sure_closers = 0, ""

    def read(self, piece: str) -> None:
        """Read on."""
        self.text += piece
        while self.end < 0 and self._step():
            pass

    def completed(self) -> str:
        """The value as far as it is sure; "" if nothing is."""
        if self._inside >= 0 and not self._is_name:
            return f'{self.text[: self._inside]}"{"".join(reversed(self._closers))}'
        return self.text[: self._sure] + self._sure_closers

    def _step(self) -> bool:
        """Read a token; false if it is not complete."""
        if self._inside >= 0:
            found = _CHARACTERS.match(self.text, self._inside)
            assert found is not None
            self._inside = found.end()
            if not self.text.startswith('"', self._inside):
                return False
            self._at, self._inside = self._inside + 1, -1
            if not self._is_name:
                self._value()
            return True
        found = _TOKEN.match(self.text, self._at)
        if found is None or (found.end() == len(self.text) and found[1] not in _MARKS):
            return False
        token, self._at = found[1], found.end()
        match token:
            case '"':
                self._inside = self._at
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
            self.end = self._at

    def _remember(self) -> None:
        self._sure, self._sure_closers = self._at, "".join(reversed(self._closers))


def completed_json(text: str) -> str:
    """The text completed; "" if nothing is sure yet."""
    reader = PartialJson()
    reader.read(text)
    return reader.completed()
