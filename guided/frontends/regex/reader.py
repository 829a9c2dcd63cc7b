r"""The common part of the dialects: a cursor over the pattern, a stack of open groups, quantifiers, and errors that
show their location.

In: a pattern. Out: a `Tree`. Open groups are kept on an explicit stack, so nesting costs only memory, and
`Limits.depth` bounds it. One pass takes linear time. A pattern with atomic groups or possessive quantifiers is read a
second time, keeping the order of preference. A pattern with back-references is read a second time, keeping the groups
to which they refer.

A part that is valid but not supported is reported only at the end, because a syntax error elsewhere is more important.

With `classes="plain"`, \d, \s and \w contain fewer characters wherever this makes the language smaller. Under a
negation, fewer characters would make it larger, so there they keep all characters. Negations are a set with ^, a
negative lookaround, and \D, \S and \W themselves (\D means "not a digit of any script"). Two negations cancel out. The
narrowed language is therefore a subset of the full one, unless there are atomic groups (`__init__.py`). Word boundaries
use all word characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.ir.nodes import EPSILON
from guided.ir.ranges import Ranges
from guided.ir.serial import ByIdentity

from .algebra import chars, text
from .atomic import lower_atomic_group
from .budget import Budget
from .tree import Captured, CaseRule, Reference, Tree, cat, make_alternation, make_lookaround, make_repetition

__all__ = ["DIGITS", "HEX", "OCTAL", "Classes", "Frame", "NeedsCaptures", "NeedsOrder", "Piece", "Reader"]

Classes: TypeAlias = Literal["full", "plain"]

MAX_WIDTH = 1 << 64
DIGITS, HEX, OCTAL = "0123456789", "0123456789abcdefABCDEF", "01234567"
_MAX_COUNT = (1 << 31) - 1


class NeedsOrder(Exception):
    """The pattern must be read again, keeping the order of preference."""


class NeedsCaptures(Exception):
    """The pattern has back-references and must be read again, keeping the groups to which they refer.

    `groups`: the number or name in each back-reference -> the number of its group.
    """

    def __init__(self, groups: Mapping[int | str, int]) -> None:
        super().__init__(groups)
        self.groups = groups


@dataclass(slots=True)
class Piece:
    """A "piece" of a branch as POSIX defines it: an atom with its quantifier.

    `min_width`, `max_width`: the minimum and maximum number of characters that it consumes. `start`, `end`: its span in
    the pattern. `kind` is "atom", "group", "lookaround", "anchor" or "repeat", and decides whether a quantifier may
    follow.
    """

    tree: Tree
    min_width: int
    max_width: int
    start: int
    end: int
    kind: str = "atom"


@dataclass(slots=True)
class Frame:
    """An open group, or the whole pattern: its finished branches, the pieces of its current branch, and the data needed
    to close it.
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
    """The cursor and the stack of groups. A dialect is a subclass that defines `read_element`."""

    literal_run: re.Pattern[str]
    """Matches a run of characters that stand for themselves."""
    flags = 0

    def __init__(
        self,
        pattern: str,
        budget: Budget,
        *,
        ordered: bool = False,
        classes: Classes = "full",
        captures: Mapping[int | str, int] | None = None,
    ) -> None:
        limits = budget.limits
        if len(pattern) > limits.spec_length:
            raise LimitExceeded("spec_length", len(pattern), limits.spec_length)
        self.text, self.limits, self.budget, self.ordered = pattern, limits, budget, ordered
        self.pos, self.classes = 0, classes
        self.stack = [Frame("pattern", 0, 0)]
        self.unsupported_error: UnsupportedError | None = None
        self._counted_sets: ByIdentity[Ranges, None] = ByIdentity()
        self.boundaries: dict[tuple[str, int], Tree] = {}
        self.references: list[tuple[int | str, int, int]] = []
        """(group number or name, start, end) of each back-reference."""
        self._captures = captures
        self._captured_numbers = frozenset(captures.values() if captures else ())

    # --- errors

    def error(self, message: str, start: int, end: int | None = None, hint: str = "") -> SpecError:
        """An error whose span goes from `start` to `end` (None: to the cursor) and covers at least one character."""
        span_end = min(len(self.text), max(self.pos if end is None else end, start + 1))
        return SpecError(message, text=self.text, span=(min(start, span_end), span_end), hint=hint)

    def refuse(self, reason: str, start: int, end: int, hint: str) -> None:
        """Record that a part is valid but not supported. Only the first such part is reported."""
        if self.unsupported_error is None:
            self.unsupported_error = UnsupportedError(
                reason, pointer=f"offset {start}", hint=hint, text=self.text, span=(start, end)
            )

    # --- the cursor

    def peek(self) -> str:
        """The character under the cursor, or ""."""
        return self.text[self.pos : self.pos + 1]

    def take(self, expected: str) -> bool:
        """Move past `expected` if it is at the cursor."""
        if self.text.startswith(expected, self.pos):
            self.pos += len(expected)
            return True
        return False

    def take_all(self, allowed: str, max_length: int | None = None) -> str:
        """Move past all `allowed` characters at the cursor."""
        start = self.pos
        stop = len(self.text) if max_length is None else min(len(self.text), start + max_length)
        while self.pos < stop and self.text[self.pos] in allowed:
            self.pos += 1
        return self.text[start : self.pos]

    def parse_count(self, digits: str) -> int:
        """The value of a count. Numbers with more than 20 significant digits become 10**20, because `int` takes
        quadratic time.
        """
        significant = digits.lstrip("0")
        return int(significant or "0") if len(significant) <= 20 else 10**20

    def is_narrowed(self, letter: str, *, is_negated: bool = False) -> bool:
        r"""Whether the class \letter is narrowed at the cursor; for \D, \S and \W: whether it is the complement of the
        narrow class. `is_negated`: the class is in a set with ^.
        """
        if self.classes == "full":
            return False
        is_negated ^= letter.isupper()
        for frame in self.stack:
            is_negated ^= frame.kind == "lookaround" and frame.negative
        return not is_negated

    # --- pieces

    @property
    def frame(self) -> Frame:
        """The innermost open group."""
        return self.stack[-1]

    def push(self, tree: Tree, start: int, low: int, high: int, kind: str = "atom") -> None:
        """Add a piece that ends at the cursor."""
        self.budget.spend(1)
        self.frame.pieces.append(Piece(tree, low, high, start, self.pos, kind))

    def push_set(self, ranges: Ranges, start: int) -> None:
        """Add a piece that matches one character of `ranges`."""
        if ranges not in self._counted_sets:  # charge for equal sets only once
            self._counted_sets[ranges] = None
            self.budget.spend(len(ranges))
        self.push(chars(ranges), start, 1, 1)

    def push_literal_run(self, quantifiers: str) -> bool:
        """Add the run of literal characters at the cursor, without the last one if a quantifier follows it. False:
        there is none."""
        match = self.literal_run.match(self.text, self.pos)
        if match is None:
            return False
        start, end = match.span()
        if end - start > 1 and self.text[end : end + 1] in quantifiers and end < len(self.text):
            end -= 1
        self.pos = end
        self.push(text(self.text[start:end]), start, end - start, end - start)
        return True

    def push_boundary(self, letter: str, flag: int, start: int, make_tree: Callable[[], Tree]) -> None:
        r"""Add a word boundary: \b or \B, given by its letter. It has no effect directly after an equal boundary.

        Boundaries with the same letter and flag share one tree, so they are processed once.
        """
        key = letter, flag
        if key not in self.boundaries:
            self.boundaries[key] = make_tree()
        tree = self.boundaries[key]
        if self.frame.pieces and self.frame.pieces[-1].tree is tree:
            self.frame.pieces[-1].end = self.pos
        else:
            self.push(tree, start, 0, 0, "anchor")

    def push_reference(self, group: int | str, case_rule: CaseRule, start: int, low: int, high: int) -> None:
        """Add a back-reference that ends at the cursor. `group`: its number or name."""
        self.references.append((group, start, self.pos))
        if self.ordered:
            hint = "repeat the group's pattern, or list the possible strings as alternatives"
            reason = "back-references are not supported where the order of attempts matters"
            self.refuse(f"{reason}, as in atomic groups and terminals", start, self.pos, hint)
        tree = EPSILON if self._captures is None else Reference(self._captures[group], case_rule, (start, self.pos))
        self.push(tree, start, low, high)

    # --- groups

    def open_group(self, frame: Frame) -> None:
        """Enter a group."""
        if len(self.stack) > self.limits.depth:
            raise LimitExceeded("depth", len(self.stack), self.limits.depth)
        self.stack.append(frame)

    def begin_branch(self) -> None:
        """Begin the next branch of the innermost group, after its `|`."""
        frame = self.frame
        frame.branches.append(frame.pieces)
        frame.pieces = []

    def finish_group(self, frame: Frame) -> tuple[Tree, int, int]:
        """(tree, minimum width, maximum width) of a group's contents."""
        frame.branches.append(frame.pieces)
        widths = [(sum(p.min_width for p in b), sum(p.max_width for p in b)) for b in frame.branches]
        tree = make_alternation([cat([p.tree for p in b]) for b in frame.branches], ordered=self.ordered)
        low, high = min(w[0] for w in widths), max(w[1] for w in widths)
        return tree, min(low, MAX_WIDTH), min(high, MAX_WIDTH)

    def close_group(self) -> None:
        """Read the `)` of the innermost group."""
        frame = self.stack.pop()
        self.pos += 1
        tree, low, high = self.finish_group(frame)
        span = (frame.start, self.pos)
        if frame.kind == "lookaround":
            if not frame.ahead:
                self.check_lookbehind(low, high, span)
            tree = make_lookaround(tree, ahead=frame.ahead, negative=frame.negative, span=span)
            self.push(tree, frame.start, 0, 0, "lookaround")
        elif frame.kind == "atomic":
            self.push(self.resolve_atomic_group(tree, span), frame.start, low, high, "group")
        else:
            self.record_group(frame, low, high)
            if frame.number in self._captured_numbers:
                tree = Captured(frame.number, tree, span)
            self.push(tree, frame.start, low, high, "group")
        self.flags = frame.flags

    def check_lookbehind(self, low: int, high: int, span: tuple[int, int]) -> None:
        """Refuse a lookbehind whose width the dialect does not allow."""

    def record_group(self, frame: Frame, low: int, high: int) -> None:
        """Record the width of a group that has just been closed."""

    def resolve_atomic_group(self, tree: Tree, span: tuple[int, int]) -> Tree:
        """Express an atomic group as lookarounds. Raises `NeedsOrder` if the tree does not keep the order."""
        if not self.ordered:
            raise NeedsOrder
        equivalent_tree = lower_atomic_group(tree, span)
        if equivalent_tree is None:
            reason = "this atomic group or possessive quantifier depends on the order of attempts"
            reason += " in a way that is not supported"
            hint = "use an ordinary group or quantifier, or let its parts begin with characters that cannot follow it"
            self.refuse(reason, *span, hint)
            return EPSILON
        return equivalent_tree

    # --- quantifiers

    def quantify(self, low: int, high: int | None, start: int, *, lazy: bool, possessive: bool = False) -> None:
        """Repeat the last piece."""
        piece = self.frame.pieces.pop()
        span = (piece.start, self.pos)
        if low > _MAX_COUNT:
            self.refuse(f"counts above {_MAX_COUNT} are not supported", start, self.pos, "use a smaller count")
            low = 0
        if high is not None and high > _MAX_COUNT:  # no string is that long
            high = None
        tree = make_repetition(piece.tree, low, high, lazy=lazy, span=span, ordered=self.ordered)
        if possessive:
            tree = self.resolve_atomic_group(tree, span)
        max_width = MAX_WIDTH if high is None and piece.max_width else piece.max_width * (high or 0)
        self.push(tree, piece.start, min(piece.min_width * low, MAX_WIDTH), min(max_width, MAX_WIDTH), "repeat")

    # --- the loop

    def read(self) -> Tree:
        """Read the whole pattern.

        Raises:
            SpecError: it is not valid. UnsupportedError: a part of it is not supported. NeedsOrder, NeedsCaptures: it
                must be read again with `ordered`, or with `captures`.
        """
        while self.pos < len(self.text):
            c = self.text[self.pos]
            if c == "|":
                self.pos += 1
                self.begin_branch()
            elif c == ")":
                if len(self.stack) == 1:
                    raise self.error(
                        "unbalanced parenthesis", self.pos, self.pos + 1, hint="write \\) for a parenthesis"
                    )
                self.close_group()
            else:
                self.read_element(c)
        if len(self.stack) > 1:
            start = self.frame.start
            raise self.error(
                "missing ), unterminated subpattern", start, start + 1, hint="close the group, or write \\("
            )
        tree, _, _ = self.finish_group(self.frame)
        self.check_end()
        if self.unsupported_error is not None:
            raise self.unsupported_error
        if self.references and self._captures is None:
            raise NeedsCaptures({group: self.find_group_number(group) for group, _, _ in self.references})
        return tree

    def read_element(self, c: str) -> None:
        """Read one element at the cursor, which is on `c`. Each dialect defines this."""
        raise NotImplementedError

    def find_group_number(self, group: int | str) -> int:
        """The number of the group to which a back-reference refers by number or name."""
        assert isinstance(group, int)
        return group

    def check_end(self) -> None:
        """Run the checks that need the whole pattern."""
