r"""Rewrites patterns of Rust's crate `regex` for Python's `re`. In: a Rust pattern. Out: a Python pattern that matches
the same texts.

llguidance and outlines-core read patterns as Rust's crate does. Most patterns mean the same in Python. The
following parts differ and are rewritten: classes with `[:alpha:]`, `&&`, `--`, `~~` or nested classes, `\p{..}`, `\w`
and `\s` (Unicode's definitions differ slightly from Python's), `\x{..}`, `\z`, `(?<name>...)`, flags that are set in
the middle, as in `a(?i)b`, and repetitions of repetitions, as in `a++`. Whitespace and comments that `(?x)` ignores,
even in classes, are removed. Rust's crate has no lookarounds. They are left unchanged here, so guided enforces them.
`rust_to_ecma.py` extends the reader here, and writes ECMA-262's notation instead.

Source: https://docs.rs/regex/latest/regex/#syntax. Cost: linear in the length of the pattern and in the number of
ranges of its classes. Refused: `(?-u)`, which would match single bytes, `(?R)`, and the word boundaries `\<`, `\>` and
`\b{...}`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.regex import parse_regex
from guided.ir.nodes import Chars
from guided.ir.ranges import charset, complement, intersect
from guided.limits import Limits
from guided.meter import limit_compilation, spend

from .ecma_chars import ignore_case
from .rust_properties import find_property

__all__ = ["PROPERTY", "Ranges", "RustReader", "to_python_regex"]

Ranges: TypeAlias = tuple[tuple[int, int], ...]

_POSIX_CLASSES: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t-\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_ECMA_CLASSES: Final = {
    "d": r"\p{Nd}",
    "s": r"\p{White_Space}",
    "w": r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]",
}
_CONTROLS: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_CODE_POINT: Final = re.compile(r"(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]+)\})")
PROPERTY: Final = re.compile(r"[pP](?:\{([^{}]*)\}|(\w))")
"""The escape of a Unicode property, without its backslash."""
_POSIX_CLASS: Final = re.compile(r"\[:(\^?)(\w+):\]")
_FLAGS: Final = re.compile(r"\?([imsxuUR]*)(?:-([imsxuUR]+))?([:)])")
_BLANKS_PATTERN: Final = r"(?:[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]|#[^\n]*)*+"
_BLANKS: Final = re.compile(_BLANKS_PATTERN)
_QUANTIFIERS: Final = {
    is_verbose: re.compile(rf"[*+?]\??|\{{{inside}([0-9]+){inside}(?:(,){inside}([0-9]*){inside})?\}}(?:{after}(\?))?")
    for is_verbose, inside, after in ((False, r"\s*", ""), (True, _BLANKS_PATTERN, _BLANKS_PATTERN))
}
_NEEDS_REWRITING: Final = re.compile(
    r"\\[pPwWsSxuUz<>]|\\b\{|\[\^?\]-|\[(?s:.*)(?:\[|&&|--|~~)|\(\?[a-zA-Z-]*[RuU)]|\(\?<[A-Za-z_]"
    r"|\(\?[a-zA-Z]*x|[*+?}][*+{]|[*+?}]\?[*+?{]|\{[0-9,]*\s"
)
_LENGTH_HINT: Final = r"use smaller classes, such as [0-9A-Za-z_] instead of \w"
_MAX_NESTING: Final = 250
"""The maximum depth of nested classes and of nested repetitions, as in Rust's crate."""


def to_python_regex(pattern: str, limits: Limits) -> str:
    """Rewrite a pattern for Python's `re`, as the module docstring describes. `limits` bound the Python pattern, and
    the time for reading the classes.

    Raises:
        SpecError: a class or an escape is malformed; the error gives its location. UnsupportedError: the pattern has a
            part that the module docstring lists as refused. LimitExceeded: the Python pattern would be too long, or
            reading its classes takes too long.
    """
    if not _NEEDS_REWRITING.search(pattern):
        return pattern
    with limit_compilation(limits, work=False):
        return RustReader(pattern, limits.spec_length).read()


@dataclass(slots=True)
class _Group:
    """A group that is being read. `begin`: where it begins in the output. `enabled`: the flags that are set. `flags`:
    the openings, such as `(?i:`, of further groups that set flags until its end."""

    is_verbose: bool
    begin: int
    enabled: frozenset[str] = frozenset()
    flags: list[str] = field(default_factory=list)


