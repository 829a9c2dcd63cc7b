"""The text of arrays. In: a shape of arrays. Out: IR.

An array has the items of the prefix, then any number of other items, within a window. If items must differ, each is an
`Entry` of a `Distinct`. Requirements on some items (`contains`) are counted, or become a condition on cells of items.

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
    array_body_with_some,
    conditional_members,
    counted_items,
    graph_body,
)
from guided.ir.conditions import AllOf, Written
from guided.ir.nodes import EMPTY, Distinct, Entry, Node

if TYPE_CHECKING:
    from guided.frontends.json_schema.text.lower import Lowering

__all__ = ["array_text"]

_MAX_SPLIT_OBLIGATIONS = 6  # with at most this many obligations, there are few ways to share items


def array_text(lowering: Lowering, shape: Shape, where: str, level: int) -> Node:
    """The text of the arrays of a shape."""
    if shape.count_graph is not None:
        rules, graph = lowering.rule_maker("items", where), shape.count_graph
        item, comma = partial(_item, lowering, shape, level=level), lowering.notation.separator_at(level)
        text = lowering.notation.wrap("[]", graph_body(graph, item, comma, rules), 0 in graph.ends, level)
    elif shape.repeated is not None:
        raise repeated_items_error(shape)
    else:
        text = _items(lowering, shape, where, level)
    return text if shape.unique is None or text == EMPTY else Distinct(text)


def _items(lowering: Lowering, shape: Shape, where: str, level: int) -> Node:
    """The text of an array. If its items must differ, each of them is an `Entry`."""
    longest = shape.prefix_length if shape.arrays else 0
    window = lowering.cap_window(shape.items, lowering.options.max_items, "max_items", where)
    comma, prefix = lowering.notation.separator_at(level), []
    for at in range(longest if window.high is None else min(longest, window.high)):
        goal = lowering.expander.goal(item_goal(shape, at))
        if has_false(goal):
            window = window.meet(Window(0, at))
            break
        prefix.append(_item(lowering, shape, goal, level, at))
    rest = None
    if window.high is None or window.high > longest:
        goal = lowering.expander.goal(item_goal(shape, longest))
        if not has_false(goal):
            rest = _item(lowering, shape, goal, level, ~longest)
    if rest is None and window.low > len(prefix):
        lowering.reasons.append((where, f"{window.low} items are required, but only {len(prefix)} are allowed"))
    if shape.item_counts:
        return _with_count(lowering, shape, level)
    if shape.some_items:
        return _with_condition(lowering, shape, window, where, level)
    if shape.rest_blocks:
        goals = [lowering.expander.goal((*item_goal(shape, longest), *block)) for block in shape.rest_blocks]
        some = [_item(lowering, shape, goal, level, ~longest) for goal in goals]
        body = None if rest is None else array_body_with_some(prefix, some, rest, comma, window)
        return lowering.notation.wrap("[]", body, False, level)
    return lowering.notation.wrap("[]", array_body(prefix, rest, comma, window), window.low == 0, level)


def _item(lowering: Lowering, shape: Shape, goal: Goal, level: int, at: int = ~0) -> Node:
    """An item. `at`: its number n, or ~n for item n and all later ones."""
    inside = lowering.notation.inner_level(level, at)
    if shape.unique is None:
        return lowering.notation.item(lowering.value(goal, inside), level)
    lowering.notation.check_unique(shape.unique, level)
    return Entry(lowering.value(lowering.notation.narrowing_at(level).item(goal), inside))


def _with_count(lowering: Lowering, shape: Shape, level: int) -> Node:
    """Arrays that only bound the number of items satisfying a schema. No position is special."""
    (counted,) = shape.item_counts
    goals = [lowering.expander.goal((*item_goal(shape, 0), schema)) for schema in (counted.schema, counted.others)]
    counted_item, other_item = (EMPTY if has_false(goal) else _item(lowering, shape, goal, level) for goal in goals)
    body = counted_items(counted_item, other_item, lowering.notation.separator_at(level), counted.count)
    return lowering.notation.wrap("[]", body, counted.count.low == 0, level)


def _with_condition(lowering: Lowering, shape: Shape, window: Window, where: str, level: int) -> Node:
    """Arrays with many obligations. No position is special."""
    expander = lowering.expander
    base = expander.goal(item_goal(shape, 0))
    item_goals = [expander.goal((some.schema,)) for some in shape.some_items]
    try:
        cells = ValuePartition(expander, where).cells(
            base, [goal for goal in item_goals if goal and not has_false(goal)]
        )
    except UnsupportedError:
        if len(item_goals) > _MAX_SPLIT_OBLIGATIONS:
            raise
        return union_of([array_text(lowering, case, where, level) for case in item_cases(shape)])
    within = [
        Written(tuple(at for at, cell in enumerate(cells) if not goal or goal in cell.satisfied_goals))
        for goal in item_goals
    ]
    items = [_item(lowering, shape, cell.goal, level) for cell in cells]
    body = conditional_members([], items, lowering.notation.separator_at(level), window, AllOf(tuple(within)), False)
    return lowering.notation.wrap("[]", body, False, level)
