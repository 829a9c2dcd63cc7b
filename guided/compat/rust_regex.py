r"""Rewrites patterns of Rust's crate `regex` for Python's `re`. In: a Rust pattern. Out: a Python pattern that matches
the same texts.

llguidance and outlines-core read patterns as Rust's crate does. Most patterns mean the same in Python. The
following parts differ and are rewritten: classes with `[:alpha:]`, `&&`, `--`, `~~` or nested classes, `\p{..}`, `\w`
and `\s` (Unicode's definitions differ slightly from Python's), `\x{..}`, `\z`, `(?<name>...)`, and flags that are set
in the middle, as in `a(?i)b`. Rust's crate has no lookarounds. They are left unchanged here, so guided enforces them.

Source: https://docs.rs/regex/latest/regex/#syntax. Cost: linear in the length of the pattern and in the number of
ranges of its classes. Refused: `(?-u)`, which would match single bytes, `(?R)`, and the word boundaries `\<`, `\>` and
`\b{...}`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.regex import parse_regex
from guided.ir.nodes import Chars
from guided.ir.ranges import charset, complement, intersect
from guided.limits import Limits
from guided.meter import limit_compilation, spend

__all__ = ["strip_anchors", "to_python_regex"]

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
_PROPERTY: Final = re.compile(r"[pP](?:\{([^{}]*)\}|(\w))")
_PIECE: Final = re.compile(r"\\.|\[\^?\]?|.", re.DOTALL)
_POSIX_CLASS: Final = re.compile(r"\[:(\^?)(\w+):\]")
_ANCHORS_AT_START: Final = re.compile(r"\A(\(\?[a-z]+\))?(?:\^|\\A)+")
_LITERALS_AT_START: Final = re.compile(r"\]|-*")
_SETS_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z]*x")
_FLAGS: Final = re.compile(r"\(\?([imsxuUR]*)(?:-([imsxuUR]+))?([:)])")
_NEEDS_REWRITING: Final = re.compile(
    r"\\[pPwWsSxuUz<>]|\\b\{|\[\^?\]-|\[(?s:.*)(?:\[|&&|--|~~)|\(\?[a-zA-Z-]*[RuU)]|\(\?<[A-Za-z_]"
)
_LENGTH_HINT: Final = r"use smaller classes, such as [0-9A-Za-z_] instead of \w"
_MAX_NESTING: Final = 250
"""The maximum depth of nested classes, as in Rust's crate."""


def to_python_regex(pattern: str, limits: Limits) -> str:
    """See the module docstring. `limits` bound the Python pattern, and the time for reading the classes.

    Raises:
        SpecError: a class or an escape is malformed; the error gives its location. UnsupportedError: the pattern has a
            part that the module docstring lists as refused. LimitExceeded: the Python pattern would be too long, or
            reading its classes takes too long.
    """
    if not _NEEDS_REWRITING.search(pattern):
        return pattern
    with limit_compilation(limits, work=False):
        return _Reader(pattern, limits.spec_length).read()


def strip_anchors(pattern: str) -> str:
    """Remove the anchors at the ends of top-level alternatives. They have no effect if the whole text must match.

    Raises:
        SpecError: a group is closed that was not opened.
    """
    pieces, depth, class_depth, begin = [], 0, 0, 0
    for match in _PIECE.finditer(pattern):
        if match[0][0] == "[":
            class_depth += 1
        elif class_depth:
            class_depth -= match[0] == "]"
        elif match[0] in ("(", ")"):
            depth += 1 if match[0] == "(" else -1
            if depth < 0 and not _SETS_VERBOSE.search(pattern):  # in a verbose pattern, it may be in a comment
                raise SpecError("unopened group", text=pattern, span=match.span(), hint=r"write \) for a parenthesis")
        elif match[0] == "|" and depth == 0:
            pieces.append(pattern[begin : match.start()])
            begin = match.end()
    pieces.append(pattern[begin:])
    return "|".join(_strip_end(_ANCHORS_AT_START.sub(r"\1", piece)) for piece in pieces)


def _strip_end(pattern: str) -> str:
    """Remove `$` and `\\z` at the end."""
    end = len(pattern)
    while length := 1 if pattern.endswith("$", 0, end) else 2 * pattern.endswith(r"\z", 0, end):
        begin = last = end - length
        while pattern.endswith("\\", 0, begin):
            begin -= 1
        if (last - begin) % 2:  # it is escaped
            break
        end = last
    return pattern[:end]


