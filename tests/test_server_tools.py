"""Functions that a model may call, requested by the official client, whose types and helpers judge the answers."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from typing import Literal

import pytest
from pydantic import BaseModel

from tests.effort import draws, every

torch = pytest.importorskip("torch", reason="torch is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

import guided  # noqa: E402
from guided.errors import GuidedError  # noqa: E402
from guided.server.app import create_app  # noqa: E402
from guided.server.openai.structured import StructuredOutput  # noqa: E402
from guided.server.openai.tools import Functions  # noqa: E402
from guided.server.settings import Settings  # noqa: E402
from tests.live_server import served  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

SAY = [{"role": "user", "content": "Say something."}]


class Weather(BaseModel):
    days: int
    unit: Literal["C", "F"]


class Place(BaseModel):
    inside: Place | None
    lat: bool | int


TOOLS = [openai.pydantic_function_tool(Weather), openai.pydantic_function_tool(Place, name="find")]
NAMED = {"type": "function", "function": {"name": "find"}}
BOTH = {"model": "guided", "messages": SAY, "tools": TOOLS, "max_tokens": 500}


@asynccontextmanager
async def client(engine=None, **settings):
    """OpenAI's client for a running application."""
    async with served(engine or small_engine(4000), **settings) as (_, http):
        yield openai.AsyncOpenAI(api_key="k", base_url="http://t/v1", http_client=http, max_retries=0)


def run(body, engine=None, **settings):
    async def whole():
        async with client(engine, **settings) as ask:
            await body(ask)

    asyncio.run(whole())


def checked(call, ids="call_[0-9a-f]{24}"):
    """Check that the arguments of a call are an instance of its model."""
    assert re.fullmatch(ids, call.id) and call.type == "function"
    kind = {"Weather": Weather, "find": Place}[call.function.name]
    assert isinstance(call.function.parsed_arguments, kind)
    assert kind.model_validate_json(call.function.arguments) == call.function.parsed_arguments
    return call.function.name


@pytest.mark.parametrize("more", [(), ("<tool_call>", "</tool_call>")])
def test_every_choice(more):
    async def body(ask):
        called, bias = set(), {str(ord("W")): 1.0}  # else all calls are of the other function
        for choice, reason in (("required", "tool_calls"), (NAMED, "stop")):
            answer = await ask.chat.completions.parse(**BOTH, tool_choice=choice, n=16, seed=1, logit_bias=bias)
            assert answer.usage.prompt_tokens > len(json.dumps(TOOLS))  # a token for each byte
            for each in answer.choices:
                assert each.finish_reason == reason and each.message.content is None
                names = [checked(call) for call in each.message.tool_calls]
                called |= set(names)
                assert choice == "required" or names == ["find"]
        assert called == {"Weather", "find"}
        answer = await ask.chat.completions.create(**BOTH | {"max_tokens": 40}, tool_choice="none", seed=1)
        assert answer.choices[0].message.tool_calls is None
        assert answer.usage.prompt_tokens < 80  # the prompt describes no tools

    run(body, small_engine(4000, more=more))


@pytest.mark.parametrize("schema", [None, {"type": "boolean"}])
@pytest.mark.parametrize("describe", [None, False, True])
def test_without_a_choice_of_tools_the_prompt_matches_the_engine(schema, describe):
    """The model does not see the tools, and its answer is described if it has a form."""

    def weather(days: int) -> str:
        """The weather."""
        return "sunny"

    engine, more = small_engine(4000), {} if describe is None else {"describe": describe}
    own = engine.chat(SAY, [weather], constraint=schema, tool_choice="none", max_tokens=9, **more).results[0]
    described = "Answer with JSON of this form" if describe and schema else ""
    plain = len(engine.encode_prompt(SAY))
    assert own.prompt_tokens > plain + len(described) if described else own.prompt_tokens == plain

    async def body(ask):
        fields = {"json_schema": {"name": "a", "schema": schema}, "type": "json_schema"} if schema else {"type": "text"}
        options = BOTH | {"max_tokens": 9, "response_format": fields, "extra_body": more}
        answer = await ask.chat.completions.create(**options, tool_choice="none")
        assert answer.usage.prompt_tokens == own.prompt_tokens

    run(body, engine)


