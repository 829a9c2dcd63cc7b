"""`excludes` of the format json_schema: the texts of a schema whose strings and names contain none of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

import guided
from tests.structural_tag_support import accepts, byte_compiler, of_format, walk

SCHEMAS: list[Any] = [
    {"type": "string"},
    {"type": "array", "items": {"enum": ["ab", "ba", "aab", 1, None]}},
    {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
    {
        "type": "object",
        "properties": {
            "ab": {"type": "string"},
            "b": {"type": "string", "pattern": "^[ab]*$"},
            "n": {"type": "number"},
        },
        "additionalProperties": False,
    },
    {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True},
    {"anyOf": [{"type": "boolean"}, {"type": "object", "patternProperties": {"^a": {"type": ["string", "null"]}}}]},
    True,
]


def strings_of(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from strings_of(item)
        case dict():
            for name, item in value.items():
                yield name
                yield from strings_of(item)


def json_schema(schema: Any, excludes: list[str]) -> Any:
    return of_format({"type": "json_schema", "json_schema": schema, "excludes": excludes})


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
@pytest.mark.parametrize("excludes", [["ab"], ["a"], ["b", "aa"], ["tru", "nul", "1"]])
@pytest.mark.parametrize("escapes", ["json", "minimal"])
def test_texts_without_the_strings_match_the_filtered_texts(number: int, excludes: list[str], escapes: Any) -> None:
    """Generated texts, and texts of the language after inserting letters."""
    source = random.Random(f"{number} {excludes}")
    compiler = byte_compiler()
    whole = compiler.compile_structural_tag(json_schema(SCHEMAS[number], []), escapes=escapes)
    left = compiler.compile_structural_tag(json_schema(SCHEMAS[number], excludes), escapes=escapes)
    taken = {True: 0, False: 0}
    for _ in range(60):
        text = "".join(walk(compiler, source.choice([whole, left]), source, 80))
        for _ in range(source.randint(0, 8)):
            at = source.randrange(len(text) + 1)
            changed = text[:at] + source.choice(["a", "b", *excludes]) + text[at:]
            if accepts(whole, list(changed.encode())):
                text = changed
        expected = not any(one in string for string in strings_of(json.loads(text)) for one in excludes)
        assert accepts(left, list(text.encode())) == expected, text
        taken[expected] += 1
    assert taken[True]
    assert taken[False] or (number == 1 and "tru" in excludes)  # none of its words contains one


def test_escaped_texts_are_excluded_as_well() -> None:
    grammar = byte_compiler().compile_structural_tag(json_schema({"type": "string"}, ["<|end|>"]))
    assert accepts(grammar, list(rb'"<|end\u007c"'))
    assert not accepts(grammar, list(rb'"<|end\u007c>"'))
    assert not accepts(grammar, list(rb'"\u003c|end|>"'))


@pytest.mark.parametrize("order", ["declared", "any"])
@pytest.mark.parametrize("required", [[], ["k12"], ["k7", "k80"]])
def test_names_among_many_members_are_excluded(order: str, required: list[str]) -> None:
    """Many optional members are written as tries, and many words as well."""
    names = [f"k{number}" for number in range(100)]
    members = {name: {"type": "null"} for name in names}
    schema = {"properties": members, "additionalProperties": False, "required": required}
    words = {"enum": names}
    excludes = ["k4", "5", "9"]
    compiler = byte_compiler()
    objects = compiler.compile_structural_tag(json_schema(schema, excludes), property_order=order)
    strings = compiler.compile_structural_tag(json_schema(words, excludes), property_order=order)
    open_objects = compiler.compile_structural_tag(
        json_schema({**schema, "additionalProperties": {"type": "null"}}, excludes), property_order=order
    )
    for name in names:
        value = dict.fromkeys(sorted({name, *required}, key=names.index))
        text, is_allowed = json.dumps(value, separators=(",", ":")), not any(one in name for one in excludes)
        assert accepts(objects, list(text.encode())) == is_allowed, text
        assert accepts(open_objects, list(text.encode())) == is_allowed, text
        assert accepts(strings, list(json.dumps(name).encode())) == is_allowed


WRITTEN: dict[str, tuple[str, str, str]] = {
    "json": ('{"', '":1}', "{}"),
    "qwen_xml": ("<parameter=", ">1</parameter>", ""),
    "minimax_xml": ('<parameter name="', '">1</parameter>', ""),
    "glm_xml": ("<arg_key>", "</arg_key><arg_value>1</arg_value>", ""),
    "deepseek_v4_1_xml": ('<｜DSML｜ parameter name="', '" string="false">1</｜DSML｜ parameter>', ""),
    "kimi_k3_xml": ('<|open|>argument key="', '" type="number"<|sep|>1<|close|>argument<|sep|>', ""),
    "cohere_xml": ('<cofl:value name="', '" type="json">1</cofl:value>', ""),
    "minimax_m3_xml": ("]<]minimax[>[<", ">1]<]minimax[>[</{}>", ""),
    "pythonic": ("", "=1", ""),
    "gemma": ("{", ":1}", "{}"),
}


@pytest.mark.parametrize("kind", ["closed", "many", "any order", "conditional", "constant", "required", "free"])
@pytest.mark.parametrize("style", WRITTEN)
def test_names_outside_of_json_are_excluded(style: str, kind: str) -> None:
    """Wherever names of a schema are written: in each style, and in each way to write members."""
    names = ["xBADy", "BADLY", "ok", *(f"n{number}" for number in range(80 if kind == "many" else 0))]
    schema: Any = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    schema["additionalProperties"] = False
    match kind:
        case "conditional":
            schema["dependentRequired"] = {"BADLY": ["xBADy"]}
        case "constant":
            schema["enum"] = [{"xBADy": 1}, {"ok": 1}]
        case "required":
            schema["anyOf"] = [{"required": ["xBADy"]}, {"required": ["ok"]}]
        case "free":
            if style == "minimax_m3_xml":
                pytest.skip("this style cannot write undeclared names")
            schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    form = {"type": "json_schema", "style": style, "json_schema": schema, "any_order": kind == "any order"}
    begin, end, empty = WRITTEN[style]
    whole = byte_compiler().compile_structural_tag(of_format(form))
    left = byte_compiler().compile_structural_tag(of_format({**form, "excludes": ["BAD"]}))
    for name in ("xBADy", "ok"):
        text = list((begin + name + end.replace("{}", name)).encode())
        assert accepts(whole, text) and accepts(left, text) == (name == "ok"), name
    assert accepts(left, list(empty.encode())) == (kind not in ("constant", "required"))


def test_a_required_name_must_not_be_excluded() -> None:
    schema = {"type": "object", "properties": {"xBADy": {}}, "required": ["xBADy"]}
    form = {"type": "json_schema", "style": "qwen_xml", "json_schema": schema, "excludes": ["BAD"]}
    with pytest.raises(guided.SpecError, match="the required name 'xBADy' contains an excluded string") as caught:
        byte_compiler().compile_structural_tag(of_format(form))
    assert caught.value.pointer == "/format/json_schema"
