"""The syntax tree of a regex: IR nodes for parts whose meaning needs no context, and four further kinds of nodes above
them.

The readers resolve flags, character classes and kinds of groups, so only these nodes remain:

- any IR node is a part whose language does not depend on its context
- `Lookaround` is a lookaround: (?=..) (?!..) (?<=..) (?<!..). Anchors and word boundaries are lookarounds of one
  character.
- `Cat`, `Or`, `Times` are concatenation, alternation and repetition of parts, at least one of which contains a
  lookaround

With `ordered=True`, `Or` and `Times` are also used for parts without lookarounds, because the meaning of an atomic
group depends on the order in which a backtracking matcher tries its alternatives. `erase` turns them back into IR.

These four kinds store facts that are computed once: `has_lookbehind`, `one_char` (its lookaheads test only one
character, and its lookbehinds contain no lookarounds) and, except in `Lookaround`, `has_lookaround`. Trees are
compared by identity.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from guided.ir.nodes import EMPTY, EPSILON, Alt, Node
from guided.ir.ranges import ALL_CHARS, Ranges, complement
from guided.ir.serial import Numbered, serial

from .algebra import alt, as_chars, chars, repeat, run, seq

__all__ = [
    "Cat",
    "Lookaround",
    "Or",
    "Times",
    "Tree",
    "boundary",
    "cat",
    "contains_lookaround",
    "erase",
    "is_plain",
    "line_end",
    "line_start",
    "make_alternation",
    "make_lookaround",
    "nonempty_text_condition",
    "times",
]

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Lookaround(Numbered):
    """A zero-width condition on the text after it (`ahead`), or before it."""

    item: Tree
    ahead: bool
    negative: bool
    span: Span
    has_lookbehind: bool
    one_char: bool


@dataclass(frozen=True, slots=True, eq=False)
class Cat(Numbered):
    """Concatenation."""

    items: tuple[Tree, ...]
    has_lookbehind: bool
    one_char: bool
    has_lookaround: bool


@dataclass(frozen=True, slots=True, eq=False)
class Or(Numbered):
    """Alternation, in the order of preference."""

    items: tuple[Tree, ...]
    has_lookbehind: bool
    one_char: bool
    has_lookaround: bool


@dataclass(frozen=True, slots=True, eq=False)
class Times(Numbered):
    """Repetition. `lazy` prefers fewer rounds."""

    item: Tree
    min: int
    max: int | None
    lazy: bool
    span: Span
    has_lookbehind: bool
    one_char: bool
    has_lookaround: bool


Tree: TypeAlias = "Node | Lookaround | Cat | Or | Times"
_TREE_NODES = (Lookaround, Cat, Or, Times)


def is_plain(tree: Tree) -> bool:
    """Whether this is an IR node."""
    return not isinstance(tree, _TREE_NODES)


def contains_lookaround(tree: Tree) -> bool:
    """Whether the tree contains a lookaround."""
    return isinstance(tree, Lookaround) or (isinstance(tree, (Cat, Or, Times)) and tree.has_lookaround)


def _combined_flags(items: Sequence[Tree]) -> tuple[bool, bool, bool]:
    """`has_lookbehind`, `one_char` and `has_lookaround` of a tree with these items."""
    subtrees = [item for item in items if isinstance(item, _TREE_NODES)]
    return (
        any(item.has_lookbehind for item in subtrees),
        all(item.one_char for item in subtrees),
        any(contains_lookaround(item) for item in subtrees),
    )


def make_lookaround(item: Tree, *, ahead: bool, negative: bool, span: Span) -> Tree:
    """A lookaround. It is decided at once if its item is the empty language or the empty string."""
    if isinstance(item, Alt) and not item.items:
        return EPSILON if negative else EMPTY
    if item == EPSILON:
        return EMPTY if negative else EPSILON
    own = item if isinstance(item, _TREE_NODES) else None
    one_char = as_chars(item) is not None if ahead else own is None
    return Lookaround(item, ahead, negative, span, not ahead or (own is not None and own.has_lookbehind), one_char)


def cat(items: Sequence[Tree]) -> Tree:
    """Concatenation. Adjacent IR nodes are joined into one."""
    joined: list[Tree] = []
    plain: list[Node] = []
    for item in items:
        for part in item.items if isinstance(item, Cat) and len(item.items) <= 16 else (item,):
            if isinstance(part, _TREE_NODES):
                if plain:
                    joined.append(seq(plain))
                    plain = []
                joined.append(part)
            else:
                plain.append(part)
    if not joined:
        return seq(plain)
    if plain:
        joined.append(seq(plain))
    joined = [part for part in joined if part != EPSILON]
    if any(isinstance(part, Alt) and not part.items for part in joined):
        return EMPTY
    return joined[0] if len(joined) == 1 else Cat(tuple(joined), *_combined_flags(joined))


def make_alternation(branches: Sequence[Tree], *, ordered: bool = False) -> Tree:
    """Alternation."""
    if len(branches) == 1:
        return branches[0]
    plain = [branch for branch in branches if not isinstance(branch, _TREE_NODES)]
    if ordered or len(plain) < len(branches):
        if not ordered and plain:
            own = [branch for branch in branches if isinstance(branch, _TREE_NODES)]
            branches = [*own, alt(plain)]
        return Or(tuple(branches), *_combined_flags(branches))
    return alt(plain)


def times(item: Tree, low: int, high: int | None, *, lazy: bool, span: Span, ordered: bool = False) -> Tree:
    """Repetition."""
    if high == 0:
        return EPSILON
    if low == 1 and high == 1:
        return item
    if not isinstance(item, _TREE_NODES) and not ordered:
        return repeat(item, low, high)
    if isinstance(item, Times) and item.max is None and item.min <= 1 and not ordered:
        return times(item.item, item.min * low, None, lazy=lazy, span=span)
    return Times(item, low, high, lazy, span, *_combined_flags((item,)))


def erase(tree: Tree, *, skip_lookarounds: bool = False) -> Tree:
    """The tree without order and laziness. `skip_lookarounds`: as if all lookarounds held, which is a superset."""
    done: dict[int, Tree] = {}  # atomic groups use the same part several times

    def visit(tree: Tree) -> Generator[Any, Any, Tree]:
        if not isinstance(tree, _TREE_NODES):
            return tree
        if serial(tree) in done:
            return done[serial(tree)]
        result: Tree
        if isinstance(tree, Lookaround):
            item = EPSILON if skip_lookarounds else (yield visit(tree.item))
            result = make_lookaround(
                item, ahead=tree.ahead, negative=tree.negative and not skip_lookarounds, span=tree.span
            )
        elif isinstance(tree, Times):
            result = times((yield visit(tree.item)), tree.min, tree.max, lazy=False, span=tree.span)
        else:
            items = []
            for part in tree.items:
                items.append((yield visit(part)))
            result = cat(items) if isinstance(tree, Cat) else make_alternation(items)
        done[serial(tree)] = result
        return result

    return run(visit(tree))


def _at_one_char(ranges: Ranges, *, ahead: bool, negative: bool, span: Span) -> Tree:
    return make_lookaround(chars(ranges), ahead=ahead, negative=negative, span=span)


def line_start(breaks: Ranges, span: Span) -> Tree:
    """At the start of the text, or after one of `breaks`."""
    return _at_one_char(complement(breaks), ahead=False, negative=True, span=span)


def line_end(breaks: Ranges, span: Span) -> Tree:
    """At the end of the text, or before one of `breaks`."""
    return _at_one_char(complement(breaks), ahead=True, negative=True, span=span)


def boundary(word: Ranges, negative: bool, span: Span) -> Tree:
    """Between a character of `word` and another character, or an end of the text. `negative`: anywhere else."""

    def sides(is_word_before: bool) -> Tree:
        behind = _at_one_char(word, ahead=False, negative=not is_word_before, span=span)
        ahead = _at_one_char(word, ahead=True, negative=is_word_before is not negative, span=span)
        return cat([behind, ahead])

    return make_alternation([sides(True), sides(False)])


def nonempty_text_condition(span: Span) -> Tree:
    """A condition that holds everywhere, unless the text is empty."""
    return make_alternation(
        [_at_one_char(ALL_CHARS, ahead=ahead, negative=False, span=span) for ahead in (False, True)]
    )
