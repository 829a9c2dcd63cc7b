"""Limits how many tokens of prompts and other long text a forward pass reads while other sequences decode.

In: the duration of each pass, and how many tokens of long text it read. Out: the number of long-text tokens that take
about `seconds`, for any model, machine and context length. Without this limit, decoding sequences would wait for a full
pass (512 tokens) per token while a long prompt is read.

If no sequence decodes, a pass may take `_ALONE_FACTOR` times as long. Requests that arrive meanwhile wait for its end,
and with a long context, a full pass takes many seconds on a CPU.

How: passes without long text measure the time for decoding. The additional time of a pass with long text is the cost of
this text. Both are exponential moving averages. On an accelerator a pass returns once it is launched, so the measured
times are short and nothing is limited.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

from guided.engine.task import Task

__all__ = ["SHORT_LENGTH", "LongChunks", "divide_tokens", "first_in_order"]

SHORT_LENGTH: Final = 16  # tokens: text up to this length is short, and is read in one pass
_INITIAL_TOKENS: Final = 64  # tokens of long text in a pass before any measurement
_ALONE_FACTOR: Final = 5
_ALONE_TOKENS: Final = 64  # the least in a pass without decoding sequences: with fewer, a token takes much longer
_NEWEST_WEIGHT: Final = 0.5  # the weight of the newest pass in the averages


class LongChunks:
    """Decides how many tokens of long text the next pass may read. `seconds`: the time that these tokens may add to the
    pass."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._decoding_seconds: float | None = None  # per pass without long text
        self._token_seconds: float | None = None  # per token of long text

    def record(self, seconds: float, tokens: int) -> None:
        """Record the duration of a pass that read this many tokens of long text."""
        if not tokens:
            self._decoding_seconds = _update_average(self._decoding_seconds, seconds)
        else:
            self._token_seconds = _update_average(
                self._token_seconds, max(0.0, seconds - (self._decoding_seconds or 0.0)) / tokens
            )

    def tokens(self, max_tokens: int, *, is_alone: bool = False) -> int:
        """How many tokens of long text the next pass may read: at least `SHORT_LENGTH`, at most `max_tokens`.
        `is_alone`: the pass reads nothing else."""
        if self._token_seconds is None:
            return max_tokens if is_alone else min(max_tokens, _INITIAL_TOKENS)
        seconds, least = (self.seconds * _ALONE_FACTOR, _ALONE_TOKENS) if is_alone else (self.seconds, SHORT_LENGTH)
        if self._token_seconds * max_tokens <= seconds:
            return max_tokens
        return min(max_tokens, max(least, int(seconds / self._token_seconds)))


def _update_average(average: float | None, newest: float) -> float:
    return newest if average is None else average + _NEWEST_WEIGHT * (newest - average)


def divide_tokens(running_tasks: Sequence[Task], tokens_left: int, long_chunks: LongChunks) -> list[tuple[Task, int]]:
    """Divide `tokens_left` tokens among the running tasks: first the tasks with short text, such as decoding ones, then
    the tasks with long text, which are limited by `long_chunks`.

    Half of the tokens for long text are reserved for the first such task in order. The other tasks with its priority
    share the other half, shortest first. Tasks with a lower priority get only tokens that the first task does not need.
    The first task also gets all tokens that are left over. So a long prompt does not delay short prompts that arrive
    later, and short prompts do not delay the long one.
    """
    shares_by_task = dict[Task, int]()
    for task in sorted(task for task in running_tasks if task.unread <= SHORT_LENGTH):
        shares_by_task[task] = min(task.unread, tokens_left)
        tokens_left -= shares_by_task[task]
    long_tasks = sorted(task for task in running_tasks if task.unread > SHORT_LENGTH)
    if long_tasks:
        first, tokens_left = long_tasks[0], long_chunks.tokens(tokens_left, is_alone=not shares_by_task)
        shares_by_task[first], half = 0, (tokens_left + 1) // 2  # 0 keeps its position in the order
        for task in sorted(long_tasks[1:], key=lambda task: (task.priority, task.unread)):
            reserved = min(first.unread, half if task.priority == first.priority else tokens_left)
            shares_by_task[task] = min(task.unread, tokens_left - min(tokens_left, reserved))
            tokens_left -= shares_by_task[task]
        shares_by_task[first] = min(first.unread, tokens_left)
    return list(shares_by_task.items())


def first_in_order(candidates: Set[Task], short_tasks: Sequence[Task], tokens_left: int) -> list[Task]:
    """The candidates that get a token if they and the tasks with short text share `tokens_left` tokens in order.

    A candidate reads one token.
    """
    ordered_tasks = list[Task]()
    for task in sorted([*candidates, *short_tasks]):
        if task in candidates and tokens_left > 0:
            ordered_tasks.append(task)
        tokens_left -= 1 if task in candidates else task.unread
    return ordered_tasks
