"""The calculator: arithmetic, and counting a string in another one. In: the text of a call. Out: the value as Python
prints it.

    2 + 3*(4 - 1.5)      1,234 // 7      "strawberry".count("r")

A small parser computes the same value as Python would; nothing is evaluated as code. The rules are those of nanochat's
calculator. Commas are removed first. Then the text may contain the characters 0123456789*+-/.() and spaces, but not
`**`; or it has the form `"...".count("...")` with letters, digits and '"()._ in it. Differences from nanochat:

- If a text has no value, the reason becomes the result; nanochat writes no result in this case.
- A comma between quotes is part of the string. Strings may contain names such as "import", which nanochat refuses.
- Infinity and integers of more than 4,000 digits are refused as overflow. `()` and `...` are refused as well.

The grammar `grammars/calculator.lark` defines the texts that a model may write. Each of them has a value.

Cost: linear in the text, since brackets nest at most 50 deep and integers are bounded.
"""

from __future__ import annotations

import math
import re
from typing import Final

from guided.errors import ToolError
from guided.frontends.library import grammar
from guided.tools.tool import Tool

__all__ = ["CALCULATOR", "calculate"]

_MAX_DEPTH: Final = 50
_MAX_DIGITS: Final = 4000  # Python itself prints integers of up to 4,300 digits
_TOO_LARGE: Final = 10**_MAX_DIGITS
_ARITHMETIC: Final = re.compile(r"[0-9*+\-/.() ]*")
_LEXEME: Final = re.compile(r" *([0-9]+\.?[0-9]*|\.[0-9]+|//|[-+*/()]|$)")
_QUOTED: Final = r""""[A-Za-z0-9'()._, ]*"|'[A-Za-z0-9"()._, ]*\'"""
_COUNT: Final = re.compile(rf" *({_QUOTED})\.count\(({_QUOTED})\) *")


def calculate(text: str) -> int | float:
    """Compute the value of a text.

    Raises:
        ToolError: the text has no value; the message gives the reason.
    """
    if match := _COUNT.fullmatch(text):
        return match[1][1:-1].count(match[2][1:-1])
    text = text.replace(",", "")
    if not _ARITHMETIC.fullmatch(text):
        raise ToolError('only arithmetic with + - * / // ( ) and "...".count("...") is supported')
    if "**" in text:
        raise ToolError("** is not allowed")
    try:
        return _Parser(text).parse_all()
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    except OverflowError:
        raise ToolError("overflow") from None


class _Parser:
    """Recursive descent: a sum of products of signed numbers and sums in brackets."""

    def __init__(self, text: str) -> None:
        self.text, self.position, self.depth, self.lexeme = text, 0, 0, ""
        self.advance()

    def advance(self) -> str:
        """Move to the next lexeme ("" at the end) and return the one before it."""
        lexeme, match = self.lexeme, _LEXEME.match(self.text, self.position)
        if match is None:
            raise ToolError(f"not understood: {self.text[self.position :].strip()[:20]}")
        self.lexeme, self.position = match[1], match.end()
        return lexeme

    def parse_all(self) -> int | float:
        """The value of the whole text."""
        value = self.parse_sum()
        if self.lexeme:
            raise ToolError(f"an operator is missing before {self.lexeme[:20]}")
        return value

    def parse_sum(self) -> int | float:
        value = self.parse_product()
        while self.lexeme in ("+", "-"):
            value = _check_range(
                value + self.parse_product() if self.advance() == "+" else value - self.parse_product()
            )
        return value

    def parse_product(self) -> int | float:
        value = self.parse_signed()
        while self.lexeme in ("*", "/", "//"):
            operator, operand = self.advance(), self.parse_signed()
            value = _check_range(
                value * operand if operator == "*" else value / operand if operator == "/" else value // operand
            )
        return value

    def parse_signed(self) -> int | float:
        is_negative = False
        while self.lexeme in ("+", "-"):
            is_negative ^= self.advance() == "-"
        value = self.parse_operand()
        return -value if is_negative else value

    def parse_operand(self) -> int | float:
        lexeme = self.advance()
        if lexeme == "(":
            self.depth += 1
            if self.depth > _MAX_DEPTH:
                raise ToolError(f"brackets nest deeper than {_MAX_DEPTH}")
            value = self.parse_sum()
            self.depth -= 1
            if self.advance() != ")":
                raise ToolError("a closing bracket is missing")
            return value
        if lexeme in ("", ")", "*", "/", "//"):
            raise ToolError(f"a number is missing before {lexeme}" if lexeme else "a number is missing at the end")
        if "." in lexeme:
            return _check_range(float(lexeme))
        if lexeme[0] == "0" and lexeme.strip("0"):
            raise ToolError(f"a number must not begin with 0: {lexeme[:20]}")
        if len(lexeme) > _MAX_DIGITS:
            raise OverflowError
        return int(lexeme)


def _check_range(value: int | float) -> int | float:
    if not math.isfinite(value) if isinstance(value, float) else abs(value) >= _TOO_LARGE:
        raise OverflowError
    return value


CALCULATOR: Final = Tool("calculator", grammar("calculator"), lambda text: str(calculate(text)), seconds=None)
"""To use other tokens than nanochat's: `dataclasses.replace(CALCULATOR, tokens=ToolTokens(...))`."""
