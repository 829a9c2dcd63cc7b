"""The server's errors: each is in the guide with an example body, and a defect never blames the client."""

from __future__ import annotations

import ast
import asyncio
import codecs
import json
import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("openai", reason="openai is not installed")

from guided.chat import ChatTemplate  # noqa: E402
from guided.engine import Engine  # noqa: E402
from guided.errors import GuidedError, LimitExceeded, OptionError  # noqa: E402
from guided.limits import Limits  # noqa: E402
from guided.server.engine_thread import EngineStopped  # noqa: E402
from guided.server.http.admission import Admission  # noqa: E402
from guided.server.http.errors import RequestError, find_status, make_error_body  # noqa: E402
from guided.server.openai.completion_request import CompletionRequest  # noqa: E402
from guided.server.openai.requests import ChatRequest, read_request  # noqa: E402
from guided.server.openai.responses_request import ResponsesRequest  # noqa: E402
from guided.server.preparing import CompileTimeout  # noqa: E402
from guided.server.settings import Settings  # noqa: E402
from guided.vocabulary import Vocabulary  # noqa: E402
from tests.server_support import small_engine  # noqa: E402
from tests.test_server_app import SAY, served  # noqa: E402

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "guides" / "serving-errors.md").read_text(encoding="utf-8")
TABLE = {row[0]: (int(row[1]), row[2]) for row in re.findall(r"^\| `(\w+)` \| (\d+) \| `(\w+)` \|", GUIDE, re.M)}
EXAMPLE = re.compile(r"^[^\n]+, status (?P<status>\d+):\n\n(?:```http\n(?P<request>.+?)\n```\n\n)?"
                     r"```json\n(?P<body>.+?)\n```", re.M | re.S)  # fmt: skip
EXAMPLES = [(int(found["status"]), found["request"], json.loads(found["body"])) for found in EXAMPLE.finditer(GUIDE)]
PROMPT = {"prompt": "Hi"}


def _either(value: ast.expr) -> list[ast.expr]:
    return [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]


