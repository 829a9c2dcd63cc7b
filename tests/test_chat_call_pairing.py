"""Calls and results in chat templates: ids have the form that the model needs, and results the order of their calls.

The oracles are the templates themselves, rendered with ids of the expected form, and searches over all orders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jinja2", minversion="3.1.6")

import guided
from guided.chat import ChatTemplate, Conversation
from guided.chat.call_pairing import rewrite_ids, sort_results
from guided.chat.compiled import compile_template
from guided.chat.conversation import convert_arguments, to_plain_messages
from guided.errors import GuidedError
from guided.frontends.structural_tag.call_ids import SHORT_IDS
from guided.frontends.structural_tag.markup import Markup, Pattern
from tests.derived_support import PUBLISHED
from tests.effort import examples
from tests.structural_tag_support import byte_compiler

VOCABULARY = byte_compiler().vocabulary
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
TOOLS = [{"type": "function", "function": {"name": name, "description": "d", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "d"}}, "required": ["city"]}}}
    for name in ("look", "find")]  # fmt: skip
KIMI = """
{%- for message in messages -%}
<|im_{{ message.role }}|>
{%- for call in message.tool_calls or [] -%}
<|tool_call_begin|>{{ call.id }}<|tool_call_argument_begin|>{{ call.function.arguments | tojson }}<|tool_call_end|>
{%- endfor -%}
{%- if message.role == 'tool' %}## Return of {{ message.tool_call_id }}{{ '\n' }}{% endif -%}
{{ message.content }}<|im_end|>
{%- endfor -%}{{ tools | length if tools }}"""
"""Like Moonshot's current template, which shows the ids of calls unchanged."""
TEMPLATES = {name: text for name, text in PUBLISHED.items() if "tools" in compile_template(text).variables}
TEMPLATES |= {"kimi-current": KIMI}
SHORT = ("mistral-nemo", "mistral-small-3.2")
FORMS = {
    "OpenAI": "call_{:024x}",
    "Anthropic": "toolu_01{:020d}",
    "Kimi K2": "functions.look:{}",
    "Kimi K3": "look:{}",
    "Responses": "call_{:08x}|fc_{:08x}",
    "short": "{}",
    "nine characters": "call-{:04}",
    "text": 'a "b" <|im_end|>\n ü {}',
}
KIMI_FORM = Markup.from_style(guided.tool_style("kimi").data).id_form
assert KIMI_FORM is not None


def call(id: str | None, name: str = "look", city: str = "Oslo") -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps({"city": city})}
    return {"type": "function", "function": function} | ({} if id is None else {"id": id})


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def result(id: str | None, content: str = "sun", name: str = "look") -> dict[str, Any]:
    return {"role": "tool", "content": content, "name": name} | ({} if id is None else {"tool_call_id": id})


def conversation(ids: Sequence[str | None]) -> list[dict[str, Any]]:
    """Two turns with a call each."""
    messages = [{"role": "user", "content": "q"}]
    for number, id in enumerate(ids):
        messages += [
            calling(call(id, city=f"c{number}")),
            result(id, f"r{number}"),
            {"role": "assistant", "content": "a"},
        ]
        messages += [{"role": "user", "content": "q"}]
    return messages


def template(name: str) -> ChatTemplate:
    return ChatTemplate(VOCABULARY, TEMPLATES[name], tokens=TOKENS)


def rendered(name: str, messages: list[dict[str, Any]]) -> str:
    """The template's own text for these messages."""
    compiled = compile_template(TEMPLATES[name])
    plain = convert_arguments(to_plain_messages(messages), as_text=compiled.arguments_are_text)
    return str.__str__(
        compiled.render(messages=plain, tools=TOOLS, documents=None, add_generation_prompt=True, **TOKENS)
    )


