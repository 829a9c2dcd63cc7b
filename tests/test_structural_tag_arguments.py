"""Arguments under all keywords of JSON Schema in the XML styles. jsonschema is the judge. The styles are implemented a
second time (`argument_styles.py`).
"""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

import guided
from guided.frontends.structural_tag.call_arguments import XmlArguments
from guided.frontends.structural_tag.element_forms import FORMS
from tests.argument_styles import QUOTED, STYLES, TYPED, elements, value_of, written
from tests.effort import every
from tests.structural_tag_support import accepts, byte_compiler, compiler_with, ids_of, of_format, walk

Schema = dict[str, Any]
NAMES = ["a", "b", "x_1", "x_2", "k-1", "Z"]
WORDS = ["", "a", "3", "true", "null", " ", "\nb", "-1.5", "{}", "[1]", "<x>", "é\n"]
ESCAPED = ("cohere_xml", "kimi_k3_xml")
OPEN = tuple(style for style in STYLES if style != "minimax_m3_xml")


def random_value_schema(source: random.Random, depth: int = 1) -> Any:
    kinds = ["string", "integer", "boolean", "null", "mixed", "any", "enum", "pattern"] + ["object", "array"] * depth
    match source.choice(kinds):
        case "mixed":
            return {"type": source.sample(["string", "integer", "boolean"], 2)}
        case "any":
            return source.choice([True, {}])
        case "enum":
            return {"enum": source.sample([*WORDS, 3, None, True, {"a": "x"}, [1, "y"]], 4)}
        case "pattern":
            return {"type": "string", "pattern": source.choice(["^[a-c]*$", "3", "^[a3]"])}
        case "object":
            return random_object(source, 0)
        case "array":
            return {"type": "array", "items": random_value_schema(source, 0), "maxItems": source.randint(0, 3)}
        case kind:
            return {"type": kind}


def random_object(source: random.Random, depth: int) -> Schema:
    """It always has a schema for the other members, so that they are not forbidden by default."""
    names = source.sample(NAMES, source.randint(0, 3))
    out: Schema = {"type": "object", "properties": {name: random_value_schema(source, depth) for name in names}}
    out["additionalProperties"] = source.choice([False, True, random_value_schema(source, depth)])
    if source.random() < 0.4:
        out["patternProperties"] = {source.choice(["^x_", "1$", "^[a-z]$"]): random_value_schema(source, depth)}
    if source.random() < 0.3:
        out["propertyNames"] = source.choice(
            [{"pattern": "^[a-z_0-9]+$"}, {"enum": ["a", "b", "x_1"]}, {"maxLength": 2}, {"not": {"const": "b"}}]
        )
    if source.random() < 0.3:
        out["required"] = source.sample(names, min(len(names), source.randint(0, 2)))
    if source.random() < 0.2:
        out |= source.choice([{"minProperties": 1}, {"maxProperties": 2}, {"minProperties": 2}, {"maxProperties": 0}])
    return out


def random_arguments(source: random.Random) -> Schema:
    """The schema of a call: an object, with a constraint on all of the arguments together."""
    schema = random_object(source, 1)
    match source.choice(["", "", "const", "enum", "anyOf", "if", "dependentRequired", "not", "$ref", "oneOf"]):
        case "const":
            return {"const": random_object_value(source)}
        case "enum":
            return {"enum": [random_object_value(source) for _ in range(3)], "type": "object"}
        case "anyOf":
            return {"anyOf": [schema, random_object(source, 1)]}
        case "oneOf":
            return {"oneOf": [schema, {"type": "object", "required": ["a"], "additionalProperties": True}]}
        case "if":
            rule = {"if": {"required": ["a"]}, "then": {"properties": {"b": {"type": "string"}}, "required": ["b"]}}
            return {**schema, **rule}
        case "dependentRequired":
            return {**schema, "dependentRequired": {"a": ["b"], "x_1": ["a"]}}
        case "not":
            return {**schema, "not": {"required": ["b"]}}
        case "$ref":
            return {"$defs": {"all": schema}, "$ref": "#/$defs/all"}
    return schema


