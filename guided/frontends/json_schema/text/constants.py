"""Spells the constants that satisfy a goal. In: the values of `enum` or `const`. Out: IR.

A value may be written with any escapes, number spelling and whitespace that the options allow. Its members keep their
order unless `property_order="any"`. This module decides for each value whether it satisfies the other keywords. Only
patterns are not evaluated here; their languages are intersected with the text.

Cost: linear in the values. A deeply nested value becomes several rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, TypeVar

from guided.frontends.json_schema.algebra.content import content_fits
from guided.frontends.json_schema.algebra.existential_constraints import depends_on_spelling
from guided.frontends.json_schema.algebra.expand import Goal
from guided.frontends.json_schema.algebra.number_set import NumberSet
from guided.frontends.json_schema.algebra.shape import Shape, SomeMember, Window, item_goal
from guided.frontends.json_schema.algebra.strings import union_of
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Decimal10, Json, canonical_key, json_type
from guided.frontends.json_schema.text.containers import (
    Members,
    RuleMaker,
    array_body,
    declared_order,
    permutation_body,
)
from guided.frontends.json_schema.text.finite_numbers import number_constants
from guided.frontends.json_schema.text.number_text import check_size
from guided.frontends.json_schema.text.spelling import MINIMAL_STRING
from guided.ir.nodes import EMPTY, Alt, And, Node, Text
from guided.ir.serial import serial
from guided.meter import spend

if TYPE_CHECKING:
    from guided.frontends.json_schema.text.lower import Lowering

__all__ = ["Constants"]

_MAX_LEVELS_PER_RULE = 8  # the maximum number of levels of a value in one rule
_NameOrIndex = TypeVar("_NameOrIndex")


class Constants:
    """Spells constants for one `Lowering`."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering

    def enumeration(self, shape: Shape, level: int) -> Node:
        """The values of the enumeration that satisfy the rest of the shape."""
        others = [value for value in shape.values or () if not isinstance(value, str | Decimal10)]
        nodes = [node for value in others if (node := self._spell_with_frame(value, shape, level, 0)) is not None]
        if "string" in shape.types:
            texts = [v for v in shape.values or () if isinstance(v, str) and _satisfies_shape(v, shape)]
            if texts:
                nodes.insert(0, self._lowering.notation.add_frame("string", self._strings(texts, shape, level), level))
        if "number" in shape.types:
            numbers = tuple(v for v in shape.values or () if isinstance(v, Decimal10) and v in shape.numbers)
            if numbers:
                nodes.append(self._lowering.notation.add_frame("number", self._numbers(numbers, shape.numbers), level))
        return union_of(nodes)

    def _literal(self, value: Json, goal: Goal, level: int, nesting_depth: int) -> Node | None:
        """The spellings of a value, or None if it does not satisfy the goal."""
        if nesting_depth > _MAX_LEVELS_PER_RULE and isinstance(value, list | dict):
            key = ("constant", canonical_key(value, in_order=True), goal, level)
            location = goal[0].location if goal else ""
            return self._lowering.rule(
                key, "json constant", location, lambda: self._literal(value, goal, level, 0) or EMPTY
            )
        nodes = []
        for shape in self._lowering.shapes(goal):
            if shape.values is None or canonical_key(value) in map(canonical_key, shape.values):
                node = self._spell_with_frame(value, shape, level, nesting_depth)
                nodes += [] if node is None else [node]
        unique = list(dict.fromkeys(nodes)) if len(nodes) > 1 and nesting_depth == 0 else nodes
        return union_of(unique) if unique else None

    def _spell_with_frame(self, value: Json, shape: Shape, level: int, nesting_depth: int) -> Node | None:
        if (kind := json_type(value)) not in shape.types:
            return None
        node = self._spell(value, shape, level, nesting_depth)
        return None if node is None else self._lowering.notation.add_frame(kind, node, level)

    def _spell(self, value: Json, shape: Shape, level: int, nesting_depth: int) -> Node | None:
        spend()
        if value is None or isinstance(value, bool):
            return self._lowering.notation.constant(value)
        if isinstance(value, Decimal10):
            return self._numbers((value,), shape.numbers) if value in shape.numbers else None
        if isinstance(value, str):
            return self._strings([value], shape, level) if _satisfies_shape(value, shape) else None
        level = self._lowering.notation.content_level(level)
        return (
            self._array(value, shape, level, nesting_depth)
            if isinstance(value, list)
            else self._object(value, shape, level, nesting_depth)
        )

    def _strings(self, texts: list[str], shape: Shape, level: int) -> Node:
        notation = self._lowering.notation
        patterns, encoding = {serial(pattern): pattern for pattern in shape.patterns}, notation.constant_encoding
        if not patterns and (len(texts) == 1 or encoding is MINIMAL_STRING):
            return union_of([notation.quoted_text(text, level) for text in texts])
        content = Alt(tuple(Text(text) for text in texts))
        return notation.quoted(And((content, *patterns.values())) if patterns else content, encoding, level)

    def _numbers(self, values: tuple[Decimal10, ...], numbers: NumberSet) -> Node:
        """One rule for several numbers of a set, since their spellings share most of their states."""
        options = self._lowering.options
        is_plain = options.numbers != "json" or options.constants == "plain"
        for value in values:
            check_size(value)
        if is_plain:
            return number_constants(values, True, numbers)
        first_values = ", ".join(map(str, values[:3])) + (", ..." if len(values) > 3 else "")
        key = ("constants", values, numbers.bare, numbers.not_bare)
        make = partial(number_constants, values, False, numbers)
        return self._lowering.rule(key, f"json number of {first_values}", "", make)

    def _array(self, value: list[Json], shape: Shape, level: int, nesting_depth: int) -> Node | None:
        if len(value) not in shape.item_window:
            return None
        has_equal_items = len({canonical_key(item) for item in value}) < len(value)
        if (has_equal_items and shape.unique is not None) or (not has_equal_items and shape.repeated is not None):
            return None
        satisfies_all, lowering = self._lowering.expander.membership.satisfies_all, self._lowering
        if not all(
            sum(satisfies_all((item_count.schema,), item) for item in value) in item_count.count
            for item_count in shape.item_counts
        ):
            return None
        blocks: list[tuple[tuple[Schema, ...], int]] = [
            ((some_item.schema,), some_item.start) for some_item in shape.some_items
        ]
        blocks += [(block, shape.prefix_length) for block in shape.rest_blocks]
        candidates = [
            (block, [index for index in range(start, len(value)) if satisfies_all(block, value[index])])
            for block, start in blocks
        ]
        cases: list[Node] = []
        for assignment in _assignments(candidates):
            goals = [(*item_goal(shape, index), *assignment.get(index, ())) for index in range(len(value))]
            items = self._literals(enumerate(value), goals, level, nesting_depth)
            if items is not None:
                items = [lowering.notation.item(item, level) for item in items]
                body = array_body(items, None, lowering.notation.separator_at(level), Window(len(items), len(items)))
                cases.append(lowering.notation.wrap("[]", body, not items, level))
        return union_of(cases) if cases else None

    def _literals(
        self,
        values: Iterable[tuple[str | int, Json]],
        goals: Iterable[tuple[Schema, ...]],
        level: int,
        nesting_depth: int,
    ) -> list[Node] | None:
        """The spellings of each value, given with its name or index, under its schemas. None if some value does not
        satisfy its schemas.
        """
        out, lowering = [], self._lowering
        for (name_or_index, value), schemas in zip(values, goals, strict=True):
            inner_level = lowering.notation.inner_level(level, name_or_index)
            node = self._literal(value, lowering.expander.goal(schemas), inner_level, nesting_depth + 1)
            if node is None:
                return None
            out.append(node)
        return out

    def _object(self, value: dict[str, Json], shape: Shape, level: int, nesting_depth: int) -> Node | None:
        if shape.formula is not None:
            shapes = self._lowering.expander.by_type.multiply_out(shape)
            nodes = [node for case in shapes if (node := self._object(value, case, level, nesting_depth)) is not None]
            return union_of(nodes) if nodes else None
        if len(value) not in shape.member_window or not value.keys() >= set(shape.required):
            return None
        expander = self._lowering.expander
        declared_names = {*shape.properties(), *shape.required}
        others = [name for name in value if name not in declared_names]
        if not all(expander.keys.contains(names, name) for names in shape.name_schemas for name in value):
            return None
        if others and expander.is_closed(shape):
            return None
        cases: list[Node] = []
        for assignment in _assignments([self._candidates(block, others, value) for block in shape.extra_blocks]):
            goals = [(*expander.member_schemas(shape, name), *assignment.get(name, ())) for name in value]
            members = self._literals(value.items(), goals, level, nesting_depth)
            if members is not None:
                cases.append(self._members(value, members, level))
        return union_of(cases) if cases else None

    def _candidates(
        self, block: tuple[SomeMember, ...], names: list[str], value: dict[str, Json]
    ) -> tuple[tuple[Schema, ...], list[str]]:
        """The schemas of a block, and the names of the members that satisfy the block."""
        expander = self._lowering.expander
        schemas = tuple(some_member.schema for some_member in block if some_member.schema is not None)
        return schemas, [
            name
            for name in names
            if all(expander.keys.contains(some_member.keys, name) for some_member in block)
            and expander.membership.satisfies_all(schemas, value[name])
        ]

    def _members(self, value: dict[str, Json], members: list[Node], level: int) -> Node:
        lowering = self._lowering
        fields = [lowering.notation.member(name, node, True, level) for name, node in zip(value, members, strict=True)]
        comma, window = lowering.notation.separator_at(level), Window()
        if lowering.options.property_order == "any":
            body = permutation_body(fields, None, comma, window)
        else:
            body = declared_order(Members(fields, comma), RuleMaker(_no_rule, ""))
        return lowering.notation.wrap("{}", body, not fields, level)


