"""Explanations of schemas: the pointers that apply at a position, and the keywords that refuse a text.

The judges: cases that are written out; an evaluator of whole instances that asks the package jsonschema which branches
hold; and brute force over small sets of values.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import warnings
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Literal

import pytest

import guided
from guided.frontends.json_schema import instance_locations as applying
from guided.frontends.json_schema.unfinished_json import open_values
from tests.effort import draws
from tests.random_schemas import draw_schema, draw_value

COMPILER = guided.GrammarCompiler(guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))
PERSON = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 1, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^a+$"}, "minItems": 1, "maxItems": 2},
        "kind": {"enum": ["ab", "ac", {"a": 1}]},
    },
    "required": ["age"],
    "additionalProperties": False,
}
UNION = {
    "anyOf": [
        {"properties": {"k": {"const": "a"}, "x": {"type": "integer"}}},
        {"properties": {"k": {"const": "b"}, "x": {"$ref": "#/$defs/s"}}},
    ],
    "$defs": {"s": {"type": "string", "maxLength": 1}},
}
NODE = {
    "$ref": "#/$defs/n",
    "$defs": {"n": {"type": "object", "properties": {"v": {"type": "null"}, "next": {"$ref": "#/$defs/n"}}}},
}
CHOICE = {
    "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
    "then": {"properties": {"x": {"type": "string"}}},
    "else": {"properties": {"x": {"type": "null"}}},
}
TUPLE = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}
NAMES = {
    "patternProperties": {"^x": {"type": "null"}, "y$": {"type": ["null", "string"]}},
    "additionalProperties": {"type": "array"},
}
COUNTED = {"type": "array", "contains": {"const": 1}, "maxItems": 2, "items": {"type": "integer"}, "uniqueItems": True}
DRAFT4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
CASES: list[tuple[Any, str, str | None, list[str], list[str]]] = [
    (PERSON, "", "[", [""], ["/type"]),
    (PERSON, "", "x", [""], []),  # not JSON
    (PERSON, "{", "}", [""], ["/required"]),
    (PERSON, '{"', "c", [""], ["/additionalProperties"]),
    (PERSON, '{"age', None, [""], []),
    (PERSON, '{"age":', None, ["/properties/age"], []),
    (PERSON, '{"age":', '"', ["/properties/age"], ["/properties/age/type"]),
    (PERSON, '{"age":', "-", ["/properties/age"], ["/properties/age/minimum"]),
    (PERSON, '{"age":', "0", ["/properties/age"], ["/properties/age/minimum"]),
    (PERSON, '{"age":16', "0", ["/properties/age"], ["/properties/age/maximum"]),
    (PERSON, '{"age":1', ".", ["/properties/age"], ["/properties/age/type"]),
    (PERSON, '{"age":1', None, ["/properties/age"], []),
    (PERSON, '{"age":1,"tags":', "n", ["/properties/tags"], ["/properties/tags/type"]),
    (PERSON, '{"age":1,"tags":[', "]", ["/properties/tags/items"], ["/properties/tags/minItems"]),
    (PERSON, '{"age":1,"tags":["', "b", ["/properties/tags/items"], ["/properties/tags/items/pattern"]),
    (PERSON, '{"age":1,"tags":["a","a"', ",", ["/properties/tags"], ["/properties/tags/maxItems"]),
    (PERSON, '{"age":1,"kind":"a', "d", ["/properties/kind"], ["/properties/kind/enum"]),
    (PERSON, '{"age":1,"kind":{"a":', "2", ["/properties/kind"], ["/properties/kind/enum"]),
    (PERSON, '{"age":1}', "x", [""], []),  # the value has ended
    (UNION, '{"k":', "1", ["/anyOf/0/properties/k", "/anyOf/1/properties/k"],
        ["/anyOf/0/properties/k/const", "/anyOf/1/properties/k/const"]),
    (UNION, '{"k":"a"', None, ["", "/anyOf/0"], []),
    (UNION, '{"k":"a","x":', '"', ["/anyOf/0/properties/x"], ["/anyOf/0/properties/x/type"]),
    (UNION, '{"k":"b","x":"u', "v", ["/anyOf/1/properties/x", "/$defs/s"], ["/$defs/s/maxLength"]),
    (UNION, '{"x":', "t", ["/anyOf/0/properties/x", "/anyOf/1/properties/x", "/$defs/s"],
        ["/anyOf/0/properties/x/type", "/$defs/s/type"]),
    (NODE, '{"next":{"next":{"v":', "1", ["/$defs/n/properties/v"], ["/$defs/n/properties/v/type"]),
    (NODE, '{"next":', "1", ["/$defs/n/properties/next", "/$defs/n"], ["/$defs/n/type"]),
    (CHOICE, '{"k":1,"x":', "1", ["/then/properties/x"], ["/then/properties/x/type"]),
    (CHOICE, '{"k":2,"x":', "1", ["/else/properties/x"], ["/else/properties/x/type"]),
    (CHOICE, '{"x":', "1", ["/then/properties/x", "/else/properties/x"],
        ["/then/properties/x/type", "/else/properties/x/type"]),
    (TUPLE, "[", '"', ["/prefixItems/0"], ["/prefixItems/0/type"]),
    (TUPLE, "[1,", "2", ["/prefixItems/1"], ["/prefixItems/1/type"]),
    (TUPLE, '[1,"a"', ",", [""], ["/items"]),
    (NAMES, '{"xy":', '"', ["/patternProperties/^x", "/patternProperties/y$"], ["/patternProperties/^x/type"]),
    (NAMES, '{"ay":', "1", ["/patternProperties/y$"], ["/patternProperties/y$/type"]),
    (NAMES, '{"z":', "1", ["/additionalProperties"], ["/additionalProperties/type"]),
    (COUNTED, "[2,1", ",", ["/items", "/contains"], ["/maxItems"]),
    (COUNTED, "[1,1", "]", ["/items", "/contains"], ["/uniqueItems"]),
    (COUNTED, "[2,", "3", ["/items", "/contains"], ["/contains", "/maxItems"]),  # together
    ({"not": {"type": "string"}}, "", '"', [""], ["/not"]),
    ({"allOf": [{"type": "integer"}, {"minimum": 2}]}, "", "-", ["", "/allOf/0", "/allOf/1"], ["/allOf/1/minimum"]),
    ({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 3}]}, "4", "}", ["", "/oneOf/1"], []),
    ({"items": {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 3}]}}, "[4", "]",
        ["/items", "/items/oneOf/1"], ["/items/oneOf"]),
    ({"propertyNames": {"pattern": "^a"}}, '{"', "b", [""], ["/propertyNames/pattern"]),
    ({"type": "string", "format": "date"}, '"20', "x", [""], ["/format"]),
    ({"minProperties": 1}, "{", "}", [""], ["/minProperties"]),
    ({"dependentRequired": {"a": ["b"]}}, '{"a":1', "}", [""], ["/dependentRequired"]),
    ({"dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}}}, '{"a":1,"b":', "1",
        ["/dependentSchemas/a/properties/b"], ["/dependentSchemas/a/properties/b/type"]),
    ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, '{"', "b", ["", "/allOf/0"],
        ["/unevaluatedProperties"]),
    ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": {"type": "null"}}, '{"b":', "1",
        ["/unevaluatedProperties"], ["/unevaluatedProperties/type"]),
    ({"allOf": [{"properties": {"a": {"type": "null"}}}], "unevaluatedProperties": False}, '{"a":', "1",
        ["/allOf/0/properties/a"], ["/allOf/0/properties/a/type"]),
    ({"properties": {"a/b~": {"type": "null"}}}, '{"\\u0061/b~":', "1",
        ["/properties/a~1b~0"], ["/properties/a~1b~0/type"]),
    ({**DRAFT4, "items": {"minimum": 1, "exclusiveMinimum": True}}, "[1", ",", ["/items"], ["/items/minimum"]),
    ({**DRAFT4, "items": [{"type": "null"}], "additionalItems": {"type": "string"}},
        "[null,", "1", ["/additionalItems"], ["/additionalItems/type"]),
    ({"properties": {"a": {"$ref": "urn:x#/$defs/q"}}}, '{"a":', "1",
        ["/properties/a", "urn:x#/$defs/q"], ["urn:x#/$defs/q/type"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "prefix", "asked", "places", "refused"), CASES)
def test_cases(schema: Any, prefix: str, asked: str | None, places: list[str], refused: list[str]) -> None:
    grammar = COMPILER.compile_json_schema(
        schema, whitespace="compact", numbers="plain", property_order="any",
        registry={"urn:x": {"$defs": {"q": {"type": "string"}}}},
    )  # fmt: skip
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.accept_string(prefix)
    explanation = matcher.explain(asked)
    assert explanation.accepted == (asked is None)
    assert (list(explanation.places), list(explanation.refused_by)) == (places, refused)


def test_refusals_if_numbers_have_all_spellings() -> None:
    """`16` may be the beginning of `1.6` and of `160e-1`, for any maximum."""
    matcher = guided.GrammarMatcher(COMPILER.compile_json_schema({"type": "number", "maximum": 15}))
    assert matcher.accept_string("16")
    assert (matcher.explain("0").accepted, matcher.explain(".").refused_by) == (True, ())
    assert matcher.explain("x").refused_by == ()


# --- parts of other specifications


@dataclass
class Point:
    x: int
    kind: Literal["a", "b"] = "a"


TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<f"],
        "tags": [
            {"type": "tag", "begin": "<f>", "content": {"type": "json_schema", "json_schema": PERSON}, "end": "</f>"},
            {"type": "tag", "begin": "<fun>", "content": {"type": "json_schema", "json_schema": TUPLE}, "end": "</f>"},
        ],
    },
}
AT = "/format/tags/0/content/json_schema/properties/age"
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": PERSON}} for name in ("look", "see")
]  # fmt: skip
BEGIN = '<tool_call>\n{"name": "see", "arguments": {"age": '


def made(kind: str) -> guided.CompiledGrammar:
    schema = {"properties": {"n": {"type": "null"}}}
    lark = 'start: "v=" value\nvalue: %json ' + json.dumps(schema)
    return {
        "tag": lambda: COMPILER.compile_structural_tag(TAG),
        "tools": lambda: COMPILER.compile_structural_tag(guided.tool_style("hermes").structural_tag(TOOLS)),
        "type": lambda: COMPILER.compile_type(Point),
        "expr": lambda: COMPILER.compile("a" + guided.json_schema(schema) + "b" + guided.json_schema(PERSON)),
        "repeat": lambda: COMPILER.compile(guided.repeat(guided.json_schema(TUPLE), 1)),
        "either": lambda: COMPILER.compile(guided.choice(guided.json_schema(PERSON), guided.regex("[{] [a-z]+"))),
        "lark": lambda: COMPILER.compile_lark(lark, whitespace="compact"),
    }[kind]()


@pytest.mark.parametrize(
    ("kind", "prefix", "asked", "places", "refused"),
    [
        ("tag", 'text <f>{"age":', '"', (AT,), (f"{AT}/type",)),
        ("tag", "<fun>[1, ", "2", ("/format/tags/1/content/json_schema/prefixItems/1",),
            ("/format/tags/1/content/json_schema/prefixItems/1/type",)),
        ("tag", '<f>{"age": 1}', "x", ("/format/tags/0",), ()),
        ("type", '{"x":', "t", ("/$defs/Point/properties/x",), ("/$defs/Point/properties/x/type",)),
        ("type", '{"x":1,"kind":"', "c", ("/$defs/Point/properties/kind",), ("/$defs/Point/properties/kind/enum",)),
        ("expr", 'a{"n":', "1", ("/properties/n",), ("/properties/n/type",)),
        ("expr", 'a{"n":null}b{"age":', '"', ("/properties/age",), ("/properties/age/type",)),
        ("repeat", '[1,"a"][1,"b"][', '"', ("/prefixItems/0",), ("/prefixItems/0/type",)),
        ("either", '{ "age":', '"', ("/properties/age",), ("/properties/age/type",)),
        ("lark", 'v={"n":', "1", ("/properties/n",), ("/properties/n/type",)),
    ],
)  # fmt: skip
def test_parts(kind: str, prefix: str, asked: str, places: tuple[str, ...], refused: tuple[str, ...]) -> None:
    matcher = guided.GrammarMatcher(made(kind))
    assert matcher.accept_string(prefix)
    explanation = matcher.explain(asked)
    assert not explanation.accepted
    assert (explanation.places, explanation.refused_by) == (places, refused)


def test_two_ways_to_read_a_text() -> None:
    """In one of them no schema is open, so its rule is named as well."""
    matcher = guided.GrammarMatcher(made("either"))
    assert matcher.accept_string("{ ")
    assert "" in matcher.explain("1").places


def test_the_arguments_of_tools() -> None:
    style = guided.tool_style("qwen_3")
    matcher = guided.GrammarMatcher(COMPILER.compile_structural_tag(style.structural_tag(TOOLS)))
    assert matcher.accept_string(BEGIN)
    explanation = matcher.explain("t")
    (place,) = explanation.places
    assert place.endswith("/json_schema/properties/age") and place.startswith("/format/")
    assert explanation.refused_by == (f"{place}/type",)


def test_a_union_with_more_branches_than_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches that are not judged count as open."""
    monkeypatch.setattr(applying, "MAX_JUDGED", 20)
    branches = [{"properties": {"k": {"const": number}}} for number in range(29)]
    grammar = COMPILER.compile_json_schema({"anyOf": branches}, whitespace="compact")
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.accept_string('{"k":7,')
    places = matcher.explain().places
    unknown = [f"/anyOf/{at}" for at in range(20, 29)]
    assert places == ("", "/anyOf/7", *unknown)
    assert matcher.explain().is_partial
    incomplete = "(incomplete: the explanation reached its bounds on time and work)"
    assert str(matcher.explain()).endswith(f"{unknown[5]}, 3 more) {incomplete}")


