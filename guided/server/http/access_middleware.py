"""The door of the application: who is it, may it come in, what became of it. In: ASGI calls. Out: ASGI calls.

    request -> id -> host, page (403) -> key (401) -> room (429, 503) -> the application -> X-Request-Id, log

What the engine works for needs a key, where there are keys, and room: each POST, and all that begins with /v1. GET of
anything else does not (/health, /ready, /ping, /version, /metrics, the page), and neither does OPTIONS: it tells how
busy the server is, and nothing that anybody asked or was answered. To stop a request (/abort_request) needs a key, but
no room. Keys are compared in constant time.

Pages of other sites may ask nothing that needs a key or room, and nothing at all under a name that they may have made
lead to this machine (origins.py).

Nothing of a request's body is read before it may come in. An exception that no route has foreseen is a 500 whose
message says nothing of it; the log tells its class and its place, but not its message: that may hold what others wrote.
"""

from __future__ import annotations

import hmac
import logging
import traceback
from typing import Final

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from guided.server.http.errors import RequestError, body_of, status_of
from guided.server.http.origins import check_host, check_origin
from guided.server.http.request_context import RequestContext, new_id
from guided.server.server import Server

__all__ = ["AccessMiddleware"]

_NEEDS_NO_ROOM: Final = ("/abort_request", "/v1/models")
_log = logging.getLogger("guided.server")


class AccessMiddleware:
    """See the head. Middleware of the application."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app, self._server = app, server
        self._keys = [key.encode() for key in server.settings.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        visit = RequestContext(new_id(headers.get("x-request-id")), scope["method"], path)
        scope.setdefault("state", {})["visit"] = visit

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                message = {**message, "headers": [*message["headers"], (b"x-request-id", visit.id.encode())]}
            await send(message)

        try:
            await self._let_in(visit, headers, scope, receive, sending)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            _log.error("%s at %s:%s, request %s", type(error).__name__, place.filename, place.lineno, visit.id)
            visit.ended = "internal_error"
            if not visit.status:
                await JSONResponse(body_of(error), status_of(error))(scope, receive, sending)
        finally:
            self._server.ended(visit)

    async def _let_in(
        self, visit: RequestContext, headers: Headers, scope: Scope, receive: Receive, send: Send
    ) -> None:
        works = visit.method != "OPTIONS" and (visit.method == "POST" or visit.path.startswith("/v1"))
        admission, enters = self._server.admission, False
        try:
            self._check_size(scope)
            check_host(headers, scope, self._server.settings)
            if works:
                check_origin(headers, self._server.settings)
            if works and self._keys:
                visit.key = self._key(headers.get("authorization", ""))
            if works and visit.path not in _NEEDS_NO_ROOM:
                admission.enter(visit.key)
                enters = True
        except RequestError as error:
            visit.ended = error.code
            await self._server.refusal(error)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            if enters:
                admission.leave(visit.key)

    def _check_size(self, scope: Scope) -> None:
        """Raises RequestError where the headers are too long; those that do not end are the connection's to refuse."""
        most = self._server.settings.max_header_bytes
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if size + sum(len(name) + len(value) for name, value in scope["headers"]) > most:
            raise RequestError(f"path and headers have more than {most} bytes")

    def _key(self, authorization: str) -> int:
        """The number of the key that is given, from 1."""
        scheme, _, rest = authorization.partition(" ")
        given = (rest.strip() if scheme.lower() == "bearer" else authorization).encode("latin-1")  # as it was sent
        equal = [hmac.compare_digest(given, key) for key in self._keys]  # all of them, so that the time tells nothing
        if not any(equal):
            message = "this key is not known" if given else "a key is needed"
            raise RequestError(message, code="invalid_api_key", status=401)
        return equal.index(True) + 1
