"""Servers for tests: an application that is called without a network, and a server on a socket. Both run on a thread of
this process, so a test can inspect their engine.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import httpx
import uvicorn

from guided.engine import Engine
from guided.server.app import create_app
from guided.server.http.connections import Connection
from guided.server.server import Server
from guided.server.settings import Settings
from tests.server_support import small_engine

PATIENCE = 60.0  # seconds, on a busy machine


@asynccontextmanager
async def served(engine=None, **settings) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """A running application, and an HTTP client for it."""
    app = create_app(engine or small_engine(), Settings(**settings))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://t", timeout=60) as http:
            yield app.state.server, http


@dataclass
class Listening:
    """A server at a socket: its parts, its port, and its event loop."""

    server: Server
    engine: Engine
    port: int
    loop: asyncio.AbstractEventLoop
    http: uvicorn.Server

    @property
    def is_idle(self) -> bool:
        """Whether nothing of any request is left in the engine, on the loop, or among the connections."""
        state = self.http.server_state
        return is_idle(self.server) and not (state.tasks or state.connections)

    def tasks(self) -> int:
        """The number of tasks of the loop."""
        return len(asyncio.all_tasks(self.loop))


@contextmanager
def listening_at(engine=None, *, uvicorn_options=None, **settings) -> Iterator[Listening]:
    """A running server, until the block ends."""
    engine = engine or small_engine()
    app = create_app(engine, Settings(**settings))
    options = {"http": Connection, "h11_max_incomplete_event_size": 64 << 10, "timeout_graceful_shutdown": 5}
    options |= {"log_level": "critical", "access_log": False, **(uvicorn_options or {})}
    http, loops = uvicorn.Server(uvicorn.Config(app, **options)), list[asyncio.AbstractEventLoop]()

    async def serve(sockets: list[socket.socket]) -> None:
        loops.append(asyncio.get_running_loop())
        await http.serve(sockets)

    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)  # so that a slow reader has an effect soon
        thread = threading.Thread(target=lambda: asyncio.run(serve([listener])), daemon=True)
        thread.start()
        try:
            wait_until(lambda: http.started)
            yield Listening(app.state.server, engine, listener.getsockname()[1], loops[0], http)
        finally:
            http.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@contextmanager
def listening(engine=None, **options) -> Iterator[tuple[Server, str]]:
    """The same: the server and its address."""
    with listening_at(engine, **options) as at:
        yield at.server, f"http://127.0.0.1:{at.port}"


def raw_request(path: str, body: object) -> bytes:
    """The bytes of a request. The connection closes after its answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def read_to_end(client: socket.socket) -> bytes:
    """All data until the connection closes. One `recv` may return any part of it."""
    return b"".join(iter(lambda: client.recv(4096), b""))


def is_idle(server: Server) -> bool:
    """Whether nothing of any request is left in the engine."""
    engine = server.engine
    is_idle = not engine.scheduler and not engine.driver._callbacks
    return is_idle and not server.thread.request_count and not server.open_requests


async def becomes_idle(server: Server) -> bool:
    """Whether the engine has no part of any request left, after waiting for it."""
    await until(lambda: is_idle(server))
    return True


async def until(true: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not become true"
        await asyncio.sleep(0.005)


def wait_until(true: Callable[[], object], seconds: float = PATIENCE, otherwise: str = "it is not so") -> None:
    """Wait for the effect of another thread."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, otherwise
        time.sleep(0.005)
