"""Answers as server-sent events. In: the streams of a request. Out: lines of `data: {...}`, and `data: [DONE]`.

A stream that has begun cannot change its status: an error in its middle is an event with the body of the error. While
no token comes there is a comment now and then. Whoever stops reading cancels the request. The first chunk of each
choice has `ttft_ms`: how long the request took to its first token.

Events that came together are sent together: a write to a socket costs more than all else that is done for an event,
most of all where it wakes a client on the same machine.
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

__all__ = ["KEEP_ALIVE", "NewReading", "all_begun", "collected", "merged", "milliseconds", "server_sent", "sse"]

KEEP_ALIVE: Final = ": keep-alive\n\n"
_LINE_ENDS: Final = (("\u2028", r"\u2028"), ("\u2029", r"\u2029"), ("\x85", r"\u0085"))
NewReading = Callable[[], Reading]


async def all_begun(streams: Sequence[Stream]) -> None:
    """Wait until all have a first event; where one fails instead, all are cancelled. Raises why."""
    try:
        for stream in streams:
            await stream.begun()
    except BaseException:  # a client that goes away, too
        for stream in streams:
            stream.cancel()
        raise


async def collected(streams: Sequence[Stream], new_reading: NewReading) -> list[list[Reading]]:
    """What the samples of each stream say, in order; where one fails, the others are cancelled."""

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


async def server_sent(
    answer: Answer,
    streams: Sequence[Stream],
    options: StreamOptions,
    new_reading: NewReading,
    *,
    samples: int,
    keep_alive: float,
    warnings: Sequence[Mapping[str, Any]] = (),
) -> AsyncGenerator[str, None]:
    """See the head. `samples`: of each stream; `warnings`: what the first chunk tells of the request."""
    readings = [[new_reading() for _ in range(samples)] for _ in streams]
    begins = list(range(len(streams) * samples)) if answer.chat else []  # in order: OpenAI's client needs it
    begun, said = set[int](), list[str]()
    first: dict[str, Any] = {"warnings": list(warnings)} if warnings else {}
    try:
        async with aclosing(merged(streams, samples, keep_alive)) as arriving:
            async for events in arriving:
                for number, event in events:
                    reading = readings[number // samples][number % samples]
                    ttft = {"ttft_ms": milliseconds(streams[number // samples].ttft)}
                    for each in begins:  # of one stream
                        said.append(sse(answer.begin(each, reading) | ttft | first))
                        first = {}
                    begun.update(begins)
                    begins = []
                    for chunk in answer.chunks(number, event, reading.read(event), reading):
                        if number not in begun:
                            begun.add(number)
                            chunk |= ttft
                        if options.continuous_usage_stats:
                            chunk["usage"] = usage_of(readings)
                        said.append(sse(chunk | first))
                        first = {}
                if said or not events:
                    yield "".join(said) or KEEP_ALIVE
                    said.clear()
        if options.include_usage:
            said.append(sse(answer.usage(readings)))
    except Exception as error:
        said.append(sse(body_of(error)))
    finally:
        for stream in streams:
            stream.cancel()
    yield "".join([*said, "data: [DONE]\n\n"])


async def merged(
    streams: Sequence[Stream], samples: int, keep_alive: float
) -> AsyncGenerator[list[tuple[int, StreamEvent]], None]:
    """The events of all streams, each with the number of its choice. All that has come by the time when they are asked
    for is given together, so that they cost one write to the socket; an empty list: nothing came for long."""
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
            events, error = _taken(streams, samples)
            if events:
                yield events
                quiet_since = loop.time()
            if error is not None:
                raise error
            if not any(stream.left for stream in streams):
                return
            if alarm is None:  # one timer for all the events that come before it rings
                if loop.time() >= quiet_since + keep_alive:
                    yield []
                    quiet_since = loop.time()
                alarm = loop.call_at(quiet_since + keep_alive, ring)
            await awake.wait()
            awake.clear()
    finally:
        if alarm is not None:
            alarm.cancel()


def _taken(streams: Sequence[Stream], samples: int) -> tuple[list[tuple[int, StreamEvent]], Exception | None]:
    """What has come of all streams, up to the first that has failed, and why it has."""
    events = list[tuple[int, StreamEvent]]()
    try:
        for at, stream in enumerate(streams):
            for number, event in stream.taken():
                events.append((at * samples + number, event))
    except Exception as error:
        return events, error
    return events, None


def milliseconds(seconds: float | None) -> float | None:
    """To a microsecond."""
    return None if seconds is None else round(1e3 * seconds, 3)


def sse(body: dict[str, Any], event: str = "") -> str:
    """A server-sent event with its data; `event`: its name, where it has one.

    Only CR and LF end a line of the format, and JSON escapes both. Clients that split lines as Python does would also
    cut at the three characters that are escaped here.
    """
    name = f"event: {event}\n" if event else ""
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    if not data.isascii():
        for character, escape in _LINE_ENDS:
            data = data.replace(character, escape)
    return f"{name}data: {data}\n\n"
