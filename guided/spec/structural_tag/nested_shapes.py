"""What a schema says of the values at one place: which types, and which objects and arrays.

    shapes = Shapes({"$defs": {"at": {"type": "object", "properties": {"lat": {"type": "number"}}}}})
    place = Place({"anyOf": [{"$ref": "#/$defs/at"}, {"type": "string"}]}, "/properties/where")
    shapes.kinds(place)                     # {"object", "string"}
    shapes.leaves(place, "object")          # [Place({"type": "object", ...}, "/$defs/at")]

In: a schema and its JSON Pointer. Out: types, and *leaves*, the schemas without `anyOf`, `oneOf`, `$ref`, `enum` and
`const` that say what an object, or an array, may be. Both those who write elements that nest and those who read them
back walk along the leaves. Cost: linear in the alternatives of a place; each place is looked at once.

What it does not do: read keywords that relate several members or items. They are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from guided.errors import SpecError, UnsupportedError, brief
from guided.spec.json_schema.documents.places import escape
from guided.spec.structural_tag.arguments import kinds_of, object_members

__all__ = ["OF_OBJECTS", "Place", "Shapes", "arrays", "item_at", "member_of"]

OF_OBJECTS: Final = ("properties", "required", "additionalProperties")
_ALL: Final = frozenset(("string", "number", "boolean", "null", "object", "array"))
_CHOICES: Final = ("$ref", "anyOf", "oneOf", "enum", "const")
_ABOUT: Final = frozenset(
    ("title", "description", "$comment", "examples", "$schema", "default", "deprecated", "$defs", "definitions", "type")
)
_READ: Final = frozenset(
    (*_ABOUT, *OF_OBJECTS, "items", "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "pattern",
     "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
)  # fmt: skip


class Place(NamedTuple):
    """A schema, and its JSON Pointer within the schema of the arguments."""

    schema: Any
    at: str


class Shapes:
    """The places of one schema. `shared`: the definitions that it may refer to.

    Raises:
        SpecError, UnsupportedError: from all methods; the schema is malformed, or says what is not read here.
    """

    def __init__(self, shared: Mapping[str, Any]) -> None:
        self._shared = shared
        self._ways: dict[str, list[tuple[Place, frozenset[str]]]] = {}
        self._kinds: dict[str, frozenset[str]] = {}
        self._own: dict[str, set[str]] = {}
        self._leaves: dict[tuple[str, str], list[Place]] = {}

    def kinds(self, place: Place) -> frozenset[str]:
        """The types that a value may have."""
        if place.at not in self._kinds:
            found = [types & self._kinds_of(one) for one, types in self._alternatives(place)]
            self._kinds[place.at] = frozenset[str]().union(*found)
        return self._kinds[place.at]

    def leaves(self, place: Place, kind: str) -> list[Place]:
        """The schemas of the objects, or of the arrays, that may stand there."""
        if (place.at, kind) not in self._leaves:
            found: dict[str, Place] = {}
            for one, types in self._alternatives(place):
                if kind in types and kind in self._kinds_of(one):
                    found |= {leaf.at: leaf for leaf in _leaves_of(one, kind)}
            self._leaves[place.at, kind] = list(found.values())
        return self._leaves[place.at, kind]

    def _kinds_of(self, place: Place) -> set[str]:
        if isinstance(place.schema, bool):
            return set(_ALL) if place.schema else set()
        if place.at not in self._own:
            self._own[place.at] = kinds_of(place.schema, self._shared)
        return self._own[place.at]

    def _alternatives(self, place: Place) -> list[tuple[Place, frozenset[str]]]:
        """The schemas of which a value has to satisfy one, and the types that are left of it."""
        if place.at not in self._ways:
            out, met, todo = [], set[tuple[str, frozenset[str]]](), [(place, _ALL)]
            while todo:
                one, types = todo.pop()
                if (one.at, types) in met:
                    continue
                met.add((one.at, types))
                if isinstance(one.schema, dict):
                    types &= _named(one.schema)
                ways = self._choices(one)
                if ways is None:
                    out.append((one, types))
                else:
                    todo += [(way, types) for way in reversed(ways)]
            self._ways[place.at] = out
        return self._ways[place.at]

    def _choices(self, place: Place) -> list[Place] | None:
        """What a reference or a choice stands for; None if the schema is neither."""
        schema, at = place
        if not isinstance(schema, dict):
            return None
        names = [name for name in schema if name not in _ABOUT]
        if len(names) != 1 or names[0] not in ("$ref", "anyOf", "oneOf"):
            return None
        name, value = names[0], schema[names[0]]
        if name == "$ref":
            return [self._target(value, f"{at}/$ref")]
        if not isinstance(value, list):
            raise SpecError(f"{name!r} is not an array", pointer=f"{at}/{name}", hint="write [{...}, {...}]")
        ways = [Place(one, f"{at}/{name}/{number}") for number, one in enumerate(value)]
        for kind in ("object", "array") if name == "oneOf" else ():
            if sum(kind in self.kinds(way) for way in ways) > 1:
                raise _unsupported(f"several {kind}s of which exactly one fits are not enforced in this style", at)
        return ways

    def _target(self, reference: Any, at: str) -> Place:
        for folder in ("$defs", "definitions"):
            if isinstance(reference, str) and reference.startswith(f"#/{folder}/"):
                name = reference.removeprefix(f"#/{folder}/").replace("~1", "/").replace("~0", "~")
                defined = self._shared.get(folder)
                if isinstance(defined, dict) and name in defined:
                    return Place(defined[name], f"/{folder}/{escape(name)}")
        raise _unsupported(f"a reference to {brief(reference)} is not read in this style", at)


def _named(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types that "type" names; all, if it is missing or malformed, which is told where it is compiled."""
    named = schema.get("type")
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return _ALL
    return frozenset("number" if name == "integer" else name for name in names)


