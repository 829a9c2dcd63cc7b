"""Answers as server-sent events. In: the streams of a request. Out: lines of `data: {...}`, and `data: [DONE]`.

A stream that has begun cannot change its status: an error in its middle is an event with the body of the error. While
no token comes there is a comment now and then. Whoever stops reading cancels the request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from guided.engine.result import Result, StreamEvent
from guided.server.answers import Answer, usage_of
from guided.server.engine_thread import Stream
from guided.server.errors import body_of
from guided.server.requests import StreamOptions

__all__ = ["collected", "server_sent"]


async def collected(streams: Sequence[Stream]) -> list[list[Result]]:
    """The results of each stream, in order; where one fails, the others are cancelled."""

    async def read(stream: Stream) -> list[Result]:
        found: dict[int, Result] = {}
        async for number, event in stream:
            if event.result is not None:
                found[number] = event.result
        return [found[number] for number in sorted(found)]

    try:
        return list(await asyncio.gather(*map(read, streams)))
    finally:
        for stream in streams:
            stream.cancel()


async def server_sent(
    answer: Answer, streams: Sequence[Stream], options: StreamOptions, *, samples: int, keep_alive: float
) -> AsyncIterator[str]:
    """See the head. `samples`: of each stream."""
    results: list[list[Result]] = [[] for _ in streams]
    begun = set[int]()
    try:
        async for number, event in _merged(streams, samples, keep_alive):
            if event is None:
                yield ": keep-alive\n\n"
                continue
            if answer.chat and number not in begun:
                begun.add(number)
                yield _data(answer.begin(number))
            if event.result is not None:
                results[number // samples].append(event.result)
            if event.text or event.result is not None or answer.top is not None:
                chunk = answer.chunk(number, event)
                if options.continuous_usage_stats:
                    chunk["usage"] = usage_of(results)
                yield _data(chunk)
        if options.include_usage:
            yield _data(answer.usage(results))
    except Exception as error:
        yield _data(body_of(error))
    finally:
        for stream in streams:
            stream.cancel()
    yield "data: [DONE]\n\n"


async def _merged(
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


def _data(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False, separators=(',', ':'))}\n\n"
