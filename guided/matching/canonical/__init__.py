"""Canonical tokens: masks that admit only what the tokenizer itself would write."""

from guided.matching.canonical.matcher import CanonicalMatcher
from guided.matching.canonical.spelling import spelling_of

__all__ = ["CanonicalMatcher", "spelling_of"]