# --- open values


@pytest.mark.parametrize(
    ("text", "tokens", "starts"),
    [
        (b"", [None], [0]),
        (b" [", [None, 0], [1, 2]),
        (b"[1", [None, 0], [0, 1]),
        (b"[1 ", [None], [0]),
        (b"[1,", [None, 1], [0, 3]),
        (b'{"a', [None], [0]),
        (b'{"a":', [None, "a"], [0, 5]),
        (b'{"a":"x\\', [None, "a"], [0, 5]),
        (b'{"a":"x\\""', [None], [0]),
        (b'{"\\u0061":tr', [None, "a"], [0, 10]),
        (b'{"a":true', [None], [0]),
        (b'{"a":[{"b":1},{"c":"\xc3', [None, "a", 1, "c"], [0, 5, 14, 19]),
        (b"[]", [], []),
        (b"[][2,", [None, 1], [2, 5]),
        (b"17", [None], [0]),
    ],
)
def test_open_values(text: bytes, tokens: list[str | int | None], starts: list[int]) -> None:
    found = open_values(text)
    assert ([each.name_or_index for each in found], [each.start for each in found]) == (tokens, starts)


# --- an evaluator of whole instances


def is_valid(schema: Any, value: Any, root: Any) -> bool:
    jsonschema = pytest.importorskip("jsonschema")
    definitions = {"$defs": {**root.get("$defs", {}), "root": root}}
    text = json.dumps(schema).replace('"$ref": "#"', '"$ref": "#/$defs/root"')
    return bool(jsonschema.Draft202012Validator({"allOf": [json.loads(text)], **definitions}).is_valid(value))


