r"""The `python` dialect: the `str` patterns that `re` accepts. Errors show their exact location.

In: the pattern. Out: a `Tree` in which flags, character sets, escapes and comments are resolved. A pattern is refused
with `SpecError` exactly if the running `re` refuses it, with the message of `re` if it has one. Back-references and
conditional groups are valid, but refused with `UnsupportedError`. \p{..} is refused with a hint; `re` also refuses it.

One difference: `re` turns an alternation of single characters into a set, and with (?i) such a set does not match
capitals beyond U+FFFF that it contains as capitals. Here the alternation matches them.
"""

from __future__ import annotations

import re
import sys

from guided.ir.nodes import EPSILON
from guided.ir.ranges import ALL_CHARS, Ranges, complement

from .algebra import alt, text
from .budget import Budget
from .python_chars import class_ranges
from .python_escapes import A, I, M, PythonCharacters, S, U, X
from .reader import DIGITS, MAX_WIDTH, OCTAL, Classes, Frame
from .tree import Tree, boundary, cat, line_end, line_start, make_lookaround, nonempty_text_condition

__all__ = ["PythonReader"]

_FLAGS = {"i": I, "m": M, "s": S, "x": X, "a": A, "u": U}
_NEWLINE: Ranges = ((10, 10),)
_MAX_REPEAT = 4294967295
_SPACE = " \t\n\r\v\f"
_NAME_HINT = "a group name must be a Python identifier"


