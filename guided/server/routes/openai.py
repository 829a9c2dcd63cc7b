"""`/v1/models`, `/v1/completions`, `/v1/chat/completions`: OpenAI's interface."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from guided.server.answers import Answer
from guided.server.deltas import Reading
from guided.server.requests import ChatRequest, CompletionRequest, StreamOptions, read_request
from guided.server.server import Server, stream_response, unless_gone
from guided.server.streaming import collected, server_sent

__all__ = ["add"]

_SHORT_COMPLETION = 16  # tokens, as in OpenAI's interface


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        return await _answer(server, request, ChatRequest)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        return await _answer(server, request, CompletionRequest)

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        name, context = server.settings.model_name, server.engine.model.config.context
        model = {"id": name, "object": "model", "created": server.started, "owned_by": "guided"}
        return {"object": "list", "data": [model | {"max_model_len": context}]}


async def _answer(server: Server, request: Request, kind: type[ChatRequest] | type[CompletionRequest]) -> Response:
    """An answer of a model, whole or as a stream."""
    asked = read_request(kind, await server.json(request))
    assert isinstance(asked, ChatRequest | CompletionRequest)
    server.check_model(asked.model)
    text = asked.asked(allow_special_tokens=server.settings.allow_special_tokens)
    is_chat = isinstance(asked, ChatRequest)
    parts = asked.requests(text, server.engine.model.config.context if is_chat else _SHORT_COMPLETION)
    request.state.param = text.param or None
    streams = server.submit(request, parts, asked.priority)
    answer = Answer(is_chat, server.settings.model_name, server.engine.vocabulary, asked.top)
    headers = {"Warning": f'299 - "{text.warnings[0]}"'} if text.warnings else {}
    if not asked.stream:
        readings = await unless_gone(request, collected(streams, Reading))
        return JSONResponse(answer.body(readings), headers=headers)
    for stream in streams:
        await stream.begun()
    options = asked.stream_options or StreamOptions()
    keep_alive = server.settings.keep_alive
    events = server_sent(answer, streams, options, Reading, samples=asked.n, keep_alive=keep_alive)
    return stream_response(events, headers)
