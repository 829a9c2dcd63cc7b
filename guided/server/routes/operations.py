"""`/health`, `/ready`, `/ping`, `/version`, `/metrics`, `/abort_request`: routes for operators."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import ConfigDict

from guided.server.http.errors import RequestError
from guided.server.http.openapi import takes
from guided.server.http.request_context import get_request_context
from guided.server.openai.reading import StrictModel, read_request
from guided.server.server import Server

__all__ = ["AbortRequest", "add"]


class AbortRequest(StrictModel):
    """A request to /abort_request, as in SGLang. It contains exactly one of the two fields."""

    model_config = ConfigDict(strict=False)

    rid: str | None = None
    abort_all: bool = False


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""

    @app.get("/health")
    @takes(answer={"status": "string", "step": "integer", "waiting": "integer"})
    def health() -> JSONResponse:
        health_fields = server.health()
        return JSONResponse(health_fields, 503 if health_fields["status"] == "dead" else 200)

    @app.get("/ping")
    def ping() -> Response:
        return Response(status_code=200 if server.thread.is_alive else 503)

    @app.get("/ready")
    def ready() -> Response:
        return Response(status_code=200 if server.thread.is_alive and not server.thread.is_draining else 503)

    @app.get("/version")
    @takes(answer={"version": "string"})
    def report_version() -> dict[str, str]:
        return {"version": app.version}

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(server.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.post("/abort_request")
    @takes(AbortRequest, answer={"aborted": "integer"})
    async def abort(request: Request) -> dict[str, Any]:
        body = await server.read(request, partial(read_request, AbortRequest))
        if (body.rid is None) is not body.abort_all:
            raise RequestError("give either rid or abort_all=true", param="rid")
        return {"aborted": server.abort(get_request_context(request).key_number, body.rid)}
