"""Texts that each style of tool calls accepts and refuses, and the calls that are read from them.

`tool_calls/STYLE.json` has the texts: calls as the chat templates of the models write them, with their meaning. If
xgrammar is installed, it judges the same texts with its own structural tag for the model. `why_different` has the
reasons where it disagrees.
"""

from __future__ import annotations

import ast
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import guided
from guided.frontends.structural_tag.tool_prompts import write_calls
from tests.effort import draws
from tests.structural_tag_support import accepts, byte_compiler
from tests.xgrammar_version import XGRAMMAR

FOLDER = Path(__file__).parent / "tool_calls"


def function(name: str, properties: dict[str, Any], *required: str) -> dict[str, Any]:
    parameters = {
        "type": "object", "properties": properties, "required": list(required), "additionalProperties": False,
    }  # fmt: skip
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


PLACE = function("", {"lat": {"type": "number"}}, "lat")["function"]["parameters"]
TOOLS = [
    function("weather", {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}}, "city"),
    function("now", {}),
    function("pick", {"unit": {"enum": ["C", "F"]}, "at": PLACE}, "unit"),
]
STYLES = [name for name in guided.TOOL_STYLES if guided.tool_style(name).data["source"].startswith("xgrammar")]
XGRAMMARS = [name for name in STYLES if name != "gemma_4" or XGRAMMAR >= (0, 2, 9)]
"""The styles of the installed xgrammar."""
TWO_CALLS = "xgrammar accepts several calls in the style harmony, although one function is named"
TEXT_AFTER = "xgrammar 0.2.8 accepts text after the calls of DeepSeek V4"
BEYOND = "xgrammar does not have this form of a call, which the model's template or its authors' parser has"
PLAIN_TEXT = "for xgrammar, this is text in the style llama"
EMPTY = "xgrammar accepts an empty answer in the style harmony, although a call is required"


@cache
def table(style: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / f"{style}.json").read_text(encoding="utf-8"))
    return found


def options_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("tool_choice", "parallel_tool_calls", "reasoning") if name in row}


def test_every_style_has_a_table() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(guided.TOOL_STYLES)
    for style in guided.TOOL_STYLES:
        texts = table(style)
        assert len(texts["accepted"]) >= 8
        assert len(texts["refused"]) >= 8
        choices = [json.dumps(row.get("tool_choice", "auto")) for row in texts["accepted"]]
        assert {'"auto"', '"none"', '"required"'} < set(choices)
        assert sum("allowed_tools" in choice for choice in choices) >= 2


@pytest.mark.parametrize("style", guided.TOOL_STYLES)
def test_the_texts_of_the_table(style: str) -> None:
    for kind, texts in table(style).items():
        for row in texts:
            tag = guided.tool_style(style).structural_tag(TOOLS, **options_of(row))
            grammar = byte_compiler().compile_structural_tag(tag)
            assert accepts(grammar, list(row["text"].encode())) == (kind == "accepted"), row


@pytest.mark.parametrize("style", guided.TOOL_STYLES)
def test_calls_are_read_back_while_they_are_written(style: str) -> None:
    source = random.Random(style)
    for row in table(style)["accepted"]:
        for most in (1, 7, 1000):
            reader = guided.tool_style(style).reader(TOOLS, reasoning=row.get("reasoning", "disabled"))
            text, last, ended = row["text"], dict[int, Any](), list[int]()
            while text:
                size = source.randint(1, most)
                for call in reader.read(text[:size]):
                    value = json.loads(call.arguments)
                    assert begins(last.get(call.index, {}), value)
                    last[call.index] = value
                    ended += [call.index] if call.complete else []
                text = text[size:]
            assert [[call.name, json.loads(call.arguments)] for call in reader.calls] == row["calls"], row
            assert all(call.complete for call in reader.calls)
            assert ended == list(range(len(reader.calls)))  # each is reported once
            written = {pointer: row["text"][start:end].strip() for pointer, start, end in reader.spans}
            assert {name: text for name, text in written.items() if not text.startswith("{")} == {
                name: WrittenAs(value) for name, value in leaves(row["calls"]).items()
            }


