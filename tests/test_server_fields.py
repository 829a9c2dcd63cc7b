"""Fields of requests: their effects, and the location and reason of refusals."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from guided.engine import Engine
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.vocabulary import Vocabulary
from tests.live_server import served

CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
SAY = [{"role": "user", "content": "Say."}]
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
BIASES = {str(id): 1 for id in range(259)}
LONG = "a" * 700


@pytest.mark.parametrize(
    ("path", "body", "code", "param", "message"),
    [
        (
            TEXT,
            {"prompt": LONG},
            "context_length_exceeded",
            None,
            "the prompt has 700 tokens, but the model's context holds 600",
        ),
        (
            CHAT,
            {"messages": [{"role": "user", "content": LONG}]},
            "context_length_exceeded",
            None,
            "context holds 600",
        ),
        (RESPONSES, {"input": LONG}, "context_length_exceeded", None, "context holds 600"),
        (TEXT, {"prompt": []}, "invalid_request", "prompt", "at least one token"),
        (TEXT, {"prompt": [[]]}, "invalid_request", "prompt", "at least one token"),
        (TEXT, {"prompt": [[97], []]}, "invalid_request", "prompt", "at least one token"),
        (TEXT, {"prompt": "a", "logit_bias": {"x": 1}}, "invalid_request", "logit_bias.x", "valid integer"),
        (TEXT, {"prompt": "a", "heal_prompt": True, "logprobs": 1}, "invalid_request", "heal_prompt", "be combined"),
        (CHAT, {"messages": SAY, "heal_prompt": True}, "invalid_request", "heal_prompt", "unknown field"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE]}]},
            "invalid_request",
            "messages.0.content",
            "part 1 has the type 'image_url'; this server accepts only text",
        ),
        (
            CHAT,
            {"messages": [{"role": "user"}]},
            "invalid_request",
            "messages.0.content",
            "message 0 has no content",
        ),
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
            "the server's option --allow-special-tokens allows control tokens",
        ),
        (
            TEXT,
            {"prompt": "a", "json_schema": {"$ref": "https://example.org/a"}},
            "invalid_specification",
            "json_schema/$ref",
            "add it to the schema under $defs; nothing is fetched",
        ),
        (
            TEXT,
            {"prompt": "a", "json_schema": {"x-guided-quote": "report"}},
            "invalid_specification",
            "json_schema/x-guided-quote",
            'write {"documents": {name: text}} instead of the name',
        ),
        (
            TEXT,
            {"prompt": "a", "json_schema": {"x-guided-quote": 3}},
            "invalid_specification",
            "json_schema/x-guided-quote",
            'as in "x-guided-quote": {"documents": {"report": "In May ..."}}',
        ),
        (
            TEXT,
            {"prompt": "a", "json_schema": {"x-guided-quote": {"documents": {"report": ""}}}},
            "invalid_specification",
            "json_schema/x-guided-quote/documents/report",
            "is empty",
        ),
        (
            CHAT,
            {"messages": [*SAY, {"role": "system", "content": None}]},
            "invalid_request",
            "messages.1.content",
            "message 1 has no",
        ),
        (TEXT, {"prompt": "a", "seed": 1 << 64}, "invalid_request", "seed", "seed is"),
        (TEXT, {"prompt": "a", "stop": ""}, "invalid_request", "stop", "nonempty"),
        (TEXT, {"prompt": "a", "stop": ["a", ""]}, "invalid_request", "stop", "nonempty"),
        (TEXT, {"prompt": "a", "logit_bias": {"1": 101}}, "invalid_request", "logit_bias", "token 1 is 101"),
        (
            TEXT,
            {"prompt": "a", "logit_bias": {"999": 1}},
            "invalid_request",
            "logit_bias",
            "logit_bias contains token 999",
        ),
        (
            TEXT,
            {"prompt": "a", "logit_bias": BIASES},
            "invalid_request",
            "logit_bias",
            "but there are 258",
        ),
        (RESPONSES, {"input": "a", "logit_bias": BIASES}, "invalid_request", "logit_bias", "259 entries"),
        (TEXT, {"prompt": "a", "logit_bias": {"-1": 1}}, "invalid_request", "logit_bias", "which is not a token id"),
        (TEXT, {"prompt": "a", "allowed_token_ids": [999]}, "invalid_request", "allowed_token_ids", "token 999"),
        (TEXT, {"prompt": "a", "allowed_token_ids": []}, "invalid_request", "allowed_token_ids", "is empty"),
        (TEXT, {"prompt": "a", "stop_token_ids": [999]}, "invalid_request", "stop_token_ids", "contains 999"),
        (TEXT, {"prompt": "a", "min_tokens": 9, "max_tokens": 2}, "invalid_request", "min_tokens", "is 9"),
        (RESPONSES, {"input": "a", "seed": 1 << 64}, "invalid_request", "seed", "seed is 1"),
        (CHAT, {"messages": [*SAY, {"role": "robot", "content": ""}]}, "invalid_request", "messages.1.role", "'robot'"),
        (
            CHAT,
            {"messages": [*SAY, {"role": "tool", "content": "a", "tool_call_id": "x"}]},
            "invalid_request",
            "messages.1.tool_call_id",
            "no earlier call has the id 'x'",
        ),
        (
            RESPONSES,
            {"input": [*SAY, {"type": "function_call_output", "call_id": "x", "output": "a"}]},
            "invalid_request",
            "input.1",
            "input.1: no earlier call has the id 'x'",
        ),
        (TEXT, {"prompt": "a", "regex": "ab(c"}, "invalid_specification", "regex", ""),
        (TEXT, {"prompt": "a", "regex": r"a(?<n>b)\k<m>"}, "invalid_specification", "regex", ""),
        (
            TEXT,
            {"prompt": "a", "structured_outputs": {"regex": "a(b"}},
            "invalid_specification",
            "structured_outputs.regex",
            "",
        ),
        (TEXT, {"prompt": "a", "gbnf": "root ::= [b-a]"}, "invalid_specification", "gbnf", ""),
        (
            TEXT,
            {"prompt": "a", "json_schema": {"properties": {"a": {"pattern": "(", "type": "string"}}}},
            "invalid_specification",
            "json_schema/properties/a/pattern",
            "",
        ),
    ],
)
def test_refusals_name_the_field(path, body, code, param, message):
    async def run():
        async with served() as (_, http):
            answer = await http.post(path, json=body)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"], error["param"]) == (400, code, param)
            assert message in error["message"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "body", "param", "message"),
    [
        (CHAT, {"messages": SAY, "temprature": 1}, "temprature", "did you mean temperature?"),
        (CHAT, {"messages": [{"role": "user", "contnt": "a"}]}, "messages.0.contnt", "did you mean content?"),
        (CHAT, {"messages": [{"role": "user", "content": "a", "model": "a"}]}, "messages.0.model", "field 'model'$"),
        (CHAT, {"messages": SAY, "stream": True, "stream_options": {"includ_usage": 1}}, "stream_options.includ_usage",
         "did you mean include_usage?"),
        (CHAT, {"messages": SAY, "stream": True, "stream_options": {"stop": True}}, "stream_options.stop", "'stop'$"),
        (
            CHAT,
            {"messages": [*SAY, {"role": "assistant", "tool_calls": [{"id": "1", "function": {"nme": "f"}}]}]},
            "messages.1.tool_calls.0.function.nme",
            "did you mean name?",
        ),
        (TEXT, {"prompt": "a", "choice": ["a"]}, "choice", 'write "structured_outputs": {"choice": ...}'),
        (RESPONSES, {"input": [{"role": "user", "contnt": "a"}]}, "input.0.contnt", "did you mean content?"),
        (RESPONSES, {"input": [{"role": "user", "content": "a", "top_p": 1}]}, "input.0.top_p", "field 'top_p'$"),
        (RESPONSES, {"input": "a", "text": {"formt": {}}}, "text.formt", "did you mean format?"),
        (RESPONSES, {"input": "a", "text": {"format": {"type": "lark", "gbnf": "a", "lark": "start: /a/"}}},
         "text.format.gbnf", "unknown field 'gbnf'$"),
        ("/tokenize", {"prompt": "a", "promt": "a"}, "promt", "did you mean prompt?"),
        ("/v1/grammars/check", {"regex": "a", "remark": True}, "remark", "did you mean remarks?"),
    ],
)  # fmt: skip
def test_unknown_names_get_a_suggestion_from_the_same_object(path, body, param, message):
    async def run():
        async with served() as (_, http):
            answer = await http.post(path, json=body)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_request", param)
            assert re.search(re.escape(message).replace(r"\$", "$"), error["message"])

    asyncio.run(run())


def engine_of_pairs():
    """A token for each byte, and some tokens of two bytes, which may cross the end of a prompt."""
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
