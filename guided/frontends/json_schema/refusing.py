"""Finds the keywords of a schema that refuse the continuation of an unfinished JSON text.

In: the schemas that apply (`instance_locations.py`), the text, and the continuation. Out: groups of JSON Pointers. The
keywords of one group refuse the continuation together. If there are several groups, each of them refuses it.

    {"properties": {"age": {"type": "integer", "minimum": 1}}}   after {"age":   the - is refused by
                                                                                 /properties/age/minimum

How: the requirements of a schema on a value are a conjunction of *parts*, one for each keyword. `$ref`, `allOf`, the
only remaining branch of an `anyOf`, and `then` once its condition holds, contribute the parts of the schemas that they
apply. So an applicator is only reported if it decides itself. If a choice refuses the continuation, each remaining
branch refuses it, for its own reason.

1. From the innermost value outwards, report the parts that refuse the next character by themselves. `20` may be the
   beginning of a year from 1700 to 2000. `202` is not, but neither bound refuses it by itself.
2. Otherwise, in the innermost value that refuses the character, report the parts that refuse the complete continuation
   of the value by themselves: for 2020, `maximum`.
3. Otherwise, report a smallest set of parts that refuse the character together. A deletion filter finds it (Chinneck
   and Dravnieks 1991): it drops one part after the other, if the rest still refuses. In this step, the parts of inner
   values count as parts of the enclosing value.

The layout (whitespace and the order of members) is never reported.

Cost: compiling each part by itself; bounded as in `instance_locations.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from guided.frontends.json_schema.algebra.shape import ArrayPart, ObjectPart, Shape
from guided.frontends.json_schema.continuation import Continuation, Extent, Place, open_places
from guided.frontends.json_schema.documents.keywords import REFERENCES
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Decimal10, Json
from guided.frontends.json_schema.instance_locations import UNEVALUATED, InstanceLocations
from guided.meter import spend

__all__ = ["Groups", "refusing"]

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
"""Keyword -> the keywords that define what it applies to, or how. The schemas in these are ignored."""
_OF_VALUES: Final = ("properties", "patternProperties", "additionalProperties", *UNEVALUATED, "items", "prefixItems",
                     "additionalItems")  # fmt: skip
"""Keywords that apply schemas to members and items."""
_NONE, _ONE = Decimal10.parse("0"), Decimal10.parse("1")


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The requirement of one keyword.

    Attributes:
        keyword: its name.
        pointer: its location.
        schema: a schema with this keyword only.
        cases: for a choice, what remains of it: for each branch a condition, and the schemas that it applies.
        is_coarse: whether other parts express the same requirement on the written text, and express it better.
        unless: another schema, which is to blame if it refuses as well.
        is_late: whether the next character makes the part apply, regardless of the text before.
    """

    keyword: str
    pointer: str
    schema: Schema
    cases: tuple[tuple[Schema | None, _Schemas], ...] = ()
    is_coarse: bool = False
    unless: Schema | None = None
    is_late: bool = False


def refusing(applying: InstanceLocations, text: bytes, following: Continuation) -> Groups:
    """The keywords that refuse the continuation, see the module's docstring. Empty if none is known."""
    place = open_places(text, following, lambda written, is_whole: applying.judge((), written, is_whole) is True)
    if place is None:
        return ()
    found = _Refusing(applying).explain((applying.library.root,), place, "character")
    return tuple(dict.fromkeys(applying.full_pointers(group) for group in found))


