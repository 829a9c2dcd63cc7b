"""`/v1/responses`, judged by the official client: its helpers, and its types for each event."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import get_args

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from openai.lib.streaming.responses._responses import ResponseStreamState  # noqa: E402
from openai.types.responses import Response, ResponseStreamEvent  # noqa: E402

from guided.engine.request import Request  # noqa: E402
from guided.engine.result import StreamEvent  # noqa: E402
from guided.errors import OptionError  # noqa: E402
from guided.sampling.logprobs import TokenLogprobs  # noqa: E402
from guided.server.openai.answers import Answer  # noqa: E402
from guided.server.openai.attribution import ShownToken  # noqa: E402
from guided.server.openai.deltas import CallArguments, CallBegin, ReasoningDelta, SampleReader, TextDelta  # noqa: E402
from guided.server.openai.responses_events import ResponseEvents  # noqa: E402
from guided.server.openai.streaming import stream_events  # noqa: E402
from tests.server_support import after_tokens, small_engine  # noqa: E402
from tests.test_server_app import Point, run, served  # noqa: E402

MORE = {"store", "stop_reason"}  # fields of a response beyond OpenAI's
KINDS = {get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(get_args(ResponseStreamEvent)[0])}
LOGPROBS = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}


def checked(events):
    """Check that each event has the client's type, without fields that the type does not have, and that numbers and ids
    are consistent.
    """
    for number, event in enumerate(events):
        read = KINDS[event["type"]].model_validate(event, strict=True)
        assert event["sequence_number"] == number
        more = {"name"} if event["type"] == "response.function_call_arguments.done" else set()  # of older clients
        assert set(read.model_extra) <= more, read
        if "response" in event:
            assert set(read.response.model_extra) <= MORE
            assert all(not item.model_extra for item in read.response.output)
    items = {}
    for event in events:
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == len(items)
            items[event["output_index"]] = event["item"]["id"]
        elif "item_id" in event:
            assert event["item_id"] == items[event["output_index"]]
    assert len(set(items.values())) == len(items)
    return events


async def streamed(http, **body):
    answer = await http.post("/v1/responses", json={"stream": True, **body})
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    events = []
    for block in filter(None, answer.text.split("\n\n")):
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return checked(events)


def without_times(response):
    """An answer without the parts that differ between two answers to one request."""
    told = {name: value for name, value in response.items() if name not in ("id", "created_at", "completed_at")}
    return told | {"output": [{**item, "id": ""} for item in response["output"]]}


@pytest.mark.parametrize(
    "more",
    [
        {"max_output_tokens": 40},
        {"max_output_tokens": 40, **LOGPROBS},
        {"regex": "abc[a-z]{4}", **LOGPROBS},
        {"text": {"format": {"type": "json_schema", "name": "p", "schema": Point.model_json_schema()}}},
        {"text": {"format": {"type": "lark", "lark": 'start: "a" | "b"'}}, "metadata": {"a": "b"}, "user": "u"},
    ],
)
def test_the_whole_is_what_the_last_event_holds(more):
    async def whole():
        async with served() as (_, http):
            body = {"input": "Say something.", "seed": 4, **more}
            answer = await http.post("/v1/responses", json=body)
            read = Response.model_validate(answer.json(), strict=True)
            assert set(read.model_extra) <= MORE and answer.json()["store"] is False
            events = await streamed(http, **body)
            assert without_times(events[-1]["response"]) == without_times(answer.json())
            deltas = [event for event in events if event["type"] == "response.output_text.delta"]
            assert "".join(event["delta"] for event in deltas) == read.output_text
            told = [score["token"] for event in deltas for score in event["logprobs"]]
            assert told == [score["token"] for score in answer.json()["output"][0]["content"][0]["logprobs"]]
            assert bool(told) == ("include" in more)

    asyncio.run(whole())


def test_log_probabilities_match_a_conversation():
    async def whole():
        async with served() as (_, http):
            both = {"seed": 4, "regex": "abc[a-z]{4}", "temperature": 1}
            answer = (await http.post("/v1/responses", json={"input": "x", **LOGPROBS, **both})).json()
            say = {"messages": [{"role": "user", "content": "x"}], "logprobs": True, "top_logprobs": 2}
            chat = (await http.post("/v1/chat/completions", json={**say, **both})).json()
            assert answer["output"][0]["content"][0]["logprobs"] == chat["choices"][0]["logprobs"]["content"]
            assert answer["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"]
            assert answer["usage"]["output_tokens"] == chat["usage"]["completion_tokens"] == 7

    asyncio.run(whole())


def test_parse_gives_an_instance_of_the_model():
    async def body(ask):
        answer = await ask.responses.parse(model="guided", input="x", text_format=Point, max_output_tokens=60)
        assert isinstance(answer.output_parsed, Point) and answer.status == "completed"
        assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens > 0
        again = await ask.responses.create(model="guided", input=[{"role": "user", "content": "x"}, *answer.output])
        assert again.usage.input_tokens > answer.usage.input_tokens

    run(body)


def test_the_helper_for_streams_has_its_events():
    async def body(ask):
        async with ask.responses.stream(model="guided", input="x", text_format=Point, max_output_tokens=60) as stream:
            events = [event async for event in stream]
            final = await stream.get_final_response()
        done = next(event for event in events if event.type == "response.output_text.done")
        assert isinstance(done.parsed, Point) and done.parsed == final.output_parsed
        last = [event for event in events if event.type == "response.output_text.delta"][-1]
        assert last.snapshot == done.text == final.output_text

    run(body)


def test_an_answer_that_does_not_fit_is_incomplete():
    async def body(ask):
        ignore = {"ignore_eos": True}
        answer = await ask.responses.create(model="guided", input="x", max_output_tokens=5, extra_body=ignore)
        assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert answer.output[-1].status == "incomplete" and answer.usage.output_tokens == 5
        stream = await ask.responses.create(
            model="guided", input="x", max_output_tokens=5, stream=True, extra_body=ignore
        )
        assert [event.type async for event in stream][-1] == "response.incomplete"

    run(body)


def test_tokens_of_the_input_are_counted():
    async def body(ask):
        text = {
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hallo"}]}],
            "instructions": "Be.",
        }
        counted = await ask.responses.input_tokens.count(model="guided", **text)
        answer = await ask.responses.create(model="guided", **text, max_output_tokens=3)
        assert counted.input_tokens == answer.usage.input_tokens
        fewer = await ask.responses.input_tokens.count(model="guided", input="Hallo")
        assert fewer.input_tokens == counted.input_tokens - len("<system\nBe.>\n")

    run(body)


# ---- hand-made deltas of all kinds
VOCABULARY = small_engine().vocabulary
RESULT = {"stop": None, "healed": "", "budget_bound": SimpleNamespace(steps=0), "captures": {}, "prompt_tokens": 3}


def rendered(steps, finish_reason="stop", top=None):
    """The events of steps of (tokens, deltas). The text of tokens of the reasoning is reasoning."""
    events = ResponseEvents(Answer(True, "guided", VOCABULARY, top), {"store": False, **ECHO})
    out = list(events.begin())
    tokens = []
    for ids, deltas in steps:
        scores = tuple(TokenLogprobs(id, -0.5, [(id, -0.5)]) for id in ids)
        thinks = any(isinstance(delta, ReasoningDelta) for delta in deltas)
        event = StreamEvent(tuple(ids), "", logprobs=scores, reasoning=thinks)
        calls = any(isinstance(delta, CallBegin | CallArguments) for delta in deltas)
        out += events.read(
            event, deltas, [] if calls or ids == MARK else ShownToken.from_event(event, is_text=not thinks)
        )
        tokens += ids
    result = SimpleNamespace(**RESULT, tokens=tokens, finish_reason=finish_reason)
    out += events.end(SimpleNamespace(result=result, finish_reason=finish_reason))
    return checked(out)


ECHO = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
MARK = [104]  # begins a call, and has no text
THINK, SAY = ([97], [ReasoningDelta("a")]), ([98], [TextDelta("b")])
CALL = [([99], [CallBegin(0, "call_1", "f")]), ([100], [CallArguments(0, '{"x"')]), ([101], [CallArguments(0, ":1}")])]
OTHER = [([102], [CallBegin(1, "call_2", "g"), CallArguments(1, "{}")])]


def test_reasoning_text_and_calls_are_items_in_their_order():
    events = rendered([THINK, THINK, SAY, *CALL, *OTHER])
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds == [
        "created", "in_progress",
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.delta",
        "reasoning_text.done", "content_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.delta",
        "function_call_arguments.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    response = events[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["reasoning", "message", "function_call", "function_call"]
    assert response["output"][0]["content"] == [{"type": "reasoning_text", "text": "aa"}]
    assert [(item["call_id"], item["name"], item["arguments"]) for item in response["output"][2:]] == [
        ("call_1", "f", '{"x":1}'),
        ("call_2", "g", "{}"),
    ]
    assert response["usage"]["output_tokens_details"] == {"reasoning_tokens": 2}


@pytest.mark.parametrize(
    "steps", [[THINK, SAY, *CALL, *OTHER], [*CALL, SAY, *OTHER], [THINK, *CALL], [SAY, THINK, SAY], []]
)
def test_the_clients_accumulator_has_the_same_items(steps):
    state = ResponseStreamState(input_tools=openai.omit, text_format=openai.omit)
    events = rendered(steps)
    for event in events:
        state.handle_event(KINDS[event["type"]].construct(**event))
    final = state._completed_response
    assert [item.type for item in final.output] == [item["type"] for item in events[-1]["response"]["output"]]
    assert all(item.status == "completed" for item in final.output)
    text = "".join(delta.text for _, deltas in steps for delta in deltas if isinstance(delta, TextDelta))
    assert final.output_text == text
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]


def test_log_probabilities_belong_only_to_the_text():
    held = ([0xC3], [])  # the first byte of a character, which is reported with the second
    events = rendered([THINK, held, ([0xA4], [TextDelta("ä")]), *CALL, ([103], []), SAY], top=1)
    deltas = [event["logprobs"] for event in events if event["type"] == "response.output_text.delta"]
    assert [[score["bytes"] for score in each] for each in deltas] == [[[0xC3], [0xA4]], [[103], [98]]]
    marked = rendered([SAY, (MARK, []), *CALL, SAY], top=1)
    told = [event["logprobs"] for event in marked if event["type"] == "response.output_text.delta"]
    assert [[score["bytes"] for score in each] for each in told] == [[[98]], [[98]]]
    first, last = [item for item in events[-1]["response"]["output"] if item["type"] == "message"]
    assert [score["logprob"] for score in first["content"][0]["logprobs"]] == [-0.5, -0.5]
    assert [score["bytes"] for score in last["content"][0]["logprobs"]] == [[103], [98]]


def test_a_call_that_is_cut_is_incomplete():
    events = rendered([SAY, *CALL[:2]], finish_reason="length")
    assert events[-1]["type"] == "response.incomplete"
    assert [item["status"] for item in events[-1]["response"]["output"]] == ["completed", "incomplete"]


def test_an_error_in_the_middle():
    async def whole():
        async with served() as (server, http):
            server.engine.scheduler.step = after_tokens(12, server.engine.scheduler.step, lambda: 1 / 0)
            events = await streamed(http, input="x", ignore_eos=True)
            assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
            assert events[-2]["code"] == "engine_stopped"
            assert events[-1]["response"]["error"]["code"] == "server_error"
            assert "response.output_text.delta" in {event["type"] for event in events}

    asyncio.run(whole())
    failed = list(ResponseEvents(Answer(True, "guided", VOCABULARY), ECHO).fail(OptionError("seed is -1")))
    assert checked(failed)[0]["message"] == "seed is -1" and failed[1]["response"]["error"]["code"] == "invalid_prompt"


def test_who_stops_reading_cancels_the_request():
    async def whole():
        async with served() as (server, _):
            stream = server.thread.submit(Request("x", options={"ignore_eos": True, "max_tokens": 500}))
            events = ResponseEvents(Answer(True, "guided", VOCABULARY), ECHO)
            lines = stream_events(events, stream, SampleReader, 15.0)
            begun = [await anext(lines) for _ in range(6)]
            assert begun[-1].startswith("event: response.output_text.delta\ndata: {")
            assert server.thread.request_count == 1
            await lines.aclose()
            assert server.thread.request_count == 0

    asyncio.run(whole())


def test_comments_while_nothing_comes():
    class Silent:
        cancelled, unread_samples = False, 1

        def take_events(self):
            return iter(())

        def cancel(self):
            self.cancelled = True

    async def whole():
        stream = Silent()
        lines = stream_events(ResponseEvents(Answer(True, "guided", VOCABULARY), ECHO), stream, SampleReader, 0.001)
        assert [(await anext(lines))[:7] for _ in range(3)] == ["event: ", ": keep-", ": keep-"]
        await lines.aclose()
        assert stream.cancelled

    asyncio.run(whole())
