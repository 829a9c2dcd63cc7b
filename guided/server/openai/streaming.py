"""Answers as server-sent events. In: the streams of a request. Out: lines of `data: {...}`, and `data: [DONE]`.

A stream that has begun cannot change its status, so a later error is sent as an event with the error body. If no token
arrives for `keep_alive` seconds, the stream sends a comment. If the reader stops, the request is cancelled. The first
chunk of each choice has `ttft_ms`: the time from the request to its first token.

Events that arrive together are sent together. A write to a socket costs more than the rest of an event's processing,
especially if it wakes a client on the same machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from guided.engine.result import StreamEvent
from guided.server.engine_thread import Stream
from guided.server.http.errors import body_of
from guided.server.openai.answers import Answer, usage_of
from guided.server.openai.deltas import Reading
from guided.server.openai.requests import StreamOptions

__all__ = [
    "KEEP_ALIVE",
    "NewReading",
    "collect_readings",
    "merge_events",
    "milliseconds",
    "sse",
    "stream_chunks",
    "wait_until_begun",
]

KEEP_ALIVE: Final = ": keep-alive\n\n"
_LINE_ENDS: Final = (("\u2028", r"\u2028"), ("\u2029", r"\u2029"), ("\x85", r"\u0085"))
NewReading = Callable[[], Reading]


async def wait_until_begun(streams: Sequence[Stream]) -> None:
    """Wait until all streams have their first event. If one fails, cancel all and raise its error."""
    try:
        for stream in streams:
            await stream.wait_for_first_event()
    except BaseException:  # also if the client disconnects
        for stream in streams:
            stream.cancel()
        raise


async def collect_readings(streams: Sequence[Stream], new_reading: NewReading) -> list[list[Reading]]:
    """The readings of each stream's samples, in order. If one fails, the others are cancelled."""

    async def read(stream: Stream) -> list[Reading]:
        readings: dict[int, Reading] = {}
        async for number, event in stream:
            readings.setdefault(number, new_reading()).read(event)
        return [readings[number] for number in sorted(readings)]

    reads = [asyncio.ensure_future(read(stream)) for stream in streams]
    try:
        return list(await asyncio.gather(*reads))
    finally:
        for task, stream in zip(reads, streams, strict=True):
            task.cancel()
            stream.cancel()


async def stream_chunks(
    answer: Answer,
    streams: Sequence[Stream],
    options: StreamOptions,
    new_reading: NewReading,
    *,
    samples: int,
    keep_alive: float,
    warnings: Sequence[Mapping[str, Any]] = (),
) -> AsyncGenerator[str, None]:
    """See the module docstring. `samples`: the number of samples per stream; `warnings`: for the first chunk."""
    readings = [[new_reading() for _ in range(samples)] for _ in streams]
    begins = list(range(len(streams) * samples)) if answer.chat else []  # in order, as OpenAI's client requires
    begun, output = set[int](), list[str]()
    first: dict[str, Any] = {"warnings": list(warnings)} if warnings else {}
    try:
        async with aclosing(merge_events(streams, samples, keep_alive)) as batches:
            async for events in batches:
                for number, event in events:
                    reading = readings[number // samples][number % samples]
                    ttft = {"ttft_ms": milliseconds(streams[number // samples].ttft)}
                    for sample in begins:  # all of one stream, since a chat has one prompt
                        output.append(sse(answer.begin(sample, reading) | ttft | first))
                        first = {}
                    begun.update(begins)
                    begins = []
                    for chunk in answer.chunks(number, event, reading.read(event), reading):
                        if number not in begun:
                            begun.add(number)
                            chunk |= ttft
                        if options.continuous_usage_stats:
                            chunk["usage"] = usage_of(readings)
                        output.append(sse(chunk | first))
                        first = {}
                if output or not events:
                    yield "".join(output) or KEEP_ALIVE
                    output.clear()
        if options.include_usage:
            output.append(sse(answer.usage(readings)))
    except Exception as error:
        output.append(sse(body_of(error)))
    finally:
        for stream in streams:
            stream.cancel()
    yield "".join([*output, "data: [DONE]\n\n"])


async def merge_events(
    streams: Sequence[Stream], samples: int, keep_alive: float
) -> AsyncGenerator[list[tuple[int, StreamEvent]], None]:
    """The events of all streams, each with the number of its choice. All events that have arrived are yielded together,
    for a single write to the socket. An empty list: no event arrived for `keep_alive` seconds."""
    loop, awake = asyncio.get_running_loop(), asyncio.Event()
    alarm: asyncio.TimerHandle | None = None
    quiet_since = loop.time()

    def ring() -> None:
        nonlocal alarm
        alarm = None
        awake.set()

    for stream in streams:
        stream.awake = awake
    try:
        while True:
            events, error = _take_events(streams, samples)
            if events:
                yield events
                quiet_since = loop.time()
            if error is not None:
                raise error
            if not any(stream.left for stream in streams):
                return
            if alarm is None:  # one timer for all events until it fires
                if loop.time() >= quiet_since + keep_alive:
                    yield []
                    quiet_since = loop.time()
                alarm = loop.call_at(quiet_since + keep_alive, ring)
            await awake.wait()
            awake.clear()
    finally:
        if alarm is not None:
            alarm.cancel()


def _take_events(streams: Sequence[Stream], samples: int) -> tuple[list[tuple[int, StreamEvent]], Exception | None]:
    """The events that have arrived, up to the first stream that failed, and its error."""
    events = list[tuple[int, StreamEvent]]()
    try:
        for at, stream in enumerate(streams):
            for number, event in stream.take_events():
                events.append((at * samples + number, event))
    except Exception as error:
        return events, error
    return events, None


def milliseconds(seconds: float | None) -> float | None:
    """Milliseconds, rounded to a microsecond."""
    return None if seconds is None else round(1e3 * seconds, 3)


def sse(body: dict[str, Any], event: str = "") -> str:
    """A server-sent event with its data. `event`: its name, if any.

    In this format only CR and LF end a line, and JSON escapes both. Clients that split lines as Python's `splitlines`
    does would also split at three more characters, so these are escaped.
    """
    name = f"event: {event}\n" if event else ""
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    if not data.isascii():
        for character, escape in _LINE_ENDS:
            data = data.replace(character, escape)
    return f"{name}data: {data}\n\n"
