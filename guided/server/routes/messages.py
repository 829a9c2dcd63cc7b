"""`/v1/messages`: Anthropic's Messages API. Requests are converted to chat completions."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from fastapi import FastAPI, Request, Response

from guided.errors import brief
from guided.server.anthropic.message_events import MessageEvents
from guided.server.anthropic.messages_request import CountTokensRequest, MessagesRequest
from guided.server.http.errors import RequestError
from guided.server.http.openapi import takes
from guided.server.http.request_context import get_request_context
from guided.server.openai.streaming import last_event, stream_events
from guided.server.openai.warnings import make_warning_header
from guided.server.routes.converted import begin_answer, count_prompt_tokens, read_converted
from guided.server.server import Server, run_while_connected, stream_response

__all__ = ["add"]

_VERSIONS: Final = ("2026-10-21", "2023-06-01")
"""Versions of the Messages API. The newer one has no `temperature`, `top_p` and `top_k`, but they are accepted here."""
_ANSWER: Final = {
    "id": "string",
    "type": "string",
    "role": "string",
    "model": "string",
    "content": "array",
    "usage": "object",
}


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""

    @app.post("/v1/messages")
    @takes(MessagesRequest, answer=_ANSWER, events=True)
    async def messages(request: Request) -> Response:
        _check_version(request)
        return await _answer(server, request)

    @app.post("/v1/messages/count_tokens")
    @takes(CountTokensRequest, answer={"input_tokens": "integer"})
    async def count_tokens(request: Request) -> dict[str, Any]:
        _check_version(request)
        return {"input_tokens": await count_prompt_tokens(server, request, CountTokensRequest)}


def _check_version(request: Request) -> None:
    """Raise RequestError if a request asks for an unknown version of the API."""
    version = request.headers.get("anthropic-version", _VERSIONS[0])
    if version not in _VERSIONS:
        message = f"the version {brief(version)} of the API is unknown: write {' or '.join(_VERSIONS)}"
        raise RequestError(message, param="anthropic-version")


async def _answer(server: Server, request: Request) -> Response:
    """Answer a request with a message, whole or as a stream."""
    body, prepared = await server.read(request, partial(read_converted, server, MessagesRequest))
    stream, warnings = await begin_answer(server, request, body, prepared, is_streamed=bool(body.stream))
    events = MessageEvents(
        server.settings.model_name,
        stream.prompt_tokens,
        request_id=get_request_context(request).id,
        shows_thinking=body.shows_thinking,
        warnings=warnings,
    )
    headers = make_warning_header(warnings)
    if body.stream:
        return stream_response(stream_events(events, stream, prepared.make_reader, server.settings.keep_alive), headers)
    with body.rename_errors():
        await run_while_connected(request, last_event(events, stream, prepared.make_reader))
    return Response(events.text(), media_type="application/json", headers=headers)
