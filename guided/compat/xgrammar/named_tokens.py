"""Replaces token names by ids. In: a grammar in the IR, and a function from names to ids. Out: the grammar with ids.

xgrammar finds a token by its text, whether or not it is a control token.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from guided.errors import VocabularyError
from guided.frontends.common.rule_table import with_children
from guided.frontends.regex.algebra import alt, run
from guided.ir.nodes import Grammar, OtherTokens, Special
from guided.ir.serial import ByIdentity

__all__ = ["with_token_ids"]


def with_token_ids(grammar: Grammar, ids_of: Callable[[str], Sequence[int]]) -> Grammar:
    """The grammar with ids instead of names. VocabularyError: no token has this name."""
    replaced: ByIdentity[Any, Any] = ByIdentity()

    def to_ids(name: int | str) -> Sequence[int]:
        found = [name] if isinstance(name, int) else ids_of(name)
        if not found:
            raise VocabularyError(f"no token of the vocabulary is spelled {name!r}", token=name)
        return found

    def replace_node(node: Any) -> Generator[Any, Any, Any]:
        if node not in replaced:
            if isinstance(node, Special):
                replaced[node] = alt([Special(number) for number in to_ids(node.token)])
            elif isinstance(node, OtherTokens):
                replaced[node] = OtherTokens(tuple(n for one in node.but for n in to_ids(one)), node.min, node.max)
            else:
                replaced[node] = yield with_children(node, replace_node)
        return replaced[node]

    return replace(grammar, rules={name: run(replace_node(node)) for name, node in grammar.rules.items()})
