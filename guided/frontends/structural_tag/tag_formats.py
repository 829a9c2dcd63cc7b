"""Writes formats of structural tags as JSON, for `tool_styles.py`. In: formats and texts. Out: formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

__all__ = [
    "Json", "begins_of", "const_string", "cut_overlaps", "one_of", "sequence", "tags_with_separator", "to_formats",
    "triggered_begins",
]  # fmt: skip

Json: TypeAlias = dict[str, Any]


def tags_with_separator(tags: list[Json], separator: str, only_one_call: bool) -> Json:
    """Tags, at least one. `only_one_call`: exactly one."""
    return {
        "type": "tags_with_separator", "tags": tags, "separator": separator, "at_least_one": True,
        "stop_after_first": only_one_call,
    }  # fmt: skip


def to_formats(parts: Sequence[tuple[str, bool]]) -> list[Json]:
    """Texts and patterns as formats."""
    return [
        {"type": "regex", "pattern": text} if is_pattern else const_string(text) for text, is_pattern in parts if text
    ]


def sequence(elements: list[Json]) -> Json:
    """These formats in order."""
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}


def const_string(value: str) -> Json:
    """Exactly this text."""
    return {"type": "const_string", "value": value}


def one_of(elements: list[Json]) -> Json:
    """One of these formats."""
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": elements}


def begins_of(tag: Json) -> list[str]:
    """The texts with which a tag may begin."""
    return tag["begin"] if isinstance(tag["begin"], list) else [tag["begin"]]


def triggered_begins(tag: Json, triggers: Sequence[str]) -> str | list[str]:
    """The begins of a tag that start with a trigger."""
    begins = [begin for begin in begins_of(tag) if begin.startswith(tuple(triggers))]
    return begins[0] if len(begins) == 1 else begins


def cut_overlaps(triggers: Sequence[str]) -> list[str]:
    """The strings that free text must not contain, so that the first trigger in an answer is the begin of a call.

    These strings are the triggers. But if a suffix of a trigger is also a prefix of one, the string is only the part
    before this suffix: after free text that ends with this part, the begin of a call could complete a trigger.
    """
    prefixes = {trigger[:length] for trigger in triggers for length in range(1, len(trigger) + 1)}
    lengths = [
        next((index for index in range(1, len(trigger)) if trigger[index:] in prefixes), len(trigger))
        for trigger in triggers
    ]
    return [trigger[:length] for trigger, length in zip(triggers, lengths, strict=True)]