def _assignments(
    candidates: Sequence[tuple[tuple[Schema, ...], Sequence[_NameOrIndex]]],
) -> Iterator[dict[_NameOrIndex, tuple[Schema, ...]]]:
    """The ways to choose, for each block of schemas, one of the candidates (items or members) that satisfy it. A way
    maps the name or index of each chosen candidate to the schemas of its blocks. If the spelling of the values is
    irrelevant, there is one empty way: the candidates satisfy their blocks in every spelling.
    """
    if not all(names_or_indices for _, names_or_indices in candidates):
        return
    if not any(depends_on_spelling(block) for block, _ in candidates):
        yield {}
        return
    for chosen in product(*(names_or_indices for _, names_or_indices in candidates)):
        additional_schemas: dict[_NameOrIndex, tuple[Schema, ...]] = {}
        for (block, _), name_or_index in zip(candidates, chosen, strict=True):
            additional_schemas[name_or_index] = (*additional_schemas.get(name_or_index, ()), *block)
        yield additional_schemas


def _satisfies_shape(text: str, shape: Shape) -> bool:
    """Whether a string satisfies the shape, ignoring patterns."""
    return len(text) in shape.length and content_fits(text, shape)


def _no_rule(name: str, node: Node) -> None:
    raise AssertionError("a constant has no choice of members")
