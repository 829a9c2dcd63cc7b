"""Reasoning before the answer, the server's own tools, and JSON that is streamed while it is written: in one stream."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from pydantic import BaseModel

torch = pytest.importorskip("torch", reason="torch is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

import guided  # noqa: E402
from guided.errors import GuidedError  # noqa: E402
from guided.server.app import create_app  # noqa: E402
from guided.server.settings import Settings  # noqa: E402
from tests.server_support import small_engine  # noqa: E402
from tests.test_server_tools import SAY, TOOLS, Weather, checked, run  # noqa: E402

THINK, NANOCHAT = ("<think>", "</think>"), guided.CALCULATOR.tokens
REASONS = {"reasoning_end": "</think>"}
ASK = {"model": "guided", "messages": SAY, "max_tokens": 80, "seed": 1}
OFF = {"chat_template_kwargs": {"enable_thinking": False}}


def thinker():
    return small_engine(4000, more=THINK)


async def streamed(ask, stream_options=None, **options):
    """The contents of a stream, by field, and its usage."""
    text, reasoning, older, results, partials, usage = "", "", "", [], [], None
    asked = {"include_usage": True} | (stream_options or {})
    stream = await ask.chat.completions.create(**options, stream=True, stream_options=asked)
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning", "")
            older += getattr(choice.delta, "reasoning_content", "")
            results += getattr(choice.delta, "tool_results", [])
            if hasattr(choice, "partial"):
                length, end = choice.partial["length"], choice.partial["end"]
                partials.append(json.loads(text[:length] + end) if length else None)
    assert reasoning == older
    return text, reasoning, results, partials, usage


@pytest.mark.parametrize("end", ["</think>", "ab"])
def test_reasoning_has_its_own_field(end):
    async def body(ask):
        for options in (ASK, ASK | {"extra_body": {"regex": "[a-z]{3}"}}):
            whole = await ask.chat.completions.create(**options)
            message, usage = whole.choices[0].message, whole.usage
            assert message.reasoning and message.reasoning == message.reasoning_content
            assert end not in message.content + message.reasoning
            thought = usage.completion_tokens_details.reasoning_tokens
            assert len(message.reasoning) <= thought <= usage.completion_tokens
            assert await streamed(ask, **options) == (message.content, message.reasoning, [], [], usage)
            hidden = await ask.chat.completions.create(
                **{**options, "extra_body": {"include_reasoning": False, **options.get("extra_body", {})}}
            )
            assert not hasattr(hidden.choices[0].message, "reasoning") and hidden.usage == usage
            assert hidden.choices[0].message.content == message.content

    run(body, thinker(), reasoning_end=end)


def test_reasoning_can_be_switched_off():
    async def body(ask):
        on = await ask.chat.completions.create(**ASK)
        for off in ({"extra_body": OFF}, {"extra_body": {"chat_template_kwargs": {"thinking": False}}},
                    {"reasoning_effort": "none"}):  # fmt: skip
            answer = await ask.chat.completions.create(**ASK, **off)
            assert not hasattr(answer.choices[0].message, "reasoning")
            assert answer.usage.completion_tokens_details is None
            # <think>\n is the end of a prompt with reasoning, and <think>\n\n</think>\n\n of one without
            assert answer.usage.prompt_tokens == on.usage.prompt_tokens + 4
        with pytest.raises(openai.BadRequestError, match='only the reasoning_effort "none"'):
            await ask.chat.completions.create(**ASK, reasoning_effort="high")
        with pytest.raises(openai.BadRequestError, match="turns reasoning on, but reasoning_effort turns it off"):
            await ask.chat.completions.create(
                **ASK, reasoning_effort="none", extra_body={"chat_template_kwargs": {"thinking": True}}
            )
        answer = await ask.chat.completions.create(**ASK, stop="x")
        assert answer.warnings == [
            {"message": "stop ends free text only: this answer begins with reasoning", "param": "stop"}
        ]
        await ask.chat.completions.create(**ASK, stop="x", extra_body=OFF)
        with pytest.raises(openai.BadRequestError, match="add_vision"):
            await ask.chat.completions.create(**ASK, extra_body={"chat_template_kwargs": {"add_vision_id": True}})
        with pytest.raises(openai.BadRequestError, match="separate_reasoning"):
            await ask.chat.completions.create(**ASK, extra_body={"separate_reasoning": False})

    run(body, thinker(), **REASONS)


def test_line_ends_after_reasoning_are_not_text_of_a_free_answer():
    async def body(ask):
        options = ASK | {"logit_bias": {"10": 7.0, "97": 7.0, "259": 7.0}, "n": 8}  # "\n", "a", and the end
        answer = await ask.chat.completions.create(**options)
        texts = [each.message.content for each in answer.choices]
        assert any("\n" in text for text in texts) and not any(text.startswith("\n") for text in texts)
        exact = await ask.chat.completions.create(**ASK, extra_body={"regex": "\n\na"})
        assert exact.choices[0].message.content == "\n\na"

    run(body, thinker(), **REASONS)


def test_a_model_that_does_not_reason():
    async def body(ask):
        await ask.chat.completions.create(**ASK, extra_body=OFF)
        with pytest.raises(openai.BadRequestError, match="does not reason"):
            await ask.chat.completions.create(**ASK, extra_body={"chat_template_kwargs": {"enable_thinking": True}})

    run(body)


def test_an_answer_cut_by_the_budget_after_reasoning_is_reported():
    async def body(ask):
        answer = await ask.chat.completions.create(**ASK | {"max_tokens": 30}, n=8)
        ends = {each.finish_reason for each in answer.choices}
        assert "length" in ends
        parsed = await ask.chat.completions.parse(**ASK, response_format=Weather, n=4)
        assert all(each.message.reasoning and isinstance(each.message.parsed, Weather) for each in parsed.choices)
        assert {each.finish_reason for each in parsed.choices} == {"stop"}

    run(body, thinker(), **REASONS)


def test_reasoning_text_and_calls_in_one_stream():
    async def body(ask):
        options = ASK | {"tools": TOOLS, "tool_choice": "required", "max_tokens": 300, "n": 2}
        whole = await ask.chat.completions.parse(**options)
        async with ask.chat.completions.stream(**options) as stream:
            final = await stream.get_final_completion()
        for one, other in zip(whole.choices, final.choices, strict=True):
            assert one.message.reasoning and one.message.reasoning == other.message.reasoning
            assert list(map(checked, one.message.tool_calls)) == list(map(checked, other.message.tool_calls))
            assert one.finish_reason == other.finish_reason == "tool_calls"
        assert whole.usage.completion_tokens_details.reasoning_tokens > 0

    run(body, thinker(), **REASONS)


def test_results_of_the_servers_tools_are_in_the_stream():
    async def body(ask):
        options = ASK | {"logit_bias": {"258": 5.0}, "max_tokens": 200, "seed": 3}
        whole = (await ask.chat.completions.create(**options)).choices[0].message
        assert len(whole.tool_results) > 1
        for number, result in enumerate(whole.tool_results):
            assert (result["index"], result["name"]) == (number, "calculator")
            assert result["result"] in (guided.CALCULATOR.answer(result["arguments"]), "")
        assert any(result["result"] for result in whole.tool_results)
        text, _, results, _, _ = await streamed(ask, **options)
        assert (text, results) == (whole.content, whole.tool_results)
        for without in ({"stop": "x"}, {"tools": TOOLS}, {"extra_body": {"regex": "[a-z]{9}"}}):
            answer = await ask.chat.completions.create(**{**ASK, **without})
            assert not hasattr(answer.choices[0].message, "tool_results")
        whole_text = {"seed": 3, "ignore_eos": True}  # without an end, which a random seed may produce at once
        answer = await ask.responses.create(model="guided", input="x", max_output_tokens=60, extra_body=whole_text)
        assert len(answer.output_text) > 40  # no part of a call is hidden

    run(body, small_engine(4000, more=NANOCHAT), tools=(guided.CALCULATOR,))


def test_tokens_that_the_vocabulary_lacks_are_reported_at_the_start():
    with pytest.raises(GuidedError, match="no control token"):
        create_app(small_engine(), Settings(tools=(guided.CALCULATOR,)))


class Point(BaseModel):
    name: str
    flags: list[bool]


def test_json_is_streamed_while_it_is_written():
    form = {"type": "json_schema", "json_schema": {"name": "p", "schema": Point.model_json_schema()}}

    async def body(ask):
        options = ASK | {"response_format": form, "max_tokens": 120}
        more = {"stream_options": {"include_partial_json": True}}
        text, _, _, partials, _ = await streamed(ask, **options, **more)
        assert partials[-1] == json.loads(text) and len(partials) > 20
        for before, now in pairwise(partials):
            assert before is None or len(before) <= len(now)
            if before and "name" in before:
                assert now["name"].startswith(before["name"])
        assert any(partial and "flags" not in partial for partial in partials)
        with pytest.raises(openai.BadRequestError) as caught:
            await streamed(ask, **ASK, **more)
        assert caught.value.body["param"] == "stream_options.include_partial_json"

    run(body)
