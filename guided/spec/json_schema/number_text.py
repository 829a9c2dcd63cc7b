"""The pieces that numbers are written with, as IR nodes. In: nothing. Out: constants."""

from __future__ import annotations

from guided.grammar.ir import Alt, Chars, Repeat, Seq, Text

__all__ = [
    "ANY_EXPONENT",
    "ANY_NUMBER",
    "DIGIT",
    "DIGITS",
    "FRACTION",
    "NONZERO",
    "SIGN",
    "WHOLE",
    "ZEROS",
    "ZERO_FRACTION",
    "E",
]

DIGIT = Chars(((0x30, 0x39),))
NONZERO = Chars(((0x31, 0x39),))
DIGITS = Repeat(DIGIT, 0, None)
ZEROS = Repeat(Text("0"), 0, None)
SIGN = Repeat(Text("-"), 0, 1)
FRACTION = Repeat(Seq((Text("."), Repeat(DIGIT, 1, None))), 0, 1)
ZERO_FRACTION = Repeat(Seq((Text("."), Repeat(Text("0"), 1, None))), 0, 1)
E = Chars(((0x45, 0x45), (0x65, 0x65)))
ANY_EXPONENT = Seq((E, Repeat(Chars(((0x2B, 0x2B), (0x2D, 0x2D))), 0, 1), Repeat(DIGIT, 1, None)))
WHOLE = Alt((Text("0"), Seq((NONZERO, DIGITS))))
ANY_NUMBER = Seq((SIGN, WHOLE, FRACTION, Repeat(ANY_EXPONENT, 0, 1)))