@pytest.mark.parametrize("style", guided.TOOL_STYLES)
def test_calls_in_reasoning_are_text(style: str) -> None:
    """And a begin of reasoning later in the text is text, too."""
    data = guided.tool_style(style).data
    if "reasoning" not in data or "response" in data:
        return
    markers, compared = data["reasoning"], 0
    for row in table(style)["accepted"]:
        if row.get("reasoning", "disabled") != "disabled" or not row["text"]:
            continue
        reasoning = f"Perhaps {row['text']}? No, {row['text'][: len(row['text']) // 2]}"
        text = ("" if markers["in_prompt"] else markers["begin"]) + reasoning + markers["end"] + markers["after"]
        tag = guided.tool_style(style).structural_tag(TOOLS, **{**options_of(row), "reasoning": "enabled"})
        if not accepts(byte_compiler().compile_structural_tag(tag), list((text + row["text"]).encode())):
            continue  # some styles exclude these texts from reasoning
        for size in (1, 5, 1000):
            reader = guided.tool_style(style).reader(TOOLS, reasoning="enabled")
            for at in range(0, len(text + row["text"]), size):
                reader.read((text + row["text"])[at : at + size])
            assert [[call.name, json.loads(call.arguments)] for call in reader.calls] == row["calls"], row
            assert reader.reasoning == reasoning
        compared += 1
        if not row["calls"]:
            reader = guided.tool_style(style).reader(TOOLS)
            reader.read(later := f"{row['text']} {markers['begin']} is a marker")
            reader.finish()
            assert (reader.text, reader.reasoning) == (later, "")
    assert compared >= 3 or data.get("excludes"), style


class WrittenAs:
    """Equal to the texts of a value: JSON, a Python literal, or a string, plain or as Gemma quotes it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, text: object) -> bool:
        if text == self.value or text == f'<|"|>{self.value}<|"|>':
            return True
        for read in (json.loads, ast.literal_eval):
            try:
                return bool(read(text) == self.value)
            except (ValueError, SyntaxError):
                continue
        return False

    __hash__ = None  # type: ignore[assignment]


def leaves(calls: list[list[Any]]) -> dict[str, Any]:
    """The names of calls, and the values in their arguments that are not containers, by their JSON Pointers."""
    found = dict[str, Any]()

    def add(pointer: str, value: Any) -> None:
        if isinstance(value, dict | list):
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
                add(f"{pointer}/{key}", inner)
        else:
            found[pointer] = value

    for number, (name, arguments) in enumerate(calls):
        add(f"/{number}", {"name": name, "arguments": arguments})
    return found


@pytest.mark.parametrize("style", ["deepseek_v3_2", "deepseek_v4", "deepseek_v4_1", "minimax"])
def test_the_lead_of_a_group_of_calls_is_not_text(style: str) -> None:
    lead = guided.tool_style(style).data["section"]["lead"]
    group = "".join(piece.text for piece in write_calls(guided.tool_style(style), [("now", "{}"), ("now", "{}")]))
    assert group.startswith(lead)
    for text in ("", "Let me see.", f"A{lead}B", "C\n\n\n"):
        for size in (1, 5, 1000):
            reader, answer = guided.tool_style(style).reader(TOOLS), text + group
            for at in range(0, len(answer), size):
                reader.read(answer[at : at + size])
            reader.finish()
            assert reader.text == text
            assert [[call.name, json.loads(call.arguments)] for call in reader.calls] == [["now", {}]] * 2


@pytest.mark.parametrize("style", guided.TOOL_STYLES)
def test_a_text_that_is_not_allowed_does_no_harm(style: str) -> None:
    """A reader of free text sees anything: invalid JSON, texts that end too early, and ends without a begin."""
    source = random.Random(style)
    for row in table(style)["accepted"] + table(style)["refused"]:
        for _ in range(draws(30)):
            text, reader = row["text"], guided.tool_style(style).reader(TOOLS)
            for _ in range(source.randint(1, 4)):
                at = source.randrange(len(text) + 1)
                text = text[:at] + source.choice(['"', "]", "}", "{", ",", "1,000", "a", ":", ""]) + text[at + 1 :]
            reader.read(text)
            reader.finish()
            assert all(0 <= start <= end <= len(text) for _, start, end in reader.spans)


def begins(before: Any, now: Any) -> bool:
    """Whether a value may have become another one by appending text."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = list(before)
        return list(now)[: len(names)] == names and all(begins(before[name], now[name]) for name in names)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) <= len(now) and all(map(begins, before, now))
    return now.startswith(before) if isinstance(before, str) and isinstance(now, str) else bool(before == now)


