"""Arguments with nested elements: random schemas and values, with jsonschema as the judge, and reading them back."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

import guided
from guided.frontends.structural_tag.call_arguments import XmlArguments
from guided.frontends.structural_tag.element_forms import FORMS
from tests.argument_styles import written
from tests.effort import every
from tests.structural_tag_support import accepts, byte_compiler, of_format, walk

Schema = dict[str, Any]
WORDS = ["", "a", "3", "true", "null", " ", "b\n", "-1.5", "{}", "<x>"]
RELATIONS: list[Schema] = [
    {"minProperties": 1},
    {"maxProperties": 1},
    {"dependentRequired": {"a": ["b"]}},
    {"propertyNames": {"pattern": "^[ab]$"}},
    {"if": {"required": ["a"]}, "then": {"not": {"required": ["c"]}}},
    {"not": {"properties": {"a": {"type": "string"}}, "required": ["a"]}},
    {"allOf": [{"properties": {"b": {"not": {"const": "a"}}}}]},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
]
STYLES = sorted(style for style, form in FORMS.items() if form.has_nested_elements)


def read_back(style: str, schema: Schema, text: str, source: random.Random) -> Any:
    """The reader's result for a text in random pieces. Each state is valid JSON, and a prefix of the next."""
    reader = XmlArguments(FORMS[style], schema)
    kept, at, before = "", 0, {}
    while at < len(text):
        size = source.choice([1, 1, 2, 5, 30])
        kept = reader.read(kept + text[at : at + size])
        at += size
        now = json.loads(reader.text())
        assert begins(before, now), (before, now)
        before = now
    assert reader.may_end and not kept.strip(), (text, kept)
    return before


def begins(before: Any, now: Any) -> bool:
    if isinstance(before, dict) and isinstance(now, dict):
        names = list(before)
        return list(now)[: len(names)] == names and all(begins(before[name], now[name]) for name in names)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) <= len(now) and all(map(begins, before, now))
    return now.startswith(before) if isinstance(before, str) and isinstance(now, str) else bool(before == now)


def random_schema(source: random.Random, depth: int, style: str) -> Schema:
    kinds = ["string", "integer", "boolean", "mixed", "enum", "short"]
    if depth:
        kinds += ["object", "object", "array", "array", "tuple", "any of", "reference", "maybe"]
    match source.choice(kinds):
        case "mixed":
            return {"type": source.sample(["string", "integer", "null", "boolean"], 2)}
        case "enum":
            return {"enum": source.sample([*WORDS, 3, None, True, {"a": "x"}, {"a": 3, "b": {}}], 4)}
        case "short":
            return {"type": "string", "maxLength": 2}
        case "object":
            return random_object(source, depth - 1, style)
        case "array":
            low = source.randint(0, 1)
            items = random_schema(source, depth - 1, style)
            return {"type": "array", "items": items, "minItems": low, "maxItems": low + source.randint(0, 2)}
        case "tuple":
            first = [random_schema(source, depth - 1, style) for _ in range(2)]
            return {"type": "array", "prefixItems": first, "items": False, "minItems": source.randint(0, 2)}
        case "any of":
            return {"anyOf": [random_object(source, depth - 1, style), random_object(source, 0, style)]}
        case "maybe":
            return {"anyOf": [random_object(source, depth - 1, style), {"type": source.choice(["string", "null"])}]}
        case "reference":
            return {"$ref": "#/$defs/tree"}
        case kind:
            return {"type": kind}


def random_object(source: random.Random, depth: int, style: str) -> Schema:
    names = sorted(source.sample("abc", source.randint(0, 3)))
    members = {name: random_schema(source, depth, style) for name in names}
    required = [name for name in names if source.random() < 0.5]
    out = {"type": "object", "properties": members, "required": required, "additionalProperties": False}
    return out | source.choice([{}, {}, {}, *RELATIONS])


def random_arguments(source: random.Random, style: str) -> Schema:
    tree = {
        "type": "object",
        "properties": {"a": {"type": ["string", "integer"]}, "b": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        "additionalProperties": False,
    }
    return {**random_object(source, 3, style), "$defs": {"tree": tree}}


def random_value(source: random.Random, schema: Schema, whole: Schema) -> Any:
    """A value that usually satisfies the schema."""
    if source.random() < 0.04:
        return source.choice([*WORDS, 3, None, {}])
    if "$ref" in schema:
        return random_value(source, whole["$defs"]["tree"], whole) if source.random() < 0.6 else {}
    if "anyOf" in schema:
        return random_value(source, source.choice(schema["anyOf"]), whole)
    if "enum" in schema:
        return source.choice(schema["enum"])
    kind = source.choice(schema["type"]) if isinstance(schema["type"], list) else schema["type"]
    match kind:
        case "object":
            kept = {name: it for name, it in schema["properties"].items() if source.random() < 0.8}
            return {name: random_value(source, it, whole) for name, it in kept.items()}
        case "array":
            first = schema.get("prefixItems", [])
            count = source.randint(0, 3) if not first else source.randint(0, 2)
            items = [*first, *[schema.get("items")] * 3][:count]
            return [random_value(source, it, whole) for it in items if it]
    return {"string": source.choice(WORDS), "integer": source.choice([3, -1]), "null": None, "boolean": True}[kind]


def compiled(style: str, schema: Schema) -> guided.CompiledGrammar:
    return byte_compiler().compile_structural_tag(
        of_format({"type": "json_schema", "json_schema": schema, "style": style}), numbers="plain", max_digits=8
    )


def compiled_or_not(style: str, source: random.Random) -> tuple[Schema, guided.CompiledGrammar] | None:
    """A random schema, and its grammar, if texts determine their values and there is one."""
    schema = random_arguments(source, style)
    try:
        return schema, compiled(style, schema)
    except guided.SpecError as error:
        assert any(part in str(error) for part in ("allows", "satisfies", "generates nothing")), error
    except guided.UnsupportedError as error:
        assert style == "minimax_m3_xml" and "cannot be distinguished" in str(error), error
    return None


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", every(3, range(60)))
def test_generated_calls_are_read_back_and_valid(style: str, seed: int) -> None:
    source = random.Random(f"{style} {seed}")
    found = compiled_or_not(style, source)
    if found is None:
        return
    schema, grammar = found
    for _ in range(6):
        text = "".join(walk(byte_compiler(), grammar, source, 250))
        value = read_back(style, schema, text, source)
        jsonschema.validate(value, schema)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", every(3, range(60)))
def test_values_are_accepted_if_they_are_valid(style: str, seed: int) -> None:
    """In the order of the schema. If types are not written, reading back must give the same value as well."""
    source = random.Random(f"{style} {seed} values")
    found = compiled_or_not(style, source)
    if found is None:
        return
    schema, grammar = found
    for _ in range(25):
        value = random_value(source, schema, schema)
        if not isinstance(value, dict):
            continue
        text = written(style, value)
        valid = jsonschema.Draft202012Validator(schema).is_valid(value)
        accepted = accepts(grammar, list(text.encode()))
        if style == "cohere_xml":
            assert accepted == valid, (schema, value)
        elif accepted:
            jsonschema.validate(read_back(style, schema, text, source), schema)
        elif valid:  # the text has another meaning
            assert read_back(style, schema, text, source) != value, (schema, value)
