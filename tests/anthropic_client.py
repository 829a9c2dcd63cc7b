"""Judges a server with Anthropic's client: its types of messages, events and errors, and how it assembles a stream.

test_clients.py runs it in the environment with the client. GUIDED_URL is the address of the server.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, get_args

import anthropic
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.shared import ErrorResponse

BASE_URL = os.environ["GUIDED_URL"].removesuffix("/v1")
MODEL = "smollm2-135m-instruct"
EVENTS = get_args(get_args(RawMessageStreamEvent)[0])
KINDS = {get_args(kind.model_fields["type"].annotation)[0]: kind for kind in EVENTS}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}}, "required": ["a"]}
TOOL = {"name": "f", "input_schema": SCHEMA, "strict": True}
ASK: dict[str, Any] = {"model": MODEL, "max_tokens": 200, "messages": [{"role": "user", "content": "Say."}]}
GREEDY: dict[str, Any] = {"extra_body": {"temperature": 0}}
TEXT = [{"type": "text", "text": "Go on."}]
BODIES: list[dict[str, Any]] = [
    {},
    {"system": [{"type": "text", "text": "Be."}], "stop_sequences": ["a", "e"]},
    {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    {"tools": [TOOL], "tool_choice": {"type": "any"}},
    {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
    {"tools": [TOOL], "thinking": {"type": "adaptive"}, "metadata": {"user_id": "u"}, "service_tier": "auto"},
]


def check_extra(value: Any) -> None:
    """Refuse fields that the client's types do not have."""
    if isinstance(value, list):
        for each in value:
            check_extra(each)
    elif isinstance(value, anthropic.BaseModel):
        assert not value.model_extra, value
        for name in type(value).model_fields:
            check_extra(getattr(value, name))


def content_of(message: Message) -> list[Any]:
    """The parts that two answers to one request have in common."""
    names = ("type", "text", "thinking", "name", "input")
    blocks = [{name: getattr(block, name, None) for name in names} for block in message.content]
    return [message.role, message.model, message.stop_reason, message.stop_sequence, message.usage.to_dict(), blocks]


async def check_answers(client: anthropic.AsyncAnthropic) -> None:
    """Compare a whole message with its events, and with the message that the client builds from them."""
    for body in BODIES:
        whole = await client.messages.create(**ASK, **body, **GREEDY)
        check_extra(Message.model_validate(whole.to_dict(), strict=True))
        assert whole._request_id
        async for event in await client.messages.create(**ASK, **body, **GREEDY, stream=True):
            check_extra(KINDS[event.type].model_validate(event.to_dict(), strict=True))
        async with client.messages.stream(**ASK, **body, **GREEDY) as stream:
            final = await stream.get_final_message()
        assert content_of(final) == content_of(whole)
        counted = {name: body[name] for name in body.keys() & {"system", "tools", "tool_choice", "thinking"}}
        count = await client.messages.count_tokens(model=MODEL, messages=ASK["messages"], **counted)
        assert count.input_tokens == whole.usage.input_tokens > 0
        uses = [block for block in whole.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": "4"} for use in uses]
        messages = [*ASK["messages"], whole.to_param(), {"role": "user", "content": [*results, *TEXT]}]
        await client.messages.create(**{**ASK, "messages": messages, "max_tokens": 3})


async def check_errors(client: anthropic.AsyncAnthropic) -> None:
    """Check that errors are instances of the client's classes."""
    for kind, more in (
        (anthropic.BadRequestError, {"max_tokens": 0}),
        (anthropic.BadRequestError, {"output_config": {"format": {"type": "json_schema", "schema": {"type": "x"}}}}),
        (anthropic.BadRequestError, {"extra_body": {"no_such_field": 1}}),
        (anthropic.NotFoundError, {"model": "other"}),
    ):
        try:
            await client.messages.create(**{**ASK, **more})
        except kind as error:
            assert ErrorResponse.model_validate(error.body).request_id == error.request_id
            assert error.type in ("invalid_request_error", "not_found_error") and error.request_id
            assert error.error_code and error.api_message
        else:
            raise AssertionError(f"{kind.__name__} was not raised")
    try:
        await client.messages.batches.create(requests=[])
    except anthropic.NotFoundError as error:
        assert error.type == "not_found_error"


async def check_tool_runner(client: anthropic.AsyncAnthropic) -> None:
    """The client calls a function, and sends its result back."""
    sums = list[int]()

    @anthropic.beta_async_tool
    async def add(a: int, b: int) -> str:
        """Add two numbers."""
        sums.append(a + b)
        return str(a + b)

    choice = {"type": "any", "disable_parallel_tool_use": True}
    runner = client.beta.messages.tool_runner(**ASK, tools=[add], tool_choice=choice, max_iterations=2)
    reasons = [message.stop_reason async for message in runner]
    assert reasons == ["tool_use", "tool_use"] and len(sums) >= 1, (reasons, sums)


async def main() -> None:
    """Check each kind of request."""
    async with anthropic.AsyncAnthropic(base_url=BASE_URL, api_key="none", max_retries=0) as client:
        await check_answers(client)
        await check_errors(client)
        await check_tool_runner(client)


asyncio.run(main())
print(anthropic.__version__)
