"""What lookbehinds need to know of the text read so far, as a small deterministic automaton over characters.

In: for each lookbehind, the language of the prefixes after which it holds. Out: numbered left contexts (0: the start of
the text), the context after each character, and for a language x and a context l: x cut into parts by the context it
leads to (`ends`). For looks at one character, anchors and word boundaries a context is "which kind of
character was last", and the cut is made at x's last character, so nothing inside x is looked at or unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence

from guided.grammar.ir import EMPTY, EPSILON, Alt, Node, Ranges, charset

from .algebra import Edges, chars, conj
from .graph import eliminate
from .terms import Terms, TooLarge

__all__ = ["Contexts"]


class Contexts:
    """The automaton of left contexts; `languages` are the prefix languages it tells apart."""

    def __init__(self, terms: Terms, edges: Edges, languages: Sequence[int], limit: int) -> None:
        self._edges = edges
        self.holds: list[tuple[bool, ...]] = []
        """For each context: which of the languages the text so far is in."""
        self.moves: list[list[tuple[Ranges, int]]] = []
        """For each context: (characters, the context after one of them)."""
        number: dict[tuple[int, ...], int] = {tuple(languages): 0}
        todo = [tuple(languages)]
        for state in todo:
            self.holds.append(tuple(terms.nullable[term] for term in state))
            targets: dict[int, list[tuple[int, int]]] = {}
            for block in terms.blocks(*state):
                after = tuple(terms.derive(term, block[0][0]) for term in state)
                if after not in number:
                    number[after] = len(number)
                    todo.append(after)
                    if len(number) > limit:
                        raise TooLarge
                targets.setdefault(number[after], []).extend(block)
            self.moves.append([(charset(ranges), target) for target, ranges in targets.items()])
        shapes = {frozenset((target, ranges) for ranges, target in moves) for moves in self.moves}
        self._last = len(shapes) == 1
        self._paths: dict[int, dict[int, Node]] = {}
        self._ends: dict[tuple[int, int], list[tuple[Node, int]]] = {}
        self._kept: list[Node] = []

    def step(self, context: int, code: int) -> int:
        """The context after one more character."""
        for ranges, target in self.moves[context]:
            if any(low <= code <= high for low, high in ranges):
                return target
        raise ValueError("not a code point")

    def ends(self, node: Node, context: int) -> list[tuple[Node, int]]:
        """(part, context after it): the parts of `node`'s language by the context they lead to from `context`."""
        if len(self.moves) == 1:
            return [(node, context)]
        key = (id(node), context)
        if key not in self._ends:
            self._kept.append(node)
            self._ends[key] = [part for part in self._cut(node, context) if not _empty(part[0])]
        return self._ends[key]

    def _cut(self, node: Node, context: int) -> list[tuple[Node, int]]:
        if not self._last:
            return [(conj(node, path), target) for target, path in self._paths_from(context).items()]
        nullable, last = self._edges.edge(node, True)
        for ranges, target in self.moves[context]:
            if (target == context or not nullable) and last == ranges:
                return [(node, target)]
        parts: list[tuple[Node, int]] = []
        stayed = False
        for ranges, target in self.moves[context]:
            stays = target == context and nullable
            stayed = stayed or stays
            parts.append((self._edges.restrict(node, ranges, stays, True), target))
        if nullable and not stayed:
            parts.append((EPSILON, context))
        return parts

    def _paths_from(self, context: int) -> dict[int, Node]:
        """For each context: every text that leads there."""
        if context not in self._paths:
            edges: dict[tuple[str, int], dict[tuple[str, int], Node]] = {}
            for source, moves in enumerate(self.moves):
                edges["at", source] = {("at", target): chars(ranges) for ranges, target in moves}
                edges["at", source]["end", source] = EPSILON
            exits = {("end", source) for source in range(len(self.moves))}
            found = eliminate(edges, ("at", context), exits)
            self._paths[context] = {target: path for (_, target), path in found.items()}
        return self._paths[context]


def _empty(node: Node) -> bool:
    return node is EMPTY or (isinstance(node, Alt) and not node.items)
