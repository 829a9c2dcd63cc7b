"""How many texts a specification allows. In: a constraint, a length. Out: exact numbers.

How: a state of the language stands for all texts that lead to it, so numbers of texts are carried from state to state,
byte by byte (dynamic programming over a deterministic automaton). Cost: the states that texts of this length reach,
times their bytes; numbers have as many digits as they need.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from guided.errors import LimitExceeded
from guided.keywords import check_integer
from guided.matching.constraint import Constraint
from guided.testing.language import Language, State, over_bytes

__all__ = ["count", "counts"]


def count(constraint: Constraint, length: int, *, max_states: int = 100_000, **options: Any) -> int:
    """How many texts of `length` bytes in UTF-8 the specification allows.

    Raises:
        SpecError, UnsupportedError: the specification. OptionError: a number is none, or negative.
        LimitExceeded: these texts reach more than `max_states` states.
    """
    return counts(constraint, length, max_states=max_states, **options)[length]


def counts(constraint: Constraint, length: int, *, max_states: int = 100_000, **options: Any) -> list[int]:
    """The numbers of texts of 0, 1, ... `length` bytes; arguments and errors are those of `count`."""
    check_integer("length", length, least=0)
    check_integer("max_states", max_states, least=0)
    language = Language(over_bytes(constraint, **options))
    here: Counter[State] = Counter({language.start: 1})
    found = list[int]()
    for left in range(length, -1, -1):
        found.append(sum(number for state, number in here.items() if language.accepts(state)))
        after: Counter[State] = Counter()
        for state, number in here.items():
            if language.least(state) > left:
                continue  # none of its texts is short enough
            for next_state in language.moves(state).values() if left else ():
                after[next_state] += number
            if len(language) > max_states:
                raise LimitExceeded("max_states", len(language), max_states, hint="give a larger max_states=...")
        here = after
    return found