def random_object_value(source: random.Random) -> dict[str, Any]:
    values = [*WORDS, 3, -1, True, None, [1, "y"], {"a": "x"}, [], {}]
    return {name: source.choice(values) for name in source.sample(NAMES, source.randint(0, 3))}


def compiled(style: str, schema: Any) -> guided.CompiledGrammar:
    form = {"type": "json_schema", "json_schema": schema, "style": style, "any_order": True}
    return byte_compiler().compile_structural_tag(of_format(form), numbers="plain", max_digits=8)


def compiled_or_not(style: str, schema: Schema) -> guided.CompiledGrammar | None:
    """None if no call satisfies the schema, or the style cannot express enough."""
    try:
        return compiled(style, schema)
    except guided.UnsupportedError as error:
        assert style not in QUOTED, error
        assert "twice in this style" in str(error), error
    except guided.SpecError as error:
        assert any(part in str(error) for part in ("satisfies", "allows", "generates nothing")), error
    return None


def reads(style: str, schema: Any, text: str) -> Any:
    """The result of guided's own reader for a text."""
    form = FORMS[style]
    reader = XmlArguments(form, schema)
    rest = reader.read(text)
    assert reader.may_end and not rest.strip(), (text, rest)
    return json.loads(reader.text())


def check_reading(style: str, schema: Any, text: str) -> Any:
    """The value of a text, on which both readers must agree."""
    value = reads(style, schema, text)
    found = elements(style, text)
    if style in TYPED:
        assert value == {one.name: value_of(one) for one in found}, text
        return value
    assert value.keys() == {one.name for one in found}, text
    for one in found:
        plain = one.value
        if style == "qwen_xml" and len(plain) > 1 and plain[0] == "\n":
            plain = plain[1:].removesuffix("\n")
        if value[one.name] != plain:  # of two elements with the same name, the last one counts
            assert [value[one.name] in (json_or_none(it.value), it.value) for it in found if it.name == one.name][-1]
    return value


def json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


@pytest.mark.parametrize("style", OPEN)
@pytest.mark.parametrize("seed", every(3, range(40)))
def test_generated_arguments_are_valid(style: str, seed: int) -> None:
    source = random.Random(f"{style} {seed}")
    schema = random_arguments(source)
    grammar = compiled_or_not(style, schema)
    for _ in range(5 if grammar is not None else 0):
        assert grammar is not None
        text = "".join(walk(byte_compiler(), grammar, source, 200))
        value = check_reading(style, schema, text)
        jsonschema.Draft202012Validator(schema).validate(value)


@pytest.mark.parametrize("style", OPEN)
@pytest.mark.parametrize("seed", every(3, range(40)))
def test_exactly_the_valid_arguments_are_accepted(style: str, seed: int) -> None:
    source = random.Random(f"{style} {seed} values")
    schema = random_arguments(source)
    grammar = compiled_or_not(style, schema)
    valid = jsonschema.Draft202012Validator(schema).is_valid
    listed = schema.get("enum", [schema["const"]] if "const" in schema else [])
    for number in range(40):
        value = listed[number] if number < len(listed) else random_object_value(source)
        text = written(style, value)
        accepted = grammar is not None and accepts(grammar, list(text.encode()))
        if style in TYPED:
            assert accepted == valid(value) or (grammar is None and style not in QUOTED), (schema, value)
        elif accepted:
            assert valid(check_reading(style, schema, text)), (schema, text)
        elif valid(value) and grammar is not None:  # the text has another meaning
            assert reads(style, schema, text) != value, (schema, value, text)


def takes(style: str, schema: Any, text: str, **more: Any) -> bool:
    form = {"type": "json_schema", "json_schema": schema, "style": style, **more}
    return accepts(byte_compiler().compile_structural_tag(of_format(form)), list(text.encode()))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("any_order", [False, True])
