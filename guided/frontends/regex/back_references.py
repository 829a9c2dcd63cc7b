r"""Replaces back-references to groups that have few possible texts. In: a tree with `Captured` and `Reference`. Out: an
equivalent tree without them, or an error that says which back-reference is not supported, and why.

    (["'])[^"']*\1    becomes    "[^"']*"|'[^"']*'

Why this is exact: consider a concatenation in which the group matches exactly once (`_find_mandatory_groups`), and the
back-references after the group. On every way through the concatenation, they refer to this one match. A matcher tries
all ways, so the concatenation is the union of its copies, one for each possible text of the group. In each copy, this
text replaces the group and its back-references. The concatenation may be inside a repetition or a lookaround, because
each round and each attempt begins with a new match of the group.

A back-reference in another place is not supported. It would depend on an earlier round, on the alternative that was
chosen, or on the preferred way through a lookaround, which no other way replaces once it has matched.

Outer concatenations are rewritten before inner ones, because an outer one may contain further back-references to the
groups of an inner one. Only the part from the group to its last back-reference is copied. It is extended so that it
contains all back-references to the other groups in it.

If back-references ignore case, texts that differ only by case share one copy.

Cost: one copy of the part for each text of the group. If the parts of two groups overlap, there is a copy for each pair
of texts. `MAX_TEXTS` bounds the texts of one group, and `_MAX_COPIED_PARTS` the copies.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import prod
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from guided.errors import UnsupportedError
from guided.ir.nodes import Node
from guided.ir.ranges import Ranges
from guided.ir.serial import serial
from guided.meter import spend

from .algebra import alt, chars, run, seq, text
from .budget import Budget
from .derivatives import Terms
from .small_language import list_small_language
from .tree import (
    TREE_NODES,
    Captured,
    CaseRule,
    Cat,
    Lookaround,
    Or,
    Reference,
    Span,
    Times,
    Tree,
    cat,
    make_alternation,
    make_lookaround,
    make_repetition,
)

__all__ = ["MAX_TEXTS", "resolve_references"]

MAX_TEXTS: Final = 1024
"""How many texts a group may have. If its back-references ignore case, texts that differ only by case count once."""
_MAX_SPELLINGS: Final = 4096  # all texts count

_MAX_COPIED_PARTS: Final = 100_000

_REPEAT_HINT: Final = "repeat the group's pattern, or list the possible strings as alternatives"
_TOO_MANY_TEXTS: Final = (
    f"its group may match more than {MAX_TEXTS:,} texts, or very long ones",
    "list the possible texts in the group, such as (a|b|c), or repeat the group's pattern",
)
_TOO_MANY_COPIES: Final = (
    "together with other back-references, it needs too many copies of parts of the pattern",
    "refer to fewer groups, or to groups with fewer possible texts",
)
_BEFORE_END: Final = "it precedes the end of its group", "refer to a group after its )"
_NEVER_MATCHED: Final = "its group never matches", "remove the back-reference, or let its group match"
_HAS_LOOKAROUND: Final = (
    "its group contains a lookaround, an anchor or a word boundary",
    "move the lookaround, anchor or boundary out of the group",
)
_CONTAINS_GROUP: Final = "its group contains a back-reference or a group that is not supported", _REPEAT_HINT
_IN_LOOKBEHIND: Final = "its group is in the same lookbehind", _REPEAT_HINT
_PART_ENDS: Final = (
    "its group is in an option, a repetition, an alternative or a lookaround that ends before it",
    "let the option, repetition, alternative or lookaround begin after the group, or repeat the group's pattern",
)


class _Copy(NamedTuple):
    """A copy of the part between a group and its last back-reference: what replaces the group, and what replaces the
    back-references with each case rule.
    """

    group: Node
    references: dict[CaseRule, Node]


class _Groups(NamedTuple):
    """The numbers of the groups in a tree, and of the groups to which its back-references refer."""

    captured: frozenset[int]
    referenced: frozenset[int]


_NO_GROUPS: Final = _Groups(frozenset(), frozenset())
_Task: TypeAlias = Generator[Any, Any, Tree]


def resolve_references(tree: Tree, pattern: str, budget: Budget) -> Tree:
    """The tree without back-references and captured groups. `pattern`: the pattern, for error messages.

    Raises:
        UnsupportedError: a back-reference is not supported. LimitExceeded: the copies are too large.
    """
    return run(_Resolver(tree, pattern, budget).resolve_all())


class _Resolver:
    """Rewrites one pattern. Each result is computed once."""

    def __init__(self, tree: Tree, pattern: str, budget: Budget) -> None:
        self.tree, self.pattern, self.budget = tree, pattern, budget
        self._spans: dict[int, Span] = {}
        self._groups: dict[int, _Groups] = {}
        self._resolved_trees: dict[int, Tree] = {}
        self._copies: dict[tuple[int, int], list[_Copy]] = {}
        self._copied_parts = 0
        self._problems: dict[int, tuple[str, str]] = {}  # by group: why its back-references remain

    def resolve_all(self) -> _Task:
        """The tree without back-references and captured groups."""
        self._references = _list_references(self.tree, self._spans)
        tree: Tree = yield self._resolve(self.tree)
        if remaining_references := _list_references(tree, {}):
            first = min(remaining_references, key=lambda reference: self._is_blocked(reference.number))
            if first.number not in self._spans:
                self._refuse(first, _NEVER_MATCHED)
            is_inside = first.span[0] < self._spans[first.number][1]
            self._refuse(first, _BEFORE_END if is_inside else self._problems.get(first.number, _PART_ENDS))
        result: Tree = yield self._remove_captured(tree)
        return result

    def _is_blocked(self, number: int) -> bool:
        return self._problems.get(number) is _CONTAINS_GROUP

    def _refuse(self, reference: Reference, problem: tuple[str, str]) -> NoReturn:
        (reason, hint), span = problem, reference.span
        reason = f"this back-reference is not supported: {reason}"
        raise UnsupportedError(reason, pointer=f"offset {span[0]}", hint=hint, text=self.pattern, span=span)

    def _find_groups(self, tree: Tree) -> Generator[Any, Any, _Groups]:
        if not isinstance(tree, TREE_NODES):
            return _NO_GROUPS
        if serial(tree) not in self._groups:
            captured = {tree.number} if isinstance(tree, Captured) else set()
            referenced = {tree.number} if isinstance(tree, Reference) else set()
            for part in _list_parts(tree):
                groups = yield self._find_groups(part)
                captured |= groups.captured
                referenced |= groups.referenced
            spend(len(captured) + len(referenced))
            self._groups[serial(tree)] = _Groups(frozenset(captured), frozenset(referenced))
        return self._groups[serial(tree)]

    # --- rewriting

    def _resolve(self, tree: Tree) -> _Task:
        """The tree without the back-references that can be replaced inside it."""
        if not (yield self._find_groups(tree)).referenced or not isinstance(tree, TREE_NODES):
            return tree
        if serial(tree) not in self._resolved_trees:
            self._resolved_trees[serial(tree)] = yield self._compute_resolved(tree)
        return self._resolved_trees[serial(tree)]

    def _compute_resolved(self, tree: Tree) -> _Task:
        if isinstance(tree, Lookaround) and not tree.ahead:  # ECMA-262 matches lookbehinds from right to left
            groups = yield self._find_groups(tree)
            self._problems.update(dict.fromkeys(groups.captured, _IN_LOOKBEHIND))
            return tree
        if isinstance(tree, Cat):
            result: Tree = yield self._resolve_concatenation(tree.items)
            return result
        parts: list[Tree] = []
        for part in _list_parts(tree):
            parts.append((yield self._resolve(part)))
        return _rebuild(tree, parts)

    def _resolve_concatenation(self, items: tuple[Tree, ...]) -> _Task:
        last_references: dict[int, int] = {}  # by group: the index of the last item that refers to it
        for index, item in enumerate(items):
            last_references.update(dict.fromkeys((yield self._find_groups(item)).referenced, index))
        parts: list[Tree] = []
        index = 0
        while index < len(items):
            part, end = items[index], index + 1
            for captured in reversed(_find_mandatory_groups(part)):
                if last_references.get(captured.number, 0) > index:
                    node = yield self._resolve(captured.item)
                    if not isinstance(node, TREE_NODES):
                        end = yield self._find_end(items, index, last_references)
                        part = yield self._expand(items[index:end], captured, node)
                        break
                    is_blocked = (yield self._find_groups(node)) != _NO_GROUPS
                    self._problems[captured.number] = _CONTAINS_GROUP if is_blocked else _HAS_LOOKAROUND
            parts.append((yield self._resolve(part)))
            index = end
        return cat(parts)

    def _find_end(
        self, items: tuple[Tree, ...], start: int, last_references: dict[int, int]
    ) -> Generator[Any, Any, int]:
        """The end of the items from `start` that have all back-references to the groups in them."""
        index, end = start, start + 1
        while index < end:
            for number in (yield self._find_groups(items[index])).captured:
                end = max(end, last_references.get(number, 0) + 1)
            index += 1
        return end

    def _expand(self, items: tuple[Tree, ...], captured: Captured, node: Node) -> _Task:
        """The union of the copies of `items`, one for each text of `node`. The first item contains the group."""
        copies = []
        for copy in self._list_copies(captured.number, node):
            self._count_copies(captured.number, len(items))
            results: dict[int, Tree] = {}
            parts = [(yield self._insert(items[0], captured, copy, results))]
            for item in items[1:]:
                parts.append((yield self._replace(item, captured.number, copy, results)))
            copies.append(cat(parts))
        return make_alternation(copies)

    def _count_copies(self, number: int, parts: int) -> None:
        self.budget.spend(parts)
        self._copied_parts += parts
        if self._copied_parts > _MAX_COPIED_PARTS:
            self._refuse(self._find_first_reference(number), _TOO_MANY_COPIES)

    def _insert(self, tree: Tree, captured: Captured, copy: _Copy, results: dict[int, Tree]) -> _Task:
        """The tree for one copy. `tree` contains the group `captured` as a mandatory part."""
        self._count_copies(captured.number, 1)
        if tree is captured:
            return copy.group
        if isinstance(tree, Captured):
            return _rebuild(tree, [(yield self._insert(tree.item, captured, copy, results))])
        assert isinstance(tree, Cat)
        parts: list[Tree] = []
        has_inserted = False
        for part in tree.items:
            if has_inserted:
                parts.append((yield self._replace(part, captured.number, copy, results)))
            elif captured.number in (yield self._find_groups(part)).captured:
                parts.append((yield self._insert(part, captured, copy, results)))
                has_inserted = True
            else:
                parts.append(part)
        return cat(parts)

    def _replace(self, tree: Tree, number: int, copy: _Copy, results: dict[int, Tree]) -> _Task:
        """The tree for one copy. `tree` comes after group `number`."""
        if number not in (yield self._find_groups(tree)).referenced or not isinstance(tree, TREE_NODES):
            return tree
        if isinstance(tree, Reference):
            return copy.references[tree.case_rule]
        if serial(tree) not in results:
            self._count_copies(number, 1)
            parts = []
            for part in _list_parts(tree):
                parts.append((yield self._replace(part, number, copy, results)))
            results[serial(tree)] = _rebuild(tree, parts)
        return results[serial(tree)]

    def _remove_captured(self, tree: Tree) -> _Task:
        if not (yield self._find_groups(tree)).captured or not isinstance(tree, TREE_NODES):
            return tree
        parts = []
        for part in _list_parts(tree):
            parts.append((yield self._remove_captured(part)))
        return parts[0] if isinstance(tree, Captured) else _rebuild(tree, parts)

    def _find_first_reference(self, number: int) -> Reference:
        return next(reference for reference in self._references if reference.number == number)

    # --- texts

    def _list_copies(self, number: int, node: Node) -> list[_Copy]:
        """A copy for each text of a group whose language is that of `node`."""
        key = number, serial(node)
        if key not in self._copies:
            self._copies[key] = self._compute_copies(number, node)
        return self._copies[key]

    def _compute_copies(self, number: int, node: Node) -> list[_Copy]:
        texts = list_small_language(Terms(), node, _MAX_SPELLINGS)
        if texts is None:
            self._refuse(self._find_first_reference(number), _TOO_MANY_TEXTS)
        case_rules = {reference.case_rule for reference in self._references if reference.number == number}
        self.budget.spend(len(texts))
        codes = {ord(c) for value in texts for c in value}
        sets_by_rule = {rule: {code: rule(((code, code),)) for code in codes} for rule in case_rules}
        texts_by_key: dict[tuple[tuple[Ranges, ...], ...], list[str]] = {}
        for value in texts:
            spend(len(value))
            key = tuple(tuple(sets[ord(c)] for c in value) for sets in sets_by_rule.values())
            texts_by_key.setdefault(key, []).append(value)
        if len(texts_by_key) > MAX_TEXTS:
            self._refuse(self._find_first_reference(number), _TOO_MANY_TEXTS)
        copies = []
        for key, values in texts_by_key.items():
            nodes = {rule: seq(map(chars, sets)) for rule, sets in zip(sets_by_rule, key, strict=True)}
            has_all_cases = len(key) == 1 and len(values) == prod(sum(b - a + 1 for a, b in sets) for sets in key[0])
            copies.append(_Copy(seq(map(chars, key[0])) if has_all_cases else alt(map(text, values)), nodes))
        return copies


def _list_parts(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case Cat(items) | Or(items):
            return items
        case Lookaround(item) | Times(item) | Captured(_, item):
            return (item,)
        case _:
            return ()


def _rebuild(tree: Tree, parts: Sequence[Tree]) -> Tree:
    """`tree` with other parts."""
    match tree:
        case Cat():
            return cat(parts)
        case Or():
            return make_alternation(parts)
        case Times(_, low, high, lazy, span):
            return make_repetition(parts[0], low, high, lazy=lazy, span=span)
        case Lookaround(_, ahead, negative, span):
            return make_lookaround(parts[0], ahead=ahead, negative=negative, span=span)
        case Captured(number, _, span):
            return Captured(number, parts[0], span)
        case _:
            return tree


def _list_references(tree: Tree, spans: dict[int, Span]) -> list[Reference]:
    """The back-references in a tree, in the order of the pattern. Stores the spans of captured groups in `spans`."""
    references: dict[Span, Reference] = {}
    seen: set[int] = set()
    todo = [tree]
    while todo:
        part = todo.pop()
        if isinstance(part, TREE_NODES) and serial(part) not in seen:
            spend()
            seen.add(serial(part))
            todo += _list_parts(part)
            if isinstance(part, Reference):
                references[part.span] = part
            elif isinstance(part, Captured):
                spans[part.number] = part.span
    return [references[span] for span in sorted(references)]


def _find_mandatory_groups(tree: Tree) -> list[Captured]:
    """The groups that match exactly once whenever the tree matches. An outer group precedes its inner groups."""
    found: list[Captured] = []
    todo = [tree]
    while todo:
        part = todo.pop()
        if isinstance(part, Captured):
            found.append(part)
        if isinstance(part, (Captured, Cat)):
            todo += reversed(_list_parts(part))
    return found
