"""A body in which an object has a key twice is refused on every route, with the location of the key."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from guided.server.http.body_limits import _parse_json
from guided.server.http.errors import RequestError
from tests.effort import draws
from tests.live_server import served

SAY = '"messages": [{"role": "user", "content": "Hi"}]'
SCHEMA = '{"type": "string", "type": "integer"}'


class _Pairs(list):
    """The members of an object, with all keys."""


def repeated_keys(value, path=()):
    """The paths of all keys that are written twice."""
    if isinstance(value, _Pairs):
        keys = [key for key, _ in value]
        for number, (key, child) in enumerate(value):
            if key in keys[:number]:
                yield (*path, key)
            yield from repeated_keys(child, (*path, key))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from repeated_keys(child, (*path, number))


def random_json(source, depth=0):
    kind = source.randrange(4 if depth < 4 else 2)
    if kind < 2:
        return source.choice(["1", "null", '"a"', "{}", "[]"])
    children = [random_json(source, depth + 1) for _ in range(source.randint(0, 4))]
    if kind == 2:
        return f"[{', '.join(children)}]"
    keys = source.choice([list("abcdefgh"), ["a", "b", "/~", "\\u0061", "", "é"]])
    members = [f'"{source.choice(keys)}": {child}' for child in children]
    return "{" + ", ".join(members) + "}"


def test_the_location_of_a_repeated_key():
    counts = [0, 0]
    for seed in range(draws(5000)):
        text = random_json(random.Random(seed))
        repeated = {
            "/".join(str(key).replace("~", "~0").replace("/", "~1") for key in path)
            for path in repeated_keys(json.loads(text, object_pairs_hook=_Pairs))
        }
        counts[bool(repeated)] += 1
        try:
            value = _parse_json(bytearray(text.encode()), 256)
        except RequestError as error:
            assert error.param in repeated and "is written twice in one object" in error.message
        else:
            assert value == json.loads(text) and not repeated
    assert min(counts) > 100


def test_the_depth_is_limited_first():
    for text in ("[" * 300 + '{"a": 1, "a": 2}' + "]" * 300, '{"a": 1, "a": ' * 3000 + "1" + "}" * 3000):
        with pytest.raises(RequestError, match="nested more than 256 deep"):
            _parse_json(bytearray(text.encode()), 256)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", '{"prompt": "a", "regex": "a", "regex": "b{3}"}', "regex"),
        ("/v1/completions", f'{{"prompt": "a", "json_schema": {SCHEMA}}}', "json_schema/type"),
        ("/v1/chat/completions", f'{{{SAY}, "seed": 1, "seed": 1}}', "seed"),
        ("/v1/chat/completions", '{"messages": [{"role": "user", "content": "a", "content": "b"}]}',
         "messages/0/content"),
        ("/v1/chat/completions", f'{{{SAY}, "response_format": {{"type": "json_schema", "json_schema": {{'
         f'"name": "a", "schema": {SCHEMA}}}}}}}', "response_format/json_schema/schema/type"),
        ("/v1/responses", '{"input": "a", "input": "b"}', "input"),
        ("/v1/responses/input_tokens", '{"input": "a", "input": "b"}', "input"),
        ("/v1/messages", f'{{{SAY}, "max_tokens": 5, "tools": [{{"name": "a", "input_schema": {SCHEMA}}}]}}',
         "tools/0/input_schema/type"),
        ("/v1/messages/count_tokens", f'{{{SAY}, "system": "a", "system": "b"}}', "system"),
        ("/v1/grammars/check", '{"regex": "a", "text": "a", "text": "b"}', "text"),
        ("/v1/grammars/explain", '{"regex": "a", "regex": "b"}', "regex"),
        ("/v1/grammars/sample", '{"regex": "a", "regex": "b"}', "regex"),
        ("/v1/grammars/step", '{"regex": "a", "regex": "b"}', "regex"),
        ("/stream", '{"prompt": "a", "prompt": "b"}', "prompt"),
        ("/tokenize", '{"prompt": "a", "prompt": "b"}', "prompt"),
        ("/detokenize", '{"tokens": [1], "tokens": [2]}', "tokens"),
        ("/abort_request", '{"rid": "a", "rid": "b"}', "rid"),
    ],
)  # fmt: skip
def test_every_route_refuses_them(path, body, param):
    async def whole():
        async with served() as (_, http):
            answer = await http.post(path, content=body)
            error = answer.json()["error"]
            assert answer.status_code == 400 and "is written twice in one object" in error["message"], answer.text
            assert error.get("details", error)["param"] == param

    asyncio.run(whole())