def codes_of_the_source() -> set[str]:
    """Each `code="..."` of a call, and each text that is assigned to a variable `code` or is in `_CODES`."""
    found = set[str]()
    for path in (ROOT / "guided" / "server").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                values = [each.value for each in node.keywords if each.arg == "code"]
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Tuple):
                target = node.targets[0]
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                given = node.value.elts if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) else [
                    node.value
                ]  # fmt: skip
                values = [value for name, value in zip(names, given, strict=False) if getattr(name, "id", "") == "code"]
            elif isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "_CODES":
                values = node.value.values
            else:
                continue
            either = [each for value in values for each in _either(value)]
            found |= {each.value for each in either if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return found


def test_every_code_is_in_the_guide_and_the_other_way_round():
    assert codes_of_the_source() == TABLE.keys()
    assert {body["error"]["code"] for _, _, body in EXAMPLES} == TABLE.keys(), "each has an example"
    for status, _, body in EXAMPLES:
        assert TABLE[body["error"]["code"]] == (status, body["error"]["type"])


@pytest.mark.parametrize(("status", "request_", "body"), [each for each in EXAMPLES if each[1]])
def test_the_examples_of_the_guide(status, request_, body):
    line, _, sent = request_.partition("\n")

    async def whole():
        async with served() as (_, http):
            answer = await http.request(*line.split(), content=sent)
            assert (answer.status_code, answer.json()) == (status, body)

    asyncio.run(whole())


def refusal(requests: int, *, waiting: int = 0, draining: bool = False, **settings: Any) -> RequestError:
    """The refusal of the last of some requests with one key, while outputs of others are waiting."""
    others = SimpleNamespace(tasks=[SimpleNamespace(admission_time=0.0)] * waiting)
    thread: Any = SimpleNamespace(open_streams=[others], is_draining=draining, is_alive=True)
    admission = Admission(thread, Settings(**settings))
    for _ in range(requests - 1):
        admission.enter(1)
    with pytest.raises(RequestError) as refused:
        admission.enter(1)
    return refused.value


def test_the_examples_that_no_request_alone_has():
    told = [
        make_error_body(error)
        for error in (
            ZeroDivisionError("x"),
            MemoryError("600 tokens do not fit into a cache of 512 positions"),
            EngineStopped("the engine has stopped: what others wrote"),
            refusal(1, waiting=256),
            RequestError("the client closed the connection", status=499),
            CompileTimeout("the specification did not compile within 10 seconds: make it smaller"),
            RequestError("the body did not arrive within 30 s", code="body_timeout", status=408),
            refusal(61, requests_per_minute=60),
            RequestError("the request was aborted", code="aborted", status=499),
            refusal(1, draining=True),
            RequestError(
                "no slot in the batch became free within 120 s: retry later", code="queue_timeout", status=503
            ),
            RequestError("the request was not answered within 600 s", code="request_timeout", status=503),
        )
    ]

    async def whole():
        async with served(api_keys=("k",), max_body=10) as (_, http):
            page = {"Origin": "https://example.org", "Sec-Fetch-Site": "cross-site"}
            compressed = {"Authorization": "Bearer k", "Content-Length": "10", "Content-Encoding": "gzip"}
            for headers in ({}, {"Authorization": "Bearer k"}, page, compressed):
                answer = await http.post("/v1/completions", json=PROMPT, headers=headers)
                told.append(answer.json())
                assert answer.status_code == TABLE[told[-1]["error"]["code"]][0]
        async with served() as (_, http):
            told.append((await http.get("http://127.0.0.1/health", headers={"Host": "evil.example"})).json())

    asyncio.run(whole())
    there = [body for _, request, body in EXAMPLES if not request]
    assert sorted(map(str, told)) == sorted(map(str, there))


@pytest.mark.parametrize("kind", [ValueError, TypeError, KeyError, RecursionError])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses"])
def test_a_defect_is_500_without_details(monkeypatch, kind, stream, path):
    def fail(*_, **__):
        raise kind("what others wrote")

    body = PROMPT if path == "/v1/completions" else {"input": "Hi"}

    async def whole():
        async with served() as (server, http):
            for place, name in ((server.engine, "encode_prompt"), (server, "submit")):
                with monkeypatch.context() as patched:
                    patched.setattr(place, name, fail)
                    answer = await http.post(path, json={**body, "stream": stream})
                assert answer.status_code == 500
                error = answer.json()["error"]
                assert error["code"] == "internal_error" and "others" not in answer.text
            again = await http.post(path, json={**body, "regex": "ab"})
            assert again.status_code == 200

    asyncio.run(whole())


@pytest.mark.parametrize(
    "options",
    [
        {"seed": -(1 << 63) - 1},
        {"seed": 1 << 64},
        {"logit_bias": {"-1": 1}},
        {"logit_bias": {"5": 101}},
        {"logit_bias": {"100000": 1}},
        {"allowed_token_ids": []},
        {"allowed_token_ids": [100000]},
        {"stop_token_ids": [100000]},
        {"stop": [""]},
        {"min_tokens": 9, "max_tokens": 5},
        {"prompt": [100000]},
        {"prompt": []},
        {"prompt": "a" * 5000},
        {"guided_json": {}, "guided_whitespace_pattern": "("},
    ],
)
def test_options_out_of_their_range_are_the_clients(options):
    async def whole():
        async with served() as (_, http):
            answer = await http.post("/v1/completions", json={**PROMPT, **options})
            assert answer.status_code == 400, answer.text
            codes = {"invalid_request", "invalid_specification"}
            too_long = len(options.get("prompt", "")) == 5000
            assert answer.json()["error"]["code"] in ({"context_length_exceeded"} if too_long else codes)
            assert answer.json()["error"]["message"]

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("path", "body", "param", "code"),
    [
        ("/v1/completions", {**PROMPT, "regex": "x+"}, "regex", "invalid_specification"),
        ("/v1/completions", {**PROMPT, "json_schema": {}}, "json_schema", "invalid_specification"),
        ("/v1/completions", {**PROMPT, "grammar": "json"}, "grammar", "invalid_specification"),
        ("/v1/completions", {**PROMPT, "lark": "start: <nope>"}, "lark", "invalid_specification"),
        ("/v1/completions", {**PROMPT, "lark": "start: <[99999]>"}, "lark", "invalid_specification"),
        ("/v1/responses", {"input": "Hi", "text": {"format": {"type": "regex", "regex": "x"}}}, "text.format.regex",
            "invalid_specification"),
        ("/v1/grammars/explain", {"regex": "x"}, "regex", "invalid_specification"),
        ("/v1/completions", {"prompt": "x"}, None, "invalid_request"),
        ("/v1/completions", {"prompt": "x", "regex": "H"}, None, "invalid_request"),
        ("/tokenize", {"prompt": "x"}, None, "invalid_request"),
    ],
)  # fmt: skip
def test_specifications_that_the_vocabulary_cannot_write(path, body, param, code):
    """The specification is at fault, but a prompt that it cannot write is no part of one."""
    large = small_engine()
    vocabulary = Vocabulary([b"H", b"i", None], eos_token_ids=[2], size=large.vocabulary.size)
    engine = Engine(large.model, vocabulary, chat=ChatTemplate(vocabulary, "{{ messages[0].content }}"))

    async def whole():
        async with served(engine, allow_special_tokens=True) as (_, http):
            answer = await http.post(path, json=body)
            error = answer.json()["error"]
            assert (answer.status_code, error["param"], error["code"]) == (400, param, code), error

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"", "the body is not JSON: it is empty"),
        (b'{"prompt": "a"', "the body is not JSON: expecting ',' delimiter (line 1, column 15)"),
        (b'{"prompt": "a",}', "hint: remove the comma before the bracket"),
        (b'{"prompt": "\xff"}', "the body is not JSON: it is not UTF-8 text (byte 0xff at offset 12)"),
        (b'\xef\xbb\xbf\xef\xbb\xbf{"prompt": "a"}', "this is a byte order mark"),
        (b'{"prompt": "\xed\xa0\x80"}', "not JSON"),
        (b'{"prompt": "a", "temperature": NaN}', "NaN is not a finite number"),
        (b'{"prompt": "a", "temperature": 1e999}', "1e999 is not a finite number"),
        (rb'{"prompt": "\ud800"}', "contains a lone surrogate"),
        (rb'{"prompt": "a", "\udc00": 1}', "contains a lone surrogate"),
        (b"[" * 100_000, "256 deep"),
        (b'{"prompt": ' + b"9" * 5000 + b"}", "an integer in the body has more than 4,300 digits"),
        (b"[]", ""),
        (b"5", ""),
    ],
)
def test_malformed_bodies(sent, message):
    async def whole():
        async with served() as (_, http):
            for path in ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize", "/detokenize"):
                answer = await http.post(path, content=sent)
                assert answer.status_code == 400, (path, answer.text)
                assert message in answer.json()["error"]["message"], path
            pair = await http.post("/tokenize", content=rb'{"prompt": "\ud83d\ude00"}')
            assert pair.json()["count"] == 4, "a whole pair is a character"
            marked = await http.post("/tokenize", content=codecs.BOM_UTF8 + b'{"prompt": "abc"}')
            assert marked.json()["count"] == 3, "a byte order mark is no part of the body"

    asyncio.run(whole())


