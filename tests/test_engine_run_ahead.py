"""Running ahead: passes that read tokens which the host does not know yet produce the same outputs as other passes.

A CPU replaces the device. The scheduler gets the chosen tokens only after the next pass has run.
"""

from __future__ import annotations

import random
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.chat.template import CHATML, ChatTemplate
from guided.engine import batch_matchers, masks, runs
from guided.engine.engine import Engine
from guided.engine.runner import Chunk, ModelRunner, TokensAhead, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.sequence import Sequence
from guided.engine.task import Task
from guided.errors import GuidedError
from guided.kernels import choose, choose_batch
from guided.kernels.choose_device import DeviceChoices
from guided.kv.paged import PagedCache
from guided.matching import GrammarMatcher
from guided.matching.constraint import ConstraintCompiler
from guided.models.architectures.llama import Llama
from guided.sampling import SamplingParams
from tests.effort import examples
from tests.engine_support import drive
from tests.test_describe import CONFIG
from tests.test_describe import VOCABULARY as TEXT_VOCABULARY
from tests.test_engine_scheduler import CACHES, COMPILER, MODEL, VOCABULARY, assert_alike, in_any_batch, sequence, twin

torch.set_num_threads(1)


class NotingRunner(ModelRunner):
    """Records for each pass how many tokens were known, and how many were not."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.passes: list[tuple[int, int]] = []

    def step(self, chunks: list[Chunk], ahead: TokensAhead | None = None) -> torch.Tensor:
        self.passes.append((sum(len(chunk.tokens) for chunk in chunks), 0 if ahead is None else len(ahead.leases)))
        return super().step(chunks, ahead)


def scheduler(run_ahead: bool, blocks: int = 200, **options) -> Scheduler:
    runner = NotingRunner(MODEL, PagedCache(cache_shape(MODEL), blocks, 4))
    return Scheduler(runner, run_ahead=run_ahead, **options)


def free(prompt: list[int], max_tokens: int = 9, **options) -> Sequence:
    params = SamplingParams(1.0, None, None, sum(prompt), logit_bias={12: -100.0})
    return Sequence(VOCABULARY, prompt, None, params, max_tokens=max_tokens, **options)


def test_all_but_the_first_pass_run_ahead() -> None:
    plain, ahead = scheduler(False), scheduler(True)
    prompts = [[1, 2], [3, 4], [5, 6]]
    want = drive(plain, [Task(free(prompt)) for prompt in prompts])
    got = drive(ahead, [Task(free(prompt)) for prompt in prompts])
    assert plain.runner.passes == [(6, 0)] + [(3, 0)] * 8
    assert ahead.runner.passes == [(6, 0)] + [(0, 3)] * 8, "as many passes, and none is in vain"
    assert [[event.text for event in events] for events in got] == [[event.text for event in events] for events in want]
    assert [events[-1].result.tokens for events in got] == [events[-1].result.tokens for events in want]


def test_forced_text_and_ends_cost_a_pass() -> None:
    grammar = COMPILER.compile_regex("(a|b)cdcdcd(a|b)")
    batch = scheduler(True)
    params = SamplingParams()
    task = Task(Sequence(VOCABULARY, [1, 2], GrammarMatcher(grammar), params, max_tokens=20))
    result = drive(batch, [task])[0][-1].result
    assert result.text in {f"{first}cdcdcd{last}" for first in "ab" for last in "ab"}
    known, unknown = zip(*batch.runner.passes, strict=True)
    forced = len(result.tokens) - 2
    assert known == (2, 0, 1 + forced, 0)[: len(known)] and unknown == (0, 1, 0, 1)[: len(known)]


def test_only_sequences_with_drafts_or_forced_scores_do_not_run_ahead() -> None:
    batch = scheduler(True)
    grammar = COMPILER.compile_regex("[abcde]{3,9}")
    scored = Sequence(
        VOCABULARY, [1, 2], GrammarMatcher(grammar), SamplingParams(), max_tokens=9, score_forced=True
    )  # fmt: skip
    sequences = [free([1, 2, 1, 2, 1, 2], drafts=3), scored, free([3, 4])]
    assert [one.can_run_ahead for one in sequences] == [False, False, True]
    drive(batch, [Task(one) for one in sequences])
    assert {unknown for _, unknown in batch.runner.passes} == {0, 1}


@pytest.mark.parametrize("name", CACHES)
@examples(10)
@given(st.randoms(use_true_random=False), st.sampled_from([3, 5, 60]), st.sampled_from([1, 7, 512]))
def test_tokens_that_torch_chooses_for_the_batch(name: str, rng: random.Random, size: int, budget: int) -> None:
    """As on a device, some choices turn out to differ from those that the pass has read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "_choose_on_cpu", DeviceChoices)
        patch.setattr(choose_batch, "FIRST_LOOK", 2)
        in_any_batch(rng, CACHES[name](cache_shape(MODEL), size), budget, run_ahead=True, same=assert_alike)


