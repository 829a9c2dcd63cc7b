"""The progress of a batch: figures for programs, and a progress bar for people.

In: the events of a batch as they arrive, and the end of each request. Out: calls of a function with `BatchProgress`, or
a bar on standard error, which tqdm draws. The bar appears after two seconds and remains as a line when the batch ends.
It is redrawn five times a second on a terminal, and every ten seconds elsewhere.

The estimate of the remaining time counts tokens, which arrive steadily. Concurrent requests end at about the same time,
so an estimate that counts requests would jump.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from guided.engine.result import StreamEvent

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["BatchProgress", "ProgressCounter", "ProgressLine", "ShowProgress"]

_QUIET_SECONDS: Final = 2.0
_BAR_FORMAT: Final = "{percentage:3.0f}%|{bar:24}| {n_fmt} of {total_fmt} requests, {desc}"


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The progress of a batch.

    Attributes:
        done: the number of requests that have been answered or have failed.
        total: the number of requests; 0 if unknown.
        tokens: the number of tokens in all outputs so far, including forced tokens.
        tokens_done: the number of tokens in the outputs of finished requests.
        seconds: the time since the batch began.
    """

    done: int
    total: int
    tokens: int
    tokens_done: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """The mean rate since the batch began."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """An estimate of the remaining seconds: each remaining request is assumed to have the mean length so far.

        None while no finished request has produced tokens.
        """
        if self.done >= self.total:
            return 0.0 if self.total else None
        if not self.tokens_done:
            return None
        expected = max(self.tokens_done / self.done * self.total, self.tokens)
        return self.seconds * (expected / self.tokens - 1)

    def __str__(self) -> str:
        requests = f"{self.done} of {self.total}" if self.total else str(self.done)
        return f"{requests} requests, {self._format_figures()}"

    def _format_figures(self) -> str:
        seconds_left = self.seconds_left
        time_left = (
            "" if seconds_left is None or self.done >= self.total else f", {_format_duration(seconds_left)} left"
        )
        elapsed = _format_duration(self.seconds)
        return f"{self.tokens:,} tokens in {elapsed}, {self.tokens_per_second:.0f} tokens/s{time_left}"


ShowProgress: TypeAlias = Callable[[BatchProgress], None]


class ProgressCounter:
    """Counts the tokens and requests of a batch, and reports them: to the function `show`, on standard error if `show`
    is True, nowhere if it is False."""

    def __init__(self, total: int, show: ShowProgress | bool) -> None:
        self._total, self._begin = total, time.perf_counter()
        self._line = ProgressLine() if show is True else None
        self._show = self._line or (None if isinstance(show, bool) else show)
        self._requests_done = self._tokens = self._tokens_done = 0

    def __enter__(self) -> ProgressCounter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.close()

    def count(self, event: StreamEvent) -> None:
        """Count the tokens of an event."""
        if event.tokens:
            self._tokens += len(event.tokens)
            self._report()

    def finish(self, tokens: int) -> None:
        """Count a finished request. `tokens`: the number of tokens in all its outputs."""
        self._requests_done += 1
        self._tokens_done += tokens
        self._report()

    def _report(self) -> None:
        if self._show is not None:
            seconds = time.perf_counter() - self._begin
            self._show(BatchProgress(self._requests_done, self._total, self._tokens, self._tokens_done, seconds))


class ProgressLine:
    """The progress bar on standard error. It needs tqdm, which guided-decoding[engine] installs."""

    def __init__(self) -> None:
        self._bar: tqdm | None = None

    def __call__(self, progress: BatchProgress) -> None:
        """Show the progress, unless the bar has just been redrawn."""
        if self._bar is None:
            self._bar = _new_bar(progress.total)
        bar = self._bar
        bar.set_description_str(progress._format_figures(), refresh=False)
        bar.update(progress.done - bar.n)

    def close(self) -> None:
        """Finish the bar and its line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def print_line(self, text: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None and _is_shown(self._bar):
            self._bar.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)


def _new_bar(total: int) -> tqdm:
    from tqdm import tqdm

    return tqdm(
        total=total or None,
        delay=_QUIET_SECONDS,
        mininterval=0.2 if sys.stderr.isatty() else 10.0,
        miniters=0,
        bar_format=_BAR_FORMAT if total else "{n_fmt} requests, {desc}",
        dynamic_ncols=True,
        file=sys.stderr,
    )


def _is_shown(bar: tqdm) -> bool:
    return bool(bar.last_print_t >= bar.start_t + bar.delay)


def _format_duration(seconds: float) -> str:
    """A duration in the format of tqdm: 2:46:30, 00:07."""
    from tqdm import tqdm

    return str(tqdm.format_interval(round(seconds)))
