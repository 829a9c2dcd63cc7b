"""Replaces names of tokens by ids. In: a grammar of the IR, and the ids of a name. Out: the grammar with ids.

xgrammar finds a token by the text that it spells, whether or not it is a control token.
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
    """The grammar, with ids instead of names. VocabularyError: no token has this spelling."""
    done: ByIdentity[Any, Any] = ByIdentity()

    def numbers(name: int | str) -> Sequence[int]:
        found = [name] if isinstance(name, int) else ids_of(name)
        if not found:
            raise VocabularyError(f"no token of the vocabulary is spelled {name!r}", token=name)
        return found

    def changed(node: Any) -> Generator[Any, Any, Any]:
        if node not in done:
            if isinstance(node, Special):
                done[node] = alt([Special(number) for number in numbers(node.token)])
            elif isinstance(node, OtherTokens):
                done[node] = OtherTokens(tuple(n for one in node.but for n in numbers(one)), node.min, node.max)
            else:
                done[node] = yield with_children(node, changed)
        return done[node]

    return replace(grammar, rules={name: run(changed(node)) for name, node in grammar.rules.items()})
