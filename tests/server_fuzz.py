"""Random broken requests: invalid HTTP bytes, and JSON in which any field may have any value."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

from guided.server.anthropic.messages_request import MessagesRequest
from guided.server.openai.completion_request import CompletionRequest
from guided.server.openai.requests import ChatRequest
from guided.server.openai.responses_request import ResponsesRequest
from tests.live_server import raw_request

SAY = [{"role": "user", "content": "Say something."}]
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, "b"]}, "c": {"type": "boolean"}}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}
USE = {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "b"}]}
ROUTES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 6, "regex": "[a-z]{1,3}"}),
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 40, "stream": True, "response_format": {
        "type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}}),
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 9, "structured_outputs": {"choice": ["yes", "no"]}}),
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 9, "lark": 'start: "a" | "b" start'}),
    ("/v1/completions", {"prompt": "ab", "max_tokens": 6, "stream": True, "gbnf": 'root ::= "a" | "b" root'}),
    ("/v1/completions", {"prompt": ["a", "b"], "max_tokens": 5, "n": 2, "logprobs": 2, "temperature": 0.5}),
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 60, "tools": [TOOL], "tool_choice": "required"}),
    ("/v1/responses", {"input": "a", "max_output_tokens": 16, "regex": "[a-z]{3}", "stream": True}),
    ("/v1/responses", {"input": SAY, "max_output_tokens": 40, "text": {"format": {
        "type": "json_schema", "name": "x", "schema": SCHEMA}}}),
    ("/v1/messages", {"model": "guided", "messages": SAY, "max_tokens": 16, "regex": "[a-z]{3}", "stream": True}),
    ("/v1/messages", {"model": "guided", "messages": [*SAY, {"role": "assistant", "content": [USE]}, {
        "role": "user", "content": [RESULT]}], "max_tokens": 60, "tools": [{"name": "f", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any"}}),
    ("/v1/messages/count_tokens", {"model": "guided", "messages": SAY, "system": [{"type": "text", "text": "a"}]}),
    ("/tokenize", {"prompt": "abc"}),
    ("/tokenize", {"messages": SAY}),
    ("/detokenize", {"tokens": [97, 98]}),
]  # fmt: skip
KINDS = (ChatRequest, CompletionRequest, ResponsesRequest, MessagesRequest)
FIELDS = sorted({name for kind in KINDS for name in kind.model_fields})
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 3, 2**31, 2**63, 2**64, -(2**70), 10**400, 0.5, -0.0, 1e-320, 1e308, float("nan"),
    float("inf"), "", "a", "\x00", "\ud800", "é漢\U0001f600", "<|im_end|>", "(" * 50, "a{1,99999}", "(?=a)b",
    "[a-z]{3}", "x" * 3000, "../../etc/passwd", "http://127.0.0.1:1/", "[]", "{}", "text", "auto", "json_object",
    [], [None], [""], ["a", 1], [[]], [256, 257], [-1], [10**9], list(range(300)), {}, {"": None}, {"type": "object"},
    {"type": "json_schema"}, {"json": {}}, {"a": {"a": {"a": []}}}, {"$ref": "#"}, {"97": 100, "x": 1}, {"97": 1e999},
]  # fmt: skip
HEADERS = [
    b"Upgrade: websocket\r\nConnection: Upgrade", b"Expect: 100-continue", b": x", b"A B: c", b"Content-Type: \xff",
    b"Transfer-Encoding: gzip, chunked", b"Content-Encoding: gzip", b"X-Request-Id: \x01",
    b"Authorization: Bearer \xe9",
]  # fmt: skip
STATUSES = frozenset((200, 400, 401, 403, 404, 405, 408, 411, 413, 414, 415, 422, 429, 431, 501, 503, 505))
"""What a broken request may be told. 500 is not among them."""


def broken_json(rng: random.Random) -> tuple[str, bytes]:
    """A path and a body: JSON in which fields have other values, or bytes are invalid."""
    path, body = rng.choice(ROUTES)
    body = json.loads(json.dumps(body))
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if rng.random() < 0.6:
            body[rng.choice(FIELDS)] = _value(rng)
        else:
            _change_inside(body, rng)
    text = json.dumps(body, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    kind = rng.random()
    if kind < 0.1:
        text = _flipped(text, rng)
    elif kind < 0.15:
        text = text[: rng.randrange(len(text) + 1)]
    elif kind < 0.18:
        deep = rng.choice([30, 500, 50_000])
        text = text[:-1] + b', "metadata": ' + b'{"a":' * deep + b"1" + b"}" * deep + b"}"
    elif kind < 0.2:
        text = rng.randbytes(rng.randrange(200))
    return path, text


def broken_http(rng: random.Random) -> bytes:
    """The bytes of a request that is invalid HTTP, or barely valid."""
    path, body = rng.choice(ROUTES)
    whole = raw_request(path, body)
    head, _, data = whole.partition(b"\r\n\r\n")
    length = f"Content-Length: {len(data)}".encode()
    match rng.randrange(12):
        case 0:
            return _flipped(whole, rng)
        case 1:
            return _flipped(head, rng) + b"\r\n\r\n" + data
        case 2:
            return whole[: rng.randrange(1, len(whole))]
        case 3:
            return head + b"\r\nX-Big: " + b"a" * rng.choice([100, 70_000, 300_000]) + b"\r\n\r\n" + data
        case 4:
            return head + b"\r\nX-Many: a" * rng.choice([50, 10_000]) + b"\r\n\r\n" + data
        case 5:
            wrong = rng.choice(
                [b"-1", b"x", b"0", b"99999999999999999999", b"5, 6", b"+7", str(len(data) + 9).encode()]
            )
            return head.replace(length, b"Content-Length: " + wrong) + b"\r\n\r\n" + data
        case 6:
            return head + b"\r\nContent-Length: 3\r\n\r\n" + data
        case 7:
            return _chunked(head.replace(length, b"Transfer-Encoding: chunked"), data, rng)
        case 8:
            method = rng.choice([b"GET", b"PUT", b"DELETE", b"OPTIONS", b"HEAD", b"TRACE", b"CONNECT", b"P\x00ST", b""])
            return whole.replace(b"POST", method, 1)
        case 9:
            target = rng.choice([b"*", b"//", b"/%00", b"/%zz", b"/v1/../health", b"http://a/", b"/" + b"a" * 70_000])
            return whole.replace(path.encode(), target, 1)
        case 10:
            return head + b"\r\n" + rng.choice(HEADERS) + b"\r\n\r\n" + data
        case _:
            return rng.randbytes(rng.randrange(1, 2000))


def _chunked(head: bytes, data: bytes, rng: random.Random) -> bytes:
    size = rng.choice(
        [f"{len(data):x}".encode(), b"-1", b"zz", b"ffffffffffffffffff", b"0", b"3", b"5;x=" + b"y" * 70_000]
    )
    end = rng.choice([b"\r\n0\r\n\r\n", b"\r\n0\r\n", b"0\r\n\r\n", b"\r\n0\r\nX: y\r\n\r\n", b""])
    return head + b"\r\n\r\n" + size + b"\r\n" + data + end


def _flipped(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def _value(rng: random.Random) -> Any:
    value, other = (deepcopy(rng.choice(VALUES)) for _ in range(2))
    wrap = rng.random()
    return [value, other] if wrap < 0.1 else {"type": value} if wrap < 0.15 else value


def _change_inside(body: Any, rng: random.Random) -> None:
    """Change, remove or double one node of the JSON."""
    while True:
        keys = list(body) if isinstance(body, dict) else list(range(len(body)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(body[key], dict | list) and body[key] and rng.random() < 0.7:
            body = body[key]
            continue
        match rng.randrange(3):
            case 0:
                body[key] = _value(rng)
            case 1:
                del body[key]
            case _ if isinstance(body, dict):
                body[f"{key}{key}"] = body[key]
            case _:
                body += [body[key]] * rng.choice([1, 40])
        return
