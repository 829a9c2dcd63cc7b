"""The data that the middleware, the routes and the log share about a request. It computes nothing."""

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
    """See the module docstring.

    Attributes:
        id: from the header `X-Request-Id` or the field `rid`; otherwise a new one.
        method, path: of the request.
        key: the number of its key, counted from 1; None: it has no key.
        status: of the answer; 0: no answer yet.
        streams: its streams of the engine.
        kind: the field that constrains the text, such as "response_format"; "": none.
        ended: the error code, if the engine did not answer.
        size: bytes of its body.
        body: the body, if it is to be logged.
        begun, at: when it arrived, by perf_counter and in seconds since 1970.
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
    """The client's id if it is short and plain; otherwise a new one."""
    return given if given is not None and _ID.fullmatch(given) else secrets.token_hex(12)


def request_context_of(request: Request) -> RequestContext:
    """The context that the middleware attached to a request."""
    context = request.state.context
    assert isinstance(context, RequestContext)
    return context
