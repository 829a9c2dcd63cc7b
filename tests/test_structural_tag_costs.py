"""Reading structural tags, and answers while they are written, takes time that is linear in the text."""

from __future__ import annotations

import json

import pytest

import guided
from guided.frontends.structural_tag.call_arguments import XmlArguments
from guided.frontends.structural_tag.element_forms import FORMS
from guided.frontends.structural_tag.literal_arguments import LiteralArguments
from guided.frontends.structural_tag.literal_forms import LITERAL_FORMS
from guided.frontends.structural_tag.partial_json import PartialJson
from tests.growth import assert_linear
from tests.structural_tag_support import byte_compiler


def with_repeated_member(size: int) -> str:
    return json.dumps({f"a{number}": 1 for number in range(size)})[:-1] + ', "z": 1, "z": 2}'


@pytest.mark.parametrize("is_inner", [False, True])
def test_a_repeated_member_is_found_in_linear_time(is_inner: bool) -> None:
    def read(size: int) -> None:
        text = with_repeated_member(size)
        if is_inner:
            text = json.dumps({"structures": [{"begin": "a", "schema": text, "end": "b"}], "triggers": ["a"]})
        with pytest.raises(guided.SpecError, match="'z' is written twice") as caught:
            byte_compiler().compile_structural_tag(text)
        assert caught.value.pointer == ("/structures/0/schema" if is_inner else "/z")
        assert text[slice(*caught.value.span)].startswith('"schema": ' if is_inner else '"z"')
        assert is_inner or caught.value.span[0] == text.rindex('"z"')

    assert_linear(read, 1_000)


def test_reading_a_structural_tag_checks_the_time() -> None:
    compiler = guided.GrammarCompiler(byte_compiler().vocabulary, limits=guided.Limits(seconds=0))
    with pytest.raises(guided.LimitExceeded, match="seconds"):
        compiler.compile_structural_tag(with_repeated_member(1))


@pytest.mark.parametrize(
    ("begin", "piece"),
    [("{", " "), ('{"a": ', "1"), ("", "["), ('"', "a"), ('"\\uz', "a"), ("?", "a"), ('{"a":1}', "a")],
)
def test_partial_json_is_read_in_linear_time(begin: str, piece: str) -> None:
    def read(size: int) -> None:
        reader = PartialJson()
        reader.read(begin)
        for _ in range(size):
            reader.read(piece)

    assert_linear(read, 5_000)


@pytest.mark.parametrize("in_one_piece", [False, True])
@pytest.mark.parametrize(
    ("begin", "piece"), [("x=[", "1,"), ("x=", "a"), ("", "a"), ("x=1", " "), ("x='", "\\n"), ("x=1", "?"), ("x=", "[")]
)
def test_literal_arguments_are_read_in_linear_time(begin: str, piece: str, in_one_piece: bool) -> None:
    def read(size: int) -> None:
        reader = LiteralArguments(LITERAL_FORMS["pythonic"])
        for part in [begin + piece * size + " " * 100 * size] if in_one_piece else [begin, *[piece] * size]:
            reader.read(part)

    assert_linear(read, 5_000)


@pytest.mark.parametrize("in_one_piece", [False, True])
@pytest.mark.parametrize(
    ("style", "begin", "piece"),
    [
        ("glm_xml", "", "<arg_key>s</arg_key><arg_value>a</arg_value>"),
        ("glm_xml", "<arg_key>s</arg_key><arg_value>a</arg_value>", "\n"),
        ("qwen_xml", "<parameter=", "a"),
        ("qwen_xml", "<parameter=n>", "1"),
        ("qwen_xml", "<parameter=s>", "a"),
        ("minimax_m3_xml", "]<]minimax[>[<o>", " "),
        ("cohere_xml", '<cofl:value name="l" type="list">', '<cofl:value type="list">'),
    ],
)
def test_arguments_that_are_elements_are_read_in_linear_time(
    style: str, begin: str, piece: str, in_one_piece: bool
) -> None:
    types = {"s": "string", "n": "number", "o": "object"}
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in types.items()}}

    def read(size: int) -> None:
        reader, rest = XmlArguments(FORMS[style], schema), ""
        for part in [begin + piece * size] if in_one_piece else [begin, *[piece] * size]:
            rest = reader.read(rest + part)

    assert_linear(read, 3_000)


@pytest.mark.parametrize("style", ["qwen_3", "glm_4_7"])
def test_many_calls_in_one_piece_are_read_in_linear_time(style: str) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    calls = {
        "qwen_3": '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n',
        "glm_4_7": "<tool_call>f</tool_call>",
    }

    def read(size: int) -> None:
        reader = guided.tool_style(style).reader(tools)
        reader.parts(calls[style] * size + "x" * 200 * size)
        assert len(reader.calls) == size

    assert_linear(read, 500)


NUMBERED_CALLS = (
    ("kimi", "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:", "<|tool_call_argument_begin|>"),
    ("kimi_k3", '<|open|>tools<|sep|><|open|>call tool="f" index="', '"<|sep|>'),
    ("cohere", '<cofl:tool_calls><cofl:tool_call id="', '" name="f">'),
)


@pytest.mark.parametrize(("style", "begin", "end"), NUMBERED_CALLS)
def test_the_number_of_a_call_is_read_in_linear_time(style: str, begin: str, end: str) -> None:
    names = ("g", "f", "f2")
    tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in names]

    def read(size: int) -> None:
        reader = guided.tool_style(style).reader(tools)
        for piece in (begin, *["1"] * size, *end[:-1]):
            reader.parts(piece)
            assert not reader.calls
        reader.parts(end[-1])
        assert [call.name for call in reader.calls] == ["f"]

    assert_linear(read, 4_000)
