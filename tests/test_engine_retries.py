"""Doubtful values that are written again: the best version is kept, and everything reported about it is right."""

from __future__ import annotations

import json
import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.engine.engine import Engine
from guided.engine.fields import Field
from guided.engine.retries import Retries, _Version
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.task import Task
from guided.frontends.json_schema.documents.source_spans import ScalarScanner, scalar_spans
from guided.kv.paged import PagedCache
from tests.effort import draws, examples
from tests.engine_support import drive
from tests.growth import assert_linear
from tests.test_engine_fields import ENGINE, MODEL, PROMPT, SCHEMA, TOKENS, VOCABULARY, check, values

torch.set_num_threads(1)
OPTIONS: dict[str, Any] = {"max_tokens": 200, "seed": 5, "budget_ramp": 0.0}


@given(values, st.sampled_from([None, 2]), st.lists(st.integers(1, 9), max_size=40))
def test_values_are_found_while_a_text_grows(value: Any, indent: int | None, sizes: list[int]) -> None:
    text = json.dumps(value, indent=indent)
    spans, scanner, found, size = list(scalar_spans(text)), ScalarScanner(), list[tuple[str, int, int]](), 0
    for more in sizes:
        size = min(len(text), size + more)
        found += scanner.read(text[:size])
        unsure = [start for _, start, end in spans if start < size <= end and text[start] not in '"[{']
        inside = [start for _, start, end in spans if start < size < end and text[start] == '"']
        assert found == [span for span in spans if span[2] <= size and span[1] not in unsure]
        assert [scanner.open_start] == (unsure or inside or [-1])
    assert found + scanner.read(text, is_complete=True) == spans


def test_the_end_of_a_growing_text_is_read_once() -> None:
    cases = (('["', "a", '"]'), ('["', "\\n", '"]'), ('{"', "k", '":1}'), ("[", "1", "]"), ("[", " ", "1]"))
    for begin, part, end in cases:

        def read_by_characters(size: int, begin: str = begin, part: str = part, end: str = end) -> None:
            text, scanner = begin + part * size + end, ScalarScanner()
            found = [span for length in range(len(text) + 1) for span in scanner.read(text[:length])]
            assert found == list(scalar_spans(text))

        assert_linear(read_by_characters, 2000)


