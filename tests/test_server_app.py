"""The server's routes, called by the official client, on the application itself and over sockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from pydantic import BaseModel

torch = pytest.importorskip("torch", reason="torch is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from tests.live_server import becomes_idle, served  # noqa: E402


@asynccontextmanager
async def client(**settings):
    """OpenAI's client. Afterwards nothing of its requests is left."""
    async with served(**settings) as (server, http):
        yield openai.AsyncOpenAI(api_key="k", base_url="http://t/v1", http_client=http, max_retries=0)
        assert await becomes_idle(server)  # cancelled requests end within a step


def run(body, **settings):
    async def whole():
        async with client(**settings) as ask:
            await body(ask)

    asyncio.run(whole())


class Point(BaseModel):
    x: int
    y: list[bool]


SAY = [{"role": "user", "content": "Say something."}]


def test_parse_gives_an_instance_of_the_model():
    async def body(ask):
        answer = await ask.chat.completions.parse(model="guided", messages=SAY, response_format=Point, max_tokens=60)
        assert isinstance(answer.choices[0].message.parsed, Point)
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0

    run(body)


def test_a_stream_is_the_answer_in_pieces():
    async def body(ask):
        options = {"model": "guided", "messages": SAY, "max_tokens": 40, "seed": 5, "n": 2}
        whole = await ask.chat.completions.create(**options)
        texts, ends, usage = ["", ""], ["", ""], None
        stream = await ask.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
        async for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
                ends[choice.index] = choice.finish_reason or ends[choice.index]
        assert texts == [choice.message.content for choice in whole.choices]
        assert ends == [choice.finish_reason for choice in whole.choices]
        assert usage == whole.usage

    run(body)


def test_offsets_of_a_streamed_text_match_the_whole():
    async def body(ask):
        options = {"model": "guided", "prompt": ["a", "b"], "max_tokens": 20, "seed": 5, "n": 2, "logprobs": 1}
        whole = await ask.completions.create(**options)
        offsets = [[], [], [], []]
        async for chunk in await ask.completions.create(**options, stream=True):
            for choice in chunk.choices:
                offsets[choice.index] += choice.logprobs.text_offset if choice.logprobs else []
        assert offsets == [choice.logprobs.text_offset for choice in whole.choices]
        for choice, each in zip(whole.choices, offsets, strict=True):
            assert len(each) == 20 and each[0] == 0 and all(b - a in (0, 1) for a, b in pairwise(each))
            assert each[-1] == len(choice.text) - 1

    run(body)


def test_the_helper_for_streams_has_its_events():
    async def body(ask):
        async with ask.chat.completions.stream(
            model="guided", messages=SAY, response_format=Point, max_tokens=60
        ) as stream:
            kinds = {event.type async for event in stream}
            final = await stream.get_final_completion()
        assert {"content.delta", "content.done", "chunk"} <= kinds
        assert isinstance(final.choices[0].message.parsed, Point)

    run(body)


def test_logprobs():
    async def body(ask):
        options = {"model": "guided", "messages": SAY, "max_tokens": 6, "logprobs": True, "top_logprobs": 3}
        answer = await ask.chat.completions.create(**options, extra_body={"regex": "ab[a-z]{4}"})
        content = answer.choices[0].logprobs.content
        assert "".join(each.token for each in content) == answer.choices[0].message.content
        assert all(each.logprob <= 0 and len(each.top_logprobs) == 3 for each in content)
        text = await ask.completions.create(model="guided", prompt="a", max_tokens=5, logprobs=2)
        assert len(text.choices[0].logprobs.token_logprobs) == text.usage.completion_tokens

    run(body)


