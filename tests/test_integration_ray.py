"""The parts of the integration with Ray Serve that need no Ray: sessions of prompts, arguments, a replica, and a
missing Ray.
"""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")

from guided.engine.request import Request
from guided.errors import GuidedError
from guided.integrations import ray_serve
from guided.integrations.ray_sessions import PromptSessionMiddleware, beginning_of
from guided.server.engine_thread import EngineStopped
from guided.server.settings import Settings
from tests.server_support import small_engine

SYSTEM, USER = {"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello."}
LATER = [{"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Go on."}]
OTHER = {"role": "user", "content": "Good-bye."}


def passed_on(
    pieces: list[bytes], headers=(), path="/v1/chat/completions", gone=False
) -> tuple[dict[bytes, bytes], bytes]:
    """The headers and the body of a request that an application behind the middleware receives."""
    found = {}

    async def application(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        found.update(headers=dict(scope["headers"]), body=body)

    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.disconnect"} if gone else {"type": "http.request", "body": b""})

    async def receive():
        return messages.pop(0)

    async def send(message):
        raise AssertionError("the application has sent nothing")

    scope = {"type": "http", "path": path, "headers": list(headers)}
    asyncio.run(PromptSessionMiddleware(application)(scope, receive, send))
    assert not messages
    return found["headers"], found["body"]


def session(body, **options) -> bytes | None:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers, seen = passed_on([text[:7], text[7:]], **options)
    assert seen == text
    return headers.get(b"x-session-id")


def test_turns_of_a_conversation_have_one_session():
    first, later = session({"messages": [SYSTEM, USER]}), session({"messages": [SYSTEM, USER, *LATER]})
    assert first == later is not None
    assert len({first, session({"messages": [SYSTEM, OTHER]}), session({"messages": [USER]})}) == 3
    parts = {"role": "user", "content": [{"type": "text", "text": "Hello."}]}
    assert session({"messages": [parts]}) == session({"messages": [parts, *LATER]}) is not None


def test_prompts_of_other_routes():
    assert session({"prompt": "Once"}) == session({"prompt": ["Once", "Twice"]}) is not None
    assert session({"prompt": "a" * 3000}) == session({"prompt": "a" * 2048 + "b"}) != session({"prompt": "a" * 2047})
    assert session({"prompt": [1, 2]}) != session({"prompt": [1, 3]})
    assert session({"input": "Hello."}) != session({"input": "Hello.", "instructions": "Be kind."})
    assert session({"input": [USER]}) == session({"input": [USER, *LATER]})
    system = {"system": [{"type": "text", "text": "Be."}], "messages": [USER]}
    assert session(system) != session({"messages": [USER]}) == session({"messages": [USER, *LATER]})
    assert session(system, path="/v1/messages") == session(system) and session(system, path="/v1/message") is None


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 10_000, b"[]", b"{}", b'{"prompt": ""}', b'{"prompt": null}', b'"\xff"']
)
def test_a_body_without_a_prompt_is_passed_on_without_a_session(body):
    assert session(body) is None


def test_requests_with_a_session_or_without_need_of_one_are_unchanged():
    own = [(b"x-session-id", b"mine")]
    assert session({"messages": [USER]}, headers=own) == b"mine"
    assert session({"prompt": "a"}, path="/tokenize") is None
    assert session({"prompt": "a"}, path="/team/v1/completions") is not None
    assert passed_on([b'{"prompt": "a"'], gone=True) == ({}, b'{"prompt": "a"')


def test_a_long_body_has_no_session_and_reaches_the_application():
    pieces = [b'{"prompt": "', *[b"a" * (1 << 20)] * 6, b'"}']
    headers, body = passed_on(pieces)
    assert headers == {} and body == b"".join(pieces)


def test_another_header_may_be_the_session(monkeypatch):
    monkeypatch.setenv("RAY_SERVE_SESSION_ID_HEADER_KEY", "X-Conversation")
    headers, _ = passed_on([b'{"prompt": "a"}'])
    assert list(headers) == [b"x-conversation"]


def test_a_beginning_is_short():
    assert len(beginning_of({"prompt": list(range(100_000))})) == len(beginning_of({"prompt": "a" * 9999})) == 2048


def test_arguments_of_the_command(monkeypatch):
    monkeypatch.setattr(ray_serve, "build", lambda model, **options: (model, options))
    model, options = ray_serve.app({"model": "m/a.gguf", "num_replicas": "3", "max_body": "1000", "affinity": "true"})
    assert (model, options["num_replicas"], options["affinity"]) == ("m/a.gguf", 3, True)
    assert options["settings"] == Settings(model_name="a", max_body=1000)
    assert options["ray_actor_options"] == {"num_cpus": 1, "num_gpus": 0} and options["engine"]["device"] == "auto"
    assert ray_serve.app({"model": "a", "num_replicas": "auto"})[1]["num_replicas"] == "auto"
    with pytest.raises(TypeError, match="no option 'replicas': did you mean 'num_replicas'"):
        ray_serve.app({"model": "a", "replicas": "3"})
    with pytest.raises(TypeError, match="did you mean 'api_key_file'"):
        ray_serve.app({"model": "a", "api_keys": "secret"})
    for wrong in ({"affinity": "yes"}, {"model": "a", "num_replicas": "0"}, {"model": "a", "max_body": "many"}):
        with pytest.raises(ValueError, match="validation error"):
            ray_serve.app(wrong)


def test_the_error_of_a_missing_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(GuidedError, match=r"pip install 'guided-decoding\[ray\]'"):
        ray_serve.build("shakespeare")


def test_a_replica_reads_its_keys_and_reports_its_engine(tmp_path):
    async def whole():
        replica = ray_serve.Replica(small_engine, Settings(), str(tmp_path / "keys"))
        application = replica.__serve_build_asgi_app__()
        assert application.state.server.settings.api_keys == ("one", "two")
        with pytest.raises(EngineStopped):
            replica.check_health()
        async with application.router.lifespan_context(application):
            assert replica.check_health() is None
            application.state.server.engine.scheduler.step = lambda: 1 / 0
            thread = application.state.server.thread
            thread.submit(Request("a", options={"max_tokens": 3}))
            thread._thread.join(20)
            with pytest.raises(EngineStopped, match="division by zero"):
                replica.check_health()

    (tmp_path / "keys").write_text("one\n\ntwo\n")
    asyncio.run(whole())
    (tmp_path / "keys").write_text("\n")
    with pytest.raises(GuidedError, match="contains no key"):
        ray_serve.Replica(small_engine, Settings(), str(tmp_path / "keys"))
