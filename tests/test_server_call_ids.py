"""Ids of calls in answers: the model's own ids where it writes some, and prompts that show them again."""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

import guided
from guided.engine.answer_splitter import AnswerSplitter
from guided.engine.token_text import AnswerDecoder
from guided.server.anthropic.message_events import _make_block_id
from guided.server.openai.conversations import build_chat_request
from guided.server.openai.deltas import SampleReader
from guided.server.openai.requests import ChatRequest
from guided.server.openai.structured import StructuredOutput
from guided.server.settings import Settings
from tests.derived_support import PUBLISHED
from tests.live_server import served
from tests.server_support import small_engine
from tests.test_chat_call_pairing import KIMI, TOOLS, call, calling, result
from tests.test_server_reading import VOCABULARY, events

KIMI_ID = re.compile(r"functions\.(look|find):[0-9]+")
SAY = [{"role": "user", "content": "q"}]
BODY = {"messages": SAY, "tools": TOOLS, "tool_choice": "required", "max_tokens": 600, "seed": 3}
ITEMS = [{"type": "function", **tool["function"]} for tool in TOOLS]
BLOCKS = [{"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in TOOLS]


def run(template: str, body: Any) -> None:
    async def whole() -> None:
        async with served(small_engine(6000, template=template)) as (_, http):
            await body(http)

    asyncio.run(whole())


async def post(http: Any, path: str, **body: Any) -> Any:
    answer = await http.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def stream(http: Any, path: str, **body: Any) -> list[dict[str, Any]]:
    answer = await http.post(f"/v1/{path}", json=body | {"stream": True})
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


async def prompt(http: Any, messages: list[dict[str, Any]]) -> str:
    answer = await http.post("/tokenize", json={"messages": messages, "tools": TOOLS})
    assert answer.status_code == 200, answer.text
    return bytes(id for id in answer.json()["tokens"] if id < 256).decode()


def test_the_models_own_ids_are_returned_and_shown_again() -> None:
    async def body(http: Any) -> None:
        message = (await post(http, "chat/completions", **BODY))["choices"][0]["message"]
        ids = [call["id"] for call in message["tool_calls"]]
        assert ids and all(KIMI_ID.fullmatch(id) for id in ids) and len(set(ids)) == len(ids)
        for each in message["tool_calls"]:
            assert each["id"].startswith(f"functions.{each['function']['name']}:")
        chunks = await stream(http, "chat/completions", **BODY)
        deltas = [call for chunk in chunks for one in chunk["choices"] for call in one["delta"].get("tool_calls") or ()]
        assert [call["id"] for call in deltas if call.get("id")] == ids

        talk = [*SAY, message, *({"role": "tool", "tool_call_id": id, "content": "sun"} for id in ids)]
        shown = await prompt(http, talk)
        for id in ids:
            assert f"<|tool_call_begin|>{id}<|tool_call_argument_begin|>" in shown and f"## Return of {id}\n" in shown

        response = await post(http, "responses", input="q", tools=ITEMS, tool_choice="required", max_output_tokens=600)
        items = [item for item in response["output"] if item["type"] == "function_call"]
        assert items and all(KIMI_ID.fullmatch(item["call_id"]) for item in items)

    run(KIMI, body)


def test_anthropics_clients_get_ids_that_their_api_takes() -> None:
    assert _make_block_id("VvODy9mT1") == "VvODy9mT1" and _make_block_id("call_0a") == "toolu_0a"

    async def body(http: Any) -> None:
        first = {"role": "user", "content": "q"}
        options = {"tools": BLOCKS, "tool_choice": {"type": "any"}, "max_tokens": 600, "model": "guided"}
        message = await post(http, "messages", messages=[first], **options)
        ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert ids and all(re.fullmatch(r"toolu_[0-9a-f]{24}", id) for id in ids) and len(set(ids)) == len(ids)
        results = [{"type": "tool_result", "tool_use_id": id, "content": "sun"} for id in ids]
        talk = [first, {"role": "assistant", "content": message["content"]}, {"role": "user", "content": results}]
        assert (await post(http, "messages", messages=talk, **options))["content"]

    run(KIMI, body)


@pytest.mark.parametrize("name", ["mistral-nemo", "mistral-small-3.2", "kimi-k2"])
def test_a_second_turn_has_the_form_of_the_model(name: str) -> None:
    async def body(http: Any) -> None:
        message = (await post(http, "chat/completions", **BODY))["choices"][0]["message"]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "sun"} for call in message["tool_calls"]]
        shown = await prompt(http, [*SAY, message, *results])
        assert "<tool_response>" not in shown and "<tools>" not in shown
        if name == "kimi-k2":
            expected = [f"functions.{call['function']['name']}:{n}" for n, call in enumerate(message["tool_calls"])]
            assert re.findall(r"## Return of (\S+?)\\n", shown) == expected
        else:
            assert shown.count("[TOOL_RESULTS]") == len(results) and "[AVAILABLE_TOOLS]" in shown

    run(PUBLISHED[name].replace("bos_token", "''").replace("eos_token", "''"), body)


def test_a_name_belongs_to_the_latest_call_with_an_id() -> None:
    async def body(http: Any) -> None:
        turns = [calling(call("c0", "look")), result("c0"), calling(call("c0", "find")), result("c0")]
        for turn in turns:
            turn.pop("name", None)
        shown = await prompt(http, [*SAY, *turns])
        assert re.findall("<tool_response>(look|find)", shown) == ["look", "find"]

    run(PUBLISHED["qwen-3"].replace("'\\n<tool_response>", "'\\n<tool_response>' + message.name + '"), body)


def read(style: str, text: str, used: list[str], most: int) -> list[str]:
    """The ids of the calls in an answer, after calls with other ids."""
    own = guided.tool_style(style)

    def split() -> AnswerSplitter:
        return AnswerSplitter(AnswerDecoder(VOCABULARY), own.reader(TOOLS))

    talk = [*SAY, calling(*(call(id) for id in used))]
    chat = ChatRequest.model_validate({"messages": talk, "tools": TOOLS})
    _, options, _ = build_chat_request(chat, StructuredOutput(), small_engine(), Settings(tool_style=style))
    reader = SampleReader(replace(options, make_splitter=split))
    for event in events(text, random.Random(most), most):
        reader.read(event)
    return [call.id for call in reader.calls]


@pytest.mark.parametrize("most", [1, 9, 1000])
def test_repeated_ids_become_new_ones(most: int) -> None:
    kimi = "".join(
        f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
        for name, number in (("look", 0), ("find", 0), ("look", 0), ("find", 7))
    )
    text = f"<|tool_calls_section_begin|>{kimi}<|tool_calls_section_end|>"
    assert read("kimi", text, [], most) == [f"functions.{name}" for name in ("look:0", "find:0", "look:2", "find:7")]
    used = ["functions.look:0", "call_1", "functions.look:4"]
    assert read("kimi", text, used, most) == [f"functions.{name}" for name in ("look:3", "find:0", "look:5", "find:7")]
    text = "[TOOL_CALLS]look[CALL_ID]VvODy9mT1[ARGS]{}[TOOL_CALLS]look[ARGS]{}"
    first, second = read("mistral", text, [], most)
    assert first == "VvODy9mT1" and re.fullmatch("call_[0-9a-f]{24}", second)
    assert read("mistral", text, ["VvODy9mT1"], most)[0] == "call00001"
