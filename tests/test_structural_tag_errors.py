"""Malformed structural tags, tools and choices: the problem, its location, and what to write instead."""

from __future__ import annotations

import contextlib
import json
import random
from types import MappingProxyType
from typing import Any

import pytest

import guided
from tests.structural_tag_support import accepts, byte_compiler, compiler_with, of_format, walk

ANY = {"type": "any_text"}
TAG = {"begin": "<a>", "content": ANY, "end": "</a>"}

MALFORMED: list[tuple[Any, str, str, str]] = [
    ([], "", "is an object", "structural_tag"),
    ({}, "", '"format" is missing', "any_text"),
    ({"type": "any_text"}, "/type", 'not "structural_tag"', "format"),
    ({"type": None, "format": ANY}, "/type", '"type" is None, not "structural_tag"', "structural_tag"),
    ({"type": 3, "format": ANY}, "/type", '"type" is 3, not "structural_tag"', "structural_tag"),
    ({"type": "structural_tag"}, "", '"format" is missing', "any_text"),
    ({"type": "structural_tag", "format": ANY, "extra": 1}, "/extra", "no member 'extra'", "type, format"),
    ({"type": "structural_tag", "formt": ANY}, "/formt", "no member", "'format'"),
    (of_format([]), "/format", "a format is an object", "any_text"),  # type: ignore[arg-type]
    (of_format({}), "/format", '"type" is missing', "const_string"),
    (of_format({"type": "any_txt"}), "/format/type", "no format 'any_txt'", "'any_text'"),
    (of_format({"type": 3}), "/format/type", "no format 3", "one of"),
    (of_format({"type": "const_string"}), "/format", '"value" of the format const_string is missing', '"value"'),
    (of_format({"type": "const_string", "value": 3}), "/format/value", "not a string", "text"),
    (of_format({"type": "const_string", "value": "\ud800"}), "/format/value", "surrogate", "remove"),
    (of_format({"type": "any_text", "exclude": []}), "/format/exclude", "no member", "'excludes'"),
    (of_format({"type": "any_text", "excludes": [""]}), "/format/excludes/0", "empty", "leave it out"),
    (of_format({"type": "any_text", "excludes": "a"}), "/format/excludes", "not an array", "[...]"),
    (of_format({"type": "any_text", "max_chars": -1}), "/format/max_chars", "not an integer", ""),
    (of_format({"type": "any_text", "max_chars": True}), "/format/max_chars", "not an integer", ""),
    (of_format({"type": "sequence", "elements": []}), "/format/elements", "is empty", "at least one"),
    (of_format({"type": "or", "elements": [ANY, {"type": "x"}]}), "/format/elements/1/type", "no format", "one of"),
    (of_format({"type": "tag", "begin": "a", "content": ANY, "end": []}), "/format/end", "is empty", "at least one"),
    (of_format({"type": "tag", "begin": "a", "content": ANY, "end": {"type": "or"}}), "/format/end/type", "token", ""),
    (of_format({"type": "tag", "begin": "a", "end": "b"}), "/format", '"content"', ""),
    (of_format({"type": "repeat", "min": 3, "max": 2, "content": ANY}), "/format/max", 'but "min" is 3', "-1"),
    (of_format({"type": "repeat", "min": -1, "max": 2, "content": ANY}), "/format/min", "not an integer", ""),
    (of_format({"type": "triggered_tags", "triggers": [], "tags": [TAG]}), "/format/triggers", "is empty", ""),
    (
        of_format({"type": "triggered_tags", "triggers": ["<b"], "tags": [TAG]}),
        "/format/tags/0/begin",
        "no trigger is a prefix",
        "exactly one",
    ),
    (
        of_format({"type": "triggered_tags", "triggers": ["<", "<a"], "tags": [TAG]}),
        "/format/tags/0/begin",
        "all prefixes",
        "exactly one",
    ),
    (
        of_format({"type": "triggered_tags", "triggers": ["<a", "<c"], "tags": [TAG]}),
        "/format/triggers/1",
        "no tag begins",
        "excludes",
    ),
    (
        of_format({"type": "triggered_tags", "triggers": ["<a"], "tags": [{**TAG, "type": "or"}]}),
        "/format/tags/0/type",
        'type "tag"',
        "",
    ),
    (
        of_format({"type": "triggered_tags", "triggers": ["<a"], "tags": [TAG], "excludes": ["a"]}),
        "/format/triggers",
        "never be complete",
        "none contains another",
    ),
    (of_format({"type": "dispatch", "rules": [["a"]]}), "/format/rules/0", "a pair", ""),
    (of_format({"type": "dispatch", "rules": [["a", ANY], ["a", ANY]]}), "/format/rules/1/0", "twice", "or"),
    (of_format({"type": "token", "token": "<|call|>"}), "/format/token", "does not allow", "allow_special_tokens=True"),
    (of_format({"type": "token", "token": 1.5}), "/format/token", "not a token", ""),
    (
        of_format({"type": "tag", "begin": {"type": "token", "token": 3}, "content": ANY, "end": "b"}),
        "/format/begin/token",
        "does not allow",
        "allow",
    ),
    (
        of_format({"type": "token_triggered_tags", "trigger_tokens": ["<x>"], "tags": [TAG]}),
        "/format/tags/0/begin",
        "a token",
        "token",
    ),
    (of_format({"type": "json_schema", "json_schema": []}), "/format/json_schema", "not a schema", ""),
    (of_format({"type": "json_schema", "json_schema": {"type": "strin"}}), "/format/json_schema/type", "strin", ""),
    (of_format({"type": "json_schema", "json_schema": {}, "style": "yaml"}), "/format/style", "no style", "qwen_xml"),
    (
        of_format({"type": "json_schema", "json_schema": {"required": "a"}, "style": "qwen_xml"}),
        "/format/json_schema/required",
        "array of strings",
        "",
    ),
    (
        of_format({"type": "json_schema", "json_schema": {"type": "array"}, "style": "pythonic"}),
        "/format/json_schema/type",
        "arguments must be an object",
        "object",
    ),
    (of_format({"type": "json_schema", "json_schema": False}), "/format/json_schema", "", ""),
    (of_format({"type": "regex", "pattern": "(a"}), "", "", ""),
    (of_format({"type": "grammar", "grammar": "root = a"}), "", "", ""),
    ({"structures": [], "triggers": ["<"]}, "/structures", "is empty", ""),
    ({"structures": [{"begin": "<a", "end": "b"}], "triggers": ["<"]}, "/structures/0", '"schema" is missing', ""),
    ({"structures": [{"begin": "<a", "schema": {}, "end": "b"}]}, "", '"triggers" is missing', ""),
    (
        {"structures": [{"begin": "<a", "schema": "{", "end": "b"}], "triggers": ["<"]},
        "/structures/0/schema",
        "not JSON",
        "",
    ),
]

