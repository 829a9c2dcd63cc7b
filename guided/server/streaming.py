"""Answers as server-sent events. In: the streams of a request. Out: lines of `data: {...}`, and `data: [DONE]`.

A stream that has begun cannot change its status: an error in its middle is an event with the body of the error. While
no token comes there is a comment now and then. Whoever stops reading cancels the request. The first chunk of each
choice has `ttft_ms`: how long the request took to its first token.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from guided.engine.result import StreamEvent
from guided.server.answers import Answer, usage_of
from guided.server.deltas import Reading
from guided.server.engine_thread import Stream
from guided.server.errors import body_of
from guided.server.requests import StreamOptions

__all__ = ["KEEP_ALIVE", "NewReading", "all_begun", "collected", "merged", "milliseconds", "server_sent", "sse"]

KEEP_ALIVE: Final = ": keep-alive\n\n"
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
) -> AsyncGenerator[str, None]:
    """See the head. `samples`: of each stream."""
    readings = [[new_reading() for _ in range(samples)] for _ in streams]
    begins = list(range(len(streams) * samples)) if answer.chat else []  # in order: OpenAI's client needs it
    begun = set[int]()
    try:
        async with aclosing(merged(streams, samples, keep_alive)) as events:
            async for number, event in events:
                if event is None:
                    yield KEEP_ALIVE
                    continue
                reading = readings[number // samples][number % samples]
                ttft = {"ttft_ms": milliseconds(streams[number // samples].ttft)}
                for each in begins:  # of one stream
                    yield sse(answer.begin(each) | ttft)
                begun.update(begins)
                begins = []
                for chunk in answer.chunks(number, event, reading.read(event), reading):
                    if number not in begun:
                        begun.add(number)
                        chunk |= ttft
                    if options.continuous_usage_stats:
                        chunk["usage"] = usage_of(readings)
                    yield sse(chunk)
        if options.include_usage:
            yield sse(answer.usage(readings))
    except Exception as error:
        yield sse(body_of(error))
    finally:
        for stream in streams:
            stream.cancel()
    yield "data: [DONE]\n\n"


async def merged(
    streams: Sequence[Stream], samples: int, keep_alive: float
) -> AsyncGenerator[tuple[int, StreamEvent | None], None]:
    """The events of all streams as they come, each with the number of its choice; no event: nothing came for long."""
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
            for at, stream in enumerate(streams):
                for number, event in stream.taken():
                    yield at * samples + number, event
                    quiet_since = loop.time()
            if not any(stream.left for stream in streams):
                return
            if alarm is None:  # one timer for all the events that come before it rings
                if loop.time() >= quiet_since + keep_alive:
                    yield 0, None
                    quiet_since = loop.time()
                alarm = loop.call_at(quiet_since + keep_alive, ring)
            await awake.wait()
            awake.clear()
    finally:
        if alarm is not None:
            alarm.cancel()


def milliseconds(seconds: float | None) -> float | None:
    """To a microsecond."""
    return None if seconds is None else round(1e3 * seconds, 3)


def sse(body: dict[str, Any], event: str = "") -> str:
    """A server-sent event with its data; `event`: its name, where it has one."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(body, ensure_ascii=False, separators=(',', ':'))}\n\n"
