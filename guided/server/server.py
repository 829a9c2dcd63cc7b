"""What the routes of a server share: its engine, its settings, and the way of a request to the engine and back.

route  ->  json, check_model  ->  submit (admission)  ->  collected or server-sent, by `reply`
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from guided.engine import Engine
from guided.engine.reasoning import find_reasoning_end
from guided.engine.request import Request as EngineRequest
from guided.server.conversations import style_of
from guided.server.engine_thread import EngineThread, Stream
from guided.server.errors import RequestError
from guided.server.settings import Settings
from guided.spec.structural_tag.tool_prompts import check_style
from guided.tools.toolbox import Toolbox

__all__ = ["Server", "stream_response", "unless_gone"]

_Found = TypeVar("_Found")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class Server:
    """What the routes share.

    Attributes:
        engine: the model.
        settings: of the operator.
        thread: runs the engine.
        started: when, in seconds since 1970.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        """Raises GuidedError where the engine's model has no such tokens, or cannot be told of tools in this style."""
        check_style(style_of(engine, settings))
        Toolbox(settings.tools, engine.vocabulary)
        if settings.reasoning_end:
            find_reasoning_end(engine.vocabulary, settings.reasoning_end)
        self.engine, self.settings, self.thread = engine, settings, EngineThread(engine)
        self.started = int(time.time())

    async def json(self, request: Request) -> Any:
        """The body of a request.

        Raises:
            RequestError: it is too long, or no JSON (RFC 8259: in UTF-8, numbers are finite).
        """
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self.settings.max_body:
                raise RequestError(f"the body has more than {self.settings.max_body} bytes", status=413)
        try:
            text = body.decode()
            found = json.loads(text, parse_constant=_finite, parse_float=_finite)
            if _SURROGATE.search(text):  # half of a pair could be in no answer and in no error
                json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise RequestError("a text of the body has half of a surrogate pair, which UTF-8 cannot say") from None
        except (ValueError, RecursionError) as error:
            raise RequestError(f"the body is not JSON: {error}") from None
        return found

    def check_model(self, name: str | None) -> None:
        """Raises RequestError where a request names another model than this server has."""
        if name not in (None, self.settings.model_name):
            message = f"there is no model {name!r}; this server has {self.settings.model_name!r}"
            raise RequestError(message, param="model", code="model_not_found", status=404)

    def submit(self, request: Request, parts: Sequence[EngineRequest], priority: int = 0) -> list[Stream]:
        """Give requests to the engine, if there is room for them.

        Raises:
            RequestError: too many wait already. EngineStopped.
        """
        if self.thread.requests + len(parts) > self.settings.max_queued_requests:
            message = f"{self.settings.max_queued_requests} requests wait already"
            raise RequestError(message, code="overloaded", status=503)
        return [self.thread.submit(part, priority) for part in parts]

    def health(self) -> dict[str, Any]:
        """What the engine is doing."""
        scheduler = self.engine.scheduler
        prefilling = scheduler.prefilling
        return {
            "status": "ok" if self.thread.alive else "dead",
            "step": self.thread.steps,
            "waiting": scheduler.waiting,
            "prefilling": prefilling,
            "active": scheduler.running - prefilling,
            "compiling": scheduler.compiling,
            "pending_submit": self.thread.pending,
        }


def _finite(text: str) -> float:
    """A number that JSON can say again."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:40]} is no finite number")
    return number


def stream_response(events: AsyncIterator[str], headers: Mapping[str, str]) -> Response:
    """Server-sent events as an answer."""
    return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache", **headers})


async def unless_gone(request: Request, work: Awaitable[_Found]) -> _Found:
    """Do something unless the client goes away first; then it is cancelled."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait([doing, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise RequestError("the client has gone away", status=499)
        return doing.result()
    finally:
        doing.cancel()
        leaving.cancel()