NESTED = ("cohere_xml", "minimax_m3_xml")
UNSUPPORTED: list[tuple[Any, str]] = [
    *[
        (
            {"type": "json_schema", "json_schema": {"properties": {"a": schema}}, "style": style},
            f"/format/json_schema{at}",
        )
        for styles, schema, at in (
            (NESTED, {"type": "array", "items": {"type": "null"}, "uniqueItems": True}, "/properties/a/uniqueItems"),
            (NESTED, {"type": "object", "properties": {"b\0": {"type": "null"}}}, "/properties/a/properties/b\0"),
            (NESTED[1:], {}, "/properties/a"),
            (NESTED[1:], True, "/properties/a"),
            (NESTED[1:], {"type": "array"}, "/properties/a/items"),
            (NESTED[1:], {"type": "object", "minProperties": 1}, "/properties/a"),
            (
                NESTED[1:],
                {"type": "object", "patternProperties": {"^x": {"type": "null"}}},
                "/properties/a/patternProperties/^x",
            ),
            (
                NESTED[1:],
                {"type": "object", "additionalProperties": {"type": "null"}},
                "/properties/a/additionalProperties",
            ),
        )
        for style in styles
    ],
    (
        {
            "type": "json_schema",
            "json_schema": {"properties": {"a": {"type": ["object", "array"], "items": False}}},
            "style": "minimax_m3_xml",
        },
        "/format/json_schema/properties/a",
    ),
    (
        {"type": "json_schema", "json_schema": {"properties": {"a b": {"type": "null"}}}, "style": "minimax_m3_xml"},
        "/format/json_schema/properties/a b",
    ),
    (
        {"type": "json_schema", "json_schema": {"minProperties": 2, "additionalProperties": True}, "style": "glm_xml"},
        "/format/json_schema",
    ),
    (
        {"type": "json_schema", "json_schema": {"properties": {"a>": {}}}, "style": "qwen_xml"},
        "/format/json_schema/properties/a>",
    ),
]


