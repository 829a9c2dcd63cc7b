"""One request on its way through the server: what the door, the routes and the log know of it. It computes nothing."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from time import perf_counter, time
from typing import Any, Final

from fastapi import Request

from guided.server.engine_thread import Stream

__all__ = ["RequestContext", "new_id", "request_context_of"]

_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(slots=True, eq=False)
class RequestContext:
    """See the head.

    Attributes:
        id: of the request, as its header `X-Request-Id` or its field `rid` has it, or else a new one.
        method, path: of it.
        key: the number of its key, from 1; None: it has none.
        status: of the answer; 0: there is none yet.
        streams: what it asked of the engine.
        kind: the field that says what the text must be; "" where none does.
        ended: why the engine did not answer: the code of the error.
        size: bytes of its body.
        body: of the request, where it is to be logged.
        begun, at: when it came, by perf_counter and in seconds since 1970.
    """

    id: str
    method: str
    path: str
    key: int | None = None
    status: int = 0
    streams: list[Stream] = field(default_factory=list)
    kind: str = ""
    ended: str | None = None
    size: int = 0
    body: Any = None
    begun: float = field(default_factory=perf_counter)
    at: float = field(default_factory=time)


def new_id(given: str | None) -> str:
    """The id of a request: the one that is given, if it is short and plain; else a new one."""
    return given if given is not None and _ID.fullmatch(given) else secrets.token_hex(12)


def request_context_of(request: Request) -> RequestContext:
    """What is known of a request that came in by the door."""
    visit = request.state.visit
    assert isinstance(visit, RequestContext)
    return visit
