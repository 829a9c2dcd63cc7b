"""The values of a `Flag` in JSON: integers. In: a subclass of `enum.Flag`. Out: its values, and their schema.

A value is a combination of members: the bitwise or of any of them, and 0 for none. The boundary of the class (such as
KEEP, the default of IntFlag) does not matter, since a combination of members has no other bits. Flags whose bits are
adjacent allow a range of integers, so they may have any number of members. Others may have at most 256 values.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import Any

from guided.errors import UnsupportedError

__all__ = ["flag_schema", "flag_values"]

_MAX_VALUES = 256


def flag_values(flag: type[enum.Flag]) -> Collection[int]:
    """The values of a flag, in ascending order.

    Raises:
        UnsupportedError: there are too many.
    """
    masks = {member.value for member in flag.__members__.values()}
    singles = {mask for mask in masks if mask > 0 and mask & (mask - 1) == 0}
    if singles == {1 << bit for bit in range(len(singles))} and all(0 <= mask <= sum(singles) for mask in masks):
        return range(sum(singles) + 1)
    values = {0}
    for mask in masks:
        values |= {value | mask for value in values}
        if len(values) > _MAX_VALUES:
            message = f"{flag.__name__}: its members have more than {_MAX_VALUES} combinations"
            raise UnsupportedError(message, hint="give its members adjacent bits, as auto() does, or use a set[Enum]")
    return sorted(values)


def flag_schema(flag: type[enum.Flag]) -> dict[str, Any]:
    """The schema of the values of a flag."""
    values = flag_values(flag)
    if isinstance(values, range) and len(values) > _MAX_VALUES:
        return {"type": "integer", "minimum": 0, "maximum": values[-1]}
    return {"enum": list(values)}