@pytest.mark.parametrize(("spec", "pointer", "message", "hint"), MALFORMED)
def test_malformed_tags_are_refused_with_their_place(spec: Any, pointer: str, message: str, hint: str) -> None:
    with pytest.raises(guided.SpecError) as caught:
        byte_compiler().compile_structural_tag(spec)
    assert caught.value.pointer == pointer or (pointer == "" and message == "")
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(("form", "pointer"), UNSUPPORTED)
def test_unenforced_keywords_are_refused(form: Any, pointer: str) -> None:
    with pytest.raises(guided.UnsupportedError) as caught:
        byte_compiler().compile_structural_tag(of_format(form))
    assert caught.value.pointer == pointer
    assert caught.value.hint


def test_a_text_shows_the_span() -> None:
    text = '{"type": "structural_tag",\n "format": {"type": "any_txt"}}'
    with pytest.raises(guided.SpecError) as caught:
        byte_compiler().compile_structural_tag(text)
    assert text[slice(*caught.value.span)].endswith('"any_txt"')


@pytest.mark.parametrize(
    "text", ["", "{", '{"type": 1, "type": 2}', "[" * 5000, '{"a": ' * 600 + "1" + "}" * 600, "1" * 5000]
)
def test_texts_that_are_not_json_are_refused(text: str) -> None:
    with pytest.raises((guided.SpecError, guided.LimitExceeded)):
        byte_compiler().compile_structural_tag(text)


def test_deep_nesting_is_refused() -> None:
    form: Any = ANY
    for _ in range(3000):
        form = {"type": "optional", "content": form}
    with pytest.raises(guided.LimitExceeded):
        byte_compiler().compile_structural_tag(of_format(form))


def test_a_text_that_is_too_long_is_refused() -> None:
    compiler = guided.GrammarCompiler(byte_compiler().vocabulary, limits=guided.Limits(spec_length=10))
    with pytest.raises(guided.LimitExceeded):
        compiler.compile_structural_tag(json.dumps(of_format(ANY)))


def test_control_tokens_need_permission() -> None:
    compiler = compiler_with("<|call|>")
    for form in ({"type": "const_string", "value": "a<|call|>"}, {"type": "token", "token": "<|call|>"}):
        with pytest.raises(guided.SpecError, match="does not allow"):
            compiler.compile_structural_tag(of_format(form))
        compiler.compile_structural_tag(of_format(form), allow_special_tokens=True)
    compiler.compile_structural_tag(of_format({"type": "any_tokens", "exclude_tokens": ["<|call|>"]}))
    with pytest.raises(guided.VocabularyError):
        compiler.compile_structural_tag(of_format({"type": "token", "token": "<|end|>"}), allow_special_tokens=True)


