"""Fields without effect that OpenAI's clients, frameworks and users of vLLM send."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")

from openai.types import completion_create_params  # noqa: E402
from openai.types.chat import completion_create_params as chat_create_params  # noqa: E402

from guided.server.openai.completion_request import CompletionRequest  # noqa: E402
from guided.server.openai.ignored_fields import IgnoredFields, IgnoredInConversations  # noqa: E402
from guided.server.openai.requests import ChatRequest  # noqa: E402
from tests.test_server_app import SAY, run, served  # noqa: E402, F401
from tests.test_server_tools import tool  # noqa: E402

# The clients' default values, or values that request what happens anyway.
OF_TEXTS = {
    "logit_bias": {}, "n": 1, "stop": [], "stop_token_ids": [], "frequency_penalty": 0, "presence_penalty": 0.0,
    "top_k": -1, "min_p": 0.0, "user": "u", "skip_special_tokens": True, "spaces_between_special_tokens": True,
    "use_beam_search": False, "length_penalty": 1.0, "early_stopping": False, "bad_words": [], "prompt_logprobs": 0,
    "truncate_prompt_tokens": -1, "return_tokens_as_token_ids": False, "logits_processors": [], "ignore_eos": False,
    "include_stop_str_in_output": False, "repetition_penalty": 1.0, "stream": False,
}  # fmt: skip
OF_CONVERSATIONS = {
    "modalities": ["text"], "verbosity": "medium", "store": False, "metadata": {}, "service_tier": "auto", "tools": [],
    "tool_choice": "auto", "parallel_tool_calls": False, "functions": [], "function_call": "none", "logprobs": False,
    "top_logprobs": 0, "echo": False, "add_generation_prompt": True, "continue_final_message": False,
    "add_special_tokens": False, "documents": [], "mm_processor_kwargs": {}, "prompt_cache_key": "k",
    "prompt_cache_retention": "24h", "safety_identifier": "s", "response_format": {"type": "text"},
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
def test_fields_without_effect_change_nothing(stream):
    async def body(ask):
        async def answers(path, more):
            asked = {"max_tokens": 8, "seed": 3, "temperature": 1, **more}
            asked |= {"messages": SAY} if "chat" in path else {"prompt": "a"}
            if stream:
                asked |= {"stream": True, "stream_options": {}}
            found = await ask.post(path, cast_to=str if stream else object, body=asked)
            return parts(found) if stream else found["choices"]

        def parts(events):
            chunks = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: {")]
            return [chunk["choices"] for chunk in chunks]

        of_texts = {name: value for name, value in OF_TEXTS.items() if name != "stream"}
        for path, fields in (("/completions", of_texts), ("/chat/completions", of_texts | OF_CONVERSATIONS)):
            assert await answers(path, fields) == await answers(path, {}) != []

    run(body)


def test_every_field_of_openais_client_may_be_null():
    """The client's own list defines the fields."""

    async def body(ask):
        for path, kind, needed, more in (
            ("/completions", completion_create_params, "prompt", {"prompt": "a"}),
            ("/chat/completions", chat_create_params, "messages", {"messages": SAY}),
        ):
            names = kind.CompletionCreateParamsBase.__annotations__.keys() - {needed, "prompt_cache_options"}
            answer = await ask.post(path, cast_to=object, body={**dict.fromkeys(names), "max_tokens": 3, **more})
            assert answer["choices"]

    run(body)


@pytest.mark.parametrize(
    ("fields", "param", "told"),
    [
        ({"modalities": ["text", "audio"]}, "modalities", "answers are text only; leave it out or write ['text']"),
        ({"audio": {"voice": "x"}}, "audio", "answers are text only; leave it out"),
        ({"prediction": {"type": "content", "content": "x"}}, "prediction", "drafts come from the prompt"),
        ({"verbosity": "low"}, "verbosity", "max_tokens limits"),
        ({"web_search_options": {}}, "web_search_options", "does not search the web"),
        ({"skip_special_tokens": False}, "skip_special_tokens", "control tokens are not part of the text"),
        ({"continue_final_message": True}, None, "requires a final assistant message"),
        ({"use_beam_search": True}, "use_beam_search", "no beam search"),
        ({"use_beam_search": 0}, "use_beam_search", "0 is not supported"),
        ({"best_of": 2}, "best_of", "unknown field"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens", "max_completion_tokens=6 contradict"),
        ({"top_logprobs": 1}, "top_logprobs", "requires logprobs=true"),
        ({"reasoning_effort": "high"}, "reasoning_effort", "limited by max_tokens"),
    ],
)
def test_other_values_of_ignored_fields_are_refused_with_the_reason(fields, param, told):
    async def body(ask):
        with pytest.raises(openai.BadRequestError) as caught:
            await ask.post("/chat/completions", cast_to=object, body={"messages": SAY, "max_tokens": 5, **fields})
        body = caught.value.body
        assert body["param"] == param and told in body["message"] and not body["message"].endswith(" "), body

    run(body)


def test_both_names_of_the_budget_may_have_the_same_value():
    async def body(ask):
        both = {"max_tokens": 4, "max_completion_tokens": 4, "seed": 1}
        answer = await ask.chat.completions.create(model="guided", messages=SAY, **both)
        assert answer.usage.completion_tokens == 4

    run(body)


def test_empty_stops_can_be_combined_with_tools():
    async def body(ask):
        answer = await ask.chat.completions.create(
            model="guided", messages=SAY, tools=[tool()], tool_choice="required", stop=[], max_tokens=60
        )
        assert answer.choices[0].message.tool_calls

    run(body)


def test_each_field_is_tried_here():
    assert IgnoredFields.model_fields.keys() <= OF_TEXTS.keys() <= CompletionRequest.model_fields.keys()
    tried = OF_CONVERSATIONS.keys() | {"audio", "prediction", "web_search_options", "moderation", "chat_template"}
    assert IgnoredInConversations.model_fields.keys() - OF_TEXTS.keys() <= tried <= ChatRequest.model_fields.keys()