def test_completions_of_many_prompts():
    async def body(ask):
        one = await ask.completions.create(model="guided", prompt=["a", "b"], n=2, max_tokens=9, seed=1)
        assert [choice.index for choice in one.choices] == [0, 1, 2, 3]
        ids = await ask.completions.create(model="guided", prompt=[97], max_tokens=9, seed=1)
        assert ids.choices[0].text == one.choices[0].text
        pieces = ["", "", "", ""]
        async for chunk in await ask.completions.create(
            model="guided", prompt=["a", "b"], n=2, max_tokens=9, seed=1, stream=True
        ):
            for choice in chunk.choices:
                pieces[choice.index] += choice.text
        assert pieces == [choice.text for choice in one.choices]

    run(body)


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": SAY, "temprature": 1}, "temprature", "did you mean temperature?"),
        ({"messages": SAY, "choice": ["a"]}, "choice", 'write "structured_outputs": {"choice": ...}'),
        ({"messages": SAY, "json": {}}, "json", 'write "structured_outputs": {"json": ...}'),
        ({"messages": SAY, "temperature": -1}, "temperature", "greater than or equal to 0"),
        ({"messages": SAY, "top_k": -5}, "top_k", "greater than or equal to -1"),
        ({"messages": SAY, "n": 0}, "n", "greater than or equal to 1"),
        ({"messages": SAY, "stream_options": {"include_usage": True}}, None, "requires stream=true"),
        ({"messages": SAY, "top_logprobs": 2}, "top_logprobs", "requires logprobs=true"),
        ({"messages": SAY, "max_tokens": 2, "max_completion_tokens": 3}, "max_tokens", "contradict each other"),
        ({"messages": SAY, "stop": ""}, "stop", "stop contains an empty string, but must be"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "robot"),
        ({"messages": SAY, "temprature": None}, "temprature", "did you mean temperature?"),
        ({"messages": None}, "messages", "required"),
        ({"messages": SAY, "regex": "(a"}, "regex", "^"),
        ({"messages": SAY, "stream": True, "lark": "start: b"}, "lark", "define it"),
        ({"messages": SAY, "regex": "a{30}", "max_tokens": 5}, "max_tokens", "set max_tokens to 30 or more"),
        ({"messages": SAY, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema":
            {"properties": {"a": {"minimum": "x"}}}}}},
            "response_format.json_schema.schema/properties/a/minimum", "minimum"),
    ],
)  # fmt: skip
def test_refusals_have_a_location(body, param, message):
    async def asked(ask):
        with pytest.raises(openai.BadRequestError) as caught:
            await ask.post("/chat/completions", cast_to=object, body=body)
        error = caught.value.body
        assert (error["param"], error["type"]) == (param, "BadRequestError"), error
        assert message in error["message"]

    run(asked)


def test_a_field_that_is_null_is_not_given():
    async def body(ask):
        names = ("n", "stream", "temperature", "stop", "logprobs", "top_logprobs", "tools", "response_format")
        nulls = dict.fromkeys((*names, "priority", "parallel_tool_calls", "return_token_ids", "include_reasoning"))
        answer = await ask.post("/chat/completions", cast_to=object, body={"messages": SAY, "max_tokens": 3, **nulls})
        assert len(answer["choices"]) == 1

    run(body)


def test_other_errors_are_the_clients_classes():
    async def body(ask):
        with pytest.raises(openai.NotFoundError, match="the model 'other' does not exist"):
            await ask.chat.completions.create(model="other", messages=SAY)
        with pytest.raises(openai.NotFoundError):
            await ask.post("/nowhere", cast_to=object, body={})
        with pytest.raises(openai.BadRequestError, match="not JSON"):
            await ask.post("/completions", cast_to=object, content=b"{", options={"headers": {}})

    run(body)


def test_keys():
    async def body(ask):
        with pytest.raises(openai.AuthenticationError, match="the API key is invalid"):
            await ask.models.list()
        with pytest.raises(openai.AuthenticationError, match="an API key is required"):
            await ask.get("/models", cast_to=object, options={"headers": {"Authorization": openai.Omit()}})
        known = ask.with_options(api_key="secret").models
        (model,) = (await known.list()).data
        assert model.id == "guided"
        assert await known.retrieve("guided") == model
        with pytest.raises(openai.NotFoundError, match="the model 'other/one' does not exist"):
            await known.retrieve("other/one")

    run(body, api_keys=("other", "secret"))


