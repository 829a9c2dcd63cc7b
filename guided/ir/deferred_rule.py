"""Rules of a grammar that are compiled when they are first entered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from guided.ir.nodes import Grammar

__all__ = ["DeferredRule"]


@dataclass(frozen=True, slots=True)
class DeferredRule:
    """A rule that is compiled when it is first entered, as a grammar of its own.

    Attributes:
        read: gives its grammar, which generates something, and no empty text. Called on any thread.
        content: what stands for it: equal only for equal languages.
        least: its shortest text has at most so many bytes.
    """

    read: Callable[[], Grammar]
    content: bytes
    least: int
