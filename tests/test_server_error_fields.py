"""Errors for fields of the wrong type: `param` is a field of the request, and the message says what is allowed."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")

from guided.server.anthropic.messages_request import CountTokensRequest, MessagesRequest
from guided.server.http.errors import RequestError
from guided.server.inspector.inspection import CheckRequest, ExplainRequest, SampleRequest
from guided.server.inspector.stepping import StepRequest
from guided.server.openai.completion_request import CompletionRequest
from guided.server.openai.reading import read_request
from guided.server.openai.requests import ChatRequest
from guided.server.openai.responses_request import InputTokensRequest, ResponsesRequest
from guided.server.routes.tokens import DetokenizeRequest, TokenizeRequest

SAY = [{"role": "user", "content": "Say."}]
MESSAGES = {"model": "m", "messages": SAY, "max_tokens": 5}
KINDS: dict[type[Any], dict[str, Any]] = {
    ChatRequest: {"messages": SAY},
    CompletionRequest: {"prompt": "a"},
    ResponsesRequest: {"input": "a"},
    InputTokensRequest: {"input": "a"},
    MessagesRequest: MESSAGES,
    CountTokensRequest: {"model": "m", "messages": SAY},
    CheckRequest: {},
    ExplainRequest: {},
    SampleRequest: {},
    StepRequest: {},
    TokenizeRequest: {},
    DetokenizeRequest: {},
}
WRONG: list[Any] = [
    5, 0, -1, 1.5, True, "text", [], [5], ["a", 5], [[5, "a"]], [["a"]], [None], [{}], {}, {"a": 1}, {"a": None},
    {"type": 3}, {"enable_thinking": 3}, {"include_usage": "yes"}, {"9" * 5000: 1}, 10**30,
    [{"role": "user", "content": 5}], [{"role": "assistant", "tool_calls": [{"id": 5}]}],
]  # fmt: skip
OF_PYDANTIC = re.compile(
    r"constrained|function-|literal\[|\[key\]|instance of|dictionary|\b(str|int|bool|float|dict)\b"
)


@pytest.mark.parametrize("kind", KINDS)
def test_no_error_contains_names_of_python_types(kind: type[Any]) -> None:
    count = 0
    for name, info in kind.model_fields.items():
        for value in WRONG:
            try:
                read_request(kind, {**KINDS[kind], (info.alias or name): value})
            except RequestError as error:
                count += 1
                for text in (error.param or "", re.sub(r"(write|not) .*", "", error.message)):
                    assert not OF_PYDANTIC.search(text), (name, str(value)[:50], error.param, error.message)
    assert count > len(kind.model_fields)


@pytest.mark.parametrize("body", [5, "a", [], None])
@pytest.mark.parametrize("kind", [CompletionRequest, ChatRequest, MessagesRequest, DetokenizeRequest])
def test_a_body_must_be_an_object(kind: type[Any], body: object) -> None:
    with pytest.raises(RequestError) as caught:
        read_request(kind, body)
    assert (caught.value.message, caught.value.param) == ("Input should be an object", None)


@pytest.mark.parametrize(
    ("kind", "fields", "param", "message"),
    [
        (ChatRequest, {"think_first": 0}, "think_first", "greater than or equal to 1, or 'answer'"),
        (ChatRequest, {"think_first": "anser"}, "think_first", "a valid integer, or 'answer'"),
        (ChatRequest, {"think_first": [5]}, "think_first", "a valid integer, or 'answer'"),
        (ChatRequest, {"chat_template_kwargs": 5}, "chat_template_kwargs", "an object"),
        (ChatRequest, {"messages": [5]}, "messages.0", "an object"),
        (ResponsesRequest, {"stream": True, "stream_options": 5}, "stream_options", "an object"),
        (ResponsesRequest, {"text": "a"}, "text", "an object"),
        (MessagesRequest, {"output_config": "a"}, "output_config", "an object"),
        (MessagesRequest, {"system": 5}, "system", "a valid string, or a valid list"),
        (CompletionRequest, {"logit_bias": {"5": "a"}}, "logit_bias.5", "a valid number"),
        (CompletionRequest, {"prompt": 5}, "prompt", "a valid string, or a valid list"),
        (CompletionRequest, {"prompt": [5, 6, "a"]}, "prompt.2", "a valid integer"),
        (CompletionRequest, {"prompt": ["a", "b", 5]}, "prompt.2", "a valid string"),
        (CompletionRequest, {"prompt": [[5], [5, "a"]]}, "prompt.1.1", "a valid integer"),
        (CompletionRequest, {"prompt": [{}]}, "prompt.0", "a valid string, or a valid integer, or a valid list"),
        (CompletionRequest, {"prompt": [5, -1]}, "prompt.1", "greater than or equal to 0"),
    ],
)
def test_errors_name_the_field_and_the_values(
    kind: type[Any], fields: dict[str, Any], param: str, message: str
) -> None:
    with pytest.raises(RequestError) as caught:
        read_request(kind, KINDS[kind] | fields)
    assert (caught.value.param, caught.value.message) == (param, f"{param}: Input should be {message}")