def test_health_tokens_and_version():
    async def body(ask):
        http = ask._client
        health = (await http.get("http://t/health")).json()
        assert health.keys() >= {"step", "waiting", "prefilling", "active", "pending_submit"}
        ids = (await http.post("http://t/tokenize", json={"prompt": "abc"})).json()
        assert ids["tokens"] == [97, 98, 99] and ids["count"] == 3
        assert (await http.post("http://t/detokenize", json={"tokens": ids["tokens"]})).json() == {"prompt": "abc"}
        assert (await http.get("http://t/version")).json()["version"]
        assert (await http.get("http://t/ping")).status_code == (await http.get("http://t/ready")).status_code == 200

    run(body)


def test_a_dead_engine_is_reported():
    async def whole():
        async with served() as (server, http):
            server.engine.scheduler.step = lambda: 1 / 0
            answer = await http.post("/v1/chat/completions", json={"messages": SAY, "stream": True})
            assert answer.status_code == 503 and answer.json()["error"]["code"] == "engine_stopped"
            assert (await http.get("/health")).status_code == 503

    asyncio.run(whole())


def test_events_match_the_format():
    async def whole():
        async with served() as (_, http):
            answer = await http.post("/v1/completions", json={"prompt": "a", "stream": True, "regex": "[a-z]{5}"})
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.text.split("\n\n")
            assert lines[-2:] == ["data: [DONE]", ""]
            chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
            text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
            assert len(text) == 5 and len({chunk["id"] for chunk in chunks}) == 1

    asyncio.run(whole())


def test_the_operator_sets_the_default_length():
    async def body(ask):
        options = {"model": "guided", "messages": SAY, "extra_body": {"regex": "[ab]{3,}"}, "logit_bias": {"257": -100}}
        assert (await ask.chat.completions.create(**options)).usage.completion_tokens == 21
        assert (await ask.chat.completions.create(**options, max_tokens=30)).usage.completion_tokens == 30

    run(body, default_max_tokens=21)


def test_bodies_that_arrive_are_bounded_together():
    async def whole():
        async with served(max_body=1000) as (server, http):
            body = {"prompt": "a", "max_tokens": 2}
            server.bodies._pending_bytes = 16 * 1000 - 10  # as if other clients sent requests
            refused = await http.post("/v1/completions", json=body)
            assert refused.status_code == 503 and refused.json()["error"]["code"] == "overloaded"
            assert int(refused.headers["retry-after"]) >= 1 and server.bodies._pending_bytes == 16 * 1000 - 10
            server.bodies._pending_bytes = 0
            assert (
                await http.post("/v1/completions", json=body)
            ).status_code == 200 and server.bodies._pending_bytes == 0

    asyncio.run(whole())


def test_tokenizing_counts_as_a_request_of_its_key():
    async def whole():
        async with served(api_keys=("k",), requests_per_minute=1) as (_, http):
            ask = {"json": {"prompt": "a"}, "headers": {"Authorization": "Bearer k"}}
            assert [(await http.post("/tokenize", **ask)).status_code for _ in range(2)] == [200, 429]

    asyncio.run(whole())


@pytest.mark.parametrize("body", [{"prompt": "a", "x" * 100_000: 1}, {"prompt": "a", "model": "x" * 100_000}])
def test_an_error_does_not_repeat_a_long_name(body):
    async def whole():
        async with served() as (_, http):
            answer = await http.post("/v1/completions", json=body)
            assert answer.status_code in (400, 404) and len(answer.json()["error"]["message"]) < 500

    asyncio.run(whole())
