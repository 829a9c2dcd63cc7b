"""`/v1/messages`: answers, their streams, and errors in Anthropic's format. The official client judges them in
test_clients.py."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

from guided.engine.result import StreamEvent  # noqa: E402
from guided.server.anthropic.errors import anthropic_error  # noqa: E402
from guided.server.anthropic.message_events import MessageEvents  # noqa: E402
from guided.server.http.errors import RequestError, find_status, make_error_body  # noqa: E402
from guided.server.openai.deltas import CallArguments, CallBegin, ReasoningDelta, TextDelta  # noqa: E402
from guided.server.openai.streaming import stream_events  # noqa: E402
from tests.live_server import served  # noqa: E402
from tests.server_support import after_tokens, small_engine  # noqa: E402

PATH = "/v1/messages"
SAY = [{"role": "user", "content": "Say something."}]
ASK = {"model": "guided", "messages": SAY, "max_tokens": 60, "temperature": 0}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 5}, "b": {"enum": [1, None]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
FORMAT = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
TOOLS = [
    {"name": "find", "description": "Finds.", "input_schema": SCHEMA},
    {"name": "add", "input_schema": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}}},
]
MARKS = ("<tool_call>", "</tool_call>", "<think>", "</think>")
REASONS = {"reasoning_end": "</think>"}
THINK = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1500}
PARTS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking"),
         "tool_use": ("input_json_delta", "partial_json")}  # fmt: skip


def run(body, engine=None, **settings):
    async def whole():
        async with served(engine, **settings) as (server, http):
            await body(server, http)

    asyncio.run(whole())


async def ask(http, **body):
    answer = await http.post(PATH, json={**ASK, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def reassembled(events):
    """The message of a stream. Checks that the events are in Anthropic's order, and that each delta fits its block."""
    assert [event["type"] for event in (events[0], *events[-2:])] == ["message_start", "message_delta", "message_stop"]
    message, block, pieces = dict(events[0]["message"]), None, []
    assert (message["content"], message["stop_reason"], message["stop_sequence"]) == ([], None, None)
    for event in events[1:-2]:
        assert event["type"].startswith("content_block_") and event["index"] == len(message["content"])
        if event["type"] == "content_block_start":
            assert block is None
            block, pieces = dict(event["content_block"]), []
            assert not any(block[name] for name in block.keys() - {"type", "id", "name"}), "it is empty at first"
            continue
        type, member = PARTS[block["type"]]
        if event["type"] == "content_block_delta":
            assert not (block["type"] == "thinking" and block["signature"]), "the signature comes last"
            if event["delta"]["type"] == "signature_delta":
                block |= {"signature": event["delta"]["signature"]}
                continue
            assert event["delta"] == {"type": type, member: event["delta"][member]}
            pieces.append(event["delta"][member])
            continue
        text = "".join(pieces)
        block |= {"input": json.loads(text)} if block["type"] == "tool_use" else {member: text}
        message["content"], block = [*message["content"], block], None
    assert block is None
    return message | events[-2]["delta"] | {"usage": message["usage"] | events[-2]["usage"]}


async def streamed(http, **body):
    answer = await http.post(PATH, json={**ASK, **body, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    events = []
    for block in filter(None, answer.text.split("\n\n")):
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def without_ids(message):
    """An answer without the parts that differ between two answers to one request."""
    return message | {"id": "", "content": [{**block, "id": ""} for block in message["content"]]}


def texts(message):
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ({}, ["text"]),
        ({"system": [{"type": "text", "text": "Be."}], "top_k": 3, "top_p": 0.5, "metadata": {"user_id": "u"}}, None),
        ({"regex": "abc[a-z]{4}"}, ["text"]),
        (FORMAT, ["text"]),
        ({"tools": TOOLS, "tool_choice": {"type": "any"}, "max_tokens": 300}, None),
        ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "find"}, "max_tokens": 300}, ["tool_use"]),
        ({"tools": TOOLS, "tool_choice": {"type": "none"}}, ["text"]),
        ({**THINK, **FORMAT}, ["thinking", "text"]),
        ({**THINK, "tools": TOOLS, "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
            ["thinking", "tool_use"]),
    ],
)  # fmt: skip
def test_a_stream_is_the_message_in_pieces(body, kinds):
    async def both(_, http):
        message = await ask(http, **body)
        assert without_ids(reassembled(await streamed(http, **body))) == without_ids(message)
        assert (message["type"], message["role"], message["model"]) == ("message", "assistant", "guided")
        assert message["id"].startswith("msg_")
        if kinds is not None:
            assert [block["type"] for block in message["content"]] == kinds
        for block in message["content"]:
            if block["type"] == "tool_use":
                tool = next(tool for tool in TOOLS if tool["name"] == block["name"])
                jsonschema.validate(block["input"], tool["input_schema"])
                assert block["id"].startswith("toolu_")
        if "output_config" in body:
            jsonschema.validate(json.loads(texts(message)), SCHEMA)

    run(both, small_engine(4000, more=MARKS), **REASONS)


