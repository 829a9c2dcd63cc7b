r"""The `ecma` dialect for patterns that are invalid with the flag u: section 22.2 of ECMA-262 without that flag, with
annex B.1.2. `new RegExp(pattern)` accepts these patterns.

In: the pattern. Out: a `Tree` over UTF-16 code units, and whether it must be matched in code units (`needs_units`).
Character sets cannot contain surrogates. In the pattern and in the tree, each surrogate is therefore represented by the
code point that is `SURROGATE_OFFSET` larger (`code_units.py`).

Differences from the reader with u:

- `]`, `{` and `}` stand for themselves if they are not syntax
- if a backslash and the next character do not form an escape, the character stands for itself: `\_`, `\p`, `\x1`, `\u{`
- `\1` is a back-reference only if group 1 exists, otherwise an octal escape
- `\c` without a letter is a backslash and a c
- a class may stand at either end of a range (`[\w-z]`), and lookaheads can be repeated
- a character beyond U+FFFF is two code units
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping

from guided.ir.nodes import EPSILON
from guided.ir.ranges import Ranges, charset

from .budget import Budget
from .code_units import SURROGATE_OFFSET, has_surrogates
from .ecma_chars import ignore_case_of_units, word_chars
from .ecma_syntax import CONTROL, EcmaReader, I
from .reader import DIGITS, HEX, OCTAL, Classes
from .tree import CaseRule, word_boundary

__all__ = ["AnnexBReader", "find_pattern_span"]

# (first code unit, last code unit, the offset of the code points that represent these units)
_SHIFTS = ((0, 0xD7FF, 0), (0xD800, 0xDFFF, SURROGATE_OFFSET), (0xE000, 0xFFFF, 0))
_COUNT = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_GROUP_SCANNER = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]?|\(\?<(?![=!])|\((?!\?)", re.DOTALL)


def _to_units(pattern: str) -> str:
    """The pattern in code units, two for each character beyond U+FFFF. Surrogates are moved by `SURROGATE_OFFSET`."""
    out = []
    for c in pattern:
        code = ord(c)
        if code > 0xFFFF:
            code -= 0x10000
            out += [chr(0xD800 + (code >> 10) + SURROGATE_OFFSET), chr(0xDC00 + (code & 0x3FF) + SURROGATE_OFFSET)]
        else:
            out.append(chr(code + SURROGATE_OFFSET) if 0xD800 <= code <= 0xDFFF else c)
    return "".join(out)


def find_pattern_span(pattern: str, start: int, end: int) -> tuple[int, int]:
    """Convert a span from code units to characters of the pattern."""
    offsets = [0]
    for c in pattern:
        offsets.append(offsets[-1] + (2 if c > "\uffff" else 1))
    return bisect_right(offsets, start) - 1, bisect_left(offsets, end)


class AnnexBReader(EcmaReader):
    """Reads one pattern. Offsets and spans in its errors count code units."""

    repeatable = ("atom", "group", "lookaround")

    def __init__(
        self,
        pattern: str,
        budget: Budget,
        *,
        classes: Classes = "full",
        captures: Mapping[int | str, int] | None = None,
        ascii_case: bool = False,
    ) -> None:
        super().__init__(_to_units(pattern), budget, classes=classes, captures=captures, ascii_case=ascii_case)
        elements = [match[0] for match in _GROUP_SCANNER.finditer(self.text)]
        self.has_named_groups = "(?<" in elements
        self.total_groups = sum(element.startswith("(") for element in elements)
        self.needs_units = self.text != pattern
        """Whether code units matter: a set contains surrogates, or a lookaround may hold between the two surrogates of
        a pair.
        """

    # --- the element at the cursor

    def read_element(self, c: str) -> None:
        """Read the element at the cursor."""
        if c in "]}" or (c == "{" and not _COUNT.match(self.text, self.pos)):
            start = self.pos
            self.pos += 1
            self._push_literal(ord(c), start)
        else:
            super().read_element(c)

    def push_set(self, ranges: Ranges, start: int) -> None:
        """Add a piece that matches one code unit of `ranges`."""
        self.needs_units = self.needs_units or has_surrogates(ranges)
        super().push_set(ranges, start)

    def _push_literal(self, code: int, start: int) -> None:
        self.needs_units = self.needs_units or code > 0xFFFF
        super()._push_literal(code, start)

    def close_group(self) -> None:
        """Leave a group. A lookahead may be repeated, but a lookbehind may not."""
        frame = self.frame
        super().close_group()
        if frame.kind == "lookaround":
            self.needs_units = True
            if not frame.ahead:
                self.frame.pieces[-1].kind = "anchor"

    def quantify(self, low: int, high: int | None, start: int, *, lazy: bool, possessive: bool = False) -> None:
        """Repeat the last piece. A lookahead is kept as it is, but is dropped if it may be repeated zero times."""
        piece = self.frame.pieces[-1]
        if piece.kind != "lookaround":
            super().quantify(low, high, start, lazy=lazy, possessive=possessive)
        elif low == 0:
            self.frame.pieces.pop()
            self.push(EPSILON, piece.start, 0, 0, "repeat")
        else:
            piece.kind, piece.end = "repeat", self.pos

    # --- escapes

    def _read_escape(self) -> None:
        start = self.pos
        self.pos += 1
        c = self.peek()
        if c and c in "bB":
            self.pos += 1
            self.needs_units = True
            span = start, self.pos
            self.push_boundary(c, 0, start, lambda: word_boundary(word_chars(False), c == "B", span))
        elif c and c in "123456789" and self._is_group_number():
            self._add_reference(self.parse_count(self.take_all(DIGITS)), start)
        elif c == "k" and self.has_named_groups:
            self.pos = start
            super()._read_escape()
        elif c and c in "dDsSwW":
            self.push_set(self._fold_case(self._read_class(start)), start)
        else:
            self._push_literal(self._read_escaped_character(start, in_set=False), start)

    def _is_group_number(self) -> bool:
        """Whether the number at the cursor is the number of a group."""
        start = self.pos
        number = self.parse_count(self.take_all(DIGITS))
        self.pos = start
        return number <= self.total_groups

    def _find_case_rule(self) -> CaseRule:
        return ignore_case_of_units if self.flags & I and not self.ascii_case else super()._find_case_rule()

    def _read_class(self, start: int, *, is_negated: bool = False) -> Ranges:
        letter = self.text[self.pos]
        self.pos += 1
        return self._select_class(letter, any_case=False, is_negated=is_negated)

    def _read_escaped_character(self, start: int, *, in_set: bool) -> int:
        """Read the code unit of an escape; the cursor is after its backslash."""
        c = self.peek()
        if not c:
            raise self.error("\\ at end of pattern", start, hint="write \\\\ for a backslash")
        if c == "c":
            return self._read_control(in_set)
        if c == "k" and self.has_named_groups:
            raise self.error("invalid named reference", start, hint="write \\k<name>")
        if c in OCTAL:
            return int(self.take_all(OCTAL, 3 if c in "0123" else 2), 8)
        self.pos += 1
        if c in CONTROL:
            return CONTROL[c]
        if c in "xu":
            digits = self.take_all(HEX, 2 if c == "x" else 4)
            if len(digits) == (2 if c == "x" else 4):
                code = int(digits, 16)
                return code + SURROGATE_OFFSET if 0xD800 <= code <= 0xDFFF else code
            self.pos -= len(digits)
        return 8 if in_set and c == "b" else ord(c)

    def _read_control(self, in_set: bool) -> int:
        r"""Read \cX, or only the backslash if no control letter X follows. The cursor is on the c."""
        letter = self.text[self.pos + 1 : self.pos + 2]
        if letter.isascii() and (letter.isalpha() or (in_set and (letter.isdigit() or letter == "_"))):
            self.pos += 2
            return ord(letter) % 32
        return ord("\\")

    # --- sets

    def _read_member(self, is_negated: bool) -> int | Ranges:
        if self.text[self.pos] == "\\" and self.text[self.pos + 1 : self.pos + 2] in ("p", "P"):
            self.pos += 2
            return ord(self.text[self.pos - 1])
        return super()._read_member(is_negated)

    def _make_range(self, low: int | Ranges, high: int | Ranges, start: int) -> Ranges:
        if isinstance(low, tuple) or isinstance(high, tuple):
            ends = [((end, end),) if isinstance(end, int) else end for end in (low, high)]
            return charset((*ends[0], (0x2D, 0x2D), *ends[1]))
        low, high = _char_to_unit(low), _char_to_unit(high)
        ((low, high),) = super()._make_range(low, high, start)
        return _units_to_chars(low, high)


def _char_to_unit(code: int) -> int:
    """The code unit that a code point of the tree represents."""
    return code - SURROGATE_OFFSET if code > 0xFFFF else code


def _units_to_chars(low: int, high: int) -> Ranges:
    """The code points that represent the code units from `low` to `high` in the tree."""
    parts = [(max(low, a) + shift, min(high, b) + shift) for a, b, shift in _SHIFTS]
    return charset([(first, last) for first, last in parts if first <= last])