class _OpenClass:
    """A class that is being read: its operands so far, as in `[a-c&&[^b]--x]`. `begin`: the offset of its bracket."""

    def __init__(self, begin: int, is_negated: bool) -> None:
        self.begin = begin
        self._is_negated, self._operator = is_negated, ""
        self._combined_ranges: Ranges | None = None
        self._items: list[tuple[int, int]] = []

    def add(self, ranges: Ranges) -> None:
        """Add characters to the last operand."""
        self._items += ranges

    def begin_operand(self, operator: str) -> None:
        """Read an operator, after which the next operand begins."""
        spend()
        self._combined_ranges, self._operator = (
            _combine(self._combined_ranges, self._operator, charset(self._items)),
            operator,
        )
        self._items = []

    def close(self) -> Ranges:
        """The characters of the class."""
        spend()
        ranges = _combine(self._combined_ranges, self._operator, charset(self._items))
        return complement(ranges) if self._is_negated else ranges


class _Reader:
    def __init__(self, pattern: str, max_length: int) -> None:
        self.pattern, self.pos, self.max_length = pattern, 0, max_length

    def read(self) -> str:
        """The whole pattern."""
        out: list[str] = []
        length = 0
        group_flags: list[list[str]] = [[]]  # for each open group, the openings of the groups that set flags inside it
        while self.pos < len(self.pattern):
            char = self.pattern[self.pos]
            if char == "\\":
                self.pos += 1
                out.append(self._rewrite_escape())
            elif char == "[":
                out.append(self._rewrite_class())
            elif char == "(":
                out.append(self._rewrite_group(group_flags))
            elif char == ")":
                self.pos += 1
                out.append(_close_groups(group_flags.pop()) + ")" if len(group_flags) > 1 else ")")
            elif char == "|":
                self.pos += 1
                out.append(_close_groups(group_flags[-1]) + "|" + "".join(group_flags[-1]))
            else:
                self.pos += 1
                out.append(char)
            length += len(out[-1])
            if length > self.max_length:
                raise LimitExceeded("spec_length", length, self.max_length, hint=_LENGTH_HINT)
        return "".join(out) + _close_groups(group_flags[0])

    def _rewrite_group(self, group_flags: list[list[str]]) -> str:
        match = _FLAGS.match(self.pattern, self.pos)
        if match is None:
            begin = self.pos
            self.pos += 1
            group_flags.append([])
            if self.pattern.startswith("(?<", begin) and self.pattern[begin + 3 : begin + 4] not in ("=", "!"):
                self.pos = begin + 3
                return "(?P<"
            return "("
        enabled, disabled, end = match[1], match[2] or "", match[3]
        if "R" in enabled or "u" in disabled:
            self._refuse(match[0], match.start(), "write it without the flag")
        self.pos = match.end()
        enabled, disabled = ("".join(flag for flag in flags if flag in "imsx") for flags in (enabled, disabled))
        opening = f"(?{enabled}{'-' * bool(disabled)}{disabled}:"
        if end == ":":
            group_flags.append([])
            return opening
        group_flags[-1].append(opening)
        return opening

    def _rewrite_escape(self) -> str:
        """Rewrite an escape outside a class. Its backslash has been read."""
        begin, char = self.pos, self.pattern[self.pos : self.pos + 1]
        if char in "<>" or self.pattern.startswith("b{", begin):
            self._refuse("\\" + char, begin - 1, "write what may stand there")
        if char == "z":
            self.pos += 1
            return r"\Z"
        ranges = self._read_escape()
        if ranges is None:
            self.pos += 1
            return "\\" + char
        return _format_class(ranges)

    def _read_escape(self) -> Ranges | None:
        """Read the escape at this position, after its backslash. Returns its characters; None if Python reads it the
        same way, and then the position does not change."""
        char = self.pattern[self.pos : self.pos + 1]
        if match := _CODE_POINT.match(self.pattern, self.pos):
            code = int(next(filter(None, match.groups())), 16)
            if code > 0x10FFFF:
                self._fail(f"\\{match[0]} is not a character", match.start(), match.end())
            self.pos = match.end()
            return ((code, code),)
        if match := _PROPERTY.match(self.pattern, self.pos):
            ranges = self._read_property(match[1] or match[2] or "", match.start(), match.end())
            self.pos = match.end()
            return complement(ranges) if match[0][0] == "P" else ranges
        if char and char in "wWsS":
            self.pos += 1
            ranges = _parse_ecma_class(_ECMA_CLASSES[char.lower()])
            return ranges if char.islower() else complement(ranges)
        return None

    def _read_property(self, name: str, start: int, end: int) -> Ranges:
        """The characters with a property. As in Rust, case, spaces and underscores in the name do not matter."""
        sides = [side for side in re.split(r"[:=]", name) if side]
        value = "_".join(word.capitalize() for word in re.split(r"[ _]", sides[-1].strip())) if sides else ""
        for spelling in dict.fromkeys((name, value, value.upper(), f"Script={value}", f"Script_Extensions={value}")):
            try:
                return _parse_ecma_class(rf"\p{{{spelling}}}")
            except SpecError:
                continue
        self._fail(f"\\{self.pattern[start:end]} is not a Unicode property", start, end)
        raise AssertionError

    def _rewrite_class(self) -> str:
        """Rewrite the class at this position: unchanged if Python reads it the same way, otherwise as a list of
        ranges."""
        begin = self.pos
        ranges = self._read_set()
        source = self.pattern[begin : self.pos]
        inside = source[1:-1]
        if not re.search(r"\\[pPwWsSxuU]|\[|&&|--|~~", inside) and not inside.startswith(("]", "^]")):
            return source
        return _format_class(ranges)

    def _read_set(self) -> Ranges:
        """Read the class that begins here, and return its characters."""
        open_classes = [self._open_class()]
        while True:
            current = open_classes[-1]
            if self.pos >= len(self.pattern):
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
        is_negated = self.pattern.startswith("^", begin + 1)
        self.pos += 1 + is_negated
        opened = _OpenClass(begin, is_negated)
        for char in _LITERALS_AT_START.match(self.pattern, self.pos)[0]:  # type: ignore[index]  # it always matches
            opened.add(((ord(char), ord(char)),))
            self.pos += 1
        return opened

    def _read_item(self, begin: int) -> Ranges:
        """Read a character, range, escape or class such as `[:alpha:]` inside the class that began at `begin`."""
        if match := _POSIX_CLASS.match(self.pattern, self.pos):
            if match[2] not in _POSIX_CLASSES:
                self._fail(f"{match[0]} is not a character class", match.start(), match.end())
            self.pos = match.end()
            ranges = _parse_ecma_class(f"[{_POSIX_CLASSES[match[2]]}]")
            return complement(ranges) if match[1] else ranges
        first = self._read_class_atom()
        is_range = self.pattern[self.pos : self.pos + 1] == "-" and self.pattern[self.pos + 1 : self.pos + 2] not in (
            "", "]", "-",
        )  # fmt: skip
        if not is_range or len(first) != 1 or first[0][0] != first[0][1]:
            return first
        self.pos += 1
        last = self._read_class_atom()
        if len(last) != 1 or last[0][0] != last[0][1] or last[0][0] < first[0][0]:
            self._fail("invalid character class range", begin, self.pos)
        return ((first[0][0], last[0][0]),)

    def _read_class_atom(self) -> Ranges:
        char = self.pattern[self.pos]
        self.pos += 1
        if char != "\\":
            return ((ord(char), ord(char)),)
        ranges = self._read_escape()
        if ranges is not None:
            return ranges
        char = self.pattern[self.pos : self.pos + 1]
        self.pos += 1
        if char in ("d", "D"):
            return (
                _parse_ecma_class(_ECMA_CLASSES["d"])
                if char == "d"
                else complement(_parse_ecma_class(_ECMA_CLASSES["d"]))
            )
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


