r"""The common part of the dialects: a cursor over the pattern, a stack of open groups, quantifiers, and errors that
show their location.

In: the text of a pattern. Out: a `Tree`. Open groups are kept on an explicit stack, so nesting costs only memory, and
`Limits.depth` bounds it. One pass takes linear time. A pattern with atomic groups or possessive quantifiers is read a
second time, keeping the order of preference.

A part that is valid but not supported is reported only at the end, because a syntax error elsewhere is more important.

With `classes="plain"`, \d, \s and \w have fewer characters where that makes the language smaller. They keep all
characters where fewer would make it larger: in a set with ^, in a negative lookaround, and in their opposites (\D means
"not a digit of any script"). So the restricted language is always a subset of the full one. Word boundaries use all
word characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.ir.nodes import EPSILON
from guided.ir.ranges import Ranges
from guided.ir.serial import ByIdentity

from .algebra import chars, text
from .atomic import atomic
from .budget import Budget
from .tree import Tree, cat, make_alternation, make_lookaround, times

__all__ = ["DIGITS", "HEX", "OCTAL", "Classes", "Frame", "NeedsOrder", "Piece", "Reader"]

Classes: TypeAlias = Literal["full", "plain"]

MAX_WIDTH = 1 << 64
DIGITS, HEX, OCTAL = "0123456789", "0123456789abcdefABCDEF", "01234567"
_MAX_COUNT = (1 << 31) - 1


class NeedsOrder(Exception):
    """The pattern must be read again, keeping the order of preference."""


@dataclass(slots=True)
class Piece:
    """One piece of a branch, in the terms of POSIX: an atom with its quantifier.

    `low`, `high`: the least and greatest number of characters that it consumes. `start`, `end`: its span in the
    pattern. `kind` is "atom", "group", "look", "anchor" or "repeat", and decides whether a quantifier may follow.
    """

    tree: Tree
    low: int
    high: int
    start: int
    end: int
    kind: str = "atom"


@dataclass(slots=True)
class Frame:
    """An open group, or the whole pattern: its finished branches, the pieces of the current branch,
    and the data that closing it needs.
    """

    kind: str
    start: int
    flags: int
    branches: list[list[Piece]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    number: int = 0
    ahead: bool = True
    negative: bool = False


class Reader:
    """The cursor and the stack of groups. A dialect is a subclass that defines `item`."""

    literals: re.Pattern[str]
    """Matches a run of characters that stand for themselves."""
    flags = 0

    def __init__(self, pattern: str, budget: Budget, *, ordered: bool = False, classes: Classes = "full") -> None:
        limits = budget.limits
        if len(pattern) > limits.spec_length:
            raise LimitExceeded("spec_length", len(pattern), limits.spec_length)
        self.text, self.limits, self.budget, self.ordered = pattern, limits, budget, ordered
        self.at, self.classes = 0, classes
        self.stack = [Frame("pattern", 0, 0)]
        self.unsupported: UnsupportedError | None = None
        self._counted_sets: ByIdentity[Ranges, None] = ByIdentity()
        self.boundaries: dict[tuple[str, int], Tree] = {}

    # --- errors

    def error(self, message: str, start: int, end: int | None = None, hint: str = "") -> SpecError:
        """An error from `start` to `end` (default: up to the cursor), covering at least one character."""
        stop = min(len(self.text), max(self.at if end is None else end, start + 1))
        return SpecError(message, text=self.text, span=(min(start, stop), stop), hint=hint)

    def refuse(self, reason: str, start: int, end: int, hint: str) -> None:
        """Record that a valid part is not supported. Only the first such part is reported."""
        if self.unsupported is None:
            self.unsupported = UnsupportedError(
                reason, pointer=f"offset {start}", hint=hint, text=self.text, span=(start, end)
            )

    def refuse_reference(self, start: int, end: int) -> None:
        """Record that a back-reference is not supported."""
        reason = "back-references are not supported: the language is not regular"
        self.refuse(reason, start, end, "repeat the group's pattern, or list the possible texts as alternatives")

    # --- the cursor

    def peek(self) -> str:
        """The character under the cursor, or ""."""
        return self.text[self.at : self.at + 1]

    def take(self, expected: str) -> bool:
        """Move past `expected` if it is at the cursor."""
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def take_all(self, allowed: str, max_length: int | None = None) -> str:
        """Move past all `allowed` characters at the cursor."""
        start = self.at
        stop = len(self.text) if max_length is None else min(len(self.text), start + max_length)
        while self.at < stop and self.text[self.at] in allowed:
            self.at += 1
        return self.text[start : self.at]

    def number(self, digits: str) -> int:
        """The value of a count. Numbers of more than 20 digits become 10**20, since converting them takes quadratic
        time.
        """
        significant = digits.lstrip("0")
        return int(significant or "0") if len(significant) <= 20 else 10**20

    def narrows(self, letter: str, *, negated: bool = False) -> bool:
        r"""Whether \d, \s or \w, given by its letter, is narrowed here. For \D: whether it is the complement of the
        narrow class. `negated`: in a set with ^.
        """
        if self.classes == "full":
            return False
        negated ^= letter.isupper()
        for frame in self.stack:
            negated ^= frame.kind == "look" and frame.negative
        return not negated

    # --- pieces

    @property
    def frame(self) -> Frame:
        """The innermost open group."""
        return self.stack[-1]

    def push(self, tree: Tree, start: int, low: int, high: int, kind: str = "atom") -> None:
        """Add a piece that ends at the cursor."""
        self.budget.spend(1)
        self.frame.pieces.append(Piece(tree, low, high, start, self.at, kind))

    def push_set(self, ranges: Ranges, start: int) -> None:
        """Add one character of `ranges`."""
        if ranges not in self._counted_sets:  # an equal set is counted once
            self._counted_sets[ranges] = None
            self.budget.spend(len(ranges))
        self.push(chars(ranges), start, 1, 1)

    def push_literals(self, quantifiers: str) -> bool:
        """Add the run of literal characters at the cursor, without the last one if a quantifier follows it."""
        match = self.literals.match(self.text, self.at)
        if match is None:
            return False
        start, end = match.span()
        if end - start > 1 and self.text[end : end + 1] in quantifiers and end < len(self.text):
            end -= 1
        self.at = end
        self.push(text(self.text[start:end]), start, end - start, end - start)
        return True

    def push_boundary(self, letter: str, flag: int, start: int, make: Callable[[], Tree]) -> None:
        """Add a word boundary. It has no effect directly after the same boundary.

        All boundaries of the same letter and flag are one tree, so that they are processed once.
        """
        key = letter, flag
        if key not in self.boundaries:
            self.boundaries[key] = make()
        tree = self.boundaries[key]
        if self.frame.pieces and self.frame.pieces[-1].tree is tree:
            self.frame.pieces[-1].end = self.at
        else:
            self.push(tree, start, 0, 0, "anchor")

    # --- groups

    def open(self, frame: Frame) -> None:
        """Enter a group."""
        if len(self.stack) > self.limits.depth:
            raise LimitExceeded("depth", len(self.stack), self.limits.depth)
        self.stack.append(frame)

    def branch(self) -> None:
        """Read the `|` of the innermost group: begin its next branch."""
        frame = self.frame
        frame.branches.append(frame.pieces)
        frame.pieces = []

    def finish(self, frame: Frame) -> tuple[Tree, int, int]:
        """The tree and the width of a group's contents."""
        frame.branches.append(frame.pieces)
        widths = [(sum(p.low for p in b), sum(p.high for p in b)) for b in frame.branches]
        tree = make_alternation([cat([p.tree for p in b]) for b in frame.branches], ordered=self.ordered)
        low, high = min(w[0] for w in widths), max(w[1] for w in widths)
        return tree, min(low, MAX_WIDTH), min(high, MAX_WIDTH)

    def close(self) -> None:
        """Read the `)` of the innermost group."""
        frame = self.stack.pop()
        self.at += 1
        tree, low, high = self.finish(frame)
        span = (frame.start, self.at)
        if frame.kind == "look":
            if not frame.ahead:
                self.check_lookbehind(low, high, span)
            tree = make_lookaround(tree, ahead=frame.ahead, negative=frame.negative, span=span)
            self.push(tree, frame.start, 0, 0, "look")
        elif frame.kind == "atomic":
            self.push(self.resolve(tree, span), frame.start, low, high, "group")
        else:
            self.close_group(frame, low, high)
            self.push(tree, frame.start, low, high, "group")
        self.flags = frame.flags

    def check_lookbehind(self, low: int, high: int, span: tuple[int, int]) -> None:
        """Refuse a lookbehind of a width that the dialect does not allow."""

    def close_group(self, frame: Frame, low: int, high: int) -> None:
        """Record that a group is closed."""

    def resolve(self, tree: Tree, span: tuple[int, int]) -> Tree:
        """Express an atomic group by lookarounds. Raises `NeedsOrder` if the tree does not keep the order."""
        if not self.ordered:
            raise NeedsOrder
        resolved = atomic(tree, span)
        if resolved is None:
            reason = "this atomic group or possessive quantifier depends on the order of attempts"
            reason += " in a way that is not supported"
            hint = "use an ordinary group or quantifier, or let its parts begin with characters that cannot follow it"
            self.refuse(reason, *span, hint)
            return EPSILON
        return resolved

    # --- quantifiers

    def quantify(self, low: int, high: int | None, start: int, *, lazy: bool, possessive: bool = False) -> None:
        """Repeat the last piece."""
        piece = self.frame.pieces.pop()
        span = (piece.start, self.at)
        if low > _MAX_COUNT:
            self.refuse(f"counts above {_MAX_COUNT} are not supported", start, self.at, "use a smaller count")
            low = 0
        if high is not None and high > _MAX_COUNT:  # no text has this length
            high = None
        tree = times(piece.tree, low, high, lazy=lazy, span=span, ordered=self.ordered)
        if possessive:
            tree = self.resolve(tree, span)
        max_width = MAX_WIDTH if high is None and piece.high else piece.high * (high or 0)
        self.push(tree, piece.start, min(piece.low * low, MAX_WIDTH), min(max_width, MAX_WIDTH), "repeat")

    # --- the loop

    def read(self) -> Tree:
        """Read the whole pattern."""
        while self.at < len(self.text):
            c = self.text[self.at]
            if c == "|":
                self.at += 1
                self.branch()
            elif c == ")":
                if len(self.stack) == 1:
                    raise self.error("unbalanced parenthesis", self.at, self.at + 1, hint="write \\) for a parenthesis")
                self.close()
            else:
                self.item(c)
        if len(self.stack) > 1:
            start = self.frame.start
            raise self.error(
                "missing ), unterminated subpattern", start, start + 1, hint="close the group, or write \\("
            )
        tree, _, _ = self.finish(self.frame)
        self.check_end()
        if self.unsupported is not None:
            raise self.unsupported
        return tree

    def item(self, c: str) -> None:
        """Read one element at the cursor, which is on `c`. Each dialect defines this."""
        raise NotImplementedError

    def check_end(self) -> None:
        """Checks that need the whole pattern."""
