"""Connections over sockets: heads that do not come, come slowly, are too long, or are none."""

from __future__ import annotations

import json
import socket
import time
from contextlib import contextmanager

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from tests.live_server import listening  # noqa: E402

GET = b"GET /version HTTP/1.1\r\nHost: t\r\n\r\n"


@contextmanager
def asked(**settings):
    """A server, and what opens connections to it."""
    options = {"h11_max_incomplete_event_size": 2000, "timeout_keep_alive": 20}
    with listening(uvicorn_options=options, max_header_bytes=2000, **settings) as (_, address):
        port = int(address.rsplit(":", 1)[1])
        yield lambda: socket.create_connection(("127.0.0.1", port), timeout=20)
        assert httpx.get(f"{address}/health").status_code == 200


def told(client: socket.socket) -> tuple[int, dict]:
    """The status and the error of an answer, after which the connection closes."""
    data = b""
    while piece := client.recv(4096):
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    return int(head.split()[1]), json.loads(body)["error"]


def test_a_connection_that_says_nothing_is_closed():
    with asked(body_timeout=0.2) as connect, connect() as client:
        assert client.recv(100) == b""


def test_a_head_that_comes_slowly_is_given_up():
    """Each byte would begin the time anew, were it the time between bytes."""
    with asked(body_timeout=0.5) as connect, connect() as client:
        begin, sent = time.monotonic(), 0
        client.settimeout(0.05)
        first = b""
        for byte in GET[:-2] + b"X: " + b"x" * 1000:
            client.sendall(bytes([byte]))
            sent += 1
            try:
                first = client.recv(4096)
                break
            except TimeoutError:
                pass
        assert sent > 3 and time.monotonic() - begin < 15
        assert first.startswith(b"HTTP/1.1 408 ")
        error = json.loads(first.partition(b"\r\n\r\n")[2])["error"]
        assert error["code"] == "body_timeout" and error["message"].startswith("the head of the request")


def test_a_later_head_has_a_time_of_its_own_and_requests_have_theirs():
    with asked(body_timeout=0.6) as connect, connect() as client:
        for _ in range(3):  # together they take longer than a head may
            time.sleep(0.3)
            client.sendall(GET)
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        client.sendall(GET[:-2])
        assert told(client)[0] == 408


def test_a_request_under_way_is_not_cut_off():
    with asked(body_timeout=0.3) as connect, connect() as client:
        body = b'{"prompt": "a", "max_tokens": 500, "ignore_eos": true, "stream": true}'
        head = f"POST /v1/completions HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        data = b""
        while piece := client.recv(1 << 16):
            data += piece
        assert b"data: [DONE]" in data


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"\x16\x03\x01\r\n\r\n", "Invalid HTTP"),
        (b"GET /\r\n\r\n", "Invalid HTTP"),
        (b"GET / HTTP/1.1\r\n\r\n", "Invalid HTTP"),
        (b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: x\r\n\r\n", "Invalid HTTP"),
        (b"GET / HTTP/1.1\r\nHost: t\r\nX: " + b"x" * 5000, "Invalid HTTP"),
    ],
)
def test_what_is_no_http_is_told_as_other_errors_are(sent, message):
    with asked() as connect, connect() as client:
        client.sendall(sent)
        status, error = told(client)
        assert status == 400 and error["code"] == "invalid_request" and message in error["message"]


@pytest.mark.parametrize(
    "line", [b"GET /version HTTP/1.1\r\nX: " + b"x" * 2000, b"GET /version?" + b"x" * 2000 + b" HTTP/1.1"]
)
def test_headers_that_come_as_a_whole_are_bounded(line):
    """The connection bounds what is not complete yet, and cannot see these."""
    with asked() as connect, connect() as client:
        client.sendall(line + b"\r\nHost: t\r\nConnection: close\r\n\r\n")
        status, error = told(client)
        assert (status, error["message"]) == (400, "path and headers have more than 2000 bytes")


def test_an_error_within_a_body_after_the_answer_has_begun_closes_the_connection():
    with asked() as connect, connect() as client:
        head = b"POST /v1/nowhere HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head)
        assert client.recv(4096).startswith(b"HTTP/1.1 404 ")
        client.sendall(b"no chunk\r\n")
        assert b"HTTP/1.1" not in client.recv(4096)
