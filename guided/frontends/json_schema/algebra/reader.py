"""Reads one schema object. In: a `Schema`. Out: a `SchemaMeaning`: the `Shape` of its own keywords, and the schemas
that apply to the same value (`$ref`, `allOf`, `anyOf`, ...), as groups of alternatives.

Every keyword is read, or refused with its pointer, a reason and a hint. The reader raises the first problem, or
collects all of them in a list for the report. Cost: linear in the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema.algebra.applicators import APPLICATORS
from guided.frontends.json_schema.algebra.disjoint import DisjointnessTest
from guided.frontends.json_schema.algebra.evaluation import Evaluator
from guided.frontends.json_schema.algebra.foreign_keywords import check_foreign
from guided.frontends.json_schema.algebra.negation import DerivedSchema, Negation
from guided.frontends.json_schema.algebra.number_set import Bound, NumberSet
from guided.frontends.json_schema.algebra.quotations import Quotations
from guided.frontends.json_schema.algebra.shape import ALL_TYPES, ANYTHING, ArrayPart, ObjectPart, Shape, Window
from guided.frontends.json_schema.algebra.unevaluated import UnevaluatedReader
from guided.frontends.json_schema.documents.keywords import CONTENT_KEYWORDS, KNOWN_KEYWORDS
from guided.frontends.json_schema.documents.malformed import (
    describe,
    malformed_error,
    refuse_name_with_surrogate,
)
from guided.frontends.json_schema.documents.resolve import Library
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Decimal10, Json, canonical_key, read_count, refuse_surrogates
from guided.frontends.json_schema.formats import format_shape, why_not_enforced
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.regex import Classes, parse_regex
from guided.frontends.regex.overlap import Overlap
from guided.ir.nodes import Node
from guided.ir.ranges import has_surrogate
from guided.ir.serial import serial
from guided.limits import Limits

__all__ = ["Reader", "SchemaMeaning"]

_RegexDialect: TypeAlias = Literal["python", "ecma"]
Problem = SpecError | UnsupportedError


class SchemaMeaning(NamedTuple):
    """The meaning of one schema: `shape` must hold, and at least one schema of each group."""

    shape: Shape
    groups: tuple[tuple[Schema, ...], ...] = ()


class Reader:
    """Reads the schemas of one library, each once."""

    def __init__(self, library: Library, options: JsonSchemaOptions, limits: Limits) -> None:
        self.library, self.options, self._limits = library, options, limits
        self._meanings: dict[Schema, SchemaMeaning] = {}
        self._plain_patterns: dict[int, Node] = {}
        self._quotations = Quotations(library.documents)
        self.siblings: dict[Schema, Shape] = {}
        """The shape of the keywords next to applicators, for each schema with applicators that was read."""
        self.negation = Negation(self.read, SchemaMeaning)
        self.overlap = Overlap()
        self.disjointness = DisjointnessTest(self.read, self.overlap)
        self.evaluators: dict[tuple[Schema, bool], tuple[Evaluator, ...]] = {}
        """The cached evaluators of each schema (`evaluation.py`)."""
        self.unevaluated = UnevaluatedReader(self)

    def read(self, schema: Schema, problems: list[Problem] | None = None) -> SchemaMeaning:
        """The meaning of a schema. Raises the first problem, or appends all of them to `problems`."""
        meaning = self._meanings.get(schema)
        if meaning is None:
            if isinstance(schema, DerivedSchema):
                meaning = schema.make()
            else:
                meaning = (
                    SchemaMeaning(ANYTHING) if isinstance(schema.value, bool) else self._read_schema(schema, problems)
                )
            if problems is None:
                self._meanings[schema] = meaning
        return meaning

    def _read_schema(self, schema: Schema, problems: list[Problem] | None) -> SchemaMeaning:
        assert isinstance(schema.value, dict)
        shape, groups = ANYTHING, []
        known_keywords = KNOWN_KEYWORDS[schema.document.draft]
        keywords = schema.constraints
        if schema.document.missing_keywords or "$ref" in keywords:
            keywords = tuple(keyword for keyword in keywords if not schema.ignores(keyword))
        for keyword in sorted(
            keywords, key=APPLICATORS.__contains__ if _UNEVALUATED.keys().isdisjoint(keywords) else _reading_order
        ):
            try:
                if keyword not in known_keywords:
                    check_foreign(schema, keyword)
                elif keyword in APPLICATORS:
                    self.siblings[schema] = shape
                    groups += APPLICATORS[keyword](self, schema)
                else:
                    keyword_shape = _SHAPE_READERS[keyword](self, schema, keyword)
                    shape = keyword_shape if shape is ANYTHING else shape.meet(keyword_shape)
            except (SpecError, UnsupportedError) as problem:
                if problems is None:
                    raise
                problems.append(problem)
        return SchemaMeaning(shape, tuple(groups))

    def branches(self, schema: Schema, keyword: str) -> tuple[Schema, ...]:
        """The schemas in a keyword's list."""
        value = schema.get(keyword)
        if not isinstance(value, list) or not value:
            raise malformed_error(schema, keyword, "a non-empty array of schemas", value)
        return tuple(self.library.child(schema, keyword, index) for index in range(len(value)))

    # --- shapes

    def _type(self, schema: Schema, keyword: str) -> Shape:
        value, by_spelling = schema.get(keyword), schema.document.draft == "draft4"
        if isinstance(value, str) and value in _SHAPES_OF_TYPES and not (by_spelling and value == "integer"):
            return _SHAPES_OF_TYPES[value]
        names: list[Any] = value if isinstance(value, list) else [value]
        type_names = tuple(_SHAPES_OF_TYPES)
        for index, name in enumerate(names):
            if name not in type_names:
                pointer = schema.location_of(keyword, index) if isinstance(value, list) else schema.location_of(keyword)
                raise SpecError(
                    f"{describe(name)} is not a type", pointer=pointer, hint="one of " + ", ".join(type_names)
                )
        if not names:
            raise malformed_error(schema, keyword, "the name of a type or a list of names", value)
        return _make_type_shape(tuple(names), by_spelling)

    def _enum(self, schema: Schema, keyword: str) -> Shape:
        values = schema.get(keyword)
        if not isinstance(values, list):
            raise malformed_error(schema, keyword, "an array", values)
        unique: dict[tuple[object, ...], Json] = {}
        for index, value in enumerate(values):
            refuse_surrogates(value, schema, keyword, index)
            unique.setdefault(canonical_key(value), value)
        return Shape(values=tuple(unique.values()))

    def _const(self, schema: Schema, keyword: str) -> Shape:
        value = schema.get(keyword)
        refuse_surrogates(value, schema, keyword)
        return Shape(values=(value,))

    def _window(self, schema: Schema, keyword: str) -> Shape:
        count = read_count(schema.get(keyword))
        if count is None:
            raise malformed_error(schema, keyword, "a non-negative integer", schema.get(keyword))
        window = Window(low=count) if keyword.startswith("min") else Window(high=count)
        if keyword.endswith("Length"):
            return Shape(length=window)
        if keyword.endswith(("Items", "Contains")):
            return Shape(item_window=window)
        return Shape(member_window=window, constrains_objects=True)

    def _bound(self, schema: Schema, keyword: str) -> Shape:
        value, is_exclusive = schema.get(keyword), keyword.startswith("exclusive")
        if is_exclusive and schema.document.draft == "draft4":
            if not isinstance(value, bool):
                hint = f'in draft4 write "{keyword[9:].lower()}": {describe(value)}, "{keyword}": true'
                raise malformed_error(schema, keyword, "a boolean in draft4", value, hint=hint)
            return ANYTHING  # `minimum` and `maximum` read it
        if not isinstance(value, Decimal10):
            hint = "only draft4 allows a boolean: add $schema or pass draft='draft4'" if isinstance(value, bool) else ""
            raise malformed_error(schema, keyword, "a number", value, hint=hint)
        if schema.document.draft == "draft4":
            exclusive_keyword = "exclusive" + keyword.capitalize()
            is_exclusive = schema.value.get(exclusive_keyword) is True  # type: ignore[union-attr]
        bound = Bound(value, is_exclusive)
        is_minimum = keyword.lower().endswith("minimum")
        return Shape(numbers=NumberSet(low=bound) if is_minimum else NumberSet(high=bound))

    def _multiple_of(self, schema: Schema, keyword: str) -> Shape:
        value = schema.get(keyword)
        if not isinstance(value, Decimal10) or value.negative or not value.digits:
            raise malformed_error(schema, keyword, "a number above 0", value)
        is_one = value.small_int() == 1
        return Shape(numbers=NumberSet(integral=True) if is_one else NumberSet(divisors=(value,)))

    def _pattern(self, schema: Schema, keyword: str) -> Shape:
        pattern = schema.get(keyword)
        if not isinstance(pattern, str):
            raise malformed_error(schema, keyword, "a string", pattern)
        return Shape(patterns=(self._parse_pattern(pattern, schema, keyword),))

    def _parse_pattern(self, pattern: str, schema: Schema, keyword: str, *keys: str) -> Node:
        """The strings that contain a match of a pattern. Errors show the pattern and its location in the schema."""
        try:
            parse = _parse_cached if len(pattern) <= _MAX_CACHED_LENGTH else _parse_uncached
            dialect: _RegexDialect = "python" if keyword == "x-guided-python-pattern" else "ecma"
            node = parse(pattern, dialect, self._limits, "full")
            may_narrow = "\\s" in pattern or "\\S" in pattern or dialect == "python"
            if self.options.classes == "plain" and may_narrow:
                self._plain_patterns[serial(node)] = parse(pattern, dialect, self._limits, "plain")
            return node
        except SpecError as error:
            raise SpecError(f"{keyword}: {error.message}", text=error.text, span=error.span, hint=error.hint,
                            pointer=schema.location_of(keyword, *keys)) from None  # fmt: skip
        except UnsupportedError as error:
            raise UnsupportedError(f"{keyword}: {error.reason}", text=error.text, span=error.span, hint=error.hint,
                                   pointer=schema.location_of(keyword, *keys)) from None  # fmt: skip

    def restrict_to_output(self, pattern: Node) -> Node:
        """The strings of a pattern that the output may contain. Comparisons and negations use all of its strings."""
        return self._plain_patterns.get(serial(pattern), pattern)

    def _quote(self, schema: Schema, keyword: str) -> Shape:
        return Shape(patterns=(self._quotations.read(schema),))

    def _format(self, schema: Schema, keyword: str) -> Shape:
        name = schema.get(keyword)
        if not isinstance(name, str):
            raise malformed_error(schema, keyword, "a string", name)
        shape = ANYTHING if self.options.format == "annotate" else format_shape(name)
        if shape is None and self.options.unknown_format == "refuse":
            reason, hint = why_not_enforced(name)
            raise UnsupportedError(reason, pointer=schema.location_of(keyword), hint=hint)
        return shape or ANYTHING

    def _content(self, schema: Schema, keyword: str) -> Shape:
        value = schema.get(keyword)
        if not isinstance(value, str):
            raise malformed_error(schema, keyword, "a string", value)
        if not self.enforces(schema, keyword):
            return ANYTHING
        has_media_type = schema.has_keyword("contentMediaType") and self.enforces(schema, "contentMediaType")
        if keyword == "contentEncoding":
            return ANYTHING if has_media_type else format_shape("byte") or ANYTHING
        return Shape(json_base64=schema) if schema.has_keyword("contentEncoding") else Shape(json_text=schema)

    def enforces(self, schema: Schema, keyword: str) -> bool:
        """Whether `format`, `contentEncoding` or `contentMediaType` is enforced, by its value and the options."""
        name = schema.get(keyword)
        if self.options.format == "annotate" or not isinstance(name, str):
            return False
        if keyword == "format":
            return format_shape(name) is not None
        encoding = schema.get("contentEncoding") if schema.has_keyword("contentEncoding") else None
        is_base64 = isinstance(encoding, str) and encoding.lower() == "base64"
        return is_base64 if keyword == "contentEncoding" else name.lower() == _JSON and (is_base64 or encoding is None)

    def _items(self, schema: Schema, keyword: str) -> Shape:
        """`items`, `prefixItems` and `additionalItems` together, when the first of them is read."""
        if keyword != next(name for name in schema.constraints if name in _ITEMS and schema.has_keyword(name)):
            return ANYTHING
        part = self.own_items(schema)
        return Shape(arrays=(part,)) if part.prefix or part.rest is not None else ANYTHING

    def own_items(self, schema: Schema) -> ArrayPart:
        """The schemas of the keywords about items."""
        value = schema.value
        assert isinstance(value, dict)
        prefix_keyword = "prefixItems" if schema.has_keyword("prefixItems") else "items"
        rest_keyword = (
            "items"
            if prefix_keyword == "prefixItems" or not isinstance(value.get("items"), list)
            else "additionalItems"
        )
        prefix: tuple[Schema, ...] = ()
        if prefix_keyword != rest_keyword and schema.has_keyword(prefix_keyword):
            item_schemas = value[prefix_keyword]
            if prefix_keyword == "items" and schema.document.draft == "2020-12":
                hint = "in 2020-12, the list is prefixItems; for an older draft, add $schema or pass draft="
                raise SpecError("items must be a schema", pointer=schema.location_of("items"), hint=hint)
            if not isinstance(item_schemas, list):
                raise malformed_error(schema, prefix_keyword, "an array of schemas", item_schemas)
            prefix = tuple(self.library.child(schema, prefix_keyword, index) for index in range(len(item_schemas)))
        if isinstance(value.get("items"), list) and schema.document.draft == "2020-12":
            hint = "in 2020-12, the list is prefixItems: use only one of the two lists"
            raise malformed_error(schema, "items", "a schema next to prefixItems", value["items"], hint=hint)
        rest = self.library.child(schema, rest_keyword) if schema.has_keyword(rest_keyword) else None
        return ArrayPart(prefix, rest)

    def _contains(self, schema: Schema, keyword: str) -> Shape:
        """`contains` with its counts."""
        count = Window(self._count(schema, "minContains", 1) or 0, self._count(schema, "maxContains", None))
        contains_schema = self.library.child(schema, "contains")
        return self.negation.with_count(contains_schema, count)

    def _count(self, schema: Schema, keyword: str, default: int | None) -> int | None:
        if not schema.has_keyword(keyword):
            return default
        window = self._window(schema, keyword).item_window
        return window.low if keyword.startswith("min") else window.high

    def _members(self, schema: Schema, keyword: str) -> Shape:
        """`properties`, `patternProperties` and `additionalProperties` together, when the first of them is read."""
        if keyword != next(filter(_MEMBERS.__contains__, schema.constraints)):
            return ANYTHING
        return Shape(objects=(self.own_members(schema),), constrains_objects=True)

    def own_members(self, schema: Schema) -> ObjectPart:
        """The schemas of the keywords about members."""
        value = schema.value
        assert isinstance(value, dict)
        if schema.ignores("properties"):
            return ObjectPart({}, None)
        property_schemas = value.get("properties", {})
        if not isinstance(property_schemas, dict):
            raise malformed_error(schema, "properties", "an object of schemas", property_schemas)
        for name in property_schemas if has_surrogate("".join(property_schemas)) else ():
            refuse_name_with_surrogate(name, schema, "properties")
        properties = {name: self.library.child(schema, "properties", name) for name in property_schemas}
        pattern_schemas = value.get("patternProperties", {})
        if not isinstance(pattern_schemas, dict):
            raise malformed_error(schema, "patternProperties", "an object of schemas", pattern_schemas)
        patterns = []
        for pattern in pattern_schemas:
            node = self._parse_pattern(pattern, schema, "patternProperties", pattern)
            patterns.append((node, self.library.child(schema, "patternProperties", pattern)))
        additional = None
        if "additionalProperties" in value:
            additional = self.library.child(schema, "additionalProperties")
        return ObjectPart(properties, additional, tuple(patterns))

    def _property_names(self, schema: Schema, keyword: str) -> Shape:
        name_schema = self.library.child(schema, keyword)
        return ANYTHING if name_schema.value is True else Shape(name_schemas=(name_schema,), constrains_objects=True)

    def _unique_items(self, schema: Schema, keyword: str) -> Shape:
        value = schema.get(keyword)
        if not isinstance(value, bool):
            raise malformed_error(schema, keyword, "a boolean", value)
        return Shape(unique=schema) if value else ANYTHING

    def _required(self, schema: Schema, keyword: str) -> Shape:
        names = schema.get(keyword)
        if not isinstance(names, list):
            hint = "list the required names in the schema of the enclosing object" if isinstance(names, bool) else ""
            raise malformed_error(schema, keyword, "an array of strings", names, hint=hint)
        return Shape(required=self.read_names(names, schema, keyword), constrains_objects=True)

    def read_names(self, names: list[Json], schema: Schema, *keys: str) -> tuple[str, ...]:
        """The names of members in a list of the schema, without duplicates."""
        out: dict[str, None] = {}
        for index, name in enumerate(names):
            if not isinstance(name, str):
                hint = "the name of a property is a string"
                raise SpecError(
                    f"{describe(name)} is not a property name", pointer=schema.location_of(*keys, index), hint=hint
                )
            refuse_surrogates(name, schema, *keys, index)
            out[name] = None
        return tuple(out)


