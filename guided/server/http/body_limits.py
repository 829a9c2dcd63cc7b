"""The bodies of requests. In: bytes as they arrive. Out: what a route makes of their JSON.

Problem. A body of the largest size that is allowed may hold a hundred thousand messages. To read it takes a second or
two, in which no other client would be answered, were it read on the event loop. So large bodies are read on threads of
their own, by their size (lanes.py), which give way to the loop between two messages or items. Small ones are read where
they are: to hand them over would cost more.

What a body may cost is bounded before any of it is looked at more closely: its bytes, its nesting, and the messages of
a conversation (`max_messages`), since a message costs far more than its bytes. What is left costs time and memory in
proportion to its bytes: lists have bounds, or are given up at their first error (requests.py). Python's collector
pauses meanwhile, since it would look at all objects of the process again and again.

What holds: bodies that arrive, or that wait for their thread, have at most `_MOST_BODIES` times `max_body` bytes
together; past that a client is told to come again. Not done: what is one call of Python's JSON reader (0.1 s for 4 MiB)
cannot be interrupted.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from guided.matching.gc_pause import gc_paused
from guided.server.http.errors import RequestError
from guided.server.http.lanes import SMALL, Lanes
from guided.server.http.request_context import request_context_of
from guided.server.settings import Settings

__all__ = ["Bodies"]

_Found = TypeVar("_Found")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_TOO_DEEP: Final = object()
_MOST_BODIES: Final = 16  # times `max_body` may arrive at once
_OF_A_MESSAGE: Final = ("content", "tool_calls", "output", "summary")  # lists whose entries count as messages


class Bodies:
    """See the head. On the event loop.

    Attributes:
        small: bytes of a body that is read on the event loop.
    """

    def __init__(self, settings: Settings, lanes: Lanes) -> None:
        self._settings, self._lanes, self.small = settings, lanes, SMALL
        self._read = 0  # bytes of bodies that were not read to their ends

    async def read(self, request: Request, make: Callable[[Any], _Found]) -> _Found:
        """What `make` gives for the JSON of a body; for a large one it is called on another thread.

        Raises:
            RequestError: the body is too long, nests too deeply, has too many messages, is no JSON (RFC 8259: in UTF-8,
                numbers are finite), or does not arrive in time. What `make` raises.
        """
        body = bytearray()
        try:
            await self._arrive(request, body)

            def made() -> tuple[Any, _Found | Exception]:
                found = _json(body, self._settings.max_depth)
                try:
                    _check_messages(found, self._settings.max_messages)
                    return found, make(found)
                except Exception as error:
                    return found, error

            request_context_of(request).size = len(body)
            if len(body) <= self.small:
                found, result = made()
            else:
                loop, thread = asyncio.get_running_loop(), self._lanes.of(len(body))
                found, result = await loop.run_in_executor(thread, gc_paused()(made))
        finally:
            self._read -= len(body)
        if self._settings.log_requests:
            request_context_of(request).body = found
        if isinstance(result, Exception):
            raise result
        return result

    async def _arrive(self, request: Request, body: bytearray) -> None:
        settings = self._settings
        try:
            async with asyncio.timeout(settings.body_timeout):
                async for piece in request.stream():
                    body += piece
                    self._read += len(piece)
                    if len(body) > settings.max_body:
                        raise RequestError(f"the body has more than {settings.max_body} bytes", status=413)
                    if self._read > _MOST_BODIES * settings.max_body:
                        message = "too many bodies arrive at once"
                        raise RequestError(message, code="overloaded", status=503)
        except TimeoutError:
            message = f"the body did not arrive within {settings.body_timeout:g} s"
            raise RequestError(message, code="body_timeout", status=408) from None
        except ClientDisconnect:
            raise RequestError("the client has gone away", status=499) from None


def _json(body: bytearray, max_depth: int) -> Any:
    try:
        text = body.decode()
        found = json.loads(text, parse_constant=_finite, parse_float=_finite)
        if _SURROGATE.search(text):  # half of a pair could be in no answer and in no error
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        found = _TOO_DEEP
    except UnicodeEncodeError:
        raise RequestError("a text of the body has half of a surrogate pair, which UTF-8 cannot say") from None
    except ValueError as error:
        raise RequestError(f"the body is not JSON: {error}") from None
    if found is _TOO_DEEP or _depth(found, max_depth) > max_depth:
        raise RequestError(f"the body nests arrays and objects more than {max_depth} deep")
    return found


def _check_messages(body: Any, most: int) -> None:
    """Raises RequestError where a conversation has more messages, parts and calls together."""
    for name in ("messages", "input"):
        messages = body.get(name) if isinstance(body, dict) else None
        if not isinstance(messages, list):
            continue
        inner = (each.get(part) for each in messages if isinstance(each, dict) for part in _OF_A_MESSAGE)
        number = len(messages) + sum(len(each) for each in inner if isinstance(each, list))
        if number > most:
            message = (
                f"{name} has {number} messages, parts and calls; this server reads at most {most} (--max-messages)"
            )
            raise RequestError(f"{message}: shorten the conversation", param=name)


def _finite(text: str) -> float:
    """A number that JSON can say again."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:40]} is no finite number")
    return number


def _depth(value: Any, most: int) -> int:
    """How deep arrays and objects of a JSON value nest; counted no further than one past `most`."""
    level, depth = [value], 0
    while (level := [each for each in level if isinstance(each, dict | list)]) and depth <= most:
        depth += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return depth
