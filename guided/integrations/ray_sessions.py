"""Sends requests with the same prompt prefix to the same Ray Serve replica. In: requests at a proxy. Out: the same
requests with a session id.

Problem. An engine reads a prompt faster if it has read the prompt's beginning before. But a Ray Serve proxy chooses a
replica before it reads the body, so its routers see only a request's headers. (Ray's own `PrefixCacheAffinityRouter`
belongs to `ray.serve.llm`: it reads prompts that a deployment of that library passes on, and needs the packages of
`ray[llm]`.) `ConsistentHashRouter` chooses by the header `x-session-id`. If that replica is full, it takes the next
one.

A client with conversations can send this header itself. For other clients, this proxy middleware reads the body first
and adds the header if it is missing. Its value is a hash of the prompt's beginning. For a conversation, this is
everything up to and including the first user message, so all turns have the same hash. In any case, only the first
2,048 characters count. To enable the middleware, set an environment variable on the machines where Ray starts its
proxies:

    RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=guided.integrations.ray_sessions:middlewares

The application must be built with `ray_serve.build(..., affinity=True)`. Cost: the body is parsed twice (30 ms for
4 MiB) and buffered in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, Final

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["PromptSessionMiddleware", "beginning_of", "middlewares"]

MAX_HASHED_CHARACTERS: Final = 2048  # per prompt
_MAX_BODY_BYTES: Final = 4 << 20  # bytes; longer bodies have no session
_ROUTES: Final = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")


def middlewares() -> list[Middleware]:
    """The middlewares that Ray Serve's proxies install."""
    return [Middleware(PromptSessionMiddleware)]


def beginning_of(body: Any) -> str:
    """The beginning of a request's prompt, at most `MAX_HASHED_CHARACTERS` characters; empty if there is no prompt."""
    if not isinstance(body, Mapping):
        return ""
    parts: list[Any] = [body.get("instructions") or body.get("system") or ""]
    prompt = next((body[name] for name in ("messages", "prompt", "input") if name in body), "")
    for part in prompt if isinstance(prompt, list) else [prompt or ""]:
        parts.append(part)
        if isinstance(part, str) or (isinstance(part, Mapping) and part.get("role") == "user"):
            break
        if len(parts) > MAX_HASHED_CHARACTERS:  # token ids
            break
    text = "".join(part if isinstance(part, str) else json.dumps(part) for part in parts)
    return text[:MAX_HASHED_CHARACTERS]


class PromptSessionMiddleware:
    """An ASGI middleware; see the module docstring."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._header = os.environ.get("RAY_SERVE_SESSION_ID_HEADER_KEY", "x-session-id").lower().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the header and pass the request on."""
        if scope["type"] == "http" and scope["path"].endswith(_ROUTES) and self._header not in dict(scope["headers"]):
            messages = await _read_body(receive)
            if session_id := _make_session_id(b"".join(message.get("body", b"") for message in messages)):
                scope = {**scope, "headers": [*scope["headers"], (self._header, session_id)]}
            receive = _replay(messages, receive)
        await self._app(scope, receive, send)


async def _read_body(receive: Receive) -> list[Message]:
    """Receive messages up to the end of the body, or until there are more than `_MAX_BODY_BYTES` bytes."""
    messages, size = list[Message](), 0
    while size <= _MAX_BODY_BYTES:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    return messages


def _replay(messages: list[Message], receive: Receive) -> Receive:
    """A `receive` that returns these messages first."""

    async def replay() -> Message:
        return messages.pop(0) if messages else await receive()

    return replay


def _make_session_id(body: bytes) -> bytes:
    if len(body) > _MAX_BODY_BYTES:
        return b""
    try:
        beginning = beginning_of(json.loads(body))
    except (ValueError, RecursionError):  # the replica reports the error
        return b""
    return hashlib.sha256(beginning.encode(errors="replace")).hexdigest().encode() if beginning else b""
