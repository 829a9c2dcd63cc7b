"""Middleware that decides which requests reach the application, and logs the outcome of each request.

    request -> id -> host, page (403) -> key (401) -> capacity (429, 503) -> the application -> X-Request-Id, log

Every POST and every path under /v1 makes the engine work, so it needs a key (if the server has keys) and capacity.
Exceptions: /abort_request, /v1/models and /tokenizer_info need a key but no capacity. Other GET requests (/health,
/ready, /ping, /version, /metrics, the page) and OPTIONS need neither: they show how busy the server is, but neither the
model's files nor the content of requests and answers. Keys are compared in constant time.

A web page from another site cannot make requests that need a key or capacity. A page whose owner may have pointed its
host name at this machine (DNS rebinding) cannot make any request (origins.py).

The body of a request is read only after the request is admitted. A body whose headers announce too many bytes, a
compression, or a charset other than UTF-8 is refused before it arrives (413, 415). An unexpected exception becomes a
500 with a general message. The log contains its class and location, but not its message, which may contain user text.
"""

from __future__ import annotations

import hmac
import logging
import traceback
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from guided.server.anthropic.errors import is_messages_route
from guided.server.http.body_limits import check_body_headers
from guided.server.http.errors import RequestError
from guided.server.http.openapi import needs_key
from guided.server.http.origins import check_host, check_origin
from guided.server.http.request_context import RequestContext, choose_request_id
from guided.server.http.tracing import TRACE_HEADERS
from guided.server.server import Server

__all__ = ["AccessMiddleware"]

_UNQUEUED_PATHS: Final = ("/abort_request", "/v1/models", "/tokenizer_info")
_log = logging.getLogger("guided.server")


class AccessMiddleware:
    """See the module docstring."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app, self._server = app, server
        self._keys = [key.encode() for key in server.settings.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        context = RequestContext(choose_request_id(headers.get("x-request-id")), scope["method"], path)
        if self._server.tracer is not None:
            context.server = scope.get("server")
            context.trace_headers = {name: headers[name] for name in TRACE_HEADERS if name in headers}
        scope.setdefault("state", {})["context"] = context
        id_headers = (b"x-request-id", *((b"request-id",) if is_messages_route(path) else ()))

        async def send_with_request_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                context.status = message["status"]
                headers_of_id = [(name, context.id.encode()) for name in id_headers]
                message = {**message, "headers": [*message["headers"], *headers_of_id]}
            await send(message)

        try:
            await self._admit_and_run(context, headers, scope, receive, send_with_request_id)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            _log.error("%s at %s:%s, request %s", type(error).__name__, frame.filename, frame.lineno, context.id)
            context.error_code = "internal_error"
            if not context.status:
                await self._server.make_error_response(context, error)(scope, receive, send_with_request_id)
        finally:
            self._server.finish(context)

    async def _admit_and_run(
        self, context: RequestContext, headers: Headers, scope: Scope, receive: Receive, send: Send
    ) -> None:
        is_protected = needs_key(context.method, context.path)
        admission, is_admitted = self._server.admission, False
        try:
            self._check_size(scope)
            check_host(headers, scope, self._server.settings)
            if is_protected:
                check_origin(headers, self._server.settings)
            if is_protected and self._keys:
                context.key_number = self._find_key_number(headers)
            if context.method == "POST":
                check_body_headers(headers, self._server.settings.max_body)
            if is_protected and context.path not in _UNQUEUED_PATHS:
                admission.enter(context.key_number)
                is_admitted = True
        except RequestError as error:
            context.error_code = error.code
            await self._server.make_error_response(context, error)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            if is_admitted:
                admission.leave(context.key_number)

    def _check_size(self, scope: Scope) -> None:
        """Raise RequestError if the headers are too long. The connection itself refuses headers that never end."""
        max_bytes = self._server.settings.max_header_bytes
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if size + sum(len(name) + len(value) for name, value in scope["headers"]) > max_bytes:
            raise RequestError(f"path and headers have more than {max_bytes} bytes")

    def _find_key_number(self, headers: Headers) -> int:
        """The number, from 1, of the server's key in the headers. Raises RequestError if there is none.

        The key is in `Authorization` (OpenAI's and newer Anthropic clients) or in `X-Api-Key` (Anthropic's API).
        """
        authorization = headers.get("authorization", "")
        scheme, _, credentials = authorization.partition(" ")
        bearer_key = credentials.strip() if scheme.lower() == "bearer" else authorization
        # Latin-1 restores the bytes that the client sent.
        sent_keys = [key.encode("latin-1") for key in (bearer_key, headers.get("x-api-key", "")) if key]
        # compares all keys, so that the time reveals nothing
        matches = [sum(hmac.compare_digest(sent_key, key) for sent_key in sent_keys) > 0 for key in self._keys]
        if not any(matches):
            message = "the API key is invalid" if sent_keys else "an API key is required"
            raise RequestError(message, code="invalid_api_key", status=401)
        return matches.index(True) + 1
