"""The syntax tree of a regex: IR nodes for the parts that mean the same in every context, and other nodes above them.

The readers resolve flags, character classes and kinds of groups, so only these nodes remain:

- an IR node: a part whose language does not depend on its context
- `Lookaround`: (?=..) (?!..) (?<=..) (?<!..). Anchors and word boundaries are lookarounds of one character.
- `Cat`, `Or`, `Times`: concatenation, alternation and repetition of parts, at least one of which is not an IR node
- `Captured` and `Reference`: a group, and a back-reference to it. They are only in the trees of patterns with
  back-references, and `back_references.py` replaces them.

With `ordered=True`, `Or` and `Times` are also used for parts without lookarounds, because the meaning of an atomic
group depends on the order in which a backtracking matcher tries its alternatives. `erase_order` turns them back into
IR.

`Lookaround`, `Cat`, `Or` and `Times` store properties of their subtrees: `one_char` (all lookaheads test only one
character, and all lookbehinds contain no lookarounds) and, except in `Lookaround`, `has_lookaround`. Both ignore the
contents of `Captured`. Trees are compared by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from guided.ir.nodes import EMPTY, EPSILON, Alt, Node
from guided.ir.ranges import ALL_CHARS, Ranges, complement
from guided.ir.serial import Numbered, serial

from .algebra import alt, as_chars, chars, repeat, run, seq

__all__ = [
    "TREE_NODES",
    "Captured",
    "CaseRule",
    "Cat",
    "Lookaround",
    "Or",
    "Reference",
    "Times",
    "Tree",
    "cat",
    "contains_lookaround",
    "erase_order",
    "is_ir_node",
    "keep_case",
    "line_end",
    "line_start",
    "make_alternation",
    "make_lookaround",
    "make_repetition",
    "nonempty_text_condition",
    "word_boundary",
]

Span: TypeAlias = tuple[int, int]
CaseRule: TypeAlias = Callable[[Ranges], Ranges]
"""Adds to a set the characters that match one of its characters. Matching is an equivalence relation."""


def keep_case(ranges: Ranges) -> Ranges:
    """The `CaseRule` that does not ignore case."""
    return ranges


@dataclass(frozen=True, slots=True, eq=False)
class Lookaround(Numbered):
    """A zero-width condition on the text after it (`ahead`) or before it (not `ahead`)."""

    item: Tree
    ahead: bool
    negative: bool
    span: Span
    one_char: bool


@dataclass(frozen=True, slots=True, eq=False)
class Cat(Numbered):
    """Concatenation."""

    items: tuple[Tree, ...]
    one_char: bool
    has_lookaround: bool


@dataclass(frozen=True, slots=True, eq=False)
class Or(Numbered):
    """Alternation. The items are in order of preference."""

    items: tuple[Tree, ...]
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
    one_char: bool
    has_lookaround: bool


@dataclass(frozen=True, slots=True, eq=False)
class Captured(Numbered):
    """A group to which back-references refer."""

    number: int
    item: Tree
    span: Span
    one_char: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, eq=False)
class Reference(Numbered):
    """A back-reference: the text that group `number` matched last. `case_rule` is applied to each character."""

    number: int
    case_rule: CaseRule
    span: Span
    one_char: ClassVar[bool] = True


Tree: TypeAlias = "Node | Lookaround | Cat | Or | Times | Captured | Reference"
TREE_NODES = (Lookaround, Cat, Or, Times, Captured, Reference)
"""All kinds of trees that are not IR nodes."""


def is_ir_node(tree: Tree) -> bool:
    """Whether `tree` is an IR node."""
    return not isinstance(tree, TREE_NODES)


def contains_lookaround(tree: Tree) -> bool:
    """Whether the tree contains a lookaround."""
    return isinstance(tree, Lookaround) or (isinstance(tree, (Cat, Or, Times)) and tree.has_lookaround)


def _combine_flags(items: Sequence[Tree]) -> tuple[bool, bool]:
    """`one_char` and `has_lookaround` of a tree with these items."""
    subtrees = [item for item in items if isinstance(item, TREE_NODES)]
    return (
        all(item.one_char for item in subtrees),
        any(contains_lookaround(item) for item in subtrees),
    )


def make_lookaround(item: Tree, *, ahead: bool, negative: bool, span: Span) -> Tree:
    """A lookaround. If its item is the empty language or the empty string, the result is EMPTY or EPSILON."""
    if isinstance(item, Alt) and not item.items:
        return EPSILON if negative else EMPTY
    if item == EPSILON:
        return EMPTY if negative else EPSILON
    one_char = as_chars(item) is not None if ahead else is_ir_node(item)
    return Lookaround(item, ahead, negative, span, one_char)


def cat(items: Sequence[Tree]) -> Tree:
    """Concatenation. Adjacent IR nodes are joined into one."""
    parts: list[Tree] = []
    ir_nodes: list[Node] = []
    for item in items:
        for part in item.items if isinstance(item, Cat) and len(item.items) <= 16 else (item,):
            if isinstance(part, TREE_NODES):
                if ir_nodes:
                    parts.append(seq(ir_nodes))
                    ir_nodes = []
                parts.append(part)
            else:
                ir_nodes.append(part)
    if not parts:
        return seq(ir_nodes)
    if ir_nodes:
        parts.append(seq(ir_nodes))
    parts = [part for part in parts if part != EPSILON]
    if any(isinstance(part, Alt) and not part.items for part in parts):
        return EMPTY
    return parts[0] if len(parts) == 1 else Cat(tuple(parts), *_combine_flags(parts))


def make_alternation(branches: Sequence[Tree], *, ordered: bool = False) -> Tree:
    """Alternation."""
    if len(branches) == 1:
        return branches[0]
    ir_nodes = [branch for branch in branches if not isinstance(branch, TREE_NODES)]
    if ordered or len(ir_nodes) < len(branches):
        if not ordered and ir_nodes:
            subtrees = [branch for branch in branches if isinstance(branch, TREE_NODES)]
            branches = [*subtrees, alt(ir_nodes)]
        return Or(tuple(branches), *_combine_flags(branches))
    return alt(ir_nodes)


def make_repetition(item: Tree, low: int, high: int | None, *, lazy: bool, span: Span, ordered: bool = False) -> Tree:
    """Repetition."""
    if high == 0:
        return EPSILON
    if low == 1 and high == 1:
        return item
    if not isinstance(item, TREE_NODES) and not ordered:
        return repeat(item, low, high)
    if isinstance(item, Times) and item.max is None and item.min <= 1 and not ordered:
        return make_repetition(item.item, item.min * low, None, lazy=lazy, span=span)
    return Times(item, low, high, lazy, span, *_combine_flags((item,)))


def erase_order(tree: Tree, *, skip_lookarounds: bool = False) -> Tree:
    """The tree without order and laziness. `skip_lookarounds`: assume that all lookarounds hold; the result is then a
    superset.
    """
    results: dict[int, Tree] = {}  # atomic groups use the same part several times

    def visit(tree: Tree) -> Generator[Any, Any, Tree]:
        if not isinstance(tree, TREE_NODES):
            return tree
        if serial(tree) in results:
            return results[serial(tree)]
        result: Tree
        if isinstance(tree, Lookaround):
            item = EPSILON if skip_lookarounds else (yield visit(tree.item))
            result = make_lookaround(
                item, ahead=tree.ahead, negative=tree.negative and not skip_lookarounds, span=tree.span
            )
        elif isinstance(tree, Times):
            result = make_repetition((yield visit(tree.item)), tree.min, tree.max, lazy=False, span=tree.span)
        else:
            assert isinstance(tree, (Cat, Or))
            items = []
            for part in tree.items:
                items.append((yield visit(part)))
            result = cat(items) if isinstance(tree, Cat) else make_alternation(items)
        results[serial(tree)] = result
        return result

    return run(visit(tree))


def _make_one_char_lookaround(ranges: Ranges, *, ahead: bool, negative: bool, span: Span) -> Tree:
    return make_lookaround(chars(ranges), ahead=ahead, negative=negative, span=span)


def line_start(breaks: Ranges, span: Span) -> Tree:
    """The lookaround that holds at the start of the text and after each of `breaks`."""
    return _make_one_char_lookaround(complement(breaks), ahead=False, negative=True, span=span)


def line_end(breaks: Ranges, span: Span) -> Tree:
    """The lookaround that holds at the end of the text and before each of `breaks`."""
    return _make_one_char_lookaround(complement(breaks), ahead=True, negative=True, span=span)


def word_boundary(word: Ranges, negative: bool, span: Span) -> Tree:
    """The lookarounds that hold between a character of `word` and another character or an end of the text.
    `negative`: everywhere else.
    """

    def make_boundary(is_word_before: bool) -> Tree:
        behind = _make_one_char_lookaround(word, ahead=False, negative=not is_word_before, span=span)
        ahead = _make_one_char_lookaround(word, ahead=True, negative=is_word_before is not negative, span=span)
        return cat([behind, ahead])

    return make_alternation([make_boundary(True), make_boundary(False)])


def nonempty_text_condition(span: Span) -> Tree:
    """The lookarounds that hold everywhere, unless the text is empty."""
    return make_alternation(
        [_make_one_char_lookaround(ALL_CHARS, ahead=ahead, negative=False, span=span) for ahead in (False, True)]
    )