def test_the_answer_matches_a_conversation():
    async def both(_, http):
        for body, chat in (
            (FORMAT, {"json_schema": SCHEMA}),
            ({"system": "Be."}, {"messages": [{"role": "system", "content": "Be."}, *SAY]}),
            ({"messages": [*SAY, {"role": "assistant", "content": "It is"}], "regex": "It is [a-z]{9}"},
                {"messages": [*SAY, {"role": "assistant", "content": "It is"}], "regex": "It is [a-z]{9}",
                 "continue_final_message": True}),
        ):  # fmt: skip
            message = await ask(http, **body)
            wanted = (await http.post("/v1/chat/completions", json={**ASK, **chat})).json()
            assert texts(message) == wanted["choices"][0]["message"]["content"]
            usage = wanted["usage"]
            assert message["usage"]["input_tokens"] == usage["prompt_tokens"]
            assert message["usage"]["output_tokens"] == usage["completion_tokens"]

    run(both)


def test_why_an_answer_ended():
    async def ends(_, http):
        async def end(**body):
            message = await ask(http, **body)
            assert reassembled(await streamed(http, **body))["stop_reason"] == message["stop_reason"]
            return message["stop_reason"], message["stop_sequence"]

        text = texts(await ask(http))
        assert len(text) > 20, "the model continues"
        assert await end() == ("max_tokens", None)
        assert await end(stop_sequences=["no such text", text[5:9]]) == ("stop_sequence", text[5:9])
        assert text.startswith(texts(await ask(http, stop_sequences=[text[5:9]])))
        assert await end(regex="[a-c]{3}") == await end(**FORMAT) == ("end_turn", None)
        assert await end(regex="[a-c]+", max_tokens=4) == ("max_tokens", None)
        for choice in ({"type": "any"}, {"type": "tool", "name": "add"}):
            assert await end(tools=TOOLS, tool_choice=choice, max_tokens=200) == ("tool_use", None)

    run(ends, small_engine(4000))


def test_thinking():
    async def thoughts(_, http):
        off = await ask(http)
        assert [block["type"] for block in off["content"]] == ["text"]
        assert "output_tokens_details" not in off["usage"]
        on = await ask(http, **THINK, regex="[a-z]{3}")
        thought, text = on["content"]
        assert thought["thinking"] and thought["signature"] and len(text["text"]) == 3
        count = on["usage"]["output_tokens_details"]["thinking_tokens"]
        assert len(thought["thinking"]) <= count <= 1025 and count < on["usage"]["output_tokens"]
        adaptive = await ask(http, thinking={"type": "adaptive"}, max_tokens=200, regex="[a-z]{3}")
        assert [block["type"] for block in adaptive["content"]] == ["thinking", "text"]
        hidden = {**THINK, "thinking": {**THINK["thinking"], "display": "omitted"}, "regex": "[a-z]{3}"}
        message = await ask(http, **hidden)
        assert message["content"] == [{**thought, "thinking": ""}, text] and message["usage"] == on["usage"]
        assert without_ids(reassembled(await streamed(http, **hidden))) == without_ids(message)
        more = [*SAY, {"role": "assistant", "content": on["content"]}, {"role": "user", "content": "Why?"}]
        assert (await ask(http, messages=more))["usage"]["input_tokens"] > off["usage"]["input_tokens"]

    run(thoughts, small_engine(4000, more=MARKS), **REASONS)

    async def refused(_, http):
        answer = await http.post(PATH, json={**ASK, **THINK})
        error = answer.json()["error"]
        assert (answer.status_code, error["details"]["param"]) == (400, "thinking")
        assert error["message"].startswith("thinking: this server's model does not reason")
        assert (await ask(http, thinking={"type": "adaptive"}))["stop_reason"] == "max_tokens"

    run(refused, small_engine(4000))


