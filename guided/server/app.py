"""The application of a server. In: an engine and its settings. Out: an ASGI application.

| route | what |
|---|---|
| `/v1/models`, `/v1/completions`, `/v1/chat/completions`, `/v1/responses` | OpenAI's |
| `/tokenize`, `/detokenize` | text to token ids and back |
| `/openapi.json` | what all of them take and give |
| `/health`, `/ready`, `/ping`, `/version` | for who runs it |

The engine's thread runs while the application does (`lifespan`).
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from guided.engine import Engine
from guided.errors import GuidedError
from guided.server.errors import RequestError, body_of, status_of
from guided.server.openapi import add_document
from guided.server.routes import openai, operations, responses, tokens
from guided.server.server import Server
from guided.server.settings import Settings

__all__ = ["create_app"]


def create_app(engine: Engine, settings: Settings | None = None) -> FastAPI:
    """The application. See the head."""
    settings = settings or Settings()
    server = Server(engine, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with server.thread:
            yield

    app = FastAPI(title="guided", version=version("guided-decoding"), lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.server = server
    _add_errors(app, settings)
    _add_keys(app, settings)
    for routes in (openai, responses, tokens, operations):
        routes.add(app, server)
    add_document(app, keys=bool(settings.api_keys))
    return app


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
    for kind in (RequestError, GuidedError, Exception):
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
