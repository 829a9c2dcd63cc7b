"""Runs the matchers of a large batch on several threads, while the model runs on an accelerator.

`accept_tokens`: In: steppers and the tokens that were chosen for them. The matchers accept these tokens, and fill the
masks of the next choice unless tokens are forced first.

`fill_masks`: In: the steppers before their next choice. The matchers whose masks are missing fill them.

`advance_rows`: the same for sequences in runs (runs.py), whose numbers are in arrays.

Out: nothing; the steppers know the results when they continue. The core works without the GIL, so for a batch of 256 on
8 cores this takes a small part of a forward pass even under budgets. Errors are ignored here. The steppers repeat what
is missing, and report them.

The threads are kept, since starting a thread takes longer than filling most masks. Cost for the caller: about 20 us per
thread, and 3 us per matcher.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from threading import Barrier
from typing import Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from guided.automaton import _core
from guided.engine.masks import MatcherStep, StepResult
from guided.engine.stepper import Stepper
from guided.engine.threads import available_cores
from guided.sampling.choice import Answer

__all__ = ["accept_tokens", "advance_rows", "fill_masks"]

_HELPERS: Final = 7  # threads in addition to the caller's
_MIN_MATCHERS: Final = 8  # a thread is used only if it runs at least this many matchers

_Step: TypeAlias = tuple[Stepper, MatcherStep]
_Result = TypeVar("_Result")


def accept_tokens(replies: Sequence[tuple[Stepper | None, Answer | Exception]]) -> None:
    """Let the matchers accept the chosen tokens and fill the masks after them. Does nothing if there are few."""
    if len(replies) >= _MIN_MATCHERS:
        _run(
            [
                (stepper, step)
                for stepper, reply in replies
                if stepper is not None
                and not isinstance(reply, Exception)
                and (step := stepper.next_matcher_step(reply)) is not None
            ]
        )


def fill_masks(steppers: Sequence[Stepper | None]) -> None:
    """Let the matchers fill the masks of the next choices. Does nothing if there are few."""
    if len(steppers) >= _MIN_MATCHERS:
        _run([(it, step) for it in steppers if it is not None and (step := it.next_matcher_step(None)) is not None])


def advance_rows(
    matchers: Sequence[_core.Matcher],
    bits: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int64],
    tokens: npt.NDArray[np.int64],
    budgets: npt.NDArray[np.int64],
    has_ramp: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    """Call `_core.advance_rows` on several threads. Return the statuses and the seconds.

    If the core refuses a call, the statuses of its matchers are 0.
    """
    statuses, seconds = np.zeros(len(matchers), np.uint8), np.zeros((len(matchers), 2))

    def advance(share: slice) -> None:
        with suppress(Exception):
            _core.advance_rows(
                matchers[share], bits, rows[share], tokens[share], budgets[share], has_ramp[share], statuses[share],
                seconds[share],
            )  # fmt: skip

    _on_threads(len(matchers), advance)
    return statuses, seconds


def _run(steps: Sequence[_Step]) -> None:
    """Divide the steps among threads, and record their results. Does nothing if there are few."""
    if len(steps) >= _MIN_MATCHERS:
        for share, results in _on_threads(len(steps), lambda share: _advance(steps[share])):
            _record(steps[share], results)


def _on_threads(count: int, work: Callable[[slice], _Result]) -> list[tuple[slice, _Result]]:
    """Divide `count` items among threads. Return each share with its result. Skips shares for which no thread can be
    started."""
    threads = max(1, min(_HELPERS + 1, _cores(), count // _MIN_MATCHERS))
    own_share, *shares = [slice(count * i // threads, count * (i + 1) // threads) for i in range(threads)]
    futures = list[Future[_Result]]()
    try:
        for share in shares:
            futures.append(_pool().submit(work, share))
    except RuntimeError:  # no more threads can be started, or the interpreter is ending
        pass
    try:
        results = [(own_share, work(own_share))]
    finally:
        try:
            wait(futures)  # the matchers are in use until then
        except BaseException:  # Ctrl+C
            wait(futures)
            raise
    return results + [(share, future.result()) for share, future in zip(shares, futures, strict=False)]


def _advance(steps: Sequence[_Step]) -> list[StepResult]:
    """Run the steps, and return their results. Returns none if the core refuses them, before any matcher advances."""
    try:
        return _core.advance_matchers([step.matcher for _, step in steps], [step.arguments for _, step in steps])
    except Exception:
        return []


def _record(steps: Sequence[_Step], results: Sequence[StepResult]) -> None:
    """Record the results of steps. If the core refused the steps, `results` is empty."""
    for (stepper, step), result in zip(steps, results, strict=False):
        stepper.record_matcher_step(step, result)


@cache
def _cores() -> int:
    return available_cores()


@cache
def _pool() -> ThreadPoolExecutor:
    """A pool whose threads have all started. If `submit` had to start one and failed, the call would still be queued.

    Raises:
        RuntimeError: a thread cannot be started.
    """
    count = min(_HELPERS, _cores() - 1)
    pool, all_started = ThreadPoolExecutor(count, "guided masks"), Barrier(count + 1)
    try:
        for _ in range(count):
            pool.submit(all_started.wait)
        all_started.wait()
    except BaseException:  # no thread can be started, or Ctrl+C
        all_started.abort()
        pool.shutdown(cancel_futures=True)
        raise
    return pool


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