def test_several_calls_or_one():
    async def body(ask):
        for parallel in (True, False):
            answer = await ask.chat.completions.parse(
                **BOTH | {"max_tokens": 600}, tool_choice="required", parallel_tool_calls=parallel, n=8, seed=3
            )
            counts = [len(list(map(checked, each.message.tool_calls))) for each in answer.choices]
            assert (max(counts) > 1) == parallel and min(counts) == 1
            ids = [call.id for each in answer.choices for call in each.message.tool_calls]
            assert len(set(ids)) == len(ids)

    run(body)


def test_auto_is_the_default_and_has_text_and_calls():
    async def body(ask):
        bias = {"258": 6.0}  # the beginning of a call
        ends, calls = set(), []
        answer = await ask.chat.completions.create(**BOTH | {"max_tokens": 300}, n=8, seed=2, logit_bias=bias)
        for each in answer.choices:
            ends.add(each.finish_reason)
            calls += each.message.tool_calls or []
            assert each.message.content is None or "<tool_call>" not in each.message.content
        assert "length" in ends and calls  # the budget cuts free text
        for call in calls:
            {"Weather": Weather, "find": Place}[call.function.name].model_validate_json(call.function.arguments)

    run(body, small_engine(4000, more=("<tool_call>", "</tool_call>")))


def test_the_helper_for_streams_has_the_events_of_tools():
    async def body(ask):
        options = BOTH | {"tool_choice": "required", "n": 2, "seed": 5}
        whole = await ask.chat.completions.parse(**options)
        pieces, done, deltas = {}, [], 0
        async with ask.chat.completions.stream(**options) as stream:
            async for event in stream:
                if event.type == "tool_calls.function.arguments.delta":
                    key = event.name, event.index
                    pieces[key] = pieces.get(key, "") + event.arguments_delta
                    deltas += 1
                    assert event.arguments.endswith(event.arguments_delta)
                elif event.type == "tool_calls.function.arguments.done":
                    done.append((event.name, event.arguments))
                    assert event.parsed_arguments is not None
            final = await stream.get_final_completion()
        wanted = [
            [(call.function.name, call.function.arguments) for call in each.message.tool_calls]
            for each in whole.choices
        ]
        got = [
            [(call.function.name, call.function.arguments) for call in each.message.tool_calls]
            for each in final.choices
        ]
        assert got == wanted and deltas > 20 and pieces
        assert sorted(done) == sorted(one for each in wanted for one in each)
        assert [each.finish_reason for each in final.choices] == ["tool_calls"] * 2

    run(body)


def test_all_choices_of_a_stream_begin_in_order():
    async def body(ask):
        options = BOTH | {"tool_choice": "required", "n": 3, "stream": True}
        seen = [
            (c.index, c.delta.role)
            async for chunk in await ask.chat.completions.create(**options)
            for c in chunk.choices
        ]
        assert seen[:3] == [(0, "assistant"), (1, "assistant"), (2, "assistant")]
        assert not any(role for _, role in seen[3:])

    run(body)


PLAIN = [style for style in guided.TOOL_STYLES if style not in ("harmony", "kimi_k3")]


@pytest.mark.parametrize("style", every(2, PLAIN))
def test_a_call_in_each_style(style):
    tool = openai.pydantic_function_tool(Weather)
    own_ids = {"kimi": r"functions\.Weather:[0-9]+", "mistral": "call_[0-9a-f]{24}|[a-zA-Z0-9]{9}"}
    ids = [own_ids[style]] if style in own_ids else []

    async def body(ask):
        for stream in (True, False):
            options = BOTH | {"tools": [tool], "tool_choice": "required", "max_tokens": 300}
            if not stream:
                answer = await ask.chat.completions.parse(**options, seed=1)
            else:
                async with ask.chat.completions.stream(**options, seed=1) as events:
                    answer = await events.get_final_completion()
            assert {checked(call, *ids) for call in answer.choices[0].message.tool_calls} == {"Weather"}
            assert answer.choices[0].message.content in (None, "")

    run(body, tool_style=style)


def test_text_of_a_format_or_calls():
    async def body(ask):
        options = BOTH | {"response_format": Weather, "n": 12}
        kinds = set()
        answer = await ask.chat.completions.parse(**options, seed=4)
        for each in answer.choices:
            kinds.add(each.finish_reason)
            if each.message.tool_calls:
                assert each.message.content is None
                list(map(checked, each.message.tool_calls))
            else:
                assert isinstance(each.message.parsed, Weather)
        assert kinds == {"stop", "tool_calls"}
        required = await ask.chat.completions.parse(**options, tool_choice="required", seed=4)
        assert all(each.message.tool_calls and each.message.content is None for each in required.choices)
        none = await ask.chat.completions.parse(**options, tool_choice="none", seed=4)
        assert all(isinstance(each.message.parsed, Weather) for each in none.choices)

    run(body)


