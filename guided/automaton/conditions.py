"""Converts a condition on the members of a permutation to the core's form, a list."""

from __future__ import annotations

from typing import Final

from guided.ir.conditions import AllOf, AnyOf, Condition, NoneOf, Written
from guided.ir.serial import serial

__all__ = ["flatten_condition"]

_MAX_CONDITION_DEPTH: Final = 100_000
_CONDITIONS: Final = (Written, AllOf, AnyOf, NoneOf)
"""The kinds of conditions, in the order in which the core numbers them."""


def flatten_condition(condition: Condition) -> list[tuple[int, tuple[int, ...]]]:
    """List a condition and all its parts. Each object occurs once, after its parts.

    An element is (kind, numbers). For `Written`, the numbers are members; otherwise, they are positions of parts in the
    list. The traversal uses an explicit stack, so Python's recursion limit does not apply.
    """
    positions: dict[int, int] = {}
    out: list[tuple[int, tuple[int, ...]]] = []
    stack = [condition]
    while stack:
        current = stack[-1]
        if not isinstance(current, _CONDITIONS):
            raise TypeError("not a condition")
        parts = () if isinstance(current, Written) else current.items
        missing = [part for part in parts if serial(part) not in positions]
        if serial(current) in positions or not missing:
            stack.pop()
            if serial(current) not in positions:
                positions[serial(current)] = len(out)
                numbers = (
                    current.members
                    if isinstance(current, Written)
                    else tuple(positions[serial(part)] for part in parts)
                )
                out.append((_CONDITIONS.index(type(current)), numbers))
        elif len(stack) > _MAX_CONDITION_DEPTH:
            raise ValueError(f"conditions nest deeper than {_MAX_CONDITION_DEPTH}")
        else:
            stack += missing
    return out