def evaluated(value: Any, root: dict[str, Any]) -> dict[str, set[str]]:
    """Instance pointer -> the pointers of the schemas that apply there. Branches are included if they hold."""
    out: dict[str, set[str]] = defaultdict(set)

    def branch(schema: Any, value: Any, at: str, where: str) -> None:
        if is_valid(schema, value, root):
            walk(schema, value, at, where)

    def walk(schema: Any, value: Any, at: str, where: str) -> None:
        out[at].add(where)
        if isinstance(schema, bool):
            return
        if (ref := schema.get("$ref")) is not None:
            target = root if ref == "#" else root["$defs"][ref.rpartition("/")[2]]
            walk(target, value, at, ref[1:])
        for number, inner in enumerate(schema.get("allOf", [])):
            walk(inner, value, at, f"{where}/allOf/{number}")
        for keyword in ("anyOf", "oneOf"):
            for number, inner in enumerate(schema.get(keyword, [])):
                branch(inner, value, at, f"{where}/{keyword}/{number}")
        if "if" in schema:
            name = "then" if is_valid(schema["if"], value, root) else "else"
            if name in schema:
                walk(schema[name], value, at, f"{where}/{name}")
        if isinstance(value, dict):
            members(schema, value, at, where)
        if isinstance(value, list):
            first = schema.get("prefixItems", [])
            for number, item in enumerate(value):
                if number < len(first):
                    walk(first[number], item, f"{at}/{number}", f"{where}/prefixItems/{number}")
                elif "items" in schema:
                    walk(schema["items"], item, f"{at}/{number}", f"{where}/items")
                if "contains" in schema:
                    branch(schema["contains"], item, f"{at}/{number}", f"{where}/contains")

    def members(schema: Any, value: Any, at: str, where: str) -> None:
        for name, member in value.items():
            found = [(name, "properties")] if name in schema.get("properties", {}) else []
            found += [
                (each, "patternProperties") for each in schema.get("patternProperties", {}) if re.search(each, name)
            ]
            for key, keyword in found:
                walk(schema[keyword][key], member, f"{at}/{name}", f"{where}/{keyword}/{key}")
            if not found and "additionalProperties" in schema:
                walk(schema["additionalProperties"], member, f"{at}/{name}", f"{where}/additionalProperties")

    walk(root, value, "", "")
    return out


