"""Finds the strings that a backtracking matcher matches as a whole. In: a tree that keeps the order of preference. Out:
an automaton of these strings.

Problem: `re.match` stops at the first way in which a pattern matches. `a|ab` never matches all of `ab`, and `".*?"`
never matches all of `"x" y"`, although `re.fullmatch` accepts both. A lexer reads what `re.match` matches. So this
module computes the strings s with `re.match(pattern, s).end() == len(s)`: the language of the atomic group
`(?>pattern)`.

How: Pike's simulation keeps a list of the ways in which the match may continue, in order of preference. When one of
them matches, it drops all ways behind it, because they will never be preferred. The lists of ways are the states of an
automaton.

    ".*?"    after "x    two ways: the closing quote, or another character
             after "x"   a match; the way behind it is dropped, so no longer string matches

A lookbehind of one character is decided by the character just read. Other lookarounds are not supported (`Undecided`).

Counts: the automaton unrolls `x{m,n}`. If each character always leaves at most one way, and a match is always the last
way, nothing is ever dropped. Then the result is the full language of the pattern, and its counts need not be unrolled.
`is_deterministic` checks this without counting: it reads `x{m,n}` as `x*` or `x+`, which has all of these ways and
more. (Brueggemann-Klein and Wood call such expressions one-unambiguous.)

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
_MAX_DETERMINISM_STEPS: Final = 200_000
_MAX_COUNT: Final = 1 << 62


class Undecided(Exception):
    """The tree contains a part whose order of preference this module does not model."""


class Step(NamedTuple):
    """A position. With `ranges`, it reads one character, then continues at the position `ways[0]`. Without `ranges`, it
    tries the positions `ways` in order. With neither, it is a match.

    `neighbour`: the ways are open only if the character before the position is in this set; with `negative`, only if it
    is not in the set, or if there is no character before. `matching/canonical/splitter.py` tests the character after
    the position instead.
    """

    ranges: Ranges | None = None
    ways: tuple[int, ...] = ()
    neighbour: Ranges | None = None
    negative: bool = False


def leftmost_match(tree: Tree, budget: Budget) -> Automaton:
    """The automaton of the strings that a backtracking matcher matches as a whole.

    Raises:
        Undecided: the tree contains a part that is not supported. TooLarge: the automaton needs too many states.
        LimitExceeded: it takes too long.
    """
    if count_positions(tree) > _MAX_POSITIONS:
        raise TooLarge(_MAX_POSITIONS)
    program = Program()
    start = program.compile(tree, program.add(Step()))
    return _SubsetConstruction(program.steps, budget).build(start)


def is_deterministic(tree: Tree) -> bool:
    """Whether a backtracking matcher matches every string of `tree` as a whole.

    True is certain. False may also mean "unknown", because counts are ignored.
    """
    program = Program(ignores_counts=True)
    try:
        start = program.compile(tree, program.add(Step()))
    except Undecided:
        return False
    if count_positions(tree) > _MAX_POSITIONS or any(step.ranges == () for step in program.steps):
        return False  # too many positions to visit, or a part that matches nothing
    work = 0
    for first in [start, *(step.ways[0] for step in program.steps if step.ranges is not None)]:
        ways, visited = _find_unambiguous_ways(program.steps, first)
        work += visited
        if ways is None or work > _MAX_DETERMINISM_STEPS:
            return False
        ranges = sorted(pair for position in ways for pair in program.steps[position].ranges or ())
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
    """The positions of a tree. `ignores_counts`: a counted repetition becomes one loop without counts.

    A subclass may support more kinds of nodes, and raise other errors for unsupported ones.
    """

    def __init__(self, *, ignores_counts: bool = False) -> None:
        self.steps: list[Step] = []
        self.ignores_counts = ignores_counts

    def add(self, step: Step) -> int:
        """Add a position, and return its number."""
        if len(self.steps) > 2 * _MAX_POSITIONS:
            raise TooLarge(_MAX_POSITIONS)
        self.steps.append(step)
        return len(self.steps) - 1

    def compile(self, tree: Tree, next_step: int) -> int:
        """Add the positions of `tree`. After it, the match continues at `next_step`. Returns the first position."""
        match tree:
            case Chars(ranges):
                return self.add(Step(ranges, (next_step,)))
            case Alt(()):  # for example [^\\s\\S]: no character
                return self.add(Step((), (next_step,)))
            case Text(text):
                for char in reversed(text):
                    next_step = self.add(Step(((ord(char), ord(char)),), (next_step,)))
                return next_step
            case Seq(items) | Cat(items):
                for item in reversed(items):
                    next_step = self.compile(item, next_step)
                return next_step
            case Or(items):
                return self.add(Step(ways=tuple(self.compile(item, next_step) for item in items)))
            case Times(item, low, high, lazy):
                return self.compile_repetition(item, low, high, lazy, next_step)
        return self.compile_other(tree, next_step)

    def compile_other(self, tree: Tree, next_step: int) -> int:
        """Compile the other kinds of nodes."""
        match tree:
            case Repeat(item, low, high) if low == high:
                return self.compile_repetition(item, low, high, False, next_step)
            case Lookaround(item, ahead=False, negative=negative) if (ranges := as_chars(item)) is not None:
                return self.add(Step(ways=(next_step,), neighbour=ranges, negative=negative))
        raise Undecided

    def check_round(self, item: Tree) -> None:
        """Raise `Undecided` if `item`, which is repeated, may be empty: matchers treat empty rounds specially."""
        if may_be_empty(item):
            raise Undecided

    def compile_repetition(self, item: Tree, low: int, high: int | None, lazy: bool, next_step: int) -> int:
        """Compile a repetition."""

        def order_ways(next_round: int) -> tuple[int, ...]:
            return (next_step, next_round) if lazy else (next_round, next_step)

        if high is None or (self.ignores_counts and high > 1):
            self.check_round(item)
            loop = self.add(Step())
            self.steps[loop] = Step(ways=order_ways(self.compile(item, loop)))
            if self.ignores_counts:
                return loop if low == 0 else self.steps[loop].ways[lazy]
            start = loop
        else:
            start = next_step
            for _ in range(high - low):
                start = self.add(Step(ways=order_ways(self.compile(item, start))))
        for _ in range(low):
            start = self.compile(item, start)
        return start


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


class _SubsetConstruction:
    """Builds the automaton. Its states are the reachable lists of positions."""

    def __init__(self, steps: Sequence[Step], budget: Budget) -> None:
        self.steps, self.budget = steps, budget
        self.steps_done = self.edges = self.next_check = 0
        self.max_states = _BASE_STATES + 2 * len(steps)
        self.ranges = [intersect(step.ranges, ALL_CHARS) if step.ranges else () for step in steps]
        # The code points at which the `neighbour` condition of some position changes. Most patterns have no conditions.
        self.condition_boundaries = {
            boundary for step in steps for low, high in step.neighbour or () for boundary in (low, high + 1)
        }
        self.numbers: dict[tuple[int, ...], int] = {}
        self.lists: list[tuple[int, ...]] = []

    def build(self, start: int) -> Automaton:
        """Build the automaton that begins at the position `start`."""
        self.number_state((start,), None)
        states: list[tuple[bool, tuple[tuple[int, int, int], ...]]] = []
        for state in self.lists:  # grows during the loop
            edges: list[tuple[int, int, int]] = []
            for low, high, next_positions in self.find_edges(state):
                target = self.number_state(next_positions, low)
                if edges and edges[-1][1] + 1 == low and edges[-1][2] == target:
                    edges[-1] = (edges[-1][0], high, target)
                else:
                    edges.append((low, high, target))
            self.edges += len(edges)
            if self.edges > _MAX_EDGES:
                raise TooLarge(_MAX_EDGES, "edges between states")
            states.append((bool(state) and self.steps[state[-1]] == Step(), tuple(edges)))
        return Automaton(tuple(states))

    def number_state(self, starts: Sequence[int], last_char: int | None) -> int:
        """The number of the state that these positions form after `last_char` (None: at the start of the string)."""
        state = self.find_closure(starts, last_char)
        if state not in self.numbers:
            if len(self.lists) > self.max_states:
                raise TooLarge(self.max_states)
            self.numbers[state] = len(self.lists)
            self.lists.append(state)
        return self.numbers[state]

    def find_closure(self, starts: Sequence[int], last_char: int | None) -> tuple[int, ...]:
        """The positions that `starts` reach without reading: those that read a character, in order, and the first match
        as the last one. Positions behind the first match are dropped.
        """
        out: list[int] = []
        seen: set[int] = set()
        stack = list(reversed(starts))
        while stack:
            position = stack.pop()
            if position in seen:
                continue
            seen.add(position)
            step = self.steps[position]
            if step.ranges is not None:
                out.append(position)
            elif not step.ways:
                out.append(position)
                break
            elif (
                step.neighbour is None
                or (last_char is not None and contains(step.neighbour, last_char)) != step.negative
            ):
                stack.extend(reversed(step.ways))
        self.count_steps(len(seen))
        return tuple(out)

    def find_edges(self, state: tuple[int, ...]) -> list[tuple[int, int, list[int]]]:
        """For each range of characters: (first, last, the positions that follow these characters, in order)."""
        range_boundaries = {
            boundary for position in state for low, high in self.ranges[position] for boundary in (low, high + 1)
        }
        boundaries = sorted(range_boundaries | self.condition_boundaries)
        next_positions: list[list[int]] = [[] for _ in boundaries]
        for position in state:
            for low, high in self.ranges[position]:
                first, last = bisect_left(boundaries, low), bisect_left(boundaries, high + 1)
                self.count_steps(last - first)
                for piece in range(first, last):
                    next_positions[piece].append(self.steps[position].ways[0])
        return [
            (low, end - 1, targets)
            for (low, end), targets in zip(pairwise(boundaries), next_positions, strict=False)
            if targets
        ]

    def count_steps(self, steps: int) -> None:
        """Count steps, and charge them to the meter every `_CHECK_EVERY` steps."""
        self.steps_done += steps
        if self.steps_done > _MAX_STEPS:
            raise TooLarge(_MAX_STEPS, "steps")
        if self.steps_done > self.next_check:
            self.next_check = self.steps_done + _CHECK_EVERY
            self.budget.spend(0)
            spend(_STEP_COST * _CHECK_EVERY)


def _find_unambiguous_ways(steps: Sequence[Step], start: int) -> tuple[list[int] | None, int]:
    """(the positions from `start` that read the next character, the number of visited positions).

    None instead of the positions if one is reached twice, depends on a neighbour, or comes behind a match.
    """
    out: list[int] = []
    seen: set[int] = set()
    stack = [start]
    while stack:
        position = stack.pop()
        step = steps[position]
        is_match = step.ranges is None and not step.ways
        if position in seen or step.neighbour is not None or (is_match and stack):
            return None, len(seen)
        seen.add(position)
        if step.ranges is not None:
            out.append(position)
        else:
            stack.extend(reversed(step.ways))
    return out, len(seen)
