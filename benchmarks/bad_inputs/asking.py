"""Measures what one request costs a server, and how long other requests wait. In: a body, a meter.

A small model with random weights is served in this process, without a network. The body is sent twice. First it is sent
alone, until the server is idle again, to measure its CPU time and memory. Then it is sent beside other clients, which
repeatedly ask for ten tokens. Their wait is the slowest of their requests. `event loop` is the longest time in which
the event loop did not run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import perf_counter, process_time
from typing import Any, Final

import httpx

from benchmarks.bad_inputs.bounds import LIMITS
from benchmarks.bad_inputs.construct import Construct
from benchmarks.bad_inputs.meter import Meter, resident
from guided.server.app import create_app
from guided.server.settings import Settings
from tests.server_support import small_engine

__all__ = ["measure_request"]

_NEIGHBOUR: Final = {"prompt": "a", "max_tokens": 10, "ignore_eos": True}
_MAX_BODY: Final = Settings().max_body
_COSTLY: Final = 0.05  # other clients are measured if the request takes at least this many seconds
_PATIENCE: Final = 60.0
_PAUSE: Final = 0.05  # seconds between two requests of a client, so that the process is mostly idle without the body


def measure_request(construct: Construct, n: int, meter: Meter) -> None:
    """See the head. A body that is longer than the server accepts is skipped."""
    body = json.dumps(construct.build(n)).encode()
    if len(body) <= _MAX_BODY:
        asyncio.run(_measure(construct.kind, body, meter))


async def _measure(path: str, body: bytes, meter: Meter) -> None:
    app = create_app(small_engine(), Settings(compile_timeout=LIMITS.seconds))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=_PATIENCE) as http:
            for _ in range(3):
                await _neighbour(http)
            meter.begin("request")
            before, begin, cpu = resident(), perf_counter(), process_time()
            reply = await http.post(path, content=body)
            wall = perf_counter() - begin
            await _until_quiet()
            cost = process_time() - cpu
            meter.note("request", str(reply.status_code), cost, wall, resident("VmHWM") - before)
            if cost > _COSTLY:
                await _beside(http, path, body, meter)


async def _beside(http: httpx.AsyncClient, path: str, body: bytes, meter: Meter) -> None:
    meter.begin("neighbour")
    async with _watched(http) as (alone, _):
        await asyncio.sleep(0.3)
    async with _watched(http) as (waits, gaps):
        await http.post(path, content=body)
        await _until_quiet(busy=0.5)
    for name, seconds in (("neighbour", max(waits) - max(alone)), ("event loop", max(gaps))):
        meter.note(name, "", seconds, seconds, 0)


class _Moment:
    """A stopwatch of wall time, limited by the CPU time of this process, so that other programs on the machine do not
    count.
    """

    def __init__(self) -> None:
        self._wall, self._cpu = perf_counter(), process_time()

    def elapsed(self) -> float:
        """Seconds."""
        return min(perf_counter() - self._wall, process_time() - self._cpu)


@asynccontextmanager
async def _watched(http: httpx.AsyncClient) -> AsyncIterator[tuple[list[float], list[float]]]:
    """The seconds of the other clients' requests, and between two turns of the event loop."""
    waits, gaps = list[float](), list[float]()

    async def ask() -> None:
        while True:
            begin = _Moment()
            await _neighbour(http)
            waits.append(begin.passed())
            await asyncio.sleep(_PAUSE)

    async def tick() -> None:
        while True:
            begin = _Moment()
            await asyncio.sleep(0.002)
            gaps.append(begin.passed())

    tasks = [asyncio.create_task(ask()), asyncio.create_task(tick())]
    try:
        yield waits, gaps
        count = len(waits)
        while len(waits) == count:  # the pending request may be the slowest
            await asyncio.sleep(0.01)
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _neighbour(http: httpx.AsyncClient) -> Any:
    return (await http.post("/v1/completions", json=_NEIGHBOUR)).json()


async def _until_quiet(busy: float = 0.2, step: float = 0.05) -> None:
    """Wait until this process uses little CPU, so that work that continues after the answer is counted, too."""
    end = perf_counter() + _PATIENCE
    while perf_counter() < end:
        before, begin = process_time(), perf_counter()
        await asyncio.sleep(step)
        if process_time() - before < busy * (perf_counter() - begin):
            return
