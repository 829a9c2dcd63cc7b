"""An extraction task, and short functions that build its schema.

Every object is closed and requires all its members. Strings and arrays have a longest length and integers have bounds,
so the longest answer is bounded except for the digits of a number and of a second's fraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    *("Task", "array", "boolean", "choice", "clock_time", "closed_object", "date", "email", "integer", "nullable"),
    *("number", "text", "utc_time"),
]

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """A text, the schema of what to extract from it, and the right answer.

    Attributes:
        name: a unique name that describes the task.
        text: the message to read.
        schema: the JSON Schema of the answer.
        answer: the right value for each leaf of the schema. A tuple means that any of its values is right.
    """

    name: str
    text: str
    schema: dict[str, Any]
    answer: dict[str, Any]


def text(most: int = 40, about: str = "") -> Schema:
    """Return the schema of a string of at most `most` characters; `about` is its description."""
    return _described({"type": "string", "maxLength": most}, about)


def integer(low: int, high: int, about: str = "") -> Schema:
    """Return the schema of an integer from `low` to `high`."""
    return _described({"type": "integer", "minimum": low, "maximum": high}, about)


def number(low: int, high: int, about: str = "") -> Schema:
    """Return the schema of a number from `low` to `high`."""
    return _described({"type": "number", "minimum": low, "maximum": high}, about)


def boolean(about: str = "") -> Schema:
    """Return the schema of true or false."""
    return _described({"type": "boolean"}, about)


def choice(*values: str, about: str = "") -> Schema:
    """Return the schema of a string that is one of `values`."""
    return _described({"type": "string", "enum": list(values)}, about)


def date(about: str = "") -> Schema:
    """Return the schema of a date: YYYY-MM-DD."""
    return _described({"type": "string", "format": "date"}, about)


def utc_time(about: str = "") -> Schema:
    """Return the schema of a time with seconds and an offset, such as 09:30:00Z."""
    return _described({"type": "string", "format": "time"}, about)


def clock_time(about: str = "") -> Schema:
    """Return the schema of a local time: HH:MM. The format `time` would require an offset."""
    return _described({"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}, about)


def email(about: str = "") -> Schema:
    """Return the schema of an e-mail address."""
    return _described({"type": "string", "format": "email", "maxLength": 60}, about)


def nullable(schema: Schema) -> Schema:
    """Return a schema that accepts null too: through `anyOf` for an enum, otherwise through a list of types."""
    if "enum" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def array(items: Schema, most: int = 4, about: str = "") -> Schema:
    """Return the schema of an array of at most `most` items."""
    return _described({"type": "array", "items": items, "maxItems": most}, about)


def closed_object(**members: Schema) -> Schema:
    """Return the schema of an object with exactly these members."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def _described(schema: Schema, about: str) -> Schema:
    return {**schema, "description": about} if about else schema
