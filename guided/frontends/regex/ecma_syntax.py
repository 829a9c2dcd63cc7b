"""The `ecma` dialect: the patterns that `new RegExp(pattern, "u")` accepts. This is section 22.2 of ECMA-262, with
modifiers, and with duplicate names of groups in different alternatives.

In: the pattern. Out: a `Tree` in which sets, escapes and modifiers are resolved. The flag u is strict: lone brackets
and unknown escapes are errors. `ecma_annex_b.py` reads the patterns that are refused here. A pair of escaped surrogates
is one character. A lone surrogate is valid, but matches nothing, because texts contain none. Back-references are valid,
but refused with `UnsupportedError`.
"""

from __future__ import annotations

import re

from guided.ir.nodes import EPSILON
from guided.ir.ranges import ALL_CHARS, Ranges, charset, complement

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
    word,
)  # fmt: skip
from .reader import DIGITS, HEX, Classes, Frame, Reader
from .tree import boundary, line_end, line_start

__all__ = ["CONTROL", "EcmaReader", "I"]

I, M, S = 1, 2, 4  # noqa: E741
_FLAGS = {"i": I, "m": M, "s": S}
_SYNTAX = "^$\\.*+?()[]{}|/"
CONTROL = {"f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


class EcmaReader(Reader):
    """Reads one pattern."""

    literals = re.compile(r"[^\\.^$|()\[\]{}*+?\ud800-\udfff]+")
    repeatable: tuple[str, ...] = ("atom", "group")
    """The kinds of pieces that a quantifier may follow."""

    def __init__(
        self,
        pattern: str,
        budget: Budget,
        *,
        ordered: bool = False,
        classes: Classes = "full",
        ascii_case: bool = False,
    ) -> None:
        super().__init__(pattern, budget, ordered=ordered, classes=classes)
        self.ascii_case = ascii_case
        self.groups = 0
        self.names: dict[str, list[tuple[tuple[int, int], ...]]] = {}
        self.references: list[tuple[int | str, int, int]] = []
        self.branch_path: list[tuple[int, int]] = [(0, 0)]

    # --- the element at the cursor

    def item(self, c: str) -> None:
        """Read the element at the cursor."""
        start = self.at
        if c == "\\":
            self._escape()
        elif c == "[":
            self._set()
        elif c == "(":
            self._open_group(start)
        elif c in "*+?{":
            self._quantifier(c)
        elif c in "]}":
            raise self.error(f"lone {c}", start, start + 1, hint=f"write \\{c}")
        elif c in ".^$":
            self.at += 1
            span = (start, self.at)
            if c == ".":
                self.push_set(ALL_CHARS if self.flags & S else complement(LINE_ENDS), start)
            else:
                make = line_start if c == "^" else line_end
                self.push(make(LINE_ENDS if self.flags & M else (), span), start, 0, 0, "anchor")
        elif self.flags & I or not self.push_literals("*+?{"):
            self._literal(self._code(), start)

    def _code(self) -> int:
        """The code point at the cursor. A surrogate pair is one code point."""
        code = ord(self.text[self.at])
        self.at += 1
        if 0xD800 <= code <= 0xDBFF and "\udc00" <= self.peek() <= "\udfff":
            code = 0x10000 + ((code & 0x3FF) << 10) + (ord(self.text[self.at]) & 0x3FF)
            self.at += 1
        return code

    def _literal(self, code: int, start: int) -> None:
        if self.flags & I:
            self.push_set(self._fold(((code, code),)), start)
        else:
            self.push(text(chr(code)), start, 1, 1)

    # --- escapes

    def _escape(self) -> None:
        start = self.at
        self.at += 1
        c = self.peek()
        if c and c in "bB":
            self.at += 1
            span, characters = (start, self.at), word(self._folds_words)
            self.push_boundary(c, self.flags & I, start, lambda: boundary(characters, c == "B", span))
        elif c and c in "123456789":
            digits = self.take_all(DIGITS)
            self._refer(self.number(digits), start)
        elif c == "k":
            self.at += 1
            if not self.take("<"):
                raise self.error("invalid named reference", start, hint="write \\k<name>")
            self._refer(self._name(start), start)
        elif c and c in "dDsSwWpP":
            self.push_set(self._fold(self._class(start)), start)
        else:
            self._literal(self._character(start, in_set=False), start)

    def _fold(self, ranges: Ranges) -> Ranges:
        """The characters that match one of `ranges` under the current flags."""
        if not self.flags & I:
            return ranges
        return ignore_case_of_ascii(ranges) if self.ascii_case else ignore_case(ranges)

    @property
    def _folds_words(self) -> bool:
        r"""Whether \w has characters of other scripts whose other case is an ASCII letter."""
        return bool(self.flags & I) and not self.ascii_case

    def _refer(self, group: int | str, start: int) -> None:
        self.references.append((group, start, self.at))
        self.push(EPSILON, start, 0, 0)

    def _class(self, start: int, *, negated: bool = False) -> Ranges:
        r"""\d \s \w \p{..} or the opposite; the cursor is on the letter. `negated`: in a set with ^."""
        letter = self.text[self.at]
        self.at += 1
        if letter not in "pP":
            return self._category(letter, any_case=self._folds_words, negated=negated)
        end = self.text.find("}", self.at)
        if not self.take("{") or end < 0:
            raise self.error("invalid property name", start, hint="write \\p{Property} or \\p{Property=Value}")
        name, _, value = (expression := self.text[self.at : end]).partition("=")
        self.at = end + 1
        try:
            ranges = property_set(name, value if "=" in expression else None)
        except UnknownProperty as problem:
            raise self.error(f"unknown Unicode property {expression[:80]!r}", start, hint=str(problem)) from None
        return complement(ranges) if letter == "P" else ranges

    def _category(self, letter: str, *, any_case: bool, negated: bool) -> Ranges:
        r"""\d \s \w or the opposite, narrowed for generation where possible."""
        if not self.narrows(letter, negated=negated):
            return class_ranges(letter, any_case)
        narrow = plain_class(letter.lower(), any_case)
        return complement(narrow) if letter.isupper() else narrow

    def _character(self, start: int, *, in_set: bool) -> int:
        """The code point of an escape; the cursor is after its backslash."""
        c = self.peek()
        if not c:
            raise self.error("\\ at end of pattern", start, hint="write \\\\ for a backslash")
        self.at += 1
        if c in CONTROL:
            return CONTROL[c]
        if c == "c":
            letter = self.peek()
            if not (letter.isascii() and letter.isalpha()):
                raise self.error("invalid control escape", start, hint="\\c takes a letter from A to Z")
            self.at += 1
            return ord(letter) % 32
        if c == "0" and not (self.peek() and self.peek() in DIGITS):
            return 0
        if c == "x":
            digits = self.take_all(HEX, 2)
            if len(digits) < 2:
                raise self.error("invalid escape", start, hint="\\x takes 2 hexadecimal digits")
            return int(digits, 16)
        if c == "u":
            return self._unicode(start)
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

    def _unicode(self, start: int) -> int:
        r"""\uHHHH, \uHHHH\uHHHH (a surrogate pair) or \u{H..}; the cursor is after the u."""
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
        if 0xD800 <= code <= 0xDBFF and self.text.startswith("\\u", self.at):
            low = self.text[self.at + 2 : self.at + 6]
            if len(low) == 4 and all(c in HEX for c in low) and 0xDC00 <= int(low, 16) <= 0xDFFF:
                self.at += 6
                return 0x10000 + ((code & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
        return code

    # --- sets

    def _set(self) -> None:
        start = self.at
        self.at += 1
        negate = self.take("^")
        parts: list[tuple[int, int]] = []
        while not self.take("]"):
            here = self.at
            if not self.peek():
                raise self.error("unterminated character class", start, start + 1, hint="close it with ], or write \\[")
            low = self._member(negate)
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                parts.extend(self._range(low, self._member(negate), here))
            else:
                parts.extend(low if isinstance(low, tuple) else [(low, low)])
        ranges = self._fold(charset(parts))
        self.push_set(complement(ranges) if negate else ranges, start)

    def _range(self, low: int | Ranges, high: int | Ranges, start: int) -> Ranges:
        """The characters of `low-high` in a set."""
        if isinstance(low, tuple) or isinstance(high, tuple):
            hint = "the ends of a range are single characters; write \\- for a hyphen"
            raise self.error("invalid character class", start, hint=hint)
        if high < low:
            raise self.error("range out of order in character class", start, hint="write the lower end first")
        return ((low, high),)

    def _member(self, negated: bool) -> int | Ranges:
        """One character or class of a set."""
        start = self.at
        if self.text[start] != "\\":
            return self._code()
        self.at += 1
        letter = self.peek()
        if letter and letter in "dDsSwWpP":
            return self._class(start, negated=negated)
        return self._character(start, in_set=True)

    # --- quantifiers

    def _quantifier(self, c: str) -> None:
        start = self.at
        self.at += 1
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1), "{": (0, None)}[c]
        if c == "{":
            lower = self.take_all(DIGITS)
            is_exact = not self.take(",")
            upper = lower if is_exact else self.take_all(DIGITS)
            if not lower or not self.take("}"):
                raise self.error("incomplete quantifier", start, hint="write {n}, {n,} or {n,m}; or \\{")
            low, high = self.number(lower), self.number(upper) if upper else None
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

    def _open_group(self, start: int) -> None:
        self.at += 1
        frame = Frame("group", start, self.flags)
        if not self.take("?"):
            self.groups += 1
        elif self.take(":"):
            pass
        elif self.text[self.at : self.at + 1] in ("=", "!") or self.text[self.at : self.at + 2] in ("<=", "<!"):
            ahead = not self.take("<")
            frame = Frame("look", start, self.flags, ahead=ahead, negative=self.peek() == "!")
            self.at += 1
        elif self.take("<"):
            self.groups += 1
            self._define(self._name(start), start)
        else:
            return self._modifiers(start)
        return self.open(frame)

    def open(self, frame: Frame) -> None:
        """Enter a group, and record the path of alternatives to it."""
        super().open(frame)
        self.branch_path.append((frame.start, 0))

    def close(self) -> None:
        """Leave a group."""
        self.branch_path.pop()
        super().close()

    def branch(self) -> None:
        """Begin the next alternative."""
        super().branch()
        group, number = self.branch_path[-1]
        self.branch_path[-1] = (group, number + 1)

    def _define(self, name: str, start: int) -> None:
        """Define a group name. It may occur again only in another alternative of the same group."""
        path = tuple(self.branch_path)
        for other_path in self.names.setdefault(name, []):
            shared = next((i for i, (a, b) in enumerate(zip(path, other_path, strict=False)) if a != b), None)
            if shared is None or path[shared][0] != other_path[shared][0]:
                raise self.error(f"duplicate group name {name!r}", start, hint="give the group another name")
        self.names[name].append(path)

    def _name(self, start: int) -> str:
        """Read a group's name, up to and including the >. \\u escapes in it are decoded."""
        name = ""
        while not self.take(">"):
            c = self.peek()
            if c == "\\" and self.text.startswith("u", self.at + 1):
                self.at += 2
                c = chr(self._unicode(start))
            elif c:
                c = chr(self._code())
            if not c or not ((name + c).replace("$", "_").replace("\u200c", "_").replace("\u200d", "_")).isidentifier():
                raise self.error("invalid capture group name", start, hint="a name is an identifier: (?<name>..)")
            name += c
        if not name or name[0] in "\u200c\u200d":
            raise self.error("invalid capture group name", start, hint="a name is an identifier: (?<name>..)")
        return name

    def _modifiers(self, start: int) -> None:
        """Read (?ims-ims: after its (?."""
        on = self._flag_letters()
        minus = self.take("-")
        off = self._flag_letters() if minus else ""
        if not self.take(":") or (minus and not on and not off):
            self.at += len(self.peek())
            hint = "groups are (..), (?:..), (?<name>..), (?=..), (?!..), (?<=..), (?<!..) and (?ims-ims:..)"
            raise self.error("invalid group", start, hint=hint)
        if len(set(on + off)) < len(on + off):
            raise self.error("repeated modifier", start, hint="name each of i, m and s once")
        self.open(Frame("flags", start, self.flags))
        for letter in on:
            self.flags |= _FLAGS[letter]
        for letter in off:
            self.flags &= ~_FLAGS[letter]

    def _flag_letters(self) -> str:
        return self.take_all("ims")

    # --- the end

    def check_end(self) -> None:
        """Check references. They may precede their groups, so this is done at the end."""
        for group, start, end in self.references:
            if group not in self.names if isinstance(group, str) else group > self.groups:
                raise self.error("invalid reference", start, end, hint="there is no such group")
        if self.references:
            _, start, end = self.references[0]
            self.refuse_reference(start, end)
