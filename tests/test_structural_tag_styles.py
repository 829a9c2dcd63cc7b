"""The styles of tool calls: generated texts parse to calls whose arguments satisfy their schemas."""

from __future__ import annotations

import json
import random
import re

import jsonschema
import pytest

import guided
from guided.frontends.structural_tag.calls import CallReader
from guided.frontends.structural_tag.partial_json import completed_json
from guided.frontends.structural_tag.tool_prompts import write_calls
from tests.effort import every
from tests.structural_tag_support import accepts, byte_compiler, compiler_with, ids_of, walk

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 6},
        "days": {"type": "integer", "minimum": 0, "maximum": 99},
        "unit": {"enum": ["C", "F"]},
        "at": {
            "type": "object",
            "properties": {"lat": {"type": "number"}},
            "required": ["lat"],
            "additionalProperties": False,
        },
    },
    "required": ["city"],
    "additionalProperties": False,
}
MIXED = {
    "type": "object",
    "properties": {
        "either": {"type": ["string", "integer", "null"], "maxLength": 4},
        "flags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
        "referred": {"$ref": "#/$defs/word"},
    },
    "required": ["either", "referred"],
    "additionalProperties": False,
    "$defs": {"word": {"type": "string", "pattern": "^[a-c]{1,3}$"}},
}
SCHEMAS = {
    "get_weather": WEATHER,
    "mixed": MIXED,
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "mixed", "parameters": MIXED}},
    {"type": "function", "function": {"name": "now"}},
]
NAMED = {"type": "function", "function": {"name": "mixed"}}
SPECIAL = {
    "kimi": (
        "<think>",
        "</think>",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
    ),
    "qwen_3": ("<think>", "</think>", "<tool_call>", "</tool_call>"),
    "qwen_3_coder": ("<think>", "</think>", "<tool_call>", "</tool_call>"),
    "deepseek_v3_1": (
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
    ),
    "deepseek_v3_2": ("｜DSML｜",),
    "glm_4_7": (
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
    ),
    "kimi_k3": ("<|open|>", "<|close|>", "<|sep|>"),
    "cohere": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "minimax_m3": ("]<]minimax[>[", "<mm:think>", "</mm:think>"),
    "harmony": ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|constrain|>"),
}
CASES = [(style, ()) for style in guided.TOOL_STYLES] + list(SPECIAL.items())
COMBINATIONS = [
    (*case, choice, reasoning)
    for case in CASES
    for choice in ("auto", "required", "named", "none")
    for reasoning in ("disabled", "enabled", "auto")
]


def read_all(reader: CallReader, pieces: list[str], source: random.Random) -> None:
    """Read an answer in random pieces. Each intermediate state is valid JSON, and a prefix of the next."""
    for piece in pieces:
        at = 0
        while at < len(piece):
            size = source.choice([1, 1, 2, 5, 30])
            for call in reader.read(piece[at : at + size]):
                assert call == reader.calls[call.index]
                assert isinstance(json.loads(call.arguments), dict)
            at += size


@pytest.mark.parametrize(("name", "special", "choice", "reasoning"), every(5, COMBINATIONS, unpack=True))
def test_generated_calls_parse_back(name: str, special: tuple[str, ...], choice: str, reasoning: str) -> None:
    style = guided.tool_style(name)
    compiler = compiler_with(*special)
    source = random.Random(f"{name} {choice} {reasoning} {len(special)}")
    for parallel in (True, False):
        tag = style.structural_tag(
            TOOLS, tool_choice=NAMED if choice == "named" else choice, parallel_tool_calls=parallel, reasoning=reasoning
        )
        grammar = compiler.compile_structural_tag(tag, allow_special_tokens=True, numbers="plain", max_digits=20)
        for _ in range(3):
            pieces = walk(compiler, grammar, source, 400)
            reader = style.reader(TOOLS, reasoning=reasoning)
            read_all(reader, pieces, source)
            assert all(call.complete for call in reader.calls), pieces
            for call in reader.calls:
                jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])
            assert [call.index for call in reader.calls] == list(range(len(reader.calls)))
            if choice == "none":
                assert reader.calls == []
            elif choice != "auto":
                assert len(reader.calls) >= 1
            if not parallel or choice == "named":
                assert len(reader.calls) <= 1
            if choice == "named":
                assert [call.name for call in reader.calls] == ["mixed"]