def test_a_first_look_that_is_too_small_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_choose_on_cpu", DeviceChoices)
    monkeypatch.setattr(choose_batch, "FIRST_LOOK", 1)
    repeated = []
    plain = DeviceChoices.wait

    def wait(choices):
        found = plain(choices)
        repeated.append(len(choices.rechosen_rows))
        return found

    monkeypatch.setattr(DeviceChoices, "wait", wait)
    params = SamplingParams(3.0, None, 0.99, 7, logit_bias={12: -100.0})
    request = Sequence(VOCABULARY, [1, 2], None, params, max_tokens=9)
    got = drive(scheduler(True), [Task(request)])[0][-1].result
    assert sum(repeated) >= 8
    monkeypatch.undo()
    assert got.tokens == drive(scheduler(False), [Task(twin(request))])[0][-1].result.tokens


def test_one_failed_choice_ends_only_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests of the call are repeated one by one, and so are the tokens that the next pass has read."""
    plain, broken = choose._choose_on_cpu, []

    def refuse(requests, prepared=None):
        if len(requests) > 1 and len(broken) < 3:
            broken.append(len(requests))
            raise GuidedError("a broken call")
        return plain(requests, prepared)

    want = [drive(scheduler(False), [Task(free([at, 2]))])[0][-1].result.tokens for at in range(3)]
    monkeypatch.setattr(choose, "_choose_on_cpu", refuse)
    got = drive(scheduler(True), [Task(free([at, 2])) for at in range(3)])
    assert broken == [3, 3, 3]
    assert [events[-1].result.tokens for events in got] == want


def test_a_pass_that_fails_ends_the_tasks_that_were_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = scheduler(True)
    tasks = [Task(free([1, 2])), Task(free([3, 4]))]
    for task in tasks:
        batch.add([task])
    for _ in range(3):
        batch.step()
    monkeypatch.setattr(batch.runner, "run", lambda batch: 1 / 0)
    outcomes = batch.step()
    assert [type(outcome) for _, outcome in outcomes] == [ZeroDivisionError] * 2 and not batch
    monkeypatch.undo()
    assert (
        drive(batch, [Task(free([1, 2]))])[0][-1].result.tokens
        == drive(scheduler(False), [Task(free([1, 2]))])[0][-1].result.tokens
    )


def test_a_task_that_is_cancelled_while_its_choice_is_pending() -> None:
    batch = scheduler(True)
    rng = random.Random(1)
    keep, drop = Task(free([1, 2])), Task(sequence(rng, [1, 2]))
    batch.add([drop])
    batch.add([keep])
    for _ in range(2):
        batch.step()
    batch.cancel(drop)
    events = []
    while batch:
        events += [outcome for task, outcome in batch.step() if task is keep]
    assert events[-1].result.tokens == drive(scheduler(False), [Task(free([1, 2]))])[0][-1].result.tokens
    assert batch.runner.cache.available == scheduler(True).runner.cache.available


@pytest.mark.parametrize("run_ahead", [False, True], ids=["waiting", "ahead"])
def test_a_small_token_budget_starves_nobody_who_comes_first(run_ahead: bool) -> None:
    batch = scheduler(run_ahead, token_budget=4)
    low = [Task(free([1, number], 40), priority=5) for number in range(4)]
    for task in low:
        batch.add([task])
    for _ in range(8):  # until all of them are decoding
        batch.step()
    high = Task(free([3, 4, 5]), priority=-5)
    batch.add([high])
    ends = []
    while batch:
        ends += [task for task, outcome in batch.step() if not isinstance(outcome, Exception) and outcome.result]
    assert ends[0] is high


def test_no_pending_choices_are_kept_whose_tasks_were_cancelled() -> None:
    batch, task = scheduler(True), Task(free([1, 2]))
    batch.add([task])
    batch.step()
    assert batch._ahead.pending is not None
    batch.cancel(task)
    assert batch._ahead.pending is None and not batch


def constrained_tasks(
    patterns: tuple[str, ...] = ("[ab]{3,9}c", "(ab|ba)*", "a+b?c{2}", "[ab]{3}cdcdcd[ab]"),
) -> list[Task]:
    grammars = [COMPILER.compile_regex(text) for text in patterns]
    made = []
    for number in range(40):
        matcher = GrammarMatcher(grammars[number % len(grammars)])
        prompt, params = [1, 2 + number % 5], SamplingParams(1.0, seed=number)
        made.append(Task(Sequence(VOCABULARY, prompt, matcher, params, max_tokens=12, budget_ramp=number % 3 * 2.0)))
    return made


def results_of(batch: Scheduler, tasks: list[Task]) -> list[tuple]:
    results = [events[-1].result for events in drive(batch, tasks)]
    return [(each.tokens, each.removed_log_masses, each.budget_bound, each.cut) for each in results]


@pytest.mark.parametrize("cores", [1, 4])
def test_matchers_of_a_large_batch_run_on_threads(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results equal those of matchers that are called one after the other."""
    monkeypatch.setattr(batch_matchers, "_cores", lambda: cores)
    monkeypatch.setattr(runs, "MIN_RUNNING", 1000)  # tests/test_engine_runs.py
    batch_matchers._pool.cache_clear()
    shares, advance = list[int](), batch_matchers._advance

    def noting(steps: list) -> list:
        shares.append(len(steps))
        return advance(steps)

    monkeypatch.setattr(batch_matchers, "_advance", noting)
    expected = results_of(scheduler(False, token_budget=200), constrained_tasks())
    assert not shares
    assert results_of(scheduler(True, token_budget=200), constrained_tasks()) == expected
    assert len(shares) > 4 and min(shares) >= 8
    assert max(shares) == 40 if cores == 1 else max(shares) < 16, "as many threads as matchers suffice for"
    batch_matchers._pool.cache_clear()


