"""Fields of requests: what they do, and where and why they are refused."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from guided.engine import Engine
from guided.models.llama import Llama, LlamaConfig
from guided.vocabulary import Vocabulary
from tests.live_server import served

CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
SAY = [{"role": "user", "content": "Say."}]
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
LONG = "a" * 700


@pytest.mark.parametrize(
    ("path", "body", "code", "param", "message"),
    [
        (TEXT, {"prompt": LONG}, "context_length_exceeded", None, "the prompt has 700 tokens, the model reads 600"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": LONG}]},
            "context_length_exceeded",
            None,
            "the model reads 600",
        ),
        (RESPONSES, {"input": LONG}, "context_length_exceeded", None, "the model reads 600"),
        (TEXT, {"prompt": "a", "regex": "b+", "stop": "c"}, "invalid_request", "stop", "does not go with regex"),
        (TEXT, {"prompt": "a", "lark": 'start: "a"', "ignore_eos": True}, "invalid_request", "ignore_eos", "with lark"),
        (
            CHAT,
            {"messages": SAY, "regex": "b+", "stop_token_ids": [1]},
            "invalid_request",
            "stop_token_ids",
            "with regex",
        ),
        (RESPONSES, {"input": "a", "regex": "b", "stop": ["c"]}, "invalid_request", "stop", "does not go with regex"),
        (TEXT, {"prompt": []}, "invalid_request", "prompt", "at least one token"),
        (TEXT, {"prompt": [[]]}, "invalid_request", "prompt", "at least one token"),
        (TEXT, {"prompt": [[97], []]}, "invalid_request", "prompt", "at least one token"),
        (TEXT, {"prompt": "a", "logit_bias": {"x": 1}}, "invalid_request", "logit_bias.x", "valid integer"),
        (TEXT, {"prompt": "a", "heal_prompt": True, "logprobs": 1}, "invalid_request", "heal_prompt", "do not go with"),
        (CHAT, {"messages": SAY, "heal_prompt": True}, "invalid_request", "heal_prompt", "there is no field"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE]}]},
            "invalid_request",
            "messages.0.content",
            "part 1 has the type 'image_url'; this server reads text alone",
        ),
        (CHAT, {"messages": [{"role": "user"}]}, "invalid_request", None, "message 0 has no content"),
        (
            RESPONSES,
            {"input": "a", "reasoning": {"effort": "low"}},
            "invalid_request",
            "reasoning.effort",
            "max_output",
        ),
        (
            TEXT,
            {"prompt": "a", "guided_json": {}, "guided_regex": "a"},
            "invalid_request",
            "guided_json",
            "json and regex",
        ),
        (
            TEXT,
            {"prompt": "a", "lark": "start: <|im_end|>"},
            "invalid_specification",
            "lark",
            "the server's option --allow-special-tokens lets a grammar name control tokens",
        ),
        (
            TEXT,
            {"prompt": "a", "json_schema": {"$ref": "https://example.org/a"}},
            "invalid_specification",
            "json_schema/$ref",
            "write it into the schema, below $defs; nothing is fetched",
        ),
        (CHAT, {"messages": [*SAY, {"role": "system", "content": None}]}, "invalid_request", None, "message 1 has no"),
    ],
)
def test_what_is_refused_is_told_with_its_field(path, body, code, param, message):
    async def run():
        async with served() as (_, http):
            answer = await http.post(path, json=body)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"], error["param"]) == (400, code, param)
            assert message in error["message"]

    asyncio.run(run())


def engine_of_pairs():
    """A token for each byte, and some for two, which may go on over the end of a prompt."""
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), b"bc", b"bd", b"b "], eos_token_ids=[259])
    sizes = {"layers": 1, "dim": 16, "heads": 2, "kv_heads": 1, "head_dim": 8, "hidden": 24}
    model = Llama.random(LlamaConfig(**sizes, vocab_size=vocabulary.size, context=100), seed=7)
    return Engine(model, vocabulary)


@pytest.mark.parametrize("fields", [{}, {"regex": "[cd]{3}"}])
def test_a_prompt_is_healed_as_the_engine_does_it(fields):
    async def run():
        async with served(engine_of_pairs()) as (server, http):
            options = {"heal_prompt": True, "max_tokens": 6, "temperature": 0, "seed": 1}
            for stream in (False, True):
                answer = await http.post(TEXT, json={"prompt": "ab", "stream": stream, **options, **fields})
                alone = server.engine.generate("ab", fields.get("regex"), raw=True, **options)
                assert alone.healed == "b"
                if stream:
                    lines = [json.loads(line[6:]) for line in answer.text.split("\n") if line.startswith("data: {")]
                    assert "".join(line["choices"][0]["text"] for line in lines) == alone.text
                    choice = lines[-1]["choices"][0]
                else:
                    (choice,) = answer.json()["choices"]
                    assert choice["text"] == alone.text
                    assert answer.json()["usage"]["completion_tokens"] == len(alone.tokens)
                assert choice["healed"] == "b"

    asyncio.run(run())
