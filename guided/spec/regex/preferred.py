"""Which texts does a backtracking matcher take as a whole? In: a tree that keeps the order of preference. Out: an
automaton of these texts.

Problem. `re.match` stops at the first way in which a pattern matches. `a|ab` never takes `ab`, and `".*?"` never takes
`"x" y"`, although `re.fullmatch` accepts both. A lexer takes what `re.match` takes. These are the texts t with
`re.match(pattern, t).end() == len(t)`: the language of the atomic group `(?>pattern)`.

How: Pike's simulation keeps the ways that are still possible in the order of preference, and where one of them has
matched, it drops all behind it: they will never be preferred. Its lists of ways are the states of an automaton.

    ".*?"    after "x    two ways: the closing quote, or another character
             after "x"   a match, and the way behind it is dropped: no text goes on from here

A lookbehind at one character is decided by the character just read. Other lookarounds are not done here.

Source: Cox, "Regular expression matching: the virtual machine approach" (2009), "Pike's implementation". Cost: each
state is a list of positions of the pattern, so there may be exponentially many; `_MOST` of them end in an error.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from guided.ir.nodes import ALL_CHARS, Alt, Automaton, Chars, Ranges, Repeat, Seq, Text, intersect

from .derivatives import TooLarge
from .tree import Cat, Look, Or, Times, Tree

__all__ = ["Undecided", "preferred"]

_MOST = 20_000
_MOST_EDGES = 500_000


class Undecided(Exception):
    """The tree holds a part whose order of preference is not known here."""


class _Step(NamedTuple):
    """A position: reads a character of `ranges`, or tries `ways` in order. Neither: a match.

    `behind`: the ways are open only after one of these characters, or, if `negative`, after any other.
    """

    ranges: Ranges | None = None
    ways: tuple[int, ...] = ()
    behind: Ranges | None = None
    negative: bool = False


def preferred(tree: Tree) -> Automaton:
    """The automaton of the texts that `tree` takes as a whole.

    Raises:
        Undecided: see there. TooLarge: it needs too many states.
    """
    program = _Program()
    match = program.add(_Step())
    return _determinised(program.steps, program.compile(tree, match))


class _Program:
    def __init__(self) -> None:
        self.steps: list[_Step] = []

    def add(self, step: _Step) -> int:
        if len(self.steps) > _MOST:
            raise TooLarge(_MOST)
        self.steps.append(step)
        return len(self.steps) - 1

    def compile(self, tree: Tree, then: int) -> int:
        """The position from which `tree` is read before `then`."""
        match tree:
            case Chars(ranges):
                return self.add(_Step(ranges, (then,)))
            case Alt(()):  # as [^\\s\\S]: no character
                return self.add(_Step((), (then,)))
            case Text(text):
                for char in reversed(text):
                    then = self.add(_Step(((ord(char), ord(char)),), (then,)))
                return then
            case Seq(items) | Cat(items):
                for item in reversed(items):
                    then = self.compile(item, then)
                return then
            case Or(items):
                return self.add(_Step(ways=tuple(self.compile(item, then) for item in items)))
            case Times(item, low, high, lazy):
                return self._times(item, low, high, lazy, then)
            case Repeat(item, low, high) if low == high:
                return self._times(item, low, high, False, then)
            case Look(item, ahead=False, negative=negative) if (behind := _one_char(item)) is not None:
                return self.add(_Step(ways=(then,), behind=behind, negative=negative))
        raise Undecided

    def _times(self, item: Tree, low: int, high: int | None, lazy: bool, then: int) -> int:
        def choice(again: int) -> tuple[int, ...]:
            return (then, again) if lazy else (again, then)

        if high is None:
            if _may_be_empty(item):  # what a matcher does in a round that reads nothing is a matter of its own
                raise Undecided
            loop = self.add(_Step())
            self.steps[loop] = _Step(ways=choice(self.compile(item, loop)))
            at = loop
        else:
            at = then
            for _ in range(high - low):
                at = self.add(_Step(ways=choice(self.compile(item, at))))
        for _ in range(low):
            at = self.compile(item, at)
        return at


def _one_char(tree: Tree) -> Ranges | None:
    """The characters of a tree that is one character, else None."""
    match tree:
        case Chars(ranges):
            return ranges
        case Text(text) if len(text) == 1:
            return ((ord(text), ord(text)),)
    return None


def _may_be_empty(tree: Tree) -> bool:
    match tree:
        case Chars() | Alt(()):
            return False
        case Text(text):
            return not text
        case Seq(items) | Cat(items):
            return all(map(_may_be_empty, items))
        case Or(items):
            return any(map(_may_be_empty, items))
        case Times(item, low, _) | Repeat(item, low, _):
            return low == 0 or _may_be_empty(item)
    return True


def _determinised(steps: Sequence[_Step], start: int) -> Automaton:
    borders = {0, 0x110000}
    for step in steps:
        for ranges in (step.ranges or (), step.behind or ()):
            borders.update(edge for low, high in ranges for edge in (low, high + 1))
    pieces = [(low, end - 1) for low, end in pairwise(sorted(borders))]
    pieces = [pair for piece in pieces for pair in intersect((piece,), ALL_CHARS)]
    numbers: dict[tuple[int, ...], int] = {}
    lists: list[tuple[int, ...]] = []

    def number(state: tuple[int, ...]) -> int:
        if state not in numbers:
            if len(lists) > _MOST:
                raise TooLarge(_MOST)
            if len(lists) * len(pieces) > _MOST_EDGES:
                raise TooLarge(_MOST_EDGES, "edges between states")
            numbers[state] = len(lists)
            lists.append(state)
        return numbers[state]

    number(_closure(steps, (start,), None))
    out: list[tuple[bool, tuple[tuple[int, int, int], ...]]] = []
    for state in lists:  # grows while it is read
        edges: list[tuple[int, int, int]] = []
        for low, high in pieces:
            following = [steps[at].ways[0] for at in state if _holds(steps[at].ranges, low)]
            if not following:
                continue
            to = number(_closure(steps, following, low))
            if edges and edges[-1][1] + 1 == low and edges[-1][2] == to:
                edges[-1] = (edges[-1][0], high, to)
            else:
                edges.append((low, high, to))
        accepts = any(steps[at] == _Step() for at in state)
        out.append((accepts, tuple(edges)))
    return Automaton(tuple(out))


def _closure(steps: Sequence[_Step], starts: Sequence[int], before: int | None) -> tuple[int, ...]:
    """The positions that wait for a character, in order, up to the first match, which comes last if there is one."""
    out: list[int] = []
    seen: set[int] = set()
    stack = list(reversed(starts))
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        step = steps[at]
        if step.ranges is not None:
            out.append(at)
        elif not step.ways:
            out.append(at)
            break
        elif step.behind is None or (before is not None and _holds(step.behind, before)) != step.negative:
            stack.extend(reversed(step.ways))
    return tuple(out)


def _holds(ranges: Ranges | None, point: int) -> bool:
    if ranges is None:
        return False
    at = bisect_right(ranges, (point, 0x110000))
    return at > 0 and point <= ranges[at - 1][1]
