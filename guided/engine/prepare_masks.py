"""Prepares the masks of many sequences on threads, while the model runs on an accelerator.

In a large batch under budgets the masks take longer than a forward pass on a GPU, one after the other. Here several
threads find out what the masks need, without the GIL. The grammars remember it, so that `Stepper.fill_mask`, which does
the rest for one sequence after the other, is quick. Errors are left to it. Sequences whose last mask was quick are left
out: to hand a mask to a thread takes as long as a quick one.

The threads are kept: to start new ones takes longer than most masks. Cost for the caller: some 20 us for each thread.
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

_HELPERS: Final = 7  # threads beside the caller's
_PIECE: Final = 8  # masks for which a thread is worth it


def prepare_masks(steppers: Iterable[Stepper]) -> None:
    """Prepare the next masks of these sequences; a few are left as they are, and all of them without threads."""
    questions = [(stepper, *question) for stepper in steppers if (question := stepper.next_question()) is not None]
    count = min(_HELPERS + 1, _cores(), len(questions) // _PIECE)
    if count < 2:
        return
    parts = [questions[len(questions) * at // count : len(questions) * (at + 1) // count] for at in range(count)]
    others = list[Future[list[float]]]()
    try:
        for part in parts[1:]:
            others.append(_pool().submit(_prepare, part))
    except RuntimeError:  # there are no more threads, or the interpreter ends: nothing is lost
        _pool().shutdown(cancel_futures=True)  # what was not started must not run beside the next steps
        _pool.cache_clear()
        return
    try:
        taken = [_prepare(parts[0])]
    finally:
        wait(others)  # the matchers are in use until then
    taken += (other.result() for other in others)
    for part, seconds in zip(parts, taken, strict=True):
        for (stepper, *_), took in zip(part, seconds, strict=True):
            stepper.prepared(took)


def _prepare(questions: list[tuple[Stepper, _core.Matcher, int]]) -> list[float]:
    return _core.prepare_masks([matcher for _, matcher, _ in questions], [budget for _, _, budget in questions])


@cache
def _cores() -> int:
    return available_cores()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_HELPERS, "guided masks")


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
