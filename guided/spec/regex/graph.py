"""State elimination: a graph whose edges are languages, as one language for each exit.

In: edges (state -> state -> IR node) and a start. Out: for every state without outgoing edges that can be reached,
the IR node of all paths from the start to it. Kleene's construction; states are removed in order of (entering x
leaving) edges, which keeps the result small on the near-linear graphs that patterns give. Cost: states x degree^2
nodes.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import TypeVar

from guided.grammar.ir import EPSILON, Node

from .algebra import alt, repeat, seq

__all__ = ["eliminate"]

S = TypeVar("S", bound=Hashable)


def eliminate(edges: dict[S, dict[S, Node]], start: S, exits: set[S]) -> dict[S, Node]:
    """The language of all paths from `start` to each of `exits` (states without outgoing edges)."""
    out: dict[S, dict[S, Node]] = {state: dict(targets) for state, targets in edges.items()}
    into: dict[S, dict[S, None]] = {state: {} for state in out}  # as ordered sets: results do not vary
    for state, targets in out.items():
        for target in targets:
            into.setdefault(target, {})[state] = None
    if start in exits:
        return {start: EPSILON}
    queue: list[tuple[int, int, S]] = []
    inner = [state for state in out if state != start and state not in exits]
    number = {state: i for i, state in enumerate(inner)}

    def cost(state: S) -> int:
        return len(into[state]) * len(out[state])

    for state in inner:
        heappush(queue, (cost(state), number[state], state))
    while queue:
        expected, _, state = heappop(queue)
        if state not in out:
            continue
        if cost(state) > expected:
            heappush(queue, (cost(state), number[state], state))
            continue
        targets = out.pop(state)
        loop = targets.pop(state, None)
        into[state].pop(state, None)
        around = EPSILON if loop is None else repeat(loop, 0, None)
        for target in targets:
            into[target].pop(state, None)
        for source in into.pop(state):
            enter = out[source].pop(state)
            for target, leave in targets.items():
                path = seq((enter, around, leave))
                known = out[source].get(target)
                out[source][target] = path if known is None else alt((known, path))
                into[target][source] = None
    targets = out.get(start, {})
    loop = targets.pop(start, None)
    around = EPSILON if loop is None else repeat(loop, 0, None)
    return {target: seq((around, node)) for target, node in targets.items() if target in exits}
