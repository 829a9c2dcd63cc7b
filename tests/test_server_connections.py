"""Connections over sockets: headers that never arrive, arrive slowly, are too long, or are invalid."""

from __future__ import annotations

import json
import select
import socket
import time
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from uvicorn.server import ServerState  # noqa: E402

from guided.server.app import create_app  # noqa: E402
from guided.server.http.connections import Connection  # noqa: E402
from guided.server.settings import Settings  # noqa: E402
from tests.live_server import listening, read_to_end  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

GET = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def asked(**settings):
    """A server, and a function that opens connections to it."""
    options = {"h11_max_incomplete_event_size": 2000, "timeout_keep_alive": 20}
    with listening(uvicorn_options=options, max_header_bytes=2000, **settings) as (_, address):
        port = int(address.rsplit(":", 1)[1])
        yield lambda: socket.create_connection(("127.0.0.1", port), timeout=20)
        assert httpx.get(f"{address}/health").status_code == 200


def read_error(client: socket.socket) -> tuple[int, dict]:
    """The status and the error of an answer, after which the connection closes."""
    head, _, body = read_to_end(client).partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    return int(head.split()[1]), json.loads(body)["error"]


def test_a_silent_connection_is_closed():
    with asked(body_timeout=0.2) as connect, connect() as client:
        assert client.recv(100) == b""


def test_a_head_that_comes_slowly_is_given_up():
    with asked(body_timeout=0.5) as connect, connect() as client:
        slow = iter(GET[:-2] + b"X: " + b"x" * 1500)
        while not select.select([client], [], [], 0.05)[0]:
            client.sendall(bytes([next(slow)]))
        status, error = read_error(client)
        assert (status, error["code"]) == (408, "body_timeout")
        assert error["message"].startswith("the headers of the request")


class Clock:
    """A loop that only records scheduled calls."""

    def __init__(self) -> None:
        self.due = list[SimpleNamespace]()

    def call_later(self, seconds, act):
        handle = SimpleNamespace(seconds=seconds, act=act, cancel=lambda: self.due.remove(handle))
        self.due.append(handle)
        return handle

    def create_task(self, work, **_):
        work.close()
        return Mock()


def test_the_head_has_a_timeout_and_a_running_request_has_none():
    clock, written = Clock(), []
    transport = SimpleNamespace(
        get_extra_info=lambda *_: None,
        is_closing=lambda: False,
        write=written.append,
        can_write_eof=lambda: True,
        write_eof=lambda: written.append(b"end"),
        close=lambda: written.append(b"closed"),
        resume_reading=lambda: None,
        pause_reading=lambda: None,
    )
    config = uvicorn.Config(create_app(small_engine(), Settings(body_timeout=7)), proxy_headers=False)
    connection = Connection(config, ServerState(), {}, _loop=clock)
    connection.connection_made(transport)
    (first,) = clock.due
    assert first.seconds == 7
    for byte in GET[:-1]:
        connection.data_received(bytes([byte]))
        assert clock.due == [first], "a byte does not begin the time anew"
    connection.data_received(GET[-1:])
    assert clock.due == [] and connection.cycle is not None
    connection.cycle.response_complete = True
    connection.on_response_complete()
    (idle,) = clock.due
    assert idle.act == connection.timeout_keep_alive_handler, "between requests uvicorn's own time counts"
    connection.data_received(GET[:5])
    (second,) = clock.due
    assert second.seconds == 7 and second is not first and not written
    second.act()
    assert written[0].startswith(b"HTTP/1.1 408 ") and written[-1] == b"end"
    connection.data_received(b"dropped")
    (last,) = clock.due
    assert last.seconds == 1
    last.act()
    assert written[-1] == b"closed"


@pytest.mark.parametrize(
    "begin", [b"\x00\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n"]
)
def test_data_that_arrives_after_an_error_does_not_destroy_it(begin):
    """If the server closed at once, such data would reset the connection."""
    with asked() as connect, connect() as client:
        client.sendall(begin)
        assert select.select([client], [], [], 20)[0]
        for _ in range(5):
            client.sendall(b"x" * 100)
            time.sleep(0.02)
        status, error = read_error(client)
        assert status == 400 and "Invalid HTTP" in error["message"]


def test_a_client_that_keeps_sending_after_an_error_is_cut_off():
    with asked() as connect, connect() as client:
        client.sendall(b"\x00\r\n\r\n")
        assert read_error(client)[0] == 400
        end = time.monotonic() + 20
        with pytest.raises(OSError):
            while time.monotonic() < end:
                client.sendall(b"x" * 100)
                time.sleep(0.02)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"\x16\x03\x01\r\n\r\n", "Invalid HTTP"),
        (b"GET /\r\n\r\n", "Invalid HTTP"),
        (b"GET / HTTP/1.1\r\n\r\n", "Invalid HTTP"),
        (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", "Invalid HTTP"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 5000, "Invalid HTTP"),
    ],
)
def test_invalid_http_has_the_usual_error_format(sent, message):
    with asked() as connect, connect() as client:
        client.sendall(sent)
        status, error = read_error(client)
        assert status == 400 and error["code"] == "invalid_request" and message in error["message"]


@pytest.mark.parametrize("lines", [(0, 1), (1, 0)])
@pytest.mark.parametrize("first", [b"", GET])
def test_a_body_with_a_length_and_a_coding_is_refused(lines, first):
    """Else what follows the body would be another request for one of proxy and server."""
    headers = [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"]
    with asked() as connect, connect() as client:
        head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n" + b"".join(headers[line] for line in lines)
        client.sendall(first + head + b"\r\n0\r\n\r\n" + GET)
        answers = read_to_end(client).split(b"HTTP/1.1 ")[1:]
        assert [answer[:3] for answer in answers] == [b"200"] * bool(first) + [b"400"]


@pytest.mark.parametrize(
    "line", [b"GET /version HTTP/1.1\r\nX: " + b"x" * 2000, b"GET /version?" + b"x" * 2000 + b" HTTP/1.1"]
)
def test_headers_that_come_as_a_whole_are_bounded(line):
    """The connection limits incomplete headers, and cannot see these."""
    with asked() as connect, connect() as client:
        client.sendall(line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        status, error = read_error(client)
        assert (status, error["message"]) == (400, "path and headers have more than 2000 bytes")


def test_an_error_within_a_body_after_the_answer_has_begun_closes_the_connection():
    with asked() as connect, connect() as client:
        head = b"POST /v1/nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head)
        begun = client.recv(1)
        client.sendall(b"no chunk\r\n")
        answer = begun + read_to_end(client)
        assert answer.startswith(b"HTTP/1.1 404 ") and answer.count(b"HTTP/1.1") == 1
