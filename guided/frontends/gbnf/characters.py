r"""Reads literals and character classes. In: a token of the grammar. Out: a string, or ranges of code points.

The escapes are those of llama.cpp (\xHH \uHHHH \UHHHHHHHH \t \r \n \\ \" \[ \] \-) and those that xgrammar adds
(\/ \' \? \b \f \a \v \0 \e, and in a class a backslash before any of ^ $ . * + ( ) { } and |). The dialects
conflict in one case: after \x, llama.cpp reads two digits, and xgrammar all digits. By default, \x takes two digits,
and a third one causes a warning. In xgrammar's dialect, it takes all digits.
"""

from __future__ import annotations

import re
from typing import Final

from guided.errors import Finding, SpecError
from guided.ir.ranges import ALL_CHARS, Ranges, charset, complement

from .tokens import Token

__all__ = ["Characters"]

_SIMPLE_ESCAPES: Final = {
    "t": 9, "r": 13, "n": 10, "\\": 92, '"': 34, "[": 91, "]": 93, "-": 45,
    "/": 47, "'": 39, "?": 63, "b": 8, "f": 12, "a": 7, "v": 11, "0": 0, "e": 27,
}  # fmt: skip
_CLASS_ESCAPES: Final = {**_SIMPLE_ESCAPES, **{char: ord(char) for char in "^$.*+(){}|"}}
_DIGIT_COUNTS: Final = {"x": (1, 2), "u": (4, 4), "U": (8, 8)}
_MAX_DIGITS: Final = 16  # after \\x in xgrammar; code points have at most six digits, but leading zeros are allowed
_HEX: Final = re.compile("[0-9a-fA-F]*")
_CLASSES: Final = {"d": "[0-9]", "D": "[^0-9]", "w": "[A-Za-z0-9_]", "W": "[^A-Za-z0-9_]", "s": r"[ \t\r\n]",
                   "S": r"[^ \t\r\n]"}  # fmt: skip


class Characters:
    """Reads the literals and classes of one grammar, and appends warnings to `findings`.

    `xgrammar`: the grammar is in xgrammar's dialect, so \\x takes all digits, and [] is not an error.
    """

    def __init__(self, text: str, findings: list[Finding], xgrammar: bool = False) -> None:
        self._text, self._findings, self._xgrammar = text, findings, xgrammar

    def read_literal(self, token: Token) -> str:
        """The string that a literal stands for."""
        chars: list[str] = []
        pos = token.start + 1
        while pos < token.end - 1:
            code, next_pos = self._read_character(pos, _SIMPLE_ESCAPES)
            if 0xD800 <= code <= 0xDFFF:
                raise SpecError(
                    "a lone surrogate cannot occur in a text", text=self._text, span=(pos, next_pos),
                    hint=r"write a character above U+FFFF as \UXXXXXXXX, or literally",
                )  # fmt: skip
            chars.append(chr(code))
            pos = next_pos
        return "".join(chars)

    def read_class(self, token: Token) -> Ranges:
        """The characters of a class."""
        text, pos, end = self._text, token.start + 1, token.end - 1
        is_negated = text[pos] == "^"
        pos += is_negated
        if pos == end:
            if is_negated or self._xgrammar:
                return ALL_CHARS if is_negated else ()
            raise SpecError(
                "the character class is empty", text=text, span=token.span,
                hint='the empty text is "", and any character is . or [^]',
            )  # fmt: skip
        pairs: list[tuple[int, int]] = []
        while pos < end:
            start = pos
            low, pos = self._read_character(pos, _CLASS_ESCAPES)
            high = low
            if text[pos] == "-" and pos + 1 < end:
                high, pos = self._read_character(pos + 1, _CLASS_ESCAPES)
            if high < low:
                raise SpecError(
                    "the range ends before it begins", text=text, span=(start, pos), hint=r"write a literal dash as \-"
                )
            pairs.append((low, high))
        ranges = charset(pairs)
        return complement(ranges) if is_negated else ranges

    def _read_character(self, pos: int, simple_escapes: dict[str, int]) -> tuple[int, int]:
        """The code point of a character, escaped or not, and the offset after it."""
        text = self._text
        char = text[pos]
        if char != "\\":
            return ord(char), pos + 1
        letter = text[pos + 1]
        if letter in simple_escapes:
            return simple_escapes[letter], pos + 2
        if letter not in _DIGIT_COUNTS:
            hint = _make_escape_hint(letter, simple_escapes)
            raise SpecError(f"the escape \\{letter} is unknown", text=text, span=(pos, pos + 2), hint=hint)
        min_digits, max_digits = _DIGIT_COUNTS[letter]
        match = _HEX.match(text, pos + 2)
        digits = match[0] if match else ""
        if self._xgrammar and letter == "x":
            max_digits = _MAX_DIGITS
        digit_count = min(len(digits), max_digits)
        if digit_count < min_digits:
            count = f"{min_digits} hexadecimal digits" if min_digits > 1 else "a hexadecimal digit"
            raise SpecError(
                f"\\{letter} needs {count}", text=text, span=(pos, pos + 2 + digit_count),
                hint=f"write \\{letter}{digits.zfill(min_digits)}" if digits else "",
            )  # fmt: skip
        code = int(digits[:digit_count], 16)
        if code > 0x10FFFF:
            raise SpecError(
                "there is no such character",
                text=text,
                span=(pos, pos + 2 + digit_count),
                hint="the last one is \\U0010FFFF",
            )
        if letter == "x" and len(digits) > max_digits:
            self._findings.append(
                Finding(
                    f"offset {pos}",
                    "\\x",
                    f"that \\x takes all of {digits!r}, as in xgrammar; it takes two digits, as in llama.cpp",
                    "write \\u and four digits, or \\U and eight",
                )
            )
        return code, pos + 2 + digit_count


def _make_escape_hint(letter: str, simple_escapes: dict[str, int]) -> str:
    if letter in _CLASSES:
        return f"write {_CLASSES[letter]}"
    if simple_escapes is _SIMPLE_ESCAPES and letter in _CLASS_ESCAPES:
        return f"{letter!r} stands for itself in a literal"
    return "write a backslash as \\\\"