class _Refusing:
    def __init__(self, applying: InstanceLocations) -> None:
        self._applying, self._library = applying, applying.library
        self._parts: dict[tuple[_Schemas, Place], tuple[list[Schema], list[_Part]]] = {}
        self._wrappers: dict[tuple[Schema, str | int | None], Schema] = {}

    def explain(self, roots: _Schemas, place: Place, extent: Extent) -> list[tuple[str, ...]]:
        """Why a conjunction of schemas refuses the continuation of the value at a place."""
        if found := self._find_single_parts(roots, place, extent):
            return found
        deciding = self._find_deciding_value(roots, place, extent)
        if deciding is None:
            return []
        roots, place = deciding
        if (
            extent == "character"
            and place.value is not None
            and (found := self._find_single_parts(roots, place, "value"))
        ):
            return found
        return self._find_smallest_set([*self._all_parts(roots, place)], place, extent)

    def _find_single_parts(self, roots: _Schemas, place: Place, extent: Extent) -> list[tuple[str, ...]]:
        """The parts that refuse it by themselves: those of inner values, otherwise those of the value itself."""
        spend()
        certain, parts = self._schemas_and_parts(roots, place)
        found: list[tuple[str, ...]] = []
        decided: set[bool] = set()
        for inner in place.inside:
            if inner.longer(extent) is not None:
                applied = self._schemas_of_inner(certain, place, inner)
                inside = self._find_single_parts(applied, inner, extent)
                found += inside
                if inside or (applied and self._refuses(applied, inner, extent)):
                    decided.add(inner.is_name)
        choices = [part for part in parts if part.cases and not part.is_coarse]
        for part in choices:
            ways = [self._find_single_parts(schemas, place, extent) for _, schemas in part.cases]
            if all(ways):
                found += [group for way in ways for group in way]
        for part in parts:
            is_decided = (True in decided and part.keyword == "propertyNames") or (
                False in decided and part.keyword in _OF_VALUES
            )
            if not part.cases and not part.is_coarse and not is_decided and self._is_to_blame(part, place, extent):
                found.append((part.pointer,))
        if not found:
            for part in choices:
                if self._is_to_blame(part, place, extent):
                    found += self._explain_choice(part, place, extent)
        return list(dict.fromkeys(found))

    def _is_to_blame(self, part: _Part, place: Place, extent: Extent) -> bool:
        if not self._refuses((part.schema,), place, extent, is_late=part.is_late):
            return False
        return part.unless is None or not self._refuses((part.unless,), place, extent)

    def _explain_choice(self, part: _Part, place: Place, extent: Extent) -> list[tuple[str, ...]]:
        """Why a choice refuses it: every remaining branch does, or the choice itself decides."""
        found: list[tuple[str, ...]] = []
        for condition, schemas in part.cases:
            if condition is not None and self._refuses((condition,), place, extent):
                continue  # the text rules out the branch
            way = self.explain(schemas, place, extent) if self._refuses(schemas, place, extent) else []
            if not way:
                return [(part.pointer,)]
            found += way
        return found or [(part.pointer,)]

    def _find_deciding_value(self, roots: _Schemas, place: Place, extent: Extent) -> tuple[_Schemas, Place] | None:
        """The innermost value whose schemas refuse it together, and these schemas."""
        certain, _ = self._schemas_and_parts(roots, place)
        for inner in place.inside:
            if inner.longer(extent) is not None:
                found = self._find_deciding_value(self._schemas_of_inner(certain, place, inner), inner, extent)
                if found is not None:
                    return found
        return (roots, place) if roots and self._refuses(roots, place, extent) else None

    def _find_smallest_set(self, parts: list[_Part], place: Place, extent: Extent) -> list[tuple[str, ...]]:
        """A smallest set of parts that refuse it together."""
        kept = sorted(parts, key=lambda part: not part.is_coarse)
        if not self._refuse(kept, place, extent):
            return []
        for part in list(kept):
            others = [each for each in kept if each is not part]
            if others and self._refuse(others, place, extent):
                kept = others
        chosen = next((part for part in kept if part.cases), None)
        if chosen is not None and len(kept) == 1:
            return self._explain_choice(chosen, place, extent)
        if chosen is None:
            return [tuple(dict.fromkeys(part.pointer for part in kept))]
        others = [part for part in kept if part is not chosen]
        found: list[tuple[str, ...]] = []
        for condition, schemas in chosen.cases:
            branch = [*others, *self._all_parts(schemas, place)]
            if condition is None or not self._refuses((condition,), place, extent):
                way = self._find_smallest_set(branch, place, extent)
                found += way or [tuple(dict.fromkeys(part.pointer for part in kept))]
        return list(dict.fromkeys(found))

    def _refuse(self, parts: list[_Part], place: Place, extent: Extent) -> bool:
        """Whether parts together refuse the continuation."""
        schemas = tuple(dict.fromkeys(part.schema for part in parts))
        return self._refuses(schemas, place, extent, is_late=any(part.is_late for part in parts))

    def _refuses(self, schemas: _Schemas, place: Place, extent: Extent, *, is_late: bool = False) -> bool:
        """Whether schemas together refuse the continuation, but allow the written text. Late
        schemas need not allow it.
        """
        longer = place.longer(extent)
        if longer is None or self._applying.judge(schemas, longer.text, longer.is_whole) is not False:
            return False
        return is_late or not place.text or self._applying.judge(schemas, place.text, False) is True

    # --- parts

    def _schemas_of_inner(self, certain: Sequence[Schema], place: Place, inner: Place) -> _Schemas:
        """The schemas that apply to an inner value of the value at a place."""
        if inner.is_name:
            return tuple(self._library.child(one, "propertyNames") for one in certain if one.known("propertyNames"))
        return self._applying.children(certain, place.text, [*place.keys, *place.new_keys], inner.token)

    def _all_parts(self, roots: _Schemas, place: Place) -> Iterator[_Part]:
        """The parts of a value, including those of inner values, wrapped as parts of this value."""
        certain, parts = self._schemas_and_parts(roots, place)
        yield from parts
        for inner in place.inside:
            if not inner.is_name:
                for part in self._all_parts(self._schemas_of_inner(certain, place, inner), inner):
                    if not part.is_coarse and not part.cases:
                        yield _Part("", part.pointer, self._wrap(part.schema, inner.token))

    def _wrap(self, schema: Schema, token: str | int | None) -> Schema:
        """A schema for values whose member or item `token` satisfies this one."""
        if (schema, token) not in self._wrappers:
            if isinstance(token, str):
                shape = Shape(objects=(ObjectPart({token: schema}, None),))
            else:
                shape = Shape(arrays=(ArrayPart(((None,) * (token or 0)) + (schema,), None),))
            self._wrappers[schema, token] = self._applying.reader.negation.derived(schema, shape)
        return self._wrappers[schema, token]

    def _schemas_and_parts(self, roots: _Schemas, place: Place) -> tuple[list[Schema], list[_Part]]:
        """The schemas that a value satisfying `roots` must satisfy, and their parts."""
        if (roots, place) not in self._parts:
            parts: list[_Part] = []
            met: dict[Schema, None] = {}
            work = list(reversed(roots))
            while work:
                schema = work.pop()
                if schema not in met:
                    spend()
                    met[schema] = None
                    if schema.value is False:
                        parts.append(_Part("", schema.where, schema))
                    for keyword in self._applying.keywords(schema):
                        inner, own = self._keyword(schema, keyword, place)
                        work += reversed(inner)
                        parts += own
            self._parts[roots, place] = list(met), parts
        return self._parts[roots, place]

    def _keyword(self, schema: Schema, keyword: str, place: Place) -> tuple[Sequence[Schema], Iterable[_Part]]:
        """The schemas that a keyword certainly applies to the same value, and the keyword's own parts."""
        applying, text = self._applying, place.text
        if keyword in REFERENCES:
            return [self._library.resolve(schema, keyword)], ()
        if keyword == "allOf":
            return applying.reader.branches(schema, keyword), ()
        if keyword in ("anyOf", "oneOf"):
            branches = applying.open_branches(schema, keyword, text)
            is_one = len(branches) == 1
            ways = tuple((None, (branch,)) for branch in branches)
            own = (
                [self._part(schema, keyword, cases=ways, is_coarse=is_one)] if keyword == "oneOf" or not is_one else []
            )
            return branches if is_one else [], own
        if keyword == "if":
            left = [name for name, _ in applying.open_cases(schema, text)]
            both = {
                name: (self._library.child(schema, name),) if schema.known(name) else () for name in ("then", "else")
            }
            condition = self._library.child(schema, keyword)
            cases = (condition, both["then"]), (applying.reader.negation.of(condition), both["else"])
            is_one = len(left) == 1
            return both[left[0]] if is_one else (), [self._part(schema, keyword, cases=cases, is_coarse=is_one)]
        if keyword in ("dependentSchemas", "dependencies"):
            called = applying.dependent(schema, keyword, place.keys)
            late = [
                replace(part, is_late=True)
                for inner in applying.dependent(schema, keyword, place.new_keys)
                for part in self._schemas_and_parts((inner,), place)[1]
            ]
            return called, [*late, self._part(schema, keyword, is_coarse=bool(called or late))]
        return (), self._leaves(schema, keyword)

    def _leaves(self, schema: Schema, keyword: str) -> Iterator[_Part]:
        """The parts of a keyword that applies no schema to the same value."""
        if keyword in UNEVALUATED:  # it applies to what all other keywords leave
            yield _Part(keyword, schema.at(keyword), schema, unless=self._applying.without(schema, *UNEVALUATED))
        elif keyword in ("properties", "patternProperties") and isinstance(named := schema.get(keyword), dict):
            apart = [name for name in named if keyword == "patternProperties" or named[name] is False]
            for name in apart:
                part = self._applying.changed(schema, (keyword, name), {keyword: {name: named[name]}})
                yield _Part(keyword, schema.at(keyword, name), part)
            if rest := {name: inner for name, inner in named.items() if name not in apart}:
                yield _Part(keyword, schema.at(keyword), self._applying.changed(schema, (keyword,), {keyword: rest}))
        elif keyword == "contains":
            yield from self._contains(schema)
        else:
            yield self._part(schema, keyword)

    def _contains(self, schema: Schema) -> Iterator[_Part]:
        """One item, at least `minContains` items, and at most `maxContains` items."""
        assert isinstance(schema.value, dict)
        inner = schema.value["contains"]
        least = schema.value.get("minContains", _ONE) if schema.known("minContains") else _ONE
        one = self._applying.changed(schema, ("contains",), {"contains": inner})
        if least != _NONE:
            yield _Part("contains", schema.at("contains"), one)
        if schema.known("minContains") and least != _NONE:
            value: dict[str, Json] = {"contains": inner, "minContains": least}
            part = self._applying.changed(schema, ("minContains",), value)
            yield _Part("contains", schema.at("minContains"), part, unless=one)
        if schema.known("maxContains"):
            value = {"contains": inner, "minContains": _NONE, "maxContains": schema.get("maxContains")}
            part = self._applying.changed(schema, ("maxContains",), value)
            yield _Part("contains", schema.at("maxContains"), part)

    def _part(
        self,
        schema: Schema,
        keyword: str,
        *,
        cases: tuple[tuple[Schema | None, _Schemas], ...] = (),
        is_coarse: bool = False,
    ) -> _Part:
        """The part of a single keyword."""
        assert isinstance(schema.value, dict)
        beside = {name: schema.value[name] for name in _COMPANIONS.get(keyword, ()) if name in schema.value}
        value = {keyword: schema.get(keyword), **{name: _allow_anything(name, each) for name, each in beside.items()}}
        alone = self._applying.changed(schema, (keyword,), value)
        return _Part(keyword, schema.at(keyword), alone, cases, is_coarse)


def _allow_anything(keyword: str, value: Json) -> Json:
    """The value of a keyword with schemas that allow anything."""
    if keyword in ("properties", "patternProperties") and isinstance(value, dict):
        return dict.fromkeys(value, True)
    return [True] * len(value) if keyword in ("prefixItems", "items") and isinstance(value, list) else value
