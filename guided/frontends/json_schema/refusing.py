"""Finds the keywords of a schema that refuse the continuation of an unfinished JSON text.

In: the schemas that apply (`instance_locations.py`), the text, and the continuation. Out: groups of JSON Pointers. The
keywords of a group refuse the continuation together. If there are several groups, each one refuses it by itself.

    schema:        {"properties": {"age": {"type": "integer", "minimum": 1}}}
    text:          {"age":
    continuation:  -
    refused by:    /properties/age/minimum

How: the requirements of a schema on a value are a conjunction of *parts*, one for each keyword. `$ref`, `allOf`, the
only remaining branch of an `anyOf`, and `then` once its condition holds, contribute the parts of the schemas that they
apply. So an applicator is reported only if none of these parts explains the refusal. If a choice refuses the
continuation, each remaining branch refuses it for its own reason.

1. From the innermost value outwards, report the parts that refuse the next character by themselves. `20` may be the
   beginning of a year from 1700 to 2000. `202` is not, but neither bound refuses it by itself.
2. Otherwise, in the innermost value that refuses the character, report the parts that refuse the complete continuation
   of the value by themselves: for 2020, `maximum`.
3. Otherwise, report a minimal set of parts that refuse the character together. A deletion filter finds it (Chinneck
   and Dravnieks 1991): it drops each part without which the rest still refuses. In this step, the parts of inner values
   count as parts of the enclosing value.

The layout (whitespace and the order of members) is never reported.

Cost: each part is compiled separately, within the bounds of `instance_locations.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from guided.frontends.json_schema.algebra.shape import ArrayPart, ObjectPart, Shape
from guided.frontends.json_schema.continuation import Continuation, ContinuedValue, Extent, read_continued_value
from guided.frontends.json_schema.documents.keywords import REFERENCES
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Decimal10, Json
from guided.frontends.json_schema.instance_locations import UNEVALUATED, InstanceLocations
from guided.meter import spend

__all__ = ["Groups", "find_refusing_keywords"]

Groups: TypeAlias = tuple[tuple[str, ...], ...]
_Schemas: TypeAlias = tuple[Schema, ...]

_COMPANIONS: Final = {
    "additionalProperties": ("properties", "patternProperties"),
    "items": ("prefixItems",),
    "additionalItems": ("items",),
    "if": ("then", "else"),
    "minimum": ("exclusiveMinimum",),
    "maximum": ("exclusiveMaximum",),
}
"""Keyword -> the keywords on which its meaning depends. The part of the keyword contains these companions too, with
`true` for their schemas for members and items (`_without_child_schemas`)."""
_CHILD_KEYWORDS: Final = ("properties", "patternProperties", "additionalProperties", *UNEVALUATED, "items",
                          "prefixItems", "additionalItems")  # fmt: skip
"""Keywords that apply schemas to members and items."""
_ZERO, _ONE = Decimal10.parse("0"), Decimal10.parse("1")


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The requirement of one keyword.

    Attributes:
        keyword: its name.
        pointer: its location.
        schema: a schema with this keyword only.
        cases: for a choice, its remaining branches: a condition (or None), and the schemas that the branch applies.
        is_coarse: whether other parts express the same requirement more precisely, given the written text.
        preferred_cause: a schema that is to blame instead, if it also refuses.
        is_late: whether only the next character makes the part apply; the text before it need not satisfy the part.
    """

    keyword: str
    pointer: str
    schema: Schema
    cases: tuple[tuple[Schema | None, _Schemas], ...] = ()
    is_coarse: bool = False
    preferred_cause: Schema | None = None
    is_late: bool = False


def find_refusing_keywords(locations: InstanceLocations, text: bytes, continuation: Continuation) -> Groups:
    """The keywords that refuse the continuation; see the module's docstring. Empty if none is known."""
    value = read_continued_value(text, continuation, lambda text, is_whole: locations.judge((), text, is_whole) is True)
    if value is None:
        return ()
    groups = _RefusalSearch(locations).explain((locations.library.root,), value, "character")
    return tuple(dict.fromkeys(locations.full_pointers(group) for group in groups))


