"""The twin of `guided/frontends/lark/native/lalr.cpp`: LALR(1) lookaheads by DeRemer and Pennello, in simple Python.

Sets of terminals are integers with one bit for each terminal. Sets that include each other are computed by repeated
passes until nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import TypeAlias

from guided.frontends.lark.lalr import FIRST, ROOT, Item, Rules, State, Table, find_nullable

_END = "$END"
_Call: TypeAlias = tuple[int, str]
"""A state, and a rule that it may call: a transition by a nonterminal."""


def find_terminal_states(rules: Rules, start: str) -> Table | None:
    """See `guided.frontends.lark.lalr.find_terminal_states`."""
    return Lookaheads(Lr0({ROOT: [[(start, False)]], **rules}), start).states()


class Lr0:
    """The LR(0) automaton. `closures`: the items of each state. `to`: the targets of its symbols."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.kernels: list[frozenset[Item]] = [frozenset({FIRST})]
        self.closures: list[list[Item]] = []
        self.to: list[dict[str, int]] = []
        numbers = {self.kernels[0]: 0}
        called = {name: self._called(name) for name in rules}
        for kernel in self.kernels:  # the list grows during the loop
            self.closures.append(list(self._closure(kernel, called)))
            after: dict[str, list[Item]] = {}
            for place in self.closures[-1]:
                symbols = self.symbols(place)
                if place.read < len(symbols):
                    name = symbols[place.read][0]
                    after.setdefault(name, []).append(Item(place.rule, place.alternative, place.read + 1))
            row = {}
            for name, places in after.items():
                key = frozenset(places)
                if key not in numbers:
                    numbers[key] = len(self.kernels)
                    self.kernels.append(key)
                row[name] = numbers[key]
            self.to.append(row)

    def symbols(self, place: Item) -> Sequence[tuple[str, bool]]:
        """The symbols of the alternative to which a position belongs."""
        return self.rules[place.rule][place.alternative]

    def _called(self, name: str) -> list[str]:
        """The rules with which `name` may begin, including itself."""
        found = {name: None}
        todo = [name]
        for rule in todo:
            for symbols in self.rules[rule]:
                if symbols and not symbols[0][1] and symbols[0][0] not in found:
                    found[symbols[0][0]] = None
                    todo.append(symbols[0][0])
        return todo

    def _closure(self, kernel: frozenset[Item], called: Mapping[str, list[str]]) -> Iterator[Item]:
        yield from kernel
        seen: set[str] = set()
        for place in kernel:
            symbols = self.symbols(place)
            if place.read < len(symbols) and not symbols[place.read][1]:
                seen.update(called[symbols[place.read][0]])
        for rule in seen:
            for number in range(len(self.rules[rule])):
                if Item(rule, number, 0) not in kernel:
                    yield Item(rule, number, 0)


class Lookaheads:
    def __init__(self, automaton: Lr0, start: str) -> None:
        self.automaton, rules = automaton, automaton.rules
        names = dict.fromkeys(
            name for each in rules.values() for symbols in each for name, is_term in symbols if is_term
        )
        self.bits = {name: 1 << number for number, name in enumerate([*names, _END])}
        self.nullable = find_nullable(rules)
        self.calls = [(p, name) for p, row in enumerate(automaton.to) for name in row if name in rules]
        self.includes: dict[_Call, dict[Item, list[_Call]]] = {call: {} for call in self.calls}
        self.lookback: dict[tuple[int, str, int], list[_Call]] = {}
        for call in [(0, ROOT), *self.calls]:
            self._follow_alternatives(call)
        self.read = self._read(start)
        callers = {call: [each for way in ways.values() for each in way] for call, ways in self.includes.items()}
        following = _least(callers, self.read)
        self.follow = {**following, (0, ROOT): 0}
        self.certain = self._certain()

    def _follow_alternatives(self, call: _Call) -> None:
        """The targets of a callee's alternatives, from the state that calls it."""
        state, rule = call
        to = self.automaton.to
        for number, symbols in enumerate(self.automaton.rules[rule]):
            at = state
            last = max((i for i, (name, _) in enumerate(symbols) if name not in self.nullable), default=-1)
            for i, (name, is_term) in enumerate(symbols):
                if not is_term and i >= last:
                    self.includes[at, name].setdefault(Item(rule, number, i), []).append(call)
                at = to[at][name]
            self.lookback.setdefault((at, rule, number), []).append(call)

    def _read(self, start: str) -> dict[_Call, int]:
        """The terminals that are shifted after a call, including those after callees that match the empty text."""
        to, direct, reads = self.automaton.to, {}, {}
        for p, name in self.calls:
            after = to[p][name]
            direct[p, name] = reduce(or_, (self.bits.get(each, 0) for each in to[after]), 0)
            reads[p, name] = [(after, each) for each in to[after] if each in self.nullable]
        direct[0, start] |= self.bits[_END]
        return _least(reads, direct)

    def _certain(self) -> dict[_Call, int]:
        """See the head: the terminals that follow a call in every context."""
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
            after = self.read[call] | reduce(or_, (_all(certain, way) for way in ways.values()), 0)
            if after != certain[call]:
                certain[call] = after
                todo.extend(users.get(call, ()))
        return certain

    def states(self) -> Table | None:
        out = []
        is_deterministic = True
        for number, kernel in enumerate(self.automaton.kernels):
            shifted = reduce(or_, (self.bits.get(name, 0) for name in self.automaton.to[number]), 0)
            row = certain = shifted
            reduced = 0
            for place in self.automaton.closures[number]:
                if place.read == len(self.automaton.symbols(place)):
                    ways = self.lookback.get((number, place.rule, place.alternative), [])
                    lookahead = reduce(or_, (self.follow[way] for way in ways), 0)
                    if lookahead & reduced:
                        return None
                    reduced |= lookahead
                    certain |= _all(self.certain, ways)
            is_deterministic &= not row & reduced
            row |= reduced
            place = min(kernel)
            if place == FIRST or (place.read and self.automaton.symbols(place)[place.read - 1][1]):
                out.append(State(kernel, self._names(row), self._names(row & ~certain)))
        return Table(out, is_deterministic)

    def _names(self, bits: int) -> frozenset[str]:
        return frozenset(name for name, bit in self.bits.items() if bits & bit and name != _END)


def _all(sets: Mapping[_Call, int], calls: Sequence[_Call]) -> int:
    return reduce(and_, (sets[call] for call in calls)) if calls else 0


def _least(edges: Mapping[_Call, Sequence[_Call]], values: Mapping[_Call, int]) -> dict[_Call, int]:
    """The smallest sets that contain their value and the sets of their neighbours."""
    out = dict(values)
    users: dict[_Call, list[_Call]] = {}
    for call, uses in edges.items():
        for each in uses:
            users.setdefault(each, []).append(call)
    todo = list(out)
    while todo:
        each = todo.pop()
        for user in users.get(each, ()):
            if out[each] & ~out[user]:
                out[user] |= out[each]
                todo.append(user)
    return out
