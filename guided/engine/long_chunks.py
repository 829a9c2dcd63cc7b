"""How many tokens of prompts and of other long text a forward pass reads while other sequences decode.

In: how long passes took, and how many tokens of long text each of them read. Out: a number of tokens that takes about
`seconds`, whatever the model, the machine and the length of the context. Without this limit, every sequence that is
decoding waits for a full pass (512 tokens) for each of its tokens while somebody's long prompt is read.

How: a pass without long text shows what decoding takes; the rest of a pass with long text is due to it. Both are
averages in which old passes fade. On an accelerator, which is still computing when a pass has been launched, the times
are short and nothing is limited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.engine.task import Task

__all__ = ["SHORT", "LongChunks", "shares"]

SHORT: Final = 16  # tokens: up to these, a sequence reads all that it must at once
_FIRST: Final = 64  # tokens of the first pass, by which the next are measured
_FADING: Final = 0.5  # weight of the newest pass


class LongChunks:
    """The tokens of long text in the next pass. `seconds`: what they may add to it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._decoding: float | None = None  # seconds of a pass without long text
        self._token: float | None = None  # seconds of a token of long text

    def record(self, seconds: float, tokens: int) -> None:
        """Take a pass into account which read so many tokens of long text."""
        if not tokens:
            self._decoding = _faded(self._decoding, seconds)
        else:
            self._token = _faded(self._token, max(0.0, seconds - (self._decoding or 0.0)) / tokens)

    def tokens(self, most: int) -> int:
        """How many tokens of long text the next pass may read: up to `most`, and no fewer than 16 of these."""
        if self._token is None:
            return min(most, _FIRST)
        if self._token * most <= self.seconds:
            return most
        return min(most, max(SHORT, int(self.seconds / self._token)))


def _faded(average: float | None, newest: float) -> float:
    return newest if average is None else average + _FADING * (newest - average)


def shares(running: Sequence[Task], left: int, long_chunks: LongChunks) -> list[tuple[Task, int]]:
    """How many of `left` tokens each running task should read: those that decode first, then those with long text.

    Of these, the first in order has half of the tokens. The others of its priority share the rest, the shortest
    first, so that a long prompt does not delay the short ones that come after it, nor they the long one.
    """
    found = dict[Task, int]()
    for task in sorted(task for task in running if task.missing <= SHORT):
        found[task] = min(task.missing, left)
        left -= found[task]
    long = sorted(task for task in running if task.missing > SHORT)
    if long:
        first, left = long[0], long_chunks.tokens(left) if found else left
        found[first], half = 0, (left + 1) // 2  # 0: for its place in the order
        for task in sorted(long[1:], key=lambda task: (task.priority, task.missing)):
            kept = min(first.missing, half if task.priority == first.priority else left)
            found[task] = min(task.missing, left - min(left, kept))
            left -= found[task]
        found[first] = min(first.missing, left)
    return list(found.items())
