"""The parts of number spellings, as IR nodes. Each is a single object, regardless of how often it is used."""

from __future__ import annotations

from functools import lru_cache

from guided.ir.nodes import Alt, Chars, Node, Repeat, Seq, Text

__all__ = [
    "ANY_EXPONENT",
    "ANY_NUMBER",
    "BARE_INTEGER",
    "DIGIT",
    "DIGITS",
    "FRACTION",
    "MINUS",
    "NONZERO",
    "PLUS",
    "POINT",
    "REACH",
    "SIGN",
    "WHOLE",
    "ZERO",
    "ZEROS",
    "ZERO_FRACTION",
    "E",
    "digit_run",
    "literal",
    "zero_run",
]

REACH = 8
"""The greatest exponent with which all spellings of integers and of numbers with bounds are complete."""

ZERO, POINT, MINUS = Text("0"), Text("."), Text("-")
DIGIT = Chars(((0x30, 0x39),))
NONZERO = Chars(((0x31, 0x39),))


@lru_cache(maxsize=4096)
def digit_run(low: int, high: int | None) -> Node:
    """`low` to `high` digits."""
    return Repeat(DIGIT, low, high)


@lru_cache(maxsize=4096)
def zero_run(low: int, high: int | None) -> Node:
    """`low` to `high` zeros."""
    return Repeat(ZERO, low, high)


literal = lru_cache(maxsize=1024)(Text)
"""Exactly these characters."""

DIGITS = digit_run(0, None)
ZEROS = zero_run(0, None)
SIGN = Repeat(MINUS, 0, 1)
PLUS = Repeat(Text("+"), 0, 1)
FRACTION = Repeat(Seq((POINT, digit_run(1, None))), 0, 1)
ZERO_FRACTION = Repeat(Seq((POINT, zero_run(1, None))), 0, 1)
E = Chars(((0x45, 0x45), (0x65, 0x65)))
ANY_EXPONENT = Seq((E, Repeat(Chars(((0x2B, 0x2B), (0x2D, 0x2D))), 0, 1), digit_run(1, None)))
WHOLE = Alt((ZERO, Seq((NONZERO, DIGITS))))
BARE_INTEGER = Seq((SIGN, WHOLE))
ANY_NUMBER = Seq((SIGN, WHOLE, FRACTION, Repeat(ANY_EXPONENT, 0, 1)))
