"""The inspector's page at `/`, and its files below `/page/`. They are read at startup, so requests open no files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response

from guided.server.http.errors import RequestError
from guided.server.server import Server

__all__ = ["add"]

_FOLDER: Final = Path(__file__).parent.parent / "page"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    headers: dict[str, str]


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""
    files = {path.name: _read(path) for path in _FOLDER.iterdir() if path.suffix in _TYPES}

    def answer(request: Request, name: str) -> Response:
        file = files.get(name)
        if file is None:
            raise RequestError("the page has no such file", status=404)
        if file.headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=file.headers)
        return Response(file.data, headers=file.headers)

    @app.get("/", include_in_schema=False)
    def index(request: Request) -> Response:
        return answer(request, "index.html")

    @app.get("/page/{name}", include_in_schema=False)
    def page_file(request: Request, name: str) -> Response:
        return answer(request, name)


def _read(path: Path) -> _File:
    data = path.read_bytes()
    etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    return _File(data, {**_HEADERS, "Content-Type": _TYPES[path.suffix], "ETag": etag})
