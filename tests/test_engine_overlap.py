"""The CPU works while an accelerator computes: masks are filled before any number of the logits is read."""

from __future__ import annotations

import random

import pytest
import torch

from guided.engine.masks import Masks
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.sequence import Sequence
from guided.engine.task import Task
from guided.errors import GuidedError
from guided.kv.paged import PagedCache
from guided.matching import GrammarMatcher
from guided.sampling import SamplingParams
from tests.flash_support import READS_BACK
from tests.test_engine_scheduler import COMPILER, MODEL, VOCABULARY, alone, assert_same, sequence, twin

torch.set_num_threads(1)


class Watched(torch.Tensor):
    """Logits that record when a number is read, when they become an array, and when a kernel gets their address."""

    log: list[str]

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("item", "tolist", "numpy", "__float__", "__int__", "__bool__", "data_ptr", *READS_BACK):
            cls.log.append("read")
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Launches, filled masks for choices, and reads of logits, in order."""
    noted: list[str] = []
    step, fill = ModelRunner.step, Masks.fill

    def noting_step(self, chunks):
        noted.append("launch")
        return step(self, chunks).as_subclass(Watched)

    def noting_fill(self, left, row=0, *, measure_time=True):
        if row >= self._filled_count:
            noted.append("fill" if measure_time else "check")
        fill(self, left, row, measure_time=measure_time)

    monkeypatch.setattr(Watched, "log", noted, raising=False)
    monkeypatch.setattr(ModelRunner, "step", noting_step)
    monkeypatch.setattr(Masks, "fill", noting_fill)
    return noted


def run(tasks: list[Task]) -> dict:
    batch = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), 60, 16)))
    for task in tasks:
        batch.add([task])
    ended = {}
    while batch:
        ended |= {task: outcome for task, outcome in batch.step() if getattr(outcome, "result", outcome) is not None}
    return ended


def test_all_masks_of_a_batch_are_filled_before_logits_are_read(log: list[str]) -> None:
    grammar = COMPILER.compile_regex("[abcde]{40}")  # far from the end, where masks also show whether the end may come
    tasks = [
        Task(Sequence(VOCABULARY, [at, 1], GrammarMatcher(grammar), SamplingParams(1.0, seed=at), max_tokens=50))
        for at in range(5)
    ]
    run(tasks)
    rounds = "".join(what[0] for what in log).split("l")[1:]
    for one in rounds[:6]:
        assert one.startswith("fffffr") and one.count("f") == 5, one


def test_a_mask_is_filled_once(log: list[str]) -> None:
    rng = random.Random(4)
    one = next(s for s in iter(lambda: sequence(rng, [1, 2]), None) if s.matcher is not None and not s.max_drafts)
    task = Task(twin(one))
    result = run([task])[task].result
    assert len(result.timings.mask) == log.count("fill")
    assert_same(result, alone(one))


def test_a_matcher_that_breaks_during_a_pass_fails_only_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = COMPILER.compile_regex("[abcde]{3,9}")
    matchers = [GrammarMatcher(grammar) for _ in range(2)]
    tasks = [Task(Sequence(VOCABULARY, [1], m, SamplingParams(0.0), max_tokens=12)) for m in matchers]
    fill = Masks.fill

    def broken(self, left, row=0, *, measure_time=True):
        if self.matcher is matchers[0] and tasks[0].sequence.is_choosing:
            raise GuidedError("no memory for this mask")
        fill(self, left, row, measure_time=measure_time)

    monkeypatch.setattr(Masks, "fill", broken)
    ended = run(tasks)
    assert isinstance(ended[tasks[0]], GuidedError)
    assert ended[tasks[1]].result.finish_reason == "stop"
