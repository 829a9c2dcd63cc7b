"""Formulas over scalars, decided by set operations instead of being multiplied out. In: a formula for one type. Out:
shapes whose union is the formula.

Strings are a regular language, and so is a formula over them; the core computes it. Sets of numbers are united and
intersected here, without duplicates. Cost: linear for null, boolean and string; as `normal_form` for numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from guided.frontends.json_schema.algebra.content import content_error, content_schema
from guided.frontends.json_schema.algebra.formula import Formula, Junction, Leaf, Negated, fold, normal_form
from guided.frontends.json_schema.algebra.number_set import NumberSet
from guided.frontends.json_schema.algebra.shape import Shape
from guided.frontends.json_schema.algebra.strings import any_text, with_length
from guided.frontends.json_schema.documents.values import Decimal10, Json
from guided.frontends.json_schema.formats import superset_if_negated
from guided.frontends.regex.overlap import Overlap
from guided.ir.nodes import EMPTY, Alt, And, Node, Not, Text

__all__ = ["scalar_shapes"]


def scalar_shapes(
    formula: Formula, name: str, narrow: Callable[[Shape], Shape | None], overlap: Overlap, max_nodes: int
) -> tuple[Shape, ...]:
    """The shapes of a formula for null, boolean, number or string."""
    all_values = Shape(types=(name,))
    if isinstance(formula, bool):
        return (all_values,) if formula else ()
    if name == "number":
        return tuple(normal_form(formula, _other_numbers, narrow, all_values, max_nodes))
    if name == "string":
        strings = fold(formula, _strings)[0]
        return (Shape(types=(name,), patterns=(strings,)),) if overlap.may_have_word((strings,)) else ()
    candidates: tuple[Json, ...] = (True, False) if name == "boolean" else (None,)
    values = tuple(value for value in candidates if fold(formula, partial(_is_true_for, value)))
    return (Shape(types=(name,), values=values),) if values else ()


def _is_true_for(value: Json, at: Formula, parts: list[bool]) -> bool:
    """Whether a formula holds for null, true or false."""
    if isinstance(at, Leaf):
        return at.shape.values is None or any(value is constant for constant in at.shape.values)
    if isinstance(at, Junction):
        return all(parts) if at.every else any(parts)
    return not parts[0] if isinstance(at, Negated) else at


def _other_numbers(leaf: Leaf) -> Iterable[Formula]:
    """The numbers that a leaf excludes."""
    sets = list(leaf.shape.numbers.complement())
    if leaf.shape.values is not None:
        values = tuple(value for value in leaf.shape.values if isinstance(value, Decimal10))
        sets.append(NumberSet(excluded=values))
    return [Leaf(Shape(types=("number",), numbers=numbers), leaf.at) for numbers in sets]


def _strings(at: Formula, parts: list[tuple[Node, Node]]) -> tuple[Node, Node]:
    """The decoded strings that satisfy a formula, and all other strings."""
    if isinstance(at, Leaf):
        return _leaf_strings(at)
    if isinstance(at, Junction):
        inside, outside = tuple(part[0] for part in parts), tuple(part[1] for part in parts)
        return (And(inside), Alt(outside)) if at.every else (Alt(inside), And(outside))
    if isinstance(at, Negated):
        return parts[0][1], parts[0][0]
    return (any_text(), EMPTY) if at else (EMPTY, any_text())


def _leaf_strings(leaf: Leaf) -> tuple[Node, Node]:
    shape = leaf.shape
    content = content_schema(shape)
    if content is not None:
        raise content_error(
            content, "a JSON text in a string next to many alternatives is not enforced", "drop the keyword"
        )
    within: list[Node] = [*shape.patterns]
    outside: list[Node] = [Not(superset_if_negated(pattern)) for pattern in shape.patterns]
    if shape.values is not None:
        texts = Alt(tuple(Text(value) for value in shape.values if isinstance(value, str)))
        within.append(texts)
        outside.append(Not(texts))
    low, high = shape.length.low, shape.length.high
    if (low, high) != (0, None) or not within:
        length = with_length(any_text(), low, high)
        within.append(length)
        outside.append(Not(length))
    return (within[0] if len(within) == 1 else And(tuple(within))), Alt(tuple(outside))
