"""The ASGI application of a server. In: an engine and its settings. Out: the application.

| route | what |
|---|---|
| `/v1/models`, `/v1/completions`, `/v1/chat/completions`, `/v1/responses` | OpenAI's API |
| `/v1/messages` | Anthropic's API |
| `/tokenize`, `/detokenize`, `/tokenizer_info` | text to token ids and back; the names of special tokens |
| `/openapi.json` | describes the requests and answers of the routes |
| `/v1/grammars`, and below it `check`, `explain`, `sample`, `step` | what a specification allows, and why |
| `/` | the inspector, a page for experiments and debugging |
| `/stream` | the tokens of a completion, one by one |
| `/health`, `/ready`, `/ping`, `/version`, `/metrics`, `/abort_request` | for operators |

Each request first passes the middleware (access_middleware.py), which checks its API key and the server's capacity.

The engine's thread runs as long as the application (`lifespan`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from guided.engine import Engine
from guided.errors import GuidedError
from guided.server.http.access_middleware import AccessMiddleware
from guided.server.http.errors import RequestError, make_error_body
from guided.server.http.openapi import add_document
from guided.server.http.request_context import get_request_context
from guided.server.http.tracing import RequestTracer
from guided.server.routes import demonstration, grammars, messages, openai, operations, page, responses, tokens
from guided.server.server import Server
from guided.server.settings import Settings
from guided.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["create_app"]


def create_app(
    engine: Engine, settings: Settings | None = None, *, tracer_provider: TracerProvider | None = None
) -> FastAPI:
    """See the module docstring.

    Args:
        engine: the engine with its model.
        settings: the operator's settings.
        tracer_provider: receives the spans of requests (tracing.py); None: requests are not traced. The caller shuts
            the provider down.

    Raises:
        GuidedError: the settings do not fit the model. ModuleNotFoundError: tracing needs OpenTelemetry.
    """
    settings = settings or Settings()
    tracer = None if tracer_provider is None else RequestTracer(tracer_provider, settings.model_name)
    server = Server(engine, settings, tracer)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with server.thread:
            yield

    app = FastAPI(title="guided", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.server = server
    _add_error_handlers(app, server)
    app.add_middleware(AccessMiddleware, server=server)
    if settings.allowed_origins:  # wraps the access middleware, so that a page can also read its errors
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["X-Request-Id", "Request-Id", "Retry-After", "Warning"],
        )
    for routes in (openai, responses, messages, tokens, grammars, demonstration, operations, page):
        routes.add(app, server)
    add_document(app, keys=bool(settings.api_keys))
    return app


def _find_param(request: Request, error: Exception) -> str | None:
    """The request field that contains the specification; None if the error was raised while the prompt was read."""
    for stream in get_request_context(request).streams:
        is_stream_error = stream.error is not None and stream.error in (error, error.__cause__)
        if is_stream_error and stream.preparation is not None and stream.preparation.stage == "prompt":
            return None
    return getattr(request.state, "param", None)


def _add_error_handlers(app: FastAPI, server: Server) -> None:
    async def answer(request: Request, error: Exception) -> JSONResponse:
        context = get_request_context(request)
        context.error_code = make_error_body(error)["error"]["code"]
        return server.make_error_response(context, error, _find_param(request, error))

    async def answer_http_exception(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        request_error = RequestError(f"{request.method} {request.url.path}: {error.detail}", status=error.status_code)
        response = server.make_error_response(get_request_context(request), request_error)
        response.headers.update(error.headers or {})
        return response

    app.add_exception_handler(HTTPException, answer_http_exception)
    for kind in (RequestError, GuidedError, MemoryError):  # any other exception is a bug: access_middleware.py
        app.add_exception_handler(kind, answer)
