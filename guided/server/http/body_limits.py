"""Reads the bodies of requests. In: bytes as they arrive. Out: what a route builds from their JSON.

Problem. A body of the maximum size may contain a hundred thousand messages. Reading it takes a second or two, which
would block all other clients if it happened on the event loop. So separate threads read large bodies, one thread for
each range of sizes (lanes.py). They yield to the loop between two messages or items. Small bodies are read on the loop,
because handing them to a thread would cost more.

The size, the nesting and the number of messages are checked first. The number of messages has its own limit
(`max_messages`), since a message costs far more than parsing its bytes. Everything else costs time and memory in
proportion to its bytes: other lists have a maximum length, or are read only up to their first error (requests.py).
Python's garbage collector is paused while a body is read, since it would scan all objects of the process again and
again.

Guarantee: bodies that are arriving or waiting for their thread take at most `_MAX_BODIES` times `max_body` bytes in
total. Beyond that, clients are asked to retry. Not done: interrupting a single call of Python's JSON parser (0.1 s for
4 MiB).
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from fastapi import Request
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

from guided.errors import brief
from guided.frontends.json_schema.documents.source_spans import pointer_of, syntax_error
from guided.matching.gc_pause import gc_paused
from guided.server.http.errors import RequestError
from guided.server.http.lanes import MAX_SMALL_BODY_BYTES, BodyThreads
from guided.server.http.request_context import get_request_context
from guided.server.settings import Settings

__all__ = ["BodyReader", "check_body_headers"]

_Result = TypeVar("_Result")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_PARAMETER: Final = re.compile(r';\s*+([^\s;="]*+)\s*+(?:=\s*+("(?:[^"\\]|\\.)*+"?|[^;]*+))?')
_MAX_CONTENT_TYPE: Final = 1_000
_TOO_DEEP: Final = object()
_MAX_BODIES: Final = 16  # the number of bodies of `max_body` bytes that may arrive at once
_COUNTED_LISTS: Final = ("content", "tool_calls", "output", "summary")  # entries of these lists count like messages


class BodyReader:
    """See the module docstring. Its methods run on the event loop.

    Attributes:
        max_inline_bytes: the largest body, in bytes, that is read on the event loop.
    """

    def __init__(self, settings: Settings, threads: BodyThreads) -> None:
        self._settings, self._threads, self.max_inline_bytes = settings, threads, MAX_SMALL_BODY_BYTES
        self._pending_bytes = 0  # bytes of bodies that are still being read

    async def read(self, request: Request, make: Callable[[Any], _Result]) -> _Result:
        """Call `make` with the JSON value of a body, and return its result. Large bodies are read on another thread.

        Raises:
            RequestError: the body is too long, nests too deeply, has too many messages, is not JSON (RFC 8259: UTF-8,
                finite numbers), writes a key twice in one object, or does not arrive in time. Exception: whatever
                `make` raises.
        """
        body = bytearray()
        try:
            await self._receive(request, body)

            def parse_and_make() -> tuple[Any, _Result | Exception]:
                value = _parse_json(body, self._settings.max_depth)
                try:
                    _check_messages(value, self._settings.max_messages)
                    return value, make(value)
                except Exception as error:
                    return value, error

            get_request_context(request).body_size = len(body)
            if len(body) <= self.max_inline_bytes:
                value, result = parse_and_make()
            else:
                loop, executor = asyncio.get_running_loop(), self._threads.executor_for(len(body))
                async with self.limit_time():
                    value, result = await loop.run_in_executor(executor, gc_paused()(parse_and_make))
        finally:
            self._pending_bytes -= len(body)
        if self._settings.log_requests:
            get_request_context(request).body = value
        if isinstance(result, Exception):
            raise result
        return result

    @asynccontextmanager
    async def limit_time(self) -> AsyncIterator[None]:
        """Raise RequestError if the block takes longer than a whole request may take, for example because the thread
        that reads the body gets no CPU time."""
        seconds = self._settings.request_timeout
        try:
            async with asyncio.timeout(seconds or None):
                yield
        except TimeoutError:
            message = f"the request was not read within {seconds:g} s: retry later"
            raise RequestError(message, code="request_timeout", status=503) from None

    async def _receive(self, request: Request, body: bytearray) -> None:
        settings = self._settings
        try:
            async with asyncio.timeout(settings.body_timeout):
                async for piece in request.stream():
                    body += piece
                    self._pending_bytes += len(piece)
                    _check_length(len(body), settings.max_body)
                    if self._pending_bytes > _MAX_BODIES * settings.max_body:
                        message = "too many request bodies are arriving at once: retry later"
                        raise RequestError(message, code="overloaded", status=503)
        except TimeoutError:
            message = f"the body did not arrive within {settings.body_timeout:g} s"
            raise RequestError(message, code="body_timeout", status=408) from None
        except ClientDisconnect:
            raise RequestError("the client closed the connection", status=499) from None


def check_body_headers(headers: Headers, max_body: int) -> None:
    """Raise RequestError if the headers announce a body that the server does not read, before the body arrives."""
    if (length := headers.get("content-length", "")).isdecimal():
        _check_length(int(length[:20]), max_body)
    for encoding in headers.getlist("content-encoding"):
        if encoding.strip().lower() != "identity":
            message = f"the body has the Content-Encoding {brief(encoding)}: send it without an encoding"
            raise RequestError(message, status=415)
    content_type = headers.get("content-type", "")
    if len(content_type) > _MAX_CONTENT_TYPE:
        raise RequestError(f"the Content-Type has more than {_MAX_CONTENT_TYPE} bytes", status=415)
    charset = _read_charset(content_type)
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise RequestError(f"the body has the charset {brief(charset)}: send UTF-8", status=415)


def _read_charset(content_type: str) -> str:
    """The charset that a Content-Type names, in lower case; "utf-8" if it names none. The first one counts."""
    for parameter in _PARAMETER.finditer(content_type):
        if parameter[1].lower() == "charset":
            value = (parameter[2] or "").strip()
            return re.sub(r"\\(.)", r"\1", value.strip('"')).lower() if value[:1] == '"' else value.lower()
    return "utf-8"


def _check_length(length: int, max_body: int) -> None:
    if length > max_body:
        raise RequestError(f"the body has more than {max_body} bytes", status=413)


def _parse_json(body: bytearray, max_depth: int) -> Any:
    duplicates: dict[int, tuple[dict[str, Any], str]] = {}  # id of an object -> the object, a key written twice in it

    def read_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            duplicates[id(members)] = members, _first_repeated(key for key, _ in pairs)
        return members

    try:
        text = body.decode("utf-8-sig")  # RFC 8259 allows a parser to ignore a byte order mark
        value = json.loads(
            text, object_pairs_hook=read_members, parse_constant=_parse_finite, parse_float=_parse_finite
        )
        if _SURROGATE.search(text):  # a lone surrogate cannot be encoded in an answer or an error
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        value = _TOO_DEEP
    except UnicodeEncodeError:
        raise RequestError("a string in the body contains a lone surrogate, which UTF-8 cannot encode") from None
    except UnicodeDecodeError as error:
        problem = f"byte {error.object[error.start]:#04x} at offset {error.start}"
        raise RequestError(f"the body is not JSON: it is not UTF-8 text ({problem})") from None
    except json.JSONDecodeError as error:
        message = str(syntax_error(error, "the body")) if error.doc.strip() else "the body is not JSON: it is empty"
        raise RequestError(message) from None
    except ValueError:  # from `int`, which reads at most 4,300 digits
        raise RequestError(f"an integer in the body has more than {sys.get_int_max_str_digits():,} digits") from None
    if value is _TOO_DEEP or _measure_depth(value, max_depth) > max_depth:
        raise RequestError(f"arrays and objects in the body are nested more than {max_depth} deep")
    if duplicates:
        path = _find_duplicate(value, duplicates)
        message = f"the key {brief(path[-1])} is written twice in one object: remove one of the two"
        raise RequestError(message, param=pointer_of(path).removeprefix("/"))
    return value


def _find_duplicate(value: Any, duplicates: Mapping[int, tuple[Any, str]]) -> list[str | int]:
    """The path of a key that is written twice. `duplicates`: as in `_parse_json`, not empty.

    One of these objects is always part of the value: an object can be missing only if it is the earlier value of such
    a key.
    """
    path, levels = list[Any](), [_children([value])]
    while True:
        for key, child in levels[-1]:
            if isinstance(child, dict | list):
                path.append(key)
                if id(child) in duplicates:
                    return [*path[1:], duplicates[id(child)][1]]
                levels.append(_children(child))
                break
        else:
            levels.pop()
            path.pop()


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    return iter(value.items()) if isinstance(value, dict) else enumerate(value)


def _first_repeated(keys: Iterable[str]) -> str:
    seen = set[str]()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    raise ValueError("no key is repeated")


def _check_messages(body: Any, max_messages: int) -> None:
    """Raise RequestError if a conversation has too many messages, parts and calls in total."""
    for name in ("messages", "input"):
        messages = body.get(name) if isinstance(body, dict) else None
        if not isinstance(messages, list):
            continue
        inner = (message.get(part) for message in messages if isinstance(message, dict) for part in _COUNTED_LISTS)
        number = len(messages) + sum(len(parts) for parts in inner if isinstance(parts, list))
        if number > max_messages:
            reason = f"{name} has {number} messages, parts and calls; this server reads at most {max_messages}"
            raise RequestError(f"{reason} (--max-messages): shorten the conversation", param=name)


def _parse_finite(text: str) -> float:
    """Parse a number. Raises RequestError if it is not finite, since JSON cannot represent such a number."""
    if not math.isfinite(number := float(text)):
        raise RequestError(f"the body is not JSON: {text[:40]} is not a finite number")
    return number


def _measure_depth(value: Any, max_depth: int) -> int:
    """The nesting depth of arrays and objects in a JSON value. Counting stops at `max_depth` + 1."""
    level, depth = [value], 0
    while (level := [value for value in level if isinstance(value, dict | list)]) and depth <= max_depth:
        depth += 1
        level = [inner for value in level for inner in (value.values() if isinstance(value, dict) else value)]
    return depth
