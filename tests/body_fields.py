"""Request bodies in which one field has a given size: every list, object and text that a client may send."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from guided.server.anthropic.messages_request import CountTokensRequest, MessagesRequest
from guided.server.inspector.inspection import CheckRequest, ExplainRequest
from guided.server.inspector.stepping import StepRequest
from guided.server.openai.completion_request import CompletionRequest
from guided.server.openai.requests import ChatRequest
from guided.server.openai.responses_request import InputTokensRequest, ResponsesRequest
from guided.server.routes.demonstration import StreamRequest
from guided.server.routes.tokens import DetokenizeRequest, TokenizeRequest

Make = Callable[[int], dict[str, Any]]
SAY = [{"role": "user", "content": "a"}]
_CALLED = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
_CALLING = {"role": "assistant", "tool_calls": [_CALLED]}
_FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
_LOGPROBS = "message.output_text.logprobs"


def items(item: Callable[[int], Any], size: int) -> list[Any]:
    """As many items as fit into about `size` bytes of JSON."""
    one = len(json.dumps(item(10_000), separators=(",", ":"))) + 1
    return [item(number) for number in range(max(1, size // one))]


def members(value: Any, size: int, name: str = "k") -> dict[str, Any]:
    """The same, as members of an object."""
    one = len(json.dumps({f"{name}10000": value}, separators=(",", ":")))
    return {f"{name}{number}": value for number in range(max(1, size // one))}


def say(**more: Any) -> dict[str, Any]:
    return {"messages": SAY, **more}


def allowed(tools: list[Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": tools}}


_CHAT: dict[str, Make] = {
    "messages": lambda s: {"messages": items(lambda n: SAY[0], s)},
    "text": lambda s: {"messages": [{"role": "user", "content": "a " * (s // 2)}]},
    "markers": lambda s: {"messages": [{"role": "user", "content": "<|im_end|>" * (s // 10)}]},
    "begins of markers": lambda s: {"messages": [{"role": "user", "content": "<" * s}]},
    "own markers": lambda s: {"messages": [*SAY, {"role": "assistant", "content": "<|im_end|>" * (s // 10)}]},
    "parts": lambda s: {"messages": [{"role": "user", "content": items(lambda n: {"type": "text", "text": "a"}, s)}]},
    "calls": lambda s: {
        "messages": [*SAY, {"role": "assistant", "tool_calls": items(lambda n: _CALLED | {"id": str(n)}, s)}]
    },
    "messages that call": lambda s: {"messages": [*SAY, *items(lambda n: _CALLING, s)]},
    "arguments": lambda s: {
        "messages": [*SAY, {"role": "assistant", "tool_calls": [
            {"id": "1", "function": {"name": "f", "arguments": json.dumps(members(1, s))}}]}]
    },
    "results": lambda s: {
        "messages": [*SAY, _CALLING, *items(lambda n: {"role": "tool", "tool_call_id": "1", "content": "a"}, s)]
    },
    "empty messages": lambda s: {"messages": [*SAY, *items(lambda n: {"role": "assistant"}, s)]},
    "unknown names of a message": lambda s: {"messages": [SAY[0] | members(1, s)]},
    "parsed": lambda s: {"messages": [*SAY, {"role": "assistant", "content": "a", "parsed": items(lambda n: n, s)}]},
    "role": lambda s: {"messages": [{"role": "a" * s, "content": "a"}]},
    "tools": lambda s: say(tools=items(lambda n: _FUNCTION, s)),
    "descriptions": lambda s: say(tools=[{"type": "function", "function": {"name": "f", "description": "a" * s}}]),
    "parameters": lambda s: say(
        tools=[{"type": "function", "function": {"name": "f", "parameters": {"properties": members({}, s)}}}]
    ),
    "unknown names of a tool": lambda s: say(tools=[_FUNCTION | members(1, s)]),
    "name of a tool": lambda s: say(tools=[{"type": "function", "function": {"name": "f" * s}}]),
    "allowed tools": lambda s: say(tools=[_FUNCTION], tool_choice=allowed(items(lambda n: _FUNCTION, s))),
    "stop": lambda s: say(stop="a" * s),
    "stops": lambda s: say(stop=items(lambda n: "a", s)),
    "128 stops": lambda s: say(stop=["a" * (s // 128)] * 128),
    "stop_token_ids": lambda s: say(stop_token_ids=items(lambda n: n % 250, s)),
    "wrong stop_token_ids": lambda s: say(stop_token_ids=items(lambda n: "a", s)),
    "logit_bias": lambda s: say(logit_bias=members(1, s, "")),
    "wrong names in logit_bias": lambda s: say(logit_bias=members(1, s)),
    "wrong values in logit_bias": lambda s: say(logit_bias=members("x", s, "")),
    "allowed_token_ids": lambda s: say(allowed_token_ids=items(lambda n: n % 250, s), n=20),
    "metadata": lambda s: say(metadata=members(1, s)),
    "nested metadata": lambda s: say(metadata={"a": items(lambda n: [[[[[]]]]], s)}),
    "unknown names": lambda s: say(**members(1, s)),
    "an unknown name": lambda s: say(**{"k" * s: 1}),
    "variables": lambda s: say(chat_template_kwargs=members(1, s)),
    "documents": lambda s: say(documents=items(lambda n: {"title": "a"}, s)),
    "a document": lambda s: say(documents=[members(1, s)]),
    "unknown names of a format": lambda s: say(response_format={"type": "text", **members(1, s)}),
    "unknown names of outputs": lambda s: say(structured_outputs=members(1, s)),
    "modalities": lambda s: say(modalities=items(lambda n: "text", s)),
    "model": lambda s: say(model="a" * s),
}  # fmt: skip
_TEXT: dict[str, Make] = {
    "prompt": lambda s: {"prompt": "a b" * (s // 3)},
    "digits": lambda s: {"prompt": "1" * s},
    "prompts": lambda s: {"prompt": items(lambda n: "a", s)},
    "ids": lambda s: {"prompt": items(lambda n: n % 200, s)},
    "prompts of ids": lambda s: {"prompt": items(lambda n: [1], s)},
    "wrong prompts": lambda s: {"prompt": items(lambda n: {}, s)},
    "ids and a text": lambda s: {"prompt": [*items(lambda n: n % 200, s), "a"]},
    "samples": lambda s: {"prompt": "a" * s, "n": 20, "logit_bias": {"1": 1}, "repetition_penalty": 1.1},
}
_RESPONSES: dict[str, Make] = {
    "input": lambda s: {"input": items(lambda n: SAY[0], s)},
    "wrong input": lambda s: {"input": items(lambda n: SAY[0], s), "reasoning": {"effort": "low"}},
    "parts": lambda s: {
        "input": [{"role": "user", "content": items(lambda n: {"type": "input_text", "text": "a"}, s)}]
    },
    "calls": lambda s: {
        "input": items(lambda n: {"type": "function_call", "call_id": str(n), "name": "f", "arguments": "{}"}, s)
    },
    "results": lambda s: {"input": items(lambda n: {"type": "function_call_output", "call_id": "1", "output": "a"}, s)},
    "summary": lambda s: {
        "input": [{"type": "reasoning", "summary": items(lambda n: {"type": "summary_text", "text": "a"}, s)}, *SAY]
    },
    "reasoning": lambda s: {"input": [*items(lambda n: {"type": "reasoning", "summary": []}, s), *SAY]},
    "logprobs": lambda s: {
        "input": [{"role": "assistant", "content": [
            {"type": "output_text", "text": "a", "logprobs": items(lambda n: n, s)}]}, *SAY]
    },
    "instructions": lambda s: {"input": "a", "instructions": "a b" * (s // 3)},
    "tools": lambda s: {"input": "a", "tools": items(lambda n: {"type": "function", "name": f"f{n}"}, s)},
    "allowed tools": lambda s: {
        "input": "a", "tools": [{"type": "function", "name": "f"}],
        "tool_choice": {"type": "allowed_tools", "mode": "auto",
                        "tools": items(lambda n: {"type": "function", "name": "f"}, s)},
    },
    "include": lambda s: {"input": "a", "include": items(lambda n: _LOGPROBS, s)},
    "wrong include": lambda s: {"input": "a", "include": items(lambda n: "x", s)},
    "metadata": lambda s: {"input": "a", "metadata": members("x", s)},
    "wrong metadata": lambda s: {"input": "a", "metadata": members(1, s)},
    "unknown names": lambda s: {"input": "a", **members(1, s)},
    "unknown names of a format": lambda s: {"input": "a", "text": {"format": {"type": "text", **members(1, s)}}},
    "a refused field": lambda s: {"input": "a", "prompt": items(lambda n: n, s)},
}  # fmt: skip
_BASE = {"model": "guided", "max_tokens": 1, "messages": SAY}
_TEXT_BLOCK = {"type": "text", "text": "a"}
_USE = {"type": "tool_use", "id": "1", "name": "f", "input": {}}


def uses(size: int) -> dict[str, Any]:
    """A message with calls, and their results."""
    calls = items(lambda n: _USE | {"id": str(n)}, size // 2)
    results = [{"type": "tool_result", "tool_use_id": call["id"]} for call in calls]
    return {"messages": [*SAY, {"role": "assistant", "content": calls}, {"role": "user", "content": results}]}


_MESSAGES: dict[str, Make] = {
    name: (lambda s, make=make: {**_BASE, **make(s)})
    for name, make in {
        "messages": lambda s: {"messages": items(lambda n: SAY[0], s)},
        "blocks": lambda s: {"messages": [{"role": "user", "content": items(lambda n: _TEXT_BLOCK, s)}]},
        "calls": uses,
        "result": lambda s: {"messages": [*SAY, {"role": "assistant", "content": [_USE]}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": items(lambda n: _TEXT_BLOCK, s)}]}]},
        "input": lambda s: {"messages": [*SAY, {"role": "assistant", "content": [_USE | {"input": members(1, s)}]},
                                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]}]},
        "thinking": lambda s: {"messages": [*SAY, {"role": "assistant", "content": items(
            lambda n: {"type": "thinking", "thinking": "a", "signature": ""}, s)}]},
        "citations": lambda s: {"messages": [{"role": "user", "content": [
            _TEXT_BLOCK | {"citations": items(lambda n: {}, s)}]}]},
        "system": lambda s: {"system": items(lambda n: _TEXT_BLOCK, s)},
        "a long system": lambda s: {"system": "a b" * (s // 3)},
        "tools": lambda s: {"tools": items(lambda n: {"name": f"f{n}", "input_schema": {}}, s)},
        "input_schema": lambda s: {"tools": [{"name": "f", "input_schema": {"properties": members({}, s)}}]},
        "stop_sequences": lambda s: {"stop_sequences": items(lambda n: "a", s)},
        "wrong stop_sequences": lambda s: {"stop_sequences": items(lambda n: 1, s)},
        "schema": lambda s: {"output_config": {"format": {"type": "json_schema", "schema": members({}, s)}}},
        "metadata": lambda s: {"metadata": members("x", s)},
        "unknown names": lambda s: members(1, s),
    }.items()
}  # fmt: skip
BODIES: list[tuple[type[BaseModel], str, Make]] = [
    *((ChatRequest, name, make) for name, make in _CHAT.items()),
    *((CompletionRequest, name, make) for name, make in _TEXT.items()),
    *((ResponsesRequest, name, make) for name, make in _RESPONSES.items()),
    (InputTokensRequest, "input", _RESPONSES["input"]),
    *((MessagesRequest, name, make) for name, make in _MESSAGES.items()),
    (CountTokensRequest, "messages", lambda s: {"model": "guided", "messages": items(lambda n: SAY[0], s)}),
    (StreamRequest, "prompt", lambda s: {"prompt": "a" * s}),
    (TokenizeRequest, "prompt", lambda s: {"prompt": "a b" * (s // 3)}),
    (DetokenizeRequest, "tokens", lambda s: {"tokens": items(lambda n: n % 200, s)}),
    (StepRequest, "tokens", lambda s: {"prompt": "a", "tokens": items(lambda n: n % 200, s)}),
    (StepRequest, "messages", _CHAT["messages"]),
    (ExplainRequest, "prefix", lambda s: {"regex": "a", "prefix": items(lambda n: n % 200, s)}),
    (CheckRequest, "unknown names", lambda s: {"regex": "a", **members(1, s)}),
]
"""What a body is read as, the field that is large, and the body."""
