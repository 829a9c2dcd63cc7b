"""Stops with tools, formats and reasoning: they end free text and have no other effect, which a warning reports."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from guided.engine.result import BudgetBound  # noqa: E402
from guided.engine.stopping import Stops  # noqa: E402
from guided.engine.transcript import Transcript  # noqa: E402
from guided.server.http.errors import RequestError  # noqa: E402
from guided.server.openai.completion_request import CompletionRequest  # noqa: E402
from guided.server.openai.reading import read_request  # noqa: E402
from guided.vocabulary import Vocabulary  # noqa: E402
from tests.effort import examples  # noqa: E402
from tests.live_server import served  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

SAY = [{"role": "user", "content": "Say something."}]
CALL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {"type": "object", "properties": {"a": {"enum": ["STOP"]}}, "required": ["a"]},
    },
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": ["STOP"]}}}


def post(bodies: list[dict[str, Any]], path: str = "/v1/chat/completions", **settings: Any) -> list[Any]:
    async def whole() -> list[Any]:
        engine = small_engine(2000, more=("<tool_call>", "</tool_call>"))
        async with served(engine, **settings) as (_, http):
            return [await http.post(path, json=body) for body in bodies]

    answers = asyncio.run(whole())
    for answer in answers:
        assert answer.status_code == 200, answer.text
    return [answer.json() for answer in answers]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"tools": [CALL], "tool_choice": "required"},
            "stop has no effect: it ends free text, but this answer consists of calls",
        ),
        (
            {"response_format": SCHEMA},
            "stop has no effect: it ends free text, but response_format.json_schema.schema determines",
        ),
        ({"regex": '"STOP"'}, "stop has no effect: it ends free text, but regex determines this answer"),
    ],
)
def test_no_effect_where_the_answer_is_determined(body: dict[str, Any], message: str):
    common = {"messages": SAY, "max_tokens": 120, "seed": 1, **body}
    with_stop, without = post([common | {"stop": ["STOP"]}, common])
    [warning] = with_stop["warnings"]
    assert warning["message"].startswith(message) and warning["param"] == "stop"
    assert "warnings" not in without
    first, second = (answer["choices"][0]["message"] for answer in (with_stop, without))
    texts = [
        message["content"] or "".join(call["function"]["arguments"] for call in message["tool_calls"])
        for message in (first, second)
    ]
    assert texts[0] == texts[1] and "STOP" in texts[0]


def test_all_stops_and_all_routes():
    [text] = post([{"prompt": "a", "regex": "b+", "stop": "b", "ignore_eos": True, "max_tokens": 9}], "/v1/completions")
    assert {one["param"] for one in text["warnings"]} == {"stop", "ignore_eos"}
    [answer] = post([{"input": "a", "regex": "b+", "stop": ["b"], "max_output_tokens": 9}], "/v1/responses")
    assert [one["param"] for one in answer["warnings"]] == ["stop"]
    [both] = post([{"messages": SAY, "tools": [CALL], "stop": "x", "stop_token_ids": [5], "max_tokens": 9}])
    assert [one["message"] for one in both["warnings"]] == [
        "stop ends free text only: this answer may contain calls",
        "stop_token_ids has no effect: it ends free text, but this answer may contain calls",
    ]


def test_a_stop_ends_text_but_not_calls():
    common = {"messages": SAY, "tools": [CALL], "max_tokens": 200, "logit_bias": {"258": 3.0}, "n": 8}
    answers = post([common | {"seed": seed, "stop": ["O", "e", "\n"]} for seed in range(4)])
    with_calls, stops = set(), set()
    for choice in (choice for answer in answers for choice in answer["choices"]):
        text, calls = choice["message"]["content"] or "", choice["message"].get("tool_calls") or []
        assert not any(stop in text for stop in ("O", "e")), text
        assert all(json.loads(call["function"]["arguments"]) == {"a": "STOP"} for call in calls)
        with_calls.add(bool(calls))
        stops.add(choice["stop_reason"])
    assert with_calls == {True, False} and {"O", "e"} & stops


def test_streams_have_the_text_of_whole_answers():
    body = {"messages": SAY, "tools": [CALL], "max_tokens": 150, "logit_bias": {"258": 8.0}, "stop": ["ab", "e", "q1"]}

    async def both(seed: int) -> None:
        engine = small_engine(2000, more=("<tool_call>", "</tool_call>"))
        async with served(engine) as (_, http):
            whole = (await http.post("/v1/chat/completions", json=body | {"seed": seed})).json()["choices"][0]
            stream = await http.post("/v1/chat/completions", json=body | {"seed": seed, "stream": True})
            chunks = [json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: {")]
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
        text = "".join(delta.get("content") or "" for delta in deltas)
        assert text == (whole["message"]["content"] or "")
        assert chunks[-1]["choices"][0]["stop_reason"] == whole["stop_reason"]
        if whole["stop_reason"] is not None:
            assert not text.endswith(whole["stop_reason"])

    for seed in range(6):
        asyncio.run(both(seed))


VOCABULARY = Vocabulary([b"a", b"b", b"ab", b"ba", b"a\xc3", b"\xa9", b"\xc3\xa9b"], eos_token_ids=[7])
PARTS = st.lists(
    st.tuples(st.booleans(), st.lists(st.sampled_from([0, 1, 2, 3, 6]), min_size=1, max_size=5)), max_size=6
)


@examples(200)
@given(PARTS, st.sampled_from(["ab", "b", "bab", "é", "aa"]), st.booleans())
def test_the_transcript_stops_where_a_free_part_does(parts: list[tuple[bool, list[int]]], stop: str, included: bool):
    """The judge finds the first match within one free part, which is a run of free tokens after the last forced one."""
    transcript = Transcript(VOCABULARY, Stops(texts=[stop], includes_stop=included))
    streamed, text, run, expected = "", "", "", None
    free = True
    for is_free, tokens in parts:
        for token in tokens:
            transcript.append([token], sampled=True, is_free_text=is_free)
            streamed += transcript.event(BudgetBound()).text
            piece = VOCABULARY.decode([token]).decode()
            run = run + piece if free and is_free else ""
            free = is_free
            at = run.find(stop)
            text += piece
            if at >= 0:
                end = len(text) - len(run) + at
                expected = text[: end + (len(stop) if included else 0)]
                break
        if expected is not None:
            break
    assert (transcript.stop_match is not None) == (expected is not None)
    if expected is not None:
        assert transcript.text == expected and expected.startswith(streamed)
    else:
        assert text.startswith(streamed)


def test_anthropics_route_names_its_own_field():
    tool = {"name": "f", "input_schema": CALL["function"]["parameters"]}
    body = {"model": "guided", "max_tokens": 60, "messages": SAY, "tools": [tool], "stop_sequences": ["O"]}
    [answer] = post([body | {"tool_choice": {"type": "any"}}], "/v1/messages")
    assert answer["warnings"] == [
        {
            "message": "stop_sequences has no effect: it ends free text, but this answer consists of calls",
            "param": "stop_sequences",
        }
    ]
    assert answer["stop_reason"] == "tool_use" and answer["content"][0]["input"] == {"a": "STOP"}


@pytest.mark.parametrize(
    ("stop", "message", "param"),
    [
        (["a"] * 129, "stop: List should have at most 128 items after validation, not 129", "stop"),
        (["a", 3], "stop.1: Input should be a valid string", "stop.1"),
        (5, "stop: Input should be a valid string, or a valid list", "stop"),
    ],
)
def test_wrong_stops_name_the_fault(stop: object, message: str, param: str) -> None:
    """The field may be a string or a list, so the error must be about the one that is meant."""
    with pytest.raises(RequestError) as caught:
        read_request(CompletionRequest, {"prompt": "a", "stop": stop})
    assert (str(caught.value), caught.value.param) == (message, param)
