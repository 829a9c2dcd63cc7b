"""Admission: queues, keys, timeouts. Refusals say what helps, and leave nothing in the engine."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("torch", reason="torch is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from guided.server.settings import Settings  # noqa: E402
from tests.live_server import becomes_idle, served, until  # noqa: E402
from tests.server_support import after_tokens  # noqa: E402

LONG = {"prompt": "a", "max_tokens": 300, "ignore_eos": True}
SHORT = {"prompt": "a", "max_tokens": 3}


def post(http, body, **headers):
    return asyncio.create_task(http.post("/v1/completions", json=body, headers=headers))


def told(answer) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["type"], error["code"]


def test_past_the_queue_a_request_is_refused_before_its_body_is_read():
    async def run():
        async with served(max_queued_requests=2) as (server, http):
            with server.engine.driver.lock:  # nothing is admitted
                waiting = [post(http, SHORT), post(http, {**SHORT, "n": 1})]
                await until(lambda: server.admission.queued_outputs == 2)

                async def never():  # a body that never arrives
                    await asyncio.Event().wait()
                    yield b""

                refused = await asyncio.wait_for(http.post("/v1/completions", content=never()), 5)
                assert told(refused) == (503, "ServiceUnavailableError", "overloaded")
                assert refused.headers["retry-after"] == str(Settings().retry_after)
                assert (await http.get("/health")).status_code == 200
            assert [(await each).status_code for each in waiting] == [200, 200]
            assert server.admission.rejections == {"max_queued_requests": 1}
            assert (await post(http, SHORT)).status_code == 200

    asyncio.run(run())


def test_outputs_count_and_what_may_never_wait_is_a_bad_request():
    async def run():
        async with served(max_queued_requests=4) as (server, http):
            many = await post(http, {**SHORT, "prompt": ["a"] * 3, "n": 2})
            assert told(many)[0] == 400 and "6 outputs" in many.json()["error"]["message"]
            with server.engine.driver.lock:
                three = post(http, {**SHORT, "n": 3})
                await until(lambda: server.admission.queued_outputs == 3)
                assert told(await post(http, {**SHORT, "n": 2}))[2] == "overloaded"
                one = post(http, SHORT)
                await until(lambda: server.admission.queued_outputs == 4)
            assert [(await each).status_code for each in (three, one)] == [200, 200]

    asyncio.run(run())


def test_tokens_of_prompts_that_wait_are_bounded_but_one_prompt_always_may():
    async def run():
        async with served(max_queued_tokens=50, queue_timeout=10) as (server, http):
            with server.engine.driver.lock:
                first = post(http, {**SHORT, "prompt": "x" * 80})
                await until(lambda: server.admission.queued_tokens == 80)
                refused = await post(http, {**SHORT, "prompt": "y", "stream": True})
                assert told(refused) == (503, "ServiceUnavailableError", "overloaded")
                assert "80 prompt tokens are already waiting" in refused.json()["error"]["message"]
            assert (await first).status_code == 200
            assert (await post(http, SHORT)).status_code == 200
            assert await becomes_idle(server)

    asyncio.run(run())


def test_a_key_has_its_own_bounds():
    async def run():
        async with served(api_keys=("one", "two"), max_requests_per_key=1, requests_per_minute=3) as (server, http):
            one, two = {"authorization": "Bearer one"}, {"authorization": "Bearer two"}
            with server.engine.driver.lock:
                first = post(http, SHORT, **one)
                await until(lambda: server.admission.queued_outputs == 1)
                refused = await post(http, SHORT, **one)
                assert told(refused) == (429, "RateLimitError", "rate_limit_exceeded")
                assert int(refused.headers["retry-after"]) >= 1
                other = post(http, SHORT, **two)
                await until(lambda: server.admission.queued_outputs == 2)
            assert [(await each).status_code for each in (first, other)] == [200, 200]
            codes = [(await post(http, SHORT, **one)).status_code for _ in range(3)]
            assert codes == [200, 200, 429]  # refused requests do not count
            last = await post(http, SHORT, **one)
            assert last.headers["retry-after"] in ("19", "20") and "3 requests per minute" in last.text
            assert server.admission.rejections == {"max_requests_per_key": 1, "requests_per_minute": 2}

    asyncio.run(run())


def test_the_official_client_knows_both_refusals():
    async def run():
        async with served(api_keys=("k",), requests_per_minute=1, max_queued_requests=1) as (server, http):
            ask = openai.AsyncOpenAI(api_key="k", base_url="http://t/v1", http_client=http, max_retries=0)
            await ask.completions.create(model="guided", **SHORT)
            with pytest.raises(openai.RateLimitError):
                await ask.completions.create(model="guided", **SHORT)
            server.thread.is_draining = True
            with pytest.raises(openai.InternalServerError, match="the server is shutting down"):
                await ask.completions.create(model="guided", **SHORT)

    asyncio.run(run())


def test_retry_after_is_the_time_of_the_queue(monkeypatch: pytest.MonkeyPatch):
    async def run():
        async with served() as (server, _):
            clock = iter([0.0, 2.0, 4.0, 6.0, 8.0])
            monkeypatch.setattr("guided.server.http.admission.monotonic", lambda: next(clock))
            for _ in range(4):
                server.admission.enter(None)
                server.admission.leave(None)
            monkeypatch.setattr(type(server.admission), "queued_outputs", 10)
            assert server.admission.retry_after == 20  # four in eight seconds: ten take twenty

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_waits_only_so_long_for_a_place(stream: bool):
    async def run():
        async with served(max_running=1, queue_timeout=0.1, request_timeout=0) as (server, http):
            engine_step = server.engine.scheduler.step
            long = post(http, LONG)
            await until(lambda: server.engine.scheduler.running_count == 1)
            blocked = asyncio.Event()
            loop = asyncio.get_running_loop()

            def slow():  # the long request keeps its turn
                loop.call_soon_threadsafe(blocked.set)
                return []

            server.engine.scheduler.step = slow
            refused = await post(http, {**SHORT, "stream": stream})
            assert told(refused) == (503, "ServiceUnavailableError", "queue_timeout")
            assert "retry-after" in refused.headers and blocked.is_set()
            server.engine.scheduler.step = engine_step
            assert (await long).status_code == 200
            assert server.admission.timeouts == {"queue_timeout": 1} and await becomes_idle(server)

    asyncio.run(run())


def test_a_request_may_take_only_so_long_in_all():
    async def run():
        async with served(request_timeout=0.2) as (server, http):
            step = server.engine.scheduler.step
            slept = asyncio.Event()
            loop = asyncio.get_running_loop()

            def once():  # some tokens, then none
                server.engine.scheduler.step = lambda: loop.call_soon_threadsafe(slept.set) and []
                return step()

            server.engine.scheduler.step = once
            whole = await post(http, LONG)
            assert told(whole) == (503, "ServiceUnavailableError", "request_timeout")
            server.engine.scheduler.step = step
            assert await becomes_idle(server)

            server.engine.scheduler.step = after_tokens(10, step, list)
            stream = await post(http, {**LONG, "stream": True})
            server.engine.scheduler.step = step
            events = [line for line in stream.text.split("\n\n") if line]
            assert stream.status_code == 200 and events[-1] == "data: [DONE]"
            assert json.loads(events[-2].removeprefix("data: "))["error"]["code"] == "request_timeout"
            assert "text" in events[0] and await becomes_idle(server)

    asyncio.run(run())


def test_a_lower_number_runs_first():
    async def run():
        async with served(max_running=1) as (server, http):
            before = post(http, LONG)  # it is admitted alone, while the others arrive
            await until(lambda: server.engine.scheduler.running_count == 1)
            with server.engine.driver.lock:
                requests = [{**SHORT, "priority": priority} for priority in (5, 0, 3, -2)]
                asked = [asyncio.create_task(http.post("/v1/completions", json=request)) for request in requests]
                await until(lambda: server.admission.queued_outputs == 4)
                tasks = [task for stream in server.thread.open_streams for task in stream.tasks]
                await until(lambda: all(task.future.done() for task in tasks))
            waiting = [task for task in tasks if not task.admission_time]
            _, *answers = await asyncio.gather(before, *asked)
            assert [answer.status_code for answer in answers] == [200] * 4
            assert [task.priority for task in sorted(waiting, key=lambda task: task.admission_time)] == [-2, 0, 3, 5]

    asyncio.run(run())
