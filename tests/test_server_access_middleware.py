"""Access to the server: ids, keys, origins, limits on requests, aborting, and the log."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from tests.live_server import becomes_idle, listening, read_to_end, served, until, wait_until  # noqa: E402

SHORT = {"prompt": "a", "max_tokens": 3}
LONG = {"prompt": "a", "max_tokens": 300, "ignore_eos": True, "stream": True}


def run(body, **settings):
    async def whole():
        async with served(**settings) as (server, http):
            await body(server, http)

    asyncio.run(whole())


def test_each_answer_has_its_id():
    async def body(server, http):
        given = await http.post("/v1/completions", json=SHORT, headers={"X-Request-Id": "mine-1"})
        assert given.headers["x-request-id"] == "mine-1"
        ids = {(await http.get("/health")).headers["x-request-id"] for _ in range(3)}
        assert len(ids) == 3
        named = await http.post("/v1/completions", json={**SHORT, "rid": "body-1"}, headers={"X-Request-Id": "mine"})
        assert named.headers["x-request-id"] == "body-1"
        asked = {"input": "a", "regex": "a", "rid": "body-2"}
        assert (await http.post("/v1/responses", json=asked)).headers["x-request-id"] == "body-2"
        for bad in ("a b", "x" * 129, "\u00e4"):
            answer = await http.get("/health", headers={b"X-Request-Id": bad.encode()})
            assert answer.headers["x-request-id"] not in (bad, "")
        assert (await http.post("/v1/completions", json={**SHORT, "rid": "a b"})).json()["error"]["param"] == "rid"
        assert (await http.get("/nowhere")).headers["x-request-id"]

    run(body)


def test_routes_that_need_a_key():
    async def body(server, http):
        for method, path in [("GET", "/v1/models"), ("POST", "/v1/completions"), ("POST", "/stream"),
                             ("POST", "/tokenize"), ("POST", "/detokenize"), ("POST", "/abort_request"),
                             ("GET", "/v1/nowhere"), ("DELETE", "/v1/completions"),
                             ("GET", "/tokenizer_info")]:  # fmt: skip
            for headers in ({}, {"authorization": "Bearer other"}, {"authorization": "k2x"}):
                answer = await http.request(method, path, json={}, headers=headers)
                assert answer.status_code == 401, (method, path)
                assert answer.headers["www-authenticate"] == "Bearer"
                assert answer.json()["error"]["code"] == "invalid_api_key"
        for path in ("/health", "/ready", "/ping", "/version", "/metrics"):
            assert (await http.get(path)).status_code == 200
        assert (await http.options("/v1/models")).status_code == 405
        for key in ("k1", "k2"):
            for path in ("/v1/models", "/tokenizer_info"):
                assert (await http.get(path, headers={"authorization": f"Bearer {key}"})).status_code == 200
        for header in ("bearer k1", "BEARER  k1", "Bearer schl\u00fcssel"):
            answer = await http.get("/v1/models", headers={b"authorization": header.encode()})
            assert answer.status_code == 200, header

    run(body, api_keys=("k1", "k2", "schl\u00fcssel"))


def test_origins():
    async def body(server, http):
        asking = {"origin": "https://page.test", "access-control-request-method": "POST",
                  "access-control-request-headers": "authorization"}  # fmt: skip
        allowed = await http.options("/v1/completions", headers=asking)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://page.test"
        refused = await http.post("/v1/completions", json=SHORT, headers={"origin": "https://page.test"})
        assert refused.status_code == 401  # so that a page can read the reason
        assert refused.headers["access-control-allow-origin"] == "https://page.test"
        other = await http.options("/v1/completions", headers={**asking, "origin": "https://other.test"})
        assert other.status_code == 400 and "access-control-allow-origin" not in other.headers

    run(body, api_keys=("k",), allowed_origins=("https://page.test",))


def test_without_origins_no_page_may_ask():
    async def body(server, http):
        answer = await http.post("/v1/completions", json=SHORT, headers={"origin": "http://t"})
        assert answer.status_code == 200 and "access-control-allow-origin" not in answer.headers
        for site in ("cross-site", "same-site"):  # plain text, which a browser sends without a preflight request
            headers = {"origin": "https://page.test", "sec-fetch-site": site, "content-type": "text/plain"}
            for path in ("/abort_request", "/v1/completions"):
                refused = await http.post(path, content=b'{"abort_all": true}', headers=headers)
                assert (refused.status_code, refused.json()["error"]["code"]) == (403, "origin_not_allowed")
                assert "https://page.test" in refused.json()["error"]["message"]
            assert (await http.get("/v1/models", headers=headers)).status_code == 403
            assert (await http.get("/health", headers=headers)).status_code == 200  # a link may lead here
        for site in ("same-origin", "none"):
            headers = {"origin": "http://test", "sec-fetch-site": site}
            assert (await http.post("/v1/completions", json=SHORT, headers=headers)).status_code == 200

    run(body)


def test_pages_of_origins_that_are_allowed_may_ask():
    async def body(server, http):
        headers = {"origin": "https://page.test", "sec-fetch-site": "cross-site"}
        assert (await http.post("/v1/completions", json=SHORT, headers=headers)).status_code == 200

    run(body, allowed_origins=("https://page.test",))
    run(body, allowed_origins=("*",))


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b'{"prompt": "' + b"x" * 3000 + b'"}', 413, "more than 2000 bytes"),
        (b'{"prompt": "a", "metadata": ' + b"[" * 30 + b"]" * 30 + b"}", 400, "more than 20 deep"),
        (b'{"metadata": ' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}", 400, "more than 20 deep"),
        (b"[" * 50, 400, "not JSON"),
        (b"[" * 999 + b"]" * 999, 400, "more than 20 deep"),
        (b'{"prompt": "' + b"[" * 500 + b'"}', 200, ""),  # a text may contain any number of brackets
        (b"\xff\xfe", 400, "not JSON"),
        (b"", 400, "not JSON"),
        (b"[]", 400, ""),
    ],
)
def test_bodies_are_bounded(body, status, message):
    async def ask(server, http):
        answer = await http.post("/v1/completions", content=body)
        assert answer.status_code == status and message in answer.text
        assert await becomes_idle(server)

    run(ask, max_body=2000, max_depth=20)


def test_the_error_of_very_deep_json():
    async def ask(server, http):
        answer = await http.post("/v1/completions", content=b"[" * 100_000 + b"]" * 100_000)
        assert answer.status_code == 400 and "more than 256 deep" in answer.json()["error"]["message"]

    run(ask)


def test_a_client_may_leave_within_its_body(capsys: pytest.CaptureFixture[str], caplog):
    with listening(log_format="json") as (_, address):
        with socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])), timeout=20) as client:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        lines = list[str]()
        wait_until(lambda: lines.extend(capsys.readouterr().err.splitlines()) or lines)
    assert json.loads(lines[0])["error"] == "client_gone" and not caplog.records


def test_a_body_that_does_not_come_is_given_up():
    with listening(body_timeout=0.1, uvicorn_options={"timeout_keep_alive": 1}) as (server, address):
        with socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])), timeout=20) as client:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
            answer = read_to_end(client)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert httpx.get(f"{address}/health").status_code == 200 and not server.open_requests


def test_headers_are_bounded():
    with listening(uvicorn_options={"h11_max_incomplete_event_size": 4000}) as (_, address):
        with socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])), timeout=20) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000)
            assert client.recv(13, socket.MSG_WAITALL) == b"HTTP/1.1 400 "
        assert httpx.get(f"{address}/health").status_code == 200


def test_a_proxy_may_add_a_path():
    with listening(uvicorn_options={"root_path": "/llm"}, api_keys=("k",)) as (_, address):
        assert httpx.get(f"{address}/v1/models").status_code == 401
        assert httpx.get(f"{address}/v1/models", headers={"authorization": "Bearer k"}).status_code == 200
        assert httpx.get(f"{address}/health").status_code == 200


def test_aborting_ends_requests_of_the_same_key():
    async def body(server, http):
        one, two = {"authorization": "Bearer k1"}, {"authorization": "Bearer k2"}

        def ask(headers, rid):
            return asyncio.create_task(http.post("/v1/completions", json={**LONG, "rid": rid}, headers=headers))

        with server.engine.driver.lock:
            asked = [ask(one, "a"), ask(one, "b"), ask(two, "a")]
            await until(lambda: len(server.open_requests) == 3)
            done = await http.post("/abort_request", json={"rid": "a"}, headers=one)
            assert done.json() == {"aborted": 1}
            assert (await http.post("/abort_request", json={"rid": "none"}, headers=one)).json() == {"aborted": 0}
            done = await http.post("/abort_request", json={"abort_all": True}, headers=two)
            assert done.json() == {"aborted": 1}
        aborted, answered, other = await asyncio.gather(*asked)
        assert answered.status_code == 200 and answered.text.endswith("data: [DONE]\n\n")
        for each in (aborted, other):
            assert each.status_code == 499 and each.json()["error"]["code"] == "aborted"
        assert await becomes_idle(server)

    run(body, api_keys=("k1", "k2"))


@pytest.mark.parametrize("body", [{}, {"rid": "a", "abort_all": True}, {"id": "a"}, [], {"rid": 3}])
def test_invalid_requests_to_abort_are_refused(body):
    async def ask(server, http):
        answer = await http.post("/abort_request", json=body)
        assert answer.status_code == 400 and answer.json()["error"]["message"]

    run(ask)


def lines_of(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_the_log_has_a_line_for_each_request_and_nothing_of_it(capsys: pytest.CaptureFixture[str]):
    async def body(server, http):
        key = {"authorization": "Bearer secret-2", "x-request-id": "r1"}
        await http.post("/v1/completions", json={"prompt": "SENTINEL", "regex": "SENTINEL[ab]"}, headers=key)
        await http.post("/v1/completions", json={"prompt": "SENTINEL", "regex": "(SENTINEL"}, headers=key)
        await http.post("/v1/completions", json={"prompt": "SENTINEL"}, headers={"authorization": "Bearer SENTINEL"})
        await http.get("/health")

    run(body, api_keys=("secret-1", "secret-2"), log_format="json")
    err = capsys.readouterr().err
    good, refused, nobody, health = lines_of(err)
    assert "SENTINEL" not in err and "secret" not in err
    assert (good["id"], good["key"], good["status"], good["constraint"]) == ("r1", 2, 200, "regex")
    assert (good["prompt_tokens"], good["tokens"], good["finish_reason"]) == (8, 9, ["stop"])
    assert 0 < good["ttft_ms"] / 1e3 <= good["seconds"]
    assert (refused["status"], refused["error"]) == (400, "invalid_specification")
    assert (nobody["status"], nobody["error"]) == (401, "invalid_api_key") and "key" not in nobody
    assert (health["route"], health["method"], health["status"]) == ("/health", "GET", 200)


def test_the_log_has_requests_on_demand(capsys: pytest.CaptureFixture[str]):
    async def body(server, http):
        await http.post("/v1/completions", json={"prompt": "SENTINEL\nx", "max_tokens": 2})

    run(body, log_format="text", log_requests=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and "status=200" in lines[0]
    assert 'request={"prompt": "SENTINEL\\nx", "max_tokens": 2}' in lines[0]


def test_a_defect_is_reported_without_its_message(capsys: pytest.CaptureFixture[str], caplog):
    async def body(server, http):
        def broken(*_):
            raise RuntimeError("SENTINEL")

        server.check_model = broken
        answer = await http.post("/v1/completions", json=SHORT)
        assert answer.status_code == 500 and answer.headers["x-request-id"]
        assert answer.json()["error"]["code"] == "internal_error"
        assert "SENTINEL" not in answer.text
        assert (await http.get("/health")).status_code == 200

    run(body, log_format="json")
    assert "SENTINEL" not in capsys.readouterr().err + caplog.text
    assert "RuntimeError at " in caplog.text
