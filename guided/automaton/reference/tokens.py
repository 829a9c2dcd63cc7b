"""`OtherTokens` in the reference implementation: each one is replaced by a list of its tokens.

In: a grammar, the ids that have text, the names of control tokens. Out: the grammar without `OtherTokens`. A node
that contains none remains the same object. Cost: linear in the grammar, and in the vocabulary for each `OtherTokens`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any

from guided.errors import VocabularyError
from guided.ir.nodes import Alt, Dispatch, Distinct, Entry, Grammar, Member, OtherTokens, Permutation, Repeat, Seq
from guided.ir.serial import ByIdentity
from guided.ir.tokens import other_tokens

__all__ = ["without_other_tokens"]

_CONTAINERS = (Seq, Alt, Repeat, Permutation, Member, Dispatch, Distinct, Entry)
_PARTS = ("item", "items", "members", "separator")


def without_other_tokens(grammar: Grammar, text_ids: Collection[int], special_tokens: Mapping[int, str]) -> Grammar:
    """The grammar with each `OtherTokens` replaced by a list of the tokens that it allows in a vocabulary."""
    done: ByIdentity[Any, Any] = ByIdentity()

    def ids(token: int | str) -> Collection[int]:
        found = [token] if isinstance(token, int) else [id for id, name in special_tokens.items() if name == token]
        if not found:
            raise VocabularyError(f"the vocabulary has no control token {token!r}")
        return found

    def rewrite(node: Any) -> Any:
        if node not in done:
            done[node] = rewrite_uncached(node)
        return done[node]

    def rewrite_uncached(node: Any) -> Any:
        if isinstance(node, OtherTokens):
            return other_tokens(node, {id for token in node.but for id in ids(token)}, text_ids)
        if isinstance(node, tuple):
            parts = tuple([rewrite(part) for part in node])
            return node if all(new is old for new, old in zip(parts, node, strict=True)) else parts
        if isinstance(node, _CONTAINERS):
            old = {part.name: getattr(node, part.name) for part in fields(node) if part.name in _PARTS}
            new = {name: rewrite(part) for name, part in old.items()}
            return node if all(new[name] is old[name] for name in old) else replace(node, **new)
        return node

    return replace(grammar, rules={name: rewrite(node) for name, node in grammar.rules.items()})
