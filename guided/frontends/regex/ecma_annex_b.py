r"""The `ecma` dialect for patterns that the flag `u` refuses: section 22.2 of ECMA-262 without that flag, with annex
B.1.2. `new RegExp(pattern)` accepts these patterns.

In: the pattern. Out: a `Tree` over UTF-16 code units, and whether the code units of a text matter (`code_units.py`). In
the pattern and in the tree, the code point that is `SURROGATE_OFFSET` larger represents a surrogate, because sets of
the tree cannot contain surrogates.

Differences from the reader with `u`:

- `]`, `{` and `}` stand for themselves if they are not syntax
- so does a character after a backslash that does not form an escape: `\_`, `\p`, `\x1`, `\u{`
- `\1` is a back-reference only if there is such a group, otherwise an octal escape
- `\c` without a letter is a backslash and a c
- a class may be an end of a range, and lookaheads can be repeated
- a character beyond U+FFFF is two code units
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from guided.ir.nodes import EPSILON
from guided.ir.ranges import Ranges, charset

from .budget import Budget
from .code_units import SURROGATE_OFFSET, has_surrogates
from .ecma_chars import ignore_case_of_units, word
from .ecma_syntax import CONTROL, EcmaReader, I
from .reader import DIGITS, HEX, OCTAL, Classes
from .tree import boundary

__all__ = ["AnnexBReader"]

_SHIFTS = ((0, 0xD7FF, 0), (0xD800, 0xDFFF, SURROGATE_OFFSET), (0xE000, 0xFFFF, 0))
_COUNT = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_GROUP_SCANNER = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]?|\(\?<(?![=!])|\((?!\?)", re.DOTALL)


def _to_units(pattern: str) -> str:
    """The pattern in code units: two for each character beyond U+FFFF, and surrogates moved by `SURROGATE_OFFSET`."""
    out = []
    for c in pattern:
        code = ord(c)
        if code > 0xFFFF:
            code -= 0x10000
            out += [chr(0xD800 + (code >> 10) + SURROGATE_OFFSET), chr(0xDC00 + (code & 0x3FF) + SURROGATE_OFFSET)]
        else:
            out.append(chr(code + SURROGATE_OFFSET) if 0xD800 <= code <= 0xDFFF else c)
    return "".join(out)


class AnnexBReader(EcmaReader):
    """Reads one pattern. Offsets of errors count code units."""

    repeatable = ("atom", "group", "look")

    def __init__(self, pattern: str, budget: Budget, *, classes: Classes = "full", ascii_case: bool = False) -> None:
        super().__init__(_to_units(pattern), budget, classes=classes, ascii_case=ascii_case)
        openings = [match[0] for match in _GROUP_SCANNER.finditer(self.text)]
        self.has_named_groups = "(?<" in openings
        self.all_groups = sum(part.startswith("(") for part in openings)
        self.needs_units = self.text != pattern
        """Whether code units matter: a set contains surrogates, or a lookaround may be between the two of a pair."""
        self._pattern = pattern

    def span(self, start: int, end: int) -> tuple[int, int]:
        """A span of code units, converted to characters of the pattern."""
        begins = [0]
        for c in self._pattern:
            begins.append(begins[-1] + (2 if c > "\uffff" else 1))
        return bisect_right(begins, start) - 1, bisect_left(begins, end)

    # --- the element at the cursor

    def item(self, c: str) -> None:
        """Read the element at the cursor."""
        if c in "]}" or (c == "{" and not _COUNT.match(self.text, self.at)):
            start = self.at
            self.at += 1
            self._literal(ord(c), start)
        else:
            super().item(c)

    def push_set(self, ranges: Ranges, start: int) -> None:
        """Add one code unit of `ranges`."""
        self.needs_units = self.needs_units or has_surrogates(ranges)
        super().push_set(ranges, start)

    def _literal(self, code: int, start: int) -> None:
        self.needs_units = self.needs_units or code > 0xFFFF
        super()._literal(code, start)

    def close(self) -> None:
        """Leave a group. A lookahead may be repeated, a lookbehind may not."""
        frame = self.frame
        super().close()
        if frame.kind == "look":
            self.needs_units = True
            if not frame.ahead:
                self.frame.pieces[-1].kind = "anchor"

    def quantify(self, low: int, high: int | None, start: int, *, lazy: bool, possessive: bool = False) -> None:
        """Repeat the last piece. Repeating a lookahead has no effect; an optional lookahead has no effect at all."""
        piece = self.frame.pieces[-1]
        if piece.kind != "look":
            super().quantify(low, high, start, lazy=lazy, possessive=possessive)
        elif low == 0:
            self.frame.pieces.pop()
            self.push(EPSILON, piece.start, 0, 0, "repeat")
        else:
            piece.kind, piece.end = "repeat", self.at

    # --- escapes

    def _escape(self) -> None:
        start = self.at
        self.at += 1
        c = self.peek()
        if c and c in "bB":
            self.at += 1
            self.needs_units = True
            span = start, self.at
            self.push_boundary(c, 0, start, lambda: boundary(word(False), c == "B", span))
        elif c and c in "123456789" and self._is_reference():
            self._refer(self.number(self.take_all(DIGITS)), start)
        elif c == "k" and self.has_named_groups:
            self.at = start
            super()._escape()
        elif c and c in "dDsSwW":
            self.push_set(self._fold(self._class(start)), start)
        else:
            self._literal(self._character(start, in_set=False), start)

    def _is_reference(self) -> bool:
        """Whether the pattern has at least as many groups as the number at the cursor."""
        at = self.at
        number = self.number(self.take_all(DIGITS))
        self.at = at
        return number <= self.all_groups

    def _fold(self, ranges: Ranges) -> Ranges:
        return super()._fold(ranges) if self.ascii_case else ignore_case_of_units(ranges) if self.flags & I else ranges

    def _class(self, start: int, *, negated: bool = False) -> Ranges:
        letter = self.text[self.at]
        self.at += 1
        return self._category(letter, any_case=False, negated=negated)

    def _character(self, start: int, *, in_set: bool) -> int:
        """The code unit of an escape; the cursor is after its backslash."""
        c = self.peek()
        if not c:
            raise self.error("\\ at end of pattern", start, hint="write \\\\ for a backslash")
        if c == "c":
            return self._control(in_set)
        if c == "k" and self.has_named_groups:
            raise self.error("invalid named reference", start, hint="write \\k<name>")
        if c in OCTAL:
            return int(self.take_all(OCTAL, 3 if c in "0123" else 2), 8)
        self.at += 1
        if c in CONTROL:
            return CONTROL[c]
        if c in "xu":
            digits = self.take_all(HEX, 2 if c == "x" else 4)
            if len(digits) == (2 if c == "x" else 4):
                code = int(digits, 16)
                return code + SURROGATE_OFFSET if 0xD800 <= code <= 0xDFFF else code
            self.at -= len(digits)
        return 8 if in_set and c == "b" else ord(c)

    def _control(self, in_set: bool) -> int:
        r"""\cX, or only the backslash if no such X follows. The cursor is on the c."""
        follows = self.text[self.at + 1 : self.at + 2]
        if follows.isascii() and (follows.isalpha() or (in_set and (follows.isdigit() or follows == "_"))):
            self.at += 2
            return ord(follows) % 32
        return ord("\\")

    # --- sets

    def _member(self, negated: bool) -> int | Ranges:
        if self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] in ("p", "P"):
            self.at += 2
            return ord(self.text[self.at - 1])
        return super()._member(negated)

    def _range(self, low: int | Ranges, high: int | Ranges, start: int) -> Ranges:
        if isinstance(low, tuple) or isinstance(high, tuple):
            ends = [((end, end),) if isinstance(end, int) else end for end in (low, high)]
            return charset((*ends[0], (0x2D, 0x2D), *ends[1]))
        low, high = _char_to_unit(low), _char_to_unit(high)
        ((low, high),) = super()._range(low, high, start)
        return _units_to_chars(low, high)


def _char_to_unit(code: int) -> int:
    """The code unit that a character of the tree represents."""
    return code - SURROGATE_OFFSET if code > 0xFFFF else code


def _units_to_chars(low: int, high: int) -> Ranges:
    """The characters that represent the code units from `low` to `high`."""
    parts = [(max(low, a) + shift, min(high, b) + shift) for a, b, shift in _SHIFTS]
    return charset([(first, last) for first, last in parts if first <= last])
