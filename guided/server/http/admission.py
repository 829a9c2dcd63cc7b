"""Admits or refuses requests: limits on queued requests, on the requests per key, and on the time of a request.

    request -> enter (limits of its key, queue length)       before its body is read
            -> check_outputs (number of outputs)             before its prompt is read
            -> check_prompt_tokens (number of tokens)        before its specification is compiled
            -> enforce_time_limits (time in the queue, total time)         while it runs

An output is queued until it enters the batch. At `enter`, refusing a request costs the same for every request, since
only its headers have been read.

Each key has a *token bucket*: it may send a minute's requests at once, and regains them evenly over the next minute.

`Retry-After` estimates how long the current queue will take at the rate of the requests that ended most recently. It is
1 to 60 seconds.

Cost: counting the queue takes about 0.1 us for each open request. Not done: limits for clients without a key. A proxy
hides their addresses, so the proxy must set these limits.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from dataclasses import dataclass
from time import monotonic
from typing import Final

from guided.server.engine_thread import EngineThread, Stream
from guided.server.http.errors import RequestError
from guided.server.preparing import make_timeout_error
from guided.server.settings import Settings

__all__ = ["Admission"]

_MINUTE: Final = 60.0
_MAX_RETRY_AFTER: Final = 60  # seconds
_RECENT_REQUESTS: Final = 32  # the number of most recent requests that the estimate uses
_COMPILER_GRACE: Final = 1.0  # seconds beyond its time limit in which a compilation can report the timeout itself
_CHECK_INTERVAL: Final = 1.0  # seconds between checks of requests whose compilation has not begun
_WAITS: Final = {
    "prompt": "the prompt was not read",
    "queue": "the compilations before this one did not end",
    "compilation": "the specification was not compiled",
    "batch": "no slot in the batch became free",
}
"""What a request waits for -> why it did not enter the batch."""


@dataclass(slots=True)
class _Bucket:
    """The token bucket of a key. At `time` (by `monotonic`), the key could still send `requests_left` requests."""

    requests_left: float
    time: float


class Admission:
    """See the module docstring. Its methods run on the event loop, except `check_prompt_tokens`.

    Attributes:
        open_requests: the number of admitted requests that are not answered yet.
        rejections: the number of refused requests, by the name of the setting.
        timeouts: the number of requests that ran out of time, by the name of the setting.
    """

    def __init__(self, thread: EngineThread, settings: Settings) -> None:
        self._thread, self._settings = thread, settings
        self.open_requests, self._requests_by_key = 0, Counter[int]()
        self._buckets: dict[int, _Bucket] = {}
        self._end_times = deque[float](maxlen=_RECENT_REQUESTS)
        self._empty_event = asyncio.Event()
        self._empty_event.set()
        self.rejections, self.timeouts = Counter[str](), Counter[str]()

    # ---- before the body is read
    def enter(self, key: int | None) -> None:
        """Admit a request. `key`: the number of its key. Call `leave` when the request ends.

        Raises:
            RequestError: the request is refused. In this case, do not call `leave`.
        """
        if self._thread.is_draining:
            message = "the server is shutting down and accepts no new requests"
            raise self._make_refusal("draining", message, code="draining")
        if not self._thread.is_alive:
            raise RequestError("the engine has stopped", code="engine_stopped", status=503)
        self._check_queue(1)
        if key is not None:
            self._check_key(key)
        self.open_requests += 1
        self._empty_event.clear()
        if key is not None:
            self._requests_by_key[key] += 1

    def leave(self, key: int | None) -> None:
        """Record that a request was answered or aborted."""
        self.open_requests -= 1
        self._end_times.append(monotonic())
        if key is not None:
            self._requests_by_key[key] -= 1
        if not self.open_requests:
            self._empty_event.set()

    async def wait_until_empty(self) -> None:
        """Wait until no request is open."""
        await self._empty_event.wait()

    def _check_key(self, key: int) -> None:
        limit, rate, now = self._settings.max_requests_per_key, self._settings.requests_per_minute, monotonic()
        if limit and self._requests_by_key[key] >= limit:
            message = f"this key already has {limit} requests in progress: wait until one of them ends"
            raise self._make_refusal("max_requests_per_key", message, code="rate_limit_exceeded", status=429)
        if not rate:
            return
        bucket = self._buckets.setdefault(key, _Bucket(rate, now))
        bucket.requests_left = min(rate, bucket.requests_left + (now - bucket.time) * rate / _MINUTE)
        bucket.time = now
        if bucket.requests_left < 1:
            seconds = math.ceil((1 - bucket.requests_left) * _MINUTE / rate)
            message = f"this key may send {rate} requests per minute: retry in {seconds} s"
            raise self._make_refusal(
                "requests_per_minute", message, code="rate_limit_exceeded", status=429, retry_after=seconds
            )
        bucket.requests_left -= 1

    # ---- before the engine runs it
    def check_outputs(self, output_count: int) -> None:
        """Check that the outputs of a request fit into the queue.

        Raises:
            RequestError: the queue is full, or the request has more outputs than the queue can ever hold.
        """
        if output_count > (limit := self._settings.max_queued_requests):
            message = f"the request asks for {output_count} outputs, but at most {limit} can wait on this server"
            raise RequestError(message, param="n")
        self._check_queue(output_count)

    def _check_queue(self, output_count: int) -> None:
        if self.queued_outputs + output_count > (limit := self._settings.max_queued_requests):
            message = f"{self.queued_outputs} outputs are already waiting, and at most {limit} may wait: retry later"
            raise self._make_refusal("max_queued_requests", message, code="overloaded")

    def check_prompt_tokens(self, stream: Stream, token_count: int) -> None:
        """Check that the tokens of a prompt fit into the queue. Runs on the thread that reads the prompt.

        Raises:
            RequestError: too many tokens are queued. If no other prompt is queued, a prompt is always admitted.
        """
        limit = self._settings.max_queued_tokens
        queued_count = self.queued_tokens if limit else 0
        if queued_count and queued_count + token_count > limit:
            reason = f"{queued_count} prompt tokens are already waiting, and at most {limit} may wait"
            message = f"{reason}; this prompt has {token_count}: retry later"
            raise self._make_refusal("max_queued_tokens", message, code="overloaded")
        stream.prompt_tokens = token_count

    @property
    def queued_outputs(self) -> int:
        """The number of outputs waiting to enter the batch."""
        return sum(not task.admission_time for stream in list(self._thread.open_streams) for task in stream.tasks)

    @property
    def queued_tokens(self) -> int:
        """The number of tokens in queued prompts."""
        return sum(stream.prompt_tokens for stream in list(self._thread.open_streams) if stream.is_waiting)

    # ---- while it runs
    def enforce_time_limits(self, stream: Stream) -> None:
        """End a request when its time limit is reached."""
        loop, settings = asyncio.get_running_loop(), self._settings
        loop.call_later(_CHECK_INTERVAL, self._end_if_compiling, stream)
        if settings.queue_timeout:
            stream.on_end.append(loop.call_later(settings.queue_timeout, self._end_if_waiting, stream).cancel)
        if settings.request_timeout:
            stream.on_end.append(loop.call_later(settings.request_timeout, self._end_overdue, stream).cancel)

    def _end_if_waiting(self, stream: Stream) -> None:
        if stream.is_waiting:
            preparation = stream.preparation
            stage = "batch" if preparation is None or preparation.done() else preparation.stage
            message = f"{_WAITS[stage]} within {self._settings.queue_timeout:g} s: retry later"
            self._end(stream, message, code="queue_timeout")

    def _end_if_compiling(self, stream: Stream) -> None:
        """End a request whose compilation has used up its time without reporting it (preparing.py). Otherwise, check
        again later."""
        preparation, limit = stream.preparation, self._settings.compile_timeout
        if preparation is None or preparation.done() or stream not in self._thread.open_streams:
            return
        seconds_left = _CHECK_INTERVAL
        if preparation.stage == "compilation":
            seconds_left = limit + _COMPILER_GRACE - preparation.cpu_seconds()
        if seconds_left > 0:
            asyncio.get_running_loop().call_later(seconds_left, self._end_if_compiling, stream)
        else:
            stream.fail(make_timeout_error(limit))

    def _end_overdue(self, stream: Stream) -> None:
        message = f"the request was not answered within {self._settings.request_timeout:g} s"
        self._end(stream, message, code="request_timeout")

    def _end(self, stream: Stream, message: str, *, code: str) -> None:
        self.timeouts[code] += 1
        stream.fail(RequestError(message, code=code, status=503, retry_after=self.retry_after))

    # ---- refusals
    @property
    def retry_after(self) -> int:
        """Seconds after which a refused client should retry."""
        elapsed = monotonic() - self._end_times[0] if self._end_times else 0.0
        if elapsed <= 0:
            return self._settings.retry_after
        return max(1, min(_MAX_RETRY_AFTER, math.ceil(self.queued_outputs * elapsed / len(self._end_times))))

    def _make_refusal(
        self, setting: str, message: str, *, code: str, status: int = 503, retry_after: int | None = None
    ) -> RequestError:
        self.rejections[setting] += 1
        return RequestError(message, code=code, status=status, retry_after=retry_after or self.retry_after)
