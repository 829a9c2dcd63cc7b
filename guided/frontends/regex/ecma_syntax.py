"""The `ecma` dialect: the patterns that `new RegExp(pattern, "u")` accepts. This is section 22.2 of ECMA-262, including
modifiers and duplicate group names in different alternatives.

In: the pattern. Out: a `Tree` in which sets, escapes and modifiers are resolved. The flag u is strict: lone brackets
and unknown escapes are errors. `ecma_annex_b.py` reads the patterns that are invalid here. A pair of escaped surrogates
is one character. A lone surrogate is valid but matches nothing, because the strings to be matched contain none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from guided.ir.ranges import ALL_CHARS, Ranges, charset, complement
from guided.meter import spend

from .algebra import text
from .budget import Budget
from .ecma_chars import (
    LINE_ENDS,
    UnknownProperty,
    class_ranges,
    ignore_case,
    ignore_case_of_ascii,
    plain_class,
    property_set,
    word_chars,
)  # fmt: skip
from .ecma_group_names import GroupNames
from .reader import DIGITS, HEX, Classes, Frame, Reader
from .tree import CaseRule, keep_case, line_end, line_start, word_boundary

__all__ = ["CONTROL", "EcmaReader", "I"]

I, M, S = 1, 2, 4  # noqa: E741
_FLAGS = {"i": I, "m": M, "s": S}
_SYNTAX = "^$\\.*+?()[]{}|/"
CONTROL = {"f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


class EcmaReader(Reader):
    """Reads one pattern."""

    literal_run = re.compile(r"[^\\.^$|()\[\]{}*+?\ud800-\udfff]+")
    repeatable: tuple[str, ...] = ("atom", "group")
    """The kinds of pieces that a quantifier may follow."""

    def __init__(
        self,
        pattern: str,
        budget: Budget,
        *,
        ordered: bool = False,
        classes: Classes = "full",
        captures: Mapping[int | str, int] | None = None,
        ascii_case: bool = False,
    ) -> None:
        super().__init__(pattern, budget, ordered=ordered, classes=classes, captures=captures)
        self.ascii_case = ascii_case
        self.group_count = 0
        self.group_names = GroupNames()
        self._numbers_by_name: dict[str, list[int]] = {}

    # --- the element at the cursor

    def read_element(self, c: str) -> None:
        """Read the element at the cursor."""
        start = self.pos
        if c == "\\":
            self._read_escape()
        elif c == "[":
            self._read_set()
        elif c == "(":
            self._read_group(start)
        elif c in "*+?{":
            self._read_quantifier(c)
        elif c in "]}":
            raise self.error(f"lone {c}", start, start + 1, hint=f"write \\{c}")
        elif c in ".^$":
            self.pos += 1
            span = (start, self.pos)
            if c == ".":
                self.push_set(ALL_CHARS if self.flags & S else complement(LINE_ENDS), start)
            else:
                make_anchor = line_start if c == "^" else line_end
                self.push(make_anchor(LINE_ENDS if self.flags & M else (), span), start, 0, 0, "anchor")
        elif self.flags & I or not self.push_literal_run("*+?{"):
            self._push_literal(self._read_code_point(), start)

    def _read_code_point(self) -> int:
        """Read the code point at the cursor. A surrogate pair is one code point."""
        code = ord(self.text[self.pos])
        self.pos += 1
        if 0xD800 <= code <= 0xDBFF and "\udc00" <= self.peek() <= "\udfff":
            code = 0x10000 + ((code & 0x3FF) << 10) + (ord(self.text[self.pos]) & 0x3FF)
            self.pos += 1
        return code

    def _push_literal(self, code: int, start: int) -> None:
        if self.flags & I:
            self.push_set(self._fold_case(((code, code),)), start)
        else:
            self.push(text(chr(code)), start, 1, 1)

    # --- escapes

    def _read_escape(self) -> None:
        start = self.pos
        self.pos += 1
        c = self.peek()
        if c and c in "bB":
            self.pos += 1
            span, word_set = (start, self.pos), word_chars(self._extends_words)
            self.push_boundary(c, self.flags & I, start, lambda: word_boundary(word_set, c == "B", span))
        elif c and c in "123456789":
            digits = self.take_all(DIGITS)
            self._add_reference(self.parse_count(digits), start)
        elif c == "k":
            self.pos += 1
            if not self.take("<"):
                raise self.error("invalid named reference", start, hint="write \\k<name>")
            self._add_reference(self._read_name(start), start)
        elif c and c in "dDsSwWpP":
            self.push_set(self._fold_case(self._read_class(start)), start)
        else:
            self._push_literal(self._read_escaped_character(start, in_set=False), start)

    def _fold_case(self, ranges: Ranges) -> Ranges:
        """The characters that match one of `ranges` under the current flags."""
        return self._find_case_rule()(ranges)

    def _find_case_rule(self) -> CaseRule:
        if not self.flags & I:
            return keep_case
        return ignore_case_of_ascii if self.ascii_case else ignore_case

    @property
    def _extends_words(self) -> bool:
        r"""Whether \w includes the non-ASCII characters whose other case is an ASCII letter."""
        return bool(self.flags & I) and not self.ascii_case

    def _add_reference(self, group: int | str, start: int) -> None:
        self.push_reference(group, self._find_case_rule(), start, 0, 0)

    def _read_class(self, start: int, *, is_negated: bool = False) -> Ranges:
        r"""Read \d, \s, \w, \p{..}, \D, \S, \W or \P{..}; the cursor is on the letter. `is_negated`: in a ^ set."""
        letter = self.text[self.pos]
        self.pos += 1
        if letter not in "pP":
            return self._select_class(letter, any_case=self._extends_words, is_negated=is_negated)
        end = self.text.find("}", self.pos)
        if not self.take("{") or end < 0:
            raise self.error("invalid property name", start, hint="write \\p{Property} or \\p{Property=Value}")
        name, _, value = (expression := self.text[self.pos : end]).partition("=")
        self.pos = end + 1
        try:
            ranges = property_set(name, value if "=" in expression else None)
        except UnknownProperty as problem:
            raise self.error(f"unknown Unicode property {expression[:80]!r}", start, hint=str(problem)) from None
        return complement(ranges) if letter == "P" else ranges

    def _select_class(self, letter: str, *, any_case: bool, is_negated: bool) -> Ranges:
        r"""The set of \d, \s, \w, \D, \S or \W, narrowed for generation if this makes the language smaller."""
        if not self.is_narrowed(letter, is_negated=is_negated):
            return class_ranges(letter, any_case)
        narrow_ranges = plain_class(letter.lower(), any_case)
        return complement(narrow_ranges) if letter.isupper() else narrow_ranges

    def _read_escaped_character(self, start: int, *, in_set: bool) -> int:
        """Read the code point of an escape; the cursor is after its backslash."""
        c = self.peek()
        if not c:
            raise self.error("\\ at end of pattern", start, hint="write \\\\ for a backslash")
        self.pos += 1
        if c in CONTROL:
            return CONTROL[c]
        if c == "c":
            letter = self.peek()
            if not (letter.isascii() and letter.isalpha()):
                raise self.error("invalid control escape", start, hint="\\c takes a letter from A to Z")
            self.pos += 1
            return ord(letter) % 32
        if c == "0" and not (self.peek() and self.peek() in DIGITS):
            return 0
        if c == "x":
            digits = self.take_all(HEX, 2)
            if len(digits) < 2:
                raise self.error("invalid escape", start, hint="\\x takes 2 hexadecimal digits")
            return int(digits, 16)
        if c == "u":
            return self._read_unicode_escape(start)
        if c in _SYNTAX or (in_set and c == "-"):
            return ord(c)
        if in_set and c == "b":
            return 8
        if c in DIGITS:
            raise self.error("invalid decimal escape", start, hint="write \\xNN or \\u{N}")
        hint = f"write {c} without the backslash"
        if c.isalnum():
            hint = {"A": "write ^", "Z": "write $", "z": "write $"}.get(c, "there is no such escape with the u flag")
        raise self.error("invalid escape", start, hint=hint)

    def _read_unicode_escape(self, start: int) -> int:
        r"""Read \uHHHH, \uHHHH\uHHHH (a surrogate pair) or \u{H..}; the cursor is after the u."""
        if self.take("{"):
            digits = self.take_all(HEX)
            significant = digits.lstrip("0")
            if not digits or not self.take("}") or len(significant) > 6 or int(significant or "0", 16) > 0x10FFFF:
                raise self.error("invalid Unicode escape", start, hint="write \\u{H..}, at most \\u{10FFFF}")
            return int(significant or "0", 16)
        digits = self.take_all(HEX, 4)
        if len(digits) < 4:
            raise self.error("invalid Unicode escape", start, hint="write \\uHHHH or \\u{H..}")
        code = int(digits, 16)
        if 0xD800 <= code <= 0xDBFF and self.text.startswith("\\u", self.pos):
            low = self.text[self.pos + 2 : self.pos + 6]
            if len(low) == 4 and all(c in HEX for c in low) and 0xDC00 <= int(low, 16) <= 0xDFFF:
                self.pos += 6
                return 0x10000 + ((code & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
        return code

    # --- sets

    def _read_set(self) -> None:
        start = self.pos
        self.pos += 1
        is_negated = self.take("^")
        members: list[tuple[int, int]] = []
        while not self.take("]"):
            member_start = self.pos
            if not self.peek():
                raise self.error("unterminated character class", start, start + 1, hint="close it with ], or write \\[")
            low = self._read_member(is_negated)
            if self.peek() == "-" and self.text[self.pos + 1 : self.pos + 2] not in ("]", ""):
                self.pos += 1
                members.extend(self._make_range(low, self._read_member(is_negated), member_start))
            else:
                members.extend(low if isinstance(low, tuple) else [(low, low)])
        ranges = self._fold_case(charset(members))
        self.push_set(complement(ranges) if is_negated else ranges, start)

    def _make_range(self, low: int | Ranges, high: int | Ranges, start: int) -> Ranges:
        """The characters of the range `low-high` in a set."""
        if isinstance(low, tuple) or isinstance(high, tuple):
            hint = "the ends of a range are single characters; write \\- for a hyphen"
            raise self.error("invalid character class", start, hint=hint)
        if high < low:
            raise self.error("range out of order in character class", start, hint="write the lower end first")
        return ((low, high),)

    def _read_member(self, is_negated: bool) -> int | Ranges:
        """Read one character or class of a set."""
        start = self.pos
        if self.text[start] != "\\":
            return self._read_code_point()
        self.pos += 1
        letter = self.peek()
        if letter and letter in "dDsSwWpP":
            return self._read_class(start, is_negated=is_negated)
        return self._read_escaped_character(start, in_set=True)

    # --- quantifiers

    def _read_quantifier(self, c: str) -> None:
        start = self.pos
        self.pos += 1
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1), "{": (0, None)}[c]
        if c == "{":
            low_digits = self.take_all(DIGITS)
            is_exact = not self.take(",")
            high_digits = low_digits if is_exact else self.take_all(DIGITS)
            if not low_digits or not self.take("}"):
                raise self.error("incomplete quantifier", start, hint="write {n}, {n,} or {n,m}; or \\{")
            low, high = self.parse_count(low_digits), self.parse_count(high_digits) if high_digits else None
            if high is not None and high < low:
                hint = f"write {{{high},{low}}}"
                raise self.error("numbers out of order in quantifier", start, hint=hint)
        pieces = self.frame.pieces
        if not pieces or pieces[-1].kind not in self.repeatable:
            hint = f"put something to repeat before it, or write \\{c}"
            if pieces and pieces[-1].kind != "repeat":
                hint = "lookarounds and anchors cannot be repeated with the u flag: wrap them in (?:..)"
            raise self.error("nothing to repeat", start, hint=hint)
        self.quantify(low, high, start, lazy=self.take("?"))

    # --- groups

    def _read_group(self, start: int) -> None:
        self.pos += 1
        frame = Frame("group", start, self.flags)
        if not self.take("?"):
            self.group_count += 1
            frame.number = self.group_count
        elif self.take(":"):
            pass
        elif self.text[self.pos : self.pos + 1] in ("=", "!") or self.text[self.pos : self.pos + 2] in ("<=", "<!"):
            ahead = not self.take("<")
            frame = Frame("lookaround", start, self.flags, ahead=ahead, negative=self.peek() == "!")
            self.pos += 1
        elif self.take("<"):
            self.group_count += 1
            frame.number = self.group_count
            self._define_name(self._read_name(start), start)
        else:
            return self._read_modifiers(start)
        return self.open_group(frame)

    def open_group(self, frame: Frame) -> None:
        """Enter a group."""
        super().open_group(frame)
        self.group_names.open_group()

    def close_group(self) -> None:
        """Leave a group."""
        self.group_names.close_group()
        super().close_group()

    def begin_branch(self) -> None:
        """Begin the next alternative."""
        super().begin_branch()
        self.group_names.begin_branch()

    def _define_name(self, name: str, start: int) -> None:
        if not self.group_names.define(name):
            raise self.error(f"duplicate group name {name!r}", start, hint="give the group another name")
        self._numbers_by_name.setdefault(name, []).append(self.group_count)

    def _read_name(self, start: int) -> str:
        """Read a group's name, up to and including the >. Decodes \\u escapes."""
        name: list[str] = []
        while not self.take(">"):
            spend()
            c = self.peek()
            if c == "\\" and self.text.startswith("u", self.pos + 1):
                self.pos += 2
                c = chr(self._read_unicode_escape(start))
            elif c:
                c = chr(self._read_code_point())
            if not c or not (c in "$\u200c\u200d" or (f"_{c}" if name else c).isidentifier()):
                raise self.error("invalid capture group name", start, hint="a name is an identifier: (?<name>..)")
            name.append(c)
        if not name or name[0] in "\u200c\u200d":
            raise self.error("invalid capture group name", start, hint="a name is an identifier: (?<name>..)")
        return "".join(name)

    def _read_modifiers(self, start: int) -> None:
        """Read the beginning of a group with flags, such as (?im-s:..). The cursor is after its (?."""
        flags_on = self._read_flag_letters()
        has_minus = self.take("-")
        flags_off = self._read_flag_letters() if has_minus else ""
        if not self.take(":") or (has_minus and not flags_on and not flags_off):
            self.pos += len(self.peek())
            hint = "groups are (..), (?:..), (?<name>..), (?=..), (?!..), (?<=..), (?<!..) and (?ims-ims:..)"
            raise self.error("invalid group", start, hint=hint)
        if len(set(flags_on + flags_off)) < len(flags_on + flags_off):
            raise self.error("repeated modifier", start, hint="name each of i, m and s once")
        self.open_group(Frame("flags", start, self.flags))
        for letter in flags_on:
            self.flags |= _FLAGS[letter]
        for letter in flags_off:
            self.flags &= ~_FLAGS[letter]

    def _read_flag_letters(self) -> str:
        return self.take_all("ims")

    # --- the end

    def check_end(self) -> None:
        """Check that the groups of all back-references exist. References may precede their groups."""
        for group, start, end in self.references:
            if group not in self.group_names.all_names if isinstance(group, str) else group > self.group_count:
                raise self.error("invalid reference", start, end, hint="there is no such group")
        for group, start, end in self.references:
            if isinstance(group, str) and len(self._numbers_by_name[group]) > 1:
                reason = f"this back-reference is not supported: several groups have the name {group!r}"
                self.refuse(reason, start, end, "give each group a name of its own")

    def find_group_number(self, group: int | str) -> int:
        """The number of the group to which a back-reference refers by number or name."""
        return self._numbers_by_name[group][0] if isinstance(group, str) else group
