"""Lists JSON Pointers, and groups of them, for messages; at most eight. In: pointers. Out: text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.frontends.json_schema.refusing import Groups
from guided.matching.explain.positions import Position

__all__ = ["format_places", "format_pointers", "format_refusals"]

_MAX_POINTERS: Final = 8


def format_places(places: Sequence[str], positions: Sequence[Position]) -> str:
    """The pointers into schemas, and the names of other rules if these have no positions, for a message."""
    return format_pointers([place for place in places if not positions or "/" in place.partition(" ")[0]])


def format_pointers(pointers: Sequence[str]) -> str:
    """JSON Pointers for a message, eight at most."""
    omitted = [f"{len(pointers) - _MAX_POINTERS} more"] if len(pointers) > _MAX_POINTERS else []
    return ", ".join([*(pointer or "(root)" for pointer in pointers[:_MAX_POINTERS]), *omitted])


def format_refusals(groups: Groups) -> str:
    """Keywords that refuse a text, for a message; the keywords of a group refuse it together."""
    refusals = [
        group[0] if len(group) == 1 else f"{format_pointers(group[:-1])} and {format_pointers(group[-1:])} together"
        for group in groups
    ]
    return format_pointers(refusals)