def test_many_optional_arguments(style: str, any_order: bool) -> None:
    names = [f"n{number}" for number in range(100)]
    schema = {"properties": {name: {"type": "integer"} for name in names}, "required": ["n70"]}
    form = {"type": "json_schema", "json_schema": schema, "style": style, "any_order": any_order}
    grammar = byte_compiler().compile_structural_tag(of_format(form))
    for chosen, in_order, expected in (
        (["n70"], True, True),
        (["n0", "n9", "n11", "n70", "n99"], True, True),
        (names, True, True),
        (["n71", "n70"], False, True),
        (["n0", "n71"], True, False),
        (["n1", "n1", "n70"], True, False),
        (["n70", "n100"], True, False),
    ):
        text = "".join(written(style, {name: 3}) for name in chosen)
        assert accepts(grammar, list(text.encode())) == (expected and (in_order or any_order)), chosen


@pytest.mark.parametrize("style", OPEN)
def test_names_follow_the_schema(style: str) -> None:
    schema: Schema = {"propertyNames": {"pattern": "^[a-c_]+$"}, "additionalProperties": {"type": "integer"}}
    for value, expected in (({"a_b": 1, "c": 2}, True), ({"a_d": 1}, False), ({"a": "x"}, False), ({}, True)):
        assert takes(style, schema, written(style, value)) == expected, value
    schema = {
        "patternProperties": {"^n_": {"type": "integer"}, "^s_": {"type": "string"}},
        "additionalProperties": False,
    }
    for value, expected in (
        ({"n_a": 1, "s_a": "x"}, True),
        ({"n_a": "x"}, False),
        ({"s_a": 1}, False),
        ({"t": 1}, False),
    ):
        text = written(style, value)
        assert takes(style, schema, text) == (expected or (value == {"s_a": 1} and style not in TYPED)), value
    assert reads(style, schema, written(style, {"s_a": "3", "n_a": 3})) == {"s_a": "3", "n_a": 3}
    schema = {"patternProperties": {"[<>]": {"type": "integer"}}, "additionalProperties": False}
    assert takes(style, schema, written(style, {"a<b": 1})) == (style in ESCAPED)


@pytest.mark.parametrize("style", OPEN)
def test_a_name_is_not_there_twice(style: str) -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "integer"}}
    one, other = (written(style, {name: 1}) for name in ("a", "b"))
    assert takes(style, schema, one + other, any_order=True)
    assert not takes(style, schema, one + one, any_order=True)
    assert takes(style, schema, one + other + other, any_order=True) == (style not in QUOTED)


def test_other_names_and_control_tokens() -> None:
    compiler = compiler_with("<|open|>", "<|close|>", "<|sep|>")
    schema = {"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": ["string", "object"]}}
    form = {"type": "json_schema", "json_schema": schema, "style": "kimi_k3_xml", "any_order": True}
    grammar = compiler.compile_structural_tag(of_format(form), allow_special_tokens=True)
    for value, expected in (({"b": "x", "a": 1, "c": {"d": "y"}}, True), ({"b": 1}, False), ({"a": "x"}, False)):
        assert accepts(grammar, ids_of(compiler, written("kimi_k3_xml", value))) == expected, value
    assert not accepts(grammar, ids_of(compiler, written("kimi_k3_xml", {"b": "x"}) * 2))


@pytest.mark.parametrize("style", ESCAPED)
def test_names_of_an_escaped_style_are_compared(style: str) -> None:
    schema = {"properties": {'a"<&>': {"type": "null"}}, "additionalProperties": {"type": "integer"}}
    for value, expected in (({'a"<&>': None, "&": 1, "&amp;": 2, "é ü": 3}, True), ({'a"<&>': 1}, False)):
        text = written(style, value)
        assert takes(style, schema, text) == expected
        assert reads(style, schema, text) == value
    assert not takes(style, schema, written(style, {"&": 1}) * 2)
    one = written(style, {"name": 1})
    for name in (
        "a&b",
        'a"b',
        "a&#38;b",
        "",
        "a&ampb",
        "a\0b",
        "a\\b",
        *(["a<b", "a>b"] if style == "cohere_xml" else []),
    ):
        assert not takes(style, schema, one.replace('="name"', f'="{name}"')), name