@pytest.mark.parametrize(
    "name", every(3, [it for it in guided.TOOL_STYLES if not guided.tool_style(it).is_always_mixed])
)
def test_a_call_inside_the_text_of_an_answer_that_is_not_mixed_is_text(name: str) -> None:
    style, source = guided.tool_style(name), random.Random(name)
    compiler = compiler_with(*SPECIAL.get(name, ()))
    text = {"type": "json_schema", "json_schema": {"type": "array", "items": {"type": "string"}}}
    tag = style.structural_tag(TOOLS, mixed=False, text=text)
    grammar = compiler.compile_structural_tag(tag, allow_special_tokens=True, numbers="plain", max_digits=20)
    calls_tag = style.structural_tag(TOOLS, tool_choice="required", mixed=False)
    calls_grammar = compiler.compile_structural_tag(calls_tag, allow_special_tokens=True, max_digits=20)
    for _ in range(3):
        answer = "".join(walk(compiler, calls_grammar, source, 400))
        reader = style.reader(TOOLS, mixed=False)
        read_all(reader, [answer], source)
        reader.finish()
        assert reader.calls and all(call.complete for call in reader.calls), answer
        quoted = json.dumps([answer, "\n"], ensure_ascii=False)
        matcher = guided.GrammarMatcher(grammar)
        assert matcher.accept_string(quoted) and matcher.is_accepting()
        reader = style.reader(TOOLS, mixed=False)
        read_all(reader, [quoted], source)
        reader.finish()
        assert (reader.text, reader.calls) == (quoted, [])


def test_answers_of_some_styles_are_always_mixed() -> None:
    with pytest.raises(guided.UnsupportedError, match="always mixed"):
        guided.tool_style("harmony").reader(TOOLS, mixed=False)


def test_every_style_names_its_models_and_may_be_called() -> None:
    for name in guided.TOOL_STYLES:
        assert guided.tool_style(name).models


def test_the_text_around_calls_and_the_reasoning_come_back() -> None:
    style = guided.tool_style("qwen_3")
    reader = style.reader(TOOLS, reasoning="enabled")
    answer = (
        'I look it up.</think>\n\nLet me see.<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}'
        "\n</tool_call>Done <b"
    )
    for char in answer:
        reader.read(char)
    assert reader.reasoning == "I look it up."
    assert reader.text == "Let me see.Done <b"
    assert [(call.name, call.arguments, call.complete) for call in reader.calls] == [
        ("get_weather", '{"city": "Oslo"}', True)
    ]


def test_partial_arguments_grow() -> None:
    reader = guided.tool_style("llama").reader(TOOLS)
    seen = []
    for char in '{"name": "get_weather", "parameters": {"city": "Os\\u00f8", "days": 12, "unit": "C"}}':
        seen += [call.arguments for call in reader.read(char)]
    assert list(dict.fromkeys(seen)) == [
        "{}",
        '{"city": ""}',
        '{"city": "O"}',
        '{"city": "Os"}',
        '{"city": "Os\\u00f8"}',
        '{"city": "Os\\u00f8", "days": 12}',
        '{"city": "Os\\u00f8", "days": 12, "unit": ""}',
        '{"city": "Os\\u00f8", "days": 12, "unit": "C"}',
    ]


def test_partial_arguments_in_xml_grow() -> None:
    reader = guided.tool_style("qwen_3_coder").reader(TOOLS)
    seen = []
    text = (
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nA</b>\n</parameter>\n<parameter=days>\n12\n</parameter>"
    )
    for char in text + "\n\n</function>\n</tool_call>":
        seen += [call.arguments for call in reader.read(char)]
    assert seen[-1] == '{"city": "A</b>", "days": 12}'
    assert '{"city": "A"}' in seen
    assert reader.calls[0].complete


def test_two_calls_in_a_section() -> None:
    style = guided.tool_style("kimi")
    text = (
        "Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
        '<|tool_call_begin|>functions.mixed:12<|tool_call_argument_begin|>{"either": null, "referred": "ab"}'
        "<|tool_call_end|><|tool_calls_section_end|>"
    )
    assert accepts(byte_compiler().compile_structural_tag(style.structural_tag(TOOLS)), list(text.encode()))
    reader = style.reader(TOOLS)
    reader.read(text)
    assert [(call.name, call.arguments) for call in reader.calls] == [
        ("now", "{}"),
        ("mixed", '{"either": null, "referred": "ab"}'),
    ]
    assert reader.text == "Hm."


