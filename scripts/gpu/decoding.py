"""Runs requests through the scheduler step by step, and counts how often a step makes the host wait."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any
from unittest import mock

import torch

from guided.engine.engine import Engine, Request
from guided.engine.runner import ModelRunner, cache_shape
from guided.kernels.transfer import Fetch
from guided.kv.paged import PagedCache
from guided.models.model import Model
from guided.vocabulary.vocabulary import Vocabulary
from scripts.gpu.attention import capture_of
from scripts.gpu.report import Setting

__all__ = ["Run", "Waits", "counted_waits", "decode", "make_engine", "requests", "start_all", "take"]

PROMPT = 16  # tokens


@dataclass
class Run:
    """The outcome of requests that ran together.

    Attributes:
        seconds: the time of all steps.
        tokens: the number of tokens of all outputs.
        steps: the seconds of each step in which nearly all sequences decoded.
        errors: the errors of requests.
    """

    seconds: float = 0.0
    tokens: int = 0
    steps: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def step(self) -> float:
        """The median milliseconds of such a step."""
        return 1e3 * median(self.steps)


@dataclass
class Waits:
    """How often the host waited for the device.

    Attributes:
        warned: torch's warnings about operations that wait.
        fetched: the number of waits for chosen tokens.
    """

    warned: list[str] = field(default_factory=list)
    fetched: int = 0


def make_engine(setting: Setting, model: Model, vocabulary: Vocabulary, sequences: int) -> Engine:
    """An engine for this number of sequences, of at most 512 positions each."""
    blocks = sequences * setting.pick(2, 8) + 8
    cache = PagedCache(cache_shape(model), blocks, setting.pick(256, 16))
    runner = ModelRunner(model, cache, capture=capture_of(setting))
    engine = Engine(model, vocabulary, runner=runner, token_budget=max(512, sequences))
    engine.scheduler.runs_ahead = True  # also in a dry run
    return engine


def requests(
    vocabulary: Vocabulary, count: int, constraints: Sequence[Any], max_tokens: int, **options: Any
) -> list[Request]:
    """Requests with random prompts. Without constraints, the outputs do not end before their budget."""
    rng = random.Random(count)
    free: dict[str, Any] = {} if constraints else {"ignore_eos": True}
    return [
        Request(
            [rng.randrange(256, vocabulary.size - 1) for _ in range(PROMPT)],
            constraints[at % len(constraints)] if constraints else None,
            options={"max_tokens": max_tokens, "seed": at, **free, **options},
        )
        for at in range(count)
    ]


def decode(setting: Setting, engine: Engine, workload: Sequence[Request]) -> Run:
    """Run requests to their ends. The time to compile their grammars is not included."""
    run, scheduler = Run(), engine.scheduler
    start_all(engine, workload)
    setting.wait()
    begin = perf_counter()
    while scheduler:
        is_full = scheduler.running_count >= 0.9 * len(workload) and not scheduler.prefilling_count
        start = perf_counter()
        take(run, scheduler.step())
        if is_full and scheduler.running_count >= 0.9 * len(workload):
            run.steps.append(perf_counter() - start)
    setting.wait()
    run.seconds = perf_counter() - begin
    return run


def start_all(engine: Engine, workload: Sequence[Request]) -> None:
    """Compile all grammars, then queue the requests."""
    groups = [engine.tasks(request) for request in workload]
    wait([task.future for group in groups for task in group if task.future is not None])
    for group in groups:
        engine.scheduler.add(group)


def take(run: Run, outcomes: Sequence[tuple[Any, Any]]) -> None:
    """Count the tokens of finished outputs."""
    for _, outcome in outcomes:
        if isinstance(outcome, Exception):
            run.errors.append(f"{type(outcome).__name__}: {outcome}")
        elif outcome.result is not None:
            run.tokens += len(outcome.result.tokens)


@contextmanager
def counted_waits(setting: Setting) -> Iterator[Waits]:
    """Count the waits in the block: torch's warnings about operations that wait, and calls of `Fetch.wait`."""
    waits, plain = Waits(), Fetch.wait

    def counted(fetch: Fetch) -> torch.Tensor:
        waits.fetched += 1
        return plain(fetch)

    with warnings.catch_warnings(record=True) as caught, mock.patch.object(Fetch, "wait", counted):
        warnings.simplefilter("always")
        if not setting.dry:
            torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits
        finally:
            if not setting.dry:
                torch.cuda.set_sync_debug_mode("default")
    waits.warned += [f"{one.filename}:{one.lineno}" for one in caught if "called a synchronizing" in str(one.message)]
