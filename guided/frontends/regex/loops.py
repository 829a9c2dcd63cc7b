"""Lookarounds inside repetition or alternation: all ways through such a part, as a list of exits.

In: a tree and the left context before it. Out: `Exits`: for each pair of a left context after the part and a condition
on the following text, the language of the texts that the part consumes on the way there. Their union is exactly the
language of the part.

How: a state is (continuation, left context, pending condition). A pending condition is a term: the requirement of a
lookahead on the coming text, derived by the characters read since the lookahead was tested. These are the derivatives
of an alternating automaton. A part without lookarounds is one edge if no condition is pending, or only a condition on
the next character. Otherwise it is walked character by character. State elimination turns the graph into languages.

Example: `(?:a(?!b)|b)*` has two exits. The texts of the first one are empty or end in `b`, and anything may follow
them. The texts of the second one end in `a`, and the next character must not be `b`.

In `x{m,n}` with lookarounds in x, the count should not multiply the states. The first rule that applies is used:

- if few situations occur between two rounds and each way through them repeats only one round, this round stays counted
- if x has a fixed width w, it is `x*` with `m*w` to `n*w` characters
- otherwise the count is a part of the state, up to `_MAX_STATES` states; beyond that the pattern is refused
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from guided.ir.nodes import EMPTY, EPSILON, Alt, Chars, Length, Node, Repeat, Seq, Text
from guided.ir.ranges import contains
from guided.ir.serial import serial

from .algebra import alt, chars, repeat, run, seq
from .derivatives import ANY_STRING, EMPTY_LANGUAGE, EMPTY_STRING, TooLarge, partition
from .state_elimination import eliminate
from .tree import Cat, Lookaround, Or, Times, Tree

if TYPE_CHECKING:
    from .lookarounds import Continuation, Lowering

__all__ = ["Exits", "Explorer", "Situation"]

Situation: TypeAlias = tuple[int, int]
"""What matters between two parts: (left context, condition on the following text)."""
Exits: TypeAlias = dict[Situation, Node]
"""The situations after a part, each with the texts that lead to it."""
State: TypeAlias = "tuple[Continuation, int, int, int]"
"""(continuation, the rest of the part before it, left context, pending condition)."""
_MAX_STATES = 2000
_MAX_SITUATIONS = 8


class Explorer:
    """One exploration, which finds the exits of one tree."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering, self.terms = lowering, lowering.terms
        self._remaining_rounds: dict[tuple[int, int, int | None], Times] = {}
        self._unrolled: set[int] = set()
        """Counted repetitions whose count is a part of the state."""

    def exits(self, tree: Tree, start: Situation, after: int) -> Generator[Any, Any, Exits]:
        """The exits of `tree`; see `Lowering.explore`."""
        exits: Exits | None = None
        if isinstance(tree, Times):
            self.lowering.span = tree.span
            if _has_count(tree):
                exits = yield self._by_situations(tree, start, after)
                if exits is None:
                    exits = yield self._by_length(tree, start, after)
        if exits is None:
            exits = yield self._explore(tree, start, after)
        return exits

    def _by_situations(self, tree: Times, start: Situation, after: int) -> Generator[Any, Any, Exits | None]:
        """Counted repetition, if each way through the situations between rounds repeats at most one round.

        The repeated round stays counted, and the other rounds on the way are subtracted from the count. None if some
        way repeats several rounds, or if there are too many situations.
        """
        mask = self.lowering.mask(tree) | after
        rounds: dict[Situation, Exits] = {}
        todo = [start]
        for situation in todo:
            if situation not in rounds:
                rounds[situation] = yield self.lowering.explore(tree.item, situation, mask)
                todo.extend(rounds[situation])
                if len(rounds) > _MAX_SITUATIONS:
                    return None
        parts: dict[Situation, list[Node]] = {}

        def add_ways(at: Situation, path: tuple[Situation, ...], nodes: tuple[Node, ...], loop: int | None) -> bool:
            """Add all ways that begin with `path` and its `nodes`; `loop` is the index of the repeated round."""
            loop_text = rounds[at].get(at)
            if loop_text is not None:
                if loop is not None:
                    return False
                loop, nodes = len(nodes), (*nodes, loop_text)
            steps = len(path) - 1
            lower, upper = max(tree.min - steps, 0), None if tree.max is None else tree.max - steps
            if upper is not None and upper < 0:
                return True
            if loop is not None or lower == 0:
                nodes_at_end = [repeat(node, lower, upper) if i == loop else node for i, node in enumerate(nodes)]
                key = (self.lowering.project(at[0], mask, after), at[1])
                parts.setdefault(key, []).append(seq(nodes_at_end))
            return all(
                to == at or (to not in path and add_ways(to, (*path, to), (*nodes, node), loop))
                for to, node in rounds[at].items()
            )

        if not add_ways(start, (start,), (), None):
            return None
        return {key: alt(nodes) for key, nodes in parts.items()}

    def _by_length(self, tree: Times, start: Situation, after: int) -> Generator[Any, Any, Exits | None]:
        """Counted repetition of a part of fixed width, as a count of characters."""
        width = fixed_width(tree.item)
        if not width:
            return None
        star = Times(tree.item, 0, None, False, tree.span, tree.has_lookbehind, tree.one_char, tree.has_lookaround)
        exits = yield self.lowering.explore(star, start, after)
        max_length = None if tree.max is None else tree.max * width
        return {key: Length(node, tree.min * width, max_length) for key, node in exits.items()}

    # --- the graph of states

    def _explore(self, tree: Tree, begin: Situation, after: int) -> Generator[Any, Any, Exits]:
        self._unrolled.add(serial(tree))
        start: State = (self.lowering.continuation(tree, self.lowering.end(after)), EMPTY_STRING, *begin)
        edges: dict[State, dict[State, Node]] = {}
        ends: set[State] = set()
        todo = [start]
        while todo:
            state = todo.pop()
            if state in edges or state in ends:
                continue
            if state[0].next is None and state[1] == EMPTY_STRING:
                ends.add(state)
                continue
            targets = edges[state] = {}
            self.lowering.budget.spend(1)
            for label, target in (yield self._edges(state)):
                if target[3] == EMPTY_LANGUAGE:
                    continue
                other_label = targets.get(target)
                targets[target] = label if other_label is None else alt((other_label, label))
                todo.append(target)
            if len(edges) + len(ends) > _MAX_STATES:
                raise TooLarge(_MAX_STATES)
        paths = eliminate(edges, start, ends, self.lowering.budget)
        return {(context, condition): node for (_, _, context, condition), node in paths.items()}

    def _edges(self, state: State) -> Generator[Any, Any, list[tuple[Node, State]]]:
        continuation, rest_of_part, context, condition = state
        if rest_of_part != EMPTY_STRING or continuation.next is None:
            return self._character_edges(state)
        tree, after = continuation.tree, continuation.next

        def to(target: Continuation, pending: int = condition) -> tuple[Node, State]:
            return EPSILON, (
                target,
                EMPTY_STRING,
                self.lowering.project(context, continuation.mask, target.mask),
                pending,
            )

        match tree:
            case Cat(items):
                target = after
                for item in reversed(items):
                    target = self.lowering.continuation(item, target)
                return [to(target)]
            case Or(items):
                return [to(self.lowering.continuation(item, after)) for item in items]
            case Times() if _has_count(tree) and serial(tree) not in self._unrolled:
                exits = yield self.lowering.explore(tree, (context, condition), after.mask)
                return [(node, (after, EMPTY_STRING, target, condition)) for (target, condition), node in exits.items()]
            case Times(item, low, _):
                once = to(self.lowering.continuation(item, self._after_round(tree, after)))
                return [once] if low else [once, to(after)]
            case Lookaround():
                look_condition = yield self.lowering.condition(tree, continuation.mask, context)
                both = self.terms.intersection((condition, look_condition))
                return [] if self.terms.is_empty(both) else [to(after, both)]
            case _:
                return self._plain_edges(
                    tree, after, self.lowering.project(context, continuation.mask, after.mask), condition
                )

    def _after_round(self, tree: Times, after: Continuation) -> Continuation:
        """The continuation after one round of a repetition."""
        low, high = max(tree.min - 1, 0), None if tree.max is None else tree.max - 1
        if high == 0:
            return after
        if (low, high) == (tree.min, tree.max):
            return self.lowering.continuation(tree, after)
        key = (serial(tree.item), low, high)
        if key not in self._remaining_rounds:
            tree_flags = tree.has_lookbehind, tree.one_char, tree.has_lookaround
            self._remaining_rounds[key] = Times(tree.item, low, high, False, tree.span, *tree_flags)
            self._unrolled.add(serial(self._remaining_rounds[key]))
        return self.lowering.continuation(self._remaining_rounds[key], after)

    def _plain_edges(self, node: Node, after: Continuation, context: int, condition: int) -> list[tuple[Node, State]]:
        """The edges of a part without lookarounds. `context` is a context for the continuation after it."""
        out: list[tuple[Node, State]] = []
        if condition != ANY_STRING:
            one_char = self.terms.next_char_condition(condition)
            if one_char is None:
                return self._character_edges((after, self.terms.read(node), context, condition))
            if self.lowering.edges.nullable(node):
                out.append((EPSILON, (after, EMPTY_STRING, context, condition)))
            node = self.lowering.edges.restrict(node, one_char[0], False, False)
            if node is EMPTY:
                return out
        for part, target in self.lowering.contexts(after.mask).ends(node, context):
            out.append((part, (after, EMPTY_STRING, target, ANY_STRING)))
        return out

    def _character_edges(self, state: State) -> list[tuple[Node, State]]:
        """The edges of a part without lookarounds, character by character, under a pending condition."""
        continuation, rest_of_part, left_context, condition = state
        contexts = self.lowering.contexts(continuation.mask)
        out: list[tuple[Node, State]] = []
        if self.terms.nullable[rest_of_part]:
            out.append((EPSILON, (continuation, EMPTY_STRING, left_context, condition)))
        moves = self.terms.transitions(rest_of_part)
        sets = [ranges for term in (rest_of_part, condition) for ranges, _ in self.terms.transitions(term)]
        for block in partition([*sets, *(ranges for ranges, _ in contexts.transitions[left_context])]):
            code = block[0][0]
            for ranges, target in moves:
                if contains(ranges, code):
                    after: State = (
                        continuation,
                        target,
                        contexts.step(left_context, code),
                        self.terms.derive(condition, code),
                    )
                    out.append((chars(block), after))
        return out


def _has_count(tree: Times) -> bool:
    """Whether the count is more specific than "optional", "any number" or "at least one"."""
    return tree.min > 1 or (tree.max is not None and tree.max > 1)


def fixed_width(tree: Tree) -> int | None:
    """The length of the texts that the tree can match, or None if they may differ in length."""
    width_by_tree: dict[int, int | None] = {}

    def visit(tree: Tree) -> Generator[Any, Any, int | None]:
        if serial(tree) not in width_by_tree:
            width_by_tree[serial(tree)] = yield width(tree)
        return width_by_tree[serial(tree)]

    def width(tree: Tree) -> Generator[Any, Any, int | None]:
        match tree:
            case Lookaround():
                return 0
            case Chars():
                return 1
            case Text(value):
                return len(value)
            case Cat(items) | Seq(items) | Or(items) | Alt(items):
                widths = []
                for item in items:
                    widths.append((yield visit(item)))
                if isinstance(tree, (Or, Alt)):
                    return widths[0] if len(set(widths)) == 1 else None
                return None if None in widths else sum(widths)
            case Times(item, low, high) | Repeat(item, low, high):
                item_width = yield visit(item)
                return item_width * low if low == high and item_width is not None else None
            case _:
                return None

    return run(visit(tree))
