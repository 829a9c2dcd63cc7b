"""The data about a request that the middleware, the routes and the log share."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter, time
from typing import Any, Final

from fastapi import Request

from guided.engine.request import Request as EngineRequest
from guided.server.engine_thread import Stream

__all__ = ["RequestContext", "choose_request_id", "get_request_context"]

_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(slots=True, eq=False)
class RequestContext:
    """See the module docstring.

    Attributes:
        id: from the header `X-Request-Id` or the field `rid`; otherwise a new id.
        method, path: the request's method and path.
        key_number: the number of the server's key that the request contains, from 1; None if no key was checked.
        status: the status of the answer; 0: no answer yet.
        streams: its streams from the engine thread.
        request: the engine request for its first prompt; None if there is none, for example because the HTTP request
            was refused.
        constraint_field: the field that constrains the text, such as "response_format"; "" if there is none.
        error_code: why the request failed or was aborted; None if neither happened.
        body_size: the size of its body, in bytes.
        body: the body, if it will be logged.
        start_time, unix_time: when it arrived, by `perf_counter` and in Unix time.
        server: the address and the port that received it; None if unknown.
        trace_headers: its headers that identify a trace, if requests are traced.
    """

    id: str
    method: str
    path: str
    key_number: int | None = None
    status: int = 0
    streams: list[Stream] = field(default_factory=list)
    request: EngineRequest | None = None
    constraint_field: str = ""
    error_code: str | None = None
    body_size: int = 0
    body: Any = None
    start_time: float = field(default_factory=perf_counter)
    unix_time: float = field(default_factory=time)
    server: tuple[str, int | None] | None = None
    trace_headers: Mapping[str, str] = field(default_factory=dict)


def choose_request_id(client_id: str | None) -> str:
    """The client's id if it is valid (`_ID`), otherwise a new id."""
    return client_id if client_id is not None and _ID.fullmatch(client_id) else secrets.token_hex(12)


def get_request_context(request: Request) -> RequestContext:
    """The context that the middleware attached to a request."""
    context = request.state.context
    assert isinstance(context, RequestContext)
    return context
