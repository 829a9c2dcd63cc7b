"""Constructs of request bodies: each field of each route, in every JSON shape, and valid bodies.

In: the request models of the server, so new fields are found automatically. Out: `BODIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from benchmarks.bad_inputs.construct import Construct
from guided.server.anthropic.messages_request import CountTokensRequest, MessagesRequest
from guided.server.inspector.inspection import CheckRequest, ExplainRequest, SampleRequest
from guided.server.inspector.stepping import StepRequest
from guided.server.openai.completion_request import CompletionRequest
from guided.server.openai.requests import ChatRequest, Message
from guided.server.openai.responses_request import InputTokensRequest, ResponsesRequest
from guided.server.routes.demonstration import StreamRequest
from guided.server.routes.operations import AbortRequest
from guided.server.routes.tokens import DetokenizeRequest, TokenizeRequest

__all__ = ["BODIES", "ROUTES"]

_Json = dict[str, Any]
_MESSAGES: Final = [{"role": "user", "content": "a"}]

ROUTES: Final[Mapping[str, tuple[type[BaseModel], _Json]]] = {
    "/v1/completions": (CompletionRequest, {"prompt": "a", "max_tokens": 1}),
    "/v1/chat/completions": (ChatRequest, {"messages": _MESSAGES, "max_tokens": 1}),
    "/v1/responses": (ResponsesRequest, {"input": "a", "max_output_tokens": 1}),
    "/v1/responses/input_tokens": (InputTokensRequest, {"input": "a"}),
    "/v1/messages": (MessagesRequest, {"model": "guided", "messages": _MESSAGES, "max_tokens": 1}),
    "/v1/messages/count_tokens": (CountTokensRequest, {"model": "guided", "messages": _MESSAGES}),
    "/tokenize": (TokenizeRequest, {"prompt": "a"}),
    "/detokenize": (DetokenizeRequest, {"tokens": [65]}),
    "/v1/grammars/check": (CheckRequest, {"regex": "a"}),
    "/v1/grammars/explain": (ExplainRequest, {"regex": "a"}),
    "/v1/grammars/sample": (SampleRequest, {"regex": "a"}),
    "/v1/grammars/step": (StepRequest, {"prompt": "a", "regex": "a"}),
    "/stream": (StreamRequest, {"prompt": "a", "max_tokens": 1}),
    "/abort_request": (AbortRequest, {"rid": "a"}),
}
"""Path -> the model of its body, and a body that is small and valid."""

_SHAPES: Final[Mapping[str, Callable[[int], Any]]] = {
    "text": lambda n: "x" * n,
    "numbers": lambda n: [65] * n,
    "texts": lambda n: ["a"] * n,
    "objects": lambda n: [{}] * n,
    "lists": lambda n: [[65]] * n,
    "members": lambda n: {f"{i}": i for i in range(n)},
    "texts that differ": lambda n: [f"w{i}" for i in range(n)],
}


def _message(role: str, content: Any, **others: Any) -> _Json:
    return {"role": role, "content": content, **others}


def _call(i: int, arguments: str = "{}") -> _Json:
    return {"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": arguments}}


def _tool(i: int, parameters: Any) -> _Json:
    return {"type": "function", "function": {"name": f"f{i}", "parameters": parameters}}


def _object(n: int) -> _Json:
    return {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(n)}}


_CHAT: Final[Mapping[str, Callable[[int], _Json]]] = {
    "messages": lambda n: {"messages": [_message("user", "a"), _message("assistant", "b")] * n},
    "messages of the user": lambda n: {"messages": [_message("user", "a")] * n},
    "messages, the last one wrong": lambda n: {"messages": [*[_message("user", "a")] * n, _message("nobody", "a")]},
    "parts of a message": lambda n: {"messages": [_message("user", [{"type": "text", "text": "a"}] * n)]},
    "calls in a message": lambda n: {
        "messages": [_message("assistant", None, tool_calls=[_call(i) for i in range(n)])]
    },
    "calls and their results": lambda n: {
        "messages": [
            *_MESSAGES,
            _message("assistant", None, tool_calls=[_call(i) for i in range(n)]),
            *(_message("tool", "b", tool_call_id=f"c{i}") for i in range(n)),
        ]
    },
    "arguments of a call": lambda n: {
        "messages": [_message("assistant", None, tool_calls=[_call(0, '{"a": "' + "x" * n + '"}')])]
    },
    "arguments that nest": lambda n: {
        "messages": [_message("assistant", None, tool_calls=[_call(0, "[" * n + "]" * n)])]
    },
    "reasoning of messages": lambda n: {"messages": [_message("assistant", "a", reasoning="r")] * n},
    "tools": lambda n: {"messages": _MESSAGES, "tools": [_tool(i, _object(2)) for i in range(min(n, 512))]},
    "members of a tool": lambda n: {"messages": _MESSAGES, "tools": [_tool(0, _object(n))]},
    "tools and tool_choice": lambda n: {
        "messages": _MESSAGES,
        "tools": [_tool(i, _object(2)) for i in range(min(n, 512))],
        "tool_choice": "required",
    },
    "allowed tools": lambda n: {
        "messages": _MESSAGES,
        "tools": [_tool(i, _object(1)) for i in range(min(n, 512))],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "auto",
                "tools": [{"type": "function", "function": {"name": f"f{i}"}} for i in range(n)],
            },
        },
    },
    "documents": lambda n: {"messages": _MESSAGES, "documents": [{"text": "a" * (n // 512)}] * min(n, 512)},
    "template variables": lambda n: {"messages": _MESSAGES, "chat_template_kwargs": {f"v{i}": i for i in range(n)}},
    "schema": lambda n: {
        "messages": _MESSAGES,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": _object(n)}},
    },
    "unknown keywords of a schema": lambda n: {
        "messages": _MESSAGES,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "s", "schema": {f"keyword{i}": i for i in range(n)}},
        },
    },
}
_COMPLETIONS: Final[Mapping[str, Callable[[int], _Json]]] = {
    "prompt": lambda n: {"prompt": "a" * n},
    "prompts": lambda n: {"prompt": ["a"] * n},
    "prompts of ids": lambda n: {"prompt": [[65]] * n},
    "stop": lambda n: {"prompt": "a", "stop": ["x" * (n // 128)] * 128},
    "logit_bias": lambda n: {"prompt": "a", "logit_bias": {f"{i % 256}": 1.0 for i in range(n)}},
    "allowed_token_ids": lambda n: {"prompt": "a", "allowed_token_ids": [i % 256 for i in range(n)]},
    "stop_token_ids": lambda n: {"prompt": "a", "stop_token_ids": [i % 256 for i in range(n)]},
    "unknown fields": lambda n: {"prompt": "a", **{f"f{i}": i for i in range(n)}},
    "an unknown field with a long name": lambda n: {"prompt": "a", "x" * n: 1},
    "choices": lambda n: {"prompt": "a", "structured_outputs": {"choice": [f"w{i}" for i in range(n)]}},
    "minProperties": lambda n: {"prompt": "a", "json_schema": {"type": "object", "minProperties": n}},
    "a schema as text": lambda n: {"prompt": "a", "json_schema": '{"enum": [' + "1, " * n + "2]}"},
    "nested counts": lambda n: {"prompt": "a", "regex": "(" * n + "a" + "){1,100}" * n},
    "whitespace_pattern": lambda n: {
        "prompt": "a",
        "structured_outputs": {"json": True, "whitespace_pattern": " ?" * n},
    },
}
_RESPONSES: Final[Mapping[str, Callable[[int], _Json]]] = {
    "items": lambda n: {"input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * n},
    "items of parts": lambda n: {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}] * n}]},
    "calls": lambda n: {
        "input": [{"type": "function_call", "call_id": f"c{i}", "name": "f", "arguments": "{}"} for i in range(n)]
    },
    "reasoning": lambda n: {"input": [{"type": "reasoning", "summary": [], "id": f"r{i}"} for i in range(n)]},
    "items, the last one wrong": lambda n: {"input": [*[{"role": "user", "content": "a"}] * n, {"role": "nobody"}]},
}
_INSPECTED: Final[Mapping[str, Callable[[int], _Json]]] = {
    "alternatives": lambda n: {"regex": "|".join(f"w{i}" for i in range(n))},
    "choices": lambda n: {"structured_outputs": {"choice": [f"w{i}" for i in range(n)]}},
    "rules": lambda n: {
        "gbnf": "root ::= "
        + " | ".join(f"r{i}" for i in range(n))
        + "\n"
        + "".join(f'r{i} ::= "{i}"\n' for i in range(n))
    },
    "schema": lambda n: {"json_schema": _object(n)},
    "nested counts": lambda n: {"regex": "(" * n + "a" + "){1,100}" * n},
    "minProperties": lambda n: {"json_schema": {"type": "object", "minProperties": n}},
}
_EXPLAINED: Final[Mapping[str, Callable[[int], _Json]]] = {
    "prefix": lambda n: {"regex": "[a-z]*", "prefix": "x" * min(n, 65536)},
    "prefix of ids": lambda n: {"regex": "[a-z]*", "prefix": [97] * min(n, 65536)},
    "prefix with alternatives": lambda n: {
        "regex": f"({'|'.join('a' * i for i in range(1, 60))})*",
        "prefix": "a" * min(n, 65536),
    },
    "prefix of a schema": lambda n: {
        "json_schema": {"type": "array", "items": {"anyOf": [{"minimum": i} for i in range(9)]}},
        "prefix": "[" + "1," * min(n, 32000),
    },
    "prefix with keys": lambda n: {
        "json_schema": {"type": "object"},
        "prefix": "{" + ",".join(f'"k{i}":1' for i in range(min(n, 6000))),
    },
    "text": lambda n: {"regex": "[a-z]*", "text": "x" * min(n, 65536)},
}


def _fields() -> Iterator[tuple[str, str, Callable[[Any], _Json]]]:
    """Path, name and a body with a value, for each field. A field that two routes share counts once."""
    seen = set[str]()
    for path, (model, valid) in ROUTES.items():
        for name, field in model.model_fields.items():
            if (key := f"{name}: {field.annotation}") not in seen:
                seen.add(key)
                yield path, name, lambda value, name=field.alias or name, valid=valid: {**valid, name: value}  # type: ignore[misc]
    for name in Message.model_fields:
        yield (
            "/v1/chat/completions",
            f"messages.{name}",
            lambda value, name=name: {  # type: ignore[misc]
                "messages": [{"role": "user", "content": "a", name: value}],
                "max_tokens": 1,
            },
        )


def _all() -> Iterator[Construct]:
    for path, name, body in _fields():
        for shape, make in _SHAPES.items():

            def build(n: int, body: Any = body, make: Any = make) -> _Json:
                return body(make(n))  # type: ignore[no-any-return]

            yield Construct(f"field of {path}: {name}, {shape}", path, build, most=1 << 17, first=1 << 11, factor=8)
    tables = {
        "/v1/chat/completions": _CHAT,
        "/v1/completions": _COMPLETIONS,
        "/v1/responses": _RESPONSES,
        "/v1/responses/input_tokens": _RESPONSES,
        "/v1/grammars/check": _INSPECTED,
        "/v1/grammars/explain": {**_INSPECTED, **_EXPLAINED},
        "/v1/grammars/sample": _INSPECTED,
        "/tokenize": {"messages": _CHAT["messages"], "prompt": _COMPLETIONS["prompt"]},
    }
    for path, table in tables.items():
        for name, build in table.items():
            yield Construct(f"body of {path}: {name}", path, build, most=1 << 20, first=8, factor=4)


BODIES: Final = tuple(_all())