def test_results_of_calls_are_read():
    async def talk(_, http):
        choice = {"type": "tool", "name": "find"}
        first = await ask(http, tools=TOOLS, tool_choice=choice, max_tokens=300)
        [use] = first["content"]
        sizes = []
        for more in ({"content": "4"}, {"content": [{"type": "text", "text": "4"}], "is_error": True}):
            result = {"type": "tool_result", "tool_use_id": use["id"], **more}
            messages = [*SAY, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
            answer = await ask(http, messages=messages, tools=TOOLS)
            sizes.append(answer["usage"]["input_tokens"])
        assert sizes[0] > first["usage"]["input_tokens"] and sizes[1] == sizes[0] + len("Error: ")

    run(talk, small_engine(4000))


def test_tokens_of_a_request_are_counted():
    async def count(_, http):
        for body in ({}, {"system": "Be."}, {"tools": TOOLS}, {"tools": TOOLS, "tool_choice": {"type": "none"}}):
            sent = {"model": "guided", "messages": SAY, **body}
            answer = await http.post(f"{PATH}/count_tokens", json=sent)
            assert answer.json() == {"input_tokens": (await ask(http, **body))["usage"]["input_tokens"]}
        long = [{"role": "user", "content": "a" * 5000}]
        answer = await http.post(f"{PATH}/count_tokens", json={"model": "guided", "messages": long})
        assert "context holds 4000" in checked(answer, *INVALID, "context_length_exceeded")

    run(count, small_engine(4000))


def test_warnings_are_in_the_message():
    async def warned(_, http):
        schema = {"type": "string", "format": "no-such-format", "maxLength": 3}
        body = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        answer = await http.post(PATH, json={**ASK, **body})
        [warning] = answer.json()["warnings"]
        assert warning["param"] == "output_config.format.schema/format"
        assert "no-such-format" in answer.headers["warning"]
        assert reassembled(await streamed(http, **body))["warnings"] == [warning]

    run(warned)


# ---- hand-made deltas of all kinds
RESULT = {"stop": None, "prompt_tokens": 3, "tokens": [1, 2]}
PIECES = st.text(min_size=1, max_size=4)
DELTAS = st.lists(
    st.builds(ReasoningDelta, PIECES)
    | st.builds(TextDelta, PIECES)
    | st.tuples(st.sampled_from(["f", "g"]), st.lists(PIECES, max_size=3)),
    max_size=12,
)


def rendered(deltas, reason="stop", stop=None):
    """The events of deltas, and the complete message. A pair stands for a call: its name, and the pieces of its
    arguments.
    """
    events = MessageEvents("guided", 3, request_id="r")
    out, calls = list(events.begin()), 0
    for delta in deltas:
        made = [delta]
        if isinstance(delta, tuple):
            pieces = ['{"a":[', ",".join(map(json.dumps, delta[1])), "]}"]
            made = [CallBegin(calls, f"call_{calls}", delta[0]), *(CallArguments(calls, piece) for piece in pieces)]
            calls += 1
        for one in made:
            out += events.read(StreamEvent((), ""), [one], [])
    options = SimpleNamespace(begins_with_reasoning=False)
    result = SimpleNamespace(**RESULT | {"stop": stop})
    out += events.end(SimpleNamespace(result=result, finish_reason=reason, calls=[None] * calls, options=options))
    return out, json.loads(events.text())


@given(DELTAS)
def test_events_have_all_of_the_answer_in_its_order(deltas):
    events, message = rendered(deltas)
    json.dumps(events)
    assert reassembled(events) == message
    wanted = []  # consecutive deltas of a kind are one block, and each call is its own
    for delta in deltas:
        if isinstance(delta, tuple):
            wanted.append(["tool_use", delta[0], {"a": delta[1]}])
            continue
        kind = "thinking" if isinstance(delta, ReasoningDelta) else "text"
        if not wanted or wanted[-1][0] != kind:
            wanted.append([kind, ""])
        wanted[-1][1] += delta.text
    shown = [
        ["tool_use", block["name"], block["input"]]
        if block["type"] == "tool_use"
        else [block["type"], block[block["type"]]]
        for block in message["content"]
    ]
    assert shown == wanted
    assert message["stop_reason"] == ("tool_use" if any(block[0] == "tool_use" for block in wanted) else "end_turn")


def test_inputs_are_as_the_model_wrote_them():
    events = MessageEvents("guided", 3, request_id="r")
    assert list(events.begin())
    arguments = '{"a": 1e999, "b": ' + "9" * 5000 + ', "c": "\\ud800", "d": "é"}'
    list(events.read(StreamEvent((), ""), [CallBegin(0, "call_1", "f"), CallArguments(0, arguments)], []))
    list(events._end_block())
    assert f'"input":{arguments}}}' in events.text()


def test_reasons_of_the_end():
    said = [TextDelta("a")]
    assert rendered(said, "length")[1]["stop_reason"] == "max_tokens"
    assert rendered([*said, ("f", [])], "length")[1]["stop_reason"] == "max_tokens"
    assert rendered([("f", [])], "stop")[1]["stop_reason"] == "tool_use"
    ended = rendered(said, "stop", stop="b")[1]
    assert (ended["stop_reason"], ended["stop_sequence"]) == ("stop_sequence", "b")
    assert rendered(said, "stop", stop=257)[1]["stop_reason"] == "end_turn"
    empty = rendered([])[1]
    assert (empty["content"], empty["stop_reason"]) == ([], "end_turn")
    zero = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    assert empty["usage"] == {"input_tokens": 3, "output_tokens": 2, "service_tier": "standard", **zero}


def test_pings_while_nothing_comes():
    class Silent:
        cancelled, unread_samples = False, 1

        def take_events(self):
            return iter(())

        def cancel(self):
            self.cancelled = True

    async def whole():
        stream = Silent()
        events = MessageEvents("guided", 3, request_id="r")
        lines = stream_events(events, stream, lambda: None, 0.001)
        assert (await anext(lines)).startswith("event: message_start\n")
        assert [await anext(lines) for _ in range(2)] == ['event: ping\ndata: {"type":"ping"}\n\n'] * 2
        await lines.aclose()
        assert stream.cancelled

    asyncio.run(whole())


# ---- errors
def checked(answer, status, type, code, param=None):
    """The message of an error, whose format is checked."""
    body = answer.json()
    assert answer.status_code == status, answer.text
    assert body.keys() == {"type", "error", "request_id"} and body["type"] == "error"
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    assert body["error"].keys() == {"type", "message", "details"} and body["error"]["type"] == type
    assert body["error"]["details"] == {"error_code": code, "param": param}
    assert param is None or body["error"]["message"].startswith(param)
    return body["error"]["message"]


INVALID = (400, "invalid_request_error")


@pytest.mark.parametrize(
    ("body", "code", "param", "message"),
    [
        ({"temprature": 1}, "invalid_request", "temprature", "did you mean temperature?"),
        ({"max_tokens": None}, "invalid_request", "max_tokens", "valid integer"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "invalid_request",
            "messages.0.content.0.type", "images and documents are not supported"),
        ({"messages": [{"role": "user", "content": "a" * 700}]}, "context_length_exceeded", None, "context holds 600"),
        ({"regex": "(a"}, "invalid_specification", "regex", "hint: "),
        ({**FORMAT, "max_tokens": 3}, "max_tokens_too_small", "max_tokens", "or more"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"properties": {"a": {"minimum": "x"}}}}}},
            "invalid_specification", "output_config.format.schema/properties/a/minimum", "must be a number"),
        ({"tools": [{"name": "f", "input_schema": {"properties": {"a": {"type": "x"}}}}]}, "invalid_specification",
            "tools/0/input_schema/properties/a/type", "hint: "),
        ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "find_"}}, "invalid_specification",
            "tool_choice/name", "one of find, add"),
        ({"stop_sequences": [""]}, "invalid_request", "stop_sequences", "nonempty"),
    ],
)  # fmt: skip
def test_errors_have_a_location_and_a_reason(body, code, param, message):
    async def refused(_, http):
        for stream in (False, True):
            answer = await http.post(PATH, json={**ASK, **body, "stream": stream})
            assert message in checked(answer, *INVALID, code, param)

    run(refused)


