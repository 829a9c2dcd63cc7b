"""`/v1/responses`: OpenAI's Responses API. Requests are converted to chat completions."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from guided.server.http.errors import RequestError
from guided.server.http.openapi import takes
from guided.server.http.request_context import request_context_of
from guided.server.openai.answers import Answer
from guided.server.openai.requests import read_request
from guided.server.openai.responses_events import ResponseEvents, final_response, stream_events
from guided.server.openai.responses_request import InputTokensRequest, ResponsesRequest
from guided.server.openai.streaming import wait_until_begun
from guided.server.openai.warnings import header_of
from guided.server.routes.openai import PreparedRequest, prepare_request
from guided.server.server import Server, run_while_connected, stream_response

__all__ = ["add"]

_Body = TypeVar("_Body", bound=InputTokensRequest)
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
        def read(value: Any) -> PreparedRequest:
            return _read(server, InputTokensRequest, value)[1]

        [part] = (await server.read(request, read)).parts
        ids = await server.encode(request, part.prompt)
        return {"object": "response.input_tokens", "input_tokens": len(ids)}

    @app.get("/v1/responses/{response_id}")
    @app.delete("/v1/responses/{response_id}")
    def stored(response_id: str) -> Response:
        message = "this server does not store responses"
        raise RequestError(message, param="response_id", code="response_not_found", status=404)


def _read(server: Server, kind: type[_Body], value: Any) -> tuple[_Body, PreparedRequest]:
    """Parse a request, and build the engine's requests."""
    body = read_request(kind, value)
    server.check_model(body.model)
    chat = body.chat()
    with body.rename_errors():
        return body, prepare_request(server, chat, allow_server_tools=False)


async def _answer(server: Server, request: Request) -> Response:
    """A response, whole or as a stream."""
    body, prepared = await server.read(request, partial(_read, server, ResponsesRequest))
    with body.rename_errors():
        request.state.param, request_context_of(request).constraint_field = (
            body.param(prepared.param),
            body.param(prepared.text.param) or "",
        )
        [stream] = server.submit(request, prepared.parts, body.priority, rid=body.rid, streams=body.stream)
        answer = Answer(True, server.settings.model_name, server.engine.vocabulary, body.top)
        await run_while_connected(request, wait_until_begun([stream]))
        warnings = [warning | {"param": body.param(warning["param"])} for warning in prepared.warnings([stream])]
        events = ResponseEvents(answer, body.echoed_fields() | ({"warnings": warnings} if warnings else {}))
        headers = header_of(warnings)
        if not body.stream:
            return JSONResponse(
                await run_while_connected(request, final_response(events, stream, prepared.new_reading)),
                headers=headers,
            )
    return stream_response(stream_events(events, stream, prepared.new_reading, server.settings.keep_alive), headers)
