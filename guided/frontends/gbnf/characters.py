r"""The meaning of literals and character classes. In: a token of the text. Out: a string, or ranges of code points.

The escapes are those of llama.cpp (\xHH \uHHHH \UHHHHHHHH \t \r \n \\ \" \[ \] \-) and the additional ones of xgrammar
(\/ \' \? \b \f \a \v \0 \e, and in a class a backslash before any punctuation of regular expressions). The dialects
differ in one case: after \x, llama.cpp reads two digits, and xgrammar all digits. By default, \x takes two, and a third
one causes a warning; in xgrammar's dialect, it takes all.
"""

from __future__ import annotations

import re
from typing import Final

from guided.errors import Finding, SpecError
from guided.ir.ranges import ALL_CHARS, Ranges, charset, complement

from .tokens import Token

__all__ = ["Characters"]

_SIMPLE: Final = {
    "t": 9, "r": 13, "n": 10, "\\": 92, '"': 34, "[": 91, "]": 93, "-": 45,
    "/": 47, "'": 39, "?": 63, "b": 8, "f": 12, "a": 7, "v": 11, "0": 0, "e": 27,
}  # fmt: skip
_IN_CLASS: Final = {**_SIMPLE, **{char: ord(char) for char in "^$.*+(){}|"}}
_DIGITS: Final = {"x": (1, 2), "u": (4, 4), "U": (8, 8)}
_MAX_DIGITS: Final = 16  # after \\x in xgrammar; a code point has at most six, after leading zeros
_HEX: Final = re.compile("[0-9a-fA-F]*")
_CLASSES: Final = {"d": "[0-9]", "D": "[^0-9]", "w": "[A-Za-z0-9_]", "W": "[^A-Za-z0-9_]", "s": r"[ \t\r\n]",
                   "S": r"[^ \t\r\n]"}  # fmt: skip


class Characters:
    """Reads the literals and classes of one text, and appends warnings to `findings`.

    `xgrammar`: the text is in xgrammar's dialect, so \\x takes all digits, and [] is not an error.
    """

    def __init__(self, text: str, findings: list[Finding], xgrammar: bool = False) -> None:
        self._text, self._findings, self._xgrammar = text, findings, xgrammar

    def literal(self, token: Token) -> str:
        """The text of a literal."""
        codes: list[str] = []
        at = token.start + 1
        while at < token.end - 1:
            code, following = self._character(at, _SIMPLE)
            if 0xD800 <= code <= 0xDFFF:
                raise SpecError(
                    "a lone surrogate cannot occur in a text", text=self._text, span=(at, following),
                    hint=r"write a character above U+FFFF as \UXXXXXXXX, or literally",
                )  # fmt: skip
            codes.append(chr(code))
            at = following
        return "".join(codes)

    def ranges(self, token: Token) -> Ranges:
        """The characters of a class."""
        text, at, end = self._text, token.start + 1, token.end - 1
        negated = text[at] == "^"
        at += negated
        if at == end:
            if negated or self._xgrammar:
                return ALL_CHARS if negated else ()
            raise SpecError(
                "the character class is empty", text=text, span=token.span,
                hint='the empty text is "", and any character is . or [^]',
            )  # fmt: skip
        pairs: list[tuple[int, int]] = []
        while at < end:
            start = at
            low, at = self._character(at, _IN_CLASS)
            high = low
            if text[at] == "-" and at + 1 < end:
                high, at = self._character(at + 1, _IN_CLASS)
            if high < low:
                raise SpecError(
                    "the range ends before it begins", text=text, span=(start, at), hint=r"write a literal dash as \-"
                )
            pairs.append((low, high))
        listed = charset(pairs)
        return complement(listed) if negated else listed

    def _character(self, at: int, simple: dict[str, int]) -> tuple[int, int]:
        """A code point, escaped or not, and the offset after it."""
        text = self._text
        char = text[at]
        if char != "\\":
            return ord(char), at + 1
        letter = text[at + 1]
        if letter in simple:
            return simple[letter], at + 2
        if letter not in _DIGITS:
            raise SpecError(
                f"the escape \\{letter} is unknown", text=text, span=(at, at + 2), hint=_escape_hint(letter, simple)
            )
        min_digits, max_digits = _DIGITS[letter]
        match = _HEX.match(text, at + 2)
        digits = match[0] if match else ""
        if self._xgrammar and letter == "x":
            max_digits = _MAX_DIGITS
        digit_count = min(len(digits), max_digits)
        if digit_count < min_digits:
            raise SpecError(
                f"\\{letter} needs {max_digits} hexadecimal digits", text=text, span=(at, at + 2 + digit_count),
                hint=f"write \\{letter}{digits.zfill(max_digits)}" if digits else "",
            )  # fmt: skip
        code = int(digits[:digit_count], 16)
        if code > 0x10FFFF:
            raise SpecError(
                "there is no such character",
                text=text,
                span=(at, at + 2 + digit_count),
                hint="the last one is \\U0010FFFF",
            )
        if letter == "x" and len(digits) > max_digits:
            self._findings.append(
                Finding(
                    f"offset {at}",
                    "\\x",
                    f"that \\x takes all of {digits!r}, as in xgrammar; it takes two digits, as in llama.cpp",
                    "write \\u and four digits, or \\U and eight",
                )
            )
        return code, at + 2 + digit_count


def _escape_hint(letter: str, simple: dict[str, int]) -> str:
    if letter in _CLASSES:
        return f"write {_CLASSES[letter]}"
    if simple is _SIMPLE and letter in _IN_CLASS:
        return f"{letter!r} stands for itself in a literal"
    return "write a backslash as \\\\"
