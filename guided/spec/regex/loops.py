"""Parts with looks inside repetition or alternation, as a list of ways through them.

In: a tree and the left context before it. Out: `Exits`: for each (left context after it, condition on what
follows) the language of the texts consumed. The union over the exits is the tree, exactly.

A configuration is (place, left context, pending condition). A pending condition is a term (an obligation that a lookahead
left, derived by what has been read since: Brzozowski on an alternating automaton). A part without looks is one edge as
long as nothing is pending, or only a condition on the next character; otherwise it is walked character by character. The
graph of configurations is then turned into languages by state elimination.

Counts of a repeated part with looks:
- the part leads back to the same situation: `x{m,n}` stays counted
- the part has a fixed width w: `x{m,n}` is x* with `m*w` to `n*w` characters
- otherwise the count is part of the place, up to `_STATES` configurations; past that the pattern is refused
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from guided.grammar.ir import EPSILON, Alt, Chars, Length, Node, Ranges, Repeat, Seq, Text

from .algebra import alt, chars, repeat, run, seq
from .graph import eliminate
from .terms import ANYTHING, NONE, NOTHING, TooLarge, contains, partition
from .tree import Cat, Look, Or, Times, Tree

if TYPE_CHECKING:
    from .context import Cont, Lowering

__all__ = ["Exits", "Explorer"]

Exits: TypeAlias = dict[tuple[int, int], Node]
"""(left context, condition) -> texts."""
State: TypeAlias = "tuple[Cont | None, int, int, int]"
"""(place, rest of the part that is being walked, left context, condition)."""
_STATES = 2000


class Explorer:
    """One exploration; `span` is the place to name if it is given up."""

    def __init__(self, lowering: Lowering, span: tuple[int, int]) -> None:
        self.lowering, self.span = lowering, span
        self.terms, self.contexts = lowering.terms, lowering.contexts
        self._counted: dict[tuple[int, int, int | None], Times] = {}

    def exits(self, tree: Tree, context: int) -> Generator[Any, Any, Exits]:
        """The ways through `tree`."""
        try:
            if isinstance(tree, Times) and tree.max != 1:
                short = (yield self._same_again(tree, context)) or (yield self._by_length(tree, context))
                if short is not None:
                    return short  # type: ignore[no-any-return]
            return (yield self._explore(tree, context))
        except TooLarge:
            raise self.lowering.refuse(
                "the lookarounds, anchors or word boundaries inside this repetition need too many states",
                self.span,
                "move them out of the repetition, or use smaller counts",
            ) from None

    def _same_again(self, tree: Times, context: int) -> Generator[Any, Any, Exits | None]:
        """Counted repetition of a part that always ends in one situation, and from there in the same again."""
        first = yield self.lowering.explore(tree.item, context, self.span)
        if len(first) != 1:
            return None
        ((after, condition), head) = next(iter(first.items()))
        if condition != ANYTHING:
            return None
        again = yield self.lowering.explore(tree.item, after, self.span)
        if set(again) != {(after, ANYTHING)}:
            return None
        fewest = max(tree.min - 1, 0)
        most = None if tree.max is None else tree.max - 1
        some = seq((head, repeat(again[after, ANYTHING], fewest, most)))
        if tree.min:
            return {(after, ANYTHING): some}
        if after == context:
            return {(after, ANYTHING): alt((EPSILON, some))}
        return {(context, ANYTHING): EPSILON, (after, ANYTHING): some}

    def _by_length(self, tree: Times, context: int) -> Generator[Any, Any, Exits | None]:
        """Counted repetition of a part of fixed width: a count of characters."""
        width = fixed_width(tree.item)
        if not width or (tree.min == 0 and tree.max is None):
            return None
        star = Times(tree.item, 0, None, False, tree.span, tree.behind, tree.near, tree.look)
        ways = yield self.lowering.explore(star, context, self.span)
        most = None if tree.max is None else tree.max * width
        return {key: Length(node, tree.min * width, most) for key, node in ways.items()}

    # --- the graph

    def _explore(self, tree: Tree, context: int) -> Generator[Any, Any, Exits]:
        start: State = (self.lowering.cont(tree, None), NOTHING, context, ANYTHING)
        edges: dict[State, dict[State, Node]] = {}
        ends: set[State] = set()
        todo = [start]
        while todo:
            state = todo.pop()
            if state in edges or state in ends:
                continue
            if state[0] is None and state[1] == NOTHING:
                ends.add(state)
                continue
            targets = edges[state] = {}
            for label, target in (yield self._edges(state)):
                if target[3] == NONE:
                    continue
                known = targets.get(target)
                targets[target] = label if known is None else alt((known, label))
                todo.append(target)
            if len(edges) + len(ends) > _STATES:
                raise TooLarge
        found = eliminate(edges, start, ends)
        return {(left, condition): node for (_, _, left, condition), node in found.items()}

    def _edges(self, state: State) -> Generator[Any, Any, list[tuple[Node, State]]]:
        place, walked, left, condition = state
        if walked != NOTHING:
            return self._walk(state)
        assert place is not None
        tree, after = place.tree, place.next
        match tree:
            case Cat(items):
                target: Cont | None = after
                for item in reversed(items):
                    target = self.lowering.cont(item, target)
                return [(EPSILON, (target, NOTHING, left, condition))]
            case Or(items):
                return [(EPSILON, (self.lowering.cont(item, after), NOTHING, left, condition)) for item in items]
            case Times(item, low, high):
                once: State = (self.lowering.cont(item, self._fewer(tree, after)), NOTHING, left, condition)
                leave: State = (after, NOTHING, left, condition)
                return [(EPSILON, once)] if low else [(EPSILON, once), (EPSILON, leave)]
            case Look():
                found = yield self.lowering.condition(tree, left)
                return [(EPSILON, (after, NOTHING, left, self.terms.both((condition, found))))]
            case _:
                return self._plain(tree, after, left, condition)

    def _fewer(self, tree: Times, after: Cont | None) -> Cont | None:
        """The place after one round of a repetition."""
        low, high = max(tree.min - 1, 0), None if tree.max is None else tree.max - 1
        if high == 0:
            return after
        if (low, high) == (tree.min, tree.max):
            return self.lowering.cont(tree, after)
        key = (id(tree.item), low, high)
        if key not in self._counted:
            self._counted[key] = Times(tree.item, low, high, False, tree.span, tree.behind, tree.near, tree.look)
            self.lowering.keep(self._counted[key])
        return self.lowering.cont(self._counted[key], after)

    def _plain(self, node: Node, after: Cont | None, left: int, condition: int) -> list[tuple[Node, State]]:
        """A part without looks."""
        out: list[tuple[Node, State]] = []
        if condition != ANYTHING:
            near = self.terms.near(condition)
            if near is None:
                return self._walk((after, self.terms.read(node), left, condition))
            if self.lowering.edges.nullable(node):
                out.append((EPSILON, (after, NOTHING, left, condition)))
            node = self.lowering.edges.restrict(node, near[0], False, False)
            self.lowering.keep(node)
        for part, target in self.contexts.ends(node, left):
            out.append((part, (after, NOTHING, target, ANYTHING)))
        return out

    def _walk(self, state: State) -> list[tuple[Node, State]]:
        """A part without looks, character by character under a pending condition."""
        place, walked, left, condition = state
        out: list[tuple[Node, State]] = []
        if self.terms.nullable[walked]:
            out.append((EPSILON, (place, NOTHING, left, condition)))
        moves = self.terms.moves(walked)
        for block in self._blocks(walked, left, condition):
            code = block[0][0]
            for ranges, target in moves:
                if contains(ranges, code):
                    step = self.contexts.step(left, code)
                    after: State = (place, target, step, self.terms.derive(condition, code))
                    out.append((chars(block), after))
        return out

    def _blocks(self, walked: int, left: int, condition: int) -> list[Ranges]:
        sets = [ranges for block in (walked, condition) for ranges, _ in self.terms.moves(block)]
        return partition([*sets, *(ranges for ranges, _ in self.contexts.moves[left])])


def fixed_width(tree: Tree) -> int | None:
    """The number of characters of every text that the tree can match, if there is one such number."""
    return run(_width(tree))


def _width(tree: Tree) -> Generator[Any, Any, int | None]:
    total: int | None = None
    match tree:
        case Look():
            return 0
        case Chars():
            return 1
        case Text(value):
            return len(value)
        case Cat(items) | Seq(items):
            total = 0
            for item in items:
                width = yield _width(item)
                if width is None:
                    return None
                total += width
            return total
        case Or(items) | Alt(items):
            widths = set()
            for item in items:
                widths.add((yield _width(item)))
            return widths.pop() if len(widths) == 1 else None
        case Times(item, low, high) | Repeat(item, low, high):
            width = yield _width(item)
            return width * low if low == high and width is not None else None
        case _:
            return None
