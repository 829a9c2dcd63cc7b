"""Writes the text of arrays. In: a shape of arrays. Out: IR.

An array has the items of the prefix, then any number of other items. A window (`minItems` to `maxItems`) bounds the
number of all items. If items must differ, each is an `Entry` of a `Distinct`. Requirements on some items (`contains`)
are counted, become required items in any order, or become a condition on cells of items (`value_partition.py`).

Cost: linear in the prefix. `containers.py` and `value_partition.py` state their own costs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra.emptiness import repeated_items_error
from guided.frontends.json_schema.algebra.existential_constraints import item_cases
from guided.frontends.json_schema.algebra.expand import Goal
from guided.frontends.json_schema.algebra.shape import Shape, Window, has_false, item_goal
from guided.frontends.json_schema.algebra.strings import union_of
from guided.frontends.json_schema.algebra.value_partition import ValuePartition
from guided.frontends.json_schema.text.containers import (
    array_body,
    array_body_with_required,
    conditional_members,
    counted_items,
    graph_body,
)
from guided.ir.conditions import AllOf, Written
from guided.ir.nodes import EMPTY, Distinct, Entry, Node

if TYPE_CHECKING:
    from guided.frontends.json_schema.text.lower import Lowering

__all__ = ["array_text"]

_MAX_SPLIT_OBLIGATIONS = 6  # with at most this many obligations, there are few ways to assign items to them


def array_text(lowering: Lowering, shape: Shape, location: str, level: int) -> Node:
    """The text of the arrays of a shape."""
    if shape.count_graph is not None:
        rules, graph = lowering.rule_maker("items", location), shape.count_graph
        item, comma = partial(_item, lowering, shape, level=level), lowering.notation.separator_at(level)
        text = lowering.notation.wrap("[]", graph_body(graph, item, comma, rules), 0 in graph.ends, level)
    elif shape.repeated is not None:
        raise repeated_items_error(shape)
    else:
        text = _items(lowering, shape, location, level)
    return text if shape.unique is None or text == EMPTY else Distinct(text)


def _items(lowering: Lowering, shape: Shape, location: str, level: int) -> Node:
    """The text of an array. If its items must differ, each of them is an `Entry`."""
    prefix_length = shape.prefix_length if shape.arrays else 0
    window = lowering.cap_window(shape.item_window, lowering.options.max_items, "max_items", location)
    comma, prefix = lowering.notation.separator_at(level), []
    for index in range(prefix_length if window.high is None else min(prefix_length, window.high)):
        goal = lowering.expander.goal(item_goal(shape, index))
        if has_false(goal):
            window = window.meet(Window(0, index))
            break
        prefix.append(_item(lowering, shape, goal, level, index))
    rest = None
    if window.high is None or window.high > prefix_length:
        goal = lowering.expander.goal(item_goal(shape, prefix_length))
        if not has_false(goal):
            rest = _item(lowering, shape, goal, level, ~prefix_length)
    if rest is None and window.low > len(prefix):
        lowering.reasons.append((location, f"{window.low} items are required, but only {len(prefix)} are allowed"))
    if shape.item_counts:
        return _text_with_count(lowering, shape, level)
    if shape.some_items:
        return _text_with_condition(lowering, shape, window, location, level)
    if shape.rest_blocks:
        goals = [lowering.expander.goal((*item_goal(shape, prefix_length), *block)) for block in shape.rest_blocks]
        block_items = [_item(lowering, shape, goal, level, ~prefix_length) for goal in goals]
        body = None if rest is None else array_body_with_required(prefix, block_items, rest, comma, window)
        return lowering.notation.wrap("[]", body, False, level)
    return lowering.notation.wrap("[]", array_body(prefix, rest, comma, window), window.low == 0, level)


def _item(lowering: Lowering, shape: Shape, goal: Goal, level: int, index: int = ~0) -> Node:
    """An item. `index`: its index n, or ~n for item n and all later ones."""
    inner_level = lowering.notation.inner_level(level, index)
    if shape.unique is None:
        return lowering.notation.item(lowering.value(goal, inner_level), level)
    lowering.notation.check_unique(shape.unique, level)
    return Entry(lowering.value(lowering.notation.narrowing_at(level).item(goal), inner_level))


def _text_with_count(lowering: Lowering, shape: Shape, level: int) -> Node:
    """The arrays in which the number of items that satisfy a schema is bounded. All items have the same schemas."""
    (item_count,) = shape.item_counts
    goals = [
        lowering.expander.goal((*item_goal(shape, 0), schema)) for schema in (item_count.schema, item_count.complement)
    ]
    counted_item, other_item = (EMPTY if has_false(goal) else _item(lowering, shape, goal, level) for goal in goals)
    body = counted_items(counted_item, other_item, lowering.notation.separator_at(level), item_count.count)
    return lowering.notation.wrap("[]", body, item_count.count.low == 0, level)


def _text_with_condition(lowering: Lowering, shape: Shape, window: Window, location: str, level: int) -> Node:
    """The arrays with items that satisfy each of `shape.some_items`. All items have the same schemas."""
    expander = lowering.expander
    base = expander.goal(item_goal(shape, 0))
    item_goals = [expander.goal((some_item.schema,)) for some_item in shape.some_items]
    try:
        cells = ValuePartition(expander, location).cells(
            base, [goal for goal in item_goals if goal and not has_false(goal)]
        )
    except UnsupportedError:
        if len(item_goals) > _MAX_SPLIT_OBLIGATIONS:
            raise
        return union_of([array_text(lowering, case, location, level) for case in item_cases(shape)])
    conditions = [
        Written(tuple(index for index, cell in enumerate(cells) if not goal or goal in cell.satisfied_goals))
        for goal in item_goals
    ]
    items = [_item(lowering, shape, cell.goal, level) for cell in cells]
    body = conditional_members(
        [], items, lowering.notation.separator_at(level), window, AllOf(tuple(conditions)), False
    )
    return lowering.notation.wrap("[]", body, False, level)
