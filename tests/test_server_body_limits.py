"""Large bodies are read outside the event loop: other requests are answered meanwhile, and the results are the same."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

import guided.server.routes.openai as route
from tests.live_server import served

SAY = {"role": "user", "content": "Say."}
CHAT, TOKENS = "/v1/chat/completions", "/tokenize"
LARGE = 3000  # messages


def test_others_are_answered_while_a_large_body_is_read(monkeypatch):
    inside, leave, read = threading.Event(), threading.Event(), route.read_request

    def slow(kind, body):
        inside.set()
        assert leave.wait(20)
        return read(kind, body)

    async def run():
        async with served() as (server, http):
            monkeypatch.setattr(route, "read_request", slow)
            large = asyncio.create_task(http.post(CHAT, json={"messages": [SAY] * LARGE}))
            while not inside.is_set():
                await asyncio.sleep(0.005)
            assert (await http.get("/health")).status_code == 200 and not large.done()
            assert server.bodies._pending_bytes > 90_000, "it counts until it is read"
            leave.set()
            refused = await large
            assert refused.status_code == 400 and refused.json()["error"]["code"] == "context_length_exceeded"
            assert server.bodies._pending_bytes == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": [SAY] * LARGE, "wrong": 1}),
        (CHAT, {"messages": [SAY] * LARGE + [{"role": "user", "content": 1}]}),
        (CHAT, {"messages": [SAY, {"role": "tool", "content": "a"}], "user": "u" * 99_999}),
        ("/v1/responses", {"input": [SAY] * LARGE, "model": "other"}),
        ("/v1/responses", {"input": [SAY] * LARGE + [{"role": "user", "content": 1}]}),
        ("/v1/completions", {"prompt": "a", "json_schema": {"type": "x", "title": "t" * 99_999}}),
    ],
)
def test_errors_of_large_bodies_match_small_ones(path, body):
    async def run():
        async with served() as (server, http):
            told = []
            for size in (0, 1 << 30):  # always on the thread, and never
                server.bodies.max_inline_bytes = size
                answer = await http.post(path, json=body)
                told.append((answer.status_code, answer.json()))
            assert told[0] == told[1] and 400 <= told[0][0] < 500

    asyncio.run(run())


def test_parts_of_a_message_are_one_text():
    async def run():
        async with served() as (_, http):
            parts = [{"type": "text", "text": each} for each in ("a", "", "bé")]
            found = [
                (await http.post(TOKENS, json={"messages": [{"role": "user", "content": content}]})).json()["tokens"]
                for content in (parts, "abé")
            ]
            assert found[0] == found[1]
            for wrong in (
                {"type": "text"},
                {"type": "text", "text": 1},
                {"type": "text", "text": "a", "b": 1},
                "a",
                None,
            ):
                body = json.dumps({"messages": [{"role": "user", "content": [parts[0], wrong]}]})
                answer = await http.post(CHAT, content=body)
                assert answer.status_code == 400 and "part 1 " in answer.json()["error"]["message"]

    asyncio.run(run())