def written(value: Any) -> tuple[str, dict[int, str]]:
    """The text of a value, and the instance pointer of the innermost open value after each prefix."""
    places: dict[int, str] = {}
    parts: list[str] = []

    def write(text: str, at: str) -> None:
        for char in text:
            parts.append(char)
            places[len(parts)] = at

    def one(value: Any, at: str, around: str) -> None:
        places[len(parts)] = at
        if isinstance(value, list | dict):
            write("{" if isinstance(value, dict) else "[", at)
            for number, token in enumerate(value if isinstance(value, dict) else range(len(value))):
                write("," if number else "", at)
                if isinstance(value, dict):
                    write(json.dumps(token) + ":", at)
                one(value[token], f"{at}/{token}", at)
            places[len(parts)] = places[len(parts)] if value else f"{at}/0" if value == [] else at
            write("}" if isinstance(value, dict) else "]", around)
        else:
            write(json.dumps(value), at)
            if isinstance(value, bool | str | None):
                places[len(parts)] = around

    one(value, "", "")
    return "".join(parts), places


UNTOLD = ("unevaluated", "dependent", "dependencies", "$dynamic", "$anchor", "$id")
CHOICES = ("anyOf", "oneOf", "if", "contains")


def test_pointers_match_an_evaluator() -> None:
    """All pointers that the evaluator reaches are named, and no others if no branch has to be chosen."""
    rng, judged, exact = random.Random(5), 0, 0
    while judged < draws(1500):
        schema = draw_schema(rng)
        text = json.dumps(schema)
        if "2020-12" not in schema["$schema"] or any(word in text for word in UNTOLD):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                grammar = COMPILER.compile_json_schema(
                    schema, whitespace="compact", property_order="any", numbers="plain", escapes="minimal"
                )
        except guided.GuidedError:
            continue
        for value in [draw_value(rng) for _ in range(12)]:
            if not is_valid(schema, value, schema):
                continue
            text, places = written(value)
            reached = evaluated(value, schema)
            for length in rng.sample(range(len(text)), min(3, len(text))):
                at = places[length]
                while at not in reached:
                    at = at.rpartition("/")[0]
                if places[length] not in reached and text[:length].endswith("["):
                    continue  # before an item that the value does not have
                matcher = guided.GrammarMatcher(grammar)
                assert matcher.accept_string(text[:length]), (schema, text)
                named = set(matcher.explain().places)
                assert reached[at] <= named, (schema, text[:length])
                judged += 1
                if not any(f'"{word}"' in json.dumps(schema) for word in CHOICES):
                    assert reached[at] == named, (schema, text[:length])
                    exact += 1
    assert exact > judged // 10


