"""Failures over sockets: disconnecting clients, aborted requests, a failing forward pass, a dead engine, the end of the
server. Every client is informed, and nothing is left in the engine.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from tests.live_server import is_idle, listening, wait_until  # noqa: E402

LONG = {"prompt": "a", "max_tokens": 300, "ignore_eos": True, "stream": True}


class Gate:
    """Lets the engine take a number of steps while something is running, and then waits until it is opened."""

    def __init__(self, engine) -> None:
        self._step, self._open, self.waits = engine.scheduler.step, threading.Semaphore(0), threading.Event()
        self.steps = 0
        engine.scheduler.step = self.step

    def step(self):
        if not self._open.acquire(blocking=False):
            self.waits.set()
            self._open.acquire()
        self.steps += 1
        return self._step()

    def let(self, steps: int) -> None:
        self.waits.clear()
        self._open.release(steps)


def events_of(lines: Iterator[str]) -> Iterator[dict]:
    for line in lines:
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


@contextlib.contextmanager
def begun(address: str):
    """A stream whose first event has arrived."""
    with httpx.stream("POST", f"{address}/v1/completions", json=LONG, timeout=30) as answer:
        assert answer.status_code == 200
        events = events_of(answer.iter_lines())
        first = next(events)
        assert "text" in first["choices"][0]
        yield events


@contextlib.contextmanager
def two_streams(server, gate: Gate, address: str):
    """Two streams with the ids 0 and 1, after 20 steps; and a list of what each has delivered at its end."""

    def read(number: int) -> list[dict]:
        headers = {"x-request-id": str(number)}
        with httpx.stream("POST", f"{address}/v1/completions", json=LONG, timeout=30, headers=headers) as answer:
            assert answer.status_code == 200
            return list(events_of(answer.iter_lines()))

    with ThreadPoolExecutor(2) as pool:
        told = [pool.submit(read, number) for number in range(2)]
        wait_until(lambda: [s.tasks[0].future.done() for s in list(server.thread.open_streams)] == [True, True])
        gate.let(20)
        assert gate.waits.wait(10)
        yield told


def test_a_stream_that_is_aborted_ends_with_an_error():
    with listening() as (server, address):
        gate = Gate(server.engine)
        with two_streams(server, gate, address) as (aborted, other):
            assert httpx.post(f"{address}/abort_request", json={"rid": "0"}).json() == {"aborted": 1}
            assert aborted.result(20)[-1]["error"]["code"] == "aborted"  # no step was needed to report it
            gate.let(10_000)
            assert other.result(20)[-1]["choices"][0]["finish_reason"] == "length"
        wait_until(lambda: is_idle(server))


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_frees_its_place_within_a_step(stream: bool):
    with listening() as (server, address):
        gate = Gate(server.engine)
        gate.let(20)
        port = int(address.rsplit(":", 1)[1])
        body = json.dumps({**LONG, "stream": stream}).encode()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            assert gate.waits.wait(10) and server.engine.scheduler.running_count == 1
        wait_until(lambda: not server.thread.request_count)
        steps = gate.steps
        gate.let(1)  # the step that was waiting
        wait_until(lambda: is_idle(server))
        assert gate.steps == steps + 1


def test_a_client_that_goes_away_while_its_specification_is_compiled(monkeypatch: pytest.MonkeyPatch):
    with listening() as (server, address):
        entered, leave = threading.Event(), threading.Event()
        made = server.thread.preparer._make_steppers

        def slow(*arguments):
            entered.set()
            assert leave.wait(20)
            return made(*arguments)

        monkeypatch.setattr(server.thread.preparer, "_make_steppers", slow)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/v1/completions", json={"prompt": "a", "regex": "b"}, timeout=0.2)
        assert entered.wait(10)
        wait_until(lambda: is_idle(server))  # while the compilation continues
        leave.set()
        assert httpx.post(f"{address}/v1/completions", json={"prompt": "a", "regex": "b"}).status_code == 200


@pytest.mark.parametrize("error", [RuntimeError("SENTINEL"), MemoryError("SENTINEL")])
def test_a_failed_forward_pass_ends_only_its_requests(error: Exception):
    with listening() as (server, address):
        gate, step = Gate(server.engine), server.engine.scheduler.runner.step
        gate.let(20)
        with begun(address) as events:
            assert gate.waits.wait(10)

            def broken(chunks):
                server.engine.scheduler.runner.step = step
                raise error

            server.engine.scheduler.runner.step = broken
            gate.let(10_000)
            told = list(events)[-1]["error"]
            assert told["type"] == "InternalServerError"
            assert ("SENTINEL" in told["message"]) == isinstance(error, MemoryError)
        with begun(address) as events:
            assert list(events)[-1]["choices"][0]["finish_reason"] == "length"
        assert httpx.get(f"{address}/health").status_code == 200
        wait_until(lambda: is_idle(server))


def test_all_requests_get_the_error_of_a_dead_engine():
    with listening() as (server, address):
        gate = Gate(server.engine)
        with two_streams(server, gate, address) as told:

            def dead():
                raise SystemError("SENTINEL")

            server.engine.scheduler.step = dead
            gate.let(1)
            assert [each.result(20)[-1]["error"]["code"] for each in told] == ["engine_stopped"] * 2
        health = httpx.get(f"{address}/health")
        assert (health.status_code, health.json()["status"]) == (503, "dead")
        assert httpx.get(f"{address}/ready").status_code == httpx.get(f"{address}/ping").status_code == 503
        refused = httpx.post(f"{address}/v1/completions", json=LONG)
        assert refused.status_code == 503 and refused.json()["error"]["code"] == "engine_stopped"


def test_a_server_that_shuts_down_reports_it():
    with listening() as (server, address):
        gate = Gate(server.engine)
        gate.let(20)
        with begun(address) as events:
            assert gate.waits.wait(10)
            server.thread.is_draining = True
            assert httpx.get(f"{address}/ready").status_code == 503
            assert httpx.get(f"{address}/ping").status_code == 200
            assert httpx.get(f"{address}/health").json()["status"] == "draining"
            refused = httpx.post(f"{address}/v1/completions", json=LONG)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
            assert int(refused.headers["retry-after"]) >= 1
            gate.let(10_000)
            assert list(events)[-1]["choices"][0]["finish_reason"] == "length"  # requests that had begun are answered
        assert server.thread.cut_off_requests == 0
