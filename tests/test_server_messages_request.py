"""Requests of `/v1/messages`: their conversion to conversations, refusals, and the field names in errors."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("pydantic", reason="pydantic is not installed")

from guided.chat.conversation import MessageError  # noqa: E402
from guided.errors import BudgetError, SpecError, UnsupportedError  # noqa: E402
from guided.server.anthropic.messages_request import CountTokensRequest, MessagesRequest  # noqa: E402
from guided.server.http.errors import RequestError  # noqa: E402
from guided.server.openai.reading import read_request  # noqa: E402
from guided.server.openai.requests import ConstraintFields  # noqa: E402

SAY = {"role": "user", "content": "x"}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": [1, "é"]}}
OTHER = {**USE, "id": "t2", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "4"}
SECOND = {"type": "tool_result", "tool_use_id": "t2"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "unsigned"}
SECRET = {"type": "redacted_thinking", "data": "Zm9v"}
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": True}
SCHEMA = {"type": "object", "properties": {"a": {"enum": [None]}}}
FORMAT = {"format": {"type": "json_schema", "schema": SCHEMA}}
CALL = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a": [1, "é"]}'}}
THINK = {"type": "enabled", "budget_tokens": 1024}
OFF = {"chat_template_kwargs": {"enable_thinking": False}}


def text(words, **more):
    return {"type": "text", "text": words, **more}


def turns(*messages):
    """Messages of the user and the assistant in turn, with these contents."""
    return [{"role": ("user", "assistant")[number % 2], "content": each} for number, each in enumerate(messages)]


def read(**body) -> MessagesRequest:
    return read_request(MessagesRequest, {"model": "m", "max_tokens": 2000, "messages": [SAY], **body})


def said(**body):
    return read(**body).chat_body()["messages"]


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        (turns("x"), [SAY]),
        (turns([text("x"), text("y", cache_control={"type": "ephemeral", "ttl": "1h"}, citations=None)]),
            [{"role": "user", "content": "xy"}]),
        (turns("x", [THOUGHT, SECRET, text("a"), USE], [RESULT, text("go on")]), [
            SAY,
            {"role": "assistant", "content": "a", "tool_calls": [CALL], "reasoning": "hm"},
            {"role": "tool", "tool_call_id": "t1", "content": "4"},
            {"role": "user", "content": "go on"}]),
        (turns("x", [{**USE, "caller": {"type": "direct"}, "toolset_name": None}],
               [{**RESULT, "content": [text("4"), text("2")], "is_error": True}]), [
            SAY,
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "t1", "content": "Error: 42"}]),
        (turns("x", [USE, OTHER], [SECOND, {**RESULT, "is_error": False}]), [
            SAY,
            {"role": "assistant", "content": "", "tool_calls": [
                CALL, {"id": "t2", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "t2", "content": ""},
            {"role": "tool", "tool_call_id": "t1", "content": "4"}]),
        (turns("x", "a", "y", "b", "z"), [
            SAY, {"role": "assistant", "content": "a"}, {"role": "user", "content": "y"},
            {"role": "assistant", "content": "b"}, {"role": "user", "content": "z"}]),
        ([SAY, {"role": "system", "content": [text("Be.")]}, SAY], [SAY, {"role": "system", "content": "Be."}, SAY]),
        (turns([]), [{"role": "user", "content": ""}]),
    ],
)  # fmt: skip
def test_messages_match_a_conversation(messages, wanted):
    assert said(messages=messages) == wanted
    system = {"role": "system", "content": "Be brief."}
    for given in ("Be brief.", [text("Be "), text("brief.", cache_control={"type": "ephemeral"})]):
        assert said(messages=messages, system=given) == [system, *wanted]
    assert said(messages=messages, system="") == said(messages=messages, system=[]) == wanted
    counted = read_request(CountTokensRequest, {"model": "m", "messages": messages})
    assert counted.chat_body()["messages"] == wanted
    read(messages=messages).to_chat_request()


def test_an_answer_continues_the_last_message_of_the_assistant():
    body = read(messages=turns("x", "It is a")).chat_body()
    assert body["messages"][-1] == {"role": "assistant", "content": "It is a"}
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert "continue_final_message" not in read().chat_body()
    assert read(messages=turns("x", "It"), thinking={"type": "disabled"}).chat_body().items() >= OFF.items()


def test_tools_match_a_conversation():
    inner = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
    body = read(tools=[{**TOOL, "type": "custom", "cache_control": {"type": "ephemeral"}}]).chat_body()
    assert body["tools"] == [{"type": "function", "function": inner}]
    assert not body.keys() & {"tool_choice", "parallel_tool_calls"}
    small = {"name": "f", "input_schema": {}}
    harmless = {"type": None, "allowed_callers": ["direct"], "defer_loading": False, "eager_input_streaming": True,
                "input_examples": []}  # fmt: skip
    body = read(tools=[{**small, **harmless}]).chat_body()
    assert body["tools"] == [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    assert "tools" not in read(tools=[]).chat_body()


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_choices_match_a_conversation(choice, wanted):
    body = read(tools=[TOOL], tool_choice=choice).chat_body()
    assert body["tool_choice"] == wanted and "parallel_tool_calls" not in body
    if choice["type"] != "none":
        one = read(tools=[TOOL], tool_choice={**choice, "disable_parallel_tool_use": True})
        assert one.chat_body()["parallel_tool_calls"] is one.to_chat_request().parallel_tool_calls is False
        both = read(tools=[TOOL], tool_choice={**choice, "disable_parallel_tool_use": False}).chat_body()
        assert "parallel_tool_calls" not in both


def test_thinking_is_off_unless_a_request_turns_it_on():
    for given in ({}, {"thinking": None}, {"thinking": {"type": "disabled"}}):
        assert read(**given).chat_body().items() >= OFF.items()
        assert read(**given).to_chat_request().wants_reasoning() is False
    on = read(thinking=THINK).to_chat_request()
    assert on.wants_reasoning() is True and on.think_first == 1024 and on.include_reasoning
    adaptive = read(thinking={"type": "adaptive"}).to_chat_request()
    assert adaptive.wants_reasoning() is None and adaptive.think_first is None
    for kind in (THINK, {"type": "adaptive"}):
        hidden, shown = (read(thinking={**kind, "display": display}) for display in ("omitted", "summarized"))
        assert (hidden.shows_thinking, hidden.to_chat_request().include_reasoning) == (False, False)
        assert (shown.shows_thinking, shown.to_chat_request().include_reasoning) == (True, True)


def test_formats_and_numbers_match_a_conversation():
    chat = read(
        output_config={**FORMAT, "effort": "high"}, max_tokens=7, temperature=0, top_p=0.5, top_k=4,
        stop_sequences=["a", "b"], metadata={"user_id": "u"}, service_tier="standard_only", speed="standard",
        cache_control={"type": "ephemeral"}, stream=True,
    ).to_chat_request()  # fmt: skip
    assert chat.response_format["json_schema"]["schema"] == SCHEMA
    assert chat.max_tokens == 7
    assert chat.options() == {"temperature": 0, "top_p": 0.5, "top_k": 4, "stop": ["a", "b"]}
    assert (chat.stream, chat.metadata) == (False, None), "what says nothing of the text stays here"
    assert read().to_chat_request().options() == {"temperature": 1.0}
    assert read(top_k=0, stop_sequences=[]).to_chat_request().options() == {"temperature": 1.0}
    for name in ConstraintFields.model_fields.keys() - {"response_format"}:
        assert read(**{name: "x"}).chat_body()[name] == "x", "what constrains a text is read here, too"


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
SERVER = {"type": "web_search_20250305", "name": "web_search"}


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"model": None}, "model", "valid string"),
        ({"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
        ({"max_tokens": None}, "max_tokens", "valid integer"),
        ({"temperature": 1.5}, "temperature", "less than or equal to 1"),
        ({"top_p": 0}, "top_p", "greater than 0"),
        ({"top_k": -1}, "top_k", "greater than or equal to 0"),
        ({"stop_sequences": "a"}, "stop_sequences", "valid list"),
        ({"stop_sequences": ["a"] * 129}, "stop_sequences", "at most 128"),
        ({"messages": []}, "messages", "at least one message"),
        ({"messages": "x"}, "messages", "at least one message, not 'x'"),
        ({"messages": [5]}, "messages.0", "an object, not 5"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "'user', 'assistant' or 'system'"),
        ({"messages": [{"role": "user"}]}, "messages.0.content", "messages.0.content: Field required"),
        ({"messages": [{**SAY, "nam": 1}]}, "messages.0.nam", "unknown field 'nam'"),
        ({"messages": turns([IMAGE])}, "messages.0.content.0.type", "blocks of the user are text and tool_result"),
        ({"messages": turns([{"type": "document"}])}, "messages.0.content.0.type", 'write {"type": "text", "text"'),
        ({"messages": turns("x", [{"type": "server_tool_use"}])}, "messages.1.content.0.type", "redacted_thinking"),
        ({"messages": turns("x", [RESULT])}, "messages.1.content.0.type", "blocks of the assistant are"),
        ({"messages": turns([USE])}, "messages.0.content.0.type", "blocks of the user"),
        ({"messages": turns([{"type": "text"}])}, "messages.0.content.0.text", "Field required"),
        ({"messages": turns([text("x", txt=1)])}, "messages.0.content.0.txt", "did you mean text?"),
        ({"messages": turns([text("x", citations=[{}])])}, "messages.0.content.0.citations", "does not see citations"),
        ({"messages": turns("x", [USE], [{**RESULT, "content": [IMAGE]}])}, "messages.2.content.0.content.0.type",
            "messages.2.content.0.content.0.type is 'image': this server reads only text"),
        ({"messages": turns("x", [{**USE, "input": "{}"}])}, "messages.1.content.0.input", "an object"),
        ({"messages": turns("x", [{**USE, "caller": {"type": "code_execution_20250825"}}])},
            "messages.1.content.0.caller", "only the model calls tools"),
        ({"messages": turns("x", [{"type": "thinking", "thinking": "a"}])}, "messages.1.content.0.signature", "requ"),
        ({"messages": turns("x", [USE])}, "messages.1.content.0", "must begin with a tool_result for the call 't1'"),
        ({"messages": turns("x", [USE, OTHER], [RESULT])}, "messages.1.content.1", "tool_result for the call 't2'"),
        ({"messages": turns("x", [USE], "y")}, "messages.1.content.0", "must begin with a tool_result"),
        ({"messages": turns([RESULT])}, "messages.0.content.0.tool_use_id", "has no other call 't1'"),
        ({"messages": turns("x", [USE], [RESULT, RESULT])}, "messages.2.content.1.tool_use_id", "no other call 't1'"),
        ({"messages": turns("x", [USE], [text("y"), RESULT])}, "messages.2.content.1", "before the other blocks"),
        ({"messages": turns("x", [USE, USE], [RESULT])}, "messages.1.content.1.id", "has the same id 't1'"),
        ({"system": [IMAGE]}, "system.0.type", "system.0.type is 'image': this server reads only text"),
        ({"system": 5}, "system", "system: Input should be"),
        ({"tools": [SERVER]}, "tools.0.type", "this server has no tools of its own"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools.0.type", "describe a tool with an input_sch"),
        ({"tools": [{"name": "f"}]}, "tools.0.input_schema", "tools.0.input_schema: Field required"),
        ({"tools": [{**TOOL, "parameters": {}}]}, "tools.0.parameters", "unknown field"),
        ({"tools": [{**TOOL, "defer_loading": True}]}, "tools.0.defer_loading", "the model sees all tools"),
        ({"tools": [{**TOOL, "input_examples": [{}]}]}, "tools.0.input_examples", "into the description"),
        ({"tools": [TOOL] * 513}, "tools", "at most 512"),
        ({"tools": 5}, "tools", "valid list"),
        ({"tool_choice": {"type": "any"}}, "tool_choice", "tool_choice requires tools"),
        ({"tool_choice": {"type": "auto"}, "tools": []}, "tool_choice", "tool_choice requires tools"),
        ({"tool_choice": "auto"}, "tool_choice", "an object, not 'auto'"),
        ({"tool_choice": {"type": "required"}}, "tool_choice.type", "auto, any, tool, none"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name", "Field required"),
        ({"thinking": {"type": "between_tools"}}, "thinking.type", "known types are enabled, adaptive, disabled"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens", "Field required"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1023}}, "thinking.budget_tokens", "equal to 1024"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "thinking.budget_tokens", "raise max_tokens"),
        ({"thinking": THINK, "messages": turns("x", "It")}, "thinking", "cannot be combined with a final assistant"),
        ({"thinking": {"type": "adaptive"}, "messages": turns("x", "It")}, "thinking", "with a final assistant"),
        ({"output_config": FORMAT, "messages": turns("x", "It")}, "output_config.format", "which the answer continues"),
        ({"output_config": {"effort": "low"}}, "output_config.effort", "budget_tokens limits the length"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema", "Field required"),
        ({"output_config": {"format": {"type": "text"}}}, "output_config.format.type", "'json_schema'"),
        ({"output_format": {"type": "json_schema"}}, "output_format", 'write "output_config": {"format": ...}'),
        ({"response_format": {"type": "text"}}, "response_format", 'write "output_config": {"format": ...}'),
        ({"stop": ["a"]}, "stop", "this API calls it stop_sequences"),
        ({"mcp_servers": []}, "mcp_servers", "this server calls no tools"),
        ({"thread": {"type": "create"}}, "thread", "send all messages, without thread"),
        ({"container": "c"}, "container", "this server runs no code"),
        ({"diagnostics": {}}, "diagnostics", "does not report"),
        ({"speed": "fast"}, "speed", "only one speed"),
        ({"service_tier": "priority"}, "service_tier", "standard_only"),
        ({"metadata": {"user": "u"}}, "metadata.user", "did you mean user_id?"),
        ({"cache_control": {"type": "forever"}}, "cache_control.type", "ephemeral"),
        ({"temprature": 1}, "temprature", "did you mean temperature?"),
        ({"choice": ["a"]}, "choice", '"structured_outputs": {"choice": ...}'),
    ],
)  # fmt: skip
def test_refusals_have_a_location_and_a_hint(body, param, message):
    with pytest.raises(RequestError) as caught:
        read(**body).to_chat_request()
    assert caught.value.status == 400
    assert caught.value.param == param, (caught.value.param, caught.value.message)
    assert message in caught.value.message


def test_counting_tokens_accepts_only_fields_of_the_prompt():
    for name in ("max_tokens", "stream", "temperature", "stop_sequences", "metadata", "regex"):
        with pytest.raises(RequestError, match="unknown field"):
            read_request(CountTokensRequest, {"model": "m", "messages": [SAY], name: 1})
    missing = {"model": "m", "messages": [SAY]}
    with pytest.raises(RequestError, match="max_tokens: Field required"):
        read_request(MessagesRequest, missing)


@pytest.mark.parametrize(
    ("error", "param", "message"),
    [
        (RequestError("response_format.json_schema has no schema", param="response_format.json_schema.schema"),
            "output_config.format.schema", "output_config.format has no schema"),
        (RequestError("stop ends free text, so it cannot be combined with tools", param="stop"),
            "stop_sequences", "stop_sequences ends free text, so it cannot be combined with tools"),
        (RequestError("this model stops", param="chat_template_kwargs"), "thinking", "this model stops"),
        (RequestError("x", param="messages.0.content"), "system", "x"),
        (RequestError("x", param="messages.2.tool_calls.0.id"), "messages.1", "x"),
        (MessageError(3, "content", "is too long"), "messages.2.content.0", "messages.2.content.0 is too long"),
        (MessageError(4, "role", "is wrong"), "messages.2", "messages.2 is wrong"),
        (RequestError("x", param="tools/3/function/parameters/minimum"), "tools/3/input_schema/minimum", "x"),
        (RequestError("x", param="tools/0/function/name"), "tools/0/name", "x"),
        (RequestError("x", param="tool_choice/function/name"), "tool_choice/name", "x"),
        (RequestError("x", code="overloaded", status=503, retry_after=7), None, "x"),
        (BudgetError(30, 5), "max_tokens", "set max_tokens to 30 or more"),
    ],
)  # fmt: skip
def test_errors_of_the_conversation_have_the_names_of_the_request(error, param, message):
    asked = read(messages=turns("x", [THOUGHT, USE], [RESULT, text("y")]), system="Be.")
    assert [each["role"] for each in asked.chat_body()["messages"]] == ["system", "user", "assistant", "tool", "user"]
    with pytest.raises(RequestError) as caught, asked.rename_errors():
        raise error
    assert (caught.value.param, caught.value.retry_after) == (param, getattr(error, "retry_after", None))
    assert message in caught.value.message


@pytest.mark.parametrize("kind", [SpecError, UnsupportedError])
def test_places_in_schemas_of_tools_match_the_request(kind):
    for pointer, here in (
        ("tools/0/function/parameters/properties/stop", "tools/0/input_schema/properties/stop"),
        ("tools/0/function/name", "tools/0/name"),
        ("/properties/tools/0/function", "/properties/tools/0/function"),
    ):
        error = kind("wrong", pointer=pointer, hint="write another")
        with pytest.raises(kind) as caught, read().rename_errors():
            raise error
        assert (caught.value.pointer, error.pointer) == (here, pointer)
