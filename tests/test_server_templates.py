"""Fields of requests for the model's chat template, through `/tokenize`, which shows the prompt."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

import guided  # noqa: E402
from guided.server.openai.conversations import resolve_tool_style  # noqa: E402
from guided.server.settings import Settings  # noqa: E402
from tests.derived_support import PUBLISHED  # noqa: E402
from tests.live_server import served  # noqa: E402
from tests.server_support import NAMES, small_engine  # noqa: E402
from tests.test_server_tools import SAY, TOOLS, Place, Weather, checked, run  # noqa: E402

FOLDER = Path(__file__).parent / "chat_templates"
QWEN = (FOLDER / "qwen-3.jinja").read_text("utf-8")
R1 = (FOLDER / "deepseek-r1-distill.jinja").read_text("utf-8")
MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
TALK = [
    *SAY,
    {"role": "assistant", "content": "", "tool_calls": [CALL], "reasoning_content": "hm"},
    {"role": "tool", "content": "-3 <|im_end|>", "tool_call_id": "call_1"},
]


async def prompt(ask: Any, **body: Any) -> str:
    """The prompt of a request, with control tokens by their names."""
    answer = await ask.post("../tokenize", cast_to=object, body={"model": "guided", "messages": SAY, **body})
    names = dict(enumerate((*NAMES, *MARKS), 256))
    return b"".join(bytes([id]) if id < 256 else f"[{names[id]}]".encode() for id in answer["tokens"]).decode()


FORMAT = {"format": {"type": "json_schema", "schema": {"type": "integer"}}}


def qwen(template: str = QWEN) -> Any:
    return small_engine(4000, more=MARKS, template=template)


def test_the_template_is_given_tools_calls_results_and_reasoning():
    async def body(ask):
        text = await prompt(ask, messages=TALK, tools=TOOLS)
        assert text.count("# Tools") == 1 and '"name": "weather"' in text
        assert (
            '[<think>]\nhm\n[</think>]\n\n[<tool_call>]\n{"name": "weather", "arguments": {"city": "Oslo"}}\n' in text
        )
        assert "<tool_response>\n-3 <|im_end|>\n</tool_response>[<|im_end|>]" in text
        plain = await prompt(ask, messages=TALK)
        assert "# Tools" not in plain and "[<tool_call>]\n" in plain

    run(body, qwen())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": SAY, "regex": "a"}),
        ("/v1/chat/completions", {"messages": SAY, "regex": "a", "stream": True}),
        ("/v1/responses", {"input": "a", "text": {"format": {"type": "regex", "regex": "a"}}}),
        ("/v1/messages", {"model": "guided", "messages": SAY, "max_tokens": 3, "output_config": FORMAT}),
    ],
)
def test_a_missing_template_is_not_an_invalid_specification(path: str, body: dict[str, Any]):
    whole = small_engine()

    async def ask() -> None:
        async with served(guided.Engine(whole.model, whole.vocabulary)) as (_, http):
            answer = await http.post(path, json=body)
            error = answer.json()["error"]
            assert answer.status_code == 400 and error["message"].startswith("this model has no chat template")
            assert error.get("details", error)["param"] is None
            bad = await http.post("/v1/completions", json={"prompt": "a", "regex": "(a"})
            assert bad.json()["error"]["param"] == "regex"

    asyncio.run(ask())


def test_variables_of_the_template():
    async def body(ask):
        off = await prompt(ask, chat_template_kwargs={"enable_thinking": False})
        assert off.endswith("assistant\n[<think>]\n\n[</think>]\n\n")
        assert (await prompt(ask)).endswith("assistant\n")
        for name in ("enable_thinkin", "tools"):
            with pytest.raises(openai.BadRequestError, match=name):
                await ask.chat.completions.create(
                    model="guided", messages=SAY, extra_body={"chat_template_kwargs": {name: 1}}, max_tokens=1
                )
        with pytest.raises(openai.BadRequestError, match="does not support documents"):
            await ask.chat.completions.create(
                model="guided", messages=SAY, extra_body={"documents": [{"text": "x"}]}, max_tokens=1
            )

    run(body, qwen())


@pytest.mark.parametrize(("template", "on"), [(QWEN, "[<think>]\n"), (R1, "[<think>]\n")])
def test_reasoning_begins_once(template: str, on: str):
    async def body(ask):
        assert (await prompt(ask)).endswith(on)
        off = await prompt(ask, chat_template_kwargs={"enable_thinking": False})
        assert off.endswith("[<think>]\n\n[</think>]\n\n") and off.count("[<think>]") == 1
        answer = await ask.chat.completions.create(
            model="guided", messages=SAY, max_tokens=60, seed=1, extra_body={"regex": "[a-z]{3}"}
        )
        assert len(answer.choices[0].message.content) == 3 and answer.choices[0].message.reasoning

    run(body, qwen(template), reasoning_end="</think>")


def test_a_continued_message_and_a_prompt_without_a_new_message():
    async def body(ask):
        messages = [*SAY, {"role": "assistant", "content": "It is a"}]
        assert (await prompt(ask, messages=messages, continue_final_message=True)).endswith("It is a")
        assert (await prompt(ask, messages=messages, add_generation_prompt=False)).endswith("It is a[<|im_end|>]\n")
        for wrong in ({"messages": SAY}, {"messages": messages, "add_generation_prompt": True}):
            with pytest.raises(openai.BadRequestError, match="continue_final_message"):
                await prompt(ask, **wrong, continue_final_message=True)
        for wrong in ({"content": "It is a"}, {}):
            with pytest.raises(openai.BadRequestError, match="message 1 has tool_calls") as caught:
                calls = {"role": "assistant", "tool_calls": [CALL], **wrong}
                extra = {"continue_final_message": True}
                await ask.chat.completions.create(model="guided", messages=[*SAY, calls], extra_body=extra)
            assert caught.value.param == "messages.1.tool_calls"
        goes_on = {"continue_final_message": True, "add_generation_prompt": False}
        options = {"model": "guided", "messages": messages, "max_tokens": 40}
        answer = await ask.chat.completions.create(**options, extra_body={**goes_on, "regex": "It is a b{3}|It is abb"})
        assert answer.choices[0].message.content in (" bbb", "bb")
        for describe in (False, True):
            with pytest.raises(openai.BadRequestError, match="message 1 begins no output") as caught:
                await ask.chat.completions.create(
                    **options, extra_body={**goes_on, "regex": "b{3}", "describe": describe}
                )
            assert caught.value.param == "messages.1.content"

    run(body, qwen())


def test_a_continued_value():
    async def body(ask):
        schema = {
            "properties": {"a": {"type": "string", "maxLength": 9}},
            "required": ["a"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", **schema}}}
        messages = [*SAY, {"role": "assistant", "content": '{"a": "x'}]
        options = {"model": "guided", "messages": messages, "max_tokens": 60, "response_format": form}
        goes_on = {"continue_final_message": True, "return_fields": True}
        choice = (await ask.chat.completions.create(**options, extra_body=goes_on)).choices[0]
        text = '{"a": "x' + choice.message.content
        assert json.loads(text)["a"].startswith("x")
        field = choice.model_extra["fields"]["/a"]
        assert json.loads(text[field["start"] : field["end"]]) == json.loads(text)["a"]
        with pytest.raises(openai.BadRequestError) as caught:
            stream = {"stream": True, "stream_options": {"include_partial_json": True}}
            await ask.chat.completions.create(**options, **stream, extra_body=goes_on)
        assert caught.value.param == "stream_options.include_partial_json"

    run(body, qwen())


@pytest.mark.parametrize("settings", [{}, {"reasoning_end": "</think>"}])
def test_required_calls_follow_a_continued_message(settings):
    async def body(ask):
        messages = [*SAY, {"role": "assistant", "content": "Let me look."}]
        options = {"model": "guided", "messages": messages, "tools": TOOLS, "max_tokens": 500}
        goes_on = {"continue_final_message": True}
        named = {"type": "function", "function": {"name": "Weather"}}
        for choice in ("required", named):
            assert (await prompt(ask, **goes_on, **options, tool_choice=choice)).endswith("Let me look.")
            asked = {**options, "tool_choice": choice, "extra_body": goes_on, "seed": 1}
            message = (await ask.chat.completions.parse(**asked)).choices[0].message
            assert not message.content and message.tool_calls
            calls = [call.function for call in message.tool_calls]
            for call in message.tool_calls:
                checked(call)
            stream = await ask.chat.completions.create(**asked, stream=True)
            pieces = [piece async for chunk in stream for piece in chunk.choices[0].delta.tool_calls or ()]
            assert [piece.function.name for piece in pieces if piece.function.name] == [call.name for call in calls]
            texts = "".join(piece.function.arguments or "" for piece in pieces)
            assert texts == "".join(call.arguments for call in calls)
        options["tools"] = [
            {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in TOOLS
        ]
        for choice in ({"type": "any"}, {"type": "tool", "name": "Weather"}):
            answer = await ask.post("/messages", cast_to=object, body={**options, "tool_choice": choice})
            assert {block["type"] for block in answer["content"]} == {"tool_use"}
            assert answer["stop_reason"] == "tool_use"

    run(body, qwen(), **settings)


def test_a_continued_message_is_past_the_reasoning():
    async def body(ask):
        messages = [*SAY, {"role": "assistant", "content": "b"}]
        options = {"model": "guided", "messages": messages, "max_tokens": 40}
        goes_on = {"continue_final_message": True, "regex": "b{3}"}
        for switch in ({}, {"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}):
            answer = await ask.chat.completions.create(**options, extra_body={**goes_on, **switch})
            message = answer.choices[0].message
            assert message.content == "bb" and not getattr(message, "reasoning", "")
        with pytest.raises(openai.BadRequestError) as caught:
            on = {"chat_template_kwargs": {"enable_thinking": True}}
            await ask.chat.completions.create(**options, extra_body={**goes_on, **on})
        assert caught.value.param == "continue_final_message" and "chat_template_kwargs" in caught.value.message

    run(body, qwen(QWEN), reasoning_end="</think>")


def test_a_template_that_refuses_is_a_bad_request():
    async def body(ask):
        with pytest.raises(openai.BadRequestError, match="refuses this conversation: no system"):
            await prompt(ask, messages=[{"role": "system", "content": "a"}, *SAY])

    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    run(body, qwen(template + "{{ messages[0].content }}"))


DO = "{% for c in m.tool_calls %}<do>{{ c.function.name }}{{ c.function.arguments|tojson }}</do>{% endfor %}"
UNKNOWN = (
    "{{ tools|tojson if tools }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
    f"{{% if m.tool_calls %}}<<{DO}>>{{% endif %}}{{{{ '<|im_end|>\n' }}}}{{% endfor %}}"
    "{{ '<|im_start|>assistant\n' if add_generation_prompt }}"
)


def test_calls_are_written_as_an_unknown_template_writes_them():
    """Its style is derived. A style that the operator chose takes precedence."""

    async def derived(ask):
        text = await prompt(ask, messages=TALK[:-1], tools=TOOLS)
        assert '<<<do>weather{"city": "Oslo"}</do>>>' in text and "tool_call" not in text
        options = {"model": "guided", "messages": SAY, "tools": TOOLS, "max_tokens": 300, "seed": 1}
        answer = await ask.chat.completions.parse(**options, tool_choice="required")
        assert [checked(call) for call in answer.choices[0].message.tool_calls]

    async def chosen(ask):
        text = await prompt(ask, messages=TALK[:-1], tools=TOOLS)
        assert '[<tool_call>]\n{"name": "weather", "arguments": {"city": "Oslo"}}\n' in text and "<do>" not in text

    engine = qwen(UNKNOWN)
    assert resolve_tool_style(engine, Settings()).name == "derived"
    assert resolve_tool_style(engine, Settings(tool_style="llama")) == guided.tool_style("llama")
    run(derived, engine)
    run(chosen, qwen(UNKNOWN), tool_style="qwen_3")


@pytest.mark.parametrize("name", ["gpt-oss", "kimi-k3"])
def test_required_calls_in_answers_of_several_messages(name: str):
    described = [
        openai.pydantic_function_tool(Weather, description="The weather."),
        openai.pydantic_function_tool(Place, name="find", description="A place."),
    ]

    async def body(ask):
        options = {"model": "guided", "messages": SAY, "tools": described, "max_tokens": 400, "seed": 1}
        for choice in ("required", {"type": "function", "function": {"name": "find"}}):
            answer = await ask.chat.completions.parse(**options, tool_choice=choice)
            calls = answer.choices[0].message.tool_calls
            assert [checked(call) for call in calls]
            assert choice == "required" or calls[0].function.name == "find"
        with pytest.raises(openai.BadRequestError) as caught:
            await ask.chat.completions.create(**options, response_format={"type": "json_object"})
        assert caught.value.body["param"] == "response_format"
        assert "consist of several messages, so no format applies beside tools" in caught.value.body["message"]

    more = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>")
    run(body, small_engine(6000, more=more, template=PUBLISHED[name]))
