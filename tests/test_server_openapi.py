"""`/openapi.json` is right: it has every route, and its schemas allow and forbid what the routes do."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.effort import examples

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

from fastapi.routing import APIRoute  # noqa: E402

import guided.server.http.openapi as made  # noqa: E402
from guided.errors import SpecError, UnsupportedError  # noqa: E402
from guided.server.anthropic.messages_request import CountTokensRequest, MessagesRequest  # noqa: E402
from guided.server.app import create_app  # noqa: E402
from guided.server.http.errors import RequestError  # noqa: E402
from guided.server.inspector.inspection import CheckRequest, ExplainRequest, SampleRequest  # noqa: E402
from guided.server.inspector.stepping import StepRequest  # noqa: E402
from guided.server.openai.completion_request import CompletionRequest  # noqa: E402
from guided.server.openai.converted_request import ConvertedRequest  # noqa: E402
from guided.server.openai.requests import ChatRequest, ConstraintFields, read_request  # noqa: E402
from guided.server.openai.responses_request import InputTokensRequest, ResponsesRequest  # noqa: E402
from guided.server.settings import Settings  # noqa: E402
from tests.server_support import small_engine  # noqa: E402
from tests.test_server_app import SAY, served  # noqa: E402

APP = create_app(small_engine())
DOCUMENT = APP.openapi()
ROUTES = [route for route in APP.routes if isinstance(route, APIRoute) and route.include_in_schema]
KINDS = {
    ChatRequest: {"messages": SAY},
    CompletionRequest: {"prompt": "a"},
    ResponsesRequest: {"input": "a"},
    InputTokensRequest: {"input": "a"},
    MessagesRequest: {"model": "guided", "messages": SAY, "max_tokens": 3},
    CountTokensRequest: {"model": "guided", "messages": SAY},
    CheckRequest: {},
    ExplainRequest: {},
    SampleRequest: {},
    StepRequest: {"prompt": "a"},
}


def validator(schema):
    return jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def test_every_route_is_in_it():
    assert len(ROUTES) >= 12
    for route in ROUTES:
        for method in route.methods:
            operation = DOCUMENT["paths"][route.path_format][method.lower()]
            assert ("requestBody" in operation) == (method == "POST"), route.path
            assert operation["responses"].keys() >= {"200", "4XX", "5XX"} and "422" not in operation["responses"]


def test_it_is_a_document_of_openapi():
    assert DOCUMENT["openapi"].startswith("3.1") and DOCUMENT["info"].keys() >= {"title", "version"}
    names = set()
    for path, operations in DOCUMENT["paths"].items():
        assert path.startswith("/")
        for operation in operations.values():
            assert operation["operationId"] not in names
            names.add(operation["operationId"])
            placed = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"}
            assert placed == {part[1:-1] for part in path.split("/") if part.startswith("{")}
            for answer in operation["responses"].values():
                assert answer["description"]
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    refs = list(_refs(DOCUMENT))
    assert len(refs) > 20
    for ref in refs:
        at = DOCUMENT
        for part in ref.removeprefix("#/").split("/"):
            at = at[part]


def _refs(value):
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "$ref":
                yield each
            else:
                yield from _refs(each)
    elif isinstance(value, list):
        for each in value:
            yield from _refs(each)


def test_the_description_names_routes_that_need_a_key():
    assert "securitySchemes" not in DOCUMENT["components"]
    document = create_app(small_engine(), Settings(api_keys=("a",))).openapi()
    header = {"type": "apiKey", "in": "header", "name": "X-Api-Key"}
    schemes = {"key": {"type": "http", "scheme": "bearer"}, "x-api-key": header}
    assert document["components"]["securitySchemes"] == schemes

    async def whole():
        async with served(api_keys=("a",)) as (_, http):
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    status = (await http.request(method, path, json={})).status_code
                    assert ("security" in operation) == (status == 401), path

    asyncio.run(whole())


def test_the_description_is_built_once_on_demand(monkeypatch):
    calls = []
    monkeypatch.setattr(made, "get_openapi", lambda **fields: calls.append(1) or {"paths": {}})

    async def whole():
        async with served() as (_, http):
            assert not calls
            first, second = (await http.get("/openapi.json")).json(), (await http.get("/openapi.json")).json()
            assert first == second and calls == [1]
            assert (await http.get("/docs")).status_code == 404, "a page that loads scripts from a network"

    asyncio.run(whole())


def test_answers_and_errors_satisfy_the_description():
    bodies = {
        "/v1/chat/completions": {"messages": SAY, "max_tokens": 3},
        "/v1/completions": {"prompt": "a", "max_tokens": 3},
        "/v1/responses": {"input": "a", "max_output_tokens": 3},
        "/v1/responses/input_tokens": {"input": "a"},
        "/v1/messages": KINDS[MessagesRequest],
        "/v1/messages/count_tokens": KINDS[CountTokensRequest],
        "/tokenize": {"messages": SAY},
        "/detokenize": {"tokens": [97]},
        "/v1/grammars/check": {"regex": "ab"},
        "/v1/grammars/explain": {"regex": "ab", "prefix": "a"},
        "/v1/grammars/sample": {"regex": "ab"},
        "/v1/grammars/step": {"regex": "ab", "prompt": "a"},
    }
    assert bodies.keys() <= {path for path, operations in DOCUMENT["paths"].items() if "post" in operations}

    async def whole():
        async with served() as (_, http):
            for path, operations in DOCUMENT["paths"].items():
                for method, operation in operations.items():
                    body = bodies.get(path)
                    if method == "post" and body is None:
                        continue
                    answer = await http.request(method, path.replace("{", "").replace("}", ""), json=body)
                    key = "200" if answer.status_code == 200 else f"{answer.status_code // 100}XX"
                    if not answer.headers.get("content-type", "").startswith("application/json"):  # none, or text
                        continue
                    schema = operation["responses"][key]["content"]["application/json"]["schema"]
                    validator(schema).validate(answer.json())
                    if body is not None:
                        assert answer.status_code == 200 and schema["required"]
                        wrong = await http.request(method, path, json={**body, "no_such_field": 1})
                        assert wrong.status_code == 400
                        validator(operation["responses"]["4XX"]["content"]["application/json"]["schema"]).validate(
                            wrong.json()
                        )
                        sent = operation["requestBody"]["content"]["application/json"]["schema"]
                        assert validator(sent).is_valid(body)
                        assert not validator(sent).is_valid({**body, "no_such_field": 1})

    asyncio.run(whole())


def test_every_field_of_a_specification_has_a_schema():
    schemas = DOCUMENT["components"]["schemas"]
    for name in set(ConstraintFields.model_fields) & schemas["ChatRequest"]["properties"].keys():
        assert schemas["ChatRequest"]["properties"][name].keys() & {"type", "description"}, name


def refused_for_its_form(kind, body):
    """The reason why a body is refused for its form. None if it is read, or refused for combinations of fields or their
    content.
    """
    try:
        asked = read_request(kind, dict(body))
        if isinstance(asked, ConvertedRequest):
            asked = asked.to_chat_request()
        asked.structured_output(allow_special_tokens=False)
    except (SpecError, UnsupportedError):
        return None
    except RequestError as error:
        told = (
            "requires", "be combined", "is not JSON", "give exactly one of", "has no schema", ".type must be one of",
        )  # fmt: skip
        return None if any(each in error.message for each in told) else error.message
    return None


NUMBERS = st.integers(-3, 130) | st.floats(-3, 3).filter(lambda number: number != int(number))
SCALARS = st.none() | st.booleans() | NUMBERS | st.text("ab5", max_size=4)
NAMES = st.sampled_from(["type", "name", "a", "5"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=4
)
# Their contents are read after the schema, and reported by errors with the code invalid_specification.
CONTENT = {
    "structured_outputs",
    "response_format",
    "grammar",
    "structural_tag",
    "guided_decoding_backend",
    "logit_bias",
}
CASES = [
    (kind, name)
    for kind in KINDS
    for name in DOCUMENT["components"]["schemas"][kind.__name__]["properties"]
    if name not in CONTENT and name not in ("messages", "prompt")
]


@examples(500)
@given(st.sampled_from(CASES), VALUES)
@example((ChatRequest, "temperature"), "0.5")
@example((ChatRequest, "n"), True)
@example((ResponsesRequest, "max_tokens"), 5)
@example((ResponsesRequest, "text"), {"format": {"type": "json_schema", "name": "a", "schema": {}}})
@example((ResponsesRequest, "input"), [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}])
@example((InputTokensRequest, "tools"), [{"type": "web_search"}])
@example((MessagesRequest, "response_format"), {"type": "text"})
@example((MessagesRequest, "tools"), [{"type": "custom", "name": "f", "input_schema": {}}])
@example((MessagesRequest, "tool_choice"), {"type": "none"})
@example((MessagesRequest, "thinking"), {"type": "adaptive", "display": None})
@example((CountTokensRequest, "system"), [{"type": "text", "text": "a", "citations": None}])
@example((CountTokensRequest, "output_config"), {"effort": "high"})
def test_requests_are_refused_if_and_only_if_the_schemas_forbid_them(case, value):
    kind, name = case
    body = {**KINDS[kind], name: value}
    allowed = validator({"$ref": f"#/components/schemas/{kind.__name__}"}).is_valid(body)
    why = refused_for_its_form(kind, body)
    if allowed and not (isinstance(value, str) and name in ("guided_json", "json_schema")):  # a text with other JSON
        assert why is None, (kind.__name__, name, value)
    if not allowed:
        with pytest.raises(RequestError):
            asked = read_request(kind, body)
            (asked.to_chat_request() if isinstance(asked, ConvertedRequest) else asked).structured_output(
                allow_special_tokens=False
            )