def test_a_conversation_that_does_not_fit_is_not_truncated():
    async def whole():
        async with served() as (_, http):
            for length, status in ((5, 200), (5000, 400)):
                body = {"input": "a" * length, "truncation": "auto", "max_output_tokens": 1}
                answer = await http.post("/v1/responses", json=body)
                assert answer.status_code == status, answer.text
            assert answer.json()["error"]["code"] == "context_length_exceeded"

    asyncio.run(whole())


def test_a_method_that_a_route_does_not_support():
    async def whole():
        async with served() as (_, http):
            answer = await http.get("/v1/completions")
            error = answer.json()["error"]
            assert (answer.status_code, error["type"]) == (405, "BadRequestError")
            assert (error["code"], answer.headers["allow"]) == ("method_not_allowed", "POST")

    asyncio.run(whole())


def test_errors_of_the_client_and_of_the_server():
    assert find_status(GuidedError("x")) == find_status(OptionError("x")) == find_status(RequestError("x")) == 400
    assert find_status(ValueError("x")) == find_status(TypeError("x")) == 500
    assert isinstance(OptionError("x"), ValueError), "who caught ValueError goes on catching it"
    assert SAY and make_error_body(OptionError("seed is -1"))["error"]["message"] == "seed is -1"


def test_a_million_errors_cost_as_much_as_one():
    for kind, body in [
        (CompletionRequest, {"prompt": [{}] * 1000}),
        (CompletionRequest, {"prompt": [[{}] * 1000]}),
        (CompletionRequest, {"prompt": [""] * (1 << 17)}),
        (CompletionRequest, {"prompt": [[]] * (1 << 17)}),
        (CompletionRequest, {"prompt": "a", "allowed_token_ids": [""] * 1000}),
        (CompletionRequest, {"prompt": "a", "stop": [1] * 1000}),
        (ChatRequest, {"messages": [{}] * 1000}),
        (ChatRequest, {"messages": [{"role": "user", "content": [{}] * 1000}]}),
    ]:
        with pytest.raises(ValidationError) as caught:
            kind.model_validate(body)
        assert caught.value.error_count() <= 6


def test_stops_are_bounded():
    body = {"prompt": "a", "stop": [str(number) for number in range(128)]}
    assert read_request(CompletionRequest, body).stop == body["stop"]
    with pytest.raises(RequestError) as caught:
        read_request(CompletionRequest, body | {"stop": [*body["stop"], "one more"]})
    assert caught.value.param == "stop"


def test_an_option_out_of_range_is_not_an_invalid_specification():
    assert make_error_body(OptionError("seed is -1"), "regex")["error"]["param"] is None


def test_null_equals_an_absent_field():
    nothing = {"n": None, "stream": None, "priority": None, "seed": None, "stop": None}
    for kind, body in [
        (CompletionRequest, PROMPT),
        (ChatRequest, {"messages": SAY}),
        (ResponsesRequest, {"input": "a"}),
    ]:
        assert read_request(kind, body | nothing).options() == read_request(kind, body).options()


@pytest.mark.parametrize("limit", [field.name for field in fields(Limits)])
def test_limits_are_not_raised_by_clients(limit: str):
    error = LimitExceeded(limit, 2, 1)
    assert "guided.Limits" in str(error)
    message = make_error_body(error)["error"]["message"]
    assert message == f"limit {limit!r} exceeded: 2 > 1; make the specification smaller or simpler"


@pytest.mark.parametrize("penalty", [5e-324, 1e-300, 1e31])
def test_penalties_that_overflow_are_refused(penalty: float):
    with pytest.raises(RequestError) as caught:
        read_request(CompletionRequest, PROMPT | {"repetition_penalty": penalty})
    assert caught.value.param == "repetition_penalty"
