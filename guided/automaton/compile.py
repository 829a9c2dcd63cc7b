"""Compiles a grammar of any kind with the native core: rules over bytes, with a lexer, or composed of such grammars.

In: an IR grammar. Out: the core's compiled grammar. `build.py`, `build_lexer.py` and `build_composed.py` handle the
three kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from guided.automaton import _core
from guided.automaton.build import compile_native
from guided.automaton.build_composed import compile_composed
from guided.automaton.build_lexer import compile_lexed
from guided.ir.nodes import Grammar
from guided.limits import Limits

__all__ = ["compile_grammar"]


def compile_grammar(
    grammar: Grammar,
    vocabulary: _core.TokenVocabulary,
    *,
    limits: Limits,
    special_ids: Mapping[str, Collection[int]],
    end_tokens: Collection[int],
    text_ids: Callable[[], frozenset[int]],
) -> _core.Compiled:
    """Compile `grammar` for `vocabulary`. The arguments and errors are the same as for `compile_native`."""

    def part(grammar: Grammar) -> _core.Compiled:
        if isinstance(grammar, Grammar) and grammar.lexer is not None:
            return compile_lexed(grammar, grammar.lexer, vocabulary, limits)
        return compile_native(
            grammar, vocabulary, limits=limits, special_ids=special_ids, end_tokens=end_tokens, text_ids=text_ids
        )

    if isinstance(grammar, Grammar) and grammar.composed:
        return compile_composed(grammar, part, vocabulary, limits)
    return part(grammar)