class _OpenClass:
    """A class that is being read: its operands so far, as in `[a-c&&[^b]--x]`. `begin`: the offset of its bracket.
    `any_case`: whether case is ignored."""

    def __init__(self, begin: int, negated: bool, any_case: bool) -> None:
        self.begin, self._any_case = begin, any_case
        self._negated, self._operator = negated, ""
        self._combined: Ranges | None = None
        self._items: list[tuple[int, int]] = []

    def add(self, ranges: Ranges) -> None:
        """Add characters to the last operand."""
        self._items += ranges

    def begin_operand(self, operator: str) -> None:
        """Read an operator, after which the next operand begins."""
        spend()
        self._combined, self._operator, self._items = self._combine_items(), operator, []

    def close(self) -> Ranges:
        """The characters of the class."""
        spend()
        ranges = self._combine_items()
        return complement(ranges) if self._negated else ranges

    def _combine_items(self) -> Ranges:
        items = charset(self._items)
        return _combine(self._combined, self._operator, ignore_case(items) if self._any_case else items)


class RustReader:
    """Reads a pattern, and writes it for Python's `re`. A subclass may write another notation."""

    def __init__(self, pattern: str, max_length: int) -> None:
        self.pattern, self.pos, self._max_length = pattern, 0, max_length
        self._out: list[str] = []
        self._groups = [_Group(False, -1)]  # the whole pattern, and the open groups
        self._atom = -1  # where the last atom begins in `_out`; -1: there is none to repeat
        self._repetitions = 0  # of the last atom

    def read(self) -> str:
        """Rewrite the whole pattern."""
        length, count = 0, 0
        while (char := self._next_char()) is not None:
            if char == "(":
                self._rewrite_group()
            elif char == ")":
                self.pos += 1
                group = self._groups.pop() if len(self._groups) > 1 else _Group(False, -1)
                self._add_atom(")" * (len(group.flags) + 1), group.begin)
            elif char == "|":
                self.pos += 1
                flags = self._groups[-1].flags
                self._out.append(")" * len(flags) + "|" + "".join(flags))
                self._atom = -1
            elif quantifier := _QUANTIFIERS[self._groups[-1].is_verbose].match(self.pattern, self.pos):
                self._add_quantifier(quantifier)
            else:
                self._add_atom(self._rewrite_character(char))
            length, count = length + sum(map(len, self._out[count:])), len(self._out)
            if length > self._max_length:
                raise LimitExceeded("spec_length", length, self._max_length, hint=_LENGTH_HINT)
        return "".join(self._out) + ")" * len(self._groups[0].flags)

    def _next_char(self) -> str | None:
        """The character at `self.pos`. In a verbose part, whitespace and comments are skipped first."""
        self.pos = self._after_blanks(self.pos)
        return self.pattern[self.pos] if self.pos < len(self.pattern) else None

    def _after_blanks(self, pos: int) -> int:
        match = _BLANKS.match(self.pattern, pos) if self._groups[-1].is_verbose else None
        return pos if match is None else match.end()

    def _add_atom(self, text: str, begin: int | None = None) -> None:
        """Add an atom. `begin`: where it begins in `_out`, unless it is only this text."""
        self._atom, self._repetitions = len(self._out) if begin is None else begin, 0
        self._out.append(text)

    def _add_quantifier(self, quantifier: re.Match[str]) -> None:
        """Repeat the last atom. A repetition is repeated in a group, since Python reads `a++` as a possessive `a+`."""
        self.pos = quantifier.end()
        if self._repetitions == _MAX_NESTING:
            self._fail(f"repetitions nest deeper than {_MAX_NESTING}", *quantifier.span())
        if self._atom >= 0 and self._repetitions:
            self._out[self._atom] = "(?:" + self._out[self._atom]
            self._out.append(")")
        self._repetitions += 1
        low, comma, high, lazy = quantifier.groups()
        self._out.append(quantifier[0] if low is None else f"{{{low}{comma or ''}{high or ''}}}{lazy or ''}")

    def _rewrite_character(self, char: str) -> str:
        if char == "[":
            return self._rewrite_class()
        self.pos += 1
        return self._rewrite_escape() if char == "\\" else char

    def _rewrite_group(self) -> None:
        """Read the beginning of a group, or a group that only sets flags."""
        begin, parent = self.pos, self._groups[-1]
        self.pos = self._after_blanks(begin + 1)
        self._atom = -1
        match = _FLAGS.match(self.pattern, self.pos)
        if match is None:
            if self.pattern.startswith("?", self.pos) and self._after_blanks(self.pos + 1) > self.pos + 1:
                self._fail("whitespace after (?", begin, self.pos + 1)
            self._groups.append(_Group(parent.is_verbose, len(self._out), parent.enabled))
            self._write_group()
            return
        enabled, disabled, end = match[1], match[2] or "", match[3]
        if "R" in enabled or "u" in disabled:
            self._refuse(self.pattern[begin : match.end()], begin, "write it without the flag")
        self.pos = match.end()
        is_verbose = "x" not in disabled and ("x" in enabled or parent.is_verbose)
        flags = (parent.enabled | set(enabled)) - set(disabled)
        if end == ":":
            self._groups.append(_Group(is_verbose, len(self._out), flags))
        else:
            parent.is_verbose, parent.enabled = is_verbose, flags
        enabled, disabled = ("".join(flag for flag in letters if flag in "ims") for letters in (enabled, disabled))
        self._write_flags(enabled, disabled, end)

    def _write_group(self) -> None:
        """Write the beginning of a group without flags, whose parenthesis has been read."""
        is_named = self.pattern.startswith("?<", self.pos) and not self.pattern.startswith(("?<=", "?<!"), self.pos)
        self.pos += 2 * is_named
        self._out.append("(?P<" if is_named else "(")

    def _write_flags(self, enabled: str, disabled: str, end: str) -> None:
        """Write the flags of a group. `end`: ":" if its contents follow, ")" if they hold for the rest of the group."""
        opening = f"(?{enabled}{'-' * bool(disabled)}{disabled}:"
        if end == ")":
            self._groups[-1].flags.append(opening)
        self._out.append(opening)

    def _rewrite_escape(self) -> str:
        """Rewrite an escape outside a class. Its backslash has been read."""
        begin, char = self.pos, self.pattern[self.pos : self.pos + 1]
        if char in "<>" or self.pattern.startswith("b{", begin):
            self._refuse("\\" + char, begin - 1, "match the characters that may stand there instead")
        if char == "z":
            self.pos += 1
            return r"\Z"
        ranges = self._read_escape()
        if ranges is None:
            self.pos += 1
            return "\\" + char
        return _format_class(ranges)

    def _read_escape(self) -> Ranges | None:
        """Read the escape at `self.pos`, after its backslash. Returns its characters; None if Python reads it the same
        way, and then the position does not change."""
        char = self.pattern[self.pos : self.pos + 1]
        if match := _CODE_POINT.match(self.pattern, self.pos):
            code = int(next(filter(None, match.groups())), 16)
            if code > 0x10FFFF:
                self._fail(f"\\{match[0]} is not a character", match.start(), match.end())
            self.pos = match.end()
            return ((code, code),)
        if match := PROPERTY.match(self.pattern, self.pos):
            self.pos = match.end()
            _, ranges = self._read_property(match)
            ranges = ignore_case(ranges) if "i" in self._groups[-1].enabled else ranges
            return complement(ranges) if match[0][0] == "P" else ranges
        if char and char in "wWsS":
            self.pos += 1
            ranges = _parse_ecma_class(_ECMA_CLASSES[char.lower()])
            return ranges if char.islower() else complement(ranges)
        return None

    def _read_property(self, match: re.Match[str]) -> tuple[str, Ranges]:
        """Look up the property of an escape (`find_property`). `match`: the escape without its backslash."""
        try:
            name_and_ranges = find_property(match[2] or match[1] or "")
        except KeyError:
            self._fail(f"\\{match[0]} is not a Unicode property", *match.span())
            raise AssertionError from None
        if name_and_ranges is None:
            self._refuse(f"\\{match[0]}", match.start() - 1, "list the characters in a class, such as [a-z]")
            raise AssertionError
        return name_and_ranges

    def _rewrite_class(self) -> str:
        """Rewrite the class at `self.pos`: unchanged if Python reads it the same way, otherwise as a list of ranges."""
        begin = self.pos
        ranges = self._read_class()
        source = self.pattern[begin : self.pos]
        inside = source[1:-1]
        is_verbose = self._groups[-1].is_verbose
        if (
            not is_verbose
            and not re.search(r"\\[pPwWsSxuU]|\[|&&|--|~~", inside)
            and not inside.startswith(("]", "^]"))
        ):
            return source
        return _format_class(ranges)

    def _read_class(self) -> Ranges:
        """Read the class at `self.pos`, and return its characters."""
        open_classes = [self._open_class()]
        while True:
            current = open_classes[-1]
            if self._next_char() is None:
                self._fail("unclosed character class", current.begin, current.begin + 1)
            pair = self.pattern[self.pos : self.pos + 2]
            if pair[0] == "]":
                self.pos += 1
                ranges = open_classes.pop().close()
                if not open_classes:
                    return ranges
                open_classes[-1].add(ranges)
            elif pair in ("&&", "--", "~~"):
                self.pos += 2
                current.begin_operand(pair)
            elif pair[0] == "[" and not _POSIX_CLASS.match(self.pattern, self.pos):
                if len(open_classes) == _MAX_NESTING:
                    self._fail(f"classes nest deeper than {_MAX_NESTING}", self.pos, self.pos + 1)
                open_classes.append(self._open_class())
            else:
                current.add(self._read_item(current.begin))

    def _open_class(self) -> _OpenClass:
        begin = self.pos
        self.pos += 1
        negated = self._next_char() == "^"
        self.pos += negated
        new_class, literal = _OpenClass(begin, negated, "i" in self._groups[-1].enabled), self._next_char()
        if literal == "]":
            self.pos += 1
            new_class.add(((ord("]"), ord("]")),))
        while literal == "-":
            self.pos += 1
            new_class.add(((ord("-"), ord("-")),))
            literal = self._next_char()
        return new_class

    def _read_item(self, begin: int) -> Ranges:
        """Read a character, range, escape or class such as `[:alpha:]` inside the class that began at `begin`."""
        if match := _POSIX_CLASS.match(self.pattern, self.pos):
            if match[2] not in _POSIX_CLASSES:
                self._fail(f"{match[0]} is not a character class", match.start(), match.end())
            self.pos = match.end()
            ranges = _parse_ecma_class(f"[{_POSIX_CLASSES[match[2]]}]")
            ranges = ignore_case(ranges) if "i" in self._groups[-1].enabled else ranges
            return complement(ranges) if match[1] else ranges
        first = self._read_class_atom()
        is_range = self._next_char() == "-"
        if is_range:
            last_begin = self._after_blanks(self.pos + 1)
            is_range = self.pattern[last_begin : last_begin + 1] not in ("", "]", "-")
        if not is_range or len(first) != 1 or first[0][0] != first[0][1]:
            return first
        self.pos = last_begin
        last = self._read_class_atom()
        if len(last) != 1 or last[0][0] != last[0][1] or last[0][0] < first[0][0]:
            self._fail("invalid character class range", begin, self.pos)
        return ((first[0][0], last[0][0]),)

    def _read_class_atom(self) -> Ranges:
        char = self.pattern[self.pos]
        self.pos += 1
        return self._read_class_escape() if char == "\\" else ((ord(char), ord(char)),)

    def _read_class_escape(self) -> Ranges:
        """Read an escape of one or more characters, after its backslash."""
        ranges = self._read_escape()
        if ranges is not None:
            return ranges
        char = self.pattern[self.pos : self.pos + 1]
        self.pos += 1
        if char in ("d", "D"):
            digits = _parse_ecma_class(_ECMA_CLASSES["d"])
            return digits if char == "d" else complement(digits)
        if not char or (char.isalnum() and char not in _CONTROLS):
            self._fail(f"unrecognized escape sequence \\{char}", self.pos - 2, self.pos)
        code = _CONTROLS.get(char, ord(char))
        return ((code, code),)

    def _fail(self, message: str, start: int, end: int) -> None:
        raise SpecError(message, text=self.pattern, span=(start, end), hint="see https://docs.rs/regex/#syntax")

    def _refuse(self, construct: str, start: int, hint: str) -> None:
        raise UnsupportedError(
            f"{construct} is not enforced",
            pointer=f"offset {start}",
            hint=hint,
            text=self.pattern,
            span=(start, start + len(construct)),
        )


