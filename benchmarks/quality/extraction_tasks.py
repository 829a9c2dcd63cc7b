"""Forty extraction tasks, and a function that says which fields of an answer are right.

The tasks are ten invoices and offers, ten log lines and machine messages, ten e-mails, and ten notes and reviews. Five
texts are in German, Polish, French, Portuguese and Spanish; the members of their schemas have English names.

The answers follow conventions that the prompt should state. Names, numbers and wording are copied from the text in its
own language. Dates are YYYY-MM-DD and local times HH:MM. Amounts are numbers without a currency. Lists keep the order
of the text. A member is null if the text does not mention it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from benchmarks.quality.emails import EMAILS
from benchmarks.quality.invoices import INVOICES
from benchmarks.quality.machine_messages import MACHINE_MESSAGES
from benchmarks.quality.notes import NOTES
from benchmarks.quality.task import Task

__all__ = ["TASKS", "Task", "right_fields"]

TASKS: Final[list[Task]] = [*INVOICES, *MACHINE_MESSAGES, *EMAILS, *NOTES]
_MISSING: Final = object()


def right_fields(answer: Any, value: Any) -> dict[str, bool]:
    """Return for the JSON Pointer of each leaf of `answer` whether `value` has the right value there.

    Strings are compared in small letters, without surrounding whitespace and without a final period. Numbers are
    compared by value, so 5 equals 5.0, but true does not equal 1. A missing leaf is wrong, and null equals only null.
    Lists are compared position by position: each extra item adds one wrong leaf with the pointer of the item. An empty
    list in `answer` is one leaf unless `value` has extra items there. Extra members of objects are ignored.

    Args:
        answer: the right value, as in `Task.answer`. A tuple means that any of its values is right.
        value: the value to judge, as `json.loads` returns it.
    """
    return dict(_judge(answer, value, ""))


def _judge(answer: Any, value: Any, pointer: str) -> Iterator[tuple[str, bool]]:
    if isinstance(answer, dict):
        members = value if isinstance(value, dict) else {}
        for name, expected in answer.items():
            escaped = name.replace("~", "~0").replace("/", "~1")
            yield from _judge(expected, members.get(name, _MISSING), f"{pointer}/{escaped}")
    elif isinstance(answer, list):
        yield from _judge_items(answer, value, pointer)
    else:
        alternatives = answer if isinstance(answer, tuple) else (answer,)
        yield pointer, any(_is_equal(expected, value) for expected in alternatives)


def _judge_items(answer: list[Any], value: Any, pointer: str) -> Iterator[tuple[str, bool]]:
    items = value if isinstance(value, list) else []
    for at, expected in enumerate(answer):
        yield from _judge(expected, items[at] if at < len(items) else _MISSING, f"{pointer}/{at}")
    for at in range(len(answer), len(items)):
        yield f"{pointer}/{at}", False
    if not answer and not items:
        yield pointer, isinstance(value, list)


def _is_equal(expected: Any, value: Any) -> bool:
    if isinstance(expected, str) and isinstance(value, str):
        return _normalize(expected) == _normalize(value)
    if isinstance(expected, bool) or isinstance(value, bool) or expected is None:
        return expected is value
    return isinstance(value, int | float) and bool(expected == value)


def _normalize(value: str) -> str:
    return value.strip().removesuffix(".").rstrip().lower()