def _reading_order(keyword: str) -> int:
    """The position of a keyword in the order of reading.

    Applicators come last, because they may look at the shape of the keywords next to them. `unevaluatedItems` comes
    before the other applicators: each of its cases already selects a branch, so later applicators have fewer branches
    to multiply. `unevaluatedProperties` comes after them: branches that evaluate members leave it fewer members to
    constrain.
    """
    return _UNEVALUATED.get(keyword, 2) if keyword in APPLICATORS else 0


@lru_cache(maxsize=256)
def _make_type_shape(names: tuple[str, ...], by_spelling: bool) -> Shape:
    """`by_spelling`: whether a number is an integer depends on its spelling, as in draft 4."""
    types = tuple(name for name in ALL_TYPES if name in names or (name == "number" and "integer" in names))
    integral = "integer" in names and "number" not in names
    numbers = NumberSet(integral=integral, bare=integral and by_spelling)
    return Shape(types=types, numbers=numbers, constrains_objects="object" in names)


@lru_cache(maxsize=256)
def _parse_cached(pattern: str, dialect: _RegexDialect, limits: Limits, classes: Classes) -> Node:
    return _parse_uncached(pattern, dialect, limits, classes)


def _parse_uncached(pattern: str, dialect: _RegexDialect, limits: Limits, classes: Classes) -> Node:
    return parse_regex(pattern, dialect=dialect, search=True, classes=classes, limits=limits)


_MAX_CACHED_LENGTH = 200
_UNEVALUATED = {"unevaluatedItems": 1, "unevaluatedProperties": 3}
_JSON = "application/json"
_SHAPES_OF_TYPES = {name: _make_type_shape((name,), False) for name in (*ALL_TYPES, "integer")}
_ITEMS = ("items", "prefixItems", "additionalItems")
_MEMBERS = ("properties", "patternProperties", "additionalProperties")

_SHAPE_READERS: dict[str, Callable[[Reader, Schema, str], Shape]] = {
    "type": Reader._type,
    "enum": Reader._enum,
    "const": Reader._const,
    **dict.fromkeys(("pattern", "x-guided-python-pattern"), Reader._pattern),
    "x-guided-quote": Reader._quote,
    "format": Reader._format,
    **dict.fromkeys(CONTENT_KEYWORDS, Reader._content),
    "contains": Reader._contains,
    "uniqueItems": Reader._unique_items,
    "multipleOf": Reader._multiple_of,
    "required": Reader._required,
    "propertyNames": Reader._property_names,
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), Reader._window
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), Reader._bound),
    **dict.fromkeys(_ITEMS, Reader._items),
    **dict.fromkeys(_MEMBERS, Reader._members),
}
