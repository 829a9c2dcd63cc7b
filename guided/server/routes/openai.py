"""`/v1/models`, `/v1/completions`, `/v1/chat/completions`: OpenAI's interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from guided.engine.request import Request as EngineRequest
from guided.server.engine_thread import Stream
from guided.server.http.openapi import takes
from guided.server.http.request_context import request_context_of
from guided.server.openai.answers import Answer
from guided.server.openai.conversations import conversation
from guided.server.openai.deltas import Reading
from guided.server.openai.requests import ChatRequest, CompletionRequest, StreamOptions, read_request
from guided.server.openai.streaming import NewReading, all_begun, collected, server_sent
from guided.server.openai.structured import Structured
from guided.server.openai.warnings import header_of, warnings_of
from guided.server.server import Server, stream_response, unless_gone

__all__ = ["Prepared", "add", "prepared"]

_SHORT_COMPLETION = 16  # tokens, as in OpenAI's interface

_ANSWER = {
    "id": "string",
    "object": "string",
    "created": "integer",
    "model": "string",
    "choices": "array",
    "usage": "object",
}


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""

    @app.post("/v1/chat/completions")
    @takes(ChatRequest, answer=_ANSWER, events=True)
    async def chat(request: Request) -> Response:
        return await _answer(server, request, ChatRequest)

    @app.post("/v1/completions")
    @takes(CompletionRequest, answer=_ANSWER, events=True)
    async def completions(request: Request) -> Response:
        return await _answer(server, request, CompletionRequest)

    @app.get("/v1/models")
    @takes(answer={"object": "string", "data": "array"})
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(server)]}

    @app.get("/v1/models/{name:path}")
    @takes(answer={"id": "string", "object": "string", "created": "integer", "owned_by": "string"})
    def model(name: str) -> dict[str, Any]:
        server.check_model(name)
        return _model(server)


def _model(server: Server) -> dict[str, Any]:
    name, context = server.settings.model_name, server.engine.model.config.context
    return {"id": name, "object": "model", "created": server.started, "owned_by": "guided", "max_model_len": context}


@dataclass(frozen=True, slots=True)
class Prepared:
    """The engine's requests for a request, and how to read the answer.

    Attributes:
        parts: one request of the engine for each prompt.
        text: the constraint on the text.
        param: the field of the specification, for its errors; None: there is none, or the errors name it themselves.
        new_reading: makes the reader of a sample.
    """

    parts: Sequence[EngineRequest]
    text: Structured
    param: str | None = None
    new_reading: NewReading = Reading

    def notices(self, streams: Sequence[Stream]) -> list[dict[str, Any]]:
        """The warnings in the answer, once the streams have begun."""
        return warnings_of(self.text, self.param or "", streams)


def prepared(server: Server, asked: ChatRequest | CompletionRequest, *, own_tools: bool = True) -> Prepared:
    """Build the engine's requests. Requests of /v1/responses arrive in the form of chat completions.

    Args:
        own_tools: whether the answer may call the server's own tools, which requires that the route reports results.

    Raises:
        RequestError, GuidedError: the request is refused.
    """
    text = asked.asked(allow_special_tokens=server.settings.allow_special_tokens)
    if isinstance(asked, ChatRequest):
        settings = server.settings if own_tools else replace(server.settings, tools=())
        part, how = conversation(asked, text, server.engine, settings)
        param = None if how.calls is not None else text.param or None  # errors of tools have their own locations
        return Prepared([part], text, param, partial(Reading, how))
    return Prepared(asked.requests(text, _SHORT_COMPLETION), text, text.param or None)


async def _answer(server: Server, request: Request, kind: type[ChatRequest] | type[CompletionRequest]) -> Response:
    """Answer a request, as a whole or as a stream."""

    def read(body: Any) -> tuple[ChatRequest | CompletionRequest, Prepared]:
        asked = read_request(kind, body)
        server.check_model(asked.model)
        return asked, prepared(server, asked)

    asked, found = await server.read(request, read)
    request.state.param, request_context_of(request).kind = found.param, found.text.param
    streams = server.submit(request, found.parts, asked.priority, rid=asked.rid, streams=asked.stream)
    is_chat = isinstance(asked, ChatRequest)
    answer = Answer(is_chat, server.settings.model_name, server.engine.vocabulary, asked.top, asked.return_token_ids)
    if not asked.stream:
        readings = await unless_gone(request, collected(streams, found.new_reading))
        told = found.notices(streams)
        return JSONResponse(answer.body(readings) | ({"warnings": told} if told else {}), headers=header_of(told))
    await unless_gone(request, all_begun(streams))
    told = found.notices(streams)
    options = asked.stream_options or StreamOptions()
    keep_alive = server.settings.keep_alive
    events = server_sent(
        answer, streams, options, found.new_reading, samples=asked.n, keep_alive=keep_alive, warnings=told
    )
    return stream_response(events, header_of(told))
