"""How code points become bytes: UTF-8, and the spellings of characters in other notations. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from guided.ir.ranges import Ranges
from guided.ir.serial import Numbered

__all__ = ["UTF8", "Encoding", "Form", "Span", "hex_digit"]


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes from `low` to `high`. Byte b adds `value + (b - low) * step` to the code point."""

    low: int
    high: int
    value: int
    step: int


@dataclass(frozen=True, slots=True)
class Form:
    """One way to spell code points: one byte for each digit in turn. The code point is the sum of what the bytes add.

    Only code points in `ranges` are spelled this way. Digits are positional: the digits after a digit together add
    less than one `step` of that digit.
    """

    ranges: Ranges
    digits: tuple[tuple[Span, ...], ...]


@dataclass(frozen=True, slots=True)
class Encoding(Numbered):
    """How code points become bytes: the union of its forms. A code point may have several spellings."""

    name: str
    forms: tuple[Form, ...]


def hex_digit(step: int) -> tuple[Span, ...]:
    """The hexadecimal digits in both cases. They contribute 0 to 15 times `step`."""
    return (Span(0x30, 0x39, 0, step), Span(0x41, 0x46, 10 * step, step), Span(0x61, 0x66, 10 * step, step))


_CONTINUATION = Span(0x80, 0xBF, 0, 1)
UTF8 = Encoding(
    "utf-8",
    (
        Form(((0, 0x7F),), ((Span(0, 0x7F, 0, 1),),)),
        Form(((0x80, 0x7FF),), ((Span(0xC2, 0xDF, 2 << 6, 1 << 6),), (_CONTINUATION,))),
        Form(
            ((0x800, 0xD7FF), (0xE000, 0xFFFF)),
            ((Span(0xE0, 0xEF, 0, 1 << 12),), (Span(0x80, 0xBF, 0, 1 << 6),), (_CONTINUATION,)),
        ),
        Form(
            ((0x10000, 0x10FFFF),),
            (
                (Span(0xF0, 0xF4, 0, 1 << 18),),
                (Span(0x80, 0xBF, 0, 1 << 12),),
                (Span(0x80, 0xBF, 0, 1 << 6),),
                (_CONTINUATION,),
            ),
        ),
    ),
)
