"""`guided serve` as a process: streams over sockets, clients that disconnect, and the end of the server."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain, pairwise
from pathlib import Path

import pytest

from tests.effort import every

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from guided.cli import main  # noqa: E402
from guided.cli.serve import _open_listener  # noqa: E402
from tests.live_server import raw_request, read_to_end, wait_until  # noqa: E402

LONG = {"prompt": "ROMEO:", "stream": True, "regex": "[a-z ]{150}", "max_tokens": 200}


_SLOW_PROGRAM = """
import sys, time
import guided.cli.serve as serve
from guided.cli import main
from guided.server.preparing import RequestPreparer

def sleep(*_):
    print("asleep", file=sys.stderr, flush=True)
    time.sleep(600)

RequestPreparer._make_steppers = sleep
serve._END_SECONDS = 0.5
sys.exit(main())
"""


@contextmanager
def served(
    *options: str, program: tuple[str, ...] = ("-m", "guided"), **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running server, and its address."""
    command = [sys.executable, *program, "serve", "shakespeare", "--port", "0", "--threads", "1", *options]
    env = {**os.environ, "NO_COLOR": "1", **environment}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"^serving .* at (http://\S+?)(?: \(.*\))?/v1", line):
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
    def idle() -> bool:
        health = httpx.get(f"{address}/health").json()
        return not any(health[name] for name in ("waiting", "prefilling", "active", "compiling", "pending_submit"))

    wait_until(idle)
    return True


@pytest.mark.parametrize("by_path", every(2, [False, True]))
def test_the_example_that_it_prints_is_answered(tmp_path: Path, by_path: bool):
    path = str(tmp_path / "a b.sock")
    with served(*(("--uds", path) if by_path else ())) as (process, _):
        curl, *option, url, _, body = shlex.split(process.stderr.readline())
        assert curl == "curl" and option == (["--unix-socket", path] if by_path else [])
        with httpx.Client(transport=httpx.HTTPTransport(uds=path if by_path else None)) as http:
            answer = http.post(url, content=body)
        assert answer.status_code == 200, answer.text
        assert re.fullmatch("[A-Z][a-z]{2,14}", answer.json()["choices"][0]["text"])


def test_streams_run_at_once_and_a_client_that_goes_away_leaves_nothing():
    with served() as (process, address):
        many = 48  # samples, so that the answer takes many times as long as the short one
        texts, short = [""] * many, {**LONG, "regex": "[a-z ]", "stream": False}
        with httpx.Client(timeout=60) as client, httpx.Client(timeout=60) as other:
            for each in (client, other):
                each.get(f"{address}/ping")  # creating a client and a connection takes as long as a short answer
            with client.stream("POST", f"{address}/v1/completions", json={**LONG, "n": many}) as response:
                stream = events(response)
                first = next(stream)
                answer = other.post(f"{address}/v1/completions", json=short).json()
                active = other.get(f"{address}/health").json()["active"]
                for event in chain([first], stream):
                    choice = event["choices"][0]
                    texts[choice["index"]] += choice["text"]
        assert len(answer["choices"][0]["text"]) == 1
        assert active > 0  # the long answer was still being written
        assert all(re.fullmatch("[a-z ]{150}", text) for text in texts)

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
    """They are finished, or cut off after the timeout. Many samples take seconds, so none ends before that."""
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


def test_a_used_port_is_reported_before_the_model_is_loaded():
    with served() as (_, address):
        port = address.rsplit(":", 1)[1]
        command = [sys.executable, "-m", "guided", "serve", "nowhere", "--port", port]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert told.returncode == 2 and f"cannot listen at 127.0.0.1 port {port}" in told.stderr


def test_a_second_signal_cuts_off_what_the_first_one_waits_for():
    with served("--shutdown-timeout", "60") as (process, address):
        body = {**LONG, "n": 32}
        with httpx.stream("POST", f"{address}/v1/completions", json=body, timeout=60) as response:
            told = events(response)
            next(told)
            process.send_signal(signal.SIGTERM)
            while httpx.get(f"{address}/ready").status_code == 200:
                time.sleep(0.01)
            refused = httpx.post(f"{address}/v1/completions", json=LONG)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
            process.send_signal(signal.SIGTERM)
            assert list(told)[-1]["error"]["code"] == "draining"
        assert process.wait(30) == 1


