"""Runs: sequences in a large batch get several tokens at once, and the same results as one token at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.automaton import _core
from guided.engine import batch_matchers, runs, stepper
from guided.engine.result import StreamEvent
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.sequence import Sequence
from guided.engine.stepper import Stepper
from guided.engine.stopping import Stops
from guided.engine.task import Task
from guided.kernels import choose, choose_batch
from guided.kernels.choose_device import DeviceChoices
from guided.kv.paged import PagedCache
from guided.matching import GrammarMatcher
from guided.matching.bitmask import row_of
from guided.sampling import SamplingParams
from guided.sampling.choice import Choice
from scripts.gpu.choices import prepare
from tests.effort import examples
from tests.engine_support import drive
from tests.test_engine_scheduler import COMPILER, MODEL, VOCABULARY

torch.set_num_threads(1)
PATTERNS = "[abcde]{20,60}", "(ab|ba)*", "a+b?c{2}", "[ab]{9}cdcdcd[ab]{9,}", "(a|b|c){4,}(0|1)*"


@pytest.fixture(autouse=True)
def _(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MIN_RUNNING", 2)


def scheduler(run_ahead: bool, blocks: int = 800, **options) -> Scheduler:
    runner = ModelRunner(MODEL, PagedCache(cache_shape(MODEL), blocks, 4))
    return Scheduler(runner, run_ahead=run_ahead, **{"token_budget": 200, **options})


def tasks(count: int = 20, max_tokens: int = 30) -> list[Task]:
    """Sequences with and without constraints, ramps and filters."""
    grammars = [None, *map(COMPILER.compile_regex, PATTERNS)]
    made = []
    for number in range(count):
        grammar = grammars[number % len(grammars)]
        matcher = None if grammar is None else GrammarMatcher(grammar)
        filters = [{}, {"top_k": 3}, {"top_p": 0.8}, {"min_p": 0.1}][number // 3 % 4]
        params = SamplingParams(**{"temperature": number % 3 / 2, "seed": number, **filters})
        ramp = number % 2 * 2.0
        made.append(
            Task(
                Sequence(
                    VOCABULARY, [1, 2 + number % 5], matcher, params, max_tokens=max_tokens, budget_ramp=ramp
                )
            )
        )  # fmt: skip
    return made


def figures(events: list[StreamEvent]) -> tuple:
    """All that does not depend on the division into events, except for times."""
    result = events[-1].result
    assert result is not None
    assert [token for event in events for token in event.tokens] == result.tokens
    assert "".join(event.text for event in events) == result.text
    times = result.timings
    record = None if result.record is None else (result.record.starts, result.record.logprobs, result.record.preferred)
    return (
        result.tokens, result.text, result.token_masks, result.finish_reason, result.removed_log_masses,
        result.budget_bound, result.cut, record, len(times.mask), len(times.sample), len(times.forward),
    )  # fmt: skip


def outcomes(batch: Scheduler, group: list[Task]) -> list[tuple]:
    return [figures(events) for events in drive(batch, group)]


def count_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of all runs that end from now on."""
    lengths, end = list[int](), runs.Runs._end

    def counting(self, slot, *arguments):
        lengths.append(int(self._count[slot]))
        return end(self, slot, *arguments)

    monkeypatch.setattr(runs.Runs, "_end", counting)
    return lengths


def endless(params: SamplingParams, max_tokens: int) -> Sequence:
    return Sequence(VOCABULARY, [1, 2], None, params, max_tokens=max_tokens, stops=Stops(ignore_eos=True))


