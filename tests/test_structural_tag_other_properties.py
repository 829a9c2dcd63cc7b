"""Arguments that the schema does not declare, in the XML styles, and limits of whitespace and of free text."""

from __future__ import annotations

import json
from typing import Any

import pytest

import guided

COMPILER = guided.GrammarCompiler(guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))
FLAT = {"qwen_3_coder": "qwen_xml", "minimax": "minimax_xml", "glm_4_7": "glm_xml", "deepseek_v3_2": "deepseek_xml",
        "deepseek_v4_1": "deepseek_v4_1_xml", "kimi_k3": "kimi_k3_xml"}  # fmt: skip


def accepts(form: dict[str, Any], text: str) -> bool:
    tag = {"type": "structural_tag", "format": form}
    matcher = guided.GrammarMatcher(COMPILER.compile_structural_tag(tag, allow_special_tokens=True))
    return matcher.accept_string(text) and matcher.is_accepting()


def qwen(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": schema, "style": "qwen_xml", **more}


def argument(name: str, value: str) -> str:
    return f"<parameter={name}>{value}</parameter>"


@pytest.mark.parametrize("schema", [True, {}])
def test_an_empty_schema_allows_any_arguments(schema: Any) -> None:
    for text in ("", argument("x", "Oslo"), argument("a", '{"n": [1, null]}') + "\n" + argument("b_2", "")):
        assert accepts(qwen(schema), text), text
    for text in (argument("2b", "x"), argument("x-y", "x"), argument("é", "x")):
        assert accepts(qwen(schema), text), text
    for text in ("Oslo", '{"x": 1}', argument("", "x"), argument("x y", "x"), argument("x<", "x"), "<parameter=a>open"):
        assert not accepts(qwen(schema), text), text


@pytest.mark.parametrize("in_any_order", [False, True])
def test_additional_arguments_follow_their_schema(in_any_order: bool) -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": {"type": "boolean"}}
    form = qwen(schema, any_order=in_any_order)
    assert accepts(form, argument("a", "1")) and accepts(form, argument("a", "1") + argument("ab", "true"))
    assert accepts(form, argument("ab", "true") + argument("a", "1")) == in_any_order
    for text in ("", argument("ab", "true"), argument("a", "true"), argument("a", "1") + argument("b", "1"),
                 argument("a", "1") + argument("a", "true")):  # fmt: skip
        assert not accepts(form, text), text


def test_false_and_absent_additional_properties_allow_no_others() -> None:
    for more in ({}, {"additionalProperties": False}):
        assert not accepts(qwen({"properties": {"a": {}}, **more}), argument("b", "1"))


@pytest.mark.parametrize("style", FLAT)
def test_generated_calls_are_read_back(style: str) -> None:
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "additionalProperties": {"type": "integer"},
    }
    tools = [{"type": "function", "function": {"name": "find", "parameters": parameters}}]
    own = guided.tool_style(style)
    tag = own.structural_tag(tools, tool_choice="required", parallel_tool_calls=False)
    matcher = guided.GrammarMatcher(COMPILER.compile_structural_tag(tag, allow_special_tokens=True))
    written = bytearray()
    wishes = {"city": "Oslo", "days": 3}
    for byte in _call(style, wishes):
        assert matcher.accept_token(byte), (bytes(written), chr(byte))
        written.append(byte)
    reader = own.reader(tools)
    calls = reader.read(written.decode())
    assert json.loads(calls[-1].arguments) == wishes and calls[-1].complete


def _call(style: str, arguments: dict[str, Any]) -> bytes:
    """A call in the style, built from its own file."""
    from guided.frontends.structural_tag.element_forms import FORMS

    data, form = guided.tool_style(style).data, FORMS[FLAT[style]]
    call, section = data["call"], data.get("section")
    text = section.get("lead", "") + section["begin"] + section.get("open", "") if section else ""
    text = data.get("reasoning", {}).get("disabled", "") + text
    if "response" in data:
        text = data["response"]["end"] + text
    begin, end = (call[side] if isinstance(call[side], str) else call[side][0] for side in ("begin", "end"))
    text += begin.replace("{name}", "find").replace("{index}", "1")
    for name, value in arguments.items():
        after = form.after + form.value_prefix("string" if isinstance(value, str) else "number")
        text += form.begin + name + after.replace("{gap}", "") + str(value) + form.end
    return (text + end + (section["end"] if section else "") + data.get("end", "")).encode()


def test_white_space_between_elements_is_bounded() -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
    for spaces, expected in ((0, True), (2, True), (3, False)):
        assert accepts(qwen(schema, max_whitespace_cnt=2), " " * spaces + argument("a", "1")) == expected
        assert accepts(qwen(schema, max_whitespace_cnt=2), argument("a", " " * spaces + "1")) == expected


def test_free_text_is_counted_in_tokens() -> None:
    form = {"type": "tag", "begin": "<", "content": {"type": "any_text", "max_tokens": 2}, "end": ">"}
    tag = {"type": "structural_tag", "format": form}
    matcher = guided.GrammarMatcher(COMPILER.compile_structural_tag(tag))
    assert all(matcher.accept_token(ord(char)) for char in "<ab")
    assert not matcher.accept_token(ord("c")) and matcher.accept_token(ord(">"))


def test_order_is_free_within_arguments_too() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}
    text = argument("a", '{"y": 1, "x": 2}')
    assert accepts(qwen({"properties": {"a": inner}}, any_order=True), text)
    assert not accepts(qwen({"properties": {"a": inner}}), text)


def test_a_dot_of_a_regular_expression_is_a_line_end_too() -> None:
    form = {"type": "regex", "pattern": "a.[^b]"}
    assert accepts(form, "a\n\n") and accepts(form, "axc") and not accepts(form, "axb")