def test_rows_of_a_batch_are_filled_before_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No mask is filled by a sequence on its own as long as enough sequences run."""
    monkeypatch.setattr(runs, "MIN_RUNNING", 1000)
    filled, fill = list[bool](), masks.Masks.fill
    batch = scheduler(True, token_budget=200)

    def noting(rows: masks.Masks, tokens_left: int, row: int = 0, *, measure_time: bool = True) -> None:
        if row >= rows._filled_count and measure_time and batch.running_count >= 20:
            filled.append(rows._ready is not None and rows._ready[0] == tokens_left)
        fill(rows, tokens_left, row, measure_time=measure_time)

    monkeypatch.setattr(masks.Masks, "fill", noting)
    drive(batch, constrained_tasks(("[ab]{9,12}c", "(aa|ab|ba|bb){4,}c", "a+b?c{2}")))
    assert len(filled) > 100 and sum(filled) >= 0.95 * len(filled)


def test_a_sequence_with_a_slow_step_becomes_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    advance = batch_matchers._advance
    monkeypatch.setattr(batch_matchers, "_advance", lambda steps: [(*each[:3], 1.0) for each in advance(steps)])
    batch, group, results = scheduler(True, token_budget=200), constrained_tasks(), {}
    for task in group:
        batch.add([task])
    for _ in range(2):
        results |= {task: event.result for task, event in batch.step()}
    assert sum(task.stepper.is_slow for task in group) > 16
    while batch:
        results |= {task: event.result for task, event in batch.step()}
    monkeypatch.undo()
    expected = results_of(scheduler(False, token_budget=200), constrained_tasks())
    assert [results[task].tokens for task in group] == [tokens for tokens, *_ in expected]


@pytest.mark.parametrize("budget", [18, 40, 90])
def test_every_kind_of_output_in_a_large_batch(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs whose matchers run on threads, and outputs whose matchers cannot, equal those of an engine that waits."""
    capture = guided.capture("first", guided.regex("[ab]{1,3}")) + guided.regex(",") + guided.capture("end", "c|d")
    member = {"type": "string", "maxLength": 4}
    schema = {"type": "object", "properties": {"a": member, "b": {"type": "integer"}}, "required": ["a", "b"]}
    kinds: list[tuple[object, dict]] = [
        ("[ab]{3,9}c", {}),
        (capture, {}),
        (schema, {"retries": 2, "retry_below": 0.9}),
        ("[ab]{3,9}c", {"think_first": 5}),
        (schema, {"think_first": "answer"}),
        ("[a-z]{2,}", {"reasoning_end": "b"}),
        (guided.regex("(?s).*"), {"stop": ["q", "xy"]}),
        ("(ab|ba)*c", {"logit_bias": {97: 3.0}, "bad_words": ["ba"], "repetition_penalty": 1.3}),
        ("[ab]{2,}c", {"budget_ramp": 4.0, "logprobs": 2}),
        ("[ab]{2,}c", {"budget_ramp": 0.0, "min_tokens": 5}),
        ("(aaaa|abab)c", {"drafts": 3}),
        (ConstraintCompiler(lambda compiler: compiler.compile_regex("(<(a|b{4}|c{5})>|x)*"), has_calls=True), {}),
        (None, {}),
    ]

    def answers(run_ahead: bool) -> list[tuple]:
        engine = Engine(Llama.random(CONFIG, seed=1), TEXT_VOCABULARY, chat=ChatTemplate(TEXT_VOCABULARY, CHATML))
        engine.scheduler.runs_ahead = run_ahead
        requests = [
            guided.Request(
                "Who?", constraint, n=5, options={"max_tokens": budget, "temperature": 1.0, "seed": 7, **options}
            )
            for constraint, options in kinds
        ]
        found = dict(engine.generate_each(requests))
        out = []
        for number in range(len(kinds)):
            for each in found[number] if isinstance(found[number], list) else [found[number]]:
                out.append(
                    str(each)
                    if isinstance(each, Exception)
                    else (each.tokens, each.text, each.removed_log_masses, each.budget_bound, each.cut, each.captures)
                )
        return out

    steps, advance = list[int](), batch_matchers._advance
    monkeypatch.setattr(batch_matchers, "_MIN_MATCHERS", 1)
    expected = answers(False)
    assert sum(isinstance(each, str) for each in expected) <= 6, "some requests may not fit into the budget"
    monkeypatch.setattr(batch_matchers, "_advance", lambda part: steps.append(len(part)) or advance(part))
    assert answers(True) == expected
    assert sum(steps) > 100


