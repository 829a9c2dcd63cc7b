"""Finds the texts that a backtracking matcher matches as a whole. In: a tree that keeps the order of preference. Out:
an automaton of these texts.

Problem: `re.match` stops at the first way in which a pattern matches. `a|ab` never matches all of `ab`, and `".*?"`
never matches all of `"x" y"`, although `re.fullmatch` accepts both. A lexer reads what `re.match` matches. So this
module computes the texts t with `re.match(pattern, t).end() == len(t)`: the language of the atomic group `(?>pattern)`.

How: Pike's simulation keeps the ways that are still possible in the order of preference. Once one of them has matched,
it drops all ways behind it, since they will never be preferred. Its lists of ways are the states of an automaton.

    ".*?"    after "x    two ways: the closing quote, or another character
             after "x"   a match; the way behind it is dropped, so no longer text matches

A lookbehind of one character is decided by the character just read. Other lookarounds are refused (`Undecided`).

Counts: the automaton unrolls `x{m,n}`. But if each character leaves at most one way, and a match is always the last
way, nothing is ever dropped. The texts are then all texts that the pattern matches, and its counts need not be
unrolled. `is_deterministic` checks this without counting: it reads `x{m,n}` as `x*` or `x+`, which has all of these
ways and more. (Brueggemann-Klein and Wood call such expressions one-unambiguous.)

Source: Cox, "Regular expression matching: the virtual machine approach" (2009), "Pike's implementation". Cost: each
state is a list of positions of the pattern. There may be exponentially many lists, so at most `_BASE_STATES` plus two
for each position are allowed; `_MAX_STEPS` and `Limits.work` bound the work.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from guided.ir.nodes import Alt, Automaton, Chars, Repeat, Seq, Text
from guided.ir.ranges import ALL_CHARS, Ranges, contains, intersect
from guided.meter import spend

from .algebra import as_chars
from .budget import Budget
from .derivatives import TooLarge
from .tree import Cat, Lookaround, Or, Times, Tree

__all__ = ["Program", "Step", "Undecided", "count_positions", "is_deterministic", "leftmost_match", "may_be_empty"]

_BASE_STATES: Final = 20_000
_MAX_POSITIONS: Final = 200_000
_MAX_EDGES: Final = 500_000
_MAX_STEPS: Final = 20_000_000
_CHECK_EVERY: Final = 10_000
_STEP_COST: Final = 100  # the work of a step, in the units of `Limits.work`
_MAX_FOLDED_STEPS: Final = 200_000
_MAX_COUNT: Final = 1 << 62


class Undecided(Exception):
    """The tree contains a part whose order of preference this module does not model."""


class Step(NamedTuple):
    """A position: reads a character of `ranges`, or tries `ways` in order. Neither: a match.

    `neighbour`: the ways are open only if the character before the position is one of these or, with `negative`, if it
    is not. In `matching/canonical/splitter.py`, it is the character after the position.
    """

    ranges: Ranges | None = None
    ways: tuple[int, ...] = ()
    neighbour: Ranges | None = None
    negative: bool = False


def leftmost_match(tree: Tree, budget: Budget) -> Automaton:
    """The automaton of the texts that `tree` matches as a whole.

    Raises:
        Undecided: the tree contains a part that is not supported. TooLarge: the automaton needs too many states.
        LimitExceeded: it takes too long.
    """
    if count_positions(tree) > _MAX_POSITIONS:
        raise TooLarge(_MAX_POSITIONS)
    program = Program()
    start = program.compile(tree, program.add(Step()))
    return _Subsets(program.steps, budget).automaton(start)


def is_deterministic(tree: Tree) -> bool:
    """Whether a matcher matches every text of `tree` as a whole. Counts are ignored, so False may mean "unknown"."""
    program = Program(folded=True)
    try:
        start = program.compile(tree, program.add(Step()))
    except Undecided:
        return False
    if count_positions(tree) > _MAX_POSITIONS or any(step.ranges == () for step in program.steps):
        return False  # too many positions to visit, or a part that matches nothing
    work = 0
    for first in [start, *(step.ways[0] for step in program.steps if step.ranges is not None)]:
        ways, visited = _unambiguous_ways(program.steps, first)
        work += visited
        if ways is None or work > _MAX_FOLDED_STEPS:
            return False
        ranges = sorted(pair for at in ways for pair in program.steps[at].ranges or ())
        if any(high >= low for (_, high), (low, _) in pairwise(ranges)):
            return False
    return True


def count_positions(tree: Tree, *, unrolled: bool = True) -> int:
    """The number of character positions of a tree. `unrolled`: count each round of a repetition."""
    match tree:
        case Text(text):
            return len(text)
        case Seq(items) | Cat(items) | Or(items) | Alt(items):
            return sum(count_positions(item, unrolled=unrolled) for item in items)
        case Times(item, low, high) | Repeat(item, low, high):
            rounds = max(1, low, high or 0) if unrolled else 1
            return min(max(1, count_positions(item, unrolled=unrolled)) * rounds, _MAX_COUNT)
    return 1


class Program:
    """The positions of a tree. `folded`: a counted repetition becomes one loop without its counts.

    A subclass may support other nodes, and raise other errors for the rest.
    """

    def __init__(self, *, folded: bool = False) -> None:
        self.steps: list[Step] = []
        self.folded = folded

    def add(self, step: Step) -> int:
        """Add a position, and return its number."""
        if len(self.steps) > 2 * _MAX_POSITIONS:
            raise TooLarge(_MAX_POSITIONS)
        self.steps.append(step)
        return len(self.steps) - 1

    def compile(self, tree: Tree, then: int) -> int:
        """Add the positions of `tree`, which continues at `then`; return the first one."""
        match tree:
            case Chars(ranges):
                return self.add(Step(ranges, (then,)))
            case Alt(()):  # for example [^\\s\\S]: no character
                return self.add(Step((), (then,)))
            case Text(text):
                for char in reversed(text):
                    then = self.add(Step(((ord(char), ord(char)),), (then,)))
                return then
            case Seq(items) | Cat(items):
                for item in reversed(items):
                    then = self.compile(item, then)
                return then
            case Or(items):
                return self.add(Step(ways=tuple(self.compile(item, then) for item in items)))
            case Times(item, low, high, lazy):
                return self.times(item, low, high, lazy, then)
        return self.compile_other(tree, then)

    def compile_other(self, tree: Tree, then: int) -> int:
        """Compile the other kinds of nodes."""
        match tree:
            case Repeat(item, low, high) if low == high:
                return self.times(item, low, high, False, then)
            case Lookaround(item, ahead=False, negative=negative) if (behind := as_chars(item)) is not None:
                return self.add(Step(ways=(then,), neighbour=behind, negative=negative))
        raise Undecided

    def check_round(self, item: Tree) -> None:
        """Refuse a repetition whose rounds may be empty: matchers treat empty rounds specially."""
        if may_be_empty(item):
            raise Undecided

    def times(self, item: Tree, low: int, high: int | None, lazy: bool, then: int) -> int:
        """Compile a repetition."""

        def choice(again: int) -> tuple[int, ...]:
            return (then, again) if lazy else (again, then)

        if high is None or (self.folded and high > 1):
            self.check_round(item)
            loop = self.add(Step())
            self.steps[loop] = Step(ways=choice(self.compile(item, loop)))
            if self.folded:
                return loop if low == 0 else self.steps[loop].ways[lazy]
            at = loop
        else:
            at = then
            for _ in range(high - low):
                at = self.add(Step(ways=choice(self.compile(item, at))))
        for _ in range(low):
            at = self.compile(item, at)
        return at


def may_be_empty(tree: Tree) -> bool:
    """Whether a tree may match without reading a character, if its lookarounds are satisfied."""
    match tree:
        case Chars():
            return False
        case Text(text):
            return not text
        case Seq(items) | Cat(items):
            return all(map(may_be_empty, items))
        case Or(items) | Alt(items):
            return any(map(may_be_empty, items))
        case Times(item, low, _) | Repeat(item, low, _):
            return low == 0 or may_be_empty(item)
    return True


class _Subsets:
    """Builds the automaton: its states are the lists of positions that can be reached."""

    def __init__(self, steps: Sequence[Step], budget: Budget) -> None:
        self.steps, self.budget = steps, budget
        self.steps_done = self.edges = self.next_check = 0
        self.max_states = _BASE_STATES + 2 * len(steps)
        self.ranges = [intersect(step.ranges, ALL_CHARS) if step.ranges else () for step in steps]
        # The characters at which the condition of a position changes. Most patterns have no such position.
        self.borders = {edge for step in steps for low, high in step.neighbour or () for edge in (low, high + 1)}
        self.numbers: dict[tuple[int, ...], int] = {}
        self.lists: list[tuple[int, ...]] = []

    def automaton(self, start: int) -> Automaton:
        """The automaton from a position on."""
        self.number((start,), None)
        states: list[tuple[bool, tuple[tuple[int, int, int], ...]]] = []
        for state in self.lists:  # grows during the loop
            edges: list[tuple[int, int, int]] = []
            for low, high, following in self.edges_from(state):
                to = self.number(following, low)
                if edges and edges[-1][1] + 1 == low and edges[-1][2] == to:
                    edges[-1] = (edges[-1][0], high, to)
                else:
                    edges.append((low, high, to))
            self.edges += len(edges)
            if self.edges > _MAX_EDGES:
                raise TooLarge(_MAX_EDGES, "edges between states")
            states.append((bool(state) and self.steps[state[-1]] == Step(), tuple(edges)))
        return Automaton(tuple(states))

    def number(self, starts: Sequence[int], before: int | None) -> int:
        """The number of the state that these positions form after the character `before`."""
        state = self.closure(starts, before)
        if state not in self.numbers:
            if len(self.lists) > self.max_states:
                raise TooLarge(self.max_states)
            self.numbers[state] = len(self.lists)
            self.lists.append(state)
        return self.numbers[state]

    def closure(self, starts: Sequence[int], before: int | None) -> tuple[int, ...]:
        """The positions that read a character, in order, up to the first match. All others are dropped."""
        out: list[int] = []
        seen: set[int] = set()
        stack = list(reversed(starts))
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            step = self.steps[at]
            if step.ranges is not None:
                out.append(at)
            elif not step.ways:
                out.append(at)
                break
            elif step.neighbour is None or (before is not None and contains(step.neighbour, before)) != step.negative:
                stack.extend(reversed(step.ways))
        self.spend(len(seen))
        return tuple(out)

    def edges_from(self, state: tuple[int, ...]) -> list[tuple[int, int, list[int]]]:
        """(first, last, the positions that follow these characters, in order), for each range of characters."""
        edges = {edge for at in state for low, high in self.ranges[at] for edge in (low, high + 1)} | self.borders
        ends = sorted(edges)
        following: list[list[int]] = [[] for _ in ends]
        for at in state:
            for low, high in self.ranges[at]:
                first, last = bisect_left(ends, low), bisect_left(ends, high + 1)
                self.spend(last - first)
                for piece in range(first, last):
                    following[piece].append(self.steps[at].ways[0])
        return [
            (low, end - 1, targets) for (low, end), targets in zip(pairwise(ends), following, strict=False) if targets
        ]

    def spend(self, steps: int) -> None:
        """Count the work, and check the time limit regularly."""
        self.steps_done += steps
        if self.steps_done > _MAX_STEPS:
            raise TooLarge(_MAX_STEPS, "steps")
        if self.steps_done > self.next_check:
            self.next_check = self.steps_done + _CHECK_EVERY
            self.budget.spend(0)
            spend(_STEP_COST * _CHECK_EVERY)


def _unambiguous_ways(steps: Sequence[Step], start: int) -> tuple[list[int] | None, int]:
    """The positions that read a character after `start`, and the number of visited positions.

    None instead of the positions if one is reached twice, depends on a neighbour, or comes behind a match.
    """
    out: list[int] = []
    seen: set[int] = set()
    stack = [start]
    while stack:
        at = stack.pop()
        step = steps[at]
        is_match = step.ranges is None and not step.ways
        if at in seen or step.neighbour is not None or (is_match and stack):
            return None, len(seen)
        seen.add(at)
        if step.ranges is not None:
            out.append(at)
        else:
            stack.extend(reversed(step.ways))
    return out, len(seen)
