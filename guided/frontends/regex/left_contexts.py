r"""Tracks what lookbehinds must know about the text before them, in a deterministic automaton whose states are the
*left contexts*.

In: for each lookbehind, the language of the prefixes after which it holds. Out: numbered left contexts (0: at the start
of the text), the context after each character (`step`), and the partition of a language by contexts
(`partition_by_context`): from context c, which strings of the language lead to which context?

How: a context is the tuple of derivatives of these languages by the text read. For lookbehinds of one character, which
include anchors and word boundaries, a context only says which sets contain the last character. A language is then
partitioned by its last character, without unrolling it. In general, it is intersected with the set of strings that lead
from c to each context.

Example: `\b` in `x*\by` has two relevant contexts: after a word character, and after any other character (or none).

Cost: at most `_MAX_CONTEXTS` contexts, otherwise `TooLarge`. `state_elimination.py` computes the strings that lead from
one context to another.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from guided.ir.nodes import EPSILON, Alt, And, Chars, Length, Node, Repeat, Seq, Text
from guided.ir.ranges import Ranges, contains, intersect, union
from guided.ir.serial import serial

from .algebra import EndCharacters, chars, conj, run
from .budget import Budget
from .derivatives import Terms, TooLarge
from .state_elimination import eliminate

__all__ = ["Contexts"]

_MAX_CONTEXTS = 200


class Contexts:
    """The automaton of left contexts for some lookbehind languages, given as terms."""

    def __init__(
        self, terms: Terms, end_characters: EndCharacters, budget: Budget, languages: Sequence[int], one_char: bool
    ) -> None:
        """`one_char`: each language has the form "the last character is in a certain set"."""
        self._end_characters, self._budget = end_characters, budget
        self.states: list[tuple[int, ...]] = [tuple(languages)]
        """For each context: the derivative of each language."""
        self.numbers: dict[tuple[int, ...], int] = {tuple(languages): 0}
        self.transitions: list[list[tuple[Ranges, int]]] = []
        """For each context: (characters, the context to which they lead)."""
        for state in self.states:
            if one_char and self.transitions:  # only the last character matters: all rows are equal
                self.transitions.append(self.transitions[0])
                continue
            targets: dict[int, list[Ranges]] = {}
            for block in terms.blocks(*state):
                budget.spend(1)
                next_state = tuple(terms.derive(term, block[0][0]) for term in state)
                if next_state not in self.numbers:
                    self.numbers[next_state] = len(self.states)
                    self.states.append(next_state)
                    if len(self.states) > _MAX_CONTEXTS:
                        raise TooLarge(_MAX_CONTEXTS)
                targets.setdefault(self.numbers[next_state], []).append(block)
            self.transitions.append([(union(sets), target) for target, sets in targets.items()])
        rows = {frozenset((to, ranges) for ranges, to in row) for row in self.transitions}
        self._only_last_char = one_char or len(rows) == 1
        self._paths: dict[int, dict[int, Node]] = {}
        self._partitions: dict[tuple[int, int], list[tuple[Node, int]]] = {}
        self._reachable: dict[tuple[int, frozenset[int]], frozenset[int]] = {}

    def step(self, context: int, code: int) -> int:
        """The context after one more character."""
        return next(target for ranges, target in self.transitions[context] if contains(ranges, code))

    def partition_by_context(self, node: Node, context: int) -> list[tuple[Node, int]]:
        """Partition the language of `node`: (the strings that lead from `context` to a target context, the target)."""
        if len(self.states) == 1:
            return [(node, context)]
        key = (serial(node), context)
        if key not in self._partitions:
            targets = run(self._find_targets(node, frozenset((context,))))
            if len(targets) == 1:
                self._partitions[key] = [(node, target) for target in targets]
            elif self._only_last_char:
                self._partitions[key] = self._partition_by_last_char(node, context)
            else:
                paths = self._find_paths(context)
                self._partitions[key] = [(conj(node, paths[target]), target) for target in sorted(targets)]
        return self._partitions[key]

    def _partition_by_last_char(self, node: Node, context: int) -> list[tuple[Node, int]]:
        """Like `partition_by_context`, if only the last character matters."""
        nullable = self._end_characters.is_nullable(node)
        ranges_by_target = {target: ranges for ranges, target in self.transitions[context]}
        parts = []
        for target in {**ranges_by_target, **({context: ()} if nullable else {})}:
            allow_empty = nullable and target == context
            part = self._end_characters.restrict(node, ranges_by_target.get(target, ()), allow_empty, True)
            if not isinstance(part, Alt) or part.items:
                parts.append((part, target))
        return parts

    def _find_paths(self, context: int) -> dict[int, Node]:
        """For each context, all strings that lead to it from `context`."""
        if context not in self._paths:
            edges: dict[tuple[str, int], dict[tuple[str, int], Node]] = {}
            for source, row in enumerate(self.transitions):
                edges["at", source] = {("at", target): chars(ranges) for ranges, target in row}
                edges["at", source]["end", source] = EPSILON
            paths = eliminate(
                edges, ("at", context), {("end", source) for source in range(len(self.states))}, self._budget
            )
            self._paths[context] = {target: path for (_, target), path in paths.items()}
        return self._paths[context]

    def _find_targets(self, node: Node, starts: frozenset[int]) -> Generator[Any, Any, frozenset[int]]:
        """The contexts to which some string of `node` leads from one of `starts`. The result may be a superset."""
        key = (serial(node), starts)
        if key in self._reachable:
            return self._reachable[key]
        result = starts
        match node:
            case Chars(own_ranges):
                result = frozenset(
                    target
                    for start in starts
                    for ranges, target in self.transitions[start]
                    if intersect(ranges, own_ranges)
                )
            case Text(value):
                for c in value:
                    result = frozenset(self.step(start, ord(c)) for start in result)
            case Seq(items):
                for item in items:
                    result = yield self._find_targets(item, result)
            case Alt(items):
                result = frozenset()
                for item in items:
                    result |= yield self._find_targets(item, starts)
            case Repeat(item, low, high):
                for _ in range(min(low, 4)):
                    result = yield self._find_targets(item, result)
                while high is None or high > low or low > 4:  # assume any number of further rounds: an overestimate
                    larger_result = result | (yield self._find_targets(item, result))
                    if larger_result == result:
                        break
                    result = larger_result
            case And(items):
                result = frozenset(range(len(self.states)))
                for item in items:
                    result &= yield self._find_targets(item, starts)
            case Length(item, _, _):
                result = yield self._find_targets(item, starts)
            case _:
                result = frozenset(range(len(self.states)))
        self._reachable[key] = result
        return result