def test_errors_of_other_statuses():
    async def refused(_, http):
        key = {"x-api-key": "k"}
        for headers, message in (({}, "is required"), ({"x-api-key": "l"}, "is invalid"), ({"x-api-key": ""}, "requ")):
            answer = await http.post(PATH, json=ASK, headers=headers)
            assert message in checked(answer, 401, "authentication_error", "invalid_api_key")
        for headers in (key, {"authorization": "Bearer k"}, {"authorization": "Bearer l", **key}):
            assert (await http.post(PATH, json=ASK, headers=headers)).status_code == 200
        answer = await http.post(PATH, json={**ASK, "model": "other"}, headers=key)
        assert "'other' does not exist" in checked(answer, 404, "not_found_error", "model_not_found", "model")
        missing = await http.post(f"{PATH}/batches", json={}, headers=key)
        checked(missing, 404, "not_found_error", "not_found")
        wrong = await http.get(PATH, headers=key)
        checked(wrong, 405, "invalid_request_error", "method_not_allowed")
        assert wrong.headers["allow"] == "POST"
        checked(await http.post(PATH, content=b"{", headers=key), *INVALID, "invalid_request")
        long = await http.post(PATH, json={**ASK, "system": "a" * 3000}, headers=key)
        checked(long, 413, "request_too_large", "body_too_long")
        page = {"origin": "https://page.test", "sec-fetch-site": "cross-site"}
        checked(await http.post(PATH, json=ASK, headers=page), 403, "permission_error", "origin_not_allowed")

    run(refused, api_keys=("k",), max_body=2000)

    async def limited(_, http):
        headers = {"x-api-key": "k"}
        assert (await http.post(PATH, json=ASK, headers=headers)).status_code == 200
        answer = await http.post(PATH, json=ASK, headers=headers)
        checked(answer, 429, "rate_limit_error", "rate_limit_exceeded")
        assert int(answer.headers["retry-after"]) > 0

    run(limited, api_keys=("k",), requests_per_minute=1)

    async def draining(server, http):
        server.thread.is_draining = True
        answer = await http.post(PATH, json=ASK)
        checked(answer, 503, "api_error", "draining")
        assert int(answer.headers["retry-after"]) > 0

    run(draining)