def test_a_step_that_fails_is_repeated_by_its_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an error in one step nor in a whole share changes the results."""
    monkeypatch.setattr(batch_matchers, "_cores", lambda: 4)
    batch_matchers._pool.cache_clear()
    expected = results_of(scheduler(False, token_budget=200), constrained_tasks())
    core, rng = batch_matchers._core.advance_matchers, random.Random(1)

    def failing(matchers: list, steps: list) -> list:
        if rng.random() < 0.3:
            raise ValueError("the core refuses these steps")
        kept = [number for number in range(len(steps)) if rng.random() < 0.7]
        results = core([matchers[number] for number in kept], [steps[number] for number in kept])
        found = dict(zip(kept, results, strict=True))
        return [found.get(number, (False, False, None, 0.0)) for number in range(len(steps))]

    monkeypatch.setattr(batch_matchers._core, "advance_matchers", failing)
    assert results_of(scheduler(True, token_budget=200), constrained_tasks()) == expected
    batch_matchers._pool.cache_clear()


@pytest.mark.parametrize("after", [0, 1])
def test_without_threads_masks_are_filled_as_ever(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the first thread cannot be started, and if the second cannot."""
    monkeypatch.setattr(batch_matchers, "_cores", lambda: 4)
    batch_matchers._pool.cache_clear()
    start, started, refused = threading.Thread.start, list[int](), list[int]()

    def refusing(thread: threading.Thread) -> None:
        if thread.name.startswith("guided masks"):
            if len(started) >= after:
                refused.append(1)
                raise RuntimeError("can't start new thread")
            started.append(1)
        start(thread)

    grammar = COMPILER.compile_regex("[ab]{3,9}c")

    def tasks() -> list[Task]:
        params = [SamplingParams(1.0, seed=number) for number in range(40)]
        return [Task(Sequence(VOCABULARY, [1, 2], GrammarMatcher(grammar), one, max_tokens=12)) for one in params]

    want = drive(scheduler(False, token_budget=200), tasks())
    monkeypatch.setattr(threading.Thread, "start", refusing)
    got = drive(scheduler(True, token_budget=200), tasks())
    results = [[events[-1].result.tokens for events in found] for found in (want, got)]
    assert results[0] == results[1]
    assert refused
    batch_matchers._pool.cache_clear()
