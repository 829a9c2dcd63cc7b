"""A shortest text that two regular languages share. In: two nodes, walked as automata (`regular_texts.py`). Out: a
text, or None.

How: a breadth-first search over pairs of states, for the intersection (Hopcroft and Ullman 1979, section 3.2). Each
step prefers a letter or a digit, then another printable character.

Cost: the reachable pairs, times their edges. The search gives up beyond `most` pairs.
"""

from __future__ import annotations

from guided.errors import LimitExceeded
from guided.frontends.common.regular_texts import Texts
from guided.frontends.regex.derivatives import TooLarge
from guided.ir.nodes import Node
from guided.ir.ranges import Ranges, intersect
from guided.meter import spend

__all__ = ["common_text"]

_READABLE: Ranges = ((ord("a"), ord("z")), (ord("A"), ord("Z")), (ord("0"), ord("9")), (33, 126), (32, 32))


def common_text(first: Node, second: Node, most: int = 50_000) -> str | None:
    """A shortest text that both nodes generate, or None.

    Raises:
        LimitExceeded: more than `most` pairs of states would be visited.
    """
    try:
        return _search(Texts(first), Texts(second), most)
    except TooLarge as error:
        raise LimitExceeded("states", error.most + 1, error.most, fixed=True) from None


def _search(first: Texts, second: Texts, most: int) -> str | None:
    start = (first.start, second.start)
    before: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {start: None}
    todo = [start]
    for pair in todo:  # grows during the loop
        spend()
        if first.accepts(pair[0]) and second.accepts(pair[1]):
            return _text(before, pair)
        for low, high, to in first.edges(pair[0]):
            for other_low, other_high, other_to in second.edges(pair[1]):
                overlap = max(low, other_low), min(high, other_high)
                if overlap[0] <= overlap[1] and (to, other_to) not in before:
                    before[to, other_to] = pair, _most_readable(overlap)
                    todo.append((to, other_to))
        if len(before) > most:
            hint = "too many states were visited to find a text that both match"
            raise LimitExceeded("states", len(before), most, fixed=True, hint=hint)
    return None


def _most_readable(bounds: tuple[int, int]) -> int:
    return next((found[0][0] for part in _READABLE if (found := intersect((part,), (bounds,)))), bounds[0])


def _text(before: dict[tuple[int, int], tuple[tuple[int, int], int] | None], pair: tuple[int, int]) -> str:
    out = []
    while (step := before[pair]) is not None:
        pair, code = step
        out.append(chr(code))
    return "".join(reversed(out))
