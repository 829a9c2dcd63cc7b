"""The public names of xgrammar's module `matcher`."""

from __future__ import annotations

from typing import Any

from guided.compat.xgrammar.batch import BatchGrammarMatcher
from guided.compat.xgrammar.bitmask import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    get_bitmask_shape,
    reset_token_bitmask,
)
from guided.compat.xgrammar.grammar_matcher import GrammarMatcher
from guided.compat.xgrammar.packages import import_optional

__all__ = [
    "BatchGrammarMatcher",
    "GrammarMatcher",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "get_bitmask_shape",
    "reset_token_bitmask",
]


def __getattr__(name: str) -> Any:
    """Return `bitmask_dtype`, which needs torch."""
    if name == "bitmask_dtype":
        return import_optional("torch").int32
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
