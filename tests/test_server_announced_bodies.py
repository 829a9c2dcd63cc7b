"""Bodies that their headers announce as too long, compressed or in another charset are refused before they arrive."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from tests.live_server import read_to_end, served
from tests.test_server_connections import asked, read_error

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"


@pytest.mark.parametrize("more", [b"", b"Expect: 100-continue\r\n"])
@pytest.mark.parametrize("sent", [0, 100_000])
def test_a_body_that_is_announced_as_too_long_is_refused_at_once(more, sent):
    with asked(body_timeout=1000.0) as connect, connect() as client:
        client.sendall(HEAD % 5_000_000_000 + more + b"\r\n" + b"x" * sent)
        status, error = read_error(client)
        assert (status, error["code"]) == (413, "body_too_long")


def test_a_body_of_the_maximum_size_is_read():
    body = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
    with asked(max_body=len(body)) as connect, connect() as client:
        client.sendall(HEAD % len(body) + b"Connection: close\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 100 ")
        client.sendall(body)
        assert read_to_end(client).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Encoding": "identity, br"}, 415),
        ({"Content-Encoding": "Identity"}, 200),
        ({"Content-Type": "application/json; charset=utf-16"}, 415),
        ({"Content-Type": 'application/json; charset="latin-1"'}, 415),
        ({"Content-Type": 'application/json; charset="UTF-8"'}, 200),
        ({"Content-Type": "application/json; charset=us-ascii"}, 200),
        ({"Content-Type": "application/json"}, 200),
        ({"Content-Type": "text/plain"}, 200),
        ({"Content-Type": 'a; x=";charset=utf-16"; Charset = "utf\\-8"'}, 200),
        ({"Content-Type": 'a; x="\\";charset=utf-8"; charset=utf-16'}, 415),
        ({"Content-Type": "a; charset=utf-16; charset=utf-8"}, 415),
        ({"Content-Type": "a; charset="}, 415),
        ({"Content-Type": "a; charset"}, 415),
        ({"Content-Type": "a; charset*" + "1" * 900 + "=x"}, 200),
        ({"Content-Type": "a; charset*=foo'%ff%fe; charset*0*=x; charset*1=\u00e9".encode("latin-1")}, 200),
        ({"Content-Type": 'a;x="' + ";" * 990}, 200),
        ({"Content-Type": 'a;x="' + ";" * 1_000}, 415),
    ],
)
def test_encodings_and_charsets(headers, status):
    async def whole():
        async with served() as (_, http):
            for path in ("/tokenize", "/v1/messages/count_tokens"):
                body = (
                    {"prompt": "a"}
                    if path == "/tokenize"
                    else {
                        "model": "guided",
                        "messages": [{"role": "user", "content": "a"}],
                    }
                )
                answer = await http.post(path, content=json.dumps(body), headers=headers)
                assert answer.status_code == status, answer.text
                if status == 415:
                    error = answer.json()["error"]
                    assert error.get("details", {}).get("error_code", error.get("code")) == "unsupported_media_type"

    asyncio.run(whole())
