"""Writes the text of objects. In: a shape of objects. Out: IR.

An object has the declared members and, unless the shape is closed, additional ones. The names of additional members are
`Entry`s of a `Distinct` that knows the declared names. `conditional.py` handles members under a condition
(`dependentRequired`, `if`). If it refuses, the alternatives are split by the cases of one member (`case_split.py`), or
multiplied out if they are few.

Cost: linear in the members. `containers.py` and `member_tries.py` state their own costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from guided.errors import LimitExceeded, UnsupportedError
from guided.frontends.json_schema.algebra.case_split import has_discriminator, split_by_member
from guided.frontends.json_schema.algebra.conditional import bind
from guided.frontends.json_schema.algebra.expand import Expander, KeyClass
from guided.frontends.json_schema.algebra.shape import Shape, Window, has_false
from guided.frontends.json_schema.algebra.strings import union_of
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.text.containers import (
    Members,
    conditional_members,
    declared_order,
    declared_then_extras,
    permutation_body,
)
from guided.frontends.json_schema.text.member_tries import Field
from guided.ir.nodes import EMPTY, Alt, Member, Node, Permutation, Ref
from guided.meter import spend

if TYPE_CHECKING:
    from guided.frontends.json_schema.text.lower import Lowering

__all__ = ["object_text"]

_MAX_SHARED_CLASSES = 4  # with at most this many name classes, their rules are shared with other objects


def object_text(lowering: Lowering, shape: Shape, location: str, level: int) -> Node:
    """The text of the objects of a shape."""
    if shape.formula is not None:
        return _conditional_text(lowering, shape, location, level)
    notation, names, window = lowering.notation, shape.member_names(), shape.member_window
    is_closed = lowering.expander.is_closed(shape)
    fields = _declared_fields(lowering, shape, location, level)
    is_closed = is_closed or notation.narrowing_at(level).closes(shape)
    extra, required_extras = (None, []) if is_closed else _additional_members(lowering, shape, location, level)
    may_be_empty = not shape.required and window.low == 0 and not required_extras
    max_extras = None if extra is None else _max_additional_members(lowering, shape)
    if extra is None:
        if window.low > len(fields):
            reason = f"{window.low} members are required, but only {len(fields)} are allowed"
            lowering.reasons.append((location, reason))
        if lowering.options.property_order == "any":
            extra = notation.write_many_optional(fields, window, level)
            if extra is not None:
                fields, names = [field for field in fields if field.is_required], {}
    members = Members(fields, notation.separator_at(level), extra, window, max_extras)
    text = notation.wrap("{}", _body(lowering, members, required_extras, location, level), may_be_empty, level)
    if extra is None or text == EMPTY:
        return text
    must_count = bool(required_extras) or window.low > len(set(shape.required)) + 1
    return notation.with_distinct_names(text, tuple(names), level, location if must_count else None)


def _declared_fields(lowering: Lowering, shape: Shape, location: str, level: int) -> list[Field]:
    """The declared members that the shape allows."""
    notation, expander, required, fields = lowering.notation, lowering.expander, set(shape.required), list[Field]()
    for name in shape.member_names():
        spend()
        schemas = expander.member_schemas(shape, name)
        goal = expander.goal(schemas)
        if not has_false(schemas) and (not shape.name_schemas or expander.allows_name(shape, name)):
            value = lowering.value(goal, notation.inner_level(level, name))
            fields.append(notation.member(name, value, name in required, level, location))
    return fields


def _max_additional_members(lowering: Lowering, shape: Shape) -> int | None:
    """The bound on the number of additional members; None if there is none."""
    max_extras = lowering.options.max_items
    if shape.member_window.low > 1:
        # If the names are listed, no more members than names: otherwise no names would be left for the last members.
        name_count = lowering.expander.listed_values.count_additional_names(shape)
        if name_count is not None:
            max_extras = name_count if max_extras is None else min(max_extras, name_count)
    return max_extras


def _body(lowering: Lowering, members: Members, required_extras: list[Node], location: str, level: int) -> Node | None:
    """At least one member, in the order of the options. `required_extras`: additional members that must occur."""
    fields, comma, extra, window, max_extras = members
    is_ordered = lowering.options.property_order == "declared"
    has_counts = window != Window() or max_extras is not None
    if not is_ordered or (required_extras and extra is not None and has_counts):
        if max_extras is not None:
            window = window.meet(Window(0, len(fields) + max_extras))
        return permutation_body(fields, extra, comma, window, required_extras, is_ordered)
    rules = lowering.rule_maker("members", location, level)
    if required_extras and extra is not None:
        required_members = [Member(node, required=True) for node in required_extras]
        others = Permutation((*required_members, Member(extra, required=False, repeatable=True)), comma)
        return declared_then_extras(fields, others, comma, rules)
    return declared_order(members, rules)


def _additional_members(lowering: Lowering, shape: Shape, location: str, level: int) -> tuple[Node | None, list[Node]]:
    """An additional member, and for each block of the shape a member that satisfies it.

    The `Distinct` around the object excludes the declared names. If there are many classes of names, they form one
    rule, so that one automaton reads a name.
    """
    members: list[Node] = []
    required_extras: list[list[Node]] = [[] for _ in shape.extra_blocks]
    classes = list(lowering.expander.key_classes(shape))
    is_one_rule = len(classes) > _MAX_SHARED_CLASSES
    for key_class in classes:
        levels = lowering.notation.additional_levels(
            level, lowering.expander.goal(key_class.schemas), shape.member_names()
        )
        for class_schemas, out in (
            [(key_class.schemas, members), *_goals_of_blocks(key_class, required_extras)]
            if required_extras
            else [(key_class.schemas, members)]
        ):
            class_goal = lowering.expander.goal(class_schemas)
            for names, inner_level in () if has_false(class_goal) else levels:
                value = lowering.value(class_goal, inner_level)
                names = (*key_class.names, *names)
                out.append(
                    lowering.notation.additional_member(
                        names, shape.member_names(), value, level, location, is_one_rule
                    )
                )
    member = union_of(members) if members else None
    if member is not None and is_one_rule:
        name = f"other members {lowering.rule_count} of #{location}"
        lowering.add(name, member, location)
        member = Ref(name)
    return member, [Alt(tuple(nodes)) for nodes in required_extras]


def _goals_of_blocks(
    key_class: KeyClass, required_extras: list[list[Node]]
) -> Iterator[tuple[tuple[Schema, ...], list[Node]]]:
    for block, out in zip(key_class.blocks, required_extras, strict=True):
        if block is not None:
            yield (*key_class.schemas, *block), out


def _conditional_text(lowering: Lowering, shape: Shape, location: str, level: int) -> Node:
    """The text of the objects of a shape with a formula."""
    try:
        members = bind(shape, lowering.expander)
    except UnsupportedError:
        cases: Sequence[Shape] = _case_by_case(lowering.expander, shape)
        cases = lowering.notation.narrowing_at(level).declared_only(cases, lowering.root)
        return union_of([node for case in cases for node in lowering.texts_of(case, location, level)])
    notation, condition, extras = lowering.notation, members.condition, members.extras
    goals = [[cell.goal for cell in cells] for cells in members.slots.values()]
    closed_condition = notation.narrowing_at(level).closed_condition(shape, goals, condition)
    if closed_condition is not None:
        condition, extras = closed_condition, []
    slots = [
        [notation.member(name, lowering.value(cell.goal, inner_level), False, level, location).node for cell in cells]
        for name, cells in members.slots.items()
        for inner_level in (notation.inner_level(level, name),)
    ]
    others = [
        union_of(
            [
                notation.additional_member(
                    (*extra.names, *names),
                    members.names,
                    lowering.value(cell.goal, inner_level),
                    level,
                    location,
                    False,
                )
                for names, inner_level in notation.additional_levels(level, cell.goal, members.names)
            ]
        )
        for extra in extras
        for cell in extra.cells
    ]
    window, cap = shape.member_window, lowering.options.max_items
    if others and cap is not None:
        window = window.meet(Window(0, len(slots) + cap))
    is_ordered = lowering.options.property_order == "declared"
    body = conditional_members(slots, others, notation.separator_at(level), window, condition, is_ordered)
    text = notation.wrap("{}", body, members.may_be_empty, level)
    return notation.with_distinct_names(text, members.names, level, location) if others and text != EMPTY else text


def _case_by_case(expander: Expander, shape: Shape) -> list[Shape]:
    """Shapes whose union is `shape`, which has a formula that `bind` refuses.

    If a member is a discriminator, it splits the shape, since it has few cases. Otherwise the alternatives are
    multiplied out if they are few, and else split by some other member.
    """
    problem: UnsupportedError | None = None
    if has_discriminator(shape, expander):
        try:
            return split_by_member(shape, expander)
        except UnsupportedError as error:
            problem = error
    try:
        return expander.by_type.multiply_out(shape)
    except LimitExceeded as exceeded:
        if exceeded.limit != "nodes":
            raise
    if problem is not None:
        raise problem
    return split_by_member(shape, expander)