def test_calls_inside_text_are_text():
    tools = [tool("Weather", {"type": "object", "properties": {}})]
    schema = {"const": {"a": "<tool_call>Weather</tool_call>"}}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}

    async def body(ask):
        answer = await ask.chat.completions.create(**BOTH | {"tools": tools}, response_format=form, n=8, seed=2)
        texts = [each.message.content for each in answer.choices if each.finish_reason == "stop"]
        assert texts and all(json.loads(text) == schema["const"] for text in texts)
        assert all(each.message.content is None for each in answer.choices if each.finish_reason == "tool_calls")

    run(body, tool_style="glm_4_7")


def test_an_object_with_any_members_and_tools():
    tools = [tool("f", {"type": "object", "properties": {"days": {"type": "integer"}}})]

    async def body(ask):
        form = {"type": "json_object"}
        answer = await ask.chat.completions.create(**BOTH | {"tools": tools}, response_format=form, n=24, seed=4)
        texts = [json.loads(each.message.content) for each in answer.choices if each.message.content]
        assert any(texts) and all(isinstance(each, dict) for each in texts)
        calls = [call for each in answer.choices for call in each.message.tool_calls or []]
        assert len(calls) > 5
        for call in calls:  # no members that the schema does not declare
            assert set(json.loads(call.function.arguments)) <= {"days"}

    run(body)


def test_a_conversation_continues_with_the_result_of_the_tool():
    async def body(ask):
        first = await ask.chat.completions.parse(**BOTH, tool_choice="required", parallel_tool_calls=False, seed=1)
        message = first.choices[0].message
        said = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "12 °C"}
        options = BOTH | {"messages": [*SAY, message, said], "tool_choice": "none", "max_tokens": 20}
        second = await ask.chat.completions.create(**options)
        assert second.usage.prompt_tokens > 100 and second.choices[0].message.content
        with pytest.raises(openai.BadRequestError, match="no earlier call has the id 'other'"):
            await ask.chat.completions.create(
                **options | {"messages": [*SAY, message, {**said, "tool_call_id": "other"}]}
            )
        with pytest.raises(openai.BadRequestError, match="need a tool_call_id"):
            await ask.chat.completions.create(**options | {"messages": [*SAY, {"role": "tool", "content": "x"}]})

    run(body)


def tool(name="f", schema=None, **more):
    return {"type": "function", "function": {"name": name, "parameters": schema or {"type": "object"}, **more}}


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"tools": [tool()], "functions": [{"name": "f"}]}, "functions", 'write tools=[{"type": "function"'),
        ({"tools": [tool()], "function_call": "auto"}, "function_call", "write tool_choice"),
        ({"tool_choice": "required"}, None, "tool_choice requires tools"),
        ({"tools": [tool(), tool()]}, "tools/1/function/name", "is taken"),
        ({"tools": [tool("a b")]}, "tools/0/function/name", "not a valid function name"),
        ({"tools": ["f"]}, "tools/0", "a tool is an object"),
        ({"tools": [{"type": "custom"}]}, "tools/0/type", "not supported"),
        ({"tools": [tool(descr="x")]}, "tools/0/function/descr", "known members are name, description"),
        ({"tools": [tool(strict="yes")]}, "tools/0/function/strict", "true or false"),
        ({"tools": [tool()], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice/function/name", "one of f"),
        ({"tools": [tool()], "tool_choice": "always"}, "tool_choice", "always"),
        ({"tools": [tool(), tool("g", {"properties": {"a": {"minLength": -1}}})]},
            "tools/1/function/parameters/properties/a/minLength", "minLength"),
        ({"tools": [tool()], "regex": "a+"}, "regex", "could be the beginning of a call: write a JSON Schema, or set"),
        ({"tools": [tool()], "response_format": {"type": "json_schema", "json_schema": {"schema":
            {"properties": {"a": {"maximum": "x"}}}}}},
            "response_format.json_schema.schema/properties/a/maximum", "maximum"),
        ({"tools": [tool()], "tool_choice": "required", "response_format": {"type": "json_schema", "json_schema":
            {"schema": {"properties": {"a": {"maximum": "x"}}}}}},
            "response_format.json_schema.schema/properties/a/maximum", "maximum"),
        ({"tools": [tool(schema={"properties": {"a": {"type": "string", "minLength": 50}}, "required": ["a"]})],
            "tool_choice": "required", "max_tokens": 9}, "max_tokens", "or more"),
    ],
)  # fmt: skip
def test_refusals_have_a_location(fields, param, message):
    async def asked(ask):
        for stream in (True, False):
            with pytest.raises(openai.BadRequestError) as caught:
                body = {"messages": SAY, "stream": stream, **fields}
                await ask.post("/chat/completions", cast_to=object, body=body)
            error = caught.value.body
            assert error["param"] == param and message in error["message"], error

    run(asked)