TOOL = {"type": "function", "function": {"name": "f"}}
TOOL_ERRORS: list[tuple[Any, Any, str, str]] = [
    ({}, "auto", "/tools", "a list"),
    ([3], "auto", "/tools/0", "an object"),
    ([{}], "auto", "/tools/0", '"type"'),
    ([{"type": "function"}], "auto", "/tools/0", '"function"'),
    ([{"type": "function", "function": 3}], "auto", "/tools/0/function", '"function"'),
    ([{"type": "function", "function": {}}], "auto", "/tools/0/function", "name"),
    ([TOOL, {"type": "function", "function": {"name": "a b"}}], "auto", "/tools/1/function/name", "name"),
    ([{"type": "function", "function": {"name": "<|im_start|>"}}], "auto", "/tools/0/function/name", "name"),
    ([TOOL, TOOL], "auto", "/tools/1/function/name", "taken"),
    (
        [{"type": "function", "function": {"name": "f", "parameters": []}}],
        "auto",
        "/tools/0/function/parameters",
        "schema",
    ),
    (
        [{"type": "function", "function": {"name": "f", "parameters": {"type": ["array", "null"]}}}],
        "auto",
        "/tools/0/function/parameters/type",
        "must be an object",
    ),
    ([TOOL], "always", "/tool_choice", "no tool_choice"),
    ([], "required", "/tool_choice", "there is none"),
    ([TOOL], {"type": "function"}, "/tool_choice", "must name a function"),
    ([TOOL], {"type": "function", "function": {"name": "g"}}, "/tool_choice/function/name", "no tool"),
    ([TOOL], {"type": "allowed_tools"}, "/tool_choice/allowed_tools", "mode"),
    (
        [TOOL],
        {"type": "allowed_tools", "allowed_tools": {"mode": "x", "tools": []}},
        "/tool_choice/allowed_tools/mode",
        "no mode",
    ),
    (
        [TOOL],
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}},
        "/tool_choice",
        "there is none",
    ),
    (
        [TOOL],
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [3]}},
        "/tool_choice/allowed_tools/tools/0",
        "must name a function",
    ),
]


@pytest.mark.parametrize(("tools", "choice", "pointer", "message"), TOOL_ERRORS)
def test_malformed_tools_are_refused_with_their_place(tools: Any, choice: Any, pointer: str, message: str) -> None:
    with pytest.raises(guided.SpecError) as caught:
        guided.tool_style("llama").structural_tag(tools, tool_choice=choice)
    assert caught.value.pointer == pointer
    assert message in caught.value.message
    assert caught.value.hint


def test_tools_of_other_types_and_unknown_styles_are_refused() -> None:
    with pytest.raises(guided.UnsupportedError) as caught:
        guided.tool_style("llama").structural_tag([{"type": "web_search"}])
    assert caught.value.pointer == "/tools/0/type"
    with pytest.raises(guided.SpecError, match="no tool style") as unknown:
        guided.tool_style("qwen_33")
    assert "qwen_3" in unknown.value.hint
    with pytest.raises(guided.SpecError):
        guided.tool_style("llama").structural_tag([], reasoning="yes")  # type: ignore[arg-type]
    with pytest.raises(guided.SpecError):
        guided.tool_style("llama").structural_tag([], parallel_tool_calls=3)  # type: ignore[arg-type]


def test_noise_never_raises_anything_else() -> None:
    source = random.Random(5)
    values: list[Any] = [None, 3, "a", [], {}, True, ANY, "<a", {"type": "token", "token": 1}, [["a", ANY]]]
    names = [
        "type",
        "value",
        "begin",
        "content",
        "end",
        "tags",
        "triggers",
        "rules",
        "elements",
        "excludes",
        "json_schema",
    ]
    types = ["tag", "or", "sequence", "dispatch", "triggered_tags", "const_string", "json_schema", "any_text", "repeat"]
    for _ in range(1500):
        form = {name: source.choice(values) for name in source.sample(names, source.randint(0, 4))}
        form["type"] = source.choice(types)
        with contextlib.suppress(guided.GuidedError):
            byte_compiler().compile_structural_tag(of_format(form))


