"""Counts the texts that a specification allows. In: a constraint, a length. Out: exact numbers.

How: dynamic programming over a deterministic automaton. For each state, the number of texts that lead to it is carried
over to the next states, byte by byte. Cost: the states that texts of this length reach, times their edges. The numbers
are exact Python integers of any size.
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
    """The number of texts of `length` bytes (in UTF-8) that the specification allows.

    Raises:
        SpecError, UnsupportedError: the specification is invalid. OptionError: an argument is out of range.
        LimitExceeded: these texts reach more than `max_states` states.
    """
    return counts(constraint, length, max_states=max_states, **options)[length]


def counts(constraint: Constraint, length: int, *, max_states: int = 100_000, **options: Any) -> list[int]:
    """The numbers of texts of 0, 1, ... `length` bytes. Arguments and errors: see `count`."""
    check_integer("length", length, minimum=0)
    check_integer("max_states", max_states, minimum=0)
    language = Language(over_bytes(constraint, **options))
    text_counts: Counter[State] = Counter({language.start: 1})
    counts_by_length = list[int]()
    for bytes_left in range(length, -1, -1):
        counts_by_length.append(sum(number for state, number in text_counts.items() if language.accepts(state)))
        next_counts: Counter[State] = Counter()
        for state, number in text_counts.items():
            if language.completion_length(state) > bytes_left:
                continue  # no completion from here is short enough
            for next_state in language.moves(state).values() if bytes_left else ():
                next_counts[next_state] += number
            if len(language) > max_states:
                raise LimitExceeded("max_states", len(language), max_states, hint="set a larger max_states=...")
        text_counts = next_counts
    return counts_by_length
