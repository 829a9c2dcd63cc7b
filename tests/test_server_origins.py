"""Pages that may use a server: pages of other sites are refused, whatever headers the browser sends. Names that an
attacker has pointed at this machine are refused, too.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from guided.cli import serve  # noqa: E402
from guided.cli.serve_options import read_settings  # noqa: E402
from tests.live_server import listening_at, served  # noqa: E402

SHORT = {"prompt": "a", "max_tokens": 3}
ROUTES = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/stream", "/tokenize", "/abort_request")
LOOPBACK, NETWORK = "http://127.0.0.1:8000", "http://192.168.0.7:8000"


def status_of(address, headers, *, path="/v1/completions", method="POST", **settings):
    """The status of a request to an address of the server, and the code of its error."""

    async def whole():
        async with served(**settings) as (_, client):
            answer = await client.request(method, f"{address}{path}", json=SHORT, headers=headers)
            is_error = answer.headers.get("content-type") == "application/json" and answer.status_code >= 400
            return answer.status_code, answer.json()["error"]["code"] if is_error else None

    return asyncio.run(whole())


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost:8000.evil.example", "http://127.0.0.1:8001", "http://127.0.0.1",
     "https://127.0.0.1", "http://[::1]:8000", "file://", "", "evil", "http://127.0.0.1:8000@evil.example",
     "http://evil.example/127.0.0.1:8000", "http://127.0.0.1:99999999"],
)  # fmt: skip
@pytest.mark.parametrize("address", [LOOPBACK, NETWORK])
def test_an_origin_of_another_host_is_refused(address, origin):
    assert status_of(address, {"origin": origin}) == (403, "origin_not_allowed")


@pytest.mark.parametrize("path", ROUTES)
def test_every_route_that_works_is_closed_to_foreign_pages(path):
    assert status_of(LOOPBACK, {"origin": "https://evil.example"}, path=path) == (403, "origin_not_allowed")


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        (LOOPBACK, {}),  # a program
        (LOOPBACK, {"origin": LOOPBACK}),
        (NETWORK, {"origin": NETWORK}),
        (NETWORK, {"origin": "http://my.server", "host": "my.server"}),
        (NETWORK, {"origin": "http://my.server", "host": "My.Server:80"}),
        (NETWORK, {"origin": "https://my.server", "host": "my.server"}),  # a proxy ends TLS
        (NETWORK, {"origin": "https://my.server", "host": "my.server:443"}),
        (LOOPBACK, {"origin": "http://localhost:8000", "host": "LOCALHOST:8000"}),
        (LOOPBACK, {"origin": "https://my.server", "sec-fetch-site": "same-origin"}),  # a proxy has changed Host
    ],
)
def test_programs_and_own_pages_may_ask(address, headers):
    assert status_of(address, headers) == (200, None)


@pytest.mark.parametrize("settings", [{"allowed_origins": ("https://page.test",)}, {"allowed_origins": ("*",)}])
def test_pages_of_allowed_origins_may_ask(settings):
    assert status_of(LOOPBACK, {"origin": "https://page.test"}, **settings) == (200, None)


def test_with_keys_the_key_decides():
    headers = {"origin": "https://page.test", "authorization": "Bearer k"}
    assert status_of(LOOPBACK, headers, api_keys=("k",)) == (200, None)
    assert status_of(LOOPBACK, {"origin": "https://page.test"}, api_keys=("k",)) == (401, "invalid_api_key")
    rebound = {"host": "my.server", "authorization": "Bearer k"}
    assert status_of(LOOPBACK, rebound, api_keys=("k",)) == (200, None)  # a proxy of this machine


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "xlocalhost",
     "a@127.0.0.1", "[::1", "", "127.0.0.1:x"],
)  # fmt: skip
@pytest.mark.parametrize("address", [LOOPBACK, "http://[::1]:8000", "http://[::ffff:127.0.0.1]:8000"])
def test_a_rebound_name_is_refused(address, host):
    """Origin and Host agree, and the browser calls the request same-origin."""
    headers = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    assert status_of(address, headers) == (403, "host_not_allowed")
    for path in ("/", "/health", "/metrics", "/openapi.json", "/v1/models"):
        assert status_of(address, {"host": host}, path=path, method="GET") == (403, "host_not_allowed")


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "LocalHost.", "127.0.0.1", "127.8.9.1:1", "[::1]:8000",
                                  "192.168.0.7"])  # fmt: skip
def test_addresses_and_localhost_are_allowed_hosts(host):
    assert status_of(LOOPBACK, {"host": host}) == (200, None)


def test_allowed_hosts():
    mine = {"allowed_hosts": ("My.Server", "other")}
    for address in (LOOPBACK, NETWORK):  # if they are given, they apply everywhere
        assert status_of(address, {"host": "my.server:8000"}, **mine) == (200, None)
        assert status_of(address, {"host": "localhost"}, **mine) == (200, None)
        assert status_of(address, {"host": "evil.example"}, **mine) == (403, "host_not_allowed")
    with_keys = {"host": "evil.example", "authorization": "Bearer k"}
    assert status_of(NETWORK, with_keys, api_keys=("k",), **mine) == (403, "host_not_allowed")
    assert status_of(LOOPBACK, {"host": "evil.example"}, allowed_hosts=("*",)) == (200, None)
    assert status_of(NETWORK, {"host": "any.name"}) == (200, None)


def test_at_a_socket():
    """The address is that of the connection, whatever the headers contain."""
    with listening_at() as at:
        for host, status in (("evil.example", 403), (f"localhost:{at.port}", 200), ("127.0.0.1", 200)):
            connection = http.client.HTTPConnection("127.0.0.1", at.port, timeout=30)
            connection.request("POST", "/v1/completions", b'{"prompt": "a", "max_tokens": 2}', {"Host": host})
            assert connection.getresponse().status == status
            connection.close()


def test_the_option():
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    assert read_settings(parser.parse_args(["--allowed-hosts", "a", "--allowed-hosts", "b"])).allowed_hosts == (
        "a",
        "b",
    )
    assert "--allowed-hosts" in parser.format_help()
