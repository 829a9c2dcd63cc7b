"""How far a batch is: figures for a program, and a line on standard error for people.

In: the outcomes of a batch as they come. Out: calls of a function with `BatchProgress`. The line is shown for what
takes more than two seconds: on a terminal it is rewritten, elsewhere there is a new one every ten seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from guided.engine.result import StreamEvent

__all__ = ["BatchProgress", "Meter", "ProgressLine", "ShowProgress"]

_QUIET_SECONDS: Final = 2.0
_BAR: Final = 24


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a batch is.

    Attributes:
        done: requests that are answered, or have failed.
        total: requests in all.
        tokens: of all outputs so far, forced ones included.
        seconds: since the batch began.
    """

    done: int
    total: int
    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """So far."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """If the requests that are left take as long as those that are done; None before one is."""
        return self.seconds * (self.total - self.done) / self.done if self.done else None

    def __str__(self) -> str:
        full = _BAR * self.done // max(1, self.total)
        left = "" if self.seconds_left is None else f", {_clock(self.seconds_left)} left"
        bar = f"[{'#' * full}{'.' * (_BAR - full)}]"
        return f"{bar} {self.done} of {self.total} requests, {self.tokens_per_second:.0f} tokens/s{left}"


ShowProgress: TypeAlias = Callable[[BatchProgress], None]


class Meter:
    """Counts what comes of a batch, and shows it; with True on standard error."""

    def __init__(self, total: int, show: ShowProgress | bool) -> None:
        self._total, self._begin = total, time.perf_counter()
        self._line = ProgressLine() if show is True else None
        self._show = self._line or (None if isinstance(show, bool) else show)
        self._done = self._tokens = 0

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.close()

    def count(self, event: StreamEvent) -> None:
        """Something new of an output."""
        if event.tokens:
            self._tokens += len(event.tokens)
            self._tell()

    def finish(self) -> None:
        """One more request is done."""
        self._done += 1
        self._tell()

    def _tell(self) -> None:
        if self._show is not None:
            seconds = time.perf_counter() - self._begin
            self._show(BatchProgress(self._done, self._total, self._tokens, seconds))


class ProgressLine:
    """The line on standard error."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._width = 0  # of what stands on the terminal
        self._next = time.monotonic() + _QUIET_SECONDS  # when the line is due

    def __call__(self, progress: BatchProgress) -> None:
        """Show it, if it is time to."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + (0.2 if self._terminal else 10.0)
            line = str(progress)
            sys.stderr.write(f"\r{line:{self._width}}" if self._terminal else f"{line}\n")
            sys.stderr.flush()
            self._width = len(line) if self._terminal else 0

    def close(self) -> None:
        """Leave the line as it is; what follows stands below it."""
        if self._width:
            sys.stderr.write("\n")
            self._width = 0

    def say(self, text: str) -> None:
        """A remark above the line."""
        sys.stderr.write(f"\r{'':{self._width}}\r{text}\n" if self._width else f"{text}\n")
        sys.stderr.flush()
        self._width = 0


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
