"""Warnings in addition to the answer: parts of the specification that are not enforced, and deprecated names."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from guided.server.openai.warnings import make_warning_header  # noqa: E402
from tests.live_server import listening, served  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

SAY = [{"role": "user", "content": "Say."}]
COLOUR = {"type": "object", "properties": {"a": {"type": "string", "format": "colour", "maxLength": 1}}}
PLACE = "/properties/a/format"
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": COLOUR}}
TAG = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": COLOUR}}
CALL = {"name": "f", "parameters": COLOUR}
CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"


def first_of(text: str) -> dict:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: {")]
    told = [json.loads(line) for line in lines]
    assert sum("warnings" in each for each in told) <= 1 or told[0]["type"] == "response.created"
    return told[0].get("response", told[0])


@pytest.mark.parametrize(
    ("path", "fields", "param", "place"),
    [
        (CHAT, {"response_format": FORMAT}, "response_format.json_schema.schema", PLACE),
        (CHAT, {"response_format": TAG}, "response_format", "/format/json_schema" + PLACE),
        (CHAT, {"structured_outputs": {"json": json.dumps(COLOUR)}}, "structured_outputs.json", PLACE),
        (
            CHAT,
            {"tools": [{"type": "function", "function": CALL}], "tool_choice": "required"},
            "",
            "tools/0/function/parameters" + PLACE,
        ),
        (TEXT, {"json_schema": COLOUR}, "json_schema", PLACE),
        (
            RESPONSES,
            {"text": {"format": {**FORMAT["json_schema"], "type": "json_schema"}}},
            "text.format.schema",
            PLACE,
        ),
        (
            RESPONSES,
            {"tools": [{"type": "function", **CALL}], "tool_choice": "required"},
            "",
            "tools/0/parameters" + PLACE,
        ),
    ],
)
def test_unenforced_keywords_are_reported_with_a_location(path, fields, param, place, capsys):
    prompt = {CHAT: {"messages": SAY}, TEXT: {"prompt": "a"}, RESPONSES: {"input": "a"}}[path]
    limit = {"max_output_tokens" if path == RESPONSES else "max_tokens": 90}

    async def run():
        async with served(small_engine(1500), log_format="json") as (_, http):
            for stream in (False, True):
                answer = await http.post(path, json={**prompt, **fields, **limit, "stream": stream})
                assert answer.status_code == 200, answer.text
                (warning,) = (first_of(answer.text) if stream else answer.json())["warnings"]
                assert warning["param"] == param + place
                assert warning["message"].startswith("not enforced: the format 'colour' is not known (at ")
                assert warning["message"].endswith("; use pattern instead")
                assert answer.headers["warning"].startswith("299 - \"not enforced: the format 'colour'")
            plain = await http.post(path, json={**prompt, **limit})
            assert "warnings" not in plain.json() and "warning" not in plain.headers

    asyncio.run(run())
    assert "colour" not in capsys.readouterr().err


def test_deprecated_names_are_reported_too():
    async def run():
        async with served() as (_, http):
            answer = await http.post(TEXT, json={"prompt": "a", "guided_json": COLOUR, "max_tokens": 40})
            old, unknown = answer.json()["warnings"]
            assert old["param"] == "guided_json" and "is deprecated" in old["message"]
            assert unknown["param"] == "guided_json" + PLACE
            assert "is deprecated" in answer.headers["warning"]

    asyncio.run(run())


def test_many_are_counted_and_a_header_holds_one_line_of_ascii():
    names = ["é", 'a"b', "a\r\nSet-Cookie: x=1", "\\", *map(str, range(30))]
    schema = {"enum": [1], **{f"z{name}": 1 for name in names}}
    with listening() as (_, address):
        answer = httpx.post(
            f"{address}{TEXT}", json={"prompt": "a", "json_schema": schema, "max_tokens": 5}, timeout=30
        )
        assert answer.status_code == 200 and "set-cookie" not in answer.headers
        assert len(answer.json()["warnings"]) == 21 and "and 14 more" in answer.json()["warnings"][-1]["message"]
        assert answer.headers["warning"].isascii()
    assert (
        make_warning_header([{"message": 'a"\r\né\\' + "x" * 1000}])["Warning"][:20] == '299 - "a???' + "?xe9?xxxxx"[:9]
    )
    assert make_warning_header([]) == {}
