"""State elimination: converts a graph whose edges carry languages to one regular expression for each exit (Kleene).

In: edges (state -> state -> IR node), a start, and exits, which are states without outgoing edges. Out: for each
reachable exit, the IR node of all paths from the start to it.

How: states are removed one by one; the paths through a removed state become edges between its neighbours. The order of
removal determines the size of the result. The state whose removal adds the fewest nodes is removed first (Delgado and
Morais 2004). On the nearly linear graphs of patterns, this keeps the result small. On layers of equal states, it
repeatedly halves the graph, whereas removing layers from one end would double the result at each layer.

Cost: states x degree^2 nodes. Raises `TooLarge` if an edge has more than twice `Limits.nodes` nodes.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import TypeVar

from guided.ir.nodes import EPSILON, Node

from .algebra import alt, measure, repeat, seq
from .budget import Budget
from .derivatives import TooLarge

__all__ = ["eliminate"]

S = TypeVar("S", bound=Hashable)


def eliminate(edges: dict[S, dict[S, Node]], start: S, exits: set[S], budget: Budget) -> dict[S, Node]:
    """The language of all paths from `start` to each of `exits` (states without outgoing edges)."""
    max_nodes = 2 * budget.limits.nodes
    if start in exits:
        return {start: EPSILON}
    out = {state: {to: (node, measure(node)[0]) for to, node in targets.items()} for state, targets in edges.items()}
    # The inner dicts are ordered sets, so that results are reproducible.
    sources_by_target: dict[S, dict[S, None]] = {state: {} for state in out}
    for state, targets in out.items():
        for target in targets:
            sources_by_target.setdefault(target, {})[state] = None

    def weigh(state: S) -> int:
        """The number of nodes that removing the state adds."""
        sources, targets = sources_by_target[state], out[state]
        loop = targets[state][1] if state in targets else 0
        entering_total = sum(out[source][state][1] for source in sources if source != state)
        leaving_total = sum(size for target, (_, size) in targets.items() if target != state)
        in_degree, out_degree = len(sources) - (state in sources), len(targets) - (state in targets)
        return entering_total * out_degree + leaving_total * in_degree + loop * in_degree * out_degree

    inner_states = [state for state in out if state != start and state not in exits]
    numbers = {state: i for i, state in enumerate(inner_states)}
    queue: list[tuple[int, int, S]] = []
    for state in inner_states:
        heappush(queue, (weigh(state), numbers[state], state))
    while queue:
        queued_weight, _, state = heappop(queue)
        current_weight = weigh(state)
        if current_weight > queued_weight:
            heappush(queue, (current_weight, numbers[state], state))
            continue
        targets = out.pop(state)
        loop, size = targets.pop(state, (EPSILON, 0))
        repeated_loop = repeat(loop, 0, None)
        sources_by_target[state].pop(state, None)
        for target in targets:
            sources_by_target[target].pop(state, None)
        for source in sources_by_target.pop(state):
            entering_edge, entering_size = out[source].pop(state)
            for target, (leaving_edge, leaving_size) in targets.items():
                path, nodes = seq((entering_edge, repeated_loop, leaving_edge)), entering_size + size + leaving_size
                budget.spend(1)
                if nodes > max_nodes:
                    raise TooLarge(max_nodes, "nodes")
                parallel_edge = out[source].get(target)
                out[source][target] = (
                    (path, nodes)
                    if parallel_edge is None
                    else (alt((parallel_edge[0], path)), parallel_edge[1] + nodes)
                )
                sources_by_target[target][source] = None
    targets = out.get(start, {})
    loop, _ = targets.pop(start, (EPSILON, 0))
    repeated_loop = repeat(loop, 0, None)
    return {target: seq((repeated_loop, node)) for target, (node, _) in targets.items() if target in exits}
