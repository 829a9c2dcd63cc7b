"""What lookbehinds need to know of the text read so far, as a small deterministic automaton over characters.

In: for each lookbehind, the language of the prefixes after which it holds. Out: numbered left contexts (0: the start of
the text), the context after each character, and for a language x and a context l: x cut into parts by the context
it leads to (`ends`). For looks at one character, anchors and word boundaries a context is "which kind of character was
last", and the cut is made at x's last character, so nothing inside x is looked at or unrolled; elsewhere x is
intersected with the texts that lead from l to each context.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from guided.grammar.ir import EPSILON, Alt, And, Chars, Length, Node, Ranges, Repeat, Seq, Text
from guided.grammar.serial import serial

from .algebra import Edges, chars, conj, join, meet, run
from .budget import Budget
from .graph import eliminate
from .terms import Terms, TooLarge, contains

__all__ = ["Contexts"]

_LIMIT = 200


class Contexts:
    """The automaton of left contexts; `languages` are the prefix languages (terms) it tells apart."""

    def __init__(self, terms: Terms, edges: Edges, budget: Budget, languages: Sequence[int], near: bool) -> None:
        """`near`: each language is "the last character is in a set"."""
        self._edges, self._budget = edges, budget
        self.states: list[tuple[int, ...]] = [tuple(languages)]
        """For each context: what is left of each language."""
        self.number: dict[tuple[int, ...], int] = {tuple(languages): 0}
        self.moves: list[list[tuple[Ranges, int]]] = []
        """For each context: (characters, the context after one of them)."""
        for state in self.states:
            if near and self.moves:  # where the last character decides, every context moves alike
                self.moves.append(self.moves[0])
                continue
            targets: dict[int, list[Ranges]] = {}
            for block in terms.blocks(*state):
                budget.spend(1)
                after = tuple(terms.derive(term, block[0][0]) for term in state)
                if after not in self.number:
                    self.number[after] = len(self.states)
                    self.states.append(after)
                    if len(self.states) > _LIMIT:
                        raise TooLarge
                targets.setdefault(self.number[after], []).append(block)
            self.moves.append([(join(sets), target) for target, sets in targets.items()])
        self._last = near or len({frozenset((to, ranges) for ranges, to in moves) for moves in self.moves}) == 1
        self._paths: dict[int, dict[int, Node]] = {}
        self._ends: dict[tuple[int, int], list[tuple[Node, int]]] = {}
        self._reached: dict[tuple[int, frozenset[int]], frozenset[int]] = {}

    def step(self, context: int, code: int) -> int:
        """The context after one more character."""
        return next(target for ranges, target in self.moves[context] if contains(ranges, code))

    def ends(self, node: Node, context: int) -> list[tuple[Node, int]]:
        """(part, context after it): the parts of `node`'s language by the context they lead to from `context`."""
        if len(self.states) == 1:
            return [(node, context)]
        key = (serial(node), context)
        if key not in self._ends:
            reached = run(self._reach(node, frozenset((context,))))
            if len(reached) == 1:
                self._ends[key] = [(node, target) for target in reached]
            elif self._last:
                self._ends[key] = self._cut(node, context)
            else:
                paths = self._paths_from(context)
                self._ends[key] = [(conj(node, paths[target]), target) for target in sorted(reached)]
        return self._ends[key]

    def _cut(self, node: Node, context: int) -> list[tuple[Node, int]]:
        """Where the last character decides."""
        nullable = self._edges.nullable(node)
        found = {target: ranges for ranges, target in self.moves[context]}
        parts = []
        for target in {**found, **({context: ()} if nullable else {})}:
            stays = nullable and target == context
            part = self._edges.restrict(node, found.get(target, ()), stays, True)
            if not isinstance(part, Alt) or part.items:
                parts.append((part, target))
        return parts

    def _paths_from(self, context: int) -> dict[int, Node]:
        """For each context: every text that leads there."""
        if context not in self._paths:
            edges: dict[tuple[str, int], dict[tuple[str, int], Node]] = {}
            for source, moves in enumerate(self.moves):
                edges["at", source] = {("at", target): chars(ranges) for ranges, target in moves}
                edges["at", source]["end", source] = EPSILON
            found = eliminate(
                edges, ("at", context), {("end", source) for source in range(len(self.states))}, self._budget
            )
            self._paths[context] = {target: path for (_, target), path in found.items()}
        return self._paths[context]

    def _reach(self, node: Node, starts: frozenset[int]) -> Generator[Any, Any, frozenset[int]]:
        """The contexts that some text of `node` leads to (perhaps a few more)."""
        key = (serial(node), starts)
        if key in self._reached:
            return self._reached[key]
        result = starts
        match node:
            case Chars(wanted):
                result = frozenset(
                    target for start in starts for ranges, target in self.moves[start] if meet(ranges, wanted)
                )
            case Text(value):
                for c in value:
                    result = frozenset(self.step(start, ord(c)) for start in result)
            case Seq(items):
                for item in items:
                    result = yield self._reach(item, result)
            case Alt(items):
                result = frozenset()
                for item in items:
                    result |= yield self._reach(item, starts)
            case Repeat(item, low, high):
                for _ in range(min(low, 4)):
                    result = yield self._reach(item, result)
                while high is None or high > low or low > 4:  # then any number of rounds: perhaps too many
                    after = result | (yield self._reach(item, result))
                    if after == result:
                        break
                    result = after
            case And(items):
                result = frozenset(range(len(self.states)))
                for item in items:
                    result &= yield self._reach(item, starts)
            case Length(item, _, _):
                result = yield self._reach(item, starts)
            case _:
                result = frozenset(range(len(self.states)))
        self._reached[key] = result
        return result