def test_responses_have_the_same_calls():
    flat = [{"type": "function", **tool["function"]} for tool in TOOLS]

    async def body(ask):
        options = {"model": "guided", "input": "x", "tools": flat, "tool_choice": "required", "max_output_tokens": 300}
        answer = await ask.responses.create(**options)
        assert answer.status == "completed" and {item.type for item in answer.output} == {"function_call"}
        for item in answer.output:
            {"Weather": Weather, "find": Place}[item.name].model_validate_json(item.arguments)
        pieces = ""
        async for event in await ask.responses.create(**options, stream=True, parallel_tool_calls=False):
            pieces += event.delta if event.type == "response.function_call_arguments.delta" else ""
            if event.type == "response.function_call_arguments.done":
                assert event.arguments == pieces
        assert pieces

    run(body)


def test_allowed_tools():
    async def body(ask):
        reference = {"type": "function", "function": {"name": "Weather"}}
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [reference]}}
        answer = await ask.chat.completions.parse(**BOTH, tool_choice=allowed, n=4, seed=1)
        assert {checked(call) for each in answer.choices for call in each.message.tool_calls} == {"Weather"}

    run(body)


def test_markers_are_control_tokens_and_names_of_members_are_not():
    engine = small_engine(4000, more=("<tool_call>", "</tool_call>", "[INST]"))
    evil = [tool(schema={"type": "object", "properties": {"[INST]": {"type": "integer"}}, "required": ["[INST]"]})]

    def grammar(style):
        made = Functions.from_request(
            evil, "required", parallel=True, style=guided.tool_style(style), vocabulary=engine.vocabulary,
            structured_output=StructuredOutput(),
        )  # fmt: skip
        return made.constraint.compile(engine.compiler)

    matcher = guided.GrammarMatcher(grammar("qwen_3"))
    assert not matcher.accept_string("<tool_call>")
    assert matcher.accept_token(258) and matcher.accept_string('\n{"name": "f", "arguments": {"[INST]": 1}}\n')
    assert not matcher.accept_string("</tool_call>") and matcher.accept_token(259)

    async def body(ask):
        with pytest.raises(openai.BadRequestError) as caught:
            await ask.chat.completions.create(model="guided", messages=SAY, tools=evil)
        assert caught.value.body["param"] == "tools/0/function/parameters/properties/[INST]"

    run(body, engine, tool_style="qwen_3_coder")

    async def named(ask):
        with pytest.raises(openai.BadRequestError) as caught:
            await ask.chat.completions.create(model="guided", messages=SAY, tools=[tool("is_eot")])
        assert caught.value.body["param"] == "tools/0/function/name"

    run(named, small_engine(4000, more=("eot",)))


def test_styles_that_a_server_cannot_distinguish_are_refused_at_the_start():
    for style in ("harmony", "kimi_k3"):
        with pytest.raises(GuidedError, match="their own form"):
            create_app(small_engine(), Settings(tool_style=style))


class Tree(BaseModel):
    value: int | Literal["leaf"] | list[bool]
    children: list[Tree]
    shape: Place | Weather


def test_parse_of_nested_models_unions_and_recursion():
    async def body(ask):
        options = {"model": "guided", "messages": SAY, "max_tokens": 250, "n": 8}
        answer = await ask.chat.completions.parse(**options, response_format=Tree, seed=1)
        assert all(isinstance(each.message.parsed, Tree) for each in answer.choices)
        assert len({type(each.message.parsed.value) for each in answer.choices}) > 1
        with pytest.raises(openai.LengthFinishReasonError):  # only free text can be cut
            await ask.chat.completions.parse(model="guided", messages=SAY, max_tokens=5, seed=1)

    run(body)


