"""From a language of UTF-16 code units to a language of characters. In: an IR node without `Ref` whose "characters" are
code units. Out: an `Automaton` of the texts whose code units are in that language.

Why: without the flag u, ECMA-262 matches code units. `.` then matches half of an emoji, and `[^a]{2}` matches a whole
one.

How: the texts are h^-1(L) for the homomorphism h that writes each character in code units. Derivatives
(`derivatives.py`) produce an automaton for L. An edge for a character beyond U+FFFF is a step over a high surrogate
followed by a step over a low surrogate. No text contains an unpaired surrogate. IR sets cannot contain surrogates, so
in L each surrogate is represented by the code point that is `SURROGATE_OFFSET` larger.

Cost: one state for each derivative; it raises `TooLarge` if there are too many.
"""

from __future__ import annotations

from guided.ir.nodes import Automaton, Node
from guided.ir.ranges import Ranges, charset, intersect

from .budget import Budget
from .derivatives import Terms

__all__ = ["SURROGATE_OFFSET", "has_surrogates", "texts_of_units"]

SURROGATE_OFFSET = 0x10000 - 0xD800
"""Added to a surrogate, this gives the code point that represents it, which is not a code unit."""
_SINGLE_UNITS: Ranges = ((0, 0xD7FF), (0xE000, 0xFFFF))
_HIGH: Ranges = ((0xD800 + SURROGATE_OFFSET, 0xDBFF + SURROGATE_OFFSET),)
_LOW: Ranges = ((0xDC00 + SURROGATE_OFFSET, 0xDFFF + SURROGATE_OFFSET),)


def has_surrogates(ranges: Ranges) -> bool:
    """Whether a set contains the representation of a surrogate."""
    return bool(intersect(ranges, (*_HIGH, *_LOW)))


def texts_of_units(node: Node, budget: Budget) -> Automaton:
    """The texts whose code units are in the language of `node`.

    Raises:
        TooLarge: there are too many derivatives.
    """
    terms = Terms()
    order = [terms.read(node)]
    number = {order[0]: 0}
    states = []

    def state(term: int) -> int:
        if term not in number:
            number[term] = len(order)
            order.append(term)
        return number[term]

    for term in order:
        budget.spend(1)
        to: dict[int, list[tuple[int, int]]] = {}
        for ranges, target in terms.transitions(term):
            if single_units := intersect(ranges, _SINGLE_UNITS):
                to.setdefault(state(target), []).extend(single_units)
            if high := intersect(ranges, _HIGH):
                for next_units, after in terms.transitions(target):
                    if low := intersect(next_units, _LOW):
                        to.setdefault(state(after), []).extend(_pairs(high, low))
        edges = sorted((low, high, target) for target, bits in to.items() for low, high in charset(bits))
        budget.spend(len(edges))
        states.append((terms.nullable[term], tuple(edges)))
    return Automaton(tuple(states))


def _pairs(high: Ranges, low: Ranges) -> list[tuple[int, int]]:
    """The characters that consist of a high and a low surrogate from these sets."""
    firsts = [(0x10000 + ((a - _HIGH[0][0]) << 10), 0x10000 + ((b - _HIGH[0][0]) << 10)) for a, b in high]
    if low == _LOW:
        return [(a, b + 0x3FF) for a, b in firsts]
    seconds = [(a - _LOW[0][0], b - _LOW[0][0]) for a, b in low]
    return [
        (first + a, first + b) for begin, end in firsts for first in range(begin, end + 1, 0x400) for a, b in seconds
    ]
