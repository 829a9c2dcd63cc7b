"""Evaluates conditions on the written members when only some of them are known. In: a condition of the IR and, for some
members, whether they were written. Out: whether the condition holds, or None if that depends on the other members
(Kleene's three-valued logic).

Cost: linear in the condition. Shared parts are visited once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from guided.ir.conditions import AllOf, AnyOf, Condition, Written
from guided.ir.serial import serial

__all__ = ["holds_of_nothing", "impossible", "verdict"]

_MOST = 200_000  # parts that are visited for one condition


def verdict(condition: Condition, known: Mapping[int, bool], other: bool | None) -> bool | None:
    """Whether the condition holds. `other` applies to all members that are not in `known`."""
    results: dict[int, bool | None] = {}

    def of(at: Condition) -> bool | None:
        key = serial(at)
        if key not in results:
            if isinstance(at, Written):
                results[key] = _any_of(known.get(member, other) for member in at.members)
            elif isinstance(at, AllOf):
                results[key] = _negate(_any_of(_negate(of(item)) for item in at.items))
            else:
                found = _any_of(of(item) for item in at.items)
                results[key] = found if isinstance(at, AnyOf) else _negate(found)
        return results[key]

    return of(condition)


def _any_of(parts: Iterable[bool | None]) -> bool | None:
    open_ = False
    for part in parts:
        if part:
            return True
        open_ = open_ or part is None
    return None if open_ else False


def _negate(part: bool | None) -> bool | None:
    return None if part is None else not part


def holds_of_nothing(condition: Condition) -> bool:
    """Whether the condition holds if nothing was written."""
    return verdict(condition, {}, False) is True


def impossible(condition: Condition, slots: Iterable[Iterable[int]], free: Iterable[int]) -> set[int]:
    """Members that no object satisfying the condition can have. Each member is judged by itself.

    `slots`: groups of members, at most one of which is written. `free`: all other members.
    """
    groups = [tuple(slot) for slot in slots] + [(member,) for member in free]
    if sum(map(len, groups)) * _size(condition) > _MOST:
        return set()
    out: set[int] = set()
    for group in groups:
        for member in group:
            if verdict(condition, {other: other == member for other in group}, None) is False:
                out.add(member)
    return out


def _size(condition: Condition) -> int:
    met: set[int] = set()
    work = [condition]
    while work:
        at = work.pop()
        if serial(at) not in met:
            met.add(serial(at))
            if not isinstance(at, Written):
                work += at.items
    return len(met)
