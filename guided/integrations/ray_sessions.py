"""Requests that begin alike go to one replica of Ray Serve. In: requests at a proxy. Out: the same with a session's id.

Problem. A prompt whose beginning an engine has read before is read faster there, and nowhere else. But a proxy of Ray
Serve chooses a replica before it reads the body: its routers see a request's head alone. (Ray's own
`PrefixCacheAffinityRouter` belongs to `ray.serve.llm`: it reads prompts that a deployment of that library hands on, and
needs the packages of `ray[llm]`.) What a proxy does know is the header `x-session-id`, by which `ConsistentHashRouter`
chooses; when that replica is full, it takes the next one.

So a client that has conversations may send the header itself. For all others, this middleware of the proxies reads the
body first, and gives requests without the header the hash of how their prompt begins: of a conversation everything up
to its first message of the user, so that its later turns have the same; of a text its first characters. It is put in
by an environment variable of the machines, where Ray starts its proxies:

    RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=guided.integrations.ray_sessions:middlewares

and needs `affinity` of `ray_serve.build`. Cost: the body is parsed once more (30 ms for 4 MiB), and waits in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, Final

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["SessionOfPrompt", "beginning_of", "middlewares"]

CHARACTERS: Final = 2048  # of a prompt that count
_MAX_BODY: Final = 4 << 20  # bytes; longer bodies have no session
_ROUTES: Final = ("/v1/chat/completions", "/v1/completions", "/v1/responses")


def middlewares() -> list[Middleware]:
    """What Ray Serve's proxies run around themselves."""
    return [Middleware(SessionOfPrompt)]


def beginning_of(body: Any) -> str:
    """How the prompt of a request begins, at most `CHARACTERS`; empty, where it has none."""
    if not isinstance(body, Mapping):
        return ""
    found: list[Any] = [body.get("instructions") or ""]
    prompt = next((body[name] for name in ("messages", "prompt", "input") if name in body), "")
    for part in prompt if isinstance(prompt, list) else [prompt or ""]:
        found.append(part)
        if isinstance(part, str) or (isinstance(part, Mapping) and part.get("role") == "user"):
            break
        if len(found) > CHARACTERS:  # token ids
            break
    text = "".join(part if isinstance(part, str) else json.dumps(part) for part in found)
    return text[:CHARACTERS]


class SessionOfPrompt:
    """A middleware of ASGI. See the head."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._header = os.environ.get("RAY_SERVE_SESSION_ID_HEADER_KEY", "x-session-id").lower().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the header and go on."""
        if scope["type"] == "http" and scope["path"].endswith(_ROUTES) and self._header not in dict(scope["headers"]):
            messages = await _body(receive)
            if session := _session(b"".join(message.get("body", b"") for message in messages)):
                scope = {**scope, "headers": [*scope["headers"], (self._header, session)]}
            receive = _again(messages, receive)
        await self._app(scope, receive, send)


async def _body(receive: Receive) -> list[Message]:
    """The messages up to the end of the body, or up to so many bytes."""
    messages, size = list[Message](), 0
    while size <= _MAX_BODY:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    return messages


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Receives these messages first."""

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return again


def _session(body: bytes) -> bytes:
    if len(body) > _MAX_BODY:
        return b""
    try:
        beginning = beginning_of(json.loads(body))
    except (ValueError, RecursionError):  # the replica says what is wrong with it
        return b""
    return hashlib.sha256(beginning.encode(errors="replace")).hexdigest().encode() if beginning else b""
