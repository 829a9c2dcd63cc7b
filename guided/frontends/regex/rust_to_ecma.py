r"""Rewrites patterns of Rust's crate `regex` for ECMA-262 with the flag u. In: a Rust pattern. Out: an ECMA-262 pattern
without flags that has a match in the same texts.

This is the notation of `pattern` in JSON Schema. Most patterns stay as they are. Besides the parts that
`rust_syntax.py` lists, these are rewritten: the flags i, s and m, `.` (all characters but \n), and \d, \s, \w and word
boundaries, which follow Unicode's definitions. Names of groups are removed, and so is the flag U, which has no effect
on whether there is a match.

Cost: linear in the length of the pattern and in the number of ranges of its classes. Refused: `(?-u)`, `(?R)` and
properties that ECMA-262 does not have, such as \p{Age=6.0}.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from guided.ir.ranges import ALL_CHARS, complement
from guided.limits import Limits
from guided.meter import limit_compilation

from .ecma_chars import ignore_case
from .rust_syntax import PROPERTY, Ranges, RustReader

__all__ = ["rust_to_ecma"]

_WORD: Final = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}"
_CLASSES: Final = {"d": r"\p{Nd}", "D": r"\P{Nd}", "s": r"\p{White_Space}", "S": r"\P{White_Space}", "w": _WORD}
_BEFORE, _NOT_BEFORE, _AFTER, _NOT_AFTER = (f"({sign}[{_WORD}])" for sign in ("?=", "?!", "?<=", "?<!"))
_BOUNDARIES: Final = {
    "b": f"(?:{_AFTER}{_NOT_BEFORE}|{_NOT_AFTER}{_BEFORE})",
    "B": f"(?:{_AFTER}{_BEFORE}|{_NOT_AFTER}{_NOT_BEFORE})",
    **dict.fromkeys(("<", "b{start}"), f"(?:{_NOT_AFTER}{_BEFORE})"),
    **dict.fromkeys((">", "b{end}"), f"(?:{_AFTER}{_NOT_BEFORE})"),
    "b{start-half}": f"(?:{_NOT_AFTER})",
    "b{end-half}": f"(?:{_NOT_BEFORE})",
    "A": "^",
    "z": "$",
}
_BOUNDARY: Final = re.compile("|".join(re.escape(name) for name in sorted(_BOUNDARIES, key=len, reverse=True)))
_PLAIN_CHAR: Final = r"(?:[^\[\]\\&~\-]|&(?!&)|~(?!~)|\\[nrtfv]|\\(?![<>])[!-/:-@\[-`{-~ ])"
_PLAIN_CLASS: Final = re.compile(rf"\[\^?-?(?!\])(?:{_PLAIN_CHAR}(?:-{_PLAIN_CHAR})?|\\[dDsSw])*-?\]")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_SYNTAX: Final = frozenset(r"^$\.*+?()[]{}|")


def rust_to_ecma(pattern: str, limits: Limits) -> str:
    """Rewrite a pattern for ECMA-262, as the module docstring describes. `limits` bound the result, and the time for
    reading the classes.

    Raises:
        SpecError: a class, an escape or a group is malformed. UnsupportedError: the pattern has a part that the module
            docstring lists as refused. LimitExceeded: the result would be too long, or reading takes too long.
    """
    with limit_compilation(limits, work=False):
        return _EcmaWriter(pattern, limits.spec_length).read()


class _EcmaWriter(RustReader):
    """Writes the pattern in ECMA-262's notation. Each part is written out as its flags demand, so no flags remain."""

    def _write_group(self) -> None:
        if self.pattern.startswith(("?<", "?P<"), self.pos):
            end = self.pattern.find(">", self.pos)
            if end < 0 or self.pattern.startswith(("?<=", "?<!"), self.pos):
                self._fail("a group with ?< needs a name", self.pos - 1, self.pos + 2)
            self.pos = end + 1
        elif self.pattern.startswith("?", self.pos):
            self._fail("unknown kind of group", self.pos - 1, self.pos + 1)
        self._out.append("(")

    def _write_flags(self, enabled: str, disabled: str, end: str) -> None:
        if end == ":":
            self._out.append("(?:")

    def _add_quantifier(self, quantifier: re.Match[str]) -> None:
        if self._atom < 0:
            self._fail("nothing to repeat", *quantifier.span())
        if self._out[self._atom] in ("^", "$"):
            self._out[self._atom] = f"(?:{self._out[self._atom]})"
        super()._add_quantifier(quantifier)

    def _rewrite_character(self, char: str) -> str:
        if char in "[\\":
            return super()._rewrite_character(char)
        self.pos += 1
        enabled = self._groups[-1].enabled
        if char == ".":
            return "[^]" if "s" in enabled else r"[^\n]"
        if char in "^$":
            if "m" in enabled:
                return r"(?:(?<![^\n]))" if char == "^" else r"(?:(?![^\n]))"
            return char
        return self._format_literal(char)

    def _format_literal(self, char: str) -> str:
        code = ord(char)
        ranges = ignore_case(((code, code),)) if "i" in self._groups[-1].enabled else ((code, code),)
        return _format_class(ranges) if len(ranges) > 1 or ranges[0] != (code, code) else _format_char(char)

    def _rewrite_escape(self) -> str:
        begin, char = self.pos, self.pattern[self.pos : self.pos + 1]
        if match := _BOUNDARY.match(self.pattern, begin):
            self.pos = match.end()
            return _BOUNDARIES[match[0]]
        if char and char in "dDsSwW":
            self.pos += 1
            return _CLASSES[char] if char not in "wW" else f"[{'^' * (char == 'W')}{_WORD}]"
        if (match := PROPERTY.match(self.pattern, begin)) and "i" not in self._groups[-1].enabled:
            spelling, ranges = self._read_property(match)
            self.pos = match.end()
            return (
                f"\\{char}{{{spelling}}}" if spelling else _format_class(ranges if char == "p" else complement(ranges))
            )
        ranges = self._read_class_escape()
        if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
            return self._format_literal(chr(ranges[0][0]))
        return _format_class(ranges)

    def _rewrite_class(self) -> str:
        begin, group = self.pos, self._groups[-1]
        match = _PLAIN_CLASS.match(self.pattern, begin)
        ranges = self._read_class()
        if match is None or match.end() != self.pos or group.is_verbose or "i" in group.enabled:
            return _format_class(ranges)
        return _ESCAPE.sub(lambda escape: _CLASSES.get(escape[1]) or _plain_escape(escape[1]), match[0])


def _plain_escape(char: str) -> str:
    return f"\\{char}" if char in _SYNTAX or char in "-nrtfv" else char


@lru_cache(maxsize=256)
def _format_class(ranges: Ranges) -> str:
    if ranges == ALL_CHARS:
        return "[^]"
    pieces = (_format_end(low) + (f"-{_format_end(high)}" if high > low else "") for low, high in ranges)
    return f"[{''.join(pieces)}]"


def _format_end(code: int) -> str:
    """A code point as an end of a range in a class."""
    return r"\-" if code == ord("-") else _format_char(chr(code))


def _format_char(char: str) -> str:
    if char in _SYNTAX:
        return f"\\{char}"
    return char if char.isprintable() else f"\\u{{{ord(char):x}}}"
