"""Prepares the masks of many sequences on several threads, while the model runs on an accelerator.

In: the steppers of the batch. Out: nothing; the caches of the grammars then contain what the next masks need. In a
large batch under budgets, filling the masks one after the other takes longer than a forward pass on a GPU. Here several
threads compute the contents of these caches, without the GIL. `Stepper.fill_mask` then fills the masks one after the
other, which is quick. Errors are ignored here; `fill_mask` reports them. Sequences whose last mask was quick are
skipped, because handing a mask to a thread takes as long as filling a quick one.

The threads are kept, since starting a thread takes longer than filling most masks. Cost for the caller: about 20 us per
thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Final

from guided.automaton import _core
from guided.engine.stepper import Stepper
from guided.engine.threads import available_cores

__all__ = ["prepare_masks"]

_HELPERS: Final = 7  # threads in addition to the caller's
_MIN_MASKS: Final = 8  # a thread is used only if it prepares at least this many masks


def prepare_masks(steppers: Iterable[Stepper]) -> None:
    """Prepare the next masks of these sequences. Does nothing if there are few masks or no threads can be started."""
    requests = [(stepper, *request) for stepper in steppers if (request := stepper.next_mask_request()) is not None]
    count = min(_HELPERS + 1, _cores(), len(requests) // _MIN_MASKS)
    if count < 2:
        return
    shares = [requests[len(requests) * i // count : len(requests) * (i + 1) // count] for i in range(count)]
    futures = list[Future[list[float]]]()
    try:
        for share in shares[1:]:
            futures.append(_pool().submit(_prepare, share))
    except RuntimeError:  # no more threads can be started, or the interpreter is ending: the masks are filled later
        _pool().shutdown(cancel_futures=True)  # calls that have not started must not run during the next steps
        _pool.cache_clear()
        return
    try:
        seconds_by_share = [_prepare(shares[0])]
    finally:
        wait(futures)  # the matchers are in use until then
    seconds_by_share += (future.result() for future in futures)
    for share, durations in zip(shares, seconds_by_share, strict=True):
        for (stepper, *_), seconds in zip(share, durations, strict=True):
            stepper.record_preparation(seconds)


def _prepare(requests: list[tuple[Stepper, _core.Matcher, int]]) -> list[float]:
    return _core.prepare_masks([matcher for _, matcher, _ in requests], [budget for _, _, budget in requests])


@cache
def _cores() -> int:
    return available_cores()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_HELPERS, "guided masks")


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
