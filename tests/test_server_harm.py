"""Failures around a server, over sockets: killed clients, a failing model, no memory, SIGTERM under load."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from guided.engine import Engine  # noqa: E402 - needs torch
from guided.engine.runner import cache_shape  # noqa: E402
from guided.kv.paged import PagedCache  # noqa: E402
from guided.server.server import stream_response  # noqa: E402
from tests.live_server import Listening, listening_at, raw_request, wait_until  # noqa: E402
from tests.server_support import small_engine  # noqa: E402
from tests.test_server_sockets import events, served  # noqa: E402

LONG = {"prompt": "a", "stream": True, "max_tokens": 400, "ignore_eos": True, "seed": 3}
CLIENT = """
import socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(sys.stdin.buffer.read())
read = b""
while b"data: " not in read:
    read += connection.recv(4096)
print("reads", flush=True)
time.sleep(600)
"""


def post(at: Listening, body: dict, path: str = "/v1/completions") -> httpx.Response:
    return httpx.post(f"http://127.0.0.1:{at.port}{path}", json=body, timeout=60)


def streamed(at: Listening, body: dict) -> list[dict]:
    """The events of a stream, which ends with [DONE]."""
    answer = post(at, body)
    assert answer.status_code == 200 and answer.text.endswith("data: [DONE]\n\n")
    return [json.loads(line[6:]) for line in answer.text.split("\n") if line.startswith("data: {")]


class Held:
    """Steps of an engine that run only when they are released."""

    def __init__(self, engine: Engine) -> None:
        self.let, self.begun, self.run = threading.Semaphore(0), 0, engine.scheduler.step
        self.free = True
        engine.scheduler.step = self.step

    def step(self):
        self.begun += 1
        if not self.free:
            assert self.let.acquire(timeout=60)
        return self.run()


def test_a_client_that_is_killed_leaves_the_engine_within_two_steps():
    """The engine is inside a step while the client is killed. The request ends with the next step at the latest."""
    with listening_at(small_engine()) as at:
        held = Held(at.engine)
        command = [sys.executable, "-c", CLIENT, str(at.port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
            held.free = False
            threading.Thread(target=lambda: [held.let.release() for _ in range(50)]).start()
            client.stdin.write(raw_request("/v1/completions", LONG))
            client.stdin.close()
            assert client.stdout.readline() == b"reads\n"
            wait_until(lambda: held.begun > 50)  # the others are used up
            assert at.server.thread.request_count == 1 and at.engine.scheduler.running_count == 1
            client.kill()
        wait_until(lambda: at.server.thread.request_count == 0)  # the loop has noticed; the engine is still blocked
        before = held.begun
        held.free = True
        held.let.release()
        wait_until(lambda: at.is_idle)
        assert held.begun - before <= 1
        cache = at.engine.scheduler.runner.cache
        assert cache.available == cache.capacity


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", LONG),
        ("/v1/completions", LONG | {"stream": False}),
        ("/stream", {"prompt": "a", "max_tokens": 400}),
    ],
)
def test_a_client_that_leaves_before_its_first_token_is_forgotten(path: str, body: dict):
    """Meanwhile, the engine is inside a step of another request."""
    with listening_at(small_engine()) as at, socket.socket() as other:
        held = Held(at.engine)
        other.connect(("127.0.0.1", at.port))
        held.free = False
        other.sendall(raw_request("/v1/completions", LONG))
        wait_until(lambda: held.begun)
        with socket.create_connection(("127.0.0.1", at.port)) as leaves:
            leaves.sendall(raw_request(path, body))
            wait_until(lambda: at.server.thread.request_count == 2)
        wait_until(lambda: at.server.thread.request_count == 1)
        other.close()
        held.free = True
        held.let.release()
        wait_until(lambda: at.is_idle)


def test_an_exception_in_the_forward_pass_ends_the_requests_in_it_and_no_other():
    with listening_at(small_engine()) as at:
        asked = {"prompt": "ab", "max_tokens": 20, "seed": 5, "regex": "[a-z]{20}"}
        wanted = post(at, asked).json()["choices"]
        runner = at.engine.scheduler.runner
        step, passes = runner.step, []

        def fail(chunks):
            passes.append(len(chunks))
            if len(passes) >= 6:
                raise RuntimeError("secret of the model")
            return step(chunks)

        runner.step = fail
        found = streamed(at, LONG)
        assert [each for each in found[:-1] if "error" in each] == [] and len(found) > 2
        error = {"message": "internal error: a bug in the server", "type": "InternalServerError", "param": None}
        assert found[-1] == {"error": error | {"code": "internal_error"}}
        answer = post(at, asked)
        assert answer.status_code == 500 and answer.json()["error"] == error | {"code": "internal_error"}
        runner.step = step
        assert post(at, asked).json()["choices"] == wanted
        assert httpx.get(f"http://127.0.0.1:{at.port}/health").status_code == 200
        wait_until(lambda: at.is_idle)


@contextmanager
def small_memory() -> Iterator[Listening]:
    """A server whose cache has space for 96 tokens, although the model could read 600."""
    whole = small_engine()
    cache = PagedCache(cache_shape(whole.model), 6, 16)
    with listening_at(Engine(whole.model, whole.vocabulary, chat=whole.chat_template, cache=cache)) as at:
        yield at


def test_a_request_that_is_too_large_for_the_memory_gets_an_error():
    with small_memory() as at:
        answer = post(at, LONG | {"stream": False})
        assert answer.status_code == 500
        error = answer.json()["error"]
        assert error["code"] == "out_of_memory" and "do not fit into a cache of 96" in error["message"]
        found = streamed(at, LONG)
        assert len(found) > 50 and found[-1]["error"]["code"] == "out_of_memory"
        wait_until(lambda: at.is_idle)
        assert at.engine.scheduler.runner.cache.available == 96


def test_requests_too_large_together_wait_for_each_other():
    """Some are preempted, and continue when there is space. Their answers do not change."""
    bodies = [{"prompt": "ab" * n, "max_tokens": 60, "seed": n, "ignore_eos": True} for n in range(1, 7)]
    with listening_at(small_engine()) as at:
        wanted = [post(at, body).json()["choices"] for body in bodies]
    with small_memory() as at, ThreadPoolExecutor(len(bodies)) as pool:
        found = list(pool.map(lambda body: post(at, body), bodies))
        assert [each.json()["choices"] for each in found] == wanted
        assert at.engine.scheduler.preemptions > 0
        wait_until(lambda: at.is_idle)


def test_a_reader_that_stops_reading_holds_up_no_other():
    """Once its buffers are full, the server delays only the answer for this reader."""
    with listening_at(small_engine()) as at:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            slow.connect(("127.0.0.1", at.port))
            slow.sendall(raw_request("/v1/completions", LONG | {"n": 8, "logprobs": 20}))
            wait_until(lambda: at.engine.scheduler.running_count > 0)
            answer = post(at, {"prompt": "b", "max_tokens": 9, "regex": "[a-z]{9}"})
            assert re.fullmatch("[a-z]{9}", answer.json()["choices"][0]["text"])
            wait_until(lambda: not at.server.thread.request_count)  # the engine has finished its part
            assert not at.is_idle
        wait_until(lambda: at.is_idle)


def test_sigterm_under_load_cuts_no_answer():
    """Complete answers and streams that have begun, or are waiting, are finished, and the exit code is 0."""
    with served("--shutdown-timeout", "60") as (process, address), ThreadPoolExecutor(16) as pool:
        begun = threading.Barrier(9, timeout=60)

        def ask(number: int) -> str:
            body = {"prompt": "ROMEO:", "regex": "[a-z ]{150}", "max_tokens": 200, "seed": number}
            if number % 2:
                return httpx.post(f"{address}/v1/completions", json=body, timeout=120).json()["choices"][0]["text"]
            text, first = "", True
            with httpx.stream(
                "POST", f"{address}/v1/completions", json={**body, "stream": True}, timeout=120
            ) as answer:
                for event in events(answer):
                    if first:
                        begun.wait()
                        first = False
                    text += event["choices"][0]["text"]
            return text

        answers = [pool.submit(ask, number) for number in range(16)]
        begun.wait()  # eight streams have begun
        open_requests = ("waiting", "prefilling", "active", "compiling", "pending_submit")
        health = lambda: httpx.get(f"{address}/health").json()  # noqa: E731
        wait_until(lambda: sum(health()[name] for name in open_requests) >= 16 or answers[1].done())
        process.send_signal(signal.SIGTERM)
        texts = [answer.result(120) for answer in answers]
        assert all(re.fullmatch("[a-z ]{150}", text) for text in texts), [len(text) for text in texts]
        assert process.wait(60) == 0
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{address}/health")


def test_events_are_closed_when_the_client_leaves_and_not_later():
    """A reference to the answer is kept, so the garbage collector cannot close the events."""
    closed = []

    async def events():
        try:
            while True:
                yield "data: {}\n\n"
        finally:
            closed.append(True)

    async def run() -> None:
        sent, answer = asyncio.Event(), stream_response(events(), {})

        async def send(message) -> None:
            if message["type"] == "http.response.body":
                sent.set()
                await asyncio.Event().wait()  # the client does not read

        async def receive():
            await sent.wait()
            return {"type": "http.disconnect"}

        await answer({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)
        assert closed == [True] and answer.body_iterator is not None

    asyncio.run(run())