class _RefusalSearch:
    def __init__(self, locations: InstanceLocations) -> None:
        self._locations, self._library = locations, locations.library
        self._parts: dict[tuple[_Schemas, ContinuedValue], tuple[list[Schema], list[_Part]]] = {}
        self._wrappers: dict[tuple[Schema, str | int | None], Schema] = {}

    def explain(self, roots: _Schemas, value: ContinuedValue, extent: Extent) -> list[tuple[str, ...]]:
        """Why the schemas `roots` together refuse the continuation of an open value."""
        if groups := self._find_single_parts(roots, value, extent):
            return groups
        schemas_and_value = self._find_deciding_value(roots, value, extent)
        if schemas_and_value is None:
            return []
        roots, value = schemas_and_value
        if (
            extent == "character"
            and value.text_with_rest is not None
            and (groups := self._find_single_parts(roots, value, "value"))
        ):
            return groups
        return self._find_minimal_set([*self._all_parts(roots, value)], value, extent)

    def _find_single_parts(self, roots: _Schemas, value: ContinuedValue, extent: Extent) -> list[tuple[str, ...]]:
        """The parts that refuse the continuation by themselves. A keyword that applies schemas to inner values is left
        out if these schemas already refuse the continuation.
        """
        spend()
        required_schemas, parts = self._schemas_and_parts(roots, value)
        groups: list[tuple[str, ...]] = []
        # Whether the schemas of the open member name, or of an inner value, refuse the continuation.
        name_is_explained = value_is_explained = False
        for inner in value.inner_values:
            if inner.text_after(extent) is not None:
                inner_schemas = self._schemas_of_inner(required_schemas, value, inner)
                inner_groups = self._find_single_parts(inner_schemas, inner, extent)
                groups += inner_groups
                if inner_groups or (inner_schemas and self._refuses(inner_schemas, inner, extent)):
                    name_is_explained |= inner.is_name
                    value_is_explained |= not inner.is_name
        choices = [part for part in parts if part.cases and not part.is_coarse]
        for part in choices:
            branch_groups = [self._find_single_parts(schemas, value, extent) for _, schemas in part.cases]
            if all(branch_groups):
                groups += [group for branch_group in branch_groups for group in branch_group]
        for part in parts:
            is_explained = (name_is_explained and part.keyword == "propertyNames") or (
                value_is_explained and part.keyword in _CHILD_KEYWORDS
            )
            if not part.cases and not part.is_coarse and not is_explained and self._is_cause(part, value, extent):
                groups.append((part.pointer,))
        if not groups:
            for part in choices:
                if self._is_cause(part, value, extent):
                    groups += self._explain_choice(part, value, extent)
        return list(dict.fromkeys(groups))

    def _is_cause(self, part: _Part, value: ContinuedValue, extent: Extent) -> bool:
        if not self._refuses((part.schema,), value, extent, is_late=part.is_late):
            return False
        return part.preferred_cause is None or not self._refuses((part.preferred_cause,), value, extent)

    def _explain_choice(self, part: _Part, value: ContinuedValue, extent: Extent) -> list[tuple[str, ...]]:
        """Why a choice refuses the continuation: the reasons of its remaining branches, or the choice itself if
        there is no reason for one of them.
        """
        groups: list[tuple[str, ...]] = []
        for condition, schemas in part.cases:
            if condition is not None and self._refuses((condition,), value, extent):
                continue  # the text rules out the branch
            branch_groups = self.explain(schemas, value, extent) if self._refuses(schemas, value, extent) else []
            if not branch_groups:
                return [(part.pointer,)]
            groups += branch_groups
        return groups or [(part.pointer,)]

    def _find_deciding_value(
        self, roots: _Schemas, value: ContinuedValue, extent: Extent
    ) -> tuple[_Schemas, ContinuedValue] | None:
        """The innermost value whose schemas together refuse the continuation, and these schemas."""
        required_schemas, _ = self._schemas_and_parts(roots, value)
        for inner in value.inner_values:
            if inner.text_after(extent) is not None:
                schemas_and_value = self._find_deciding_value(
                    self._schemas_of_inner(required_schemas, value, inner), inner, extent
                )
                if schemas_and_value is not None:
                    return schemas_and_value
        return (roots, value) if roots and self._refuses(roots, value, extent) else None

    def _find_minimal_set(self, parts: list[_Part], value: ContinuedValue, extent: Extent) -> list[tuple[str, ...]]:
        """A minimal set of parts that together refuse the continuation."""
        remaining = sorted(parts, key=lambda part: not part.is_coarse)
        if not self._parts_refuse(remaining, value, extent):
            return []
        for part in list(remaining):
            others = [other for other in remaining if other is not part]
            if others and self._parts_refuse(others, value, extent):
                remaining = others
        choice = next((part for part in remaining if part.cases), None)
        if choice is not None and len(remaining) == 1:
            return self._explain_choice(choice, value, extent)
        if choice is None:
            return [tuple(dict.fromkeys(part.pointer for part in remaining))]
        others = [part for part in remaining if part is not choice]
        groups: list[tuple[str, ...]] = []
        for condition, schemas in choice.cases:
            branch = [*others, *self._all_parts(schemas, value)]
            if condition is None or not self._refuses((condition,), value, extent):
                branch_groups = self._find_minimal_set(branch, value, extent)
                groups += branch_groups or [tuple(dict.fromkeys(part.pointer for part in remaining))]
        return list(dict.fromkeys(groups))

    def _parts_refuse(self, parts: list[_Part], value: ContinuedValue, extent: Extent) -> bool:
        """Whether parts together refuse the continuation."""
        schemas = tuple(dict.fromkeys(part.schema for part in parts))
        return self._refuses(schemas, value, extent, is_late=any(part.is_late for part in parts))

    def _refuses(self, schemas: _Schemas, value: ContinuedValue, extent: Extent, *, is_late: bool = False) -> bool:
        """Whether schemas together refuse the continuation but allow the written text. With `is_late`, they may also
        refuse the written text.
        """
        continued_text = value.text_after(extent)
        if (
            continued_text is None
            or self._locations.judge(schemas, continued_text.text, continued_text.is_whole) is not False
        ):
            return False
        return is_late or not value.text or self._locations.judge(schemas, value.text, False) is True

    # --- parts

    def _schemas_of_inner(
        self, required_schemas: Sequence[Schema], value: ContinuedValue, inner: ContinuedValue
    ) -> _Schemas:
        """The schemas that apply to an inner value, given the schemas of the enclosing value."""
        if inner.is_name:
            return tuple(
                self._library.child(candidate, "propertyNames")
                for candidate in required_schemas
                if candidate.has_keyword("propertyNames")
            )
        return self._locations.children(
            required_schemas, value.text, [*value.keys, *value.new_keys], inner.name_or_index
        )

    def _all_parts(self, roots: _Schemas, value: ContinuedValue) -> Iterator[_Part]:
        """The parts of a value. The parts of inner values are wrapped so that they constrain this value."""
        required_schemas, parts = self._schemas_and_parts(roots, value)
        yield from parts
        for inner in value.inner_values:
            if not inner.is_name:
                for part in self._all_parts(self._schemas_of_inner(required_schemas, value, inner), inner):
                    if not part.is_coarse and not part.cases:
                        yield _Part("", part.pointer, self._wrap(part.schema, inner.name_or_index))

    def _wrap(self, schema: Schema, key: str | int | None) -> Schema:
        """A schema for values whose member or item `key` satisfies `schema`."""
        if (schema, key) not in self._wrappers:
            if isinstance(key, str):
                shape = Shape(objects=(ObjectPart({key: schema}, None),))
            else:
                shape = Shape(arrays=(ArrayPart(((None,) * (key or 0)) + (schema,), None),))
            self._wrappers[schema, key] = self._locations.reader.negation.derive(schema, shape)
        return self._wrappers[schema, key]

    def _schemas_and_parts(self, roots: _Schemas, value: ContinuedValue) -> tuple[list[Schema], list[_Part]]:
        """The schemas that a value must satisfy if it satisfies `roots`, and their parts."""
        if (roots, value) not in self._parts:
            parts: list[_Part] = []
            seen: dict[Schema, None] = {}
            work = list(reversed(roots))
            while work:
                schema = work.pop()
                if schema not in seen:
                    spend()
                    seen[schema] = None
                    if schema.value is False:
                        parts.append(_Part("", schema.location, schema))
                    for keyword in self._locations.keywords(schema):
                        applied_schemas, own_parts = self._read_keyword(schema, keyword, value)
                        work += reversed(applied_schemas)
                        parts += own_parts
            self._parts[roots, value] = list(seen), parts
        return self._parts[roots, value]

    def _read_keyword(
        self, schema: Schema, keyword: str, value: ContinuedValue
    ) -> tuple[Sequence[Schema], Iterable[_Part]]:
        """The schemas that a keyword certainly applies to the same value, and the keyword's own parts."""
        locations, text = self._locations, value.text
        if keyword in REFERENCES:
            return [self._library.resolve(schema, keyword)], ()
        if keyword == "allOf":
            return locations.reader.branches(schema, keyword), ()
        if keyword in ("anyOf", "oneOf"):
            branches = locations.open_branches(schema, keyword, text)
            has_one_branch = len(branches) == 1
            branch_cases = tuple((None, (branch,)) for branch in branches)
            own_parts = (
                [self._make_part(schema, keyword, cases=branch_cases, is_coarse=has_one_branch)]
                if keyword == "oneOf" or not has_one_branch
                else []
            )
            return branches if has_one_branch else [], own_parts
        if keyword == "if":
            branch_names = [name for name, _ in locations.open_cases(schema, text)]
            schemas_by_case = {
                name: (self._library.child(schema, name),) if schema.has_keyword(name) else ()
                for name in ("then", "else")
            }
            condition = self._library.child(schema, keyword)
            cases = (
                (condition, schemas_by_case["then"]),
                (locations.reader.negation.complement_of(condition), schemas_by_case["else"]),
            )
            has_one_branch = len(branch_names) == 1
            return schemas_by_case[branch_names[0]] if has_one_branch else (), [
                self._make_part(schema, keyword, cases=cases, is_coarse=has_one_branch)
            ]
        if keyword in ("dependentSchemas", "dependencies"):
            applied_schemas = locations.dependent_schemas(schema, keyword, value.keys)
            late_parts = [
                replace(part, is_late=True)
                for late_schema in locations.dependent_schemas(schema, keyword, value.new_keys)
                for part in self._schemas_and_parts((late_schema,), value)[1]
            ]
            return applied_schemas, [
                *late_parts,
                self._make_part(schema, keyword, is_coarse=bool(applied_schemas or late_parts)),
            ]
        return (), self._leaf_parts(schema, keyword)

    def _leaf_parts(self, schema: Schema, keyword: str) -> Iterator[_Part]:
        """The parts of a keyword that applies no schema to the same value."""
        if keyword in UNEVALUATED:  # it applies to the members or items that no other keyword evaluates
            yield _Part(
                keyword,
                schema.location_of(keyword),
                schema,
                preferred_cause=self._locations.without_keywords(schema, *UNEVALUATED),
            )
        elif keyword in ("properties", "patternProperties") and isinstance(schema_by_name := schema.get(keyword), dict):
            separate_names = [
                name for name in schema_by_name if keyword == "patternProperties" or schema_by_name[name] is False
            ]
            for name in separate_names:
                separate = self._locations.with_keywords(
                    schema, (keyword, name), {keyword: {name: schema_by_name[name]}}
                )
                yield _Part(keyword, schema.location_of(keyword, name), separate)
            if rest := {name: child for name, child in schema_by_name.items() if name not in separate_names}:
                yield _Part(
                    keyword,
                    schema.location_of(keyword),
                    self._locations.with_keywords(schema, (keyword,), {keyword: rest}),
                )
        elif keyword == "contains":
            yield from self._contains_parts(schema)
        else:
            yield self._make_part(schema, keyword)

    def _contains_parts(self, schema: Schema) -> Iterator[_Part]:
        """Up to three parts: at least one item, at least `minContains` items, at most `maxContains` items."""
        assert isinstance(schema.value, dict)
        inner = schema.value["contains"]
        min_contains = schema.value.get("minContains", _ONE) if schema.has_keyword("minContains") else _ONE
        contains_only = self._locations.with_keywords(schema, ("contains",), {"contains": inner})
        if min_contains != _ZERO:
            yield _Part("contains", schema.location_of("contains"), contains_only)
        if schema.has_keyword("minContains") and min_contains != _ZERO:
            value: dict[str, Json] = {"contains": inner, "minContains": min_contains}
            part_schema = self._locations.with_keywords(schema, ("minContains",), value)
            yield _Part("contains", schema.location_of("minContains"), part_schema, preferred_cause=contains_only)
        if schema.has_keyword("maxContains"):
            value = {"contains": inner, "minContains": _ZERO, "maxContains": schema.get("maxContains")}
            part_schema = self._locations.with_keywords(schema, ("maxContains",), value)
            yield _Part("contains", schema.location_of("maxContains"), part_schema)

    def _make_part(
        self,
        schema: Schema,
        keyword: str,
        *,
        cases: tuple[tuple[Schema | None, _Schemas], ...] = (),
        is_coarse: bool = False,
    ) -> _Part:
        """The part of a single keyword."""
        assert isinstance(schema.value, dict)
        companions = {name: schema.value[name] for name in _COMPANIONS.get(keyword, ()) if name in schema.value}
        value = {
            keyword: schema.get(keyword),
            **{name: _without_child_schemas(name, companion) for name, companion in companions.items()},
        }
        part_schema = self._locations.with_keywords(schema, (keyword,), value)
        return _Part(keyword, schema.location_of(keyword), part_schema, cases, is_coarse)


def _without_child_schemas(keyword: str, value: Json) -> Json:
    """The value of a keyword, with its schemas for members and items replaced by `true`."""
    if keyword in ("properties", "patternProperties") and isinstance(value, dict):
        return dict.fromkeys(value, True)
    return [True] * len(value) if keyword in ("prefixItems", "items") and isinstance(value, list) else value