def expected_ids(name: str, ids: Sequence[str | None]) -> Sequence[str | None]:
    if name in SHORT:
        return [f"call{number:05d}" for number in range(len(ids))]
    if name == "kimi-k2":  # it shows the number of a call in its message
        return ["functions.look:0"] * len(ids)
    if name == "kimi-current" and not all(id and re.fullmatch(r"functions\.look:\d+", id) for id in ids):
        return [f"functions.look:{number}" for number in range(len(ids))]
    return ids


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("form", [*FORMS, "none"])
def test_every_template_renders_a_conversation_with_any_ids(name: str, form: str) -> None:
    ids = [None if form == "none" else FORMS[form].format(number, number) for number in (7, 8)]
    expected = rendered(name, conversation(expected_ids(name, ids)))
    assert str.__str__(template(name).text(Conversation(conversation(ids), TOOLS))) == expected


@pytest.mark.parametrize(
    ("name", "id"), [*((name, "VvODy9mT1") for name in SHORT), ("kimi-current", "functions.look:5")]
)
def test_ids_of_the_form_are_kept(name: str, id: str) -> None:
    messages = conversation([id])
    assert str.__str__(template(name).text(Conversation(messages, TOOLS))) == rendered(name, messages)
    both = [*messages, *conversation(["call_1"])]
    assert rewrite_ids(both, SHORT_IDS if name in SHORT else KIMI_FORM)[: len(messages)] == messages


def test_a_refusal_that_has_nothing_to_do_with_calls_is_an_error() -> None:
    """Only several calls in a message are written as text if the template refuses them."""
    refusal = "{% for m in messages if m.content and m.tool_calls %}{{ raise_exception('content') }}{% endfor %}"
    ours = ChatTemplate(VOCABULARY, refusal + PUBLISHED["qwen-3"], tokens=TOKENS)
    calls = calling(call("a")) | {"content": "Let me look."}
    with pytest.raises(guided.GuidedError, match="refuses this conversation: content"):
        ours.text(Conversation([{"role": "user", "content": "q"}, calls, result("a")], TOOLS))
    calls["tool_calls"] *= 2
    assert "<tool_response>" in ours.text(Conversation([{"role": "user", "content": "q"}, calls, result("a")], TOOLS))


IDS = st.sampled_from(["", "a", "b", "call00000", "call00001", "call00002", "VvODy9mT1", "functions.look:0",
                       "functions.look:1", "functions.find:1", "functions.find:2", "look:0", "call_1"])  # fmt: skip
TURNS = st.lists(st.lists(st.tuples(IDS, st.sampled_from(["look", "find"])), max_size=3), max_size=5)


@examples(300)
@given(TURNS, st.sampled_from([SHORT_IDS, KIMI_FORM]), st.data())
def test_rewritten_ids(turns: list[list[tuple[str, str]]], form: Pattern, data: st.DataObject) -> None:
    """All ids have the form, distinct calls have distinct ids, results have the ids of their calls, and messages that
    follow change no earlier id."""
    messages: list[dict[str, Any]] = []
    owners: list[int] = []  # for each result: the number of its call in its message
    for turn in turns:
        distinct = list({id: (id, name) for id, name in turn}.values())
        messages += [{"role": "user", "content": "q"}, calling(*(call(id or None, name) for id, name in distinct))]
        numbered = [number for number, (id, _) in enumerate(distinct) if id]
        answered = data.draw(st.permutations(numbered)) + [n for n, (id, _) in enumerate(distinct) if not id and n == 0]
        owners += answered
        messages += [result(distinct[number][0] or None, name=distinct[number][1]) for number in answered]
    original = json.dumps(messages)
    out = rewrite_ids(messages, form)
    assert json.dumps(messages) == original, "the caller's messages are unchanged"
    for size in range(len(messages)):
        assert rewrite_ids(messages[:size], form) == out[:size]
    seen: dict[str, str] = {}
    kept_ids, left, calls = set(), iter(owners), []
    for old, new in zip(messages, out, strict=True):
        for before, after in zip(old.get("tool_calls", ()), new.get("tool_calls", ()), strict=True):
            values = form.read(after["id"])
            assert values is not None and values.get("name", before["function"]["name"]) == before["function"]["name"]
            if after["id"] in seen:  # only if the caller repeats an id of the form
                assert before.get("id") == after["id"] == seen[after["id"]]
            seen[after["id"]] = before.get("id", "")
            kept_ids |= {after["id"]} & {before.get("id")}
        calls = new.get("tool_calls", calls)
        if new["role"] == "tool":
            assert new["tool_call_id"] == calls[next(left)]["id"]
    assert all(id == before for id, before in seen.items() if id in kept_ids)


