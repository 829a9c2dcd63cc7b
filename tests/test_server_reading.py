"""Reading an answer: the deltas add up to the complete answer, in every style and for any division into pieces."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")

import guided
from guided.engine.answer_splitter import AnswerSplitter
from guided.engine.result import Result, StreamEvent, Timings
from guided.engine.token_text import AnswerDecoder
from guided.frontends.structural_tag.partial_json import completed_json
from guided.server.openai.deltas import (
    CallArguments,
    CallBegin,
    ReadingOptions,
    ReasoningDelta,
    SampleReader,
    TextDelta,
    ToolResult,
)
from guided.tools.toolbox import Toolbox
from guided.vocabulary import Vocabulary
from tests.effort import every
from tests.test_structural_tag_calls import TOOLS, options_of, table

NAMES = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<call>", "<end>", "<result>", "<done>")
VOCABULARY = Vocabulary(
    [*(bytes([byte]) for byte in range(256)), *[None] * len(NAMES)],
    eos_token_ids=[256 + len(NAMES)],
    special_tokens=dict(enumerate(NAMES, 256)),
)
LOOKUP = guided.Tool("lookup", "a", str, tokens=guided.ToolTokens(*NAMES[4:]))


def result(text: str = "", finish_reason: Any = "stop", **more: Any) -> Result:
    return Result(text, [], [], finish_reason, Timings(), [], 0.0, 0, 0, **more)


def events(text: str, source: random.Random, most: int, reasoning: str | None = None) -> list[StreamEvent]:
    """The events of an engine for an answer. Names of control tokens stand for these tokens, which have no text."""
    out = []
    for said, thinks in ((reasoning or "", True), (text, False)):
        ids = VOCABULARY.encode_with_special(said)
        while ids:
            size = source.randint(1, most)
            out.append(StreamEvent(tuple(ids[:size]), "", reasoning=thinks))
            ids = ids[size:]
    begun = b""
    for at, event in enumerate(out):  # incomplete characters are withheld
        begun += VOCABULARY.decode(event.tokens)
        told = begun.decode("utf-8", "ignore")
        begun = begun[len(told.encode()) :]
        out[at] = replace(event, text=told)
    return [*out, StreamEvent((), "", result=result(text))]


def put_together(
    reading: SampleReader, said: list[StreamEvent]
) -> tuple[str, str, dict[int, list[str]], list[ToolResult]]:
    text, reasoning, calls, results = "", "", dict[int, list[str]](), list[ToolResult]()
    for event in said:
        for delta in reading.read(event):
            match delta:
                case TextDelta(more):
                    text += more
                case ReasoningDelta(more):
                    reasoning += more
                case CallBegin(index, id, name):
                    calls[index] = [id, name, ""]
                case CallArguments(index, more):
                    calls[index][2] += more
                case ToolResult():
                    results.append(delta)
    return text, reasoning, calls, results


def how(style: str, reasoning: Any = "disabled", mixed: bool = True, **more: Any) -> ReadingOptions:
    def split() -> AnswerSplitter:
        return AnswerSplitter(AnswerDecoder(VOCABULARY), calls())

    calls = partial(guided.tool_style(style).reader, TOOLS, reasoning=reasoning, mixed=mixed)
    return ReadingOptions(make_call_reader=calls, make_splitter=split, **more)


@pytest.mark.parametrize("style", guided.TOOL_STYLES)
def test_deltas_put_together_are_the_whole(style):
    source = random.Random(style)
    for row in table(style)["accepted"]:
        for most in (1, 5, 1000):
            reading = SampleReader(how(style, options_of(row).get("reasoning", "disabled")))
            text, reasoning, calls, _ = put_together(reading, events(row["text"], source, most))
            assert [[name, json.loads(arguments)] for _, name, arguments in calls.values()] == row["calls"]
            whole = {at: [call.id, call.name, call.arguments] for at, call in enumerate(reading.calls)}
            assert (text, reasoning, calls) == (reading.text, reading.reasoning, whole)
            assert len({id for id, *_ in calls.values()}) == len(calls)
            assert reading.finish_reason == ("tool_calls" if row["calls"] else "stop")


def spelled(ids) -> bytes:
    """The text of tokens, with control tokens by their names."""
    return b"".join(VOCABULARY.token_bytes(id) or VOCABULARY.special_tokens[id].encode() for id in ids)


@pytest.mark.parametrize("shown", every(2, [True, False]))
@pytest.mark.parametrize("style", guided.TOOL_STYLES)
def test_reported_tokens_spell_the_text_and_the_reasoning(style, shown):
    """Each token of this vocabulary is a byte or a marker, so the tokens of the text spell exactly the text."""
    source = random.Random(style)
    for row in table(style)["accepted"]:
        for most in (1, 5, 1000):
            given = how(style, options_of(row).get("reasoning", "disabled"), shows_reasoning=shown)
            reading = SampleReader(given)
            text, reasoning, _, _ = put_together(reading, events(row["text"], source, most))
            told = [spelled(each.id for each in reading.tokens if each.is_text == kind) for kind in (True, False)]
            assert told == [text.encode(), reasoning.encode()]


@pytest.mark.parametrize("most", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "text",
    ["I löok.\n{0}\n{0}", "{0}", "\n {0} \n", "{0}\nThére.\n", "ä {0} b", "\n pläin \n", "plain <tool", "<tool_<{0}é"],
)
def test_white_space_between_calls_and_markers_is_not_reported(text, most):
    for mixed in (True, False):
        reading = SampleReader(how("qwen_3", mixed=mixed))
        told = put_together(reading, events(text.format(CALL), random.Random(0), most))[0]
        assert spelled(each.id for each in reading.tokens) == told.encode()
        reading = SampleReader(how("qwen_3", mixed=mixed))
        fresh = []
        for event in events(text.format(CALL), random.Random(0), most):
            reading.read(event)
            fresh += reading.new_tokens
        assert fresh == reading.tokens


CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Øsl°"}}\n</tool_call>'


@pytest.mark.parametrize("most", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("I look.\n" + CALL + "\n" + CALL, "I look."),
        (CALL, ""),
        ("\n " + CALL + " \n", ""),
        (CALL + "\nThere.\n", "There."),
        ("a " + CALL + " b", "a  b"),
        ("\n plain \n", "\n plain \n"),
        ("plain <tool", "plain <tool"),
    ],
)
def test_whitespace_between_calls_is_not_text(text, left, most):
    reading = SampleReader(how("qwen_3"))
    told, _, calls, _ = put_together(reading, events(text, random.Random(0), most))
    assert told == reading.text == left
    assert [json.loads(arguments) for _, _, arguments in calls.values()] == [{"city": "Øsl°"}] * text.count(CALL)


@pytest.mark.parametrize("most", [1, 4, 1000])
def test_an_answer_is_text_or_calls(most):
    for text in (f'["{CALL}"]', "<tool", '<tool_call>\n{"name": "other"}'):
        reading = SampleReader(how("qwen_3", mixed=False))
        assert put_together(reading, events(text, random.Random(1), most))[0] == text
        assert not reading.calls
    reading = SampleReader(how("qwen_3", mixed=False))
    text, _, calls, _ = put_together(reading, events(CALL, random.Random(1), most))
    assert (text, len(calls)) == ("", 1)


@pytest.mark.parametrize("most", [1, 3, 1000])
@pytest.mark.parametrize(
    ("end", "thought"),
    [("</think>", "so </thi is fine"), ("END", "an EN and an ENEND"), ("END", "END"), ("END", "")],
)
def test_reasoning_is_reported_without_its_end_marker(end, thought, most):
    marker = "" if end in NAMES else end
    said = events("\n\nYes.", random.Random(2), most, thought + end)
    split = partial(AnswerSplitter, reasoning_end=marker)
    reading = SampleReader(ReadingOptions(begins_with_reasoning=True, make_splitter=split, trims_line_ends=True))
    text, reasoning, _, _ = put_together(reading, said)
    if thought == "END":  # for the engine, the first one ends it; the content of the reasoning is reported
        assert reasoning == "END"
    assert (text, reasoning) == ("Yes.", thought) == (reading.text, reading.reasoning)
    assert reading.reasoning_tokens == len(VOCABULARY.encode_with_special(thought + end))
    hidden = SampleReader(ReadingOptions(begins_with_reasoning=True, make_splitter=split, shows_reasoning=False))
    assert put_together(hidden, said)[:2] == ("\n\nYes.", "")
    assert hidden.reasoning_tokens == reading.reasoning_tokens


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_results_of_the_servers_tools(most):
    decoder = AnswerDecoder(VOCABULARY, Toolbox([LOOKUP], VOCABULARY), keep_control_names=False)
    reading = SampleReader(ReadingOptions(make_splitter=partial(AnswerSplitter, decoder)))
    said = "It is <call>1+°<end><result>2 °<done>, and<think> <call>é<end><result><done>!"
    text, _, _, results = put_together(reading, events(said, random.Random(3), most))
    assert text == reading.text == "It is , and !"
    assert VOCABULARY.decode([each.id for each in reading.tokens]) == text.encode()
    assert results == reading.tool_results == [ToolResult(0, "lookup", "1+°", "2 °"), ToolResult(1, "lookup", "é", "")]


def test_characters_across_events_and_at_the_end():
    decoder = AnswerDecoder(VOCABULARY)
    assert decoder.read([0xC3]) == [] and decoder.read([0xB8, 0xC3]) == ["ø"]
    assert decoder.read([256, 0xE2, 0x82]) == ["\ufffd", "<tool_call>"]
    assert decoder.read([0xAC, 0xC3], last=True) == ["€", "\ufffd"]


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_partial_json_is_valid_at_any_time(most):
    value = {"a": ["x\n", -1.5, {"é": None}], "b": "<\"'>", "c": []}
    text = json.dumps(value, ensure_ascii=False)
    reading, so_far = SampleReader(ReadingOptions(reports_partial_json=True)), None
    for event in events(text, random.Random(4), most):
        reading.read(event)
        length, end = reading.partial["length"], reading.partial["end"]
        assert reading.text[:length] + end == completed_json(reading.text)
        so_far = json.loads(reading.text[:length] + end) if length else None
    assert so_far == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"city": "Os', {"city": "Os"}),
        ('{"city": "Os\\u00', {"city": "Os"}),
        ('{"city": "Oslo", "days": 1', {"city": "Oslo"}),
        ('{"city": "Oslo", "days": 12, "to', {"city": "Oslo", "days": 12}),
        ('[{"a": [true, ["x", "', [{"a": [True, ["x", ""]]}]),
    ],
)
def test_the_certain_part_of_json(text, value):
    reading = SampleReader(ReadingOptions(reports_partial_json=True))
    for character in text:
        reading.read(StreamEvent((0,), character))
    assert json.loads(text[: reading.partial["length"]] + reading.partial["end"]) == value


def test_named_calls_and_lengths():
    for named, end, reason in ((True, "stop", "stop"), (False, "length", "length"), (False, "stop", "tool_calls")):
        reading = SampleReader(replace(how("qwen_3"), has_named_function=named))
        said = events(CALL, random.Random(5), 9)[:-1]
        put_together(reading, [*said, StreamEvent((), "", result=result(finish_reason=end, cut=end == "length"))])
        assert reading.finish_reason == reason
