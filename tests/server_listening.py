"""A small server that listens at a port, on a thread of this process, so that a test can look into its engine."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from guided.engine import Engine
from guided.server.app import create_app
from guided.server.server import Server
from guided.server.settings import Settings


@dataclass
class Listening:
    """A server: its parts, its port, and the loop that it runs on."""

    server: Server
    engine: Engine
    port: int
    loop: asyncio.AbstractEventLoop
    http: uvicorn.Server

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left of any request: in the engine, on the loop, among the connections."""
        state = self.http.server_state
        return not (self.engine.scheduler or self.server.thread.requests or state.tasks or state.connections)

    def tasks(self) -> int:
        """How many tasks the loop has."""
        return len(asyncio.all_tasks(self.loop))


@contextmanager
def listening(engine: Engine, **settings: Any) -> Iterator[Listening]:
    """A server that answers, until the block ends."""
    app = create_app(engine, Settings(**settings))
    config = uvicorn.Config(app, log_level="critical", h11_max_incomplete_event_size=64 << 10)
    http, loops = uvicorn.Server(config), list[asyncio.AbstractEventLoop]()

    async def serve(sockets: list[socket.socket]) -> None:
        loops.append(asyncio.get_running_loop())
        await http.serve(sockets)

    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)  # a reader that stops is felt soon
        thread = threading.Thread(target=lambda: asyncio.run(serve([listener])), daemon=True)
        thread.start()
        try:
            assert until(lambda: http.started)
            yield Listening(app.state.server, engine, listener.getsockname()[1], loops[0], http)
        finally:
            http.should_exit = True
            thread.join(30)


def until(what: Callable[[], object], seconds: float = 30.0) -> bool:
    """Wait for something that another thread does; whether it came."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def raw_request(path: str, body: object) -> bytes:
    """The bytes of a request, after whose answer the connection closes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data