def test_results_without_calls_keep_their_ids_or_get_new_ones() -> None:
    lone = [result("x"), result("x"), result("y")]
    assert [message["tool_call_id"] for message in rewrite_ids(lone, SHORT_IDS)] == [
        "call00000",
        "call00000",
        "call00001",
    ]
    assert [message["tool_call_id"] for message in rewrite_ids(lone, KIMI_FORM)][:2] == ["functions.look:0"] * 2
    nameless = [{key: value for key, value in message.items() if key != "name"} for message in lone]
    assert rewrite_ids(nameless, KIMI_FORM) == nameless
    twice = [calling(call("x"), call("x")), result("x", "1"), result("x", "2")]
    assert [message["tool_call_id"] for message in rewrite_ids(twice, SHORT_IDS)[1:]] == ["call00000", "call00001"]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_results_are_sorted_like_their_calls(count: int) -> None:
    calls = calling(*(call(f"id{number}") for number in range(count)))
    results = [result(f"id{number}", f"r{number}") for number in range(count)]
    others = [result(None, "none"), result("other", "?")]
    for order in permutations([*results, *others]):
        messages = [{"role": "user", "content": "q"}, calls, *order, {"role": "assistant", "content": "a"}, *order]
        out = sort_results(messages)
        assert out[:2] == messages[:2] and out[-1 - len(order) :] == messages[-1 - len(order) :]
        block = out[2 : 2 + len(order)]
        assert [each for each in block if each in results] == results
        assert [each if each in others else None for each in block] == [
            each if each in others else None for each in order
        ]


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_prompt_does_not_depend_on_the_order_of_results(name: str) -> None:
    results = [result(f"id{number}", f"qz{number}") for number in range(3)]
    calls = calling(*(call(f"id{number}") for number in range(3)))
    prompts = [
        str.__str__(template(name).text(Conversation([{"role": "user", "content": "q"}, calls, *order], TOOLS)))
        for order in permutations(results)
    ]
    assert len(set(prompts)) == 1 and re.findall("qz[0-9]", prompts[0]) == ["qz0", "qz1", "qz2"]


@pytest.mark.parametrize("first_has_id", [True, False])
def test_results_without_ids_belong_to_unanswered_calls(first_has_id: bool) -> None:
    """Some calls have ids, and others do not; each result has the id of its call."""
    ids = ["toolu_a", None] if first_has_id else [None, "toolu_a"]
    calls = [call(id, name) for id, name in zip(ids, ("look", "find"), strict=True)]
    results = [result(id, name.upper(), name) for id, name in zip(ids, ("look", "find"), strict=True)]
    for order in permutations(results):
        out = rewrite_ids(to_plain_messages([calling(*calls), *order]), SHORT_IDS)
        new_ids = {each["function"]["name"]: each["id"] for each in out[0]["tool_calls"]}
        assert {message["name"]: message["tool_call_id"] for message in out[1:]} == new_ids


@pytest.mark.parametrize("name", sorted(TEMPLATES.keys() & PUBLISHED.keys()))
@pytest.mark.parametrize("left_out", [("description",), ("parameters",), ("description", "parameters")])
@pytest.mark.parametrize("is_null", [False, True])
def test_tools_need_no_description_and_no_parameters(name: str, left_out: Sequence[str], is_null: bool) -> None:
    """Both are optional in OpenAI's API. A template that needs them gets empty ones."""
    rest = {key: value for key, value in TOOLS[0]["function"].items() if key not in left_out}
    function = rest | (dict.fromkeys(left_out) if is_null else {})
    conversation = Conversation([{"role": "user", "content": "q"}], tools=[{"type": "function", "function": function}])
    text = template(name).text(conversation)
    assert "look" in text
    with suppress(GuidedError):
        rendered = compile_template(TEMPLATES[name]).render(
            messages=conversation.messages, tools=conversation.tools, add_generation_prompt=True, **TOKENS
        )
        assert text == rendered