@pytest.mark.parametrize("style", sorted(set(STYLES) - {"cohere_xml", "minimax_m3_xml"}))
def test_json_in_an_element_does_not_hold_its_end(style: str) -> None:
    end = written(style, {"a": "x"}).partition("x")[2]
    schema = {"properties": {"a": {"type": "object", "additionalProperties": True}}, "required": ["a"]}
    assert takes(style, schema, written(style, {"a": {"k": end[:-1]}}))
    assert not takes(style, schema, written(style, {"a": {"k": end}}))
    assert not takes(style, schema, written(style, {"a": {f"k{end}": 1}}))


@pytest.mark.parametrize("style", STYLES)
def test_arguments_that_are_listed(style: str) -> None:
    calls: list[dict[str, Any]] = [{"a": "x", "b": 1}, {"b": None}, {}, {"a": "3", "c": [1, {"d": "y"}]}]
    for value in [*calls, {"a": "x"}, {"b": 1}, {"a": "x", "b": 2}, {"b": None, "a": "x"}, {"a": "3", "c": [1]}]:
        text = written(style, value)
        assert takes(style, {"enum": [*calls, 3, "x"]}, text) == (value in calls), value
        assert takes(style, {"const": value}, text) and reads(style, {"const": value}, text) == value
        assert not takes(style, {"const": {**value, "z": 1}}, text)


@pytest.mark.parametrize("style", STYLES)
def test_a_schema_may_refer_to_the_whole_and_relate_arguments(style: str) -> None:
    schema = {
        "properties": {"name": {"type": "string"}, "child": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
        "required": ["name"],
        "additionalProperties": False,
        "dependentRequired": {"child": ["name"]},
        "not": {"properties": {"name": {"const": "no"}}, "required": ["name"]},
    }
    for value, expected in (
        ({"name": "a", "child": {"name": "b", "child": None}}, True),
        ({"name": "a", "child": {"name": "no"}}, False),
        ({"name": "no"}, False),
        ({"child": None}, False),
    ):
        text = written(style, value)
        assert takes(style, schema, text) == expected, value
        assert not expected or reads(style, schema, text) == value


@pytest.mark.parametrize("style", STYLES)
def test_no_arguments(style: str) -> None:
    for schema in ({"properties": {}}, {"type": "object", "properties": {}}, {"additionalProperties": False}):
        assert takes(style, schema, "") and not takes(style, schema, written(style, {"a": 1}))
    if style != "minimax_m3_xml":
        for schema in (True, {}, {"type": "object"}, {"$defs": {"any": {}}, "$ref": "#/$defs/any"}):
            assert takes(style, schema, written(style, {"a": 1, "b": "x", "c": {"d": [None]}}))


FREE = [{"type": "object"}, *({"properties": {"n": free}} for free in ({}, True, {"title": "N"}))]


@pytest.mark.parametrize("schema", FREE)
def test_kimi_may_call_a_free_number_an_integer(schema: Schema) -> None:
    """As in xgrammar 0.2.9, whose grammar names seven types if a schema does not constrain a value."""
    form = '<|open|>argument key="n" type="{}"<|sep|>{}<|close|>argument<|sep|>'
    for kind, text, expected in (
        ("integer", "3", True), ("integer", " -12 ", True), ("integer", "1e3", True), ("number", "3", True),
        ("number", "2.5", True), ("integer", "2.5", False), ("integer", "true", False), ("integer", '"3"', False),
        ("float", "3", False), ("string", "3", True), ("boolean", "3", False),
    ):  # fmt: skip
        assert takes("kimi_k3_xml", schema, form.format(kind, text)) == expected, (kind, text)
    for kind, value in (("integer", 3), ("number", 3), ("string", "3")):
        assert check_reading("kimi_k3_xml", schema, form.format(kind, 3)) == {"n": value}


def test_a_number_that_a_schema_asks_for_is_called_a_number() -> None:
    text = '<|open|>argument key="n" type="{}"<|sep|>3<|close|>argument<|sep|>'
    for asked in ({"type": "integer"}, {"type": "number"}, {"type": ["integer", "string"]}, {"maximum": 5}):
        schema = {"properties": {"n": asked}, "required": ["n"]}
        assert takes("kimi_k3_xml", schema, text.format("number")), asked
        assert not takes("kimi_k3_xml", schema, text.format("integer")), asked
