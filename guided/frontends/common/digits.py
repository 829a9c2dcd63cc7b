"""Recognizes numbers in the notations that allow only the digits 0 to 9."""

from __future__ import annotations

__all__ = ["is_number"]


def is_number(text: str) -> bool:
    """Whether a text consists of the digits 0 to 9. `str.isdigit` also accepts digits such as ² and ٣."""
    return text.isascii() and text.isdigit()
