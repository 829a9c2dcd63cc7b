"""Schemas for OpenAI's strict mode. The judges: OpenAI's own client for pydantic classes, jsonschema for the language,
and a second, independent checker of the documented rules.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Any, Literal

import hypothesis.strategies as st
import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

import guided
from guided.errors import LimitExceeded, SpecError
from guided.frontends.openai.parts import merge
from guided.frontends.openai.response_format import close_objects
from guided.frontends.openai.strict import to_strict
from guided.testing import strategies
from tests.effort import examples
from tests.growth import assert_linear
from tests.random_schemas import draw_schema

pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
openai_client = pytest.importorskip("openai.lib._pydantic", reason="openai is not installed")


def written(schema: Any, **more: Any) -> dict[str, Any]:
    return guided.to_openai_schema(schema, **more)["json_schema"]["schema"]


def refused(schema: Any) -> dict[str, str]:
    remarks = guided.to_openai_schema(schema).remarks
    return {remark.pointer: remark.hint for remark in remarks if remark.status == "refused"}


def noted(schema: Any) -> list[str]:
    return [remark.pointer for remark in guided.to_openai_schema(schema).remarks if remark.status == "note"]


def members(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


TEXT = {"type": "string"}
drawn = st.randoms(use_true_random=False).map(draw_schema)

# ---- a second checker of the documented rules

TYPES = {"string", "number", "boolean", "integer", "object", "array", "null"}
NEVER = {"allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "oneOf", "default",
         "minLength", "maxLength", "patternProperties", "uniqueItems", "contains", "prefixItems"}  # fmt: skip


def breaks_a_rule(schema: Any, root: bool = True) -> str:
    """The first rule that a schema breaks; "" if it follows all rules of strict mode."""
    if not isinstance(schema, dict):
        return "no schema"
    if found := NEVER & schema.keys():
        return f"has {min(found)}"
    if root and schema.get("type") != "object":
        return "root"
    if "$ref" in schema and len(schema.keys() - {"$defs"}) > 1:
        return "a reference with others"
    if not schema.keys() & {"type", "$ref", "anyOf"}:
        return "no type"
    types = schema.get("type", [])
    if not set([types] if isinstance(types, str) else types) <= TYPES:
        return "type"
    if types == "object":
        if schema.get("additionalProperties") is not False:
            return "open"
        if sorted(schema.get("required", [])) != sorted(schema.get("properties", {})):
            return "required"
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", [])]
    inner += [schema["items"]] if "items" in schema else []
    return next(filter(None, (breaks_a_rule(each, False) for each in inner)), "")


# ---- pydantic classes, compared with OpenAI's client


class Colour(enum.Enum):
    red = "red"
    blue = "blue"


class Point(pydantic.BaseModel):
    """A point."""

    x: int = pydantic.Field(ge=0)
    y: float | None = None


class Tree(pydantic.BaseModel):
    name: str = pydantic.Field(description="how it is called")
    colour: Colour = Colour.red
    at: Point = pydantic.Field(description="where it is")
    below: list[Tree]


class Chain(pydantic.BaseModel):
    """A root that refers to itself."""

    value: int
    next: Chain | None = None


leaves = st.sampled_from([int, str, bool, float, Colour, Point, Literal["a", "b"], list[Point], Chain])
types = st.recursive(
    leaves, lambda inner: st.one_of(inner.map(lambda tp: list[tp]), inner.map(lambda tp: tp | None)), max_leaves=3
)


@given(st.dictionaries(st.sampled_from("abcd"), st.tuples(types, st.booleans(), st.booleans()), min_size=1))
def test_a_class_of_pydantic_is_as_in_openais_client(fields):
    """If the client keeps a reference next to a default, guided omits the default, with the same meaning."""
    said = {
        name: (tp, pydantic.Field(description="said") if described else pydantic.Field())
        if needed else (tp | None, None)
        for name, (tp, needed, described) in fields.items()
    }  # fmt: skip
    model = pydantic.create_model("Made", **said)
    theirs = openai_client.to_strict_json_schema(model)
    format = guided.to_openai_schema(model)
    assert format["json_schema"]["schema"] == theirs
    assert format["json_schema"]["name"] == "Made" and format.ok, format.remarks
    assert breaks_a_rule(theirs) == ""


@pytest.mark.parametrize("model", [Tree, Chain, Point])
def test_recursive_classes(model):
    format = guided.to_openai_schema(model)
    assert format.ok and breaks_a_rule(format["json_schema"]["schema"]) == "", format.remarks
    if model is not Tree:  # their client keeps a default, which strict mode does not allow
        assert format["json_schema"]["schema"] == openai_client.to_strict_json_schema(model)


# ---- any schema

small = st.sampled_from(
    [TEXT, {"type": "integer", "minimum": 1}, {"enum": ["x", 2]}, {"const": None}, {"oneOf": [TEXT, {"type": "null"}]},
     {"allOf": [{"type": "string"}, {"pattern": "^a"}], "default": "a"}, {"$ref": "#/$defs/d", "title": "said"}]
)  # fmt: skip


def _objects(inner):
    names = st.sets(st.sampled_from("abc"))
    return st.builds(
        lambda properties, required: {"properties": properties, "required": sorted(required & properties.keys())},
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1), names,
    )  # fmt: skip


tame = _objects(
    st.recursive(
        small,
        lambda inner: st.one_of(
            _objects(inner), inner.map(lambda item: {"type": "array", "items": item, "maxItems": 2}),
            st.lists(inner, min_size=1, max_size=2).map(lambda cases: {"anyOf": cases}),
        ),
        max_leaves=5,
    )
).map(lambda schema: {**schema, "$defs": {"d": members(a=TEXT)}})  # fmt: skip


@given(tame)
def test_schemas_of_usual_parts_are_written_for_strict_mode(schema):
    format = guided.to_openai_schema(schema)
    assert format.ok, format.remarks
    assert breaks_a_rule(format["json_schema"]["schema"]) == ""


@given(st.one_of(drawn, tame), st.data())
def test_every_value_of_what_is_written_satisfies_the_schema(schema, data):
    """Schemas without a refusal in the remarks are in strict mode, according to the second reader."""
    format = guided.to_openai_schema(schema)
    strict = format["json_schema"]["schema"]
    assert not format.ok or breaks_a_rule(strict) == "", (strict, format.remarks)
    try:
        text = data.draw(strategies.sentences(strict))
    except guided.GuidedError:
        return
    value = json.loads(text)
    if Draft202012Validator(strict).is_valid(value):
        assert Draft202012Validator(schema).is_valid(value), (schema, strict, value)


def test_members_are_required_and_objects_closed_with_a_note():
    schema = {"properties": {"a": TEXT, "b": {"properties": {"c": TEXT}}}, "required": ["b"]}
    inner = members(c=TEXT)
    assert written(schema) == members(a=TEXT, b=inner)
    assert set(noted(schema)) == {
        "", "/additionalProperties", "/properties/a",
        "/properties/b", "/properties/b/additionalProperties", "/properties/b/properties/c",
    }  # fmt: skip
    assert guided.to_openai_schema(schema).ok
    assert guided.to_openai_schema(schema, strict=False)["json_schema"] == {
        "name": "answer", "schema": schema, "strict": False,
    }  # fmt: skip


def test_schemas_are_rewritten_for_strict_mode_if_the_meaning_stays():
    both = [{"allOf": [{"minimum": 1}, {"maximum": 9}], "type": "integer"}, {"type": "string", "default": "x"}]
    assert written(members(a={"oneOf": both}, b={"enum": ["x", 1]}, c={"const": None})) == members(
        a={"anyOf": [{"type": "integer", "minimum": 1, "maximum": 9}, TEXT]},
        b={"enum": ["x", 1], "type": ["string", "integer"]},
        c={"const": None, "type": "null"},
    )
    assert "anyOf" in written(members(a={"oneOf": [{"const": "x"}, {"enum": ["y", "z"]}]}))["properties"]["a"]
    cases = [members(kind={"const": "a"}, n=TEXT), members(kind={"enum": ["b", "c"]})]
    assert "anyOf" in written(members(a={"oneOf": cases}))["properties"]["a"]
    nullable = {"type": ["object", "null"], "properties": {"b": TEXT}}
    assert written(members(a=nullable))["properties"]["a"] == {**members(b=TEXT), **nullable}
    described = {"$defs": {"t": TEXT}, **members(a={"$ref": "#/$defs/t", "description": "said"})}
    assert written(described)["properties"]["a"] == {**TEXT, "description": "said"}


def test_a_recursion_that_is_described_is_not_written_out_for_ever():
    node = members(next={"anyOf": [{"$ref": "#/$defs/n", "description": "the next"}, {"type": "null"}]})
    format = guided.to_openai_schema({"$defs": {"n": node}, **members(n={"$ref": "#/$defs/n"})})
    assert format.ok and breaks_a_rule(format["json_schema"]["schema"]) == ""
    assert "/$defs/n/properties/next/anyOf/0/$ref" in [remark.pointer for remark in format.remarks]


def test_a_member_that_would_never_end_is_not_required():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}, "v": TEXT}, "additionalProperties": False}
    schema = {"$defs": {"n": node}, **members(n={"$ref": "#/$defs/n"})}
    assert refused(schema) == {"/$defs/n/properties/next": "allow null"}
    assert written(schema)["$defs"]["n"]["required"] == ["v"]


@pytest.mark.parametrize(
    ("node", "is_finite"),
    [
        ({"properties": {"next": {"$ref": "#/$defs/n"}}}, False),
        ({"allOf": [{"properties": {"next": {"$ref": "#/$defs/n"}}}]}, False),
        ({"type": "object", "properties": {"next": {"allOf": [{"$ref": "#/$defs/n"}]}}}, False),
        ({"properties": {"next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}}, True),
        ({"allOf": [{"properties": {"next": {"$ref": "#/$defs/end"}}}]}, True),
        ({"properties": {"next": {"allOf": [{"$ref": "#/$defs/end"}]}}}, True),
    ],
)
def test_members_that_would_never_end_in_merged_and_untyped_schemas(node, is_finite):
    """Such a schema becomes an object, so all its members become required."""
    schema = members(first={"$ref": "#/$defs/n"}) | {"$defs": {"n": node, "end": TEXT}}
    assert any("next" in pointer for pointer in refused(schema)) is not is_finite
    if is_finite:
        vocabulary = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
        matcher = guided.GrammarMatcher(guided.GrammarCompiler(vocabulary).compile_json_schema(written(schema)))
        assert matcher.min_tokens_to_finish() < 100


@pytest.mark.parametrize(
    ("schema", "places"),
    [
        ({"anyOf": [members(a=TEXT), members(b=TEXT)]}, {"": "make it a member of an object"}),
        (["yes", "no"], {"": "make it a member of an object"}),
        (members(a={"type": "string", "maxLength": 3}),
            {"/properties/a/maxLength": "write a pattern, such as ^.{1,20}$"}),
        (members(a={"type": "string", "format": "uri"}), {"/properties/a/format": "write a pattern"}),
        (members(a={"allOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"}),
            {"/properties/a/allOf": "write out the cases under anyOf"}),
        (members(a={"type": "string", "not": {"const": "x"}}),
            {"/properties/a/not": "write out the cases under anyOf"}),
        (members(a={"oneOf": [{"type": "integer"}, {"type": "number"}]}),
            {"/properties/a/oneOf": "write anyOf if a value may satisfy several cases"}),
        *((members(a=each), {"/properties/a/properties": "write a list of objects with a key and a value"})
            for each in ({"type": "object"}, {"type": ["object", "null"]}, {"enum": [{"k": 1}, None]})),
        (members(a={"type": "object", "additionalProperties": TEXT}),
            {"/properties/a/additionalProperties": "write a list of objects with a key and a value"}),
        (members(a={"type": "array", "prefixItems": [TEXT], "items": TEXT}), {"/properties/a/prefixItems":
            "write an object with a member for each item, or bounds of the length"}),
        (members(a={"type": "array"}), {"/properties/a/items": "write items"}),
        (members(a={}), {"/properties/a": "write the type of the value"}),
        (members(a=True), {"/properties/a": "write the type of the value"}),
        (members(a={"$ref": "https://x.org/y"}), {"/properties/a/$ref": "write #/$defs/NAME"}),
        ({**members(a=TEXT), "required": ["a", "b"]}, {"/required": "declare it"}),
    ],
)  # fmt: skip
def test_refusals_of_strict_mode_have_a_location_and_a_hint(schema, places):
    assert refused(schema) == places
    left = written(schema)  # keywords that restrict the values are not dropped
    assert all(json.dumps(name) in json.dumps(left) for name in map(_last, places) if name in NEVER)


def _last(pointer: str) -> str:
    return pointer.rpartition("/")[2]


@pytest.mark.parametrize(
    ("schema", "place", "told"),
    [
        (members(**{f"m{n}": TEXT for n in range(5001)}), "", "5001 properties, but at most 5000"),
        (members(a={"type": "string", "enum": [str(n) for n in range(1001)]}), "", "1001 values of enumerations"),
        (members(a={"type": "string", "enum": [f"{n:0100}" for n in range(251)]}), "/properties/a/enum", "15000"),
        (members(**{"m" * 120_001: TEXT}), "", "120001 characters"),
    ],
)
def test_sizes(schema, place, told):
    found = guided.to_openai_schema(schema).remarks
    assert [(remark.pointer, remark.status) for remark in found] == [(place, "refused")]
    assert told in found[0].reason


def test_levels():
    def nested(levels: int) -> dict[str, Any]:
        return members(a=TEXT) if levels == 1 else members(a={"type": "array", "items": nested(levels - 1)})

    assert guided.to_openai_schema(nested(10)).ok
    assert "11 levels of objects, but at most 10" in guided.to_openai_schema(nested(11)).remarks[0].reason
    by_reference = {"$defs": {"d": nested(10)}, **members(a={"$ref": "#/$defs/d"})}
    assert not guided.to_openai_schema(by_reference).ok
    with pytest.raises(LimitExceeded):
        guided.to_openai_schema(nested(200))


@pytest.mark.parametrize(
    ("schema", "pointer", "said"),
    [
        ({"type": "strng"}, "/type", "'strng' is not a type"),
        (members(a={"type": ["string", "text"]}), "/properties/a/type/1", "'text' is not a type"),
        ({"properties": [1]}, "/properties", "properties must be an object of schemas, not an array"),
        (members(a=3), "/properties/a", "a schema must be an object or a boolean, not a number"),
        (members(a={"pattern": "("}), "/properties/a/pattern", "pattern: missing \\)"),
        ({"type": "object", "required": "a"}, "/required", "required must be an array of strings"),
        (members(a={"anyOf": []}), "/properties/a/anyOf", "anyOf must be a non-empty array of schemas"),
        (members() | {"$defs": {"n": {"minimum": "1"}}}, "/$defs/n/minimum", "minimum must be a number"),
        (guided.json_schema({"type": "strng"}), "/type", "'strng' is not a type"),
    ],
)
def test_values_that_are_not_schemas_are_refused(schema, pointer, said):
    for strict in (True, False):
        with pytest.raises(SpecError, match=said) as caught:
            guided.to_openai_schema(schema, strict=strict)
        assert caught.value.pointer == pointer


def test_keywords_of_other_services_are_not_mistakes():
    assert refused({"$ref": "other.json"}) != {}
    unknown = guided.to_openai_schema({"$schema": "http://example.org/own", "type": "object", "properties": {}})
    assert unknown["json_schema"]["schema"]["properties"] == {}
    assert guided.to_openai_schema(members(a={"type": "string", "format": "own"})).remarks[0].pointer.endswith("format")


def test_a_schema_that_grows_when_it_is_written_out_is_refused():
    step = [{"$ref": "#/$defs/%d", "description": side} for side in "ab"]
    defs = {str(n): members(**{s["description"]: {**s, "$ref": f"#/$defs/{n + 1}"} for s in step}) for n in range(30)}
    with pytest.raises(LimitExceeded, match="nodes"):
        guided.to_openai_schema({"$defs": {**defs, "30": TEXT}, **members(a={"$ref": "#/$defs/0"})})


# ---- constraints, and the conversion back


@dataclass
class Order:
    point: Point
    colours: list[Literal["red", "blue"]]


def test_constraints_of_every_kind():
    order = written(Order)
    assert guided.to_openai_schema(Order).ok and breaks_a_rule(order) == ""
    assert written(guided.json_schema(members(a=TEXT))) == written(members(a=TEXT))
    assert written(guided.python_type(Point)) == written(Point)
    for wrong in ("[a-z]+", None, guided.regex("a"), guided.json_schema(TEXT) + "x", [], [1]):
        with pytest.raises(SpecError):
            guided.to_openai_schema(wrong)
    for name in ("a b", "", 5):
        with pytest.raises(SpecError, match="not a valid schema name"):
            guided.to_openai_schema(TEXT, name=name)
    with pytest.raises(SpecError, match="description is 5, but must be a string"):
        guided.to_openai_schema(TEXT, description=5)
    titled = guided.to_openai_schema({**members(a=TEXT), "title": "An order!"}, description="d")
    assert titled["json_schema"]["name"] == "An_order_" and titled["json_schema"]["description"] == "d"


@given(drawn)
def test_the_way_back(schema):
    format = json.loads(json.dumps(guided.to_openai_schema(schema, strict=False)))
    assert guided.from_response_format(format) == json.loads(json.dumps(schema))
    flat = {"type": "json_schema", **format["json_schema"]}  # of /v1/responses
    assert guided.from_response_format(flat) == json.loads(json.dumps(schema))


def test_other_formats():
    assert guided.from_response_format({"type": "text"}) is None
    assert guided.from_response_format({"type": "json_object"}) == {"type": "object"}
    with pytest.raises(SpecError, match="grammar") as caught:
        guided.from_response_format({"type": "grammar"})
    assert caught.value.pointer == "/type"
    with pytest.raises(SpecError) as caught:
        guided.from_response_format({"type": "json_schema", "json_schema": {"name": "x"}})
    assert caught.value.pointer == "/json_schema/schema"
    for other in (None, 3, "json_object"):
        with pytest.raises(SpecError, match="is not a response_format"):
            guided.from_response_format(other)
    with pytest.raises(SpecError, match=r"json\.loads"):
        guided.to_openai_schema('{"type": "object"}')


def test_closed_closes_every_object_without_additional_properties():
    cases = {"anyOf": [{"properties": {}}]}
    schema = {"type": "object", "properties": {"a": cases}, "$defs": {"d": {"type": ["null", "object"]}}}
    found = close_objects(schema)
    assert found["additionalProperties"] is found["$defs"]["d"]["additionalProperties"] is False
    assert found["properties"]["a"]["anyOf"] == [{"properties": {}, "additionalProperties": False}]
    composed = close_objects({"properties": {"a": TEXT}, "anyOf": [{"properties": {"b": TEXT}, "required": ["b"]}, {}]})
    assert [Draft202012Validator(composed).is_valid(value) for value in ({"a": "", "b": ""}, {"a": ""}, {"c": 1})] == [
        True, True, False
    ]  # fmt: skip
    assert close_objects(kept := {"type": "object", "additionalProperties": TEXT}) == kept
    assert "additionalProperties" not in schema


# ---- parts of allOf, and references

INTEGER, STRING = {"type": "integer"}, {"type": "string"}
KEYWORDS: dict[str, list[Any]] = {
    "type": ["array", "object"], "required": [["x"], ["y"]], "minItems": [1], "not": [{"required": ["y"]}],
    "properties": [{"x": INTEGER}, {"x": STRING}], "patternProperties": [{"^x": INTEGER}, {"^z": STRING}],
    "additionalProperties": [False, INTEGER], "unevaluatedProperties": [False, INTEGER],
    "items": [INTEGER, False], "prefixItems": [[INTEGER], [STRING, INTEGER]], "unevaluatedItems": [False, INTEGER],
    "contains": [INTEGER, STRING], "minContains": [0, 2], "maxContains": [1],
    "anyOf": [[{"properties": {"x": INTEGER}}, STRING], [{"prefixItems": [INTEGER]}, {"properties": {"y": True}}]],
    "if": [{"required": ["x"]}, {"contains": INTEGER}], "then": [{"properties": {"y": STRING}}, {"minItems": 2}],
    "else": [False, {"properties": {"z": True}}], "dependentSchemas": [{"x": {"properties": {"y": INTEGER}}}],
    "$ref": ["#/$defs/a"], "allOf": [[{"properties": {"z": True}}]],
}  # fmt: skip
INSTANCES = [
    {}, {"x": 1}, {"x": "s"}, {"y": 1}, {"x": 1, "y": "s"}, {"x": 1, "y": 1}, {"z": "s"}, {"z": 1}, {"x": 1, "z": "s"},
    {"w": 1}, [], [1], ["a"], [1, "a"], ["a", 1], [1, 1], [1, 2, 3], "s", 3,
]  # fmt: skip


@examples(400)
@given(st.randoms(use_true_random=False))
def test_merged_schemas_allow_what_both_allow(source):
    part, rest = ({key: source.choice(KEYWORDS[key]) for key in source.sample([*KEYWORDS], 2)} for _ in range(2))
    merged = merge(part, rest)
    if merged is not None:
        definitions = {"$defs": {"a": {"properties": {"z": STRING}}}}
        first, second, both = (Draft202012Validator({**each, **definitions}) for each in (part, rest, merged))
        for value in INSTANCES:
            assert both.is_valid(value) == (first.is_valid(value) and second.is_valid(value))


@pytest.mark.parametrize(
    ("part", "rest"),
    [
        ({"type": "array", "items": INTEGER}, {"prefixItems": [{"type": ["integer", "string"]}]}),
        ({"unevaluatedProperties": False}, {"anyOf": [{"properties": {"x": STRING}}]}),
        ({"unevaluatedItems": False}, {"contains": INTEGER}),
        ({"contains": INTEGER}, {"minContains": 0}),
        ({"if": INTEGER}, {"then": {"minimum": 3}}),
        ({"minimum": 3}, {"exclusiveMinimum": True}),
    ],
)
def test_keywords_that_depend_on_each_other_are_not_merged(part, rest):
    assert merge(part, rest) is None
    assert merge(rest, part) is None
    assert merge(part, {"title": "a"}) == {**part, "title": "a"}


def object_of(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}


@pytest.mark.parametrize(
    ("case", "reference", "reason"),
    [
        ({"anyOf": [INTEGER, STRING]}, "#/properties/a/anyOf/0", ""),
        ({"anyOf": [INTEGER, STRING]}, "#/properties/%61/anyOf/1", ""),
        ({"anyOf": [INTEGER, STRING]}, "#/properties/a/anyOf/2", "does not point to a schema"),
        ({"anyOf": [INTEGER, STRING]}, "#/properties/a/anyOf", "does not point to a schema"),
        ({"anyOf": [INTEGER, STRING]}, "#a", "does not point to a schema"),
        ({"oneOf": [INTEGER, STRING]}, "#/properties/a/oneOf/0", "its target is rewritten"),
        ({"allOf": [INTEGER, {"minimum": 1}]}, "#/properties/a/allOf/0", "its target is rewritten"),
    ],
)
def test_references_into_lists(case, reference, reason):
    schema = object_of(a=case, b={"$ref": reference})
    refusals = [remark for remark in to_strict(schema)[1] if remark.status == "refused"]
    assert [(each.pointer, reason in each.reason) for each in refusals] == [("/properties/b/$ref", True)] * bool(reason)


def chain_of_references(length: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"a{at}": {"$ref": f"#/$defs/a{at + 1}"} for at in range(length)}
    return {**object_of(b={"$ref": "#/$defs/a0"}), "$defs": {**definitions, f"a{length}": INTEGER}}


def test_references_in_a_row():
    assert guided.to_openai_schema(chain_of_references(100))
    with pytest.raises(LimitExceeded, match="depth"):
        guided.to_openai_schema(chain_of_references(1500))
    assert_linear(lambda length: to_strict(chain_of_references(length)), 500)
