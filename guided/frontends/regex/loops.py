"""Lowers repetitions and alternations that contain lookarounds: finds all ways through such a part, as a list of exits.

In: a tree, and the situation before it: the left context and the pending condition (see below). Out: `Exits`: for each
pair of a left context after the part and a condition on the following text, the set of strings that the part consumes
on the way there. Together, the exits represent exactly the language of the part.

How: a state is (continuation, left context, pending condition). A pending condition is a term: the requirement of a
lookahead on the coming text, derived by the characters read since the lookahead was tested. These are the derivatives
of an alternating automaton. A part without lookarounds is one edge if no condition is pending, or if the pending
condition constrains only the next character. Otherwise it is read character by character. State elimination turns the
graph into languages.

Example: `(?:a(?!b)|b)*` has two exits. The strings of the first one are empty or end in `b`, and anything may follow
them. The strings of the second one end in `a`, and the next character must not be `b`.

In `x{m,n}` with lookarounds in x, the count should not multiply the states. The first rule that applies is used:

- if few situations occur between rounds, and each way through them repeats at most one round, this round stays counted
- if x has a fixed width w, it becomes `x*` with `m*w` to `n*w` characters
- otherwise the count is a part of the state. Beyond `_MAX_STATES` states, the pattern is not supported (`TooLarge`).
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
from .tree import TREE_NODES, Cat, Lookaround, Or, Times, Tree

if TYPE_CHECKING:
    from .lookarounds import Continuation, Lowering

__all__ = ["Exits", "Explorer", "Situation"]

Situation: TypeAlias = tuple[int, int]
"""What matters between two parts: (left context, condition on the following text)."""
Exits: TypeAlias = dict[Situation, Node]
"""The situations after a part, each with the strings that lead to it."""
State: TypeAlias = "tuple[Continuation, int, int, int]"
"""(continuation, term of the rest of the part that is being read before it, left context, pending condition)."""
_MAX_STATES = 2000
_MAX_SITUATIONS = 8


class Explorer:
    """Finds the exits of one tree."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering, self.terms = lowering, lowering.terms
        self._remaining_rounds: dict[tuple[int, int, int | None], Times] = {}
        self._unrolled_repetitions: set[int] = set()
        """Counted repetitions (serial numbers) whose count is a part of the state."""

    def find_exits(self, tree: Tree, start: Situation, bits_after: int) -> Generator[Any, Any, Exits]:
        """The exits of `tree`; see `Lowering.explore`."""
        exits: Exits | None = None
        if isinstance(tree, Times):
            self.lowering.span = tree.span
            if _has_count(tree):
                exits = yield self._repeat_one_round(tree, start, bits_after)
                if exits is None:
                    exits = yield self._count_characters(tree, start, bits_after)
        if exits is None:
            exits = yield self._explore(tree, start, bits_after)
        return exits

    def _repeat_one_round(self, tree: Times, start: Situation, bits_after: int) -> Generator[Any, Any, Exits | None]:
        """The exits of a counted repetition in which each way through the situations between rounds repeats at most one
        round.

        The repeated round stays counted, and the other rounds on the way are subtracted from the count. Returns None if
        some way repeats several rounds, or if there are too many situations.
        """
        language_bits = self.lowering.find_language_bits(tree) | bits_after
        rounds: dict[Situation, Exits] = {}
        todo = [start]
        for situation in todo:
            if situation not in rounds:
                rounds[situation] = yield self.lowering.explore(tree.item, situation, language_bits)
                todo.extend(rounds[situation])
                if len(rounds) > _MAX_SITUATIONS:
                    return None
        parts: dict[Situation, list[Node]] = {}

        def add_ways(end: Situation, path: tuple[Situation, ...], nodes: tuple[Node, ...], loop: int | None) -> bool:
            """Add all ways that begin with `path`, which leads to `end` over `nodes`. `loop` is the index in `nodes` of
            the repeated round. Returns False if a second round would be repeated.
            """
            loop_node = rounds[end].get(end)
            if loop_node is not None:
                if loop is not None:
                    return False
                loop, nodes = len(nodes), (*nodes, loop_node)
            steps = len(path) - 1
            lower, upper = max(tree.min - steps, 0), None if tree.max is None else tree.max - steps
            if upper is not None and upper < 0:
                return True
            if loop is not None or lower == 0:
                counted_nodes = [repeat(node, lower, upper) if i == loop else node for i, node in enumerate(nodes)]
                key = (self.lowering.project(end[0], language_bits, bits_after), end[1])
                parts.setdefault(key, []).append(seq(counted_nodes))
            return all(
                target == end or (target not in path and add_ways(target, (*path, target), (*nodes, node), loop))
                for target, node in rounds[end].items()
            )

        if not add_ways(start, (start,), (), None):
            return None
        return {key: alt(nodes) for key, nodes in parts.items()}

    def _count_characters(self, tree: Times, start: Situation, bits_after: int) -> Generator[Any, Any, Exits | None]:
        """The exits of a counted repetition whose item has a fixed width: counts characters instead of rounds. None if
        the width varies or is 0.
        """
        width = find_fixed_width(tree.item)
        if not width:
            return None
        star = Times(tree.item, 0, None, False, tree.span, tree.one_char, tree.has_lookaround)
        exits = yield self.lowering.explore(star, start, bits_after)
        max_length = None if tree.max is None else tree.max * width
        return {key: Length(node, tree.min * width, max_length) for key, node in exits.items()}

    # --- the graph of states

    def _explore(self, tree: Tree, situation: Situation, bits_after: int) -> Generator[Any, Any, Exits]:
        self._unrolled_repetitions.add(serial(tree))
        continuation = self.lowering.make_continuation(tree, self.lowering.make_end(bits_after))
        start: State = (continuation, EMPTY_STRING, *situation)
        edges: dict[State, dict[State, Node]] = {}
        ends: set[State] = set()
        todo = [start]
        while todo:
            state = todo.pop()
            if state in edges or state in ends:
                continue
            if state[0].successor is None and state[1] == EMPTY_STRING:
                ends.add(state)
                continue
            targets = edges[state] = {}
            self.lowering.budget.spend(1)
            for node, target in (yield self._find_edges(state)):
                if target[3] == EMPTY_LANGUAGE:
                    continue
                parallel_node = targets.get(target)
                targets[target] = node if parallel_node is None else alt((parallel_node, node))
                todo.append(target)
            if len(edges) + len(ends) > _MAX_STATES:
                raise TooLarge(_MAX_STATES)
        paths = eliminate(edges, start, ends, self.lowering.budget)
        return {(context, condition): node for (_, _, context, condition), node in paths.items()}

    def _find_edges(self, state: State) -> Generator[Any, Any, list[tuple[Node, State]]]:
        """(the strings read on the edge, the target) for each edge from `state`."""
        continuation, rest_of_part, context, condition = state
        if rest_of_part != EMPTY_STRING or continuation.successor is None:
            return self._find_character_edges(state)
        tree, rest = continuation.tree, continuation.successor

        def make_edge(target: Continuation, pending: int = condition) -> tuple[Node, State]:
            return EPSILON, (
                target,
                EMPTY_STRING,
                self.lowering.project(context, continuation.language_bits, target.language_bits),
                pending,
            )

        match tree:
            case Cat(items):
                target = rest
                for item in reversed(items):
                    target = self.lowering.make_continuation(item, target)
                return [make_edge(target)]
            case Or(items):
                return [make_edge(self.lowering.make_continuation(item, rest)) for item in items]
            case Times() if _has_count(tree) and serial(tree) not in self._unrolled_repetitions:
                exits = yield self.lowering.explore(tree, (context, condition), rest.language_bits)
                return [(node, (rest, EMPTY_STRING, target, condition)) for (target, condition), node in exits.items()]
            case Times(item, low, _):
                round_edge = make_edge(self.lowering.make_continuation(item, self._continue_after_round(tree, rest)))
                return [round_edge] if low else [round_edge, make_edge(rest)]
            case Lookaround():
                lookaround_condition = yield self.lowering.compute_condition(tree, continuation.language_bits, context)
                combined_condition = self.terms.intersection((condition, lookaround_condition))
                return [] if self.terms.is_surely_empty(combined_condition) else [make_edge(rest, combined_condition)]
            case _:
                assert not isinstance(tree, TREE_NODES)
                rest_context = self.lowering.project(context, continuation.language_bits, rest.language_bits)
                return self._find_edges_of_node(tree, rest, rest_context, condition)

    def _continue_after_round(self, tree: Times, rest: Continuation) -> Continuation:
        """The continuation after one round of a repetition that `rest` follows."""
        low, high = max(tree.min - 1, 0), None if tree.max is None else tree.max - 1
        if high == 0:
            return rest
        if (low, high) == (tree.min, tree.max):
            return self.lowering.make_continuation(tree, rest)
        key = (serial(tree.item), low, high)
        if key not in self._remaining_rounds:
            tree_flags = tree.one_char, tree.has_lookaround
            self._remaining_rounds[key] = Times(tree.item, low, high, False, tree.span, *tree_flags)
            self._unrolled_repetitions.add(serial(self._remaining_rounds[key]))
        return self.lowering.make_continuation(self._remaining_rounds[key], rest)

    def _find_edges_of_node(
        self, node: Node, rest: Continuation, context: int, condition: int
    ) -> list[tuple[Node, State]]:
        """The edges of a part without lookarounds. `context` is a left context for the languages of `rest`."""
        out: list[tuple[Node, State]] = []
        if condition != ANY_STRING:
            one_char = self.terms.next_char_condition(condition)
            if one_char is None:
                return self._find_character_edges((rest, self.terms.read(node), context, condition))
            if self.lowering.end_characters.is_nullable(node):
                out.append((EPSILON, (rest, EMPTY_STRING, context, condition)))
            node = self.lowering.end_characters.restrict(node, one_char[0], False, False)
            if node is EMPTY:
                return out
        for part, target in self.lowering.get_contexts(rest.language_bits).partition_by_context(node, context):
            out.append((part, (rest, EMPTY_STRING, target, ANY_STRING)))
        return out

    def _find_character_edges(self, state: State) -> list[tuple[Node, State]]:
        """The edges from a state within a part without lookarounds, for each set of next characters."""
        continuation, rest_of_part, left_context, condition = state
        contexts = self.lowering.get_contexts(continuation.language_bits)
        out: list[tuple[Node, State]] = []
        if self.terms.nullable[rest_of_part]:
            out.append((EPSILON, (continuation, EMPTY_STRING, left_context, condition)))
        moves = self.terms.transitions(rest_of_part)
        sets = [ranges for term in (rest_of_part, condition) for ranges, _ in self.terms.transitions(term)]
        for block in partition([*sets, *(ranges for ranges, _ in contexts.transitions[left_context])]):
            code = block[0][0]
            for ranges, target in moves:
                if contains(ranges, code):
                    next_state: State = (
                        continuation,
                        target,
                        contexts.step(left_context, code),
                        self.terms.derive(condition, code),
                    )
                    out.append((chars(block), next_state))
        return out


def _has_count(tree: Times) -> bool:
    """Whether the repetition must be counted: it is none of x?, x* and x+."""
    return tree.min > 1 or (tree.max is not None and tree.max > 1)


def find_fixed_width(tree: Tree) -> int | None:
    """The length of the strings that the tree can match, or None if they may differ in length."""
    widths_by_tree: dict[int, int | None] = {}

    def visit(tree: Tree) -> Generator[Any, Any, int | None]:
        if serial(tree) not in widths_by_tree:
            widths_by_tree[serial(tree)] = yield find_width(tree)
        return widths_by_tree[serial(tree)]

    def find_width(tree: Tree) -> Generator[Any, Any, int | None]:
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
