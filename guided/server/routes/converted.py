"""Functions for routes that convert their requests to chat completions: read a request, and begin its answer."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from fastapi import Request

from guided.server.engine_thread import Stream
from guided.server.http.request_context import get_request_context
from guided.server.openai.converted_request import ConvertedRequest
from guided.server.openai.reading import read_request
from guided.server.openai.streaming import wait_until_begun
from guided.server.routes.openai import PreparedRequest, prepare_request
from guided.server.server import Server, run_while_connected

__all__ = ["begin_answer", "count_prompt_tokens", "read_converted"]

_Body = TypeVar("_Body", bound=ConvertedRequest)


def read_converted(server: Server, kind: type[_Body], value: Any) -> tuple[_Body, PreparedRequest]:
    """Parse a request, and build its engine requests.

    Raises:
        RequestError, GuidedError: the request is refused.
    """
    body = read_request(kind, value)
    server.check_model(body.model)
    chat = body.to_chat_request()
    with body.rename_errors():
        return body, prepare_request(server, chat, allow_server_tools=False)


async def count_prompt_tokens(server: Server, request: Request, kind: type[ConvertedRequest]) -> int:
    """The number of tokens of a request's prompt, as `usage` counts it. Raises the errors of `read_converted` and
    `Server.read_prompt`."""
    body, prepared = await server.read(request, partial(read_converted, server, kind))
    with body.rename_errors():
        [engine_request] = prepared.engine_requests
        return len(await server.read_prompt(request, engine_request))


async def begin_answer(
    server: Server,
    request: Request,
    body: ConvertedRequest,
    prepared: PreparedRequest,
    *,
    is_streamed: bool,
    priority: int = 0,
    rid: str | None = None,
) -> tuple[Stream, list[dict[str, Any]]]:
    """Submit a request, and wait for its first token. Return its stream and the warnings in the answer.

    Args:
        server, request: the server and the HTTP request.
        body, prepared: what `read_converted` returned.
        is_streamed, priority, rid: see `Server.submit`.

    Raises:
        RequestError, GuidedError: the request is refused.
    """
    context = get_request_context(request)
    request.state.param, context.constraint_field = (
        body.rename_param(prepared.param),
        body.rename_param(prepared.structured_output.param) or "",
    )
    with body.rename_errors():
        [stream] = server.submit(request, prepared.engine_requests, priority, rid=rid, is_streamed=is_streamed)
        await run_while_connected(request, wait_until_begun([stream]))
    warnings = [
        {"message": body.rename(warning["message"]), "param": body.rename_param(warning["param"])}
        for warning in prepared.warnings([stream])
    ]
    return stream, warnings
