"""Limits the tokens of prompts and other long text that a forward pass reads while other sequences decode.

In: the duration of each pass, and the tokens of long text that it read. Out: the number of tokens that take about
`seconds`, whatever the model, the machine and the length of the context. Without this limit, each decoding sequence
waits for a full pass (512 tokens) for each of its tokens while a long prompt is read.

How: a pass without long text measures decoding. The additional time of a pass with long text is the cost of the text.
Both are exponential moving averages. On an accelerator a pass returns once it is launched, so the times are short and
nothing is limited.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

from guided.engine.task import Task

__all__ = ["SHORT", "LongChunks", "first_in_order", "shares"]

SHORT: Final = 16  # tokens: a sequence reads up to this many in one pass
_FIRST: Final = 64  # tokens of the first pass, before any measurement
_FADING: Final = 0.5  # weight of the newest pass


class LongChunks:
    """The tokens of long text in the next pass. `seconds`: the time that they may add to it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._decoding: float | None = None  # seconds of a pass without long text
        self._token: float | None = None  # seconds of a token of long text

    def record(self, seconds: float, tokens: int) -> None:
        """Record a pass that read this many tokens of long text."""
        if not tokens:
            self._decoding = _faded(self._decoding, seconds)
        else:
            self._token = _faded(self._token, max(0.0, seconds - (self._decoding or 0.0)) / tokens)

    def tokens(self, most: int) -> int:
        """How many tokens of long text the next pass may read: up to `most`, but at least 16 if `most` allows."""
        if self._token is None:
            return min(most, _FIRST)
        if self._token * most <= self.seconds:
            return most
        return min(most, max(SHORT, int(self.seconds / self._token)))


def _faded(average: float | None, newest: float) -> float:
    return newest if average is None else average + _FADING * (newest - average)


def shares(running: Sequence[Task], left: int, long_chunks: LongChunks) -> list[tuple[Task, int]]:
    """Divide `left` tokens among the running tasks: first the decoding tasks, then the tasks with long text.

    Of these, the first in order gets half of the tokens. The others of its priority share the rest, shortest first. So
    a long prompt does not delay later short prompts, and they do not delay the long one.
    """
    shares_by_task = dict[Task, int]()
    for task in sorted(task for task in running if task.missing <= SHORT):
        shares_by_task[task] = min(task.missing, left)
        left -= shares_by_task[task]
    long = sorted(task for task in running if task.missing > SHORT)
    if long:
        first, left = long[0], long_chunks.tokens(left) if shares_by_task else left
        shares_by_task[first], half = 0, (left + 1) // 2  # 0: keeps its position in the order
        for task in sorted(long[1:], key=lambda task: (task.priority, task.missing)):
            reserved = min(first.missing, half if task.priority == first.priority else left)
            shares_by_task[task] = min(task.missing, left - min(left, reserved))
            left -= shares_by_task[task]
        shares_by_task[first] = min(first.missing, left)
    return list(shares_by_task.items())


def first_in_order(able: Set[Task], short: Sequence[Task], left: int) -> list[Task]:
    """Those of the able tasks that have a share of `left` tokens, if short text is read in order beside them.

    An able task reads one token.
    """
    chosen = list[Task]()
    for task in sorted([*able, *short]):
        if task in able and left > 0:
            chosen.append(task)
        left -= 1 if task in able else task.missing
    return chosen
