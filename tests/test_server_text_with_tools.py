"""Constraints on the text of an answer that may or must call tools: refused, or reported as having no effect."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from tests.live_server import served  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
SAY = [{"role": "user", "content": "Say."}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"enum": ["STOP"]}},
    "required": ["a"],
    "additionalProperties": False,
}
NAMED = {"type": "function", "function": {"name": "f"}}
NO_EFFECT = "has no effect: it constrains the text, but this answer consists of calls"
TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}
NO_JSON: list[tuple[dict[str, Any], str]] = [
    ({"regex": "[a-z]+"}, "regex"),
    ({"ebnf": 'root ::= "a"'}, "ebnf"),
    ({"gbnf": 'root ::= "a"'}, "gbnf"),
    ({"lark": 'start: "a"'}, "lark"),
    ({"grammar": "json"}, "grammar"),
    ({"structural_tag": TAG}, "structural_tag"),
    ({"response_format": TAG}, "response_format"),
    ({"response_format": {"type": "regex", "regex": "a"}}, "response_format.regex"),
    ({"structured_outputs": {"choice": ["a", "b"]}}, "structured_outputs.choice"),
    ({"guided_choice": ["a"]}, "guided_choice"),
]
JSON: list[tuple[dict[str, Any], str]] = [
    ({"response_format": {"type": "json_object"}}, "response_format"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
        "response_format.json_schema.schema",
    ),
    ({"structured_outputs": {"json": SCHEMA}}, "structured_outputs.json"),
    ({"json_schema": SCHEMA}, "json_schema"),
]


def with_tool(path: str, choice: Any, **fields: Any) -> dict[str, Any]:
    """A request with a tool. `choice`: as in chat completions."""
    if path == CHAT:
        function = {"name": "f", "parameters": SCHEMA}
        return {"messages": SAY, "max_tokens": 200, "tools": [{"type": "function", "function": function}],
                "tool_choice": choice, **fields}  # fmt: skip
    if path == RESPONSES:
        choice = {"type": "function", "name": "f"} if choice == NAMED else choice
        tool = {"type": "function", "name": "f", "parameters": SCHEMA}
        return {"input": "a", "max_output_tokens": 200, "tools": [tool], "tool_choice": choice, **fields}
    choice = {"type": "tool", "name": "f"} if choice == NAMED else {"type": {"required": "any"}.get(choice, choice)}
    return {"model": "guided", "messages": SAY, "max_tokens": 200, "tools": [{"name": "f", "input_schema": SCHEMA}],
            "tool_choice": choice, **fields}  # fmt: skip


def post(requests: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    async def whole() -> list[Any]:
        async with served(small_engine(3000)) as (_, http):
            return [await http.post(path, json=body) for path, body in requests]

    return asyncio.run(whole())


@pytest.mark.parametrize("choice", ["auto", "required", NAMED])
def test_only_json_may_constrain_text_beside_tools(choice: Any) -> None:
    cases = [(CHAT, *case) for case in NO_JSON]
    for path in (RESPONSES, MESSAGES):
        cases += [(path, {"regex": "a"}, "regex"), (path, {"structured_outputs": {"choice": ["a"]}}, NO_JSON[-2][1])]
    cases.append((RESPONSES, {"text": {"format": {"type": "lark", "lark": 'start: "a"'}}}, "text.format.lark"))
    answers = post([(path, with_tool(path, choice, **fields)) for path, fields, _ in cases])
    reason = "could be the beginning of a call" if choice == "auto" else "required calls, since it constrains the text"
    for (path, _, param), answer in zip(cases, answers, strict=True):
        error = answer.json()["error"]
        assert answer.status_code == 400, (path, param)
        assert (error["details"] if path == MESSAGES else error)["param"] == param
        assert error["message"].startswith(f"{param} cannot be combined with") and reason in error["message"]
        assert error["message"].endswith("or set tool_choice to none")


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_json_beside_required_calls_is_reported(choice: Any) -> None:
    cases = [(CHAT, *case) for case in JSON]
    text_format = {"type": "json_schema", "name": "n", "schema": SCHEMA}
    cases.append((RESPONSES, {"text": {"format": text_format}}, "text.format.schema"))
    own_format = {"format": {"type": "json_schema", "schema": SCHEMA}}
    cases.append((MESSAGES, {"output_config": own_format}, "output_config.format.schema"))
    answers = post([(path, with_tool(path, choice, **fields)) for path, fields, _ in cases])
    for (path, _, param), answer in zip(cases, answers, strict=True):
        assert answer.status_code == 200, (path, param, answer.text)
        assert answer.json()["warnings"] == [{"message": f"{param} {NO_EFFECT}", "param": param}]
        assert answer.headers["warning"] == f'299 - "{param} {NO_EFFECT}"'


def test_each_field_without_effect_is_reported_once() -> None:
    both, stops, text = post(
        [
            (CHAT, with_tool(CHAT, "required", guided_json=SCHEMA)),
            (CHAT, with_tool(CHAT, "required", json_schema=SCHEMA, stop="x")),
            (CHAT, with_tool(CHAT, "required", response_format={"type": "text"})),
        ]
    )
    [warning] = both.json()["warnings"]
    assert warning["param"] == "guided_json"
    assert warning["message"].startswith("guided_json is deprecated: ") and warning["message"].endswith(NO_EFFECT)
    assert [warning["message"] for warning in stops.json()["warnings"]] == [
        f"json_schema {NO_EFFECT}",
        "stop has no effect: it ends free text, but this answer consists of calls",
    ]
    assert "warnings" not in text.json()


def test_json_beside_calls_that_are_not_required_has_an_effect() -> None:
    for choice in ("auto", "none"):
        for answer in post([(CHAT, with_tool(CHAT, choice, **fields)) for fields, _ in JSON]):
            assert answer.status_code == 200 and "warnings" not in answer.json(), answer.text
