"""Doubtful values that are written again: the best version stays, and everything reported of it is right."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.engine.fields import Field
from guided.engine.retries import Retries
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.task import Task
from guided.frontends.json_schema.documents.source_spans import open_scalar, scalar_spans
from guided.kv.paged import PagedCache
from tests.effort import examples
from tests.engine_support import drive
from tests.test_engine_fields import ENGINE, MODEL, PROMPT, SCHEMA, check, values

torch.set_num_threads(1)
OPTIONS: dict[str, Any] = {"max_tokens": 200, "seed": 5, "budget_ramp": 0.0}


@given(values, st.sampled_from([None, 2]), st.integers(0, 200))
def test_where_a_beginning_of_json_ends(value: Any, indent: int | None, size: int) -> None:
    text = json.dumps(value, indent=indent)
    begun = text[:size]
    begin = open_scalar(begun)
    inside = [start for _, start, end in scalar_spans(text) if start < len(begun) and (len(begun) < end or (
        len(begun) == end and text[start] not in '"[{'))]  # fmt: skip
    assert begin == (inside[0] if inside and text[inside[0]] not in "[{" else -1)


class Watched:
    """What was chosen among which versions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chosen = list[tuple[float, list[float]]]()
        original = Retries._best

        def best(retries, first, forward, before, at):
            old = list(retries._dropped)
            name, field = first.fields(is_json=retries._is_json)[at]
            run, forward = yield from original(retries, first, forward, before, at)
            others = [one for one in retries._dropped if one not in old or one is first]
            found = [one.fields(is_json=retries._is_json) for one in [run, *others]]
            logprobs = [fields[at][1].logprob for fields in found if len(fields) > at and fields[at][0] == name]
            self.chosen.append((run.fields(is_json=retries._is_json)[at][1].logprob, [field.logprob, *logprobs]))
            return run, forward

        monkeypatch.setattr(Retries, "_best", best)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_best_version_stays(monkeypatch: pytest.MonkeyPatch, temperature: float) -> None:
    watched = Watched(monkeypatch)
    plain = ENGINE.generate(PROMPT, SCHEMA, **OPTIONS, temperature=temperature)
    result = ENGINE.generate(PROMPT, SCHEMA, **OPTIONS, temperature=temperature, retries=4)
    assert watched.chosen and all(chosen == max(all_versions) for chosen, all_versions in watched.chosen)
    assert any(chosen > versions[0] for chosen, versions in watched.chosen), "some version is better than the first"
    assert result.text != plain.text


@examples(15)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 1.0, 3.0]), st.integers(1, 3), st.sampled_from([0.2, 0.5, 1.0]))
def test_the_scores_are_those_of_the_text(seed: int, temperature: float, retries: int, below: float) -> None:
    options = {**OPTIONS, "seed": seed, "temperature": temperature, "retries": retries, "retry_below": below}
    result = ENGINE.generate(PROMPT, SCHEMA, **options)
    assert result.finish_reason == "stop" and result.value is not None
    assert sum(result.token_masks) <= len(result.removed_log_masses) <= sum(result.token_masks) + 1
    for pointer, start, end in scalar_spans(result.text):
        check(result, pointer, start, end, end + (result.text[start] not in '"[{'))


def test_events_schedulers_and_caches() -> None:
    options = {**OPTIONS, "temperature": 1.0, "retries": 3, "n": 3}
    expected = [one.tokens for one in ENGINE.generate(PROMPT, SCHEMA, **options)]
    request = guided.Request(PROMPT, SCHEMA, n=3, options={name: one for name, one in options.items() if name != "n"})
    for blocks, run_ahead in ((200, False), (30, False), (200, True)):
        batch = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), blocks, 8)), run_ahead=run_ahead)
        events = drive(batch, [Task(one) for one in ENGINE.outputs(request, PROMPT, ENGINE.compiler)])
        assert [each[-1].result.tokens for each in events] == expected
        for each in events:
            result = each[-1].result
            assert "".join(event.text for event in each) == result.text and len(each) > 3
            assert [token for event in each for token in event.tokens] == result.tokens
            assert all(event.result is None for event in each[:-1])


def test_passes_are_bounded() -> None:
    options = {**OPTIONS, "temperature": 1.0, "retry_below": 1.0}
    plain = ENGINE.generate(PROMPT, SCHEMA, **options)
    counts = {}
    for most in (1, 10, 1000):
        result = ENGINE.generate(PROMPT, SCHEMA, **options, retries=8, max_passes=most)
        counts[most] = len(result.timings.forward)
    assert counts[1] <= len(plain.timings.forward) + 40 and counts[1] < counts[10] + 30 < counts[1000]


def test_other_texts_are_one_value() -> None:
    better = 0
    for seed in range(6):
        options = {"max_tokens": 20, "temperature": 1.0, "seed": seed}
        plain = ENGINE.generate(PROMPT, "[a-z ]{3,10}", **options).fields[""]
        result = ENGINE.generate(PROMPT, "[a-z ]{3,10}", **options, retries=6)
        field: Field = result.fields[""]
        assert field.text == result.text and field.logprob >= plain.logprob
        better += field.logprob > plain.logprob
        sure = ENGINE.generate(PROMPT, "[a-z ]{3,10}", **options, retries=6, retry_below=0)
        assert sure.text == plain.text
    assert better >= 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"retries": -1}, "retries is -1"),
        ({"retries": 1, "retry_below": 2}, "retry_below is 2"),
        ({"retries": 1, "logprobs": 1}, "retries cannot be combined with logprobs"),
        ({"retries": 1, "drafts": 1}, "retries cannot be combined with drafts"),
        ({"retries": 1, "reasoning_end": "</think>"}, "retries cannot be combined with reasoning_end"),
        ({"retries": 1, "sampling": "exact", "temperature": 1.0}, "retries cannot be combined with sampling"),
    ],
)
def test_what_cannot_be_combined(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(guided.OptionError, match=reason):
        ENGINE.generate(PROMPT, "a|b", **options)
