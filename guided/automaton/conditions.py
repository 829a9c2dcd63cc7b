"""Conditions on members of a permutation, in the core's form. In: a condition. Out: a list of it and its parts."""

from __future__ import annotations

from typing import Final

from guided.ir.conditions import AllOf, AnyOf, Condition, NoneOf, Written
from guided.ir.serial import serial

__all__ = ["flattened"]

_MAX_CONDITION_DEPTH: Final = 100_000
_CONDITIONS: Final = (Written, AllOf, AnyOf, NoneOf)
"""The position of a class is the number of this kind of condition in the core."""


def flattened(condition: Condition) -> list[tuple[int, tuple[int, ...]]]:
    """A condition and all its parts as one list, each object once, parts before the conditions that contain them.

    An element is (kind, numbers). The numbers are members for `Written`, and otherwise positions of parts in the list.
    The traversal uses an explicit stack, so a condition may be nested more deeply than Python's calls.
    """
    positions: dict[int, int] = {}
    out: list[tuple[int, tuple[int, ...]]] = []
    open_ = [condition]
    while open_:
        at = open_[-1]
        if not isinstance(at, _CONDITIONS):
            raise TypeError("not a condition")
        parts = () if isinstance(at, Written) else at.items
        missing = [part for part in parts if serial(part) not in positions]
        if serial(at) in positions or not missing:
            open_.pop()
            if serial(at) not in positions:
                positions[serial(at)] = len(out)
                numbers = at.members if isinstance(at, Written) else tuple(positions[serial(part)] for part in parts)
                out.append((_CONDITIONS.index(type(at)), numbers))
        elif len(open_) > _MAX_CONDITION_DEPTH:
            raise ValueError(f"conditions nest deeper than {_MAX_CONDITION_DEPTH}")
        else:
            open_ += missing
    return out
