"""The parts of number spellings, as IR nodes. Each is a single object, regardless of how often it is used."""

from __future__ import annotations

from functools import lru_cache

from guided.errors import UnsupportedError
from guided.frontends.json_schema.documents.values import Decimal10
from guided.ir.nodes import Alt, And, Chars, Node, Repeat, Seq, Text

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
    "check_size",
    "digit_run",
    "limit_digits",
    "literal",
    "zero_run",
]

REACH = 8
"""The greatest exponent with which all spellings of integers and of numbers with bounds are complete."""

_MAX_DIGITS, _MAX_EXPONENT = 1_000, 4_000

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


def limit_digits(node: Node, max_digits: int | None) -> Node:
    """The spellings whose whole part, fraction and exponent have at most `max_digits` digits each."""
    if max_digits is None:
        return node
    run = digit_run(1, max_digits)
    exponent = Seq((E, Repeat(Chars(((0x2B, 0x2B), (0x2D, 0x2D))), 0, 1), run))
    return And((node, Seq((SIGN, run, Repeat(Seq((POINT, run)), 0, 1), Repeat(exponent, 0, 1)))))


def check_size(value: Decimal10) -> None:
    """Raise UnsupportedError for a long number. Digits cost nodes, and an exponent of n costs n characters."""
    if len(value.digits) > _MAX_DIGITS:
        raise UnsupportedError(
            f"a number has {len(value.digits)} digits, but at most {_MAX_DIGITS:,} are supported",
            hint="round it, or leave it out",
        )
    if abs(value.exponent) > _MAX_EXPONENT:
        raise UnsupportedError(
            f"a number has {abs(value.exponent)} digits on one side of the point, but at most {_MAX_EXPONENT:,} "
            "are supported",
            hint="use a number closer to 1, or leave it out",
        )
