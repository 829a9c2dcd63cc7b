"""Expresses atomic groups and possessive quantifiers as lookarounds. `(?>X)` allows only the first way in which X
matches.

In: a tree that keeps the order of preference. Out: a tree for exactly the first way, or None if the laws below do not
apply.

- If the language of X is prefix-free (no string in it is a proper prefix of another), X matches in at most one way:
  `(?>X) = X`.
- `(?>A|B) = (?>A) | (?!A)(?>B)`. Example: `(?>a|ab)c` is `ac`, because if a matches, ab is never tried.
- `(?>AB) = A(?>B)` if A is prefix-free. `(?>AB) = (?>A)(?>B)` if B may be empty and has no lookarounds: then B can
  follow every match of A. So `(?>ABC) = (?>A)(?>B)(?>C)` if B and C may be empty.
- `(?>A{m,n}) = A{m,n-1}(?!A) | A{n}` if A is prefix-free and never empty. `(?>A{m,n}?) = A{m}`.

Derivatives decide whether a language is prefix-free, assuming that all lookarounds hold. The language is then a
superset of the true one, so a "yes" is correct. Cost: at most `_MAX_DERIVATIVES` derivatives for each decision. Larger
trees count as not prefix-free and as never empty, so the laws do not apply to them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from guided.ir.nodes import EMPTY, EPSILON, Alt, Chars, Node, Repeat, Seq, Text

from .algebra import run
from .derivatives import EMPTY_LANGUAGE, Terms, TooLarge
from .tree import (
    TREE_NODES,
    Cat,
    Lookaround,
    Or,
    Times,
    Tree,
    cat,
    contains_lookaround,
    erase_order,
    is_ir_node,
    make_alternation,
    make_lookaround,
    make_repetition,
)

__all__ = ["is_prefix_free", "lower_atomic_group"]

_MAX_DERIVATIVES = 500


def lower_atomic_group(tree: Tree, span: tuple[int, int]) -> Tree | None:
    """A tree for (?>tree), or None if the laws at the head of this file do not apply."""
    return run(_lower_atomic_group(tree, span))


def _lower_atomic_group(tree: Tree, span: tuple[int, int]) -> Generator[Any, Any, Tree | None]:
    if is_prefix_free(tree):
        return tree
    match tree:
        case Or(items):
            result: Tree | None = yield _lower_atomic_group(items[-1], span)
            for branch in reversed(items[:-1]):
                atomic_branch = yield _lower_atomic_group(branch, span)
                if atomic_branch is None or result is None:
                    return None
                no_match_ahead = make_lookaround(branch, ahead=True, negative=True, span=span)
                result = make_alternation([atomic_branch, cat([no_match_ahead, result])], ordered=True)
            return result
        case Cat(items) | Seq(items):
            head = 0
            while head < len(items) - 1 and is_prefix_free(items[head]):
                head += 1
            if any(contains_lookaround(item) or not _is_nullable(item) for item in items[head + 1 :]):
                return None
            atomic_items = list(items[:head])
            for item in items[head:]:
                atomic_item = yield _lower_atomic_group(item, span)
                if atomic_item is None:
                    return None
                atomic_items.append(atomic_item)
            return cat(atomic_items)
        case Times(item, low, high, lazy, _):
            if not is_prefix_free(item) or _is_nullable(item):
                return EPSILON if lazy and low == 0 else None
            if lazy or low == high:
                return make_repetition(item, low, low, lazy=False, span=span, ordered=True)
            no_match_ahead = make_lookaround(item, ahead=True, negative=True, span=span)
            fewer_rounds = make_repetition(
                item, low, None if high is None else high - 1, lazy=False, span=span, ordered=True
            )
            maximal_repeat = cat([fewer_rounds, no_match_ahead])
            if high is None:
                return maximal_repeat
            return make_alternation(
                [maximal_repeat, make_repetition(item, high, high, lazy=False, span=span, ordered=True)], ordered=True
            )
        case _:
            return None


def _make_superset(tree: Tree) -> Node:
    """A node for a superset of the tree's language: all lookarounds are assumed to hold."""
    todo, size = [tree], 0
    while todo:  # nested groups examine the same parts repeatedly, so only small parts are examined
        size += 1
        part = todo.pop()
        todo.extend(part.items if isinstance(part, (Cat, Or)) else [part.item] if isinstance(part, Times) else [])
        if size > 20 * _MAX_DERIVATIVES:
            raise TooLarge(20 * _MAX_DERIVATIVES)
    node = erase_order(tree, skip_lookarounds=True)
    assert not isinstance(node, TREE_NODES)
    return node


def _is_nullable(tree: Tree) -> bool:
    """Whether the superset of the tree's language has the empty string. False if the tree is too large."""

    def visit(node: Node) -> Generator[Any, Any, bool]:
        match node:
            case Seq(items):
                for item in items:
                    if not (yield visit(item)):
                        return False
                return True
            case Alt(items):
                for item in items:
                    if (yield visit(item)):
                        return True
            case Repeat(item, low, _):
                return low == 0 or bool((yield visit(item)))
        return False

    try:
        return run(visit(_make_superset(tree)))
    except TooLarge:
        return False


def is_prefix_free(tree: Tree) -> bool:
    """Whether no string of the tree's language is a proper prefix of another one. False may also mean "unknown"."""
    if isinstance(tree, (Chars, Text, Lookaround)) or (is_ir_node(tree) and tree in (EPSILON, EMPTY)):
        return True
    terms = Terms(limit=20 * _MAX_DERIVATIVES)
    try:
        start = terms.read(_make_superset(tree))
        todo, seen = [start], {start}
        while todo:
            term = todo.pop()
            for block in terms.blocks(term):
                target = terms.derive(term, block[0][0])
                if target == EMPTY_LANGUAGE:
                    continue
                if terms.nullable[term]:
                    return False
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
            if len(seen) > _MAX_DERIVATIVES:
                return False
    except TooLarge:
        return False
    return True
