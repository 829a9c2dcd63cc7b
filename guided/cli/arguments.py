"""Argument types for `argparse`. Their errors say which values are valid."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

__all__ = ["bias", "ids", "integer", "real"]


def integer(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    """An argument type: integers from `minimum` to `maximum`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
        if number < minimum:
            raise argparse.ArgumentTypeError(f"{number} is less than {minimum}")
        if maximum is not None and number > maximum:
            raise argparse.ArgumentTypeError(f"{number} is more than {maximum}")
        return number

    return read


def real(minimum: float, maximum: float = math.inf) -> Callable[[str], float]:
    """An argument type: finite numbers from `minimum` to `maximum`."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not math.isfinite(number):
            raise argparse.ArgumentTypeError(f"{text} is not a finite number")
        if not minimum <= number <= maximum:
            expected = f"at least {minimum:g}" if maximum == math.inf else f"between {minimum:g} and {maximum:g}"
            raise argparse.ArgumentTypeError(f"{text} is not {expected}")
        return number

    return read


def ids(text: str) -> list[int]:
    """Token ids, separated by commas."""
    return [integer(0)(part.strip()) for part in text.split(",")]


def bias(text: str) -> tuple[int, float]:
    """A token id and its bias, as ID=BIAS."""
    id, sign, number = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form ID=BIAS, such as 17=-5")
    return integer(0)(id), real(-100, 100)(number)
