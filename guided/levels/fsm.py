r"""Level 2: a finite state machine, written by hand. Plain Python: sets and dictionaries, no tensors.

A state is a place in the format, and an edge from it says which tokens lead where. `UPPER+: LOWER+\n` has six states:

    0 --[A-Z]--> 1     "+" is one or more: an edge that must be taken,
    1 --[A-Z]--> 1     and a loop that may be
    1 --[:]----> 2
    2 --[ ]----> 3
    3 --[a-z]--> 4
    4 --[a-z]--> 4
    4 --[\n]---> 5     5 accepts

What may come next is what is on the edges of the current state. Three things are easy to get wrong:

* Two edges of a state with a token in common, as `UPPER+` and then an 'A' by hand would have it. Which is taken? If
  always the first, the machine stays in its loop and never ends. So such an edge is refused here; level 3 computes the
  machine in which each token leads to one state.
* A state that accepts and can still go on, as after `LOWER+` at the end. To stop where it first accepts would mean one
  letter, always. It may end there: an end token (`end_tokens`) is allowed besides the letters.
* Running out of tokens on the way. With `max_tokens=n` only those tokens are allowed after which n - 1 more can
  still reach an accepting state.

A finite state machine counts nothing: brackets that must close again need a stack, which level 3's core has.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from guided.errors import BudgetError, GuidedError

__all__ = ["FSM", "GuidedFSM"]


class FSM(Protocol):
    """What the loop (generate.py) asks of a machine."""

    @property
    def end_tokens(self) -> Collection[int]:
        """Ids that end the output where it is complete, and are no part of it."""

    def allowed_tokens(self, max_tokens: int | None = None) -> set[int]:
        """What may come next; with a budget (of text, the end token is free): what leaves a way to the end.

        Raises:
            BudgetError: nothing does.
        """

    def advance(self, token: int) -> bool:
        """Take a token. False: it is not allowed, nothing has changed."""

    def is_complete(self) -> bool:
        """The output may end here."""

    def reset(self) -> None:
        """Back to the start."""


class GuidedFSM:
    """See the module.

    Attributes:
        transitions: state -> {token: next state}.
        accept_states: where the output is complete.
        current_state: None once an end token was taken.
    """

    def __init__(self, end_tokens: Collection[int] = ()) -> None:
        self.transitions: dict[int, dict[int, int]] = {}
        self.accept_states: set[int] = set()
        self.end_tokens = frozenset(end_tokens)
        self.current_state: int | None = 0

    def add_transition(self, from_state: int, token_set: Collection[int], to_state: int) -> None:
        """An edge for each token. ValueError: a token leads elsewhere already, or ends the output."""
        edges = self.transitions.setdefault(from_state, {})
        for token in sorted(token_set):
            if edges.get(token, to_state) != to_state or token in self.end_tokens:
                other = "the end" if token in self.end_tokens else f"state {edges[token]}"
                raise ValueError(f"token {token} would lead from state {from_state} to {to_state} and to {other}")
        edges |= dict.fromkeys(token_set, to_state)

    def allowed_tokens(self, max_tokens: int | None = None) -> set[int]:
        """The tokens on the edges of this state, and the end tokens where it accepts."""
        if self.current_state is None:
            return set()
        edges = self.transitions.get(self.current_state, {})
        if max_tokens is not None:
            least = self._distances()
            needed = least.get(self.current_state)
            if needed is None:
                raise GuidedError(f"no accepting state can be reached from state {self.current_state}")
            if needed > max_tokens:
                raise BudgetError(needed, max_tokens, is_exact=True)
            edges = {token: state for token, state in edges.items() if least.get(state, max_tokens) < max_tokens}
        return {*edges, *(self.end_tokens if self.is_complete() else ())}

    def advance(self, token: int) -> bool:
        """Take a token. False: it is not allowed, nothing has changed."""
        if token not in self.allowed_tokens():
            return False
        assert self.current_state is not None
        self.current_state = None if token in self.end_tokens else self.transitions[self.current_state][token]
        return True

    def is_complete(self) -> bool:
        """In an accepting state, or ended."""
        return self.current_state is None or self.current_state in self.accept_states

    def reset(self) -> None:
        """Back to state 0."""
        self.current_state = 0

    def _distances(self) -> dict[int, int]:
        """The fewest tokens from each state to an accepting one: breadth first, backwards."""
        least = dict.fromkeys(self.accept_states, 0)
        front, steps = self.accept_states, 0
        while front:
            steps += 1
            front = {s for s, edges in self.transitions.items() if s not in least and front & set(edges.values())}
            least |= dict.fromkeys(front, steps)
        return least
