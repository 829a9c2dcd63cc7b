"""Compiled grammars, matchers, and token bitmasks."""

from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens, fill_batch
from guided.matching.compiler import CompiledGrammar, GrammarCompiler
from guided.matching.matcher import Explanation, GrammarMatcher

__all__ = [
    "CompiledGrammar",
    "Explanation",
    "GrammarCompiler",
    "GrammarMatcher",
    "allocate_token_bitmask",
    "allowed_tokens",
    "fill_batch",
]
