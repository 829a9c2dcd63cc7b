r"""Patterns of Rust's crate `regex` in the notation of Python's `re`. In: a pattern. Out: one with the same language.

llguidance and outlines-core read patterns as Rust's crate does. Most patterns mean the same in Python. These parts
differ and are rewritten: classes with `[:alpha:]`, `&&`, `--`, `~~` or nested classes, `\p{..}`, `\w` and `\s`
(Unicode's definitions differ slightly from Python's), `\x{..}`, `\z`, `(?<name>...)`, and flags that are set in the
middle, as in `a(?i)b`. Rust's crate has no lookarounds, but they are left unchanged here, so guided enforces them.

Source: https://docs.rs/regex/latest/regex/#syntax. Cost: linear in the length of the pattern and in the number of
ranges of its classes. Refused: `(?-u)`, which would match single bytes, `(?R)`, and the word boundaries `\<`, `\>` and
`\b{...}`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from guided.errors import SpecError, UnsupportedError
from guided.frontends.regex import parse_regex
from guided.ir.nodes import Chars
from guided.ir.ranges import charset, complement, intersect

__all__ = ["python_regex", "without_anchors"]

Ranges: TypeAlias = tuple[tuple[int, int], ...]

_POSIX: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t-\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_ECMA: Final = {
    "d": r"\p{Nd}",
    "s": r"\p{White_Space}",
    "w": r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]",
}
_CONTROLS: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_HEX: Final = re.compile(r"(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]+)\})")
_PROPERTY: Final = re.compile(r"[pP](?:\{([^}]*)\}|(\w))")
_PIECE: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_BEGIN: Final = re.compile(r"\A(\(\?[a-z]+\))?(?:\^|\\A)+")
_END: Final = re.compile(r"((?:\A|[^\\])(?:\\\\)*)(?:\$|\\z)\Z", re.DOTALL)
_FLAGS: Final = re.compile(r"\(\?([imsxuUR]*)(?:-([imsxuUR]+))?([:)])")
_NEEDS_REWRITING: Final = re.compile(
    r"\\[pPwWsSxuUz<>]|\\b\{|\[\[|\[.*(?:\[|&&|--|~~)|\(\?[a-zA-Z-]*[RuU)]|\(\?<[A-Za-z_]"
)


def python_regex(pattern: str) -> str:
    """See the module docstring.

    Raises:
        SpecError: a class or an escape is malformed; the error has its location. UnsupportedError: the pattern has a
            part that the module docstring lists as refused.
    """
    return _Reader(pattern).read() if _NEEDS_REWRITING.search(pattern) else pattern


def without_anchors(pattern: str) -> str:
    """The pattern without the anchors at the ends of its alternatives. They have no effect if the whole text must
    match."""
    pieces, depth, begin = [], 0, 0
    for match in _PIECE.finditer(pattern):
        depth += (match[0] == "(") - (match[0] == ")")
        if match[0] == "|" and depth == 0:
            pieces.append(pattern[begin : match.start()])
            begin = match.end()
    pieces.append(pattern[begin:])
    return "|".join(_END.sub(r"\1", _BEGIN.sub(r"\1", piece)) for piece in pieces)


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0

    def read(self) -> str:
        """The whole pattern."""
        out: list[str] = []
        opened: list[list[str]] = [[]]  # for each open group, the flags that are set inside it
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "\\":
                self.at += 1
                out.append(self._escape())
            elif char == "[":
                out.append(self._class())
            elif char == "(":
                out.append(self._group(opened))
            elif char == ")":
                self.at += 1
                out.append(_close_groups(opened.pop()) + ")" if len(opened) > 1 else ")")
            elif char == "|":
                self.at += 1
                out.append(_close_groups(opened[-1]) + "|" + "".join(opened[-1]))
            else:
                self.at += 1
                out.append(char)
        return "".join(out) + _close_groups(opened[0])

    def _group(self, opened: list[list[str]]) -> str:
        match = _FLAGS.match(self.pattern, self.at)
        if match is None:
            begin = self.at
            self.at += 1
            opened.append([])
            if self.pattern.startswith("(?<", begin) and self.pattern[begin + 3 : begin + 4] not in ("=", "!"):
                self.at = begin + 3
                return "(?P<"
            return "("
        on, off, end = match[1], match[2] or "", match[3]
        if "R" in on or "u" in off:
            self._refuse(match[0], match.start(), "write it without the flag")
        self.at = match.end()
        on, off = ("".join(flag for flag in flags if flag in "imsx") for flags in (on, off))
        text = f"(?{on}{'-' * bool(off)}{off}:"
        if end == ":":
            opened.append([])
            return text
        opened[-1].append(text)
        return text

    def _escape(self) -> str:
        """The rest of an escape after its backslash. The escape is outside a class."""
        begin, char = self.at, self.pattern[self.at : self.at + 1]
        if char in "<>" or self.pattern.startswith("b{", begin):
            self._refuse("\\" + char, begin - 1, "write what may stand there")
        if char == "z":
            self.at += 1
            return r"\Z"
        single = self._single_or_set()
        if single is None:
            self.at += 1
            return "\\" + char
        return _format_class(single)

    def _single_or_set(self) -> Ranges | None:
        """The characters of the escape at this position; None if it means the same in both notations."""
        char = self.pattern[self.at : self.at + 1]
        if match := _HEX.match(self.pattern, self.at):
            code = int(next(filter(None, match.groups())), 16)
            if code > 0x10FFFF:
                self._fail(f"\\{match[0]} is not a character", match.start(), match.end())
            self.at = match.end()
            return ((code, code),)
        if match := _PROPERTY.match(self.pattern, self.at):
            ranges = self._property(match[1] or match[2] or "", match.start(), match.end())
            self.at = match.end()
            return complement(ranges) if match[0][0] == "P" else ranges
        if char and char in "wWsS":
            self.at += 1
            ranges = _ecma(_ECMA[char.lower()])
            return ranges if char.islower() else complement(ranges)
        return None

    def _property(self, name: str, start: int, end: int) -> Ranges:
        """The characters with a property. As in Rust, case, spaces and underscores in its name do not matter."""
        sides = [side for side in re.split(r"[:=]", name) if side]
        value = "_".join(word.capitalize() for word in re.split(r"[ _]", sides[-1].strip())) if sides else ""
        for spelling in dict.fromkeys((name, value, value.upper(), f"Script={value}", f"Script_Extensions={value}")):
            try:
                return _ecma(rf"\p{{{spelling}}}")
            except SpecError:
                continue
        self._fail(f"\\{self.pattern[start:end]} is not a Unicode property", start, end)
        raise AssertionError

    def _class(self) -> str:
        """The class at this position: unchanged if Python reads it the same way, otherwise as a list of ranges."""
        begin = self.at
        ranges = self._set()
        source = self.pattern[begin : self.at]
        inside = source[1:-1]
        if not re.search(r"\\[pPwWsSxuU]|\[|&&|--|~~", inside) and not inside.startswith(("]", "^]")):
            return source
        return _format_class(ranges)

    def _set(self) -> Ranges:
        """The characters of the class that begins here."""
        begin = self.at
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        combined: Ranges | None = None
        operator, items, is_first = "", list[tuple[int, int]](), True
        while True:
            if self.at >= len(self.pattern):
                self._fail("unclosed character class", begin, begin + 1)
            pair = self.pattern[self.at : self.at + 2]
            if pair[0] == "]" and not is_first:
                self.at += 1
                combined = _combine(combined, operator, charset(items))
                return complement(combined) if negated else combined
            if pair in ("&&", "--", "~~"):
                combined, operator, items = _combine(combined, operator, charset(items)), pair, []
                self.at += 2
                continue
            is_first = False
            items += self._item(begin)

    def _item(self, begin: int) -> Ranges:
        """A character, a range, an escape, or a nested class in the class that began at `begin`."""
        if match := re.compile(r"\[:(\^?)(\w+):\]").match(self.pattern, self.at):
            if match[2] not in _POSIX:
                self._fail(f"{match[0]} is not a character class", match.start(), match.end())
            self.at = match.end()
            ranges = _ecma(f"[{_POSIX[match[2]]}]")
            return complement(ranges) if match[1] else ranges
        if self.pattern[self.at] == "[":
            return self._set()
        first = self._single_character_or_set()
        is_range = self.pattern[self.at : self.at + 1] == "-" and self.pattern[self.at + 1 : self.at + 2] not in (
            "", "]", "-",
        )  # fmt: skip
        if not is_range or len(first) != 1 or first[0][0] != first[0][1]:
            return first
        self.at += 1
        last = self._single_character_or_set()
        if len(last) != 1 or last[0][0] != last[0][1] or last[0][0] < first[0][0]:
            self._fail("invalid character class range", begin, self.at)
        return ((first[0][0], last[0][0]),)

    def _single_character_or_set(self) -> Ranges:
        char = self.pattern[self.at]
        self.at += 1
        if char != "\\":
            return ((ord(char), ord(char)),)
        ranges = self._single_or_set()
        if ranges is not None:
            return ranges
        char = self.pattern[self.at : self.at + 1]
        self.at += 1
        if char in ("d", "D"):
            return _ecma(_ECMA["d"]) if char == "d" else complement(_ecma(_ECMA["d"]))
        if not char or (char.isalnum() and char not in _CONTROLS):
            self._fail(f"unrecognized escape sequence \\{char}", self.at - 2, self.at)
        code = _CONTROLS.get(char, ord(char))
        return ((code, code),)

    def _fail(self, message: str, start: int, end: int) -> None:
        raise SpecError(message, text=self.pattern, span=(start, end), hint="see https://docs.rs/regex/#syntax")

    def _refuse(self, what: str, at: int, hint: str) -> None:
        raise UnsupportedError(
            f"{what} is not enforced", pointer=f"offset {at}", hint=hint, text=self.pattern, span=(at, at + len(what))
        )


def _close_groups(flags: list[str]) -> str:
    """The parentheses that close the groups opened for flags. In verbose patterns, a preceding newline ends any
    comment."""
    return "".join("\n)" if "x" in text.partition("-")[0] else ")" for text in flags)


def _combine(combined: Ranges | None, operator: str, other: Ranges) -> Ranges:
    if combined is None:
        return other
    if operator == "&&":
        return intersect(combined, other)
    if operator == "--":
        return intersect(combined, complement(other))
    return charset([*intersect(combined, complement(other)), *intersect(other, complement(combined))])


@lru_cache(maxsize=256)
def _ecma(pattern: str) -> Ranges:
    node = parse_regex(pattern, dialect="ecma")
    if not isinstance(node, Chars):  # in ECMAScript, an unknown property is literal text
        raise SpecError(f"{pattern} is not a character class")
    return node.ranges


def _format_class(ranges: Ranges) -> str:
    """A Python character class with these characters."""
    if not ranges:
        return r"[^\s\S]"
    pieces = (f"\\U{low:08x}" + (f"-\\U{high:08x}" if high > low else "") for low, high in ranges)
    return f"[{''.join(pieces)}]"
