"""The data that the middleware, the routes and the log share about a request. It computes nothing."""

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

__all__ = ["RequestContext", "request_context_of", "request_id"]

_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(slots=True, eq=False)
class RequestContext:
    """See the module docstring.

    Attributes:
        id: from the header `X-Request-Id` or the field `rid`; otherwise a new one.
        method, path: the request's method and path.
        key_number: which of the server's keys it has, from 1; None if no key was checked.
        status: the status of the answer; 0: no answer yet.
        streams: its streams of the engine.
        request: the engine's request for its first prompt; None if there is none, as for a request that was refused.
        constraint_field: the field that constrains the text, such as "response_format"; "" if there is none.
        error_code: why the request failed or was aborted; None if it did not.
        body_size: bytes of its body.
        body: the body, if it will be logged.
        start_time, unix_time: when it arrived, by `perf_counter` and as Unix time.
        server: the address and the port that received it; None if unknown.
        trace_headers: its headers that name a trace, if requests are traced.
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


def request_id(client_id: str | None) -> str:
    """The client's id if it is valid (`_ID`); otherwise a new one."""
    return client_id if client_id is not None and _ID.fullmatch(client_id) else secrets.token_hex(12)


def request_context_of(request: Request) -> RequestContext:
    """The context that the middleware attached to a request."""
    context = request.state.context
    assert isinstance(context, RequestContext)
    return context