@pytest.mark.parametrize("cores", [1, 4])
@pytest.mark.parametrize("max_tokens", [12, 30, 60])
def test_results_are_the_same(max_tokens: int, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_matchers, "_cores", lambda: cores)
    monkeypatch.setattr(batch_matchers, "_MIN_MATCHERS", 2)
    batch_matchers._pool.cache_clear()
    expected = outcomes(scheduler(False), tasks(max_tokens=max_tokens))
    lengths = count_runs(monkeypatch)
    batch = scheduler(True)
    assert outcomes(batch, tasks(max_tokens=max_tokens)) == expected
    assert len(lengths) >= 20 and max(lengths) >= min(8, max_tokens // 2)
    assert batch.runner.cache.available == batch.runner.cache.capacity
    batch_matchers._pool.cache_clear()


def test_python_sees_a_sequence_once_for_several_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, advance = list[int](), Stepper.advance
    monkeypatch.setattr(Stepper, "advance", lambda self, reply: seen.append(1) or advance(self, reply))

    def steps(min_running: int) -> int:
        monkeypatch.setattr(runs, "MIN_RUNNING", min_running)
        params = [SamplingParams(1.0, seed=number) for number in range(24)]
        group = [Task(endless(one, 64)) for one in params]
        seen.clear()
        found = drive(scheduler(True), group)
        assert all(len(events[-1].result.tokens) == 64 for events in found)
        return len(seen)

    one_by_one, in_runs = steps(1000), steps(2)
    assert in_runs < one_by_one / 12


def test_events_arrive_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No event has more than `MAX_TOKENS` tokens, and in each step about the same number of runs has an event."""
    lengths = count_runs(monkeypatch)
    params = [SamplingParams(1.0, seed=number) for number in range(40)]
    found = drive(scheduler(True, blocks=1200), [Task(endless(one, 90)) for one in params])
    assert len(lengths) == len(params)  # one long run each
    sizes = [len(event.tokens) for events in found for event in events]
    assert max(sizes) <= runs.MAX_TOKENS
    middle = [len(event.tokens) for events in found for event in events[3:-3]]
    assert 7 <= np.mean(middle) <= 9 and max(middle) <= 10


def test_runs_end_when_few_sequences_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MIN_RUNNING", 8)
    group = [Task(endless(SamplingParams(1.0, seed=number), 200 if number < 4 else 40)) for number in range(24)]
    found = drive(scheduler(True), group)
    assert {len(event.tokens) for events in found[:4] for event in events[-100:]} <= {0, 1}


def test_runs_end_when_memory_is_short() -> None:
    """So that tasks can be preempted. Results are the same."""

    def group() -> list[Task]:
        return [Task(endless(SamplingParams(1.0, seed=number), 100)) for number in range(10)]

    batch = scheduler(True, blocks=150)
    found, expected = outcomes(batch, group()), outcomes(scheduler(False), group())
    assert [one[:-1] for one in found] == [one[:-1] for one in expected]  # the number of passes may be larger
    assert batch.preemptions and batch.runner.cache.available == batch.runner.cache.capacity


def test_few_sequences_are_asked_after_each_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    lengths = count_runs(monkeypatch)
    found = drive(scheduler(True), tasks(12))
    assert not lengths and all(len(event.tokens) <= 9 for events in found for event in events)
    drive(scheduler(True), tasks(runs.MIN_RUNNING))
    assert lengths


def test_only_sequences_whose_steps_are_alike_run(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = count_runs(monkeypatch)
    grammar = COMPILER.compile_regex("[abcde]{3,30}")

    class Slow(GrammarMatcher):
        def accept_token(self, token: int, /) -> bool:
            return super().accept_token(token)

    def make(matcher=None, params: SamplingParams | None = None, **options) -> Task:
        params = params or SamplingParams(1.0)
        return Task(Sequence(VOCABULARY, [1, 2], matcher, params, max_tokens=20, **options))

    drive(scheduler(True), [make(Slow(grammar)) for _ in range(9)])
    drive(scheduler(True), [make(params=SamplingParams(1.0, presence_penalty=1.0)) for _ in range(9)])
    drive(scheduler(True), [make(drafts=2) for _ in range(9)])
    drive(scheduler(True), [make(GrammarMatcher(grammar), score_forced=True) for _ in range(9)])
    assert not lengths
    drive(scheduler(True), [make(GrammarMatcher(grammar)) for _ in range(9)])
    assert lengths


# ---- what can go wrong in the middle


def test_a_cancelled_run(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, group = scheduler(True), tasks(12)
    for task in group:
        batch.add([task])
    events = dict[Task, list[StreamEvent]]()
    for number in range(200):
        if number == 6:
            running = list(batch._ahead.runs)
            assert len(running) >= 6
            cancelled = set(running[::2])
            for task in cancelled:
                batch.cancel(task)
        for task, event in batch.step():
            events.setdefault(task, []).append(event)
    assert not batch and not len(batch._ahead.runs)
    assert batch.runner.cache.available == batch.runner.cache.capacity
    expected = outcomes(scheduler(False), tasks(12))
    for task, figures_of_task in zip(group, expected, strict=True):
        if task not in cancelled:
            assert figures(events[task]) == figures_of_task


def test_all_runs_are_cancelled() -> None:
    batch, group = scheduler(True), tasks(12)
    for task in group:
        batch.add([task])
    for _ in range(6):
        batch.step()
    for task in group:
        batch.cancel(task)
    assert batch._ahead.pending is None and not batch
    assert batch.runner.cache.available == batch.runner.cache.capacity


def test_a_pass_that_fails_ends_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, group = scheduler(True), tasks(12)
    for task in group:
        batch.add([task])
    for _ in range(6):
        batch.step()
    assert len(batch._ahead.runs) >= 6
    monkeypatch.setattr(batch.runner, "run", lambda batch: 1 / 0)
    assert {type(outcome) for _, outcome in batch.step() if isinstance(outcome, Exception)} == {ZeroDivisionError}
    assert not batch and batch.runner.cache.available == batch.runner.cache.capacity


@pytest.mark.parametrize("when", ["launch", "wait"])
def test_choices_that_fail_are_repeated_one_by_one(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, rng = outcomes(scheduler(False), tasks()), random.Random(1)
    target = {"launch": (choose, "_choose_on_cpu"), "wait": (choose.LaunchedChoices, "wait")}[when]
    plain, refused = getattr(*target), []

    def failing(first, *others):
        count = first._count if when == "wait" else len(first) + sum(map(len, filter(None, others)))
        if count > 1 and rng.random() < 0.2:
            refused.append(1)
            raise ValueError("a broken device")
        return plain(first, *others)

    monkeypatch.setattr(*target, failing)
    lengths = count_runs(monkeypatch)
    assert outcomes(scheduler(True), tasks()) == expected
    assert len(refused) > 5 and lengths


def test_a_core_that_refuses_rows_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, rng, core = outcomes(scheduler(False), tasks()), random.Random(1), _core.advance_rows

    def failing(*arguments):
        if rng.random() < 0.3:
            raise ValueError("the core refuses these rows")
        core(*arguments)

    monkeypatch.setattr(batch_matchers._core, "advance_rows", failing)
    lengths = count_runs(monkeypatch)
    assert outcomes(scheduler(True), tasks()) == expected
    assert lengths


def test_a_slow_matcher_ends_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = outcomes(scheduler(False), tasks())
    monkeypatch.setattr(runs, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(stepper, "SLOW_SECONDS", 1.0)
    lengths = count_runs(monkeypatch)
    found = outcomes(scheduler(True), tasks())
    assert found == expected and len(lengths) > 20


def test_no_run_begins_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences that the cache cannot hold together are preempted, as without runs."""
    expected = outcomes(scheduler(False), tasks())
    lengths = count_runs(monkeypatch)
    batch = scheduler(True, blocks=40)
    assert outcomes(batch, tasks()) == expected
    assert batch.preemptions and lengths


@pytest.mark.parametrize("first_look", [1, 2, 256])
def test_tokens_that_a_device_chooses(first_look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choices of runs and others share a launch. Those for which the first look was too small are repeated."""
    monkeypatch.setattr(choose_batch, "FIRST_LOOK", first_look)
    monkeypatch.setattr(choose, "_choose_on_cpu", DeviceChoices)
    lengths = count_runs(monkeypatch)
    found = [one[:4] for one in outcomes(scheduler(True), tasks())]
    assert lengths
    assert found == [one[:4] for one in outcomes(scheduler(False), tasks())]


# ---- the parts


@examples(60)
@given(st.randoms(use_true_random=False), st.integers(1, 6), st.integers(0, 6))
def test_prepared_choices_equal_requests(rng: random.Random, count: int, other_count: int) -> None:
    logits = torch.randn(count + other_count, MODEL.config.vocab_size, generator=torch.manual_seed(rng.random()))
    if rng.random() < 0.2:
        logits[0] = float(rng.choice(["nan", "inf", "-inf"]))
    rows = rng.sample(range(count + other_count), count)

    def choice(number: int) -> Choice:
        params = SamplingParams(
            rng.choice([0.0, 0.7, 2.0]),
            rng.choice([None, 3]),
            rng.choice([None, 0.8]),
            number,
            min_p=rng.choice([0, 0.1]),
        )
        ids = rng.sample(range(VOCABULARY.size), rng.randrange(1, VOCABULARY.size))
        return Choice(params, number, VOCABULARY.size, rng.choice([None, row_of(VOCABULARY.size, ids)]))

    choices = [choice(number) for number in range(count)]
    others = [
        choose.Choose(logits, [choice(count + number)], row)
        for number, row in enumerate(sorted(set(range(count + other_count)) - set(rows)))
    ]
    arrays = prepare(choices, rows, logits)
    for make in (DeviceChoices, choose._choose_on_cpu):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(choose, "_choose_on_cpu", make)
            launched = choose.launch(others, arrays)
            expected = choose.answer([*others, *arrays.requests(range(count))])
        answers, tokens = launched.wait(), launched.prepared_tokens
        assert [str(found.rows) for found in answers] == [str(found.rows) for found in expected[: len(others)]]
        assert tokens is not None
        assert launched.tokens.tolist()[len(others) :] == [
            int(token) if chosen or make is DeviceChoices else 0
            for token, chosen in zip(tokens.token, tokens.is_chosen, strict=True)
        ]
        for index, (row,) in enumerate(found.rows for found in expected[len(others) :]):
            assert tokens.is_chosen[index] == isinstance(row, choose.ChosenToken)
            if tokens.is_chosen[index]:
                preferred = None if tokens.preferred[index] < 0 else tokens.preferred[index]
                assert (row.token, row.preferred) == (tokens.token[index], preferred)
                assert (row.removed, row.logprob) == (tokens.removed[index], tokens.logprob[index])
