"""`/v1/responses`: OpenAI's interface of items; requests are converted to chat completions."""

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
from guided.server.openai.responses_events import ResponseEvents, sent, whole
from guided.server.openai.responses_request import InputTokensRequest, ResponsesRequest
from guided.server.openai.streaming import all_begun
from guided.server.openai.warnings import header_of
from guided.server.routes.openai import Prepared, prepared
from guided.server.server import Server, stream_response, unless_gone

__all__ = ["add"]

_Asked = TypeVar("_Asked", bound=InputTokensRequest)
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
        def read(body: Any) -> Prepared:
            return _read(server, InputTokensRequest, body)[1]

        [part] = (await server.read(request, read)).parts
        ids = await server.encode(request, part.prompt)
        return {"object": "response.input_tokens", "input_tokens": len(ids)}

    @app.get("/v1/responses/{response_id}")
    @app.delete("/v1/responses/{response_id}")
    def stored(response_id: str) -> Response:
        raise RequestError("nothing is stored here", param="response_id", code="response_not_found", status=404)


def _read(server: Server, kind: type[_Asked], body: Any) -> tuple[_Asked, Prepared]:
    """Parse a request, and build the engine's requests."""
    asked = read_request(kind, body)
    server.check_model(asked.model)
    chat = asked.chat()
    with asked.by_its_names():
        return asked, prepared(server, chat, own_tools=False)


async def _answer(server: Server, request: Request) -> Response:
    """A response, whole or as a stream."""
    asked, found = await server.read(request, partial(_read, server, ResponsesRequest))
    with asked.by_its_names():
        request.state.param, request_context_of(request).kind = (
            asked.param(found.param),
            asked.param(found.text.param) or "",
        )
        [stream] = server.submit(request, found.parts, asked.priority, rid=asked.rid, streams=asked.stream)
        answer = Answer(True, server.settings.model_name, server.engine.vocabulary, asked.top)
        await unless_gone(request, all_begun([stream]))
        notices = found.notices([stream])
        told = [each | {"param": asked.param(each["param"])} for each in notices]
        events = ResponseEvents(answer, asked.told() | ({"warnings": told} if told else {}))
        headers = header_of(told)
        if not asked.stream:
            return JSONResponse(await unless_gone(request, whole(events, stream, found.new_reading)), headers=headers)
    return stream_response(sent(events, stream, found.new_reading, server.settings.keep_alive), headers)
