"""Atomic groups and possessive quantifiers as lookarounds. `(?>X)` matches only the first way in which X matches.

In: a tree that keeps the order of preference. Out: a tree for exactly the first way, or None if the laws below do not
apply.

- If the language of X is prefix-free (no string of it begins another one), X matches in at most one way: `(?>X) = X`.
- `(?>A|B) = (?>A) | (?!A)(?>B)`. Example: `(?>a|ab)c` is `ac`, because if a matches, ab is never tried.
- `(?>AB) = A(?>B)` for prefix-free A. `(?>AB) = (?>A)(?>B)` for B that may be empty and has no lookarounds: every match
  of A can then continue.
- `(?>A{m,n}) = A{m,n-1}(?!A) | A{n}` for prefix-free A that is never empty. If it is lazy, it is `A{m}`.

Derivatives decide whether a language is prefix-free, with lookarounds assumed to be satisfied. That is a superset, so
the answer "yes" is correct. Cost: at most `_MAX_DERIVATIVES` derivatives for each decision.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from guided.ir.nodes import EMPTY, EPSILON, Chars, Node, Seq, Text

from .algebra import run
from .derivatives import Terms, TooLarge
from .tree import (
    Cat,
    Lookaround,
    Or,
    Times,
    Tree,
    cat,
    contains_lookaround,
    erase,
    is_plain,
    make_alternation,
    make_lookaround,
    times,
)

__all__ = ["atomic"]

_MAX_DERIVATIVES = 500


def atomic(tree: Tree, span: tuple[int, int]) -> Tree | None:
    """The tree of (?>tree), or None if the laws do not apply."""
    return run(_atomic(tree, span))


def _atomic(tree: Tree, span: tuple[int, int]) -> Generator[Any, Any, Tree | None]:
    if _is_prefix_free(tree):
        return tree
    match tree:
        case Or(items):
            result: Tree | None = yield _atomic(items[-1], span)
            for branch in reversed(items[:-1]):
                first = yield _atomic(branch, span)
                if first is None or result is None:
                    return None
                no_match_ahead = make_lookaround(branch, ahead=True, negative=True, span=span)
                result = make_alternation([first, cat([no_match_ahead, result])], ordered=True)
            return result
        case Cat(items) | Seq(items):
            head = 0
            while head < len(items) - 1 and _is_prefix_free(items[head]):
                head += 1
            tail = cat(items[head + 1 :])
            if tail != EPSILON and (contains_lookaround(tail) or not _is_nullable(tail)):
                return None
            first = yield _atomic(items[head], span)
            rest = EPSILON if first is None or tail == EPSILON else (yield _atomic(tail, span))
            return None if first is None or rest is None else cat([*items[:head], first, rest])
        case Times(item, low, high, lazy, _):
            if not _is_prefix_free(item) or _is_nullable(item):
                return EPSILON if lazy and low == 0 else None
            if lazy or low == high:
                return times(item, low, low, lazy=False, span=span, ordered=True)
            no_match_ahead = make_lookaround(item, ahead=True, negative=True, span=span)
            fewer = times(item, low, None if high is None else high - 1, lazy=False, span=span, ordered=True)
            maximal_repeat = cat([fewer, no_match_ahead])
            if high is None:
                return maximal_repeat
            return make_alternation(
                [maximal_repeat, times(item, high, high, lazy=False, span=span, ordered=True)], ordered=True
            )
        case _:
            return None


def _superset(tree: Tree) -> Node:
    """The tree with its lookarounds assumed to be satisfied: a superset of its language."""
    todo, size = [tree], 0
    while todo:  # nested groups examine the same parts repeatedly, so only small parts are examined
        size += 1
        at = todo.pop()
        todo.extend(at.items if isinstance(at, (Cat, Or)) else [at.item] if isinstance(at, Times) else [])
        if size > 20 * _MAX_DERIVATIVES:
            raise TooLarge(20 * _MAX_DERIVATIVES)
    plain = erase(tree, skip_lookarounds=True)
    assert not isinstance(plain, (Cat, Or, Times, Lookaround))
    return plain


def _is_nullable(tree: Tree) -> bool:
    if isinstance(tree, (Chars, Text)):
        return False
    terms = Terms(limit=20 * _MAX_DERIVATIVES)
    return terms.nullable[terms.read(_superset(tree))]


def _is_prefix_free(tree: Tree) -> bool:
    if isinstance(tree, (Chars, Text, Lookaround)) or (is_plain(tree) and tree in (EPSILON, EMPTY)):
        return True
    terms = Terms(limit=20 * _MAX_DERIVATIVES)
    try:
        start = terms.read(_superset(tree))
        todo, seen = [start], {start}
        while todo:
            term = todo.pop()
            for _, target in terms.transitions(term):
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
