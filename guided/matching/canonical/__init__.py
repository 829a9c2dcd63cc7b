"""Canonical tokens: masks that allow only the tokens that the tokenizer itself would produce."""

from guided.matching.canonical.matcher import CanonicalMatcher
from guided.matching.canonical.spelling import spelling_of

__all__ = ["CanonicalMatcher", "spelling_of"]
