"""Results for schemas of scalars are cached across compilations: with and without the cache, grammars and errors are
equal.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema import json_schema_to_grammar
from guided.frontends.json_schema.algebra import expand
from guided.frontends.json_schema.options import JsonSchemaOptions

LEAVES = [
    {"type": "string"},
    {"type": "integer"},
    {"type": "integer", "minimum": 3, "exclusiveMaximum": 1e3},
    {"type": "number", "multipleOf": 0.5, "maximum": 7},
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "colour"},
    {"type": "string", "enum": ["a", "b", 1, None]},
    {"type": "number", "enum": [1, 1.0, 2.5]},
    {"type": "boolean", "const": True},
    {"type": "string", "pattern": r"^\s[a-c]+$"},
    {"type": "null"},
]
OPTIONS = [
    JsonSchemaOptions(unknown_format="ignore"),
    JsonSchemaOptions(unknown_format="ignore", draft="draft4"),
    JsonSchemaOptions(unknown_format="ignore", draft="2019-09", classes="plain"),
    JsonSchemaOptions(unknown_format="ignore", format="annotate"),
    JsonSchemaOptions(unknown_format="ignore", numbers="plain", whitespace="compact"),
]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    expand.leaf_expansions.clear()
    yield
    expand.leaf_expansions.clear()


def grammar(schema: object, options: JsonSchemaOptions):
    return json_schema_to_grammar(schema, options, findings=[])


@pytest.mark.parametrize("leaf", LEAVES, ids=str)
def test_grammars_are_the_same(leaf) -> None:
    options = [one for one in OPTIONS if one.draft != "draft4" or "exclusiveMaximum" not in leaf]
    schema = {"properties": {"x": leaf, "y": {"type": "array", "items": leaf}}, "anyOf": [{"required": ["x"]}, leaf]}
    fresh = []
    for one in options:
        expand.leaf_expansions.clear()
        fresh.append(grammar(schema, one))
    for other in options:  # whatever is cached for other schemas
        grammar({"prefixItems": [True, leaf], "properties": {"z": leaf}}, other)
    assert [grammar(schema, one) for one in options] == fresh
    assert bool(expand.leaf_expansions) is ("pattern" not in leaf)


def test_errors_have_their_own_places() -> None:
    for name in ("a", "b"):
        schema = {"type": "object", "properties": {name: {"type": "string", "minLength": 3, "maxLength": 1}}}
        with pytest.raises(SpecError) as caught:
            grammar({**schema, "required": [name]}, JsonSchemaOptions())
        assert caught.value.pointer == f"/properties/{name}"
    leaf = {"type": "string", "format": "colour"}
    for name in ("a", "b"):
        grammar({"properties": {name: leaf}}, JsonSchemaOptions(unknown_format="warn"))
        with pytest.raises(UnsupportedError) as refused:
            grammar({"properties": {name: leaf}}, JsonSchemaOptions(unknown_format="refuse"))
        assert refused.value.pointer == f"/properties/{name}/format"


def test_it_is_bounded() -> None:
    for most in range(expand.MAX_LEAVES + 20):
        grammar({"type": "string", "maxLength": most}, JsonSchemaOptions())
    assert 0 < len(expand.leaf_expansions) <= expand.MAX_LEAVES
