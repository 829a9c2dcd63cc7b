"""Formats JSON Pointers, and groups of them, for messages. In: pointers. Out: a list of at most eight, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.frontends.json_schema.refusing import Groups
from guided.matching.explain.positions import Position

__all__ = ["format_open_parts", "format_pointers", "format_refusals"]

_MAX_POINTERS: Final = 8


def format_open_parts(parts: Sequence[str], positions: Sequence[Position]) -> str:
    """Format the open parts: the pointers into schemas, and the names of rules unless `positions` describes them."""
    return format_pointers([part for part in parts if not positions or "/" in part.partition(" ")[0]])


def format_pointers(pointers: Sequence[str]) -> str:
    """Format JSON Pointers for a message, at most eight."""
    omitted = [f"{len(pointers) - _MAX_POINTERS} more"] if len(pointers) > _MAX_POINTERS else []
    return ", ".join([*(pointer or "(root)" for pointer in pointers[:_MAX_POINTERS]), *omitted])


def format_refusals(groups: Groups) -> str:
    """Format keywords that refuse a text. The keywords of a group refuse it together."""
    refusals = [
        group[0] if len(group) == 1 else f"{format_pointers(group[:-1])} and {format_pointers(group[-1:])} together"
        for group in groups
    ]
    return format_pointers(refusals)