class Watched:
    """Records the choices among versions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chosen = list[tuple[float, list[float]]]()
        self.passes = 0  # numbers of other versions, negative
        original = Retries._retry_value

        original_write = Retries._write_value

        def best(retries, first, forward, number):
            name, start, _ = first.values[number]
            before, self.versions = first.first_choice(start), [first]
            run, forward = yield from original(retries, first, forward, number)
            versions = [one for one in self.versions if len(one.values) > number and one.values[number][0] == name]
            self.chosen.append((run.logprob(before), [one.logprob(before) for one in versions]))
            return run, forward

        def write(retries, run, number, *bounds):
            self.versions.append(run)
            self.passes -= retries._passes_left
            forward = yield from original_write(retries, run, number, *bounds)
            self.passes += retries._passes_left
            return forward

        monkeypatch.setattr(Retries, "_retry_value", best)
        monkeypatch.setattr(Retries, "_write_value", write)


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
def test_the_scores_match_the_text(seed: int, temperature: float, retries: int, below: float) -> None:
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
    for blocks, run_ahead in ((200, False), (12, False), (200, True)):
        batch = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), blocks, 8)), run_ahead=run_ahead)
        events = drive(
            batch, [Task(one) for one in ENGINE.outputs(request, ENGINE.encode_prompt(PROMPT), ENGINE.compiler)]
        )
        assert bool(batch.preemptions) == (blocks == 12)
        assert [each[-1].result.tokens for each in events] == expected
        for each in events:
            result = each[-1].result
            assert "".join(event.text for event in each) == result.text and len(each) > 3
            assert [token for event in each for token in event.tokens] == result.tokens
            assert all(event.result is None for event in each[:-1])


def test_versions_that_differ_in_their_last_token_while_the_next_pass_runs_ahead() -> None:
    digits = {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 12}
    for seed in range(draws(40)):
        options = {
            **OPTIONS,
            "seed": seed,
            "temperature": 2.0,
            "retries": 4,
            "retry_below": 1.0,
            "separators": (",", ":"),
        }
        request = guided.Request(PROMPT, digits, options=options)
        results = []
        for run_ahead in (False, True):
            batch = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), 200, 8)), run_ahead=run_ahead)
            (events,) = drive(
                batch, [Task(one) for one in ENGINE.outputs(request, ENGINE.encode_prompt(PROMPT), ENGINE.compiler)]
            )
            results.append(events[-1].result)
        assert results[0].tokens == results[1].tokens
        assert results[0].removed_log_masses == pytest.approx(results[1].removed_log_masses, abs=1e-5)


def test_passes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    for most in (1, 10, 100):
        watched.passes = 0
        ENGINE.generate(PROMPT, SCHEMA, **OPTIONS, temperature=1.0, retry_below=1.0, retries=8, max_passes=most)
        assert watched.passes == -most


@pytest.mark.parametrize("constraint", [SCHEMA, "(?:[a-z]{1,8} ){1,6}"])
def test_unlikely_versions_end_early(monkeypatch: pytest.MonkeyPatch, constraint: Any) -> None:
    """The output is the one that is chosen when all versions are written to their end."""
    options = {**OPTIONS, "retries": 6, "retry_below": 1.0, "max_passes": 100_000}
    passes, original = list[int](), Retries._write_value

    def write_to_the_end(retries, version, number, kept_count, _):
        return original(retries, version, number, kept_count, float("-inf"))

    for seed in range(draws(6)):
        result = ENGINE.generate(PROMPT, constraint, **{**options, "seed": seed})
        with monkeypatch.context() as patch:
            patch.setattr(Retries, "_write_value", write_to_the_end)
            complete = ENGINE.generate(PROMPT, constraint, **{**options, "seed": seed})
        assert result == replace(complete, timings=result.timings)
        passes += [len(result.timings.forward), len(complete.timings.forward)]
    assert sum(passes[::2]) < 0.9 * sum(passes[1::2])


class CountingRunner(ModelRunner):
    """Remembers the logits of all passes as long as something else does."""

    def step(self, *args, **keywords):
        logits = super().step(*args, **keywords)
        self.logits = [*(each for each in getattr(self, "logits", []) if each() is not None), weakref.ref(logits)]
        return logits


@pytest.mark.parametrize("constraint", [SCHEMA, "(?:[a-z]{1,8} ){1,6}"])
def test_memory_does_not_grow_with_the_number_of_versions(monkeypatch: pytest.MonkeyPatch, constraint: Any) -> None:
    """No version keeps logits, and a version that has ended or was discarded keeps no matcher."""
    matchers, original = list[Any](), _Version.__init__

    def remember(version, sequence, **keywords):
        original(version, sequence, **keywords)
        matchers.append(weakref.ref(sequence.matcher))

    monkeypatch.setattr(_Version, "__init__", remember)
    runner = CountingRunner(MODEL, PagedCache(cache_shape(MODEL), 200, 8))
    scheduler = Scheduler(runner, run_ahead=False)
    request = guided.Request(PROMPT, constraint, options={**OPTIONS, "retries": 5, "retry_below": 1.0})
    scheduler.add([Task(one) for one in ENGINE.outputs(request, ENGINE.encode_prompt(PROMPT), ENGINE.compiler)])
    is_json, most_matchers = constraint is SCHEMA, 0
    while scheduler:
        scheduler.step()
        assert not any(each() is not None for each in runner.logits)
        most_matchers = max(most_matchers, sum(each() is not None for each in matchers))
    assert len(matchers) > 5 and most_matchers == (2 if is_json else 1)


def test_the_text_after_a_value_has_the_parameters_of_the_request() -> None:
    """After a retry, which samples, a greedy request takes the most likely allowed tokens again, and keeps its seed."""
    result = ENGINE.generate(PROMPT, SCHEMA, **OPTIONS, retries=4)
    plain = ENGINE.generate(PROMPT, SCHEMA, **OPTIONS)
    assert result.text != plain.text and result.seed == OPTIONS["seed"]
    sure = [pointer for pointer, field in result.fields.items() if field.confidence >= 0.5 and field.choices]
    assert sure
    for pointer in sure:  # written once, greedily
        field, at = result.fields[pointer], 0
        grammar = ENGINE.compiler.compile_json_schema(
            SCHEMA, **guided.JsonSchemaOptions.for_generation().non_defaults()
        )
        matcher, written = guided.GrammarMatcher(grammar), 0
        for position, token in enumerate(result.tokens):
            bitmask = guided.allocate_token_bitmask(1, VOCABULARY.size)
            matcher.fill_next_token_bitmask(bitmask, max_tokens=201 - position)
            begin, written = written, written + len(VOCABULARY.token_bytes(token) or b"")
            if result.token_masks[position] and field.start < written and begin < field.end:
                logits = ENGINE.logits([*PROMPT, *result.tokens[:position]])[0, : VOCABULARY.size]
                guided.apply_token_bitmask_inplace(logits[None], bitmask)
                assert int(logits.argmax()) == token
                at += 1
            assert matcher.accept_token(token)


def test_a_token_may_end_one_value_and_begin_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    strings = {"type": "array", "items": {"type": "string", "pattern": "^[a-c]{1,3}$"}, "minItems": 3, "maxItems": 5}
    options = {**OPTIONS, "temperature": 1.0, "separators": (",", ":"), "retry_below": 1.0, "retries": 2}
    found = 0
    for seed in range(12):
        events = list(ENGINE.stream(PROMPT, strings, **{**options, "seed": seed}))
        result = events[-1].result
        assert isinstance(result.value, list) and 3 <= len(result.value) <= 5
        assert "".join(event.text for event in events) == result.text
        for pointer, start, end in scalar_spans(result.text):
            check(result, pointer, start, end, end)
        found += TOKENS.index(b'","') in result.tokens
    assert found and all(chosen == max(versions) for chosen, versions in watched.chosen)


def test_a_draft_model_does_not_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    drafting = Engine(MODEL, VOCABULARY, draft_model=MODEL)
    options = {**OPTIONS, "temperature": 1.0, "retries": 2}
    with_model = drafting.generate(PROMPT, SCHEMA, **options)
    assert with_model.tokens == ENGINE.generate(PROMPT, SCHEMA, **options).tokens
    assert with_model.timings.drafted_tokens == 0


def test_other_texts_are_one_value() -> None:
    better = 0
    for seed in range(6):
        options = {"max_tokens": 20, "temperature": 1.0, "seed": seed}
        plain = ENGINE.generate(PROMPT, "[a-z ]{3,10}", **options).fields[""]
        result = ENGINE.generate(PROMPT, "[a-z ]{3,10}", **options, retries=6)
        field: Field = result.fields[""]
        assert field.text == result.text
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
def test_options_that_cannot_be_combined(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(guided.OptionError, match=reason):
        ENGINE.generate(PROMPT, "a|b", **options)
