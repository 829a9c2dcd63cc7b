"""The routes of a server. In: an engine and its settings. Out: an ASGI application.

| route | what |
|---|---|
| `/v1/models`, `/v1/completions`, `/v1/chat/completions` | OpenAI's |
| `/tokenize`, `/detokenize` | text to token ids and back |
| `/health`, `/ready`, `/ping`, `/version` | for who runs it |

The engine's thread runs while the application does (`lifespan`).
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException

from guided.engine import Engine
from guided.server.answers import Answer
from guided.server.engine_thread import EngineThread
from guided.server.errors import RequestError, body_of, status_of
from guided.server.requests import ChatRequest, CompletionRequest, StreamOptions, read_request
from guided.server.settings import Settings
from guided.server.streaming import collected, server_sent

__all__ = ["create_app"]

_SHORT_COMPLETION = 16  # tokens, as in OpenAI's interface
_Found = TypeVar("_Found")


class _Server:
    """What the routes share."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine, self.settings, self.thread = engine, settings, EngineThread(engine)
        self.started = int(time.time())

    async def answer(self, request: Request, kind: type[ChatRequest] | type[CompletionRequest]) -> Response:
        """An answer of a model, whole or as a stream."""
        asked = read_request(kind, await self.json(request))
        assert isinstance(asked, ChatRequest | CompletionRequest)
        if asked.model not in (None, self.settings.model_name):
            message = f"there is no model {asked.model!r}; this server has {self.settings.model_name!r}"
            raise RequestError(message, param="model", code="model_not_found", status=404)
        text = asked.asked(allow_special_tokens=self.settings.allow_special_tokens)
        is_chat = isinstance(asked, ChatRequest)
        parts = asked.requests(text, self.engine.model.config.context if is_chat else _SHORT_COMPLETION)
        if self.thread.requests + len(parts) > self.settings.max_queued_requests:
            message = f"{self.settings.max_queued_requests} requests wait already"
            raise RequestError(message, code="overloaded", status=503)
        request.state.param = text.param or None
        answer = Answer(is_chat, self.settings.model_name, self.engine.vocabulary, asked.top)
        streams = [self.thread.submit(part, asked.priority) for part in parts]
        headers = {"Warning": f'299 - "{text.warnings[0]}"'} if text.warnings else {}
        if not asked.stream:
            results = await _unless_gone(request, collected(streams))
            return JSONResponse(answer.body(results), headers=headers)
        for stream in streams:
            await stream.begun()
        options = asked.stream_options or StreamOptions()
        events = server_sent(answer, streams, options, samples=asked.n, keep_alive=self.settings.keep_alive)
        return StreamingResponse(
            events, media_type="text/event-stream", headers={"Cache-Control": "no-cache", **headers}
        )

    async def json(self, request: Request) -> Any:
        """The body of a request."""
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self.settings.max_body:
                raise RequestError(f"the body has more than {self.settings.max_body} bytes", status=413)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"the body is not JSON: {error}") from None

    def health(self) -> dict[str, Any]:
        """What the engine is doing."""
        scheduler = self.engine.scheduler
        prefilling = scheduler.prefilling
        return {
            "status": "ok" if self.thread.alive else "dead",
            "step": self.thread.steps,
            "waiting": scheduler.waiting,
            "prefilling": prefilling,
            "active": scheduler.running - prefilling,
            "compiling": scheduler.compiling,
            "pending_submit": self.thread.pending,
        }


async def _unless_gone(request: Request, work: Awaitable[_Found]) -> _Found:
    """Do something unless the client goes away first; then it is cancelled."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait([doing, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise RequestError("the client has gone away", status=499)
        return doing.result()
    finally:
        doing.cancel()
        leaving.cancel()


def create_app(engine: Engine, settings: Settings | None = None) -> FastAPI:
    """The application. See the head."""
    settings = settings or Settings()
    server = _Server(engine, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with server.thread:
            yield

    app = FastAPI(title="guided", version=version("guided-decoding"), lifespan=lifespan)
    app.state.server = server
    _add_errors(app, settings)
    _add_keys(app, settings)

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        return await server.answer(request, ChatRequest)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        return await server.answer(request, CompletionRequest)

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        context = engine.model.config.context
        model = {"id": settings.model_name, "object": "model", "created": server.started, "owned_by": "guided"}
        return {"object": "list", "data": [model | {"max_model_len": context}]}

    _add_tokens(app, server)

    @app.get("/health")
    def health() -> JSONResponse:
        found = server.health()
        return JSONResponse(found, 200 if found["status"] == "ok" else 503)

    @app.get("/ready")
    @app.get("/ping")
    def ready() -> Response:
        return Response(status_code=200 if server.thread.alive else 503)

    @app.get("/version")
    def tell_version() -> dict[str, str]:
        return {"version": app.version}

    return app


def _add_tokens(app: FastAPI, server: _Server) -> None:
    """Text to token ids and back, as vLLM has it."""

    @app.post("/tokenize")
    async def tokenize(request: Request) -> dict[str, Any]:
        body = await server.json(request)
        prompt = body.get("messages") if isinstance(body, dict) and "messages" in body else None
        if prompt is None and not (isinstance(body, dict) and isinstance(body.get("prompt"), str)):
            raise RequestError("give a prompt, or messages", param="prompt")
        ids = await asyncio.to_thread(server.engine.encode_prompt, prompt or body["prompt"], raw=prompt is None)
        return {"tokens": ids, "count": len(ids), "max_model_len": server.engine.model.config.context}

    @app.post("/detokenize")
    async def detokenize(request: Request) -> dict[str, str]:
        body = await server.json(request)
        ids, size = (body.get("tokens") if isinstance(body, dict) else None), server.engine.vocabulary.size
        if not (isinstance(ids, list) and all(isinstance(id, int) and 0 <= id < size for id in ids)):
            raise RequestError(f"tokens is a list of ids from 0 to {size - 1}", param="tokens")
        return {"prompt": server.engine.vocabulary.decode(ids).decode("utf-8", "replace")}


def _add_errors(app: FastAPI, settings: Settings) -> None:
    async def answer(request: Request, error: Exception) -> JSONResponse:
        status = status_of(error)
        headers = {"Retry-After": str(settings.retry_after)} if status == 503 else {}
        return JSONResponse(body_of(error, getattr(request.state, "param", None)), status, headers=headers)

    async def no_route(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        told = RequestError(f"{request.method} {request.url.path}: {error.detail}", status=error.status_code)
        return JSONResponse(body_of(told), error.status_code, headers=error.headers)

    app.add_exception_handler(HTTPException, no_route)
    for kind in (RequestError, ValueError, TypeError, Exception):
        app.add_exception_handler(kind, answer)


def _add_keys(app: FastAPI, settings: Settings) -> None:
    """Requests for what begins with /v1 need one of the keys; each is compared in constant time."""
    keys = [key.encode() for key in settings.api_keys]

    @app.middleware("http")
    async def check(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        guarded = keys and request.url.path.startswith("/v1") and request.method != "OPTIONS"
        given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        if guarded and not any([hmac.compare_digest(given, key) for key in keys]):  # noqa: C419 (all are compared)
            return JSONResponse(body_of(RequestError("a key is needed", code="invalid_api_key", status=401)), 401)
        return await go_on(request)