def _close_groups(flags: list[str]) -> str:
    """The parentheses that close the groups opened for flags. In verbose patterns, a newline comes first to end a
    comment."""
    return "".join("\n)" if "x" in text.partition("-")[0] else ")" for text in flags)


def _combine(left: Ranges | None, operator: str, right: Ranges) -> Ranges:
    if left is None:
        return right
    if operator == "&&":
        return intersect(left, right)
    if operator == "--":
        return intersect(left, complement(right))
    return charset([*intersect(left, complement(right)), *intersect(right, complement(left))])


@lru_cache(maxsize=256)
def _parse_ecma_class(pattern: str) -> Ranges:
    node = parse_regex(pattern, dialect="ecma")
    if not isinstance(node, Chars):  # in ECMAScript, an unknown property is literal text
        raise SpecError(f"{pattern} is not a character class")
    return node.ranges


@lru_cache(maxsize=256)
def _format_class(ranges: Ranges) -> str:
    """A Python character class of these characters."""
    if not ranges:
        return r"[^\s\S]"
    pieces = (_format_char(low) + (f"-{_format_char(high)}" if high > low else "") for low, high in ranges)
    return f"[{''.join(pieces)}]"


def _format_char(code: int) -> str:
    """A character in a class. Lark decodes `\\U` before it reads the class, so ASCII punctuation has a backslash."""
    char = chr(code)
    if code > 0x7F or not char.isprintable():
        return f"\\U{code:08x}"
    return char if char.isalnum() else f"\\{char}"
