"""Evaluates formulas over scalars by set operations, instead of multiplying them out. In: a formula for one type. Out:
shapes whose union is the formula.

A formula over strings becomes a regular language, which the core computes. Sets of numbers are united and intersected
here, without duplicates. Cost: linear for null, boolean and string; as `normal_form` for numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from guided.frontends.json_schema.algebra.content import content_error, content_schema
from guided.frontends.json_schema.algebra.formula import Formula, Junction, Leaf, Negated, fold, join, normal_form
from guided.frontends.json_schema.algebra.number_set import NumberSet
from guided.frontends.json_schema.algebra.shape import Shape
from guided.frontends.json_schema.algebra.strings import any_string, with_length
from guided.frontends.json_schema.documents.values import Decimal10, Json
from guided.frontends.json_schema.formats import superset_if_negated
from guided.frontends.regex.overlap import Overlap
from guided.ir.nodes import EMPTY, Alt, And, Node, Not, Text

__all__ = ["scalar_shapes"]

_MAX_CASES = 8


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
        languages = [fold(case, _strings)[0] for case in _few_cases(formula)]
        return tuple(
            Shape(types=(name,), patterns=(language,)) for language in languages if overlap.may_have_word((language,))
        )
    candidates: tuple[Json, ...] = (True, False) if name == "boolean" else (None,)
    values = tuple(value for value in candidates if fold(formula, partial(_is_true_for, value)))
    return (Shape(types=(name,), values=values),) if values else ()


def _few_cases(formula: Formula) -> list[Formula]:
    """At most `_MAX_CASES` formulas whose union is the formula. An intersection with one alternative of a disjunction
    has far fewer states than the intersection with the whole disjunction.
    """
    if not isinstance(formula, Junction) or not formula.is_conjunction:
        return [formula]
    cases: list[tuple[Formula, ...]] = [()]
    for item in formula.items:
        alternatives = item.items if isinstance(item, Junction) else (item,)  # a disjunction: `join` flattens
        if len(cases) * len(alternatives) > _MAX_CASES:
            alternatives = (item,)
        cases = [(*case, alternative) for case in cases for alternative in alternatives]
    return [join(True, case) for case in cases]


def _is_true_for(value: Json, current: Formula, parts: list[bool]) -> bool:
    """Whether a formula holds for null, true or false."""
    if isinstance(current, Leaf):
        return current.shape.values is None or any(value is constant for constant in current.shape.values)
    if isinstance(current, Junction):
        return all(parts) if current.is_conjunction else any(parts)
    return not parts[0] if isinstance(current, Negated) else current


def _other_numbers(leaf: Leaf) -> Iterable[Formula]:
    """The numbers that a leaf excludes."""
    sets = list(leaf.shape.numbers.complement())
    if leaf.shape.values is not None:
        values = tuple(value for value in leaf.shape.values if isinstance(value, Decimal10))
        sets.append(NumberSet(excluded=values))
    return [Leaf(Shape(types=("number",), numbers=numbers), leaf.schema) for numbers in sets]


def _strings(current: Formula, parts: list[tuple[Node, Node]]) -> tuple[Node, Node]:
    """The decoded strings that satisfy a formula, and all other strings."""
    if isinstance(current, Leaf):
        return _leaf_strings(current)
    if isinstance(current, Junction):
        inside, outside = tuple(part[0] for part in parts), tuple(part[1] for part in parts)
        return (And(inside), Alt(outside)) if current.is_conjunction else (Alt(inside), And(outside))
    if isinstance(current, Negated):
        return parts[0][1], parts[0][0]
    return (any_string(), EMPTY) if current else (EMPTY, any_string())


def _leaf_strings(leaf: Leaf) -> tuple[Node, Node]:
    shape = leaf.shape
    content = content_schema(shape)
    if content is not None:
        raise content_error(content, "contentMediaType is not enforced next to many alternatives", "drop the keyword")
    inside: list[Node] = [*shape.patterns]
    outside: list[Node] = [Not(superset_if_negated(pattern)) for pattern in shape.patterns]
    if shape.values is not None:
        listed_strings = Alt(tuple(Text(value) for value in shape.values if isinstance(value, str)))
        inside.append(listed_strings)
        outside.append(Not(listed_strings))
    low, high = shape.length.low, shape.length.high
    if (low, high) != (0, None) or not inside:
        length = with_length(any_string(), low, high)
        inside.append(length)
        outside.append(Not(length))
    return (inside[0] if len(inside) == 1 else And(tuple(inside))), Alt(tuple(outside))