@pytest.mark.parametrize("is_cut_off", [True, False])
def test_a_call_that_does_not_end_does_not_keep_the_process(is_cut_off: bool):
    with served("--shutdown-timeout", "0.2", program=("-c", _SLOW_PROGRAM)) as (process, address):
        port = int(address.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(raw_request("/v1/completions", {"prompt": "a", "regex": "[a-z]+"}))
            assert "asleep\n" in iter(process.stderr.readline, "")
            if is_cut_off:
                process.send_signal(signal.SIGTERM)
                assert b'"draining"' in read_to_end(client)
        if not is_cut_off:
            assert becomes_idle(address)
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == int(is_cut_off)


def test_the_small_demonstration():
    """`guided serve shakespeare`: two texts at once, token by token, and the work that the second one saves."""
    with served("--log-format", "json") as (process, address):
        order, texts = [], {}

        def read(name: str) -> None:
            body = {"prompt": f"ROMEO: {name} ", "max_tokens": 100}
            with httpx.stream("POST", f"{address}/stream", json=body, timeout=60) as response:
                for event in events(response):
                    order.append(name)
                    texts[name] = event.get("full_text", texts.get(name, "") + event.get("token", ""))

        readers = [threading.Thread(target=read, args=(name,)) for name in ("one", "two")]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(60)
        assert order.count("one") == order.count("two") == 101
        assert [len(text) for text in texts.values()] == [100, 100]  # a token is a character
        assert sum(one != other for one, other in pairwise(order)) > 20
        health = httpx.get(f"{address}/health").json()
        assert health.keys() >= {"step", "waiting", "prefilling", "active", "pending_submit"} and health["step"] >= 100
        for _ in range(2):
            httpx.post(f"{address}/stream", json={"prompt": "To be, or not to be, that " * 4, "max_tokens": 1})
        assert re.search(r"prefix_cache_hits_total\{.*\} [1-9]", httpx.get(f"{address}/metrics").text)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr if line.startswith("{")]
        assert process.wait(30) == 0
        assert [line["route"] for line in lines].count("/stream") == 4
        assert {"id", "status", "seconds", "ttft_ms", "prompt_tokens", "tokens"} <= lines[0].keys()


def test_a_socket_of_the_file_system_and_a_key_of_the_environment(tmp_path: Path):
    path = str(tmp_path / "guided.sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)  # as a killed server leaves it
    with served("--uds", path, GUIDED_API_KEY="secret") as (process, _):
        with httpx.Client(transport=httpx.HTTPTransport(uds=path), base_url="http://t") as client:
            assert client.get("/v1/models").status_code == 401
            key = {"authorization": "Bearer secret"}
            assert client.get("/v1/models", headers=key).json()["data"][0]["id"] == "shakespeare"
        told = subprocess.run(
            [sys.executable, "-m", "guided", "serve", "nowhere", "--uds", path],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert told.returncode == 2 and f"cannot listen at {path}: another server is listening there" in told.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert not Path(path).exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-requests-per-key", "3"), "limits each key: give --api-key"),
        (("--requests-per-minute", "3"), "limits each key: give --api-key"),
        (("--grammar-cache", __file__), f"guided serve: --grammar-cache is {__file__!r}, which is not a folder"),
        (("--log-requests",), "needs --log-format json"),
        (("--api-key", " "), "--api-key is empty"),
        (("--queue-timeout", "-1"), "not at least 0"),
        (("--compile-timeout", "0"), "not at least 0.01"),
        (("--uds", "/nowhere/a.sock"), "cannot listen at /nowhere/a.sock"),
    ],
)
def test_options_that_do_not_go_together(capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str):
    assert main(["serve", "nowhere", "--port", "0", *options]) == 2
    assert message in capsys.readouterr().err


def test_parts_of_an_answer_do_not_wait_for_each_other():
    """If a connection waits for acknowledgements, an answer takes 40 ms longer, and so does each token of a stream."""
    arguments = argparse.Namespace(host="127.0.0.1", port=0, uds=None)
    with closing(_open_listener(arguments)) as listener, socket.create_connection(listener.getsockname()) as client:
        connection, address = listener.accept()
        with connection:
            assert address == client.getsockname()
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