OLD_REFERENCE = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$ref": "#/definitions/a",
    "definitions": {"a": {"type": ["string", "object"], "maxProperties": 1, "maxLength": 1}},
}


@pytest.mark.parametrize(
    "schema",
    [{}, {"title": "f"}, {"anyOf": [{"required": ["a"]}, {"maxProperties": 0}]}, True, {"type": ["object", "null"]},
     {"type": ["string", "object", "array"], "maxProperties": 1}, {"anyOf": [{"type": "string"}, {"type": "object"}]},
     {"enum": [1, "a", {}, []]}, OLD_REFERENCE],
)  # fmt: skip
def test_arguments_are_an_object_whatever_their_schema_leaves_open(schema):
    ask_for = {"type": "function", "function": {"name": "f"}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]

    async def body(ask):
        for seed in range(draws(6)):
            options = {"tools": tools, "tool_choice": ask_for, "max_tokens": 120, "seed": seed}
            answer = await ask.chat.completions.create(model="guided", messages=SAY, **options)
            message = answer.choices[0].message
            assert isinstance(json.loads(message.tool_calls[0].function.arguments), dict)
        said = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "1"}
        again = await ask.chat.completions.create(model="guided", messages=[*SAY, message, said], max_tokens=2)
        assert again.choices, "what was answered is taken back"

    run(body)


@pytest.mark.parametrize("types", ["string", ["null", "array"], "array", [], "null"])
def test_parameters_that_allow_no_object_are_refused(types):
    function = {"name": "f", "parameters": {"type": types}}

    async def body(ask):
        for path, tools, messages, at in (
            ("/chat/completions", [{"type": "function", "function": function}], {"messages": SAY}, "tools/0/function"),
            ("/responses", [{"type": "function", **function}], {"input": "a"}, "tools/0"),
        ):
            with pytest.raises(openai.BadRequestError, match="arguments of a function must be an object") as caught:
                await ask.post(path, cast_to=object, body={"tools": tools, **messages})
            assert caught.value.param == f"{at}/parameters/type"

    run(body)


@pytest.mark.parametrize("inner", [{}, {"properties": {}}, {"properties": {"a": {"type": "object", "properties": {}}}}])
def test_strict_closes_objects_that_name_no_members(inner):
    """Without it they are open, as their schemas say: some of many answers have members."""

    async def body(ask):
        for strict in (True, False, None):
            schema = {"type": "object", "required": [*inner.get("properties", {})], **inner}
            answer = await ask.chat.completions.create(
                model="guided", messages=SAY, tools=[tool(schema=schema, strict=strict)], tool_choice="required",
                parallel_tool_calls=False, max_tokens=80, n=16, seed=1,
            )  # fmt: skip
            found = [json.loads(choice.message.tool_calls[0].function.arguments) for choice in answer.choices]
            least = {name: {} for name in schema["required"]}
            assert (strict is True) == all(each == least for each in found), found

    run(body)


def test_a_call_without_its_marker_is_a_call():
    functions = Functions.from_request(
        [tool("f")], "auto", parallel=True, style=guided.tool_style("qwen_3"), vocabulary=small_engine().vocabulary,
        structured_output=StructuredOutput(),
    )  # fmt: skip
    vocabulary = small_engine(more=("<tool_call>", "</tool_call>")).vocabulary
    grammar = functions.constraint.compile(guided.GrammarCompiler(vocabulary))
    for begin in (
        '{"name": "f", "arguments": ',
        '{"name":"f","arguments":',
        '```json\n{\n  "name": "f",\n  "arguments": ',
    ):
        text = f'Yes. {begin}{{}}}}\n</tool_call> Done {{"name": "g"}}'
        matcher = guided.GrammarMatcher(grammar)
        assert all(map(matcher.accept_token, vocabulary.encode_with_special(text))) and matcher.is_accepting()
        reader = functions.reader()
        parts = [part for piece in text for part in reader.parts(piece)] + reader.finish()
        assert [(call.name, call.arguments, call.complete) for call in reader.calls] == [("f", "{}", True)]
        assert "".join(part.text for part in parts if hasattr(part, "text")) == 'Yes.  Done {"name": "g"}'
        wrong = guided.GrammarMatcher(grammar)
        assert wrong.accept_string(f"Yes. {begin}") and not wrong.accept_string("3")
