"""Markdown tables, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["mib", "number", "table"]

_MIB = 1 << 20


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table. The first column is text, the others are numbers."""
    return [
        "| " + " | ".join(header) + " |",
        "|---" + "|--:" * (len(header) - 1) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def number(value: float) -> str:
    """The number with three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def mib(value: float) -> str:
    """Bytes as MiB."""
    return number(max(0, value) / _MIB)
