"""Requests of `/v1/responses`: their conversion to conversations, refusals, and the field names in errors."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("pydantic", reason="pydantic is not installed")

from guided.errors import BudgetError, SpecError, UnsupportedError  # noqa: E402
from guided.server.http.errors import RequestError  # noqa: E402
from guided.server.openai.requests import TextRequest, read_request  # noqa: E402
from guided.server.openai.responses_request import InputTokensRequest, ResponsesRequest  # noqa: E402

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "id": "fc_1", "status": "completed"}
SAID = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}]}  # fmt: skip
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "4"}
ASKED = {"role": "user", "content": [{"type": "input_text", "text": "x"}, {"type": "input_text", "text": "y"}]}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def read(**body) -> ResponsesRequest:
    return read_request(ResponsesRequest, {"input": "x", **body})


@pytest.mark.parametrize(
    ("items", "messages"),
    [
        ("x", [{"role": "user", "content": "x"}]),
        ([ASKED], [{"role": "user", "content": "xy"}]),
        ([ASKED, SAID], [{"role": "user", "content": "xy"}, {"role": "assistant", "content": "a"}]),
        ([THOUGHT, SAID, CALL], [
            {"role": "assistant", "content": "a", "reasoning": "t", "tool_calls": [CHAT_CALL]}]),
        ([CALL, CALL, OUTPUT], [
            {"role": "assistant", "content": "", "tool_calls": [CHAT_CALL, CHAT_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "4"}]),
        ([CALL, OUTPUT, CALL], [
            {"role": "assistant", "content": "", "tool_calls": [CHAT_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "4"},
            {"role": "assistant", "content": "", "tool_calls": [CHAT_CALL]}]),
        ([SAID, SAID], [{"role": "assistant", "content": "a"}] * 2),
        ([CALL, SAID], [
            {"role": "assistant", "content": "", "tool_calls": [CHAT_CALL]}, {"role": "assistant", "content": "a"}]),
        ([THOUGHT, CALL, THOUGHT, SAID], [
            {"role": "assistant", "content": "", "reasoning": "t", "tool_calls": [CHAT_CALL]},
            {"role": "assistant", "content": "a", "reasoning": "t"}]),
    ],
)  # fmt: skip
def test_items_are_messages(items, messages):
    assert read(input=items).chat_body()["messages"] == messages
    told = read(input=items, instructions="Be.").chat_body()["messages"]
    assert told == [{"role": "system", "content": "Be."}, *messages]
    counted = read_request(InputTokensRequest, {"input": items}).chat_body()["messages"]
    assert counted == messages


def test_tools_match_a_conversation():
    flat = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
    inner = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
    body = read(tools=[flat], tool_choice={"type": "function", "name": "f"}, parallel_tool_calls=False).chat_body()
    assert body["tools"] == [{"type": "function", "function": inner}]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert body["parallel_tool_calls"] is False
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}
    assert read(tools=[flat], tool_choice=allowed).chat_body()["tool_choice"] == {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
    }
    assert read(tools=[flat]).echoed_fields()["tools"] == [flat]
    none = read(tools=[], tool_choice="auto", parallel_tool_calls=True).chat_body()
    assert not none.keys() & {"tools", "tool_choice", "parallel_tool_calls"}


def test_formats_match_a_conversation():
    schema = {"const": None, "enum": [None]}
    form = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    inner = {"name": "n", "schema": schema, "strict": True}
    asked = read(text={"format": form, "verbosity": "medium"})
    assert asked.chat_body()["response_format"] == {"type": "json_schema", "json_schema": inner}
    assert asked.echoed_fields()["text"] == {"format": form}
    for each in ({"type": "text"}, {"type": "json_object"}, {"type": "lark", "lark": 'start: "a"'}):
        assert read(text={"format": each}).chat_body()["response_format"] == each
    tag = {"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}
    assert read(text={"format": tag}).chat_body()["response_format"] == tag
    assert "response_format" not in read(text={"format": None}).chat_body()


def test_numbers_match_a_conversation():
    asked = read(max_output_tokens=7, temperature=0, seed=3, stop="a", logit_bias={"5": 1}, stream=True, metadata={})
    chat = asked.to_chat_request()
    assert chat.options() == {"temperature": 0, "seed": 3, "stop": "a", "logit_bias": {5: 1}}
    assert (chat.max_tokens, chat.top, chat.stream_options) == (7, None, None)
    assert read(include=["message.output_text.logprobs"]).to_chat_request().top == 0
    assert read(include=["message.output_text.logprobs"], top_logprobs=3).to_chat_request().top == 3
    told = {name for name in TextRequest.model_fields if name in ResponsesRequest.model_fields}
    assert told == TextRequest.model_fields.keys(), "what is common to requests for text is read here, too"


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"previous_response_id": "r"}, "previous_response_id", "send all items"),
        ({"conversation": {"id": "c"}}, "conversation", "send all items"),
        ({"background": True}, "background", "stream it"),
        ({"prompt": {"id": "p"}}, "prompt", "instructions"),
        ({"max_tool_calls": 3}, "max_tool_calls", "leave it out"),
        ({"max_tokens": 3}, "max_tokens", "max_output_tokens"),
        ({"response_format": {"type": "text"}}, "response_format", "text.format"),
        ({"n": 2}, "n", "one answer"),
        ({"n": True}, "n", "one answer"),
        ({"logprobs": True}, "logprobs", "include="),
        ({"top_logprobs": 2}, "top_logprobs", "include="),
        ({"top_logprobs": 2, "include": ["reasoning.encrypted_content"]}, "top_logprobs", "include="),
        ({"include": ["file_search_call.results"]}, "include.0", "message.output_text.logprobs"),
        ({"truncation": "always"}, "truncation", "disabled"),
        ({"service_tier": "priority"}, "service_tier", "default"),
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary", "None"),
        ({"text": {"verbosity": "low"}}, "text.verbosity", "medium"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema", "required"),
        ({"text": {"format": {"type": "jsn"}}}, "text.format.type", "json_schema"),
        ({"text": {"format": 5}}, "text.format", "an object, not 5"),
        ({"text": {"format": {"type": "lark", "lark": 5}}}, "text.format.lark", "text.format.lark: Input should be"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type", "describe a function"),
        ({"tools": [{"type": "function", "name": "f", "function": {}}]}, "tools.0.function", "unknown field"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice.type", "describe a function"),
        ({"tool_choice": "required"}, "tool_choice", "requires tools"),
        ({"tool_choice": "maybe"}, "tool_choice", "none, auto, required or a tool"),
        ({"tool_choice": 5}, "tool_choice", "an object, not 5"),
        ({"input": 5}, "input", "a string, or a list"),
        ({"tools": 5}, "tools", "valid list"),
        ({"input": []}, "input", "at least one item"),
        ({"input": [5]}, "input.0", "an object, not 5"),
        ({"input": [ASKED, {"type": "item_reference", "id": "x"}]}, "input.1.type", "send all items"),
        ({"input": [{"type": "image_generation_call"}]}, "input.0.type", "known types are message, function_call"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input.0.content.0.type", "only text"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input.0.content.0.text",
            "input.0.content.0.text: Field required"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input.0.role", "user"),
        ({"input": [{**CALL, "arguments": {}}]}, "input.0.arguments", "valid string"),
        ({"input": [{**OUTPUT, "output": [{"type": "input_file"}]}]}, "input.0.output.0.type", "only text"),
        ({"input": [{**ASKED, "nam": "x"}]}, "input.0.nam", "unknown field 'nam'"),
        ({"metadata": {"a": 5}}, "metadata.a", "valid string"),
        ({"stream_options": {"include_usage": True}, "stream": True}, "stream_options.include_usage", "False"),
        ({"temprature": 1}, "temprature", "did you mean temperature?"),
    ],
)  # fmt: skip
def test_refusals_have_a_location_and_a_hint(body, param, message):
    with pytest.raises(RequestError) as caught:
        read(**body).to_chat_request()
    assert caught.value.status == 400
    assert caught.value.param == param, (caught.value.param, caught.value.message)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "body",
    [
        {"previous_response_id": None, "conversation": None, "background": False, "prompt": None, "n": 1},
        {"store": True, "service_tier": "auto", "truncation": "disabled", "prompt_cache_key": "k", "user": "u"},
        {"truncation": "auto", "include": ["reasoning.encrypted_content"]},
        {"reasoning": {}, "include": [], "max_tool_calls": None, "stream_options": {"include_obfuscation": False},
            "stream": True},
    ],
)  # fmt: skip
def test_fields_without_effect_are_accepted(body):
    asked = read(**body)
    chat = asked.to_chat_request()
    assert chat.messages[0].content == "x" and chat.top is None
    echoed = asked.echoed_fields()
    assert (echoed["store"], echoed["truncation"]) == (False, "disabled")  # what the server does


@pytest.mark.parametrize(
    ("error", "param", "message"),
    [
        (RequestError("response_format.json_schema has no schema", param="response_format.json_schema.schema"),
            "text.format.schema", "text.format has no schema"),
        (RequestError("x", param="messages.2.tool_calls.0.id"), "input.1", "x"),
        (RequestError("message 3: no earlier call has the id", param="messages"), "messages",
            "input.3: no earlier call has the id"),
        (RequestError("x", param="messages.0.content"), "instructions", "x"),
        (RequestError("x", param="tools/3/function/parameters/minimum"), "tools/3/parameters/minimum", "x"),
        (RequestError("x", param="tools.3.function.parameters"), "tools.3.parameters", "x"),
        (RequestError("x", param="tool_choice.function.name"), "tool_choice.name", "x"),
        (RequestError("x", param="reasoning_effort"), "reasoning.effort", "x"),
        (RequestError("x"), None, "x"),
        (BudgetError(30, 5), "max_output_tokens", "set max_output_tokens to 30 or more"),
    ],
)  # fmt: skip
def test_errors_of_the_conversation_have_the_names_of_the_request(error, param, message):
    asked = read(input=[ASKED, THOUGHT, CALL, OUTPUT], instructions="Be.")
    places = [each["role"] for each in asked.chat_body()["messages"]]
    assert places == ["system", "user", "assistant", "tool"]
    with pytest.raises(RequestError) as caught, asked.rename_errors():
        raise error
    assert caught.value.param == param
    assert message in caught.value.message
    assert asked.rename_param("response_format.json_schema.schema") == "text.format.schema"
    assert asked.rename_param("") is None


@pytest.mark.parametrize("kind", [SpecError, UnsupportedError])
def test_places_in_schemas_of_tools_match_the_request(kind):
    for pointer, here in (
        ("tools/0/function/parameters/properties/max_tokens", "tools/0/parameters/properties/max_tokens"),
        ("/properties/tools/0/function", "/properties/tools/0/function"),
    ):
        error = kind("wrong", pointer=pointer, hint="write another")
        with pytest.raises(kind) as caught, read().rename_errors():
            raise error
        assert (caught.value.pointer, error.pointer) == (here, pointer)
        assert str(caught.value) == f"wrong (at {here})\nhint: write another"
