"""Continuing a message under a constraint, and calls that the budget would cut short."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

import guided  # noqa: E402
from guided.chat import Conversation  # noqa: E402
from guided.engine.call_budget import CallBudget  # noqa: E402
from guided.engine.engine import Engine  # noqa: E402
from guided.matching.constraint import ConstraintCompiler  # noqa: E402
from tests.effort import examples  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

ENGINE = small_engine(2000, more=("<tool_call>", "</tool_call>"))
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 20}, "b": {"type": "integer", "minimum": 100, "maximum": 999}},
    "required": ["a", "b"],
}


def continued(text: str | list[Any]) -> Conversation:
    messages = [{"role": "user", "content": "Say."}, {"role": "assistant", "content": text}]
    return Conversation(messages, add_generation_prompt=False, continue_final_message=True)


@examples(40)
@given(st.text('xyz "\\', max_size=5), st.integers(0, 40), st.integers(0, 9))
def test_prefill_and_text_together_satisfy_the_constraint(word: str, cut: int, seed: int):
    prefill = json.dumps({"a": word, "b": 123}, ensure_ascii=False)[:cut]
    options: dict[str, Any] = {"max_tokens": 80, "seed": seed, "temperature": 1.0}
    result = ENGINE.generate(continued(prefill), SCHEMA, **options)
    value = json.loads(result.prefill + result.text)
    assert result.value == value and len(value["a"]) <= 20 and 100 <= value["b"] <= 999
    assert prefill.startswith(result.prefill) and prefill.rstrip() == result.prefill.rstrip()
    assert set(result.fields) == {"/a", "/b"}
    for field in result.fields.values():
        assert (result.prefill + result.text)[field.start : field.end] == field.text
    events = list(ENGINE.stream(continued(prefill), SCHEMA, **options))
    assert events[-1].partial == value and "".join(event.text for event in events) == result.text


def test_a_prefill_that_begins_no_output_is_refused():
    for text, place in (('{"b"', "cannot follow '{\"'"), ("Sure: {", "'Sure: {' cannot follow ''")):
        with pytest.raises(guided.GuidedError, match="message 1 begins no output") as caught:
            ENGINE.generate(continued(text), SCHEMA)
        assert place in str(caught.value)
    with pytest.raises(guided.BudgetError):
        ENGINE.generate(continued('{"a": "'), SCHEMA, max_tokens=5)
    with pytest.raises(guided.OptionError, match="retries cannot be combined with continue_final_message"):
        ENGINE.generate(continued('{"a'), SCHEMA, retries=2)
    with pytest.raises(guided.GuidedError, match="continues the last message"):
        ENGINE.generate(continued('{"a'), SCHEMA, think_first=9)
    for constraint in (SCHEMA, None):
        with pytest.raises(guided.OptionError, match="reasoning_end cannot be combined with continue_final_message"):
            ENGINE.generate(continued('{"a'), constraint, reasoning_end="</think>")
    assert ENGINE.generate(continued("{"), None, max_tokens=3).prefill == ""


def call(city: str) -> str:
    return f'<tool_call>\n{{"name": "f", "arguments": {{"a": "{city}"}}}}\n</tool_call>'


TOOL = {"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False,
}}}  # fmt: skip


def calls_grammar(choice: str) -> Any:
    tag = guided.tool_style("qwen_3").structural_tag([TOOL], tool_choice=choice)
    return ENGINE.compiler.compile_structural_tag(tag, allow_special_tokens=True)


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_no_call_begins_that_does_not_fit(choice: str):
    vocabulary = ENGINE.vocabulary
    matcher = guided.GrammarMatcher(calls_grammar(choice))
    calls, written = CallBudget(matcher), 0
    for token in vocabulary.encode_with_special(call("a long city")):
        assert calls.limit(1000) == 1000
        assert matcher.accept_token(token)
        written += 1
        calls.record_length(written, is_answer=True)
    assert calls.limit(written + 1) == written + 1  # as many as the call takes, and the end
    assert calls.limit(written) == 5 and calls.limit(3) == 3
    bitmask = guided.allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask, max_tokens=calls.limit(written))
    allowed = guided.allowed_tokens(bitmask)
    assert 257 in allowed and 258 not in allowed
    matcher.fill_next_token_bitmask(bitmask, max_tokens=calls.limit(written + 60))
    assert 258 in guided.allowed_tokens(bitmask)


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_calls_of_whole_outputs_are_never_squeezed(choice: str):
    """With a strong preference for calls: when a call begins, at least as many tokens are left as the longest call
    before it took.
    """
    engine: Engine = ENGINE
    constraint = ConstraintCompiler(lambda _: calls_grammar(choice), open_ended=choice == "auto", has_calls=True)
    several = 0
    for seed in range(12):
        result = engine.generate(
            "x", constraint, max_tokens=230, seed=seed, temperature=1.0, logit_bias={258: 9.0, 34: 2.0}
        )
        text, starts, longest = "", [], 0
        for at, token in enumerate(result.tokens):
            if token == 258:
                starts.append(at)
            if token == 259:
                assert longest == 0 or 230 - starts[-1] >= longest - 1, text
                longest = max(longest, at - starts[-1])
        several += len(starts) > 1
    assert several
