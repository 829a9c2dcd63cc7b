"""Sends answers as server-sent events. In: the streams of a request. Out: lines of `data: {...}`, and `data: [DONE]`.

A stream that has begun cannot change its status, so a later error is sent as an event with the error body. If no token
arrives for `keep_alive` seconds, the stream sends a comment. If the client stops reading, the request is cancelled. The
first chunk of each choice contains `ttft_ms`: the time from the request to its first token.

Events that arrive together are sent together. A write to a socket costs more than the rest of an event's processing,
especially if it wakes a client on the same machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Protocol

from guided.engine.result import StreamEvent
from guided.server.engine_thread import Stream
from guided.server.http.errors import make_error_body
from guided.server.openai.answers import Answer, count_usage
from guided.server.openai.attribution import ShownToken
from guided.server.openai.deltas import Delta, SampleReader
from guided.server.openai.requests import StreamOptions

__all__ = [
    "KEEP_ALIVE",
    "NamedEvents",
    "ReaderMaker",
    "collect_readers",
    "format_sse",
    "last_event",
    "merge_events",
    "stream_chunks",
    "stream_events",
    "to_milliseconds",
    "wait_until_begun",
]

KEEP_ALIVE: Final = ": keep-alive\n\n"
_LINE_ENDS: Final = (("\u2028", r"\u2028"), ("\u2029", r"\u2029"), ("\x85", r"\u0085"))
_NEVER: Final = 1e6  # seconds
ReaderMaker = Callable[[], SampleReader]


async def wait_until_begun(streams: Sequence[Stream]) -> None:
    """Wait until all streams have their first event. If one fails, cancel all and raise its error."""
    try:
        for stream in streams:
            await stream.wait_for_first_event()
    except BaseException:  # including cancellation, if the client disconnects
        for stream in streams:
            stream.cancel()
        raise


async def collect_readers(streams: Sequence[Stream], reader_makers: Sequence[ReaderMaker]) -> list[list[SampleReader]]:
    """The readers of each stream's samples, in order. If one fails, the others are cancelled.

    `reader_makers`: makes the readers; one function per stream.
    """

    async def read(stream: Stream, make_reader: ReaderMaker) -> list[SampleReader]:
        readers: dict[int, SampleReader] = {}
        async for number, event in stream:
            readers.setdefault(number, make_reader()).read(event)
        return [readers[number] for number in sorted(readers)]

    read_tasks = [asyncio.ensure_future(read(*pair)) for pair in zip(streams, reader_makers, strict=True)]
    try:
        return list(await asyncio.gather(*read_tasks))
    finally:
        for task, stream in zip(read_tasks, streams, strict=True):
            task.cancel()
            stream.cancel()


async def stream_chunks(
    answer: Answer,
    streams: Sequence[Stream],
    options: StreamOptions,
    reader_makers: Sequence[ReaderMaker],
    *,
    samples: int,
    keep_alive: float,
    warnings: Sequence[Mapping[str, Any]] = (),
) -> AsyncGenerator[str, None]:
    """See the module docstring.

    Args:
        answer: formats the chunks.
        streams: the streams of the request, one per prompt.
        options: what the stream contains in addition to the text.
        reader_makers: makes the readers; one function per stream.
        samples: the number of samples per stream.
        keep_alive: seconds without an event after which a comment is sent.
        warnings: warnings for the first chunk.
    """
    readers = [[make_reader() for _ in range(samples)] for make_reader in reader_makers]
    # A chat answer begins all choices in order, as OpenAI's client requires.
    unstarted_choices = list(range(len(streams) * samples)) if answer.is_chat else []
    started_choices, output = set[int](), list[str]()
    first_fields: dict[str, Any] = {"warnings": list(warnings)} if warnings else {}
    try:
        async with aclosing(merge_events(streams, samples, keep_alive)) as batches:
            async for events in batches:
                for number, event in events:
                    reader = readers[number // samples][number % samples]
                    ttft = {"ttft_ms": to_milliseconds(streams[number // samples].ttft)}
                    for choice in unstarted_choices:  # all choices are in one stream, since a chat has one prompt
                        output.append(format_sse(answer.begin(choice, reader) | ttft | first_fields))
                        first_fields = {}
                    started_choices.update(unstarted_choices)
                    unstarted_choices = []
                    for chunk in answer.chunks(number, event, reader.read(event), reader):
                        if number not in started_choices:
                            started_choices.add(number)
                            chunk |= ttft
                        if options.continuous_usage_stats:
                            chunk["usage"] = count_usage(readers)
                        output.append(format_sse(chunk | first_fields))
                        first_fields = {}
                if output or not events:
                    yield "".join(output) or KEEP_ALIVE
                    output.clear()
        if options.include_usage:
            output.append(format_sse(answer.usage(readers)))
    except Exception as error:
        output.append(format_sse(make_error_body(error)))
    finally:
        for stream in streams:
            stream.cancel()
    yield "".join([*output, "data: [DONE]\n\n"])


async def merge_events(
    streams: Sequence[Stream], samples: int, keep_alive: float
) -> AsyncGenerator[list[tuple[int, StreamEvent]], None]:
    """The events of all streams, each with the number of its choice.

    All events that have arrived are yielded together, for a single write to the socket. An empty list means that no
    event arrived for `keep_alive` seconds.
    """
    loop, outcome_arrived = asyncio.get_running_loop(), asyncio.Event()
    timer: asyncio.TimerHandle | None = None
    quiet_since = loop.time()

    def wake() -> None:
        nonlocal timer
        timer = None
        outcome_arrived.set()

    for stream in streams:
        stream.outcome_arrived = outcome_arrived
    try:
        while True:
            events, error = _take_events(streams, samples)
            if events:
                yield events
                quiet_since = loop.time()
            if error is not None:
                raise error
            if not any(stream.unread_samples for stream in streams):
                return
            if timer is None:  # one timer for all events until it fires
                if loop.time() >= quiet_since + keep_alive:
                    yield []
                    quiet_since = loop.time()
                timer = loop.call_at(quiet_since + keep_alive, wake)
            await outcome_arrived.wait()
            outcome_arrived.clear()
    finally:
        if timer is not None:
            timer.cancel()


def _take_events(streams: Sequence[Stream], samples: int) -> tuple[list[tuple[int, StreamEvent]], Exception | None]:
    """The events that have arrived, up to the first stream that failed, and the error of that stream."""
    events = list[tuple[int, StreamEvent]]()
    try:
        for i, stream in enumerate(streams):
            for number, event in stream.take_events():
                events.append((i * samples + number, event))
    except Exception as error:
        return events, error
    return events, None


class NamedEvents(Protocol):
    """The events of an API with named events, such as OpenAI's Responses API. The member `type` is an event's name.

    Attributes:
        keep_alive: what a stream sends while no token arrives.
    """

    keep_alive: str

    def begin(self) -> Iterator[dict[str, Any]]:
        """The events before the first token."""

    def read(
        self, event: StreamEvent, deltas: Sequence[Delta], tokens: Sequence[ShownToken]
    ) -> Iterator[dict[str, Any]]:
        """The events for one engine event, which a `SampleReader` has turned into `deltas` and new `tokens`."""

    def end(self, reader: SampleReader) -> Iterator[dict[str, Any]]:
        """The events after the last token."""

    def fail(self, error: Exception) -> Iterator[dict[str, Any]]:
        """The events for an error, after the events of `begin`."""


async def _batch_events(
    events: NamedEvents, stream: Stream, make_reader: ReaderMaker, keep_alive: float
) -> AsyncGenerator[list[dict[str, Any]]]:
    """The events in batches, as they arrive. An empty batch means that no event came for `keep_alive` seconds."""
    reader = make_reader()
    try:
        yield list(events.begin())
        async with aclosing(merge_events([stream], 1, keep_alive)) as batches:
            async for batch in batches:
                output = list[dict[str, Any]]()
                for _, event in batch:
                    deltas = reader.read(event)
                    output += events.read(event, deltas, reader.new_tokens)
                if output or not batch:
                    yield output
        yield list(events.end(reader))
    finally:
        stream.cancel()


async def last_event(events: NamedEvents, stream: Stream, make_reader: ReaderMaker) -> dict[str, Any]:
    """Read a stream to its end, and return the last event. Raises the error of the stream if it fails."""
    event: dict[str, Any] = {}
    async with aclosing(_batch_events(events, stream, make_reader, _NEVER)) as batches:
        async for batch in batches:
            event = batch[-1] if batch else event
    return event


async def stream_events(
    events: NamedEvents, stream: Stream, make_reader: ReaderMaker, keep_alive: float
) -> AsyncGenerator[str]:
    """The events as named server-sent events. If the client stops reading, the request is cancelled."""
    try:
        async with aclosing(_batch_events(events, stream, make_reader, keep_alive)) as batches:
            async for batch in batches:
                yield _format_events(batch) or events.keep_alive
    except Exception as error:
        yield _format_events(events.fail(error))


def _format_events(events: Iterable[dict[str, Any]]) -> str:
    return "".join(format_sse(event, event["type"]) for event in events)


def to_milliseconds(seconds: float | None) -> float | None:
    """Milliseconds, rounded to a microsecond."""
    return None if seconds is None else round(1e3 * seconds, 3)


def format_sse(body: dict[str, Any], event: str = "") -> str:
    """Format a server-sent event. `event`: its name, if any.

    In this format, only CR and LF end a line, and JSON escapes both. Some clients split lines like Python's
    `splitlines`, which also splits at three characters that JSON does not escape. They are escaped here.
    """
    name = f"event: {event}\n" if event else ""
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    if not data.isascii():
        for character, escape in _LINE_ENDS:
            data = data.replace(character, escape)
    return f"{name}data: {data}\n\n"
