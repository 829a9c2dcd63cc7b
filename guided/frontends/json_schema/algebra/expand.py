"""Expands a conjunction of schemas into a union of shapes. In: a *goal*, which is the set of schemas that apply to one
value. Out: `Shape`s, and the reasons why alternatives without values were dropped.

How: references, `allOf` and sibling keywords add to the conjunction, and `anyOf` splits it. So the result is the
disjunctive normal form, with one shape for each choice of branches. For example, `{"anyOf": [A, B], "minLength": 2}` is
the shape of A with `minLength`, and the shape of B with it. An alternative is dropped as soon as it is known to be
empty. If the choices would multiply far beyond the size of the schema, `by_type.py` keeps them as a formula. A schema
that leads back to itself without entering a member or an item has no defined meaning, and is refused.

Cost: linear without `anyOf`. If several `anyOf` apply to one value, the product of their branches, bounded by
`Limits.nodes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from guided.errors import LimitExceeded
from guided.frontends.json_schema.algebra.acyclic import CycleCheck, endless_error, is_alias
from guided.frontends.json_schema.algebra.by_type import ShapesByType
from guided.frontends.json_schema.algebra.choices import Choices, Groups, push
from guided.frontends.json_schema.algebra.content import content_error, content_fits, content_schema
from guided.frontends.json_schema.algebra.count_graph import build_count_graph
from guided.frontends.json_schema.algebra.emptiness import explain_emptiness, explain_nothing, filter_enumeration
from guided.frontends.json_schema.algebra.equal_schemas import leaf_content
from guided.frontends.json_schema.algebra.existential_constraints import (
    filter_constants,
    item_cases,
    member_cases,
    split_by_type,
)
from guided.frontends.json_schema.algebra.finite_values import ListedValues
from guided.frontends.json_schema.algebra.keys import Keys, Source
from guided.frontends.json_schema.algebra.membership import Membership
from guided.frontends.json_schema.algebra.reader import Reader
from guided.frontends.json_schema.algebra.shape import ALL_TYPES, ANYTHING, ObjectPart, Shape, Window, has_false
from guided.frontends.json_schema.algebra.strings import any_string, union_of, with_length
from guided.frontends.json_schema.documents.keywords import REFERENCES
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import json_type
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.ir.nodes import Alt, And, Node, Text
from guided.ir.serial import serial
from guided.limits import Limits
from guided.meter import STEP, spend

__all__ = ["Expander", "Expansion", "Goal"]

# compilations do not share expansions of schemas with these keywords
_UNCACHED_KEYWORDS = frozenset(("pattern", "x-guided-python-pattern", "x-guided-quote"))
_ALTERNATIVE_COST = 20  # the cost of a branch of a disjunctive normal form, in nodes
_MAX_ITEM_OBLIGATIONS = 3  # with more obligations on items, they become a condition on the array
_MAX_UNCOMPARED = 16  # with at most this many goals, looking for copies of schemas does not pay
_MAX_ORDERED = 2  # up to this many schemas of one value keep their order, if members come in declared order
_MIN_NODES = 60 * _ALTERNATIVE_COST  # the size in nodes that every normal form may have
_MAX_GROWTH = 2  # a larger form may have this many alternatives per schema; beyond that, a formula replaces it

Goal: TypeAlias = tuple[Schema, ...]
"""Schemas that all apply to one value: none is `true`, none occurs twice. The empty goal allows any value."""


class Expansion(NamedTuple):
    """The shapes of a goal, and (pointer, reason) for each branch without values."""

    shapes: tuple[Shape, ...]
    reasons: tuple[tuple[str, str], ...]


leaf_expansions: dict[tuple[str, str, tuple[object, ...]], Expansion] = {}
"""Expansions of scalar schemas, by their keywords and the relevant options. Most documents share a few of them."""
MAX_LEAVES = 1024


class KeyClass(NamedTuple):
    """The names of additional members that belong to the same sources: the intersection of the languages `names`.

    `schemas`: the schemas that such a member must satisfy. `blocks`: for each block of the shape, the schemas that the
    member must satisfy to meet the block, or None if the block requires a member with a different name.
    """

    names: tuple[Node, ...]
    schemas: tuple[Schema, ...]
    blocks: tuple[tuple[Schema, ...] | None, ...]


class Expander:
    """Expands the goals of one library, each once."""

    def __init__(self, reader: Reader, options: JsonSchemaOptions, limits: Limits) -> None:
        self.reader, self._options, self._limits = reader, options, limits
        self._expansions: dict[Goal, Expansion] = {(): Expansion((ANYTHING,), ())}
        self._leaves: dict[tuple[object, ...], Schema] = {}  # by content
        self._leaf_contents: dict[Schema, tuple[object, ...]] = {}  # the content of each schema in `_leaves`
        self._orders: dict[frozenset[Schema], Goal] = {}  # the order in which schemas first occurred
        self._cycle_check = CycleCheck(reader.read)
        self.open_goals: set[Goal] = set()  # goals that are being expanded
        self.keys = Keys(self.strings, reader.restrict_to_output, reader.overlap)
        self.restrict_to_output = reader.restrict_to_output
        self.negation = reader.negation
        self._choices = Choices(reader)
        self.membership = Membership(reader.read, self.keys)
        self.listed_values = ListedValues(self)
        self.by_type = ShapesByType(self, limits)

    def goal(self, schemas: tuple[Schema, ...]) -> Goal:
        """The goal of some schemas, with equal schemas merged.

        A schema that is only a reference is replaced by its target, and a schema of scalars by the first one with the
        same content.
        """
        out: dict[Schema, None] = {}
        for schema in schemas:
            if len(schema.constraints) == 1 and schema.constraints[0] in REFERENCES:
                schema = self._target(schema)
            if schema.constraints or schema.value is False:
                out[schema] = None
        if len(out) == 1 and (leaf := leaf_content(next(iter(out)))) is not None:
            known_schema = self._leaves.get(leaf)
            if known_schema is None:
                (known_schema,) = out
                self._leaves[leaf], self._leaf_contents[known_schema] = known_schema, leaf
            return (known_schema,)
        needs_comparison = len(schemas) > 1 or len(self._expansions) > _MAX_UNCOMPARED or self.negation.is_used
        goal = tuple(dict.fromkeys(map(self.negation.representative, out)) if needs_comparison else out)
        if len(goal) > (1 if self._options.property_order == "any" else _MAX_ORDERED):
            return self._orders.setdefault(frozenset(goal), goal)
        return goal

    def _target(self, schema: Schema) -> Schema:
        """The target of a schema that is only a reference."""
        seen = {schema}
        while is_alias(schema):
            schema = self.reader.read(schema).groups[0][0]
            if schema in seen:
                raise endless_error(schema)
            seen.add(schema)
        return schema

    def expand(self, goal: Goal) -> Expansion:
        """The shapes of a goal. Each goal is expanded once."""
        expansion = self._expansions.get(goal)
        if expansion is None:
            self.open_goals.add(goal)
            try:
                expansion = self._expansions[goal] = self._expand(goal)
            except LimitExceeded as error:
                error.place = error.place or goal[0].location
                raise
            finally:
                self.open_goals.discard(goal)
            spend(STEP)
        return expansion

    def _expand(self, goal: Goal) -> Expansion:
        leaf = self._leaf_contents.get(goal[0]) if len(goal) == 1 else None
        if leaf is None or not _UNCACHED_KEYWORDS.isdisjoint(goal[0].constraints):
            return self._compute(goal)
        key = (self._options.format, self._options.unknown_format, leaf)
        expansion = leaf_expansions.get(key)
        if expansion is None:
            expansion = self._compute(goal)
            if expansion.shapes:  # if there are no shapes, the reasons name a location
                if len(leaf_expansions) >= MAX_LEAVES:
                    leaf_expansions.clear()
                leaf_expansions[key] = expansion
        return expansion

    def _compute(self, goal: Goal) -> Expansion:
        if len(goal) == 1 and not (meaning := self.reader.read(goal[0])).groups and goal[0].value is not False:
            shapes, reason = self.resolve_obligations(meaning.shape)  # the usual case: nothing to combine
            reason = explain_nothing(goal[0], self.negation) or reason
            return Expansion(shapes, () if shapes else ((goal[0].location, reason),))
        for schema in goal:
            self._cycle_check.check(schema)
        for max_nodes in self._node_limits(goal):
            try:
                return self._multiply_out(goal, max_nodes)
            except LimitExceeded as error:
                if error.limit != "nodes":
                    raise
        return self._expand_by_type(goal)

    def _node_limits(self, goal: Goal) -> Iterator[int]:
        """The maximum sizes of a normal form to try, in nodes: first a small constant, then a multiple of the schema's
        size.

        The size is the number of schemas that apply to the same value, without those inside complements.
        """
        yield _MIN_NODES
        seen = set(goal)
        work = list(goal)
        while work:
            schema = work.pop()
            if self.negation.original_of(schema) is None:
                inner_schemas = {inner for group in self.reader.read(schema).groups for inner in group} - seen
                seen |= inner_schemas
                work += inner_schemas
        if int(_MAX_GROWTH * _ALTERNATIVE_COST * len(seen)) > _MIN_NODES:
            yield int(_MAX_GROWTH * _ALTERNATIVE_COST * len(seen))

    def _multiply_out(self, goal: Goal, max_nodes: int) -> Expansion:
        """The disjunctive normal form. Raises LimitExceeded beyond `max_nodes` nodes."""
        shapes: list[Shape] = []
        reasons: list[tuple[str, str]] = []
        # (shape so far, remaining groups as a linked list, schemas chosen so far, deferred complements)
        work: list[tuple[Shape, Groups, frozenset[Schema], tuple[Schema, ...]]]
        work = [(ANYTHING, push(goal, None), frozenset(), ())]
        finished_choices: set[frozenset[Schema]] = set()
        steps = 0
        while work:
            shape, groups, chosen, deferred = work.pop()
            steps += 1 + (len(shape.objects) + len(shape.required)) // 8
            if steps * _ALTERNATIVE_COST > max_nodes:
                raise LimitExceeded("nodes", steps * _ALTERNATIVE_COST, max_nodes)
            spend(STEP)
            groups, deferred = self._choices.next_group(groups, deferred, shape)
            if groups is None and chosen in finished_choices:
                continue  # the same schemas in a different order
            if groups is None:
                finished_choices.add(chosen)
                resolved_shapes, reason = self.resolve_obligations(shape, max_nodes - steps * _ALTERNATIVE_COST)
                steps += len(resolved_shapes)
                shapes += resolved_shapes
                if not resolved_shapes:
                    reasons.append((goal[0].location if goal else "", reason))
                continue
            group, groups = groups
            if len(group) > 1 and not chosen.isdisjoint(group):  # the group adds nothing
                work.append((shape, groups, chosen, deferred))
                continue
            for schema in reversed(group):
                if schema in chosen or schema in deferred:
                    work.append((shape, groups, chosen, deferred))
                elif self.negation.excludes(schema, chosen) or self.negation.excludes(schema, deferred):
                    reasons.append((schema.location, "the schema is both required and excluded"))
                elif reason := explain_nothing(schema, self.negation):
                    reasons.append((schema.location, reason))
                elif len(group) > 1 and self._choices.has_cases(schema):
                    work.append((shape, groups, chosen, (*deferred, schema)))
                else:
                    meaning = self.reader.read(schema)
                    rest = groups
                    for inner_group in reversed(meaning.groups):
                        rest = (inner_group, rest)
                    intersection = shape.meet(meaning.shape)
                    if intersection is not shape and rest is not None:  # do not multiply an empty shape
                        narrowed_shape, reason = self._narrow(intersection)
                        if not narrowed_shape.types:
                            reasons.append((schema.location, reason))
                            continue
                    work.append((intersection, rest, chosen | {schema}, deferred))
        return Expansion(tuple(shapes), tuple(reasons))

    def _expand_by_type(self, goal: Goal) -> Expansion:
        """The shapes type by type, if alternatives would multiply. A formula replaces the alternatives of objects."""
        shapes = self.by_type.shapes(goal)
        reason = "no type is allowed by all parts of the schema"
        return Expansion(shapes, () if shapes else ((goal[0].location, reason),))

    def narrow_or_none(self, shape: Shape) -> Shape | None:
        """The shape without types that have no values left. None if no type is left."""
        narrowed_shape = self._narrow(shape)[0]
        return narrowed_shape if narrowed_shape.types else None

    def resolve_obligations(self, shape: Shape, max_nodes: int | None = None) -> tuple[tuple[Shape, ...], str]:
        """The shape as a union of shapes without obligations, and the reason if the union is empty.

        Raises LimitExceeded beyond `max_nodes` nodes (None: `Limits.nodes`).
        """
        shape = filter_constants(shape, self.membership.fits)
        obligations = shape.some_items or shape.some_members or shape.item_counts
        if not (obligations or shape.unique or shape.repeated):
            narrowed_shape, reason = self._narrow(shape)
            return ((narrowed_shape,) if narrowed_shape.types else ()), reason
        out: list[Shape] = []
        reason = ""
        max_nodes = self._limits.nodes if max_nodes is None else max_nodes
        for index, case in enumerate(self._cases(shape)):
            if index * _ALTERNATIVE_COST > max_nodes:
                raise LimitExceeded("nodes", index * _ALTERNATIVE_COST, max_nodes)
            spend(STEP)
            narrowed_shape, problem = self._narrow(case)
            reason = reason or problem
            out += (narrowed_shape,) if narrowed_shape.types else ()
        return tuple(out), reason or "some item or member must satisfy a schema that none can satisfy"

    def _cases(self, shape: Shape) -> Iterator[Shape]:
        arrays, objects, rest = split_by_type(shape)
        graph = None
        if arrays is not None and shape.values is None:
            graph = build_count_graph(self, arrays, arrays.item_window.meet(Window(high=self._options.max_items)))
        if graph is None and not (shape.some_items or shape.some_members or shape.item_counts):
            yield shape
            return
        if rest is not None:
            yield rest
        if arrays is not None and graph is None and arrays.values is None and _has_many_obligations(arrays):
            yield arrays
        elif arrays is not None:
            yield from item_cases(arrays) if graph is None else (arrays._replace(count_graph=graph),)
        if objects is not None:
            yield from member_cases(objects, self.is_closed, self.keys.contains, self.listed_values.names_for)

    def _narrow(self, shape: Shape) -> tuple[Shape, str]:
        """The shape without types and constants that cannot occur, and the reason if no type is left."""
        spend(STEP)
        problems: dict[str, str] = {}
        if (values := filter_enumeration(shape, self.reader.overlap)) != shape.values:
            shape = shape._replace(values=values)
        for name in shape.types:
            if problem := explain_emptiness(shape, name, self):
                problems[name] = problem
        if shape.types and not problems and shape.values is None:
            return shape, ""
        present_types = set(ALL_TYPES if shape.values is None else map(json_type, shape.values))
        types = tuple(name for name in shape.types if name in present_types and name not in problems)
        reason = "no type is allowed by all parts of the schema"
        if not types:
            if problems:
                reason = "; ".join(problems.values())
            elif shape.values is not None:
                reason = "no value of the enumeration satisfies the other keywords"
        return (shape if types == shape.types else shape._replace(types=types)), reason

    def allows(self, shape: Shape, name: str) -> bool:
        """Whether a member `name` may occur: its name is allowed, and its schema is not `false`."""
        return self.allows_name(shape, name) and not has_false(self.member_schemas(shape, name))

    def allows_name(self, shape: Shape, name: str) -> bool:
        """Whether all schemas of `propertyNames` allow this name."""
        return all(self.keys.contains(names, name) for names in shape.name_schemas)

    def is_closed(self, shape: Shape, formula_parts: Sequence[ObjectPart] = ()) -> bool:
        """Whether additional members are forbidden, by a schema or by the option `additional_properties`.

        `formula_parts`: the parts of the shape's formula. The option has no effect if one of these parts is about
        additional members.
        """
        if any(part.patterns or part.additional is not None for part in formula_parts):
            shape = shape._replace(constrains_objects=False)
        elif formula_parts:
            shape = shape._replace(constrains_objects=True)
        for part in shape.objects:
            if not part.patterns and part.additional is not None and part.additional.value is False:
                return True
        return self.is_closed_by_option(shape) and not any(part.patterns for part in shape.objects)

    def is_closed_by_option(self, shape: Shape) -> bool:
        """Whether the option forbids members that no keyword mentions."""
        if self._options.additional_properties is not False or not shape.constrains_objects or shape.values is not None:
            return False
        return all(part.additional is None for part in shape.objects)

    def member_schemas(self, shape: Shape, name: str) -> tuple[Schema, ...]:
        """The schemas for the member `name`."""
        out: list[Schema] = []
        for part in shape.objects:
            if part.patterns:
                out += part.member_schemas(name, self.keys.contains)
            elif (schema := part.properties.get(name, part.additional)) is not None:  # the usual case
                out.append(schema)
        return tuple(out)

    def may_have_values(self, goal: Goal) -> bool:
        """Whether some value may satisfy the goal. False is certain; True may be an overestimate."""
        if has_false(goal) or any(self.negation.excludes(schema, goal) for schema in goal):
            return False
        return goal in self.open_goals or bool(self.expand(goal).shapes)

    def key_classes(self, shape: Shape) -> Iterator[KeyClass]:
        """The classes of names of additional members, and the schemas for these members."""
        sources: list[Source] = [source for part in shape.objects for source, _ in part.patterns]
        sources += [some_member.keys for block in shape.extra_blocks for some_member in block]
        for names, ids in self.keys.classes(
            shape.name_schemas, sources, shape.member_names(), _pattern_location(shape)
        ):
            if self.is_closed_by_option(shape):
                containing_sources = (source for part in shape.objects for source, _ in part.patterns)
                if not any(serial(source) in ids for source in containing_sources):
                    continue
            blocks = [
                tuple(some_member.schema for some_member in block if some_member.schema is not None)
                if all(serial(some_member.keys) in ids for some_member in block)
                else None
                for block in shape.extra_blocks
            ]
            schemas = [schema for part in shape.objects for schema in part.additional_schemas(ids)]
            yield KeyClass(names, tuple(schemas), tuple(blocks))

    def strings(self, schema: Schema, restrict: Callable[[Node], Node]) -> Node:
        """The decoded strings that satisfy a schema. `restrict` is applied to each pattern."""
        languages: list[Node] = []
        string_schema = self.reader.negation.derive(schema, Shape(types=("string",)))
        goal = self.goal((string_schema, schema))
        for shape in () if has_false(goal) else self.expand(goal).shapes:
            content: list[Node] = [*map(restrict, shape.patterns)]
            if shape.values is not None:
                listed = [value for value in shape.values if isinstance(value, str) and content_fits(value, shape)]
                content.append(Alt(tuple(map(Text, listed))))
            elif (text_content := content_schema(shape)) is not None:
                raise content_error(
                    text_content, "contentMediaType is not enforced for member names", "drop it from propertyNames"
                )
            language = any_string() if not content else content[0] if len(content) == 1 else And(tuple(content))
            languages.append(with_length(language, shape.length.low, shape.length.high))
        return union_of(languages)


def _has_many_obligations(shape: Shape) -> bool:
    """Whether the ways to assign items to obligations would multiply, and nothing else distinguishes the items."""
    is_plain = shape.unique is None and shape.repeated is None and not (shape.item_counts or shape.rest_blocks)
    has_positions = shape.prefix_length > 0 or any(some_item.start > 0 for some_item in shape.some_items)
    return is_plain and len(shape.some_items) > _MAX_ITEM_OBLIGATIONS and not has_positions


def _pattern_location(shape: Shape) -> str:
    """The location of one of the patterns for names; "" if there is none."""
    return next((schema.location for part in shape.objects for _, schema in part.patterns), "")