def test_a_busy_server_and_a_defect():
    for code, status, type in (
        ("request_timeout", 504, "timeout_error"),
        ("queue_timeout", 529, "overloaded_error"),
        ("overloaded", 529, "overloaded_error"),
    ):
        late = RequestError("later", code=code, status=503)
        shown, body = anthropic_error(find_status(late), make_error_body(late), "r")
        assert (shown, body["error"]["type"]) == (status, type)

    async def broken(server, http):
        server.submit = lambda *_, **__: 1 / 0
        answer = await http.post(PATH, json=ASK)
        assert checked(answer, 500, "api_error", "internal_error") == "internal error: a bug in the server"

    run(broken)


def test_messages_are_bounded():
    async def refused(_, http):
        for path, more in ((PATH, {"max_tokens": 1}), (f"{PATH}/count_tokens", {})):
            for messages in (SAY * 11, [{"role": "user", "content": [{"type": "text", "text": "a"}] * 10}]):
                answer = await http.post(path, json={"model": "guided", "messages": messages, **more})
                assert "at most 10" in checked(answer, *INVALID, "invalid_request", "messages")

    run(refused, max_messages=10)


def test_versions_of_the_api():
    async def versions(_, http):
        for path in (PATH, f"{PATH}/count_tokens"):
            body = ASK if path == PATH else {"model": "guided", "messages": SAY}
            newer = {"anthropic-version": "2026-10-21"}
            for headers in ({}, newer, {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"}):
                answer = await http.post(f"{path}?beta=true", json=body, headers=headers)
                assert answer.status_code == 200 and answer.headers["request-id"]
            answer = await http.post(path, json=body, headers={"anthropic-version": "2099-01-01"})
            assert "write 2026-10-21 or" in checked(answer, *INVALID, "invalid_request", "anthropic-version")

    run(versions)


def test_an_error_in_the_middle_of_a_stream():
    async def fails(server, http):
        server.engine.scheduler.step = after_tokens(12, server.engine.scheduler.step, lambda: 1 / 0)
        answer = await http.post(PATH, json={**ASK, "stream": True, "regex": "[a-z]{50}"})
        name, data = answer.text.rstrip("\n").split("\n\n")[-1].split("\n")
        body = json.loads(data.removeprefix("data: "))
        assert name == "event: error" and body["request_id"] == answer.headers["request-id"]
        assert (body["type"], body["error"]["type"]) == ("error", "api_error")
        assert body["error"]["details"]["error_code"] == "engine_stopped"
        assert "content_block_delta" in answer.text

    run(fails)
