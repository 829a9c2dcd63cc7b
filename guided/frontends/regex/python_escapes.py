"""Reads characters and sets of the `python` dialect: escapes, character names, [..], and the effects of flags i and a.

In: the cursor of a `Reader` at a backslash or a bracket. Out: the code points and character sets that `re` reads there.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import lru_cache

from guided.ir.ranges import Ranges, charset, complement

from .algebra import text
from .python_chars import class_ranges, ignore_case, plain_class, with_same_lower_case, with_same_lower_case_in_ascii
from .reader import HEX, OCTAL, Reader
from .tree import CaseRule, keep_case

__all__ = ["A", "I", "M", "PythonCharacters", "S", "U", "X"]

I, M, S, X, A, U = 1, 2, 4, 8, 16, 32  # noqa: E741
_SIMPLE_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92}


@lru_cache(maxsize=1024)
def _fold_case(members: tuple[tuple[int, int], ...], classes: Ranges, flags: int, is_single: bool) -> Ranges:
    if flags & I:
        return ignore_case(members, classes, ascii_only=bool(flags & A), is_single=is_single)
    return charset((*((low, max(low, high)) for low, high in members), *classes))


class PythonCharacters(Reader):
    """The part of the `python` dialect's reader that reads characters and sets."""

    def push_literal(self, code: int, start: int) -> None:
        """Add one character that stands for itself."""
        if self.flags & I:
            self.push_set(_fold_case(((code, -1),), (), self.flags & (I | A), True), start)
        else:
            self.push(text(chr(code)), start, 1, 1)

    def skip_past(self, end: str) -> bool:
        """Move past the next `end`, if there is one. A backslash escapes the character after it."""
        while self.pos < len(self.text):
            c = self.text[self.pos]
            if c == "\\" and self.pos + 1 == len(self.text):
                raise self.error("bad escape (end of pattern)", self.pos, hint="write \\\\ for a backslash")
            self.pos += 2 if c == "\\" else 1
            if c == end:
                return True
        return False

    def find_case_rule(self) -> CaseRule:
        """How a back-reference at the cursor compares characters."""
        if not self.flags & I:
            return keep_case
        return with_same_lower_case_in_ascii if self.flags & A else with_same_lower_case

    # --- escapes

    def read_escaped_character(self, start: int, *, in_set: bool) -> int:
        """The code point of an escape; the cursor is after its backslash."""
        c = self.peek()
        if not c:
            raise self.error("bad escape (end of pattern)", start, hint="write \\\\ for a backslash")
        self.pos += 1
        if c in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[c]
        if c in "xuU":
            count = {"x": 2, "u": 4, "U": 8}[c]
            digits = self.take_all(HEX, count)
            if len(digits) < count:
                raise self.error(
                    f"incomplete escape \\{c}{digits}", start, hint=f"\\{c} takes {count} hexadecimal digits"
                )
            if int(digits, 16) > sys.maxunicode:
                raise self.error(f"bad escape \\{c}{digits}", start, hint="the largest code point is 0010FFFF")
            return int(digits, 16)
        if c == "N":
            return self._read_named_character(start)
        if c in OCTAL and (in_set or c == "0"):
            digits = c + self.take_all(OCTAL, 2)
            return self.parse_octal(digits, start)
        if c.isascii() and c.isalnum():
            hint = "Python's re has no such escape; for a literal letter leave out the backslash"
            if c in "pP":
                hint = "Python's re has no Unicode properties: spell the set out, or use dialect='ecma'"
            elif c == "z":
                hint = "write \\Z for the end of the text"
            elif c == "k":
                hint = "write \\N or (?P=name) for a back-reference"
            elif in_set:
                hint = "this escape has no meaning inside a set"
            raise self.error(f"bad escape \\{c}", start, hint=hint)
        return ord(c)

    def parse_octal(self, digits: str, start: int) -> int:
        """The value of an octal escape."""
        if int(digits, 8) > 0o377:
            raise self.error(
                f"octal escape value \\{digits} outside of range 0-0o377", start, hint="write \\xNN or \\uNNNN"
            )
        return int(digits, 8)

    def _read_named_character(self, start: int) -> int:
        if not self.take("{"):
            raise self.error("missing {", start, hint="write \\N{NAME OF THE CHARACTER}")
        name = self.read_until("}", "character name", start)
        try:
            return ord(unicodedata.lookup(name))
        except (KeyError, TypeError):
            hint = "use a name from the Unicode character database"
            raise self.error(f"undefined character name {name!r}", start, hint=hint) from None

    def read_until(self, end: str, what: str, start: int) -> str:
        """Read a name up to `end`, and move past `end`. `what`: what the name is, for error messages."""
        name_start = self.pos
        if not self.skip_past(end):
            if name_start == len(self.text):
                raise self.error(f"missing {what}", start, hint=f"write a {what} and {end}")
            raise self.error(f"missing {end}, unterminated name", start, hint=f"close the name with {end}")
        name = self.text[name_start : self.pos - 1]
        if not name:
            raise self.error(f"missing {what}", start, hint=f"write a {what} before {end}")
        return name

    # --- sets

    def select_class(self, letter: str, *, is_negated: bool = False) -> Ranges:
        r"""The set of \d, \s, \w, \D, \S or \W. The flags a and u select the set explicitly and prevent narrowing
        (docs/inside/regex.md).
        """
        if self.flags & (A | U) or not self.is_narrowed(letter, is_negated=is_negated):
            return class_ranges(letter, bool(self.flags & A))
        return complement(plain_class(letter.lower())) if letter.isupper() else plain_class(letter)

    def read_set(self) -> None:
        """Read [..]; the cursor is on the bracket."""
        start = self.pos
        self.pos += 1
        is_negated = self.take("^")
        members: list[tuple[int, int]] = []
        classes: list[Ranges] = []
        is_first = True
        while True:
            member_start = self.pos
            c = self.peek()
            if not c:
                raise self.error(
                    "unterminated character set", start, start + 1, hint="close the set with ], or write \\["
                )
            if c == "]" and not is_first:
                self.pos += 1
                break
            is_first = False
            low = self._read_member(is_negated)
            if self.peek() == "-" and self.text[self.pos + 1 : self.pos + 2] != "]":
                self.pos += 1
                if not self.peek():
                    continue
                high = self._read_member(is_negated)
                if isinstance(low, tuple) or isinstance(high, tuple) or high < low:
                    hint = "the ends of a range are single characters, the lower one first; write \\- for a hyphen"
                    raise self.error(
                        f"bad character range {self.text[member_start : self.pos]}", member_start, hint=hint
                    )
                members.append((low, high))
            elif isinstance(low, tuple):
                classes.append(low)
            else:
                members.append((low, -1))
        union: Ranges = classes[0] if len(classes) == 1 else charset(r for ranges in classes for r in ranges)
        is_single = len(members) == 1 and members[0][1] < 0 and not classes
        ranges = _fold_case(tuple(members), union, self.flags & (I | A), is_single)
        self.push_set(complement(ranges) if is_negated else ranges, start)

    def _read_member(self, is_negated: bool) -> int | Ranges:
        """Read one character or class of a set."""
        start = self.pos
        c = self.text[start]
        self.pos += 1
        if c != "\\":
            return ord(c)
        letter = self.peek()
        if letter and letter in "dDsSwW":
            self.pos += 1
            return self.select_class(letter, is_negated=is_negated)
        return self.read_escaped_character(start, in_set=True)
