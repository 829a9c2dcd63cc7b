"""Compiled grammars, matchers, and token bitmasks."""

from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens, fill_batch
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.explain.explanation import ExpectedText, Explanation
from guided.matching.matcher import GrammarMatcher
from guided.matching.output_masks import Masks, masks_of

__all__ = [
    "CompiledGrammar",
    "ExpectedText",
    "Explanation",
    "GrammarCompiler",
    "GrammarMatcher",
    "Masks",
    "allocate_token_bitmask",
    "allowed_tokens",
    "fill_batch",
    "masks_of",
]
