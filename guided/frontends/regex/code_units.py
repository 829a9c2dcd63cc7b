"""Converts a language of UTF-16 code units to a language of characters. In: an IR node without `Ref` whose "characters"
are code units. Out: an `Automaton` of the strings whose code units are in that language.

Why: without the flag u, ECMA-262 matches code units. `.` then matches half of an emoji, and `[^a]{2}` matches a whole
one.

How: let L be the language of code units, and h the homomorphism that writes each character in code units. The result is
h^-1(L). Derivatives (`derivatives.py`) produce an automaton for L. In the result, an edge for a character beyond U+FFFF
stands for two edges of L: one over its high surrogate, then one over its low surrogate. No string contains an unpaired
surrogate. IR sets cannot contain surrogates, so in L each surrogate is represented by the code point that is
`SURROGATE_OFFSET` larger.

Cost: one state for each derivative; raises `TooLarge` if there are too many.
"""

from __future__ import annotations

from guided.ir.nodes import Automaton, Node
from guided.ir.ranges import Ranges, charset, intersect

from .budget import Budget
from .derivatives import Terms

__all__ = ["SURROGATE_OFFSET", "decode_code_units", "has_surrogates"]

SURROGATE_OFFSET = 0x10000 - 0xD800
"""A surrogate plus this offset is the code point that represents it. This code point is beyond U+FFFF, so it cannot be
confused with a code unit.
"""
_SINGLE_UNITS: Ranges = ((0, 0xD7FF), (0xE000, 0xFFFF))
_HIGH_SURROGATES: Ranges = ((0xD800 + SURROGATE_OFFSET, 0xDBFF + SURROGATE_OFFSET),)
_LOW_SURROGATES: Ranges = ((0xDC00 + SURROGATE_OFFSET, 0xDFFF + SURROGATE_OFFSET),)


def has_surrogates(ranges: Ranges) -> bool:
    """Whether a set contains the representation of a surrogate."""
    return bool(intersect(ranges, (*_HIGH_SURROGATES, *_LOW_SURROGATES)))


def decode_code_units(node: Node, budget: Budget) -> Automaton:
    """The automaton of the strings whose code units are in the language of `node`.

    Raises:
        TooLarge: there are too many derivatives.
    """
    terms = Terms()
    queue = [terms.read(node)]
    state_numbers = {queue[0]: 0}
    states = []

    def get_state(term: int) -> int:
        if term not in state_numbers:
            state_numbers[term] = len(queue)
            queue.append(term)
        return state_numbers[term]

    for term in queue:  # grows during the loop
        budget.spend(1)
        ranges_by_target: dict[int, list[tuple[int, int]]] = {}
        for ranges, target in terms.transitions(term):
            if single_units := intersect(ranges, _SINGLE_UNITS):
                ranges_by_target.setdefault(get_state(target), []).extend(single_units)
            if high := intersect(ranges, _HIGH_SURROGATES):
                for next_units, pair_target in terms.transitions(target):
                    if low := intersect(next_units, _LOW_SURROGATES):
                        ranges_by_target.setdefault(get_state(pair_target), []).extend(_combine_surrogates(high, low))
        edges = sorted((low, high, to) for to, ranges in ranges_by_target.items() for low, high in charset(ranges))
        budget.spend(len(edges))
        states.append((terms.nullable[term], tuple(edges)))
    return Automaton(tuple(states))


def _combine_surrogates(high: Ranges, low: Ranges) -> list[tuple[int, int]]:
    """The characters that consist of a high surrogate from `high` and a low surrogate from `low`."""
    bases = [
        (0x10000 + ((a - _HIGH_SURROGATES[0][0]) << 10), 0x10000 + ((b - _HIGH_SURROGATES[0][0]) << 10))
        for a, b in high
    ]
    if low == _LOW_SURROGATES:
        return [(a, b + 0x3FF) for a, b in bases]
    offsets = [(a - _LOW_SURROGATES[0][0], b - _LOW_SURROGATES[0][0]) for a, b in low]
    return [(base + a, base + b) for begin, end in bases for base in range(begin, end + 1, 0x400) for a, b in offsets]
