"""Evaluates the parameters of rules, as in llguidance. In: tokens of a rule, and the value of its parameter. Out:
whether an alternative applies to this value, and the values that it passes on.

    perm::_ : ""                   %if is_ones([0:2])
            | "a" perm::set_bit(0) %if bit_clear(0)
            | "b" perm::set_bit(1) %if bit_clear(1)

A parameter is a 64-bit number. A rule is instantiated for each reachable value. `_` means the parameter or, as a range
of bits, all of its bits; `[x:y]` means the bits from x to y - 1.

Source: llguidance, docs/parametric.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.close_names import find_closest_name
from guided.errors import SpecError
from guided.frontends.lark.scan import Token

__all__ = ["evaluate_condition", "evaluate_value", "split_alternatives"]

_BITS: Final = 64
_ALL_BITS: Final = (1 << _BITS) - 1
_VALUE_FUNCTIONS: Final = ("set_bit", "clear_bit", "bit_and", "bit_or", "incr", "decr")
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
_COUNTS: Final = tuple(f"bit_count_{name}" for name in _COMPARISONS)
_TEST_FUNCTIONS: Final = (
    "true",
    "bit_clear",
    "bit_set",
    "is_ones",
    "is_zeros",
    *_COMPARISONS,
    *_COUNTS,
    "and",
    "or",
    "not",
)


def split_alternatives(source: str, body: Sequence[Token]) -> list[tuple[list[Token], list[Token]]]:
    """(tokens, tokens of the condition) for each alternative of a body. Without %if, the condition is empty."""
    out: list[tuple[list[Token], list[Token]]] = [([], [])]
    depth = 0
    in_condition = False
    for token in body:
        depth += (token.kind in ("(", "[")) - (token.kind in (")", "]"))
        if token.kind == "|" and depth == 0:
            out.append(([], []))
            in_condition = False
        elif token.text == "%if":
            if depth or in_condition:
                raise _error(source, "%if is allowed only at the end of an alternative of the rule", token)
            in_condition = True
        else:
            out[-1][in_condition].append(token)
    return out


def evaluate_condition(source: str, tokens: Sequence[Token], parameter: int) -> bool:
    """Whether a condition holds. An empty condition always holds.

    Raises:
        SpecError: the condition is malformed.
    """
    if not tokens:
        return True
    reader = _Reader(source, tokens, parameter)
    holds = reader.read_test()
    reader.check_end()
    return holds


def evaluate_value(source: str, tokens: Sequence[Token], index: int, parameter: int | None) -> tuple[int, int]:
    """(the value of the expression at a token, the index after it). `parameter`: None if the rule has no parameter.

    Raises:
        SpecError: the expression is malformed, or uses a parameter that the rule does not have.
    """
    reader = _Reader(source, tokens, parameter)
    reader.index = index
    return reader.read_value(), reader.index


class _Reader:
    def __init__(self, source: str, tokens: Sequence[Token], parameter: int | None) -> None:
        self.source, self.tokens, self.parameter, self.index = source, tokens, parameter, 0

    def read_value(self) -> int:
        token = self.take_token()
        if token.kind == "number":
            return self.parse_number(token)
        p = self.require_parameter(token)
        if token.text == "_":
            return p
        if token.text not in _VALUE_FUNCTIONS:
            raise self.unknown_function_error(token, _VALUE_FUNCTIONS)
        self.expect("(")
        match token.text:
            case "set_bit" | "clear_bit" as name:
                bit = 1 << self.parse_number(self.take_token(), _BITS - 1)
                p = p | bit if name == "set_bit" else p & ~bit
            case "bit_and" | "bit_or" as name:
                other = self.parse_number(self.take_token())
                p = p & other if name == "bit_and" else p | other
            case name:
                low, high = self.read_bit_range()
                selected_bits, all_ones = p >> low & (1 << (high - low)) - 1, (1 << (high - low)) - 1
                if selected_bits != (all_ones if name == "incr" else 0):
                    p += (1 << low) if name == "incr" else -(1 << low)
        self.expect(")")
        return p

    def read_test(self) -> bool:
        token = self.take_token()
        if token.text not in _TEST_FUNCTIONS:
            raise self.unknown_function_error(token, _TEST_FUNCTIONS)
        name = token.text
        if name == "true":
            if self.index < len(self.tokens) and self.tokens[self.index].kind == "(":
                self.expect("(")
                self.expect(")")
            return True
        p = self.require_parameter(token)
        self.expect("(")
        if name in ("and", "or", "not"):
            holds = self.read_test()
            if name == "not":
                holds = not holds
            else:
                self.expect(",")
                other = self.read_test()
                holds = holds and other if name == "and" else holds or other
        elif name in ("bit_clear", "bit_set"):
            holds = (p >> self.parse_number(self.take_token(), _BITS - 1) & 1) == (name == "bit_set")
        else:
            low, high = self.read_bit_range()
            selected_bits = p >> low & (1 << (high - low)) - 1
            if name in ("is_ones", "is_zeros"):
                holds = selected_bits == ((1 << (high - low)) - 1 if name == "is_ones" else 0)
            else:
                self.expect(",")
                if name in _COUNTS:
                    selected_bits = selected_bits.bit_count()
                holds = _compare(name.removeprefix("bit_count_"), selected_bits, self.parse_number(self.take_token()))
        self.expect(")")
        return holds

    def read_bit_range(self) -> tuple[int, int]:
        token = self.take_token()
        if token.text == "_":
            return 0, _BITS
        if token.kind != "[":
            raise _error(self.source, "write bits as [x:y] or _", token)
        low = self.parse_number(self.take_token(), _BITS)
        self.expect(":")
        high = self.parse_number(self.take_token(), _BITS)
        if low >= high:
            raise _error(self.source, f"the range of bits [{low}:{high}] is empty", token)
        self.expect("]")
        return low, high

    def parse_number(self, token: Token, maximum: int = _ALL_BITS) -> int:
        text = token.text.lower()
        if token.kind != "number" or not text.isascii() or "." in text or text[0] in "+-" or len(text) > 20:
            raise _error(self.source, "a number is expected", token)
        value = int(text, 16 if text.startswith("0x") else 10)
        if value > maximum:
            raise _error(self.source, f"the number is larger than {maximum}", token)
        return value

    def require_parameter(self, token: Token) -> int:
        if self.parameter is None:
            raise _error(self.source, "the rule has no parameter", token, "write a number, such as name::0x0")
        return self.parameter

    def take_token(self) -> Token:
        if self.index == len(self.tokens):
            raise _error(self.source, "the expression is incomplete", self.tokens[-1])
        self.index += 1
        return self.tokens[self.index - 1]

    def expect(self, kind: str) -> None:
        token = self.take_token()
        if token.kind != kind:
            raise _error(self.source, f"{kind!r} is expected", token)

    def check_end(self) -> None:
        if self.index < len(self.tokens):
            raise _error(self.source, f"{self.tokens[self.index].text!r} is unexpected here", self.tokens[self.index])

    def unknown_function_error(self, token: Token, known_names: Sequence[str]) -> SpecError:
        close = find_closest_name(token.text, known_names)
        hint = f"did you mean {close}?" if close else f"the functions are {', '.join(known_names)}"
        return _error(self.source, f"there is no function {token.text!r}", token, hint)


def _compare(name: str, left: int, right: int) -> bool:
    return {
        "eq": left == right, "ne": left != right, "lt": left < right,
        "le": left <= right, "gt": left > right, "ge": left >= right,
    }[name]  # fmt: skip


def _error(source: str, message: str, token: Token, hint: str = "") -> SpecError:
    return SpecError(message, text=source, span=token.span, hint=hint)
