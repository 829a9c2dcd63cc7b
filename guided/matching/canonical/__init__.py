"""Canonical tokens: masks that allow only the tokens that the tokenizer itself would produce."""

from guided.matching.canonical.matcher import CanonicalMatcher
from guided.matching.canonical.spelling import is_spelling_known, spelling_of

__all__ = ["CanonicalMatcher", "is_spelling_known", "spelling_of"]