@pytest.mark.parametrize("style", ["glm_4_7", "llama", "pythonic", "mistral"])
def test_names_that_begin_with_another_name(style: str) -> None:
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("get", "get_all", "all")]
    for name in ("get", "get_all", "all"):
        text = "".join(piece.text for piece in write_calls(guided.tool_style(style), [(name, "{}"), ("all", "{}")]))
        for size in (1, 4, 100):
            reader = guided.tool_style(style).reader(tools)
            for at in range(0, len(text), size):
                reader.read(text[at : at + size])
            reader.finish()
            assert [call.name for call in reader.calls] == [name, "all"]
            assert all(call.complete for call in reader.calls) and not reader.text.strip()


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("name", guided.TOOL_STYLES)
def test_required_calls_may_end_with_a_line(name: str, parallel: bool) -> None:
    """The line end after a call, which many models write, does not commit to another call."""
    style = guided.tool_style(name)
    if style.is_always_mixed or not style.call_separator.isspace():
        return
    tag = style.structural_tag(TOOLS, tool_choice="required", parallel_tool_calls=parallel, mixed=False)
    matcher = guided.GrammarMatcher(byte_compiler().compile_structural_tag(tag))
    one, two = (
        "".join(piece.text for piece in write_calls(style, [("now", "{}")] * count)).strip() for count in (1, 2)
    )
    assert matcher.accept_string(one) and matcher.is_accepting()
    if "section" in style.data:
        return
    if not parallel:  # nothing can follow, so the output ends by itself
        assert not matcher._next_bytes()
        return
    assert matcher.accept_string(style.call_separator) and matcher.is_accepting()
    more = two.removeprefix(one + style.call_separator)
    assert matcher._next_bytes() == more[:1].encode()
    assert matcher.accept_string(more)


def test_calls_after_the_first_may_lack_their_marker() -> None:
    style = guided.tool_style("qwen_3").with_bare_calls()
    bare = '{"name": "now", "arguments": {}}\n</tool_call>'
    marked = f"<tool_call>\n{bare}"
    for parallel in (True, False):
        tag = style.structural_tag(TOOLS, tool_choice="required", parallel_tool_calls=parallel, mixed=False)
        grammar = byte_compiler().compile_structural_tag(tag)
        assert accepts(grammar, list(marked.encode())) and not accepts(grammar, list(bare.encode()))
        for text in (f"{marked}\n{bare}", f"{marked}\n{bare}\n{marked}\n"):
            assert accepts(grammar, list(text.encode())) is parallel
    assert json.dumps(tag).count('"json_schema"') < 4 * 3 * len(TOOLS)  # not one for each spelling of the begin
    reader = style.reader(TOOLS)
    reader.read(f"{marked}\n{bare}\n{marked}")
    assert [call.complete for call in reader.calls] == [True] * 3


def test_allowed_tools() -> None:
    choice = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]},
    }
    style = guided.tool_style("llama")
    grammar = byte_compiler().compile_structural_tag(style.structural_tag(TOOLS, tool_choice=choice))
    assert accepts(grammar, list(b'{"name": "now", "parameters": {}}'))
    assert not accepts(grammar, list(b'{"name": "mixed", "parameters": {"either": 1, "referred": "a"}}'))


def test_markers_that_are_control_tokens_are_these_tokens() -> None:
    compiler = compiler_with(*SPECIAL["qwen_3"])
    tag = guided.tool_style("qwen_3").structural_tag(TOOLS, tool_choice="required")
    text = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    grammar = compiler.compile_structural_tag(tag, allow_special_tokens=True)
    assert accepts(grammar, ids_of(compiler, text))
    assert not accepts(grammar, list(text.encode()))
    with pytest.raises(guided.SpecError, match="control token") as caught:
        compiler.compile_structural_tag(tag)
    assert "allow_special_tokens" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "\\\\", "b": "\\"\\\\\\""}',
        '{"a": "b\\u00e9\\"c", "d": [1, {"e": null}], "f": -1.5e3, "g": true}',
        "[]",
        '"x"',
        '[[], {"a": {}}]',
        '{"\\ud83d\\ude00": "\\ud83d\\ude00z"}',
    ],
)
def test_beginnings_of_json_are_completed(text: str) -> None:
    before = None
    for size in range(len(text) + 1):
        completed = completed_json(text[:size])
        value = json.loads(completed) if completed else None
        if before is not None:
            assert value is not None
        before = value
        assert not re.search(r"[\ud800-\udfff]", json.dumps(value, ensure_ascii=False))
    assert before == json.loads(text)
