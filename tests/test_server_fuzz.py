"""Malformed requests over sockets: each is answered or its connection closed, none with 500. The server survives."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import secrets
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from tests.live_server import Listening, listening_at, raw_request, wait_until
from tests.server_fuzz import STATUSES, broken_http, broken_json
from tests.server_support import small_engine

TOGETHER = 8
PATIENCE = 60.0  # seconds for an answer, on a busy machine
PAUSE = 0.1  # seconds after which an incomplete request is abandoned
ASK = raw_request("/v1/completions", {"prompt": "a", "max_tokens": 8, "seed": 1, "regex": "[a-z]{8}"})


async def answer_of(port: int, data: bytes, *, ended: bool) -> bytes:
    """All data until the connection closes. `ended`: the request is complete, so an answer is required."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    try:
        writer.write(data)
        if not ended:
            try:
                async with asyncio.timeout(PAUSE):
                    answer = await reader.read(1 << 16)
            except TimeoutError:
                pass
            writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            while piece := await reader.read(1 << 16):
                answer += piece
    except OSError:  # the server closed it before it read everything, which is allowed
        assert not ended or answer, data[:200]
    finally:
        writer.close()
    return answer


def check(answer: bytes, data: bytes, *, ended: bool) -> int:
    """The status of a valid answer; 0: there is no answer, and none was required."""
    if not answer and not ended:
        return 0
    assert answer.startswith(b"HTTP/1.1 "), (answer[:300], data[:300])
    status = int(answer[9:12])
    assert status in STATUSES | {100}, (answer[:600], data[:600])
    body = answer.partition(b"\r\n\r\n")[2]
    if ended and status != 200:
        error = json.loads(body)["error"]
        assert error["message"] and error["type"], data[:300]
    if ended:
        assert b"internal_error" not in body, (body[-600:], data[:600])
    return status


async def storm(port: int, number: int, rng: random.Random) -> list[int]:
    """Some broken requests at a time, until all are sent. Returns their statuses."""
    left, statuses = iter(range(number)), list[int]()

    async def send() -> None:
        for _ in left:
            ended = rng.random() < 0.6
            data = raw_request(*broken_json(rng)) if ended else broken_http(rng)
            try:
                answer = await answer_of(port, data, ended=ended)
            except TimeoutError:
                raise AssertionError(f"no end within {PATIENCE} s: {data[:600]!r}") from None
            statuses.append(check(answer, data, ended=ended))

    async with asyncio.TaskGroup() as group:
        for _ in range(TOGETHER):
            group.create_task(send())
    return statuses


def normal(at: Listening) -> bytes:
    """The text of the answer to an ordinary request."""
    answer = asyncio.run(answer_of(at.port, ASK, ended=True))
    return json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["text"]


def resident() -> int:
    """The resident memory of this process, in which the server runs, in MiB; 0 if the system does not report it."""
    status = Path("/proc/self/statm")
    gc.collect()
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20 if status.exists() else 0


def run(number: int) -> None:
    seed = 0 if os.environ.get("CI") else int(os.environ.get("GUIDED_SEED") or secrets.randbits(32))
    print(f"GUIDED_SEED={seed}")
    rng = random.Random(seed)
    with listening_at(small_engine(context=200), keep_alive=1.0) as at:
        before = normal(at)
        wait_until(lambda: at.is_idle)
        tasks = at.tasks()
        statuses = asyncio.run(storm(at.port, number // 4, rng))
        warm = resident()
        statuses += asyncio.run(storm(at.port, number - number // 4, rng))
        assert len(statuses) == number and {200, 400} <= set(statuses), set(statuses)
        assert normal(at) == before
        wait_until(lambda: at.is_idle, otherwise="something is left of a request")
        wait_until(lambda: at.tasks() <= tasks)
        assert resident() - warm < 192  # a cached specification may take 128 MiB (`Limits.memory`)


WARNED = pytest.mark.filterwarnings("ignore::guided.errors.GuidedWarning")  # warnings about unknown keywords


@WARNED
def test_broken_requests_do_no_harm():
    run(300)


@WARNED
@pytest.mark.slow
def test_ten_thousand_broken_requests_do_no_harm():
    run(10_000)
