"""Specifications that take long do not delay other requests, and time out."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from guided.errors import LimitExceeded, UnsupportedError
from guided.server.app import create_app
from guided.server.compile_lanes import CompileLane
from guided.server.preparing import QUICK_SECONDS, CompileTimeout, Preparation, RequestPreparer, with_time_limit
from guided.server.settings import Settings
from tests.live_server import becomes_idle, served, until, wait_until
from tests.server_support import small_engine


def slow_compilations(server, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """From now on, specifications with "slow" in them exceed the time of all lanes but the slow one, in which they wait
    for the event.
    """
    leave, made = threading.Event(), server.thread.preparer._make_steppers

    def compile(request, ids, seconds):
        if "slow" in str(request.constraint):
            if seconds < server.thread.preparer.seconds:
                raise LimitExceeded("seconds", 2 * seconds, seconds)
            assert leave.wait(20)
        return made(request, ids, seconds)

    monkeypatch.setattr(server.thread.preparer, "_make_steppers", compile)
    return leave


def post(http, regex: str, **headers):
    body = {"prompt": "a", "max_tokens": 20} | ({"regex": regex} if regex else {})
    return asyncio.create_task(http.post("/v1/completions", json=body, headers=headers))


def test_a_long_compilation_holds_up_nobody(monkeypatch: pytest.MonkeyPatch):
    async def run():
        async with served() as (server, http):
            leave = slow_compilations(server, monkeypatch)
            bombs = [post(http, f"slow{number}") for number in range(8)]
            await until(lambda: server.thread.preparer.slow_count == 8)
            answers = [await post(http, regex) for regex in ("", "quick", "other[a-z]", "quick")]
            assert [answer.status_code for answer in answers] == [200] * 4
            refused = await post(http, "slow8")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
            assert "retry-after" in refused.headers and not any(bomb.done() for bomb in bombs)
            leave.set()
            texts = [(await bomb).json()["choices"][0]["text"] for bomb in bombs]
            assert texts == [f"slow{number}" for number in range(8)]
            assert server.thread.preparer.slow_count == 0 and await becomes_idle(server)

    asyncio.run(run())


def test_one_key_may_have_two_of_them(monkeypatch: pytest.MonkeyPatch):
    async def run():
        async with served(api_keys=("one", "two")) as (server, http):
            leave = slow_compilations(server, monkeypatch)
            one, two = {"authorization": "Bearer one"}, {"authorization": "Bearer two"}
            first = [post(http, "slow0", **one), post(http, "slow1", **one)]
            await until(lambda: server.thread.preparer.slow_count == 2)
            assert (await post(http, "slow2", **one)).status_code == 503
            other = post(http, "slow3", **two)
            await until(lambda: server.thread.preparer.slow_count == 3)
            assert (await post(http, "quick", **one)).status_code == 200
            leave.set()
            assert [(await each).status_code for each in (*first, other)] == [200] * 3

    asyncio.run(run())


def test_specifications_that_take_too_long_are_bad_requests():
    """A real schema with more work than the time limit allows: the limit is checked during compilation."""
    schema = {
        "allOf": [
            {"anyOf": [{"properties": {f"p{i}_{j}": {"type": "string", "pattern": f"^(a|b)*a(a|b){{{8 + i}}}$"}},
                        "required": [f"p{i}_{j}"]} for j in range(6)]}
            for i in range(12)
        ]
    }  # fmt: skip

    async def run():
        async with served(compile_timeout=0.05) as (server, http):
            refused = await http.post("/v1/completions", json={"prompt": "a", "json_schema": schema})
            error = refused.json()["error"]
            assert (refused.status_code, error["code"]) == (400, "compile_timeout")
            assert "within 0.05 seconds" in error["message"]
            for route, more in (("explain", {}), ("sample", {}), ("step", {"prompt": "a"})):  # they have no time left
                told = await http.post(f"/v1/grammars/{route}", json={"json_schema": schema, **more})
                assert (told.status_code, told.json()["error"]) == (400, error)
            checked = (await http.post("/v1/grammars/check", json={"json_schema": schema})).json()
            assert not checked["valid"] and checked["error"]["message"] == error["message"]
            assert (await post(http, "quick")).status_code == 200 and await becomes_idle(server)
            told = (await http.get("/metrics")).text
            assert 'sglang:num_grammar_timeout_total{engine="0",model_name="guided"} 1.0' in told

    asyncio.run(run())


def test_abandoned_requests_are_not_compiled(monkeypatch: pytest.MonkeyPatch):
    async def run():
        async with served(queue_timeout=0.2) as (server, http):
            leave = slow_compilations(server, monkeypatch)
            asked = [post(http, f"slow{number}") for number in range(3)]
            errors = [(await each).json()["error"] for each in asked]
            assert [error["code"] for error in errors] == ["queue_timeout"] * 3
            reasons = [error["message"].partition(" within 0.2 s")[0] for error in errors]
            compiling, waiting = "the specification was not compiled", "the compilations before this one did not end"
            assert sorted(reasons) == [waiting, waiting, compiling]
            assert await becomes_idle(server)  # one is still being compiled
            compiled = []
            server.thread.preparer.on_compiled = lambda seconds, error: compiled.append(error)
            leave.set()
            await until(lambda: server.thread.preparer.slow_count == 0)
            assert len(compiled) <= 1

    asyncio.run(run())


@pytest.mark.parametrize("lane", ["quick", "slow"])
def test_a_compilation_that_cannot_check_the_time_is_ended_from_outside(monkeypatch: pytest.MonkeyPatch, lane: str):
    """Its thread is inside a long call of the core."""
    monkeypatch.setattr(Preparation, "cpu_seconds", lambda self: 100.0)

    async def run():
        async with served(compile_timeout=QUICK_SECONDS if lane == "quick" else QUICK_SECONDS + 0.1) as (server, http):
            leave, made = threading.Event(), server.thread.preparer._make_steppers

            def compile(request, ids, seconds):
                if not seconds or (lane == "slow" and seconds <= QUICK_SECONDS):
                    raise LimitExceeded("seconds", 2 * seconds, seconds)
                assert leave.wait(20)
                return made(request, ids, seconds)

            monkeypatch.setattr(server.thread.preparer, "_make_steppers", compile)
            errors = list[Exception | None]()
            server.thread.preparer.on_compiled = lambda seconds, error: errors.append(error)
            refused = await post(http, "a+")
            error = refused.json()["error"]
            assert (refused.status_code, error["code"], error["param"]) == (400, "compile_timeout", "regex")
            assert "retry-after" not in refused.headers and await becomes_idle(server)
            leave.set()
            await until(lambda: errors)
            assert isinstance(errors[0], CompileTimeout)  # for the metrics

    asyncio.run(run())


def test_a_compilation_that_gets_no_cpu_time_may_be_retried(monkeypatch: pytest.MonkeyPatch):
    async def run():
        async with served(queue_timeout=1.5, compile_timeout=0.05) as (server, http):
            leave, made = threading.Event(), server.thread.preparer._make_steppers

            def compile(*request):
                assert leave.wait(20)
                return made(*request)

            monkeypatch.setattr(server.thread.preparer, "_make_steppers", compile)
            refused = await post(http, "a+")
            error = refused.json()["error"]
            assert (refused.status_code, error["code"]) == (503, "queue_timeout")
            assert error["message"] == "the specification was not compiled within 1.5 s: retry later"
            leave.set()
            assert await becomes_idle(server)

    asyncio.run(run())


def test_the_cpu_time_of_a_compilation_counts_only_its_thread():
    preparation, begun, leave = Preparation(lambda *_: None), threading.Event(), threading.Event()

    def compute():
        preparation.enter("compilation")
        begun.set()
        while not leave.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    assert begun.wait(20)
    wait_until(lambda: preparation.cpu_seconds() > 0.02)
    leave.set()
    thread.join()


def test_a_prompt_whose_thread_does_not_get_to_run(monkeypatch: pytest.MonkeyPatch):
    async def run():
        async with served(queue_timeout=0.1, request_timeout=0.2) as (server, http):
            leave = threading.Event()
            monkeypatch.setattr(server.engine, "encode_prompt", lambda prompt, raw: leave.wait(20))
            refused = await post(http, "")
            error = refused.json()["error"]
            assert (refused.status_code, error["code"]) == (503, "queue_timeout")
            assert error["message"] == "the prompt was not read within 0.1 s: retry later"
            refused = await http.post("/tokenize", json={"prompt": "a"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "request_timeout")
            leave.set()
            assert await becomes_idle(server)

    asyncio.run(run())


def test_known_grammars_are_found_by_all_lanes():
    async def run():
        async with served() as (server, http):
            await post(http, "[a-z]{3}")
            hits = server.engine.compiler.cache.hits
            await post(http, "[a-z]{3}")
            assert server.engine.compiler.cache.hits == hits + 1

    asyncio.run(run())


def test_cached_grammars_do_not_wait_for_compilations(monkeypatch: pytest.MonkeyPatch):
    """Neither do their errors. All threads that compile are busy."""

    async def run():
        async with served() as (server, http):
            assert (await post(http, "[a-z]{3}")).status_code == 200
            leave, made = threading.Event(), server.thread.preparer._make_steppers

            def compile(request, ids, seconds):
                assert not seconds or leave.wait(20)
                return made(request, ids, seconds)

            monkeypatch.setattr(server.thread.preparer, "_make_steppers", compile)
            waiting = [post(http, f"other{number}") for number in range(20)]
            await until(lambda: server.thread.preparer.compile_lanes[1].request_count == 20)
            assert (await post(http, "[a-z]{3}")).status_code == 200
            refused = await http.post("/v1/completions", json={"prompt": "a", "max_tokens": 1, "regex": "[a-z]{3}"})
            assert refused.json()["error"]["code"] == "max_tokens_too_small"
            assert not any(each.done() for each in waiting)
            leave.set()
            assert [(await each).status_code for each in waiting] == [200] * 20

    asyncio.run(run())


@pytest.mark.parametrize("max_requests", [None, 9])
def test_keys_take_turns_in_a_lane(max_requests: int | None):
    lane, leave, order = CompileLane(1.0, 1, max_requests), threading.Event(), []
    lane.submit("", lambda: leave.wait(20))
    wait_until(lambda: not lane._queues)
    for owner, number in (("one", 0), ("one", 1), ("one", 2), ("two", 0), ("", 0), ("two", 1)):
        assert lane.submit(owner, lambda owner=owner, number=number: order.append((owner, number)))
    assert lane.request_count == 7
    leave.set()
    wait_until(lambda: not lane.request_count)
    assert [owner for owner, _ in order] == ["one", "two", "", "one", "two", "one"]
    numbers = [number for owner, number in order if owner == "one"]
    assert numbers == ([2, 1, 0] if max_requests is None else [0, 1, 2])  # the newest, or the oldest first
    lane.close()


def test_a_lane_may_be_full():
    lane, leave, ended = CompileLane(1.0, 1, max_requests=4, max_per_key=2), threading.Event(), []

    def call() -> None:
        assert leave.wait(20)
        ended.append(1)

    assert [lane.submit(owner, call) for owner in ("one", "one", "one", "", "", "")] == [True] * 2 + [False] + [
        True, True, False,
    ]  # fmt: skip
    leave.set()
    wait_until(lambda: not lane.request_count)
    assert len(ended) == 4 and lane.submit("one", call)
    wait_until(lambda: len(ended) == 5)
    lane.close()


@pytest.mark.parametrize("is_known", [False, True])
def test_canonical_requests_never_run_on_the_reader(monkeypatch: pytest.MonkeyPatch, is_known: bool):
    """Neither their tables nor their masks are computed on the thread that reads prompts."""
    threads = dict[str, str]()
    monkeypatch.setattr("guided.server.preparing.is_spelling_known", lambda vocabulary: is_known)

    def spelling_of(vocabulary):
        threads["tables"] = threading.current_thread().name
        raise UnsupportedError("no tables")

    monkeypatch.setattr("guided.server.preparing.spelling_of", spelling_of)

    async def run():
        async with served() as (server, http):
            made = server.thread.preparer._make_steppers

            def compile(request, ids, seconds):
                threads[f"{seconds:g}"] = threading.current_thread().name
                return made(request, ids, seconds)

            monkeypatch.setattr(server.thread.preparer, "_make_steppers", compile)
            refused = await http.post("/v1/completions", json={"prompt": "a", "max_tokens": 2, "canonical": True})
            assert "canonical tokens of this tokenizer are unknown" in refused.json()["error"]["message"]
            assert threads.keys() == {"0", f"{QUICK_SECONDS:g}"} | (set() if is_known else {"tables"})
            assert all("compiler" in name for name in threads.values())
            threads.clear()
            assert (await post(http, "")).status_code == 200
            assert all("reader" in name for name in threads.values())

    asyncio.run(run())


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux alone")
def test_all_threads_that_compile_give_way():
    preparing = RequestPreparer(small_engine())

    for lane in preparing.compile_lanes:
        there = lane.pool.submit(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        assert there.result() == 10
    preparing.close()


def test_the_memory_of_a_grammar_is_a_setting() -> None:
    """Beyond it, states are computed again. The answers do not change."""
    engine = small_engine()
    create_app(engine, Settings(grammar_memory=1 << 16))
    assert engine.compiler.limits.memory == 1 << 16
    limits = with_time_limit(engine.compiler, 1.0).limits
    assert (limits.memory, limits.seconds) == (1 << 16, 1.0)


def test_a_folder_for_grammars_is_a_setting(tmp_path) -> None:
    """A second server reads what the first one has compiled, whatever its time limit was."""
    for seconds in (1.0, 2.0):
        engine = small_engine()
        create_app(engine, Settings(grammar_cache=str(tmp_path)))
        with_time_limit(engine.compiler, seconds).compile_regex("[a-c]+")
        assert [path.suffix for path in tmp_path.iterdir()] == [".grammar"]