def test_branches_are_left_as_soon_as_a_member_does_not_fit() -> None:
    """Branches that require no member: the text so far satisfies each branch that is open, and no other."""
    rng, left = random.Random(7), 0
    values = ["a", "b", True, None]
    leaves = [{"const": "a"}, {"enum": ["a", True]}, {"type": "null"}, {"type": ["string", "null"]}, True]
    for _ in range(60):
        branches = [
            {
                "properties": {name: rng.choice(leaves) for name in rng.sample("klm", rng.randint(1, 3))},
                "additionalProperties": rng.random() < 0.6,
            }
            for _ in range(3)
        ]
        schema = {"type": "object", "anyOf": branches}
        grammar = COMPILER.compile_json_schema(schema, whitespace="compact", property_order="any")
        for _ in range(6):
            value = {name: rng.choice(values) for name in rng.sample("klm", rng.randint(0, 3))}
            matcher = guided.GrammarMatcher(grammar)
            is_accepted = matcher.accept_string(json.dumps(value, separators=(",", ":"))[:-1])
            fitting = {f"/anyOf/{at}" for at, each in enumerate(branches) if is_valid(each, value, {})}
            assert is_accepted == bool(fitting)
            if fitting:
                assert set(matcher.explain().places) == {"", *fitting}
                left += len(fitting) < 3
    assert left > 20


