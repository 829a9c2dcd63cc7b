"""`/v1/responses`: OpenAI's Responses API. Requests are converted to chat completions."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from guided.server.http.errors import RequestError
from guided.server.http.openapi import takes
from guided.server.openai.answers import Answer
from guided.server.openai.responses_events import ResponseEvents
from guided.server.openai.responses_request import InputTokensRequest, ResponsesRequest
from guided.server.openai.streaming import last_event, stream_events
from guided.server.openai.warnings import make_warning_header
from guided.server.routes.converted import begin_answer, count_prompt_tokens, read_converted
from guided.server.server import Server, run_while_connected, stream_response

__all__ = ["add"]

_ANSWER = {
    "id": "string",
    "object": "string",
    "created_at": "integer",
    "status": "string",
    "model": "string",
    "output": "array",
    "usage": "object",
}


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""

    @app.post("/v1/responses")
    @takes(ResponsesRequest, answer=_ANSWER, events=True)
    async def responses(request: Request) -> Response:
        return await _answer(server, request)

    @app.post("/v1/responses/input_tokens")
    @takes(InputTokensRequest, answer={"object": "string", "input_tokens": "integer"})
    async def input_tokens(request: Request) -> dict[str, Any]:
        return {
            "object": "response.input_tokens",
            "input_tokens": await count_prompt_tokens(server, request, InputTokensRequest),
        }

    @app.get("/v1/responses/{response_id}")
    @app.delete("/v1/responses/{response_id}")
    def stored(response_id: str) -> Response:
        message = "this server does not store responses"
        raise RequestError(message, param="response_id", code="response_not_found", status=404)


async def _answer(server: Server, request: Request) -> Response:
    """Answer a request with a response, whole or as a stream."""
    body, prepared = await server.read(request, partial(read_converted, server, ResponsesRequest))
    stream, warnings = await begin_answer(
        server, request, body, prepared, is_streamed=body.stream, priority=body.priority, rid=body.rid
    )
    answer = Answer(True, server.settings.model_name, server.engine.vocabulary, body.top)
    events = ResponseEvents(answer, body.echoed_fields() | ({"warnings": warnings} if warnings else {}))
    headers = make_warning_header(warnings)
    if body.stream:
        return stream_response(stream_events(events, stream, prepared.make_reader, server.settings.keep_alive), headers)
    with body.rename_errors():
        final_event = await run_while_connected(request, last_event(events, stream, prepared.make_reader))
    return JSONResponse(final_event["response"], headers=headers)
