"""The cost limit of one rendering: templates are untrusted, and may try to hang or to exhaust the memory.

The unit is one character that a template reads or creates; about twenty take a microsecond. Every block of statements
is charged for its nodes when it is entered. Every operation that may take long, or whose result may be large, is also
charged before it begins: a loop for its items, a join or a repetition for its result, a comparison or a filter for all
the data it may read. So the cost does not depend on the machine, and a refused template is refused everywhere. The
budget grows with the conversation, so a normal template fits at any size: templates in use are charged at most about
twenty times the size of the conversation, unless they read all messages again for each message.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from types import MethodType
from typing import Any, Final

from guided.errors import LimitExceeded

__all__ = [
    "CALL",
    "MAX_CALLS",
    "NODE",
    "STEP",
    "charge",
    "charge_all",
    "charge_items",
    "limit_rendering",
    "nested_call",
]

_BASE_BUDGET: Final = 64_000_000
_FACTOR: Final = 64
STEP: Final = 16  # the charge for a loop step or a visited value
CALL: Final = 128  # the charge for a call, or for an item that a filter passes to a function
NODE: Final = 12  # the charge for a node of the template's syntax tree
MAX_CALLS: Final = 100  # nested calls
_CONTAINERS: Final = (list, tuple, dict, set, frozenset, Mapping, KeysView, ValuesView, ItemsView)
_INFINITE_COST: Final = 1 << 1000  # more than any budget, and the cost of a value that contains itself


class _Meter:
    """The remaining budget, and the depth of nested calls."""

    __slots__ = ("budget", "depth", "remaining")

    def __init__(self, budget: int) -> None:
        self.budget = self.remaining = budget
        self.depth = 0


_METER: ContextVar[_Meter | None] = ContextVar("guided_chat_meter", default=None)


@contextmanager
def limit_rendering(size: int) -> Iterator[None]:
    """Set the budget for a conversation of `size` characters and values. An outer budget takes precedence."""
    if _METER.get() is not None:
        yield
        return
    token = _METER.set(_Meter(_BASE_BUDGET + _FACTOR * size))
    try:
        yield
    finally:
        _METER.reset(token)


def charge(amount: int) -> None:
    """Charge the budget. Does nothing outside `limit_rendering`.

    Raises:
        LimitExceeded: the budget is exhausted.
    """
    meter = _METER.get()
    if meter is None:
        return
    meter.remaining -= amount
    if meter.remaining < 0:
        raise _limit_error("work of the chat template", meter.budget - meter.remaining, meter.budget)


@contextmanager
def nested_call() -> Iterator[None]:
    """Count a nested call. Raises LimitExceeded if more than `MAX_CALLS` calls are nested."""
    meter = _METER.get()
    if meter is None:
        yield
        return
    charge(CALL)
    meter.depth += 1
    try:
        if meter.depth > MAX_CALLS:
            raise _limit_error("nested calls in the chat template", meter.depth, MAX_CALLS)
        yield
    finally:
        meter.depth -= 1


def _limit_error(limit: str, given: int, allowed: int) -> LimitExceeded:
    return LimitExceeded(limit, given, allowed, fixed=True, hint="use another chat template, or a shorter conversation")


def charge_items(value: Any, amount: int = STEP) -> Any:
    """Charge for the items that a loop will iterate over, and return them. An iterator is read to its end first.

    `amount`: the charge for an item, at least `STEP`.
    """
    amount = max(amount, STEP)
    try:
        charge(amount * (len(value) + 1))
    except TypeError:
        out = []
        for item in value:
            charge(amount)
            out.append(item)
        return out
    return value


def charge_all(value: Any) -> Any:
    """Charge for a value and all its contents before it is compared, printed or traversed. Returns the value."""
    meter = _METER.get()
    if meter is not None:
        charge(min(_compute_cost(value, meter.remaining), meter.remaining + 1))
    return value


def _compute_cost(value: Any, max_cost: int) -> int:
    """The charge for a value and all its contents, or some amount above `max_cost`.

    A container is charged at each occurrence but visited only once, since n steps of `x = [x, x]` make a value of 2^n
    parts.
    """
    if not isinstance(value, _CONTAINERS):
        return _compute_leaf_cost(value)
    costs, parts_of, pending, visited_count = dict[int, int](), dict[int, list[Any]](), [value], 0
    while pending:
        container = pending.pop()
        if id(container) not in costs:
            parts_of[id(container)] = parts = (
                [*container, *container.values()] if isinstance(container, Mapping) else [*container]
            )
            costs[id(container)] = (
                _INFINITE_COST  # until all its parts are visited; a container that contains itself keeps this cost
            )
            visited_count += len(parts)
            if visited_count * STEP > max_cost:
                return _INFINITE_COST
            pending.append(container)
            pending += [part for part in parts if isinstance(part, _CONTAINERS) and id(part) not in costs]
        elif costs[id(container)] == _INFINITE_COST:
            costs[id(container)] = STEP + sum(
                costs[id(part)] if isinstance(part, _CONTAINERS) else _compute_leaf_cost(part)
                for part in parts_of[id(container)]
            )
    return costs[id(value)]


def _compute_leaf_cost(value: Any) -> int:
    if isinstance(value, MethodType):  # it is printed with the text to which it belongs
        value = value.__self__
    return STEP + (len(value) if isinstance(value, str) else STEP * len(value) if isinstance(value, range) else 0)
