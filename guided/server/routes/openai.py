"""`/v1/models`, `/v1/completions`, `/v1/chat/completions`: OpenAI's API."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from guided.engine.request import Request as EngineRequest
from guided.server.engine_thread import Stream
from guided.server.http.errors import RequestError
from guided.server.http.openapi import takes
from guided.server.http.request_context import get_request_context
from guided.server.openai.answers import Answer
from guided.server.openai.completion_request import CompletionRequest
from guided.server.openai.conversations import build_chat_request
from guided.server.openai.deltas import SampleReader
from guided.server.openai.echo import EchoedPrompt, check_scores
from guided.server.openai.requests import ChatRequest, StreamOptions, read_request
from guided.server.openai.streaming import ReaderMaker, collect_readers, stream_chunks, wait_until_begun
from guided.server.openai.structured import StructuredOutput
from guided.server.openai.warnings import list_warnings, make_warning_header
from guided.server.server import Server, run_while_connected, stream_response

__all__ = ["PreparedRequest", "add", "prepare_request"]

_COMPLETION_TOKENS = 16  # the default of max_tokens, as in OpenAI's API

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
        return {"object": "list", "data": [_describe_model(server)]}

    @app.get("/v1/models/{name:path}")
    @takes(answer={"id": "string", "object": "string", "created": "integer", "owned_by": "string"})
    def model(name: str) -> dict[str, Any]:
        server.check_model(name)
        return _describe_model(server)


def _describe_model(server: Server) -> dict[str, Any]:
    name, context = server.settings.model_name, server.engine.context
    return {"id": name, "object": "model", "created": server.start_time, "owned_by": "guided", "max_model_len": context}


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """The engine requests for an HTTP request, and how to read the answer.

    Attributes:
        engine_requests: one engine request for each prompt.
        structured_output: the constraint on the text.
        param: the field with the specification, for its errors; None if there is none, or if the errors already name
            it.
        make_reader: makes the `SampleReader` for a sample.
        echoes: the echo of each prompt; empty: the text does not repeat the prompts.
    """

    engine_requests: Sequence[EngineRequest]
    structured_output: StructuredOutput
    param: str | None = None
    make_reader: ReaderMaker = SampleReader
    echoes: Sequence[EchoedPrompt] = ()

    @property
    def reader_makers(self) -> Sequence[ReaderMaker]:
        """Functions that make the `SampleReader`s, one function per prompt."""
        if not self.echoes:
            return [self.make_reader] * len(self.engine_requests)
        return [partial(SampleReader, echo=echo) for echo in self.echoes]

    def warnings(self, streams: Sequence[Stream]) -> list[dict[str, Any]]:
        """The warnings in the answer, once the streams have begun."""
        return list_warnings(self.structured_output, self.param or "", streams)


def prepare_request(
    server: Server, body: ChatRequest | CompletionRequest, *, allow_server_tools: bool = True
) -> PreparedRequest:
    """Build the engine requests. Requests to other APIs, such as /v1/responses, arrive as chat completions.

    Args:
        allow_server_tools: whether the answer may call the server's own tools; the route must then report the results.

    Raises:
        RequestError, GuidedError: the request is refused.
    """
    bias_count, token_count = len(body.logit_bias or ()), server.engine.vocabulary.size
    if bias_count > token_count:  # refused before each entry is checked
        message = f"logit_bias has {bias_count} entries, but there are {token_count} tokens"
        raise RequestError(message, param="logit_bias")
    structured_output = body.structured_output(allow_special_tokens=server.settings.allow_special_tokens)
    if isinstance(body, ChatRequest):
        settings = server.settings if allow_server_tools else replace(server.settings, tools=())
        engine_request, reading_options, warnings = build_chat_request(body, structured_output, server.engine, settings)
        structured_output = structured_output.add_warnings(warnings)
        has_tools = reading_options.make_call_reader is not None  # errors of tools have their own locations
        param = None if has_tools else structured_output.param or None
        return PreparedRequest([engine_request], structured_output, param, partial(SampleReader, reading_options))
    if structured_output.constraint is not None:
        warnings = body.stop_warnings(f"{structured_output.param} determines this answer", allows_free_text=False)
        structured_output = structured_output.add_warnings(warnings)
    return PreparedRequest(
        body.requests(structured_output, _COMPLETION_TOKENS), structured_output, structured_output.param or None
    )


async def _add_echoes(
    server: Server, request: Request, body: CompletionRequest, prepared: PreparedRequest
) -> PreparedRequest:
    """Replace the prompts by token ids, and add the echoes. Raises the errors of `Server.encode` and `check_scores`."""
    server.admission.check_outputs(body.n * len(prepared.engine_requests))
    prompts = [engine_request.prompt for engine_request in prepared.engine_requests]
    prompt_ids = [await server.encode(request, prompt, raw=True) for prompt in prompts]
    if body.scores_prompts:
        check_scores(list(map(len, prompt_ids)), body.n, body.logprobs or 0)
    vocabulary = server.engine.vocabulary
    echoes = [EchoedPrompt.from_tokens(*pair, vocabulary) for pair in zip(prompts, prompt_ids, strict=True)]
    pairs = zip(prepared.engine_requests, prompt_ids, strict=True)
    engine_requests = [replace(engine_request, prompt=ids) for engine_request, ids in pairs]
    return replace(prepared, engine_requests=engine_requests, echoes=echoes)


async def _answer(server: Server, request: Request, kind: type[ChatRequest] | type[CompletionRequest]) -> Response:
    """Answer a request, as a whole or as a stream."""

    def read(value: Any) -> tuple[ChatRequest | CompletionRequest, PreparedRequest]:
        body = read_request(kind, value)
        server.check_model(body.model)
        return body, prepare_request(server, body)

    body, prepared = await server.read(request, read)
    if isinstance(body, CompletionRequest) and body.echo:
        prepared = await _add_echoes(server, request, body, prepared)
    request.state.param, get_request_context(request).constraint_field = (
        prepared.param,
        prepared.structured_output.param,
    )
    streams = server.submit(request, prepared.engine_requests, body.priority, rid=body.rid, is_streamed=body.stream)
    is_chat = isinstance(body, ChatRequest)
    answer = Answer(
        is_chat,
        server.settings.model_name,
        server.engine.vocabulary,
        body.top,
        has_token_ids=body.return_token_ids,
        has_fields=body.return_fields,
    )
    if not body.stream:
        readers = await run_while_connected(request, collect_readers(streams, prepared.reader_makers))
        warnings = prepared.warnings(streams)
        answer_body = await asyncio.to_thread(answer.body, readers)  # the fields of long answers take a while
        return JSONResponse(
            answer_body | ({"warnings": warnings} if warnings else {}), headers=make_warning_header(warnings)
        )
    await run_while_connected(request, wait_until_begun(streams))
    warnings = prepared.warnings(streams)
    options = body.stream_options or StreamOptions()
    keep_alive = server.settings.keep_alive
    events = stream_chunks(
        answer, streams, options, prepared.reader_makers, samples=body.n, keep_alive=keep_alive, warnings=warnings
    )
    return stream_response(events, make_warning_header(warnings))
