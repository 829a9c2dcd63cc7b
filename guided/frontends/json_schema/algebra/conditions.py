"""Evaluates conditions on the written members when only some of them are known. In: a condition of the IR and, for some
members, whether they were written. Out: whether the condition holds, or None if that depends on the other members
(Kleene's three-valued logic).

Cost: linear in the condition. Shared parts are visited once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from guided.ir.conditions import AllOf, AnyOf, Condition, Written
from guided.ir.serial import serial

__all__ = ["evaluate", "holds_without_members", "impossible_members"]

_MAX_VISITS = 200_000  # the maximum number of visits to parts of one condition


def evaluate(condition: Condition, truth_values: Mapping[int, bool], other: bool | None) -> bool | None:
    """Whether the condition holds. `other` is the truth value of all members that are not in `truth_values`."""
    results: dict[int, bool | None] = {}

    def evaluate_part(part: Condition) -> bool | None:
        key = serial(part)
        if key not in results:
            if isinstance(part, Written):
                results[key] = _any_of(truth_values.get(member, other) for member in part.members)
            elif isinstance(part, AllOf):
                results[key] = _negate(_any_of(_negate(evaluate_part(item)) for item in part.items))
            else:
                is_any_true = _any_of(evaluate_part(item) for item in part.items)
                results[key] = is_any_true if isinstance(part, AnyOf) else _negate(is_any_true)
        return results[key]

    return evaluate_part(condition)


def _any_of(parts: Iterable[bool | None]) -> bool | None:
    has_unknown = False
    for part in parts:
        if part:
            return True
        has_unknown = has_unknown or part is None
    return None if has_unknown else False


def _negate(part: bool | None) -> bool | None:
    return None if part is None else not part


def holds_without_members(condition: Condition) -> bool:
    """Whether the condition holds if no member was written."""
    return evaluate(condition, {}, False) is True


def impossible_members(condition: Condition, slots: Iterable[Iterable[int]], other_members: Iterable[int]) -> set[int]:
    """Members that no object satisfying the condition can have. Each member is tested alone, so some may be missed.
    Empty if the test would be too expensive.

    `slots`: groups of members, at most one of which is written. `other_members`: all other members.
    """
    groups = [tuple(slot) for slot in slots] + [(member,) for member in other_members]
    if sum(map(len, groups)) * _size(condition) > _MAX_VISITS:
        return set()
    out: set[int] = set()
    for group in groups:
        for member in group:
            if evaluate(condition, {other: other == member for other in group}, None) is False:
                out.add(member)
    return out


def _size(condition: Condition) -> int:
    seen: set[int] = set()
    work = [condition]
    while work:
        part = work.pop()
        if serial(part) not in seen:
            seen.add(serial(part))
            if not isinstance(part, Written):
                work += part.items
    return len(seen)
