"""Servers for tests: an application that is asked without a network, and one that listens at a socket."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx
import uvicorn

from guided.server.app import create_app
from guided.server.server import Server
from guided.server.settings import Settings
from tests.server_support import small_engine


@asynccontextmanager
async def served(engine=None, **settings) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """An application that runs, and a client of HTTP for it."""
    app = create_app(engine or small_engine(), Settings(**settings))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://t", timeout=60) as http:
            yield app.state.server, http


@contextmanager
def listening(engine=None, *, uvicorn_options=None, **settings) -> Iterator[tuple[Server, str]]:
    """A server at a socket, on a thread with a loop of its own, and its address."""
    app = create_app(engine or small_engine(), Settings(**settings))
    options = {"http": "h11", "log_level": "critical", "access_log": False, "timeout_graceful_shutdown": 5}
    server = uvicorn.Server(uvicorn.Config(app, port=0, **options, **(uvicorn_options or {})))
    thread = threading.Thread(target=lambda: asyncio.run(server._serve()))  # without handlers of signals
    thread.start()
    try:
        for _ in range(1000):
            if server.started:
                break
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield app.state.server, f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def is_idle(server: Server) -> bool:
    """Whether nothing of any request is left in the engine."""
    engine = server.engine
    return not engine.scheduler and not engine.driver._takers and not server.thread.requests and not server.visits


async def becomes_idle(server: Server) -> bool:
    """Whether nothing of any request is left after at most some steps."""
    for _ in range(400):
        if is_idle(server):
            return True
        await asyncio.sleep(0.005)
    return False


async def until(true: Callable[[], object]) -> None:
    """Wait for something that becomes true within 5 seconds."""
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not become true")
