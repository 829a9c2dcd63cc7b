"""Walks a regular node as an automaton that is built on demand. In: a node. Out: states and their edges.

An `Automaton` is walked directly. Any other node is walked by its derivatives (`regex/derivatives.py`), so counts are
not unrolled: for `(ab){2,50000}`, a text visits as many states as it has characters.

Cost: a few steps for each visited state. A walk raises `TooLarge` if it needs more than `max_terms` derivatives.

`keeps_counts` says whether counts are too large to unroll. `has_no_dead_ends` says whether every state of a node is
known to lead to a text.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import Final, TypeAlias

from guided.frontends.regex.derivatives import EMPTY_LANGUAGE, Terms
from guided.frontends.regex.leftmost_match import count_positions
from guided.frontends.regex.tree import Tree
from guided.ir.nodes import Alt, Automaton, Chars, Node, Repeat, Seq, Text
from guided.meter import STEP, spend

__all__ = ["MAX_UNROLLED_POSITIONS", "Edges", "TextAutomaton", "has_no_dead_ends", "keeps_counts"]

_MAX_TERMS: Final = 200_000
MAX_UNROLLED_POSITIONS: Final = 1_000
"""The maximum number of character positions that unrolling may add."""

Edges: TypeAlias = tuple[tuple[int, int, int], ...]


def keeps_counts(tree: Tree) -> bool:
    """Whether a regular expression has counts that are too large to unroll."""
    return count_positions(tree) - count_positions(tree, unrolled=False) > MAX_UNROLLED_POSITIONS


def has_no_dead_ends(node: Node) -> bool:
    """Whether every walk through a node is known to lead to a text. False, for example, if it has an intersection."""
    match node:
        case Chars(ranges):
            return ranges != ()
        case Text():
            return True
        case Seq(items):
            return all(map(has_no_dead_ends, items))
        case Alt(items):
            return items != () and all(map(has_no_dead_ends, items))
        case Repeat(item):
            return has_no_dead_ends(item)
    return False


class TextAutomaton:
    """The automaton of a node. States are numbers."""

    def __init__(self, node: Node, max_terms: int = _MAX_TERMS) -> None:
        self._automaton = node if isinstance(node, Automaton) else None
        self._terms = Terms(max_terms)
        self._edges: dict[int, Edges] = {}
        self.start = node.start if isinstance(node, Automaton) else self._terms.read(node)

    def accepts(self, state: int) -> bool:
        """Whether a text may end in the state."""
        return self._terms.nullable[state] if self._automaton is None else self._automaton.states[state][0]

    def edges(self, state: int) -> Edges:
        """(lowest code point, highest code point, target state), sorted."""
        if self._automaton is not None:
            return self._automaton.states[state][1]
        if state not in self._edges:
            transitions = self._terms.transitions(state)
            self._edges[state] = tuple(sorted((low, high, to) for ranges, to in transitions for low, high in ranges))
        return self._edges[state]

    def is_live(self, state: int) -> bool:
        """Whether a text can be completed from the state. Possibly True by mistake if the node has intersections
        or complements.
        """
        return state != EMPTY_LANGUAGE if self._automaton is None else state in self._live_states

    def has_text(self) -> bool:
        """Whether there is a text. Raises LimitExceeded if finding one takes too much work.

        Short texts are found breadth-first, and long texts depth-first, so the search alternates.
        """
        todo = deque([self.start])
        seen, steps = {self.start}, 0
        while todo:
            spend(STEP)
            steps += 1
            state = todo.pop() if steps % 2 else todo.popleft()
            if self.accepts(state):
                return True
            for _, _, target in self.edges(state):
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
        return False

    def longest_match(self, text: str) -> int:
        """The length of the longest prefix of a text that the node generates; 0 if there is none."""
        state, longest_length = self.start, 0
        for length, char in enumerate(text, 1):
            targets = [to for low, high, to in self.edges(state) if low <= ord(char) <= high]
            if not targets:
                break
            state = targets[0]
            longest_length = length if self.accepts(state) else longest_length
        return longest_length

    @cached_property
    def _live_states(self) -> set[int]:
        assert self._automaton is not None
        predecessors: dict[int, list[int]] = {}
        for number, (_, edges) in enumerate(self._automaton.states):
            for _, _, to in edges:
                predecessors.setdefault(to, []).append(number)
        todo = [number for number, (accepts, _) in enumerate(self._automaton.states) if accepts]
        live = set(todo)
        while todo:
            for number in predecessors.get(todo.pop(), ()):
                if number not in live:
                    live.add(number)
                    todo.append(number)
        return live
