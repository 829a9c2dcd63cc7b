"""Answers as server-sent events. In: the streams of a request. Out: lines of `data: {...}`, and `data: [DONE]`.

A stream that has begun cannot change its status: an error in its middle is an event with the body of the error. While
no token comes there is a comment now and then. Whoever stops reading cancels the request. The first chunk of each
choice has `ttft_ms`: how long the request took to its first token.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from guided.engine.result import StreamEvent
from guided.server.answers import Answer, usage_of
from guided.server.deltas import Reading
from guided.server.engine_thread import Stream
from guided.server.errors import body_of
from guided.server.requests import StreamOptions

__all__ = ["KEEP_ALIVE", "NewReading", "collected", "merged", "milliseconds", "server_sent", "sse"]

KEEP_ALIVE: Final = ": keep-alive\n\n"
NewReading = Callable[[], Reading]


async def collected(streams: Sequence[Stream], new_reading: NewReading) -> list[list[Reading]]:
    """What the samples of each stream say, in order; where one fails, the others are cancelled."""

    async def read(stream: Stream) -> list[Reading]:
        readings: dict[int, Reading] = {}
        async for number, event in stream:
            readings.setdefault(number, new_reading()).read(event)
        return [readings[number] for number in sorted(readings)]

    try:
        return list(await asyncio.gather(*map(read, streams)))
    finally:
        for stream in streams:
            stream.cancel()


async def server_sent(
    answer: Answer,
    streams: Sequence[Stream],
    options: StreamOptions,
    new_reading: NewReading,
    *,
    samples: int,
    keep_alive: float,
) -> AsyncIterator[str]:
    """See the head. `samples`: of each stream."""
    readings = [[new_reading() for _ in range(samples)] for _ in streams]
    begins = list(range(len(streams) * samples)) if answer.chat else []  # in order: OpenAI's client needs it
    begun = set[int]()
    try:
        async for number, event in merged(streams, samples, keep_alive):
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
) -> AsyncIterator[tuple[int, StreamEvent | None]]:
    """The events of all streams as they come, each with the number of its choice; no event: nothing came for long."""
    arrived = asyncio.Queue[tuple[int, StreamEvent] | Exception | None]()

    async def read(at: int, stream: Stream) -> None:
        try:
            async for number, event in stream:
                arrived.put_nowait((at * samples + number, event))
            arrived.put_nowait(None)
        except Exception as error:
            arrived.put_nowait(error)

    readers = [asyncio.create_task(read(at, stream)) for at, stream in enumerate(streams)]
    left = len(readers)
    try:
        while left:
            try:
                item = await asyncio.wait_for(arrived.get(), keep_alive)
            except TimeoutError:
                yield 0, None
                continue
            if isinstance(item, Exception):
                raise item
            if item is None:
                left -= 1
            else:
                yield item
    finally:
        for reader in readers:
            reader.cancel()


def milliseconds(seconds: float | None) -> float | None:
    """To a microsecond."""
    return None if seconds is None else round(1e3 * seconds, 3)


def sse(body: dict[str, Any], event: str = "") -> str:
    """A server-sent event with its data; `event`: its name, where it has one."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(body, ensure_ascii=False, separators=(',', ':'))}\n\n"
