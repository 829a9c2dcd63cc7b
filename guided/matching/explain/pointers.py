"""Formats lists for messages: JSON Pointers, groups of them, rule names. Out: at most eight items, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.frontends.json_schema.refusing import Groups
from guided.matching.explain.positions import Position

__all__ = ["format_list", "format_open_parts", "format_refusals"]

_MAX_ITEMS: Final = 8


def format_open_parts(parts: Sequence[str], positions: Sequence[Position]) -> str:
    """Format the unfinished parts of the specification (`Explanation.places`): all pointers into schemas, and the names
    of rules if `positions` is empty."""
    return format_list([part for part in parts if not positions or "/" in part.partition(" ")[0]])


def format_list(items: Sequence[str]) -> str:
    """Format the items of a list for a message, at most eight. An empty pointer is shown as `(root)`."""
    omitted = [f"{len(items) - _MAX_ITEMS} more"] if len(items) > _MAX_ITEMS else []
    return ", ".join([*(item or "(root)" for item in items[:_MAX_ITEMS]), *omitted])


def format_refusals(groups: Groups) -> str:
    """Format keywords that refuse a text. The keywords of a group refuse it together."""
    refusals = [
        group[0] if len(group) == 1 else f"{format_list(group[:-1])} and {format_list(group[-1:])} together"
        for group in groups
    ]
    return format_list(refusals)
