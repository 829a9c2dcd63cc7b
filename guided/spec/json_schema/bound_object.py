"""The text of objects whose members are bound by a formula. In: a shape of objects with a formula. Out: IR.

Cost: that of `conditional.py`; where that refuses, the formula is multiplied out, if it is small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guided.errors import LimitExceeded, UnsupportedError
from guided.grammar.ir import EMPTY, Distinct, Node, Seq
from guided.spec.json_schema.conditional import bind
from guided.spec.json_schema.containers import bound_members
from guided.spec.json_schema.shape import Shape, Window
from guided.spec.json_schema.spelling import either

if TYPE_CHECKING:
    from guided.spec.json_schema.lower import Lowering

__all__ = ["bound_object"]


def bound_object(lowering: Lowering, shape: Shape, where: str, level: int) -> Node:
    """The text of the objects of a shape with a formula."""
    try:
        bound = bind(shape, lowering.expander)
    except UnsupportedError as error:
        try:
            settled = lowering.expander.by_type.multiplied(shape)
        except LimitExceeded:
            raise error from None
        return either([lowering.object_(one, where, level) for one in settled])
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
