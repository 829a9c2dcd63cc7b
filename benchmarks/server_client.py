"""A cheap HTTP client, and servers as processes, for programs that put load on a server.

In: a port and a body. Out: `Reply`: the status, the body, and the time of each piece. It speaks HTTP/1.1 over asyncio's
streams with a connection for each request. So it takes little of the CPU that it shares with the server. It can also do
what polite clients do not: read slowly, disconnect early, send malformed HTTP.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import psutil

__all__ = ["Reply", "Served", "ask", "free_port", "other_server", "served"]

_PATIENCE: Final = 300.0  # seconds that a model may take to load


@dataclass(slots=True)
class Reply:
    """The reply of a server.

    Attributes:
        status: the HTTP status; 0: the connection ended before there was one.
        headers: their names in lower case.
        body: without the framing of chunks.
        times: when each piece of the body arrived, in seconds since the request was sent.
        seconds: from sending to the end.
        whole: whether the body ended as HTTP requires; False if the client disconnected.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    times: list[float] = field(default_factory=list)
    seconds: float = 0.0
    whole: bool = False

    def json(self) -> Any:
        """The body of an answer that is not a stream."""
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """The data of the events of a stream, without `[DONE]`.

        Raises:
            ValueError: the stream does not end with `[DONE]`, or has data that is not JSON.
        """
        lines = [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")]
        if not lines or lines[-1] != "[DONE]":
            raise ValueError("a stream without [DONE]")
        return [json.loads(line) for line in lines[:-1]]


async def ask(
    port: int,
    path: str,
    body: dict[str, Any] | bytes,
    *,
    pause: float = 0.0,
    leave_after: int | None = None,
    wake_at: int = 1,
) -> Reply:
    """Send a request, and read the answer.

    Args:
        port: a port of this machine.
        path: the path of the route.
        body: the body of the request.
        pause: seconds before each read of the body, for a slow reader.
        leave_after: the number of pieces after which the connection is closed; None: it is read to its end.
        wake_at: the number of bytes that must arrive before the system wakes the client, unless the connection
            ends.
    """
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply, begin = Reply(), time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wake_at)
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Connection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        reply.status = int(lines[0].split(" ")[1])
        reply.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        pieces = list[bytes]()
        async for piece in _pieces(reader, reply.headers):
            pieces.append(piece)
            reply.times.append(time.perf_counter() - begin)
            if len(pieces) == leave_after:
                writer.transport.abort()
                return reply
            if pause:
                await asyncio.sleep(pause)
        reply.body, reply.whole = b"".join(pieces), True
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # reported by `whole`
    finally:
        reply.seconds = time.perf_counter() - begin
        writer.close()
    return reply


async def _pieces(reader: asyncio.StreamReader, headers: dict[str, str]) -> Any:
    """The pieces of a body, to its end."""
    if headers.get("transfer-encoding") != "chunked":
        yield await reader.readexactly(int(headers.get("content-length", "0")))
        return
    while size := int(await reader.readline() or b"x", 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)


@dataclass(slots=True)
class Served:
    """A running server.

    Attributes:
        process: its process.
        port: the port on which it listens.
        name: its name in reports.
        log: the last lines that it wrote to standard error while it ran.
    """

    process: subprocess.Popen[str]
    port: int
    name: str
    log: deque[str] = field(default_factory=lambda: deque(maxlen=10_000))

    def memory(self) -> int:
        """Resident bytes."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def stop(self) -> int:
        """End the server, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def served(model: str, *options: str) -> Iterator[Served]:
    """Run `guided serve` until the block ends."""
    command = [sys.executable, "-m", "guided", "serve", model, "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            server = Served(process, _port_of(process), "guided")
            threading.Thread(target=server.log.extend, args=(process.stderr,), daemon=True).start()
            yield server
        finally:
            process.kill()


def _port_of(process: subprocess.Popen[str]) -> int:
    assert process.stderr is not None
    log = list[str]()
    for line in process.stderr:
        log.append(line)
        if match := re.search(r" at http://[^ /]*:(\d+)/v1", line):
            return int(match[1])
    raise RuntimeError(f"the server ended with {process.wait()}: {''.join(log)}")


@contextmanager
def other_server(command: Sequence[str], port: int, name: str) -> Iterator[Served]:
    """Run another server, started by a command, until the block ends."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            end = time.monotonic() + _PATIENCE
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{name} does not listen at port {port}")
                time.sleep(0.2)
            yield Served(process, port, name)
        finally:
            process.terminate()
            process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