# --- refusing keywords, by brute force

NUMBERS = [*range(-99, 200), *(whole + part for whole in range(-4, 13) for part in (0.25, 0.5, 0.75))]
STRINGS = ["".join(each) for length in range(5) for each in itertools.product("ab", repeat=length)]
UNIVERSE: dict[str, Any] = {json.dumps(each): each for each in (*NUMBERS, *STRINGS, True, False, None, [], {})}
KEYWORDS: dict[str, list[Any]] = {
    "type": ["integer", "string", "number", ["string", "null"]],
    "minimum": [-1, 0.5, 2],
    "maximum": [-2, 2, 3],
    "multipleOf": [2, 0.5],
    "minLength": [1, 2],
    "maxLength": [1, 2],
    "pattern": ["^a", "^b*$", "a.b"],
    "enum": [["ab", "a", 1, None], ["b", 2.5, 12]],
    "const": ["aa", 11],
    "not": [{"type": "string"}],
}


def of(schema: dict[str, Any]) -> list[str]:
    """The texts of the universe whose values satisfy the schema."""
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema)
    return [text for text, value in UNIVERSE.items() if validator.is_valid(value)]


def test_keywords_that_refuse() -> None:
    """The keywords with which no text of the universe continues. If there are none, a smallest set with which none
    does.
    """
    rng, named, together = random.Random(11), 0, 0
    for _ in range(120):
        schema = {name: rng.choice(KEYWORDS[name]) for name in rng.sample(list(KEYWORDS), rng.randint(1, 3))}
        texts = of(schema)
        if not texts:
            continue
        grammar = COMPILER.compile_json_schema(schema, numbers="plain", escapes="minimal")
        allowed = {name: of({name: schema[name]}) for name in schema}
        for _ in range(8):
            text = rng.choice(texts)
            prefix = text[: rng.randint(0, len(text))]
            following = rng.choice('"ab0125.-tn')
            matcher = guided.GrammarMatcher(grammar)
            assert matcher.accept_string(prefix)
            explanation = matcher.explain(following)
            longer = prefix + following
            if explanation.accepted or not any(each.startswith(longer) for each in UNIVERSE):
                continue
            if len(longer) > 2 and not longer.startswith('"'):  # the numbers of the universe have few digits
                continue
            wanted = {f"/{name}" for name in schema if not any(each.startswith(longer) for each in allowed[name])}
            groups = [set(group) for group in explanation.refusals]
            if wanted:
                named += 1
                assert sorted(map(sorted, groups)) == [[pointer] for pointer in sorted(wanted)], (
                    schema,
                    prefix,
                    following,
                )
                continue
            together += 1
            (group,) = groups
            for left_out in ("", *group):
                kept = {name: value for name, value in schema.items() if f"/{name}" in group - {left_out}}
                assert any(each.startswith(longer) for each in of(kept)) == bool(left_out), (schema, prefix, group)
    assert named > 50 and together > 2
