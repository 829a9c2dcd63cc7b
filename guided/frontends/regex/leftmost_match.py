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

Counts. The automaton has the rounds of `x{m,n}` one by one. If each character leaves one way at most, and a match is
always the last way, nothing is ever dropped: the texts are all that the pattern matches, and its counts may stay as
they are. `is_deterministic` finds that out without counting: it takes `x{m,n}` for `x*` or `x+`, which has all of these
ways and more. (Brueggemann-Klein and Wood call such expressions one-unambiguous.)

Source: Cox, "Regular expression matching: the virtual machine approach" (2009), "Pike's implementation". Cost: each
state is a list of positions of the pattern. There may be exponentially many, so beyond `_FREE` there are at most two
for each position, as in a union of texts; `_MOST_STEPS` bounds the work.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from guided.ir.nodes import Alt, Automaton, Chars, Repeat, Seq, Text
from guided.ir.ranges import ALL_CHARS, Ranges, intersect

from .budget import Budget
from .derivatives import TooLarge
from .tree import Cat, Look, Or, Times, Tree

__all__ = ["Program", "Step", "Undecided", "is_deterministic", "leftmost_match", "may_be_empty", "positions"]

_FREE: Final = 20_000
_MOST_POSITIONS: Final = 200_000
_MOST_EDGES: Final = 500_000
_MOST_STEPS: Final = 20_000_000
_CHECK_EVERY: Final = 100_000
_MOST_FOLDED: Final = 200_000
_MANY: Final = 1 << 62


class Undecided(Exception):
    """The tree holds a part whose order of preference is not known here."""


class Step(NamedTuple):
    """A position: reads a character of `ranges`, or tries `ways` in order. Neither: a match.

    `beside`: the ways are open only after one of these characters, or, if `negative`, after any other.
    """

    ranges: Ranges | None = None
    ways: tuple[int, ...] = ()
    beside: Ranges | None = None
    negative: bool = False


def leftmost_match(tree: Tree, budget: Budget) -> Automaton:
    """The automaton of the texts that `tree` takes as a whole.

    Raises:
        Undecided: see there. TooLarge: it needs too many states. LimitExceeded: it takes too long.
    """
    if positions(tree) > _MOST_POSITIONS:
        raise TooLarge(_MOST_POSITIONS)
    program = Program()
    start = program.compile(tree, program.add(Step()))
    return _Subsets(program.steps, budget).automaton(start)


def is_deterministic(tree: Tree) -> bool:
    """Whether a matcher takes every text that `tree` matches, as seen without its counts; False may also be unknown."""
    program = Program(folded=True)
    try:
        start = program.compile(tree, program.add(Step()))
    except Undecided:
        return False
    if positions(tree) > _MOST_POSITIONS or any(step.ranges == () for step in program.steps):
        return False  # it has too many states to visit, or a part without texts
    work = 0
    for first in [start, *(step.ways[0] for step in program.steps if step.ranges is not None)]:
        found, met = _ways(program.steps, first)
        work += met
        if found is None or work > _MOST_FOLDED:
            return False
        ranges = sorted(pair for at in found for pair in program.steps[at].ranges or ())
        if any(high >= low for (_, high), (low, _) in pairwise(ranges)):
            return False
    return True


def positions(tree: Tree, *, unrolled: bool = True) -> int:
    """How many characters a tree has positions for; `unrolled`: in each round of its repetitions."""
    match tree:
        case Text(text):
            return len(text)
        case Seq(items) | Cat(items) | Or(items) | Alt(items):
            return sum(positions(item, unrolled=unrolled) for item in items)
        case Times(item, low, high) | Repeat(item, low, high):
            rounds = max(1, low, high or 0) if unrolled else 1
            return min(max(1, positions(item, unrolled=unrolled)) * rounds, _MANY)
    return 1


class Program:
    """The positions of a tree. `folded`: a counted repetition is one loop, in which the counts are not seen.

    A subclass may read other nodes, and treat what is not known in its own way.
    """

    def __init__(self, *, folded: bool = False) -> None:
        self.steps: list[Step] = []
        self.folded = folded

    def add(self, step: Step) -> int:
        """Add a position, and return its number."""
        if len(self.steps) > 2 * _MOST_POSITIONS:
            raise TooLarge(_MOST_POSITIONS)
        self.steps.append(step)
        return len(self.steps) - 1

    def compile(self, tree: Tree, then: int) -> int:
        """The position from which `tree` is read before `then`."""
        match tree:
            case Chars(ranges):
                return self.add(Step(ranges, (then,)))
            case Alt(()):  # as [^\\s\\S]: no character
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
        return self.special(tree, then)

    def special(self, tree: Tree, then: int) -> int:
        """The same for the other nodes."""
        match tree:
            case Repeat(item, low, high) if low == high:
                return self.times(item, low, high, False, then)
            case Look(item, ahead=False, negative=negative) if (behind := _one_char(item)) is not None:
                return self.add(Step(ways=(then,), beside=behind, negative=negative))
        raise Undecided

    def check_round(self, item: Tree) -> None:
        """Refuse a repetition whose rounds may be empty: what a matcher does in one is a matter of its own."""
        if may_be_empty(item):
            raise Undecided

    def times(self, item: Tree, low: int, high: int | None, lazy: bool, then: int) -> int:
        """The position of a repetition."""

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


