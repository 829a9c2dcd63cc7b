r"""The `python` dialect: the `str` patterns that `re` accepts. Errors show their exact location.

In: the pattern. Out: a `Tree` in which flags, character sets, escapes and comments are resolved. The reader raises
`SpecError` for exactly the patterns that the running `re` rejects, with the message of `re`. Conditional groups are
valid but not supported (`UnsupportedError`). `re` rejects \p{..}, so the reader does, too, but with a hint.

One difference: `re` turns an alternation of single characters into a set. With (?i), a bug of `re` keeps such a set
from matching the capitals beyond U+FFFF that it lists (`python_chars.py`). Here, the alternation matches them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from guided.ir.nodes import EPSILON
from guided.ir.ranges import ALL_CHARS, Ranges, complement

from .algebra import alt, text
from .budget import Budget
from .python_chars import class_ranges
from .python_escapes import A, I, M, PythonCharacters, S, U, X
from .reader import DIGITS, MAX_WIDTH, OCTAL, Classes, Frame
from .tree import Tree, cat, line_end, line_start, make_lookaround, nonempty_text_condition, word_boundary

__all__ = ["PythonReader"]

_FLAGS = {"i": I, "m": M, "s": S, "x": X, "a": A, "u": U}
_NEWLINE: Ranges = ((10, 10),)
_MAX_REPEAT = 4294967295
_SPACE = " \t\n\r\v\f"
_NAME_HINT = "a group name must be a Python identifier"


class PythonReader(PythonCharacters):
    """Reads one pattern."""

    literal_run = re.compile(r"[^\\.^$|()\[{*+?]+")

    def __init__(
        self,
        pattern: str,
        budget: Budget,
        *,
        ordered: bool = False,
        classes: Classes = "full",
        captures: Mapping[int | str, int] | None = None,
    ) -> None:
        super().__init__(pattern, budget, ordered=ordered, classes=classes, captures=captures)
        self.group_widths: list[tuple[int, int] | None] = [None]  # by group number; None while the group is open
        self.group_numbers: dict[str, int] = {}  # by name
        self.pending_groups: dict[int, tuple[int, int]] = {}  # groups that a conditional refers to before they open
        self.has_global_unicode = False

    # --- the element at the cursor

    def read_element(self, c: str) -> None:
        """Read the element at the cursor."""
        start = self.pos
        if self.flags & X and c in _SPACE + "#":
            self.pos += 1
            if c == "#":
                self.skip_past("\n")
        elif c == "\\":
            self._read_escape()
        elif c == "[":
            self.read_set()
        elif c == "(":
            self._read_group(start)
        elif c in "*+?{":
            self._read_quantifier(c)
        elif c in ".^$":
            self.pos += 1
            if c == ".":
                self.push_set(ALL_CHARS if self.flags & S else complement(_NEWLINE), start)
            else:
                self._push_anchor(c, start)
        elif self.flags & (I | X) or not self.push_literal_run("*+?{"):
            self.pos += 1
            self.push_literal(ord(c), start)

    def _push_anchor(self, letter: str, start: int) -> None:
        span = (start, self.pos)
        is_multiline = bool(self.flags & M)
        tree: Tree
        if letter in "^A":
            tree = line_start(_NEWLINE if is_multiline and letter == "^" else (), span)
        elif letter in "Zz" or is_multiline:
            tree = line_end(() if letter in "Zz" else _NEWLINE, span)
        else:  # $: at the end, or before a newline that ends the text
            end = line_end((), span)
            tree = make_lookaround(cat([alt((EPSILON, text("\n"))), end]), ahead=True, negative=False, span=span)
        self.push(tree, start, 0, 0, "anchor")

    # --- escapes

    def _read_escape(self) -> None:
        start = self.pos
        self.pos += 1
        c = self.peek()
        if c in ("A", "Z", "b", "B") or (c == "z" and sys.version_info >= (3, 14)):
            self.pos += 1
            if c in "bB":
                flag, span = self.flags & A, (start, self.pos)
                self.push_boundary(c, flag, start, lambda: _make_boundary(c, class_ranges("w", bool(flag)), span))
            else:
                self._push_anchor(c, start)
        elif c and c in "dDsSwW":
            self.pos += 1
            self.push_set(self.select_class(c), start)
        elif c and c in "123456789":
            self._read_reference(start)
        else:
            self.push_literal(self.read_escaped_character(start, in_set=False), start)

    def _read_reference(self, start: int) -> None:
        """Read a back-reference, or an octal escape of three digits."""
        digits = self.take_all(DIGITS, 2)
        if len(digits) == 2 and digits[0] in OCTAL and digits[1] in OCTAL and self.peek() in tuple(OCTAL):
            self.pos += 1
            self.push_literal(self.parse_octal(digits + self.text[self.pos - 1], start), start)
            return
        if int(digits) >= len(self.group_widths):
            hint = "there is no such group; write \\0NN for an octal escape"
            raise self.error(f"invalid group reference {int(digits)}", start, hint=hint)
        self._add_reference(int(digits), start)

    def _add_reference(self, group: int, start: int) -> None:
        width = self.group_widths[group]
        if width is None:
            raise self.error("cannot refer to an open group", start, hint="refer to a group after its )")
        self._check_lookbehind_reference(group, start)
        self.push_reference(group, self.find_case_rule(), start, *width)

    def _check_lookbehind_reference(self, group: int, start: int) -> None:
        """Check a reference inside a lookbehind. Like `re`, allow only groups that precede the outermost lookbehind."""
        first_inner_group = next((f.number for f in self.stack if f.kind == "lookaround" and not f.ahead), None)
        if first_inner_group is not None and group >= first_inner_group:
            message = "cannot refer to group defined in the same lookbehind subpattern"
            raise self.error(message, start, hint="define the group before the lookbehind")

    # --- quantifiers

    def _read_quantifier(self, c: str) -> None:
        start = self.pos
        self.pos += 1
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1), "{": (0, None)}[c]
        if c == "{":
            if self.peek() == "}":
                return self.push_literal(ord(c), start)
            low_digits = self.take_all(DIGITS)
            high_digits = self.take_all(DIGITS) if self.take(",") else low_digits
            if not self.take("}"):
                self.pos = start + 1
                return self.push_literal(ord(c), start)
            low, high = self.parse_count(low_digits), self.parse_count(high_digits) if high_digits else None
            if max(low, high or 0) >= _MAX_REPEAT:
                raise self.error("the repetition number is too large", start, hint="the largest count is 4294967294")
            if high is not None and high < low:
                hint = f"write {{{high},{low}}}"
                raise self.error("min repeat greater than max repeat", start, hint=hint)
        pieces = self.frame.pieces
        if not pieces or pieces[-1].kind == "anchor":
            hint = f"put something to repeat before it, or write \\{c}"
            raise self.error("nothing to repeat", start, hint=hint)
        if pieces[-1].kind == "repeat":
            hint = "wrap the repeated part: (?:..)"
            raise self.error("multiple repeat", start, hint=hint)
        lazy = self.take("?")
        possessive = not lazy and self.take("+")
        return self.quantify(low, high, start, lazy=lazy, possessive=possessive)

    # --- groups

    def _read_group(self, start: int) -> None:
        self.pos += 1
        if not self.take("?"):
            return self._open_capture(start, None)
        c = self.peek()
        if not c:
            raise self.error("unexpected end of pattern", start, hint="(? begins a special group, such as (?:..)")
        self.pos += 1
        if c == "P":
            return self._read_named_group(start)
        if c == ":":
            return self.open_group(Frame("group", start, self.flags))
        if c == ">":
            return self.open_group(Frame("atomic", start, self.flags))
        if c == "#":
            if not self.skip_past(")"):
                raise self.error("missing ), unterminated comment", start, hint="close the comment with )")
            return None
        if c in "=!<":
            return self._read_lookaround(c, start)
        if c == "(":
            return self._read_conditional(start)
        if c in _FLAGS or c in "-Lt":
            return self._read_inline_flags(start)
        self.pos += c == "\\"
        c = self.text[start + 2 : self.pos]
        hint = "groups are (..), (?:..), (?P<name>..), (?=..), (?!..), (?<=..), (?<!..), (?>..), (?flags:..), (?#..)"
        raise self.error(f"unknown extension ?{c}", start, hint=hint)

    def _open_capture(self, start: int, name: str | None) -> None:
        number = len(self.group_widths)
        if name is not None:
            if name in self.group_numbers:
                message = f"redefinition of group name {name!r} as group {number}; was group {self.group_numbers[name]}"
                raise self.error(message, start, hint="give the group another name")
            self.group_numbers[name] = number
        self.group_widths.append(None)
        self.open_group(Frame("capture", start, self.flags, number=number))

    def record_group(self, frame: Frame, low: int, high: int) -> None:
        """Record the width of a capturing group."""
        if frame.kind == "capture":
            self.group_widths[frame.number] = (low, high)

    def _read_named_group(self, start: int) -> None:
        if self.take("<"):
            name = self.read_until(">", "group name", start)
            self._check_name(name, start)
            return self._open_capture(start, name)
        if self.take("="):
            name = self.read_until(")", "group name", start)
            self._check_name(name, start)
            if name not in self.group_numbers:
                raise self.error(f"unknown group name {name!r}", start, hint="define the group before this point")
            return self._add_reference(self.group_numbers[name], start)
        c = self.peek()
        self.pos += len(c)
        message = f"unknown extension ?P{c}" if c else "unexpected end of pattern"
        raise self.error(message, start, hint="(?P<name>..) names a group, (?P=name) refers to it")

    def _check_name(self, name: str, start: int) -> None:
        if not name.isidentifier():
            raise self.error(f"bad character in group name {name!r}", start, hint=_NAME_HINT)

    def _read_lookaround(self, c: str, start: int) -> None:
        ahead = c != "<"
        if not ahead:
            c = self.peek()
            self.pos += len(c)
            if not c:
                raise self.error("unexpected end of pattern", start, hint="a lookbehind is (?<=..) or (?<!..)")
            if c not in "=!":
                self.pos += c == "\\"
                hint = "a named group is (?P<name>..), a lookbehind (?<=..) or (?<!..)"
                raise self.error(f"unknown extension ?<{self.text[start + 3 : self.pos]}", start, hint=hint)
        number = len(self.group_widths)
        self.open_group(Frame("lookaround", start, self.flags, number=number, ahead=ahead, negative=c == "!"))

    def check_lookbehind(self, low: int, high: int, span: tuple[int, int]) -> None:
        """Check that a lookbehind has a fixed width."""
        if low != high or low >= MAX_WIDTH:
            hint = "give every alternative the same width; dialect='ecma' allows any width"
            raise self.error("look-behind requires fixed-width pattern", *span, hint=hint)

    def _read_conditional(self, start: int) -> None:
        name = self.read_until(")", "group name", start)
        group = self.group_numbers.get(name, 0)
        if name.isidentifier():
            if name not in self.group_numbers:
                raise self.error(f"unknown group name {name!r}", start, hint="define the group before this point")
        else:
            try:
                group = int(name) if len(name) <= 20 else -1
            except ValueError:
                group = -1
            if group < 0 or (sys.version_info >= (3, 12) and not (name.isdecimal() and name.isascii())):
                raise self.error(f"bad character in group name {name!r}", start, hint=_NAME_HINT + ", or a number")
            if group == 0:
                raise self.error("bad group number", start, hint="groups are numbered from 1")
            if group >= 1 << 30:
                raise self.error(f"invalid group reference {group}", start, hint="there is no such group")
            self.pending_groups.setdefault(group, (start, self.pos))
        self._check_lookbehind_reference(group, start)
        self.refuse(
            "conditional groups are not supported", start, self.pos, "write the two cases as alternatives: (?:..|..)"
        )
        self.open_group(Frame("conditional", start, self.flags))

    def begin_branch(self) -> None:
        """Begin the next branch. A conditional group has at most two branches."""
        frame = self.frame
        if frame.kind == "conditional" and frame.branches:
            hint = "group the alternatives: (?:..|..)"
            raise self.error("conditional backref with more than two branches", self.pos - 1, hint=hint)
        super().begin_branch()

    def check_end(self) -> None:
        """Check that the groups in `pending_groups` exist."""
        for group, span in self.pending_groups.items():
            if group >= len(self.group_widths):
                raise self.error(f"invalid group reference {group}", *span, hint="there is no such group")

    # --- flags

    def _read_inline_flags(self, start: int) -> None:
        self.pos -= 1
        flags_on = self._read_flag_letters(start, ":-)", "missing -, : or )")
        c = self.text[self.pos]
        self.pos += 1
        if c == ")":
            if len(self.stack) > 1 or self.frame.branches or self.frame.pieces:
                hint = "put the flags first, or write (?flags:..) around the part that they apply to"
                raise self.error("global flags not at the start of the expression", start, hint=hint)
            self.has_global_unicode = self.has_global_unicode or "u" in flags_on
            self.flags |= self._combine_flags(flags_on)
            if self.has_global_unicode and self.flags & A:
                raise self.error("ASCII and UNICODE flags are incompatible", start, hint="use either a or u")
            return
        flags_off = ""
        if c == "-":
            flags_off = self._read_flag_letters(start, ":", "missing :", missing_flag="missing flag")
            if set(flags_off) & set("au"):
                message = "bad inline flags: cannot turn off flags 'a', 'u' and 'L'"
                raise self.error(message, start, hint="turn the other one on instead")
            self.pos += 1
            if set(flags_on) & set(flags_off):
                raise self.error("bad inline flags: flag turned on and off", start, hint="name each flag once")
        self.open_group(Frame("flags", start, self.flags))
        base_flags = self.flags & ~(A | U) if "u" in flags_on or "a" in flags_on else self.flags
        self.flags = (base_flags | self._combine_flags(flags_on)) & ~self._combine_flags(flags_off)

    def _combine_flags(self, letters: str) -> int:
        bits = 0
        for letter in letters:
            bits |= _FLAGS[letter]
        return bits

    def _read_flag_letters(self, start: int, ends: str, missing_end: str, missing_flag: str = "") -> str:
        """Read the flags at the cursor, up to but not including one of the characters `ends`.

        `missing_end` and `missing_flag` are error messages. Without `missing_flag`, there need not be a flag.
        """
        letters: set[str] = set()
        hint = "write (?flags:..) or, at the start of the pattern, (?flags); the flags are a, i, m, s, u and x"
        while (c := self.peek()) and c not in ends:
            self.pos += 1
            if c == "L":
                message = "bad inline flags: cannot use 'L' flag with a str pattern"
                raise self.error(message, start, hint="leave it out: str patterns do not depend on the locale")
            if c not in _FLAGS:
                missing_message = missing_flag if missing_flag and not letters else missing_end
                raise self.error("unknown flag" if c.isalpha() else missing_message, start, hint=hint)
            letters.add(c)
            if {"a", "u"} <= letters:
                message = "bad inline flags: flags 'a', 'u' and 'L' are incompatible"
                raise self.error(message, start, hint="use one of them")
        if not c or (missing_flag and not letters):
            raise self.error(missing_flag if missing_flag and not letters else missing_end, start, hint=hint)
        return "".join(sorted(letters))


def _make_boundary(letter: str, word: Ranges, span: tuple[int, int]) -> Tree:
    r"""The tree of \b or \B."""
    tree = word_boundary(word, letter == "B", span)
    if letter == "B" and re.fullmatch(r"\B", "") is None:  # before Python 3.14, \B does not match the empty string
        tree = cat([nonempty_text_condition(span), tree])
    return tree