def _combine(combined: Ranges | None, operator: str, other: Ranges) -> Ranges:
    if combined is None:
        return other
    if operator == "&&":
        return intersect(combined, other)
    if operator == "--":
        return intersect(combined, complement(other))
    return charset([*intersect(combined, complement(other)), *intersect(other, complement(combined))])


@lru_cache(maxsize=256)
def _parse_ecma_class(pattern: str) -> Ranges:
    node = parse_regex(pattern, dialect="ecma")
    if not isinstance(node, Chars):  # in ECMAScript, an unknown property is literal text
        raise SpecError(f"{pattern} is not a character class")
    return node.ranges


@lru_cache(maxsize=256)
def _format_class(ranges: Ranges) -> str:
    """A Python character class for `ranges`."""
    if not ranges:
        return r"[^\s\S]"
    pieces = (_format_char(low) + (f"-{_format_char(high)}" if high > low else "") for low, high in ranges)
    return f"[{''.join(pieces)}]"


def _format_char(code: int) -> str:
    """A character in a class. ASCII punctuation is not written as `\\U...`, because Lark decodes `\\U` before it reads
    the class."""
    char = chr(code)
    if code > 0x7F or not char.isprintable():
        return f"\\U{code:08x}"
    return char if char.isalnum() else f"\\{char}"