@pytest.mark.parametrize("style", XGRAMMARS)
def test_verdicts_match_xgrammar(style: str) -> None:
    xgrammar = pytest.importorskip("xgrammar", reason="xgrammar is not installed")
    testing = pytest.importorskip("xgrammar.testing", reason="xgrammar is not installed")
    for kind, texts in table(style).items():
        for row in texts:
            options = {"reasoning": "disabled", **options_of(row)}
            tag = xgrammar.get_model_structural_tag(style, TOOLS, **options)
            grammar = xgrammar.Grammar.from_structural_tag(tag)
            accepted = testing._is_grammar_accept_string(grammar, row["text"])
            assert (accepted != (kind == "accepted")) == (why_different(style, row) is not None), row


def why_different(style: str, row: dict[str, Any]) -> str | None:
    """Why xgrammar disagrees; None if it agrees."""
    if XGRAMMAR < (0, 2, 9) and style.startswith("deepseek_v4") and row["text"].endswith(">Done."):
        return TEXT_AFTER
    if row.get("beyond_xgrammar"):
        return BEYOND
    if style == "llama" and "calls" not in row and row["text"].startswith('{"type": "function"'):
        return PLAIN_TEXT
    if style != "harmony" or "calls" in row:
        return None
    choice = row.get("tool_choice")
    if choice == "required" and not row["text"]:
        return EMPTY
    named = isinstance(choice, dict) and choice["type"] == "function"
    return TWO_CALLS if named and row["text"].count("functions.pick") == 2 else None


@pytest.mark.parametrize("style", ["deepseek_v3_1", "kimi"])
@pytest.mark.parametrize("value", ["5", "-1.5e+3", "true", '"a"', "[1, 2]"])
def test_arguments_other_than_objects_end_with_the_value(style: str, value: str) -> None:
    """The text after them follows at once."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"const": json.loads(value)}}}]
    data = guided.tool_style(style).data
    call, section = data["call"], data["section"]
    begin = (call["begin"] if isinstance(call["begin"], str) else call["begin"][0]).replace("{name}", "f")
    text = section["begin"] + begin.replace("{index}", "0") + value + call["end"] + section["end"]
    for size in (1, 3, 1000):
        reader = guided.tool_style(style).reader(tools)
        for at in range(0, len(text), size):
            reader.read(text[at : at + size])
        assert [(call.arguments, call.complete) for call in reader.calls] == [(value, True)]


@pytest.mark.parametrize("style", ["qwen_3", "mistral", "qwen_3_coder", "deepseek_v3_1"])
@pytest.mark.parametrize(
    "parameters", [{"properties": {"a": {"type": "integer"}}}, {}, True, {"type": ["object", "null"]}]
)
def test_arguments_are_always_objects(style: str, parameters: Any) -> None:
    """Even if their schema does not say so."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    restricted = {"type": "object"} if parameters is True else {**parameters, "type": "object"}
    expected = [{"type": "function", "function": {"name": "f", "parameters": restricted}}]
    chosen = guided.tool_style(style)
    assert chosen.structural_tag(tools, tool_choice="required") == chosen.structural_tag(
        expected, tool_choice="required"
    )
