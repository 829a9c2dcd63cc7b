"""The small demonstration of a streaming server: `/stream`, and the time of the first token."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("torch", reason="torch is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from tests.live_server import becomes_idle, served  # noqa: E402
from tests.server_support import small_engine  # noqa: E402


def bodies(answer) -> list[dict]:
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
    *lines, end = answer.text.split("\n\n")
    assert end == "" and all(line.startswith("data: ") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def run(body, **settings):
    async def whole():
        async with served(**settings) as (server, http):
            await body(server, http)
            assert await becomes_idle(server)

    asyncio.run(whole())


def test_each_token_is_an_event_and_the_last_one_has_the_text():
    async def body(server, http):
        *tokens, last = bodies(await http.post("/stream", json={"prompt": "ROMEO:", "max_tokens": 40}))
        assert last.keys() == {"done", "full_text"} and last["done"] is True
        assert [token["is_first"] for token in tokens] == [True] + [False] * (len(tokens) - 1)
        assert tokens[0].keys() == {"token", "token_id", "is_first", "ttft_ms"} and tokens[0]["ttft_ms"] > 0
        assert all(token.keys() == {"token", "token_id", "is_first"} for token in tokens[1:])
        assert last["full_text"].startswith("".join(token["token"] for token in tokens)) and len(tokens) <= 40
        ids = [token["token_id"] for token in tokens]
        assert server.engine.vocabulary.decode(ids).decode("utf-8", "replace") == last["full_text"]

    run(body)


def test_the_default_is_fifty_tokens():
    async def body(server, http):
        lengths = [len(bodies(await http.post("/stream", json={"prompt": "a"}))) for _ in range(4)]
        assert max(lengths) == 51

    run(body)


@pytest.mark.parametrize(
    ("body", "param"),
    [({}, "prompt"), ({"prompt": ""}, None), ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
     ({"prompt": "a", "n": 2}, "n"), ({"prompt": "a" * 700}, None)],
)  # fmt: skip
def test_refusals(body, param):
    async def ask(server, http):
        answer = await http.post("/stream", json=body)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == param

    run(ask)


def test_characters_outside_the_vocabulary_are_accepted():
    async def body(server, http):
        answer = await http.post("/stream", json={"prompt": "\u4e2d\u0000\U0001f600", "max_tokens": 3})
        assert bodies(answer)[-1]["done"]

    run(body)


def test_the_first_chunk_of_each_choice_has_the_time_of_its_first_token():
    async def body(server, http):
        ask = openai.AsyncOpenAI(api_key="k", base_url="http://t/v1", http_client=http, max_retries=0)
        options = {"model": "guided", "max_tokens": 8, "stream": True, "n": 2}
        for stream in (
            await ask.completions.create(prompt=["a", "b"], **options),
            await ask.chat.completions.create(messages=[{"role": "user", "content": "a"}], **options),
        ):
            firsts, seen = {}, set()
            async for chunk in stream:
                number, ttft = chunk.choices[0].index, (chunk.model_extra or {}).get("ttft_ms")
                assert (ttft is None) == (number in seen)
                seen.add(number)
                firsts.setdefault(number, ttft)
            assert len(firsts) in (2, 4) and all(ttft > 0 for ttft in firsts.values())
            assert firsts[0] == firsts[1]  # two samples of one request

    run(body)


def test_the_second_request_with_the_same_prefix_reads_less():
    """The cache has the tokens that the first one has read. The passes of the second one read only the rest."""
    engine = small_engine()
    read = []
    step = engine.scheduler.runner.step
    engine.scheduler.runner.step = lambda chunks: (read.append(sum(len(c.tokens) for c in chunks)), step(chunks))[1]

    async def whole():
        async with served(engine) as (_, http):
            for _ in range(2):
                assert bodies(await http.post("/stream", json={"prompt": "x" * 500, "max_tokens": 1}))[-1]["done"]

    asyncio.run(whole())
    size = engine.scheduler.runner.cache.block_size
    assert read == [500, 500 - 499 // size * size] and read[1] < 100  # whole blocks are found
