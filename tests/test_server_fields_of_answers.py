"""The model's confidence in each value, and free text before an answer: over HTTP as in Python."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

import guided  # noqa: E402
from guided.engine.engine import Engine  # noqa: E402
from guided.server.inspector.stepping import Step, StepRequest  # noqa: E402
from tests.server_support import small_engine  # noqa: E402
from tests.test_server_reasoning import streamed  # noqa: E402
from tests.test_server_tools import SAY, TOOLS, run  # noqa: E402

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 50}}, "required": ["n"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
ASK: dict[str, Any] = {"model": "guided", "messages": SAY, "max_tokens": 90, "seed": 1}


def pieces(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields as JSON. Numbers are rounded, because a batch of another size may differ in the last bit."""
    return {name: {key: round(part, 4) if isinstance(part, float) else part for key, part in one.items()}
            for name, one in fields.items()}  # fmt: skip


def test_fields_of_a_text():
    engine = small_engine(4000)

    async def body(ask):
        own = engine.generate(SAY, SCHEMA, max_tokens=90, seed=1, temperature=1.0)
        expected = pieces({name: asdict(field) for name, field in own.fields.items()})
        options = ASK | {"response_format": FORMAT, "extra_body": {"return_fields": True}}
        choice = (await ask.chat.completions.create(**options)).choices[0]
        assert choice.message.content == own.text and pieces(choice.fields) == expected
        ends = []
        async for chunk in await ask.chat.completions.create(**options, stream=True):
            ends += [one.fields for one in chunk.choices if hasattr(one, "fields")]
        assert [pieces(one) for one in ends] == [expected]
        plain = (await ask.chat.completions.create(**ASK, response_format=FORMAT)).choices[0]
        assert not hasattr(plain, "fields")

    run(body, engine)


def test_fields_of_calls():
    async def body(ask):
        options = ASK | {"tools": TOOLS, "tool_choice": "required", "extra_body": {"return_fields": True}}
        choice = (await ask.chat.completions.create(**options)).choices[0]
        for number, call in enumerate(choice.message.tool_calls):
            assert choice.fields[f"/{number}/name"]["text"] == call.function.name
            for name, value in json.loads(call.function.arguments).items():
                field = choice.fields[f"/{number}/arguments/{name}"]
                assert json.loads(field["text"]) == value and 0 <= field["confidence"] <= 1
        assert any(field["choices"] for field in choice.fields.values())

    run(body, small_engine(4000))


@pytest.mark.parametrize("thoughts", [7, "answer"])
def test_free_text_first_is_reasoning(thoughts):
    engine = small_engine(4000)

    async def body(ask):
        own = engine.generate(SAY, SCHEMA, max_tokens=90, seed=1, temperature=1.0, think_first=thoughts)
        options = ASK | {"response_format": FORMAT, "extra_body": {"think_first": thoughts}}
        whole = await ask.chat.completions.create(**options)
        message, usage = whole.choices[0].message, whole.usage
        assert (message.content, message.reasoning) == (own.text, own.reasoning) and own.reasoning
        assert usage.completion_tokens == len(own.tokens) and usage.prompt_tokens == own.prompt_tokens
        assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens
        assert await streamed(ask, **options) == (message.content, message.reasoning, [], [], usage)
        with pytest.raises(openai.BadRequestError, match="there is no constraint"):
            await ask.chat.completions.create(**ASK, extra_body={"think_first": thoughts})

    run(body, engine)


def test_free_text_before_calls():
    async def body(ask):
        options = ASK | {"tools": TOOLS, "tool_choice": "required", "extra_body": {"think_first": 9}}
        message = (await ask.chat.completions.create(**options)).choices[0].message
        assert message.reasoning and message.tool_calls and not message.content

    run(body, small_engine(4000))


def test_descriptions():
    engine = small_engine(4000)
    default = Engine(engine.model, engine.vocabulary, chat=engine.chat_template, describe=True)

    async def prompt_tokens(ask, **more: Any) -> int:
        answer = await ask.chat.completions.create(**ASK, response_format=FORMAT, extra_body=more)
        return answer.usage.prompt_tokens

    async def body(ask):
        plain = await prompt_tokens(ask)
        assert plain == await prompt_tokens(ask, describe=False) < await prompt_tokens(ask, describe=True)

    async def body_of_default(ask):
        described = await prompt_tokens(ask)
        step = Step.prepare(
            default, StepRequest(messages=SAY, json_schema=SCHEMA), allow_special_tokens=False, seconds=5.0
        )
        assert len(step.ids) == described
        assert described == await prompt_tokens(ask, describe=True) > await prompt_tokens(ask, describe=False)

    run(body, engine)
    run(body_of_default, default)


def test_arguments_in_python():
    """`Result.call_fields` of a tag whose markers are control tokens."""
    names = ("<tool_call>", "</tool_call>")
    engine = small_engine(4000, more=names)
    style = guided.tool_style("qwen_3")
    tag = style.structural_tag(TOOLS, tool_choice="required")
    grammar = engine.compiler.compile_structural_tag(tag, allow_special_tokens=True)
    result = engine.generate(SAY, grammar, max_tokens=90, seed=3, temperature=1.0)
    ids = {id for id, name in engine.vocabulary.special_tokens.items() if name in names}
    assert ids & set(result.tokens), "a call is between control tokens"
    fields = result.call_fields(style.reader(TOOLS))
    assert fields["/0/name"].text in {tool["function"]["name"] for tool in TOOLS}
    arguments = {name: field for name, field in fields.items() if "/arguments" in name}
    assert arguments and all(field.position is None or result.token_masks[field.position] for field in fields.values())
    special, reader = engine.vocabulary.special_tokens, style.reader(TOOLS)
    reader.read("".join(special.get(id) or engine.vocabulary.decode([id]).decode() for id in result.tokens))
    for name, value in json.loads(reader.calls[0].arguments).items():
        assert json.loads(arguments[f"/0/arguments/{name}"].text) == value
    assert sum(field.choices for field in fields.values()) <= sum(result.token_masks)
