"""The routes that count the tokens of a request return what `usage` of the same request says."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from guided.engine.engine import Engine  # noqa: E402
from guided.engine.instructions import Instructions  # noqa: E402
from tests.server_support import small_engine  # noqa: E402
from tests.test_server_messages import run  # noqa: E402
from tests.test_server_tools import SAY, TOOLS  # noqa: E402

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 50, "description": "the number"}},
    "required": ["n"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
CHAT: list[dict[str, Any]] = [
    {},
    {"response_format": FORMAT},
    {"response_format": FORMAT, "describe": False},
    {"response_format": FORMAT, "describe": True, "n": 2},
    {"response_format": FORMAT, "think_first": 5},
    {"response_format": FORMAT, "tools": TOOLS},
    {"tools": TOOLS},
    {"tools": TOOLS, "tool_choice": "required"},
    {"tools": TOOLS, "tool_choice": "none", "response_format": FORMAT},
    {"structured_outputs": {"regex": "[a-c]{3}"}},
    {"structured_outputs": {"regex": "[a-c]{3}"}, "describe": True},
    {"structured_outputs": {"choice": ["yes", "no"]}},
]
_CONFIG = {"format": {"type": "json_schema", "schema": SCHEMA}}
_FUNCTIONS = [{"type": "function", **tool["function"]} for tool in TOOLS]
_CLAUDE_TOOLS = [{"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in TOOLS]
MESSAGES: list[dict[str, Any]] = [
    {}, {"output_config": _CONFIG}, {"tools": _CLAUDE_TOOLS}, {"tools": _CLAUDE_TOOLS, "output_config": _CONFIG},
    {"system": "Be brief.", "output_config": _CONFIG},
]  # fmt: skip
RESPONSES: list[dict[str, Any]] = [
    {}, {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}, {"tools": _FUNCTIONS},
    {"instructions": "Be brief.", "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
]  # fmt: skip


def described(*, describe: bool) -> Engine:
    engine = small_engine(4000)
    return Engine(engine.model, engine.vocabulary, chat=engine.chat_template, describe=describe)


async def post(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("describe", [True, False])
def test_counts_equal_usage(describe: bool):
    async def body(_, http):
        for fields in CHAT:
            sent = {"model": "guided", "messages": SAY, **fields}
            usage = (await post(http, "/v1/chat/completions", sent | {"max_tokens": 90}))["usage"]
            assert (await post(http, "/tokenize", sent))["count"] == usage["prompt_tokens"], fields
        for fields in MESSAGES:
            sent = {"model": "guided", "messages": SAY, **fields}
            usage = (await post(http, "/v1/messages", sent | {"max_tokens": 90}))["usage"]
            assert await post(http, "/v1/messages/count_tokens", sent) == {"input_tokens": usage["input_tokens"]}, (
                fields
            )
        for fields in RESPONSES:
            sent = {"model": "guided", "input": "Hi", **fields}
            usage = (await post(http, "/v1/responses", sent | {"max_output_tokens": 90}))["usage"]
            count = (await post(http, "/v1/responses/input_tokens", sent))["input_tokens"]
            assert count == usage["input_tokens"], fields

    run(body, described(describe=describe))


def test_a_count_compiles_only_what_is_described(monkeypatch: pytest.MonkeyPatch):
    compiled = list[object]()
    describe = Instructions.describe
    monkeypatch.setattr(Instructions, "describe", lambda *a, **k: (compiled.append(a), describe(*a, **k))[1])
    for is_described in (False, True):
        run(
            lambda _, http: post(http, "/tokenize", {"messages": SAY, "response_format": FORMAT}),
            described(describe=is_described),
        )
        assert bool(compiled) == is_described


def test_a_specification_that_cannot_be_described_is_refused_like_the_request():
    async def body(_, http):
        sent = {"messages": SAY, "structured_outputs": {"regex": "a(?=b"}}
        refusals = [(await http.post(path, json=sent)) for path in ("/tokenize", "/v1/chat/completions")]
        assert [refusal.status_code for refusal in refusals] == [400, 400]
        assert refusals[0].json()["error"]["message"] == refusals[1].json()["error"]["message"]

    run(body, described(describe=True))