FLAT = ["qwen_xml", "minimax_xml", "deepseek_xml", "glm_xml"]


@pytest.mark.parametrize("others", [{}, {"$defs": {"x": {"type": "null"}}}])
@pytest.mark.parametrize(
    ("style", "inner"),
    [*((style, "") for style in (*FLAT, "cohere_xml", "minimax_m3_xml")), *((style, "/allOf/0") for style in FLAT)],
)
def test_errors_in_arguments_that_are_elements(style: str, inner: str, others: dict[str, object]) -> None:
    """The location is that in the document, although the schema of an argument is narrowed before it is read."""
    argument: dict[str, object] = {"type": "integer", "minimum": "x"}
    schema = {"type": "object", "properties": {"p": {"allOf": [argument]} if inner else argument}, **others}
    document = {"type": "structural_tag", "format": {"type": "json_schema", "style": style, "json_schema": schema}}
    with pytest.raises(guided.SpecError) as caught:
        byte_compiler().compile_structural_tag(document)
    assert caught.value.pointer == f"/format/json_schema/properties/p{inner}/minimum"


@pytest.mark.parametrize("as_text", [False, True])
def test_the_type_of_a_structural_tag_may_be_left_out(as_text: bool) -> None:
    """As in xgrammar, where it is the default."""
    document = {"format": {"type": "const_string", "value": "yes"}}
    grammar = byte_compiler().compile_structural_tag(json.dumps(document) if as_text else document)
    assert accepts(grammar, list(b"yes"))
    assert not accepts(grammar, list(b"no"))


def frozen(value: Any) -> Any:
    """The value with read-only mappings and tuples in place of dicts and lists."""
    if isinstance(value, dict):
        return MappingProxyType({name: frozen(member) for name, member in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("style", ["qwen_3", "glm_4_7", "cohere"])
def test_structural_tags_and_tools_may_be_any_mappings(style: str) -> None:
    parameters = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    tool_style = guided.tool_style(style)
    tag = tool_style.structural_tag(tools, tool_choice="required")
    grammars = [
        byte_compiler().compile_structural_tag(spec, allow_special_tokens=True)
        for spec in (tag, frozen(tag), tool_style.structural_tag(frozen(tools), tool_choice="required"))
    ]
    texts = [walk(byte_compiler(), grammar, random.Random(1), 300) for grammar in grammars]
    assert texts[0] == texts[1] == texts[2]


def test_legacy_structural_tags_may_be_any_mappings() -> None:
    spec = {"structures": [{"begin": "<a>", "schema": {"type": "integer"}, "end": "</a>"}], "triggers": ["<a>"]}
    grammar = byte_compiler().compile_structural_tag(frozen(spec))
    assert accepts(grammar, list(b"b<a>1</a>"))
    assert not accepts(grammar, list(b"b<a>c</a>"))


@pytest.mark.parametrize("name", [["x"], {}, None, 5, b"qwen_3"])
def test_names_of_styles_are_strings(name: Any) -> None:
    with pytest.raises(guided.SpecError, match="there is no tool style"):
        guided.tool_style(name)


def test_arguments_of_any_mapping_are_objects() -> None:
    form = {"type": "json_schema", "json_schema": {"type": "integer"}, "style": "pythonic"}
    with pytest.raises(guided.SpecError, match="arguments must be an object"):
        byte_compiler().compile_structural_tag(frozen(of_format(form)))


def test_lark_grammars_are_checked() -> None:
    form = {"type": "grammar", "syntax": "lark", "grammar": "start: <|x|>"}
    with pytest.raises(guided.SpecError, match="references to tokens") as caught:
        byte_compiler().compile_structural_tag(of_format(form))
    assert caught.value.pointer == "/format/grammar"
    with pytest.raises(guided.SpecError, match="there is no syntax 'peg'") as caught:
        byte_compiler().compile_structural_tag(of_format({**form, "syntax": "peg"}))
    assert caught.value.pointer == "/format/syntax"
