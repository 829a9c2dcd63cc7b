r"""Level 2: a finite state machine, written by hand. Plain Python: sets and dictionaries, no tensors.

A state is a position in the format, and its edges say which token leads to which state. `UPPER+: LOWER+\n` has six
states:

    0 --[A-Z]--> 1     "+" means one or more: an edge that must be taken,
    1 --[A-Z]--> 1     and a loop that may be taken
    1 --[:]----> 2
    2 --[ ]----> 3
    3 --[a-z]--> 4
    4 --[a-z]--> 4
    4 --[\n]---> 5     5 accepts

The tokens on the edges of the current state are allowed next. Three things are easy to get wrong:

* Two edges of a state share a token, as in `UPPER+` followed by 'A'. If the machine always took the first edge, it
  would stay in the loop and never end. So such an edge is refused here. Level 3 computes a machine in which each token
  leads to only one state.
* A state accepts, but the output may also continue, as after `LOWER+` at the end. If the output always ended at the
  first accepting state, it would end after one letter. So an end token (`end_tokens`) is allowed besides letters.
* The tokens run out too early. With `max_tokens=n`, a token is allowed only if n - 1 more can complete the output.

A finite state machine cannot count: nested brackets need a stack, which the core of level 3 has.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from guided.errors import BudgetError, GuidedError

__all__ = ["FSM", "GuidedFSM"]


class FSM(Protocol):
    """The interface of a machine for the loop (generate.py)."""

    @property
    def end_tokens(self) -> Collection[int]:
        """Ids that end a complete output. They are not part of the output."""

    def allowed_tokens(self, max_tokens: int | None = None) -> set[int]:
        """The ids that may come next. With a budget, only ids after which the output can be completed within it.

        The budget does not include the end token.

        Raises:
            BudgetError: no output fits into the budget.
        """

    def advance(self, token: int) -> bool:
        """Accept a token. If it is not allowed, returns False and leaves the state unchanged."""

    def is_complete(self) -> bool:
        """Whether the output may end here."""

    def reset(self) -> None:
        """Return to the start."""


class GuidedFSM:
    """See the module docstring.

    Attributes:
        transitions: state -> {token: next state}.
        accept_states: the states in which the output is complete.
        current_state: None after an end token.
    """

    def __init__(self, end_tokens: Collection[int] = ()) -> None:
        self.transitions: dict[int, dict[int, int]] = {}
        self.accept_states: set[int] = set()
        self.end_tokens = frozenset(end_tokens)
        self.current_state: int | None = 0

    def add_transition(self, from_state: int, token_set: Collection[int], to_state: int) -> None:
        """Add an edge for each token. ValueError: a token already leads elsewhere, or ends the output."""
        edges = self.transitions.setdefault(from_state, {})
        for token in sorted(token_set):
            if edges.get(token, to_state) != to_state or token in self.end_tokens:
                other = "the end" if token in self.end_tokens else f"state {edges[token]}"
                raise ValueError(f"token {token} would lead from state {from_state} to both {to_state} and {other}")
        edges |= dict.fromkeys(token_set, to_state)

    def allowed_tokens(self, max_tokens: int | None = None) -> set[int]:
        """The tokens on the edges of the current state, and the end tokens if it accepts."""
        if self.current_state is None:
            return set()
        edges = self.transitions.get(self.current_state, {})
        if max_tokens is not None:
            distances = self._compute_distances()
            shortest_length = distances.get(self.current_state)
            if shortest_length is None:
                raise GuidedError(f"no accepting state can be reached from state {self.current_state}")
            if shortest_length > max_tokens:
                raise BudgetError(shortest_length, max_tokens, is_exact=True)
            edges = {token: state for token, state in edges.items() if distances.get(state, max_tokens) < max_tokens}
        return {*edges, *(self.end_tokens if self.is_complete() else ())}

    def advance(self, token: int) -> bool:
        """Accept a token. If it is not allowed, returns False and leaves the state unchanged."""
        if token not in self.allowed_tokens():
            return False
        assert self.current_state is not None
        self.current_state = None if token in self.end_tokens else self.transitions[self.current_state][token]
        return True

    def is_complete(self) -> bool:
        """Whether the state accepts, or an end token has been read."""
        return self.current_state is None or self.current_state in self.accept_states

    def reset(self) -> None:
        """Return to state 0."""
        self.current_state = 0

    def _compute_distances(self) -> dict[int, int]:
        """The minimum number of tokens from each state to an accepting one: a backward breadth-first search."""
        distances = dict.fromkeys(self.accept_states, 0)
        layer, steps = self.accept_states, 0
        while layer:
            steps += 1
            layer = {s for s, edges in self.transitions.items() if s not in distances and layer & set(edges.values())}
            distances |= dict.fromkeys(layer, steps)
        return distances