def _leaves_of(place: Place, kind: str) -> list[Place]:
    """The leaves of a schema that is no reference and no choice between schemas."""
    schema, at = place
    if not isinstance(schema, dict) or ("type" not in schema and _READ.isdisjoint(schema) and not _choosing(schema)):
        raise _unsupported("a value of any type is not enforced in this style", at)
    if chosen := _choosing(schema):
        for name in schema:
            if name != chosen and name not in _ABOUT:
                raise _unsupported(f"{name!r} beside {chosen!r} is not enforced in this style", _below(at, name))
        values = schema[chosen] if chosen == "enum" else [schema[chosen]]
        if not isinstance(values, list):
            raise SpecError(f"{chosen!r} is not an array", pointer=f"{at}/{chosen}", hint="write the values in [...]")
        return [
            _constant(value, f"{at}/{chosen}/{number}")
            for number, value in enumerate(values)
            if isinstance(value, dict if kind == "object" else list)
        ]
    for name in schema:
        if name not in _READ:
            raise _unsupported(f"{name!r} of an {kind} is not enforced in this style", _below(at, name))
    if kind == "array":
        arrays(place)
        return [place]
    if "type" not in schema and "properties" not in schema:
        raise _unsupported("an object with any members is not enforced in this style", at)
    read = {name: schema[name] for name in OF_OBJECTS if name in schema}
    object_members(read, at)
    return [Place(read, at)]


def _choosing(schema: Mapping[str, Any]) -> str:
    return next((name for name in _CHOICES if name in schema), "")


def _constant(value: Any, at: str) -> Place:
    """The schema of one object or array."""
    if isinstance(value, list):
        items = [{"const": item} for item in value]
        return Place({"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}, at)
    return Place({"properties": {name: {"const": item} for name, item in value.items()}, "required": list(value)}, at)


def arrays(place: Place) -> tuple[list[Any], Any, int, int | None]:
    """The first items of an array, the others, and how many there are at least and at most."""
    low, high = _count(place, "minItems"), _count(place, "maxItems")
    prefix = place.schema.get("prefixItems", [])
    if not isinstance(prefix, list) or isinstance(place.schema.get("items"), list):
        raise _unsupported("items that are a list are not read in this style", f"{place.at}/items")
    others = place.schema.get("items", high is None or high > len(prefix))
    if others is True:
        raise _unsupported("items of any type are not enforced in this style", place.at)
    return prefix, others, low or 0, high


def _count(place: Place, name: str) -> int | None:
    bound = place.schema.get(name)
    if isinstance(bound, float) and bound.is_integer():
        bound = int(bound)
    if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 0):
        raise SpecError(f"{name!r} is {brief(bound)}, not a count", pointer=f"{place.at}/{name}", hint="write 3")
    return bound


def item_at(place: Place, number: int) -> Place:
    """What a leaf says of the item of this number."""
    prefix, others, _, _ = arrays(place)
    if number < len(prefix):
        return Place(prefix[number], f"{place.at}/prefixItems/{number}")
    return Place(others, f"{place.at}/items")


def member_of(place: Place, name: str) -> Place:
    """What a leaf says of a member that it names."""
    return Place(place.schema["properties"][name], f"{place.at}/properties/{escape(name)}")


def _below(at: str, name: object) -> str:
    return f"{at}/{escape(str(name))}"


def _unsupported(message: str, at: str) -> UnsupportedError:
    return UnsupportedError(message, pointer=at, hint="say it with properties, required, items, anyOf and enum")
