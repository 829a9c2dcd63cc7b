"""What the keywords of one schema evaluate, and the possible outcomes of its applicators. In: a `Schema`. Out: an
`Evaluation`, of which `unevaluated.py` makes cases.

`not` evaluates nothing. `contains` evaluates the items that it finds, from 2020-12 on. Cost: linear in the keywords,
but for `anyOf` and `oneOf`: all subsets of the branches that evaluate anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from guided.spec.json_schema.algebra.shape import Shape
from guided.spec.json_schema.algebra.unevaluated import Case, Evaluation, Outcome
from guided.spec.json_schema.documents.keywords import REFERENCES
from guided.spec.json_schema.documents.resolve import Schema

if TYPE_CHECKING:
    from guided.spec.json_schema.algebra.reader import Reader

__all__ = ["evaluation"]


def evaluation(reader: Reader, schema: Schema, *, with_rest: bool = True) -> Evaluation:
    """The evaluation of a schema. Without `with_rest`, its own `unevaluated*` keywords do not count."""
    if not isinstance(schema.value, dict):
        return Evaluation(Case())
    part = reader.own_members(schema)
    listed = reader.own_items(schema)
    contains = schema.document.draft == "2020-12" and schema.known("contains")
    own = Case(
        (),
        tuple(part.properties),
        tuple(source for source, _ in part.patterns),
        part.additional is not None or (with_rest and schema.known("unevaluatedProperties")),
        len(listed.prefix),
        listed.rest is not None or (with_rest and schema.known("unevaluatedItems")),
        (reader.library.child(schema, "contains"),) if contains else (),
    )
    return Evaluation(own, tuple(_applicators(reader, schema)))


def _applicators(reader: Reader, schema: Schema) -> Iterator[tuple[Outcome, ...]]:
    child = reader.library.child
    for keyword in REFERENCES:
        if schema.known(keyword):
            yield (((reader.library.resolve(schema, keyword),), ()),)
    if schema.known("allOf"):
        for branch in reader.branches(schema, "allOf"):
            yield (((branch,), ()),)
    for keyword in ("anyOf", "oneOf"):
        if schema.known(keyword):
            yield tuple(_subsets(reader, reader.branches(schema, keyword)))
    if schema.known("if"):
        condition = child(schema, "if")
        then = (child(schema, "then"),) if schema.known("then") else ()
        other = (child(schema, "else"),) if schema.known("else") else ()
        yield ((condition, *then), ()), (other, (condition,))
    for keyword in ("dependentSchemas", "dependencies"):
        if schema.known(keyword):
            assert isinstance(schema.value, dict)
            value = schema.value[keyword]
            for name, then_ in value.items() if isinstance(value, dict) else ():
                if isinstance(then_, dict | bool):
                    yield _present_or_not(reader, schema, name, child(schema, keyword, name))


def _subsets(reader: Reader, branches: tuple[Schema, ...]) -> Iterator[Outcome]:
    """All subsets of the branches that evaluate anything. The keyword itself asks that enough of them hold."""
    matter = [branch for branch in branches if reader.unevaluated.evaluates(branch)]
    for chosen in product((True, False), repeat=len(matter)):
        holding = tuple(branch for branch, holds in zip(matter, chosen, strict=True) if holds)
        yield holding, tuple(branch for branch in matter if branch not in holding)


def _present_or_not(reader: Reader, schema: Schema, name: str, then: Schema) -> tuple[Outcome, ...]:
    present = reader.negation.derived(schema, Shape(types=("object",), required=(name,)))
    return ((present, then), ()), ((reader.negation.without(schema, name),), ())
