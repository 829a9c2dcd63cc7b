"""The reason why an answer ended, in OpenAI's API: `length` if the budget cut a text that could have continued."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from tests.live_server import served
from tests.server_support import small_engine

SAY = [{"role": "user", "content": "Say."}]
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CALL = {"type": "function", "function": {"name": "f", "parameters": OPEN}}


async def streamed(http, body):
    """The text of a stream, and its finish reason."""
    answer = await http.post("/v1/chat/completions", json={**body, "stream": True})
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line.startswith("data: {")]
    choices = [json.loads(line)["choices"][0] for line in lines]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return text, choices[-1]["finish_reason"]


@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        ({"regex": "[a-c]+"}, lambda text, most: len(text) < most),
        ({"regex": "(?s).*"}, lambda text, most: len(text.encode()) < most),
        ({"regex": "[a-c]{1,4}"}, lambda text, most: len(text) < most or len(text) == 4),
        ({"lark": "start: /[a-c]/+"}, lambda text, most: len(text) < most),
        (
            {"structured_outputs": {"choice": ["a", "abcdef", "ab"]}},
            lambda text, most: most > 5 or (text == "a" and most > 1),
        ),
        ({"json_schema": OPEN}, lambda text, most: True),
        ({"json_schema": {"type": "string"}}, lambda text, most: True),
    ],
)
def test_a_text_that_could_have_gone_on_was_cut(fields, ends):
    """Each token is one byte here, so the length of a text shows whether the budget was used up."""

    async def run():
        reasons = set()
        async with served() as (server, http):
            for most in (9, 14) if "json_schema" in fields else (1, 2, 4, 6):
                for seed in range(2):
                    body = {"messages": SAY, "max_tokens": most, "seed": seed, "temperature": 1, **fields}
                    (choice,) = (await http.post("/v1/chat/completions", json=body)).json()["choices"]
                    text = choice["message"]["content"]
                    assert choice["finish_reason"] == ("stop" if ends(text, most) else "length"), (text, most)
                    assert (text, choice["finish_reason"]) == await streamed(http, body)
                    sent = {"input": "Say.", "max_output_tokens": most, "seed": seed, "temperature": 1, **fields}
                    told = (await http.post("/v1/responses", json=sent)).json()
                    cut = choice["finish_reason"] == "length"
                    assert told["status"] == ("incomplete" if cut else "completed")
                    assert told["incomplete_details"] == ({"reason": "max_output_tokens"} if cut else None)
                    reasons.add(choice["finish_reason"])
            counts = {metric.name: metric for metric in server.metrics.registry.collect()}["vllm:request_success"]
            ended = {s.labels["finished_reason"] for s in counts.samples if s.name.endswith("_total") and s.value}
            assert ended == reasons
        assert ("length" in reasons) is ("json_schema" not in fields)

    asyncio.run(run())


def test_calls_are_whole_where_the_budget_leaves_no_room_for_another():
    async def run():
        async with served(small_engine(1500)) as (_, http):
            for most in (62, 80, 130):
                body = {"messages": SAY, "tools": [CALL], "tool_choice": "required", "max_tokens": most, "seed": most}
                (choice,) = (await http.post("/v1/chat/completions", json=body)).json()["choices"]
                assert choice["finish_reason"] == "tool_calls"
                for call in choice["message"]["tool_calls"]:
                    assert json.loads(call["function"]["arguments"]).keys() == {"a"}

    asyncio.run(run())
