"""The text of containers whose parts are bound by a condition. In: a shape of objects with a formula, or of arrays some
items of which must be this or that. Out: IR.

Cost: that of `conditional.py`; where that refuses, the ways to satisfy the condition are multiplied out, if few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guided.errors import LimitExceeded, UnsupportedError
from guided.grammar.ir import EMPTY, AllOf, Distinct, Node, Seq, Written
from guided.spec.json_schema.cells import Cells
from guided.spec.json_schema.conditional import bind
from guided.spec.json_schema.containers import bound_members
from guided.spec.json_schema.obligations import obliged_items
from guided.spec.json_schema.shape import Shape, Window, is_nothing, item_goal
from guided.spec.json_schema.spelling import either

if TYPE_CHECKING:
    from guided.spec.json_schema.lower import Lowering

__all__ = ["bound_array", "bound_object"]

_FEW = 6  # obligations whose ways to share items are few


def bound_object(lowering: Lowering, shape: Shape, where: str, level: int) -> Node:
    """The text of the objects of a shape with a formula."""
    try:
        bound = bind(shape, lowering.expander)
    except UnsupportedError as error:
        try:
            settled = lowering.expander.by_type.multiplied(shape)
        except LimitExceeded:
            raise error from None
        return either([node for one in settled for node in lowering.shape_(one, where, level)])
    slots = [
        [lowering.field(name, lowering.value(cell.goal, level + 1), False).node for cell in cells]
        for name, cells in bound.slots.items()
    ]
    extras = [
        Seq((lowering.other_key(extra.names, where), lowering.after(lowering.value(cell.goal, level + 1))))
        for extra in bound.extras
        for cell in extra.cells
    ]
    window, cap = shape.members, lowering.options.max_items
    if extras and cap is not None:
        window = window.meet(Window(0, len(slots) + cap))
    ordered = lowering.options.property_order == "declared"
    body = bound_members(slots, extras, lowering.layout.between(level), window, bound.condition, ordered)
    text = lowering.layout.wrap("{}", body, bound.may_be_empty, level)
    return Distinct(text, bound.names) if extras and text != EMPTY else text


def bound_array(lowering: Lowering, shape: Shape, window: Window, where: str, level: int) -> Node:
    """The text of the arrays of a shape with many obligations, and nothing that speaks of the first items."""
    expander = lowering.expander
    base = expander.goal(item_goal(shape, 0))
    asked = [expander.goal((some.schema,)) for some in shape.some_items]
    try:
        cells = Cells(expander, where).of(base, [goal for goal in asked if goal and not is_nothing(goal)])
    except UnsupportedError:
        if len(asked) > _FEW:
            raise
        return either([lowering.array_(one, where, level) for one in obliged_items(shape)])
    within = [Written(tuple(at for at, cell in enumerate(cells) if not goal or goal in cell.within)) for goal in asked]
    items = [lowering.value(cell.goal, level + 1) for cell in cells]
    body = bound_members([], items, lowering.layout.between(level), window, AllOf(tuple(within)), False)
    return lowering.layout.wrap("[]", body, False, level)