class PythonReader(PythonCharacters):
    """Reads one pattern."""

    literals = re.compile(r"[^\\.^$|()\[{*+?]+")

    def __init__(self, pattern: str, budget: Budget, *, ordered: bool = False, classes: Classes = "full") -> None:
        super().__init__(pattern, budget, ordered=ordered, classes=classes)
        self.groups: list[tuple[int, int] | None] = [None]  # the width of each closed group
        self.names: dict[str, int] = {}
        self.pending_groups: dict[int, tuple[int, int]] = {}  # groups that a conditional refers to before they open
        self.global_unicode = False

    # --- the element at the cursor

    def item(self, c: str) -> None:
        """Read the element at the cursor."""
        start = self.at
        if self.flags & X and c in _SPACE + "#":
            self.at += 1
            if c == "#":
                self.skip_to("\n")
        elif c == "\\":
            self._escape()
        elif c == "[":
            self.set()
        elif c == "(":
            self._open_group(start)
        elif c in "*+?{":
            self._quantifier(c)
        elif c in ".^$":
            self.at += 1
            if c == ".":
                self.push_set(ALL_CHARS if self.flags & S else complement(_NEWLINE), start)
            else:
                self._anchor(c, start)
        elif self.flags & (I | X) or not self.push_literals("*+?{"):
            self.at += 1
            self.literal(ord(c), start)

    def _anchor(self, letter: str, start: int) -> None:
        span = (start, self.at)
        many = bool(self.flags & M)
        tree: Tree
        if letter in "^A":
            tree = line_start(_NEWLINE if many and letter == "^" else (), span)
        elif letter in "Zz" or many:
            tree = line_end(() if letter in "Zz" else _NEWLINE, span)
        else:  # $: at the end, or before a newline that ends the text
            end = line_end((), span)
            tree = make_lookaround(cat([alt((EPSILON, text("\n"))), end]), ahead=True, negative=False, span=span)
        self.push(tree, start, 0, 0, "anchor")

    # --- escapes

    def _escape(self) -> None:
        start = self.at
        self.at += 1
        c = self.peek()
        if c in ("A", "Z", "b", "B") or (c == "z" and sys.version_info >= (3, 14)):
            self.at += 1
            if c in "bB":
                flag, span = self.flags & A, (start, self.at)
                self.push_boundary(c, flag, start, lambda: _boundary(c, class_ranges("w", bool(flag)), span))
            else:
                self._anchor(c, start)
        elif c and c in "dDsSwW":
            self.at += 1
            self.push_set(self.class_of(c), start)
        elif c and c in "123456789":
            self._reference(start)
        else:
            self.literal(self.character(start, in_set=False), start)

    def _reference(self, start: int) -> None:
        """A back-reference, or an octal escape of three digits."""
        digits = self.take_all(DIGITS, 2)
        if len(digits) == 2 and digits[0] in OCTAL and digits[1] in OCTAL and self.peek() in tuple(OCTAL):
            self.at += 1
            self.literal(self.octal(digits + self.text[self.at - 1], start), start)
            return
        if int(digits) >= len(self.groups):
            hint = "there is no such group; write \\0NN for an octal escape"
            raise self.error(f"invalid group reference {int(digits)}", start, hint=hint)
        self._refer(int(digits), start)

    def _refer(self, group: int, start: int) -> None:
        width = self.groups[group]
        if width is None:
            raise self.error("cannot refer to an open group", start, hint="refer to a group after its )")
        self._check_lookbehind_reference(group, start)
        self.refuse_reference(start, self.at)
        self.push(EPSILON, start, *width)

    def _check_lookbehind_reference(self, group: int, start: int) -> None:
        """A lookbehind may refer only to groups that were closed before the outermost lookbehind began, as in `re`."""
        first = next((f.number for f in self.stack if f.kind == "look" and not f.ahead), None)
        if first is not None and group >= first:
            message = "cannot refer to group defined in the same lookbehind subpattern"
            raise self.error(message, start, hint="define the group before the lookbehind")

    # --- quantifiers

    def _quantifier(self, c: str) -> None:
        start = self.at
        self.at += 1
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1), "{": (0, None)}[c]
        if c == "{":
            if self.peek() == "}":
                return self.literal(ord(c), start)
            lower = self.take_all(DIGITS)
            upper = self.take_all(DIGITS) if self.take(",") else lower
            if not self.take("}"):
                self.at = start + 1
                return self.literal(ord(c), start)
            low, high = self.number(lower), self.number(upper) if upper else None
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

    def _open_group(self, start: int) -> None:
        self.at += 1
        if not self.take("?"):
            return self._capture(start, None)
        c = self.peek()
        if not c:
            raise self.error("unexpected end of pattern", start, hint="(? begins a special group, such as (?:..)")
        self.at += 1
        if c == "P":
            return self._named_group(start)
        if c == ":":
            return self.open(Frame("group", start, self.flags))
        if c == ">":
            return self.open(Frame("atomic", start, self.flags))
        if c == "#":
            if not self.skip_to(")"):
                raise self.error("missing ), unterminated comment", start, hint="close the comment with )")
            return None
        if c in "=!<":
            return self._look(c, start)
        if c == "(":
            return self._conditional(start)
        if c in _FLAGS or c in "-Lt":
            return self._inline_flags(start)
        self.at += c == "\\"
        c = self.text[start + 2 : self.at]
        hint = "groups are (..), (?:..), (?P<name>..), (?=..), (?!..), (?<=..), (?<!..), (?>..), (?flags:..), (?#..)"
        raise self.error(f"unknown extension ?{c}", start, hint=hint)

    def _capture(self, start: int, name: str | None) -> None:
        number = len(self.groups)
        if name is not None:
            if name in self.names:
                message = f"redefinition of group name {name!r} as group {number}; was group {self.names[name]}"
                raise self.error(message, start, hint="give the group another name")
            self.names[name] = number
        self.groups.append(None)
        self.open(Frame("capture", start, self.flags, number=number))

    def close_group(self, frame: Frame, low: int, high: int) -> None:
        """Record the width of a capturing group."""
        if frame.kind == "capture":
            self.groups[frame.number] = (low, high)

    def _named_group(self, start: int) -> None:
        if self.take("<"):
            name = self.until(">", "group name", start)
            self._check_name(name, start)
            return self._capture(start, name)
        if self.take("="):
            name = self.until(")", "group name", start)
            self._check_name(name, start)
            if name not in self.names:
                raise self.error(f"unknown group name {name!r}", start, hint="define the group before this point")
            return self._refer(self.names[name], start)
        c = self.peek()
        self.at += len(c)
        message = f"unknown extension ?P{c}" if c else "unexpected end of pattern"
        raise self.error(message, start, hint="(?P<name>..) names a group, (?P=name) refers to it")

    def _check_name(self, name: str, start: int) -> None:
        if not name.isidentifier():
            raise self.error(f"bad character in group name {name!r}", start, hint=_NAME_HINT)

    def _look(self, c: str, start: int) -> None:
        ahead = c != "<"
        if not ahead:
            c = self.peek()
            self.at += len(c)
            if not c:
                raise self.error("unexpected end of pattern", start, hint="a lookbehind is (?<=..) or (?<!..)")
            if c not in "=!":
                self.at += c == "\\"
                hint = "a named group is (?P<name>..), a lookbehind (?<=..) or (?<!..)"
                raise self.error(f"unknown extension ?<{self.text[start + 3 : self.at]}", start, hint=hint)
        self.open(Frame("look", start, self.flags, number=len(self.groups), ahead=ahead, negative=c == "!"))

    def check_lookbehind(self, low: int, high: int, span: tuple[int, int]) -> None:
        """Check that a lookbehind has a fixed width."""
        if low != high or low >= MAX_WIDTH:
            hint = "give every alternative the same width; dialect='ecma' allows any width"
            raise self.error("look-behind requires fixed-width pattern", *span, hint=hint)

    def _conditional(self, start: int) -> None:
        name = self.until(")", "group name", start)
        group = self.names.get(name, 0)
        if name.isidentifier():
            if name not in self.names:
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
            self.pending_groups.setdefault(group, (start, self.at))
        self._check_lookbehind_reference(group, start)
        self.refuse(
            "conditional groups are not supported", start, self.at, "write the two cases as alternatives: (?:..|..)"
        )
        self.open(Frame("conditional", start, self.flags))

    def branch(self) -> None:
        """Begin the next branch. A conditional group has at most two."""
        frame = self.frame
        if frame.kind == "conditional" and frame.branches:
            hint = "group the alternatives: (?:..|..)"
            raise self.error("conditional backref with more than two branches", self.at - 1, hint=hint)
        super().branch()

    def check_end(self) -> None:
        """Check that the groups exist to which a conditional referred before they opened."""
        for group, span in self.pending_groups.items():
            if group >= len(self.groups):
                raise self.error(f"invalid group reference {group}", *span, hint="there is no such group")

    # --- flags

    def _inline_flags(self, start: int) -> None:
        self.at -= 1
        on = self._flag_letters(start, ":-)", "missing -, : or )")
        c = self.text[self.at]
        self.at += 1
        if c == ")":
            if len(self.stack) > 1 or self.frame.branches or self.frame.pieces:
                hint = "put the flags first, or write (?flags:..) around the part that they apply to"
                raise self.error("global flags not at the start of the expression", start, hint=hint)
            self.global_unicode = self.global_unicode or "u" in on
            self.flags |= self._bits(on)
            if self.global_unicode and self.flags & A:
                raise self.error("ASCII and UNICODE flags are incompatible", start, hint="use either a or u")
            return
        off = ""
        if c == "-":
            off = self._flag_letters(start, ":", "missing :", first="missing flag")
            if set(off) & set("au"):
                message = "bad inline flags: cannot turn off flags 'a', 'u' and 'L'"
                raise self.error(message, start, hint="turn the other one on instead")
            self.at += 1
            if set(on) & set(off):
                raise self.error("bad inline flags: flag turned on and off", start, hint="name each flag once")
        self.open(Frame("flags", start, self.flags))
        base_flags = self.flags & ~(A | U) if "u" in on or "a" in on else self.flags
        self.flags = (base_flags | self._bits(on)) & ~self._bits(off)

    def _bits(self, letters: str) -> int:
        bits = 0
        for letter in letters:
            bits |= _FLAGS[letter]
        return bits

    def _flag_letters(self, start: int, ends: str, missing: str, first: str = "") -> str:
        """Read the flags at the cursor, up to but not including one of `ends`. With `first`, there must be a flag."""
        letters: set[str] = set()
        hint = "write (?flags:..) or, at the start of the pattern, (?flags); the flags are a, i, m, s, u and x"
        while (c := self.peek()) and c not in ends:
            self.at += 1
            if c == "L":
                message = "bad inline flags: cannot use 'L' flag with a str pattern"
                raise self.error(message, start, hint="leave it out: str patterns do not depend on the locale")
            if c not in _FLAGS:
                message = "unknown flag" if c.isalpha() else first if first and not letters else missing
                raise self.error(message, start, hint=hint)
            letters.add(c)
            if {"a", "u"} <= letters:
                message = "bad inline flags: flags 'a', 'u' and 'L' are incompatible"
                raise self.error(message, start, hint="use one of them")
        if not c or (first and not letters):
            raise self.error(first if first and not letters else missing, start, hint=hint)
        return "".join(sorted(letters))


def _boundary(letter: str, word: Ranges, span: tuple[int, int]) -> Tree:
    r"""The tree of \b or \B."""
    tree = boundary(word, letter == "B", span)
    if letter == "B" and re.fullmatch(r"\B", "") is None:  # before Python 3.14, not in an empty text
        tree = cat([nonempty_text_condition(span), tree])
    return tree
