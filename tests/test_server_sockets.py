"""`guided serve` as a process: streams over sockets, clients that go away, and the end of the server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

LONG = {"prompt": "ROMEO:", "stream": True, "regex": "[a-z ]{150}", "max_tokens": 200}


@contextmanager
def served(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that answers, and its address."""
    command = [sys.executable, "-m", "guided", "serve", "shakespeare", "--port", "0", "--threads", "1", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"answers at (http://\S+)/v1", line):
                    yield process, found[1]
                    break
            else:
                raise AssertionError(f"the server ended with {process.wait()}")
        finally:
            process.kill()


def events(response) -> Iterator[dict]:
    for line in response.iter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def becomes_idle(address: str) -> bool:
    for _ in range(200):
        health = httpx.get(f"{address}/health").json()
        if not any(health[name] for name in ("waiting", "prefilling", "active", "compiling", "pending_submit")):
            return True
        time.sleep(0.02)
    return False


def test_two_streams_interleave_and_a_client_that_goes_away_leaves_nothing():
    with served() as (process, address):
        order, texts = [], {"a": "", "b": ""}

        def read(name: str) -> None:
            with httpx.stream("POST", f"{address}/v1/completions", json=LONG, timeout=60) as response:
                for event in events(response):
                    order.append(name)
                    texts[name] += event["choices"][0]["text"]

        readers = [threading.Thread(target=read, args=(name,)) for name in texts]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(60)
        assert all(re.fullmatch("[a-z ]{150}", text) for text in texts.values())
        assert sum(one != other for one, other in pairwise(order)) > 20

        with httpx.stream("POST", f"{address}/v1/completions", json=LONG, timeout=60) as response:
            next(events(response))
        assert becomes_idle(address)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/v1/completions", json={**LONG, "stream": False}, timeout=0.05)
        assert becomes_idle(address)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.parametrize(("seconds", "code"), [("30", 0), ("0", 1)])
def test_open_streams_at_the_end(seconds: str, code: int):
    """They are drained, or cut off once the time is over. Many samples take seconds, so none ends before that."""
    many = 32
    with served("--shutdown-timeout", seconds) as (process, address):
        texts, ended = [""] * many, 0
        body = {**LONG, "n": many}
        with httpx.stream("POST", f"{address}/v1/completions", json=body, timeout=60) as response:
            try:
                for number, event in enumerate(events(response)):
                    if number == 2:
                        process.send_signal(signal.SIGTERM)
                    if "error" not in event:
                        choice = event["choices"][0]
                        texts[choice["index"]] += choice["text"]
                        ended += choice["finish_reason"] == "stop"
            except httpx.RemoteProtocolError:
                pass
        assert process.wait(40) == code
        assert ended == (0 if code else many)
        assert all((len(text) == 150) == (code == 0) for text in texts)


def test_a_port_that_is_taken_is_told_before_the_model_is_loaded():
    with served() as (_, address):
        port = address.rsplit(":", 1)[1]
        command = [sys.executable, "-m", "guided", "serve", "nowhere", "--port", port]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert told.returncode == 2 and f"cannot listen at 127.0.0.1 port {port}" in told.stderr
