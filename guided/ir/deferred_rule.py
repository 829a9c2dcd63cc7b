"""Rules of a grammar that are compiled when they are first entered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from guided.ir.nodes import Grammar

__all__ = ["DeferredRule"]


@dataclass(frozen=True, slots=True)
class DeferredRule:
    """A rule that is compiled when it is first entered, as a separate grammar.

    Attributes:
        read: returns its grammar, which generates something, but not the empty text. Called on any thread.
        content: identifies it: equal only for equal languages.
        least: an upper bound on the bytes of its shortest text.
    """

    read: Callable[[], Grammar]
    content: bytes
    least: int