def _one_char(tree: Tree) -> Ranges | None:
    """The characters of a tree that is one character, else None."""
    match tree:
        case Chars(ranges):
            return ranges
        case Text(text) if len(text) == 1:
            return ((ord(text), ord(text)),)
    return None


def may_be_empty(tree: Tree) -> bool:
    """Whether a tree may match without reading a character, whatever its lookarounds say."""
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
    """The lists of positions that can be reached, as states."""

    def __init__(self, steps: Sequence[Step], budget: Budget) -> None:
        self.steps, self.budget = steps, budget
        self.spent = self.edges = self.next_check = 0
        self.most = _FREE + 2 * len(steps)
        self.ranges = [intersect(step.ranges, ALL_CHARS) if step.ranges else () for step in steps]
        # The characters between which a position differs that is open only behind some of them: seldom any.
        self.borders = {edge for step in steps for low, high in step.beside or () for edge in (low, high + 1)}
        self.numbers: dict[tuple[int, ...], int] = {}
        self.lists: list[tuple[int, ...]] = []

    def automaton(self, start: int) -> Automaton:
        """The automaton, from a position on."""
        self.number((start,), None)
        states: list[tuple[bool, tuple[tuple[int, int, int], ...]]] = []
        for state in self.lists:  # grows while it is read
            edges: list[tuple[int, int, int]] = []
            for low, high, following in self.pieces(state):
                to = self.number(following, low)
                if edges and edges[-1][1] + 1 == low and edges[-1][2] == to:
                    edges[-1] = (edges[-1][0], high, to)
                else:
                    edges.append((low, high, to))
            self.edges += len(edges)
            if self.edges > _MOST_EDGES:
                raise TooLarge(_MOST_EDGES, "edges between states")
            states.append((bool(state) and self.steps[state[-1]] == Step(), tuple(edges)))
        return Automaton(tuple(states))

    def number(self, starts: Sequence[int], before: int | None) -> int:
        """The number of the state in which these positions have been reached by the character `before`."""
        state = self.closure(starts, before)
        if state not in self.numbers:
            if len(self.lists) > self.most:
                raise TooLarge(self.most)
            self.numbers[state] = len(self.lists)
            self.lists.append(state)
        return self.numbers[state]

    def closure(self, starts: Sequence[int], before: int | None) -> tuple[int, ...]:
        """The positions that wait for a character, in order, up to the first match: there, all others are dropped."""
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
            elif step.beside is None or (before is not None and _holds(step.beside, before)) != step.negative:
                stack.extend(reversed(step.ways))
        self.spend(len(seen))
        return tuple(out)

    def pieces(self, state: tuple[int, ...]) -> list[tuple[int, int, list[int]]]:
        """Ranges of characters, and for each the positions that follow it, in order."""
        edges = {edge for at in state for low, high in self.ranges[at] for edge in (low, high + 1)} | self.borders
        ends = sorted(edges)
        following: list[list[int]] = [[] for _ in ends]
        for at in state:
            for low, high in self.ranges[at]:
                first, last = bisect_left(ends, low), bisect_left(ends, high + 1)
                self.spend(last - first)
                for piece in range(first, last):
                    following[piece].append(self.steps[at].ways[0])
        return [(low, end - 1, found) for (low, end), found in zip(pairwise(ends), following, strict=False) if found]

    def spend(self, steps: int) -> None:
        """Count the work, and look at the clock now and then."""
        self.spent += steps
        if self.spent > _MOST_STEPS:
            raise TooLarge(_MOST_STEPS, "steps")
        if self.spent > self.next_check:
            self.next_check = self.spent + _CHECK_EVERY
            self.budget.spend(0)


def _ways(steps: Sequence[Step], start: int) -> tuple[list[int] | None, int]:
    """The positions that wait for a character after `start`, and the number of those that were met.

    None instead if one is met twice, depends on the character before it, or comes behind a match.
    """
    out: list[int] = []
    seen: set[int] = set()
    stack = [start]
    while stack:
        at = stack.pop()
        step = steps[at]
        is_match = step.ranges is None and not step.ways
        if at in seen or step.beside is not None or (is_match and stack):
            return None, len(seen)
        seen.add(at)
        if step.ranges is not None:
            out.append(at)
        else:
            stack.extend(reversed(step.ways))
    return out, len(seen)


def _holds(ranges: Ranges | None, point: int) -> bool:
    if ranges is None:
        return False
    at = bisect_right(ranges, (point, 0x110000))
    return at > 0 and point <= ranges[at - 1][1]
