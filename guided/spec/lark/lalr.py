"""LALR(1) lookaheads: after a terminal, which terminals does the row of an LALR(1) table have?

In: rules as lists of alternatives. Out: the first state, and those that are entered by a terminal. Each has its kernel,
which are the places in the rules at which the parser may stand, and the terminals in its row: those that it shifts, and
those before which it reduces. Some of the latter may be `doubtful`: the state is entered in several contexts, which the
table does not tell apart, and the terminal can follow in some of them only.

    start: "(" e ")" | "[" e "]"        one state after NAME, which has ")" and "]" in its row, both doubtful:
    e: NAME                             after "(" NAME, no "]" can follow

How: DeRemer and Pennello, "Efficient computation of LALR(1) look-ahead sets" (TOPLAS 4(4), 1982), with their names. A
terminal is not doubtful if, by the same equations, it follows whatever state the callee was entered from; the greatest
solution is taken.

Cost: states times items, and a grammar may have exponentially many states: after `MOST` steps, there is no table. Sets
of terminals are integers with one bit for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Final, NamedTuple, TypeAlias

__all__ = [
    "FIRST",
    "MOST",
    "ROOT",
    "Lr0",
    "NoTable",
    "Place",
    "Rules",
    "State",
    "Steps",
    "nullable",
    "terminal_states",
    "with_all",
]

MOST: Final = 2_000_000

ROOT: Final = ""
_END: Final = "$END"
Rules: TypeAlias = Mapping[str, Sequence[Sequence[tuple[str, bool]]]]
"""The alternatives of each rule. A symbol is a name, and whether it is that of a terminal."""


class Place(NamedTuple):
    """The place after the first `read` symbols of an alternative."""

    rule: str
    alternative: int
    read: int


FIRST: Final = Place(ROOT, 0, 0)
"""The kernel of the first state: the place before the rule to begin with."""


@dataclass(frozen=True, slots=True)
class State:
    """See the head. `doubtful` is a part of `terminals`."""

    kernel: frozenset[Place]
    terminals: frozenset[str]
    doubtful: frozenset[str]


_Call: TypeAlias = tuple[int, str]
"""A state, and a rule that it may call: a transition by a nonterminal."""


def terminal_states(rules: Rules, start: str) -> list[State] | None:
    """See the head. None: two alternatives may end before the same terminal, or `MOST` is exceeded."""
    try:
        steps = Steps()
        automaton = Lr0({ROOT: [[(start, False)]], **rules}, steps)
        return _Lookaheads(automaton, start, steps).states()
    except NoTable:
        return None


class NoTable(Exception):
    """There is no table, or it is too large."""


class Steps:
    """What may still be spent of `MOST`."""

    def __init__(self) -> None:
        self._left = MOST

    def spend(self, steps: int) -> None:
        """Spend some. Raises NoTable."""
        self._left -= steps
        if self._left < 0:
            raise NoTable


class Lr0:
    """The LR(0) automaton: `closures` are the items of each state, `to` where its symbols lead."""

    def __init__(self, rules: Rules, steps: Steps) -> None:
        self.rules = rules
        self.kernels: list[frozenset[Place]] = [frozenset({FIRST})]
        self.closures: list[list[Place]] = []
        self.to: list[dict[str, int]] = []
        numbers = {self.kernels[0]: 0}
        called = {name: self._called(name) for name in rules}
        for kernel in self.kernels:  # grows while it is read
            self.closures.append(list(self._closure(kernel, called)))
            steps.spend(10 * len(self.closures[-1]))
            after: dict[str, list[Place]] = {}
            for place in self.closures[-1]:
                symbols = self.symbols(place)
                if place.read < len(symbols):
                    name = symbols[place.read][0]
                    after.setdefault(name, []).append(Place(place.rule, place.alternative, place.read + 1))
            row = {}
            for name, places in after.items():
                key = frozenset(places)
                if key not in numbers:
                    numbers[key] = len(self.kernels)
                    self.kernels.append(key)
                row[name] = numbers[key]
            self.to.append(row)

    def symbols(self, place: Place) -> Sequence[tuple[str, bool]]:
        """The symbols of the alternative that a place is in."""
        return self.rules[place.rule][place.alternative]

    def _called(self, name: str) -> list[str]:
        """The rules with which `name` may begin, itself included."""
        found = {name: None}
        todo = [name]
        for rule in todo:
            for symbols in self.rules[rule]:
                if symbols and not symbols[0][1] and symbols[0][0] not in found:
                    found[symbols[0][0]] = None
                    todo.append(symbols[0][0])
        return todo

    def _closure(self, kernel: frozenset[Place], called: Mapping[str, list[str]]) -> Iterator[Place]:
        yield from kernel
        seen: set[str] = set()
        for place in kernel:
            symbols = self.symbols(place)
            if place.read < len(symbols) and not symbols[place.read][1]:
                seen.update(called[symbols[place.read][0]])
        for rule in seen:
            for number in range(len(self.rules[rule])):
                if Place(rule, number, 0) not in kernel:
                    yield Place(rule, number, 0)


class _Lookaheads:
    def __init__(self, automaton: Lr0, start: str, steps: Steps) -> None:
        self.automaton, self.steps, rules = automaton, steps, automaton.rules
        names = dict.fromkeys(
            name for each in rules.values() for symbols in each for name, is_term in symbols if is_term
        )
        self.bits = {name: 1 << number for number, name in enumerate([*names, _END])}
        self.nullable = nullable(rules)
        self.calls = [(p, name) for p, row in enumerate(automaton.to) for name in row if name in rules]
        self.includes: dict[_Call, dict[Place, list[_Call]]] = {call: {} for call in self.calls}
        self.lookback: dict[tuple[int, str, int], list[_Call]] = {}
        for call in [(0, ROOT), *self.calls]:
            self._follow_alternatives(call)
        self.read = self._read(start)
        callers = {call: [each for way in ways.values() for each in way] for call, ways in self.includes.items()}
        following = _least(callers, self.read, steps)
        self.follow = {**following, (0, ROOT): 0}
        self.certain = self._certain()

    def _follow_alternatives(self, call: _Call) -> None:
        """Where the alternatives of a callee lead from the state that calls it."""
        state, rule = call
        to = self.automaton.to
        for number, symbols in enumerate(self.automaton.rules[rule]):
            self.steps.spend(len(symbols) + 1)
            at = state
            last = max((i for i, (name, _) in enumerate(symbols) if name not in self.nullable), default=-1)
            for i, (name, is_term) in enumerate(symbols):
                if not is_term and i >= last:
                    self.includes[at, name].setdefault(Place(rule, number, i), []).append(call)
                at = to[at][name]
            self.lookback.setdefault((at, rule, number), []).append(call)

    def _read(self, start: str) -> dict[_Call, int]:
        """The terminals that are shifted after a call, when callees without text have been passed."""
        to, direct, reads = self.automaton.to, {}, {}
        for p, name in self.calls:
            after = to[p][name]
            direct[p, name] = reduce(or_, (self.bits.get(each, 0) for each in to[after]), 0)
            reads[p, name] = [(after, each) for each in to[after] if each in self.nullable]
        direct[0, start] |= self.bits[_END]
        return _least(reads, direct, self.steps)

    def _certain(self) -> dict[_Call, int]:
        """See the head: the terminals that follow a call whatever stands before."""
        certain = dict(self.follow)
        users: dict[_Call, set[_Call]] = {}
        for call, ways in self.includes.items():
            for way in ways.values():
                for each in way:
                    users.setdefault(each, set()).add(call)
        todo = list(self.includes)
        while todo:
            call = todo.pop()
            ways = self.includes[call]
            self.steps.spend(1 + sum(map(len, ways.values())))
            after = self.read[call] | reduce(or_, (_all(certain, way) for way in ways.values()), 0)
            if after != certain[call]:
                certain[call] = after
                todo.extend(users.get(call, ()))
        return certain

    def states(self) -> list[State]:
        out = []
        for number, kernel in enumerate(self.automaton.kernels):
            shifted = reduce(or_, (self.bits.get(name, 0) for name in self.automaton.to[number]), 0)
            row = certain = shifted
            reduced = 0
            for place in self.automaton.closures[number]:
                if place.read == len(self.automaton.symbols(place)):
                    ways = self.lookback.get((number, place.rule, place.alternative), [])
                    lookahead = reduce(or_, (self.follow[way] for way in ways), 0)
                    if lookahead & reduced:
                        raise NoTable
                    reduced |= lookahead
                    certain |= _all(self.certain, ways)
            row |= reduced
            place = min(kernel)
            if place == FIRST or (place.read and self.automaton.symbols(place)[place.read - 1][1]):
                out.append(State(kernel, self._names(row), self._names(row & ~certain)))
        return out

    def _names(self, bits: int) -> frozenset[str]:
        return frozenset(name for name, bit in self.bits.items() if bits & bit and name != _END)


def _all(sets: Mapping[_Call, int], calls: Sequence[_Call]) -> int:
    return reduce(and_, (sets[call] for call in calls)) if calls else 0


def nullable(rules: Rules) -> set[str]:
    """The rules that may be empty."""
    return with_all(rules, terminals_count=False)


def with_all(rules: Rules, *, terminals_count: bool) -> set[str]:
    """The rules with an alternative all of whose symbols count: rules that were found, and terminals or none.

    Each alternative counts down what it waits for, so the cost is linear (Dowling and Gallier 1984).
    """
    out: set[str] = set()
    waiting: dict[str, list[int]] = {}  # a rule -> the alternatives that wait for it
    owners: list[str] = []
    missing: list[int] = []
    todo: list[str] = []
    for rule, alternatives in rules.items():
        for symbols in alternatives:
            if not terminals_count and any(is_terminal for _, is_terminal in symbols):
                continue
            number, names = len(owners), [name for name, is_terminal in symbols if not is_terminal]
            owners.append(rule)
            missing.append(len(names))
            for name in names:
                waiting.setdefault(name, []).append(number)
            if not names:
                todo.append(rule)
    while todo:
        rule = todo.pop()
        if rule in out:
            continue
        out.add(rule)
        for number in waiting.get(rule, ()):
            missing[number] -= 1
            if not missing[number]:
                todo.append(owners[number])
    return out


def _least(edges: Mapping[_Call, Sequence[_Call]], values: Mapping[_Call, int], steps: Steps) -> dict[_Call, int]:
    """The least sets that contain their value and the sets of their neighbours."""
    out = dict(values)
    users: dict[_Call, list[_Call]] = {}
    for call, uses in edges.items():
        for each in uses:
            users.setdefault(each, []).append(call)
    todo = list(out)
    while todo:
        each = todo.pop()
        steps.spend(1 + len(users.get(each, ())))
        for user in users.get(each, ()):
            if out[each] & ~out[user]:
                out[user] |= out[each]
                todo.append(user)
    return out
