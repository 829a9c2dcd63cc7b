"""`/health`, `/ready`, `/ping`, `/version`: for who runs the server."""

from __future__ import annotations

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from guided.server.openapi import takes
from guided.server.server import Server

__all__ = ["add"]


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""

    @app.get("/health")
    @takes(answer={"status": "string", "step": "integer", "waiting": "integer"})
    def health() -> JSONResponse:
        found = server.health()
        return JSONResponse(found, 200 if found["status"] == "ok" else 503)

    @app.get("/ready")
    @app.get("/ping")
    def ready() -> Response:
        return Response(status_code=200 if server.thread.alive else 503)

    @app.get("/version")
    @takes(answer={"version": "string"})
    def tell_version() -> dict[str, str]:
        return {"version": app.version}
