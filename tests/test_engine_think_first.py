"""Free text before a constrained answer: equal to two requests one after the other, and complete within the budget."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.chat import Conversation
from guided.chat.template import CHATML, ChatTemplate
from guided.engine.engine import Engine
from guided.engine.result import Result
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.task import Task
from guided.engine.think_first import THINK_INSTRUCTION
from guided.kv.paged import PagedCache
from guided.models.architectures.llama import Llama
from tests.effort import examples
from tests.engine_support import drive
from tests.test_describe import CONFIG, VOCABULARY

torch.set_num_threads(1)
MODEL = Llama.random(CONFIG, seed=1)
PATTERN = '\\{"a": [0-9]{1,30}, "b": "[a-z]{0,30}"\\}'
SHORTEST = len('{"a": 1, "b": ""}')
PROMPT = "Who?"
ANSWER = "Now write only the answer."


def new_engine(context: int = CONFIG.context) -> Engine:
    model = MODEL if context == CONFIG.context else Llama.random(replace(CONFIG, context=context), seed=1)
    return Engine(model, VOCABULARY, chat=ChatTemplate(VOCABULARY, CHATML))


def turn(text: str) -> str:
    return f"<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def ids_of(text: str) -> list[int]:
    return VOCABULARY.encode_with_special(text)


def in_two_requests(
    thoughts: int | str, bridge: str, max_tokens: int, seed: int, **options: Any
) -> tuple[Result, Result]:
    """The free text and the answer, each from a new engine with an empty cache."""
    system = f"<|im_start|>system\n{THINK_INSTRUCTION}<|im_end|>\n" if thoughts != "answer" else ""
    prompt = ids_of(f"{system}<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n")
    limit = max_tokens // 2 if thoughts == "answer" else thoughts
    free = new_engine().generate(
        prompt,
        max_tokens=min(limit, max_tokens - SHORTEST),
        seed=(seed + 0x9E3779B97F4A7C15) % 2**64,
        stop_token_ids=[256],
        **{name: value for name, value in options.items() if name != "min_tokens"},
    )
    answer = new_engine().generate(
        [*prompt, *free.tokens, *ids_of(turn(bridge))],
        PATTERN,
        max_tokens=max_tokens - len(free.tokens),
        seed=seed,
        **options,
    )
    return free, answer


@pytest.mark.parametrize("options", [{}, {"logprobs": 2}, {"score_forced": True}, {"drafts": 3}, {"min_tokens": 21}])
@pytest.mark.parametrize(("thoughts", "request_text"), [(9, ANSWER), (40, ANSWER), ("answer", None)])
def test_it_is_two_requests(thoughts: int | str, request_text: str | None, options: dict[str, Any]) -> None:
    engine = new_engine()
    samples = engine.generate(
        PROMPT, PATTERN, n=3, think_first=thoughts, describe=False, max_tokens=70, seed=5, temperature=1.0, **options
    )
    assert isinstance(samples, list)
    bridge = (
        request_text
        or "Write this answer again, in the required form and with nothing else. Do not change its content."
    )
    for number, result in enumerate(samples):
        free, answer = in_two_requests(thoughts, bridge, 70, 5 + number, temperature=1.0, **options)
        assert result.reasoning == free.text and free.tokens
        assert (result.text, result.value, result.seed) == (answer.text, answer.value, 5 + number)
        assert result.tokens == free.tokens + answer.tokens and len(result.tokens) <= 70
        assert result.token_masks == free.token_masks + answer.token_masks
        assert result.prompt_tokens == free.prompt_tokens
        chosen = sum(result.token_masks)
        assert result.removed_log_masses[:chosen] == pytest.approx(
            [*free.removed_log_masses[: sum(free.token_masks)], *answer.removed_log_masses][:chosen]
        )
        assert result.removed_log_mass == pytest.approx(answer.removed_log_mass)
        if "logprobs" in options:
            assert result.logprobs == free.logprobs + answer.logprobs
        (field,), (own_field,) = result.fields.values(), answer.fields.values()
        assert field.text == own_field.text and field.choices == own_field.choices
        assert (field.logprob, field.confidence) == pytest.approx((own_field.logprob, own_field.confidence))
        if field.position is not None:
            assert field.position == own_field.position + len(free.tokens)


@examples(60)
@given(st.integers(1, 80), st.one_of(st.just("answer"), st.integers(1, 90)), st.integers(0, 2**64 - 1))
def test_the_answer_is_complete_in_the_budget(max_tokens: int, thoughts: Any, seed: int) -> None:
    options = {"max_tokens": max_tokens, "think_first": thoughts, "seed": seed, "temperature": 1.5}
    if max_tokens < SHORTEST:
        with pytest.raises(guided.BudgetError):
            ENGINE.generate(PROMPT, PATTERN, **options)
        return
    result = ENGINE.generate(PROMPT, PATTERN, **options)
    assert re.fullmatch(PATTERN, result.text) and result.finish_reason == "stop"
    assert len(result.tokens) <= max_tokens
    assert result.reasoning is not None and not any(id in result.tokens for id in (256, 257))


@examples(20)
@given(st.integers(-5, 130))
def test_the_answer_is_complete_in_the_context(spare: int) -> None:
    plain = ENGINE.generate(PROMPT, PATTERN, max_tokens=40).prompt_tokens
    system = len(ids_of(f"<|im_start|>system\n{THINK_INSTRUCTION}<|im_end|>\n"))
    engine = new_engine(plain + system + SHORTEST + spare)
    options = {"think_first": 50, "describe": False, "max_tokens": 300, "seed": 3, "temperature": 1.0}
    if spare < 0:
        with pytest.raises((guided.BudgetError, guided.ContextError)):
            engine.generate(PROMPT, PATTERN, **options)
        return
    result = engine.generate(PROMPT, PATTERN, **options)
    assert re.fullmatch(PATTERN, result.text)
    room = max(0, spare - len(ids_of(turn(ANSWER))))
    assert (result.reasoning == "") == (room == 0)


def test_an_exact_sample_after_thoughts() -> None:
    options = {"think_first": 6, "seed": 4, "temperature": 1.0, "max_tokens": 60, "max_passes": 5000}
    result = ENGINE.generate(PROMPT, "[ab]{1,3}", sampling="exact", **options)
    assert re.fullmatch("[ab]{1,3}", result.text) and len(result.reasoning) >= 1
    assert list(result.fields) == [""] and result.fields[""].text == result.text


def test_events_are_the_result() -> None:
    events = list(ENGINE.stream(PROMPT, PATTERN, think_first=12, max_tokens=60, seed=8, temperature=1.0))
    result = events[-1].result
    assert result is not None and all(event.result is None for event in events[:-1])
    assert "".join(event.text for event in events if event.reasoning) == result.reasoning
    assert "".join(event.text for event in events if not event.reasoning) == result.text
    assert [token for event in events for token in event.tokens] == result.tokens
    order = [event.reasoning for event in events if event.text]
    assert order == sorted(order, reverse=True) and set(order) == {True, False}
    assert len(result.timings.forward) >= 12 and result.timings.prefill > 0 and result.timings.total > 0


@pytest.mark.parametrize("run_ahead", [False, True])
@pytest.mark.parametrize("blocks", [600, 60])
def test_schedulers_agree(run_ahead: bool, blocks: int) -> None:
    """Running ahead, and a cache that is too small for all sequences, change nothing."""
    requests = [
        guided.Request(
            PROMPT, PATTERN, n=3, options={"think_first": 20, "seed": seed, "temperature": 1.2, "max_tokens": 60}
        )
        for seed in (1, 7)
    ]
    expected = [one for request in requests for one in ENGINE.generate(PROMPT, PATTERN, n=3, **request.options)]
    batch = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), blocks, 16)), run_ahead=run_ahead)
    tasks = [
        Task(one)
        for request in requests
        for one in ENGINE.outputs(request, ENGINE.encode_prompt(PROMPT), ENGINE.compiler)
    ]
    results = [events[-1].result for events in drive(batch, tasks)]
    assert [one.tokens for one in results] == [one.tokens for one in expected]
    assert [one.reasoning for one in results] == [one.reasoning for one in expected]
    assert not batch and (blocks > 100 or batch.preemptions)


def test_the_form_is_described_in_the_request_for_the_answer() -> None:
    def prompt_tokens(**options: Any) -> int:
        return ENGINE.generate(PROMPT, ["yes", "no"], max_tokens=9, think_first=2, seed=1, **options).prompt_tokens

    assert prompt_tokens() == prompt_tokens(describe=False) < prompt_tokens(describe=True)


def test_reasoning_is_limited() -> None:
    for limit in (1, 2, 30):
        result = ENGINE.generate(
            PROMPT, PATTERN, think_first=limit, reasoning_end="</think>", max_tokens=200, seed=2, temperature=1.0
        )
        end = result.tokens.index(ord("{")) if limit < 3 else None
        assert re.fullmatch(PATTERN, result.text)
        assert len(result.reasoning) <= limit and (end is None or end <= limit + len("</think>"))


@pytest.mark.parametrize(
    ("prompt", "constraint", "options", "reason"),
    [
        (PROMPT, PATTERN, {"think_first": 0}, "think_first is 0, but must be a positive number"),
        (PROMPT, PATTERN, {"think_first": True}, "think_first is True"),
        (PROMPT, PATTERN, {"think_first": "long"}, "think_first is 'long'"),
        (PROMPT, PATTERN, {"think_first": "answer", "reasoning_end": "x"}, "exclude each other"),
        (PROMPT, None, {"think_first": 5}, "there is no constraint"),
        (PROMPT, PATTERN, {"think_first": 5, "raw": True}, "no chat template renders the prompt"),
        ([1, 2], PATTERN, {"think_first": 5}, "no chat template renders the prompt"),
        (
            Conversation([{"role": "assistant", "content": "I"}], continue_final_message=True),
            PATTERN,
            {"think_first": 5},
            "continues the last message",
        ),
    ],
)
def test_unsupported_requests_are_errors(prompt: Any, constraint: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(guided.OptionError, match=re.escape(reason)) as caught:
        ENGINE.generate(prompt, constraint, **options)
    assert caught.value.option == "think_first"


ENGINE = new_engine()
