"""The thread that runs an engine for an event loop: answers equal those of the engine, and cancelled requests leave
nothing.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from guided.engine.request import Request  # noqa: E402 - needs torch
from guided.engine.threads import SWITCH_SECONDS  # noqa: E402
from guided.errors import SpecError  # noqa: E402
from guided.server.engine_thread import EngineStopped, EngineThread  # noqa: E402
from tests.server_support import small_engine  # noqa: E402


def idle(engine) -> bool:
    return not engine.scheduler and not engine.driver._callbacks


async def text_of(stream) -> list[str]:
    texts: dict[int, str] = {}
    async for number, event in stream:
        texts[number] = texts.get(number, "") + event.text
        if event.result is not None:
            assert texts[number] == event.result.text
    return [texts[number] for number in sorted(texts)]


def test_answers_match_the_engine():
    engine, rng = small_engine(), random.Random(3)
    requests = [
        Request(f"prompt {i}", [None, "[a-z]{3,9}", {"type": "integer"}, ["yes", "no"]][i % 4], n=1 + i % 3,
                options={"max_tokens": 12, "seed": i, "temperature": 1.5})
        for i in range(24)
    ]  # fmt: skip
    wanted = [
        [each.text for each in (found if isinstance(found, list) else [found])]
        for found in (engine.generate(r.prompt, r.constraint, n=r.n, **r.options) for r in requests)
    ]

    async def ask(thread, request):
        await asyncio.sleep(rng.random() / 20)
        return await text_of(thread.submit(request, priority=rng.randrange(3)))

    async def run():
        with EngineThread(engine) as thread:
            found = await asyncio.gather(*(ask(thread, request) for request in requests))
            assert thread.request_count == 0 and thread.steps > 0
            return found

    assert asyncio.run(run()) == wanted
    assert idle(engine)


def test_long_calls_yield_only_where_users_read_streams():
    batch, served, coroutines = small_engine(), small_engine(), small_engine()
    batch.generate("prompt", "[a-z]{3,9}", max_tokens=12)
    EngineThread(served)
    asyncio.run(coroutines.agenerate("prompt", "[a-z]{3,9}", max_tokens=12))
    yields = [(engine._pool.yields, engine.scheduler.background_steps.yields) for engine in (batch, served, coroutines)]
    assert yields == [(False, False), (True, True), (True, True)]


def test_two_streams_interleave():
    """Each step has a token of both, and the loop receives both together."""
    engine, ready = small_engine(), threading.Event()
    step = engine.driver.step
    engine.driver.step = lambda: ready.wait(30) and step()

    async def run():
        order = []
        with EngineThread(engine) as thread:
            streams = [thread.submit(Request(name, options={"max_tokens": 200, "ignore_eos": True})) for name in "ab"]
            for name, stream in zip("ab", streams, strict=True):
                stream.put = lambda *it, name=name, put=stream.put: (order.append(name), put(*it))
            for stream in streams:  # both begin with the first step
                await asyncio.wrap_future(stream.tasks[0].future)
            ready.set()
            await asyncio.gather(*map(text_of, streams))
        return order

    order = asyncio.run(run())
    assert order.count("a") == order.count("b") == 201
    assert sum(one != other for one, other in pairwise(order)) == len(order) - 3  # the last step ends both, one by one


@pytest.mark.parametrize(("interval", "most"), [(0, 1), (1, 61), (7, 12), (1000, 2)])
def test_a_stream_gets_events_at_intervals_and_at_its_begin_and_end(interval: int, most: int):
    """Fewer deliveries have the same content, and the time of each token is known."""
    engine = small_engine()
    request = Request("a", options={"max_tokens": 60, "ignore_eos": True, "seed": 1, "temperature": 1.0})

    async def run():
        with EngineThread(engine) as thread:
            times, told, deliver = [], [], thread._deliver
            thread.observers.append(lambda stream, task, outcome, now: times.append(now))
            thread._deliver = lambda outcomes: (told.append(len(outcomes)), deliver(outcomes))
            [text] = await text_of(thread.submit(request, interval=interval))
            return text, told, times

    text, told, times = asyncio.run(run())
    assert text == engine.generate("a", max_tokens=60, ignore_eos=True, seed=1, temperature=1.0).text
    assert len(told) <= most and sum(told) == len(times)
    assert interval == 0 or told[0] == 1
    assert times == sorted(times) and len(set(times)) > 50


@pytest.mark.parametrize("read", [0, 1, 5])
def test_a_cancelled_request_stops_within_a_step(read: int):
    engine = small_engine()

    async def run():
        with EngineThread(engine) as thread:
            stream = thread.submit(Request("a", options={"max_tokens": 300, "ignore_eos": True}))
            events = aiter(stream)
            for _ in range(read):
                await anext(events)
            stream.cancel()
            steps = thread.steps
            other = await text_of(thread.submit(Request("b", ["yes"])))
            assert thread.request_count == 0
            return other, thread.steps - steps

    other, steps = asyncio.run(run())
    assert other == ["yes"] and steps < 20
    assert idle(engine)


def test_an_error_of_one_request_is_its_own():
    async def run():
        with EngineThread(small_engine()) as thread:
            good = thread.submit(Request("a", "[a-z]{4}", options={"max_tokens": 8}))
            bad = thread.submit(Request("a", "[a-z", options={"max_tokens": 8}))
            with pytest.raises(SpecError, match="close the set"):
                await text_of(bad)
            return await text_of(good)

    assert len(asyncio.run(run())[0]) == 4


def test_a_step_that_fails_ends_every_stream(monkeypatch: pytest.MonkeyPatch):
    engine = small_engine()

    async def run():
        with EngineThread(engine) as thread:
            streams = [thread.submit(Request(name, options={"max_tokens": 300, "ignore_eos": True})) for name in "abc"]
            await anext(aiter(streams[0]))
            monkeypatch.setattr(engine.scheduler, "step", lambda: 1 / 0)
            for stream in streams:
                with pytest.raises(EngineStopped, match="division"):
                    await text_of(stream)
            assert not thread.is_alive and isinstance(thread.failure, ZeroDivisionError)
            with pytest.raises(EngineStopped, match="division"):
                thread.submit(Request("a"))

    asyncio.run(run())


def test_stopping_ends_open_streams():
    async def run():
        thread = EngineThread(small_engine())
        with thread:
            stream = thread.submit(Request("a", options={"max_tokens": 300, "ignore_eos": True}))
            await anext(aiter(stream))
        with pytest.raises(EngineStopped, match="has stopped"):
            await text_of(stream)

    asyncio.run(run())


def test_the_lock_of_python_is_given_up_early_while_it_runs():
    """Otherwise a compiling thread would delay each operation of a step by 5 ms."""
    before = sys.getswitchinterval()

    async def run():
        with EngineThread(small_engine()):
            assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
        assert sys.getswitchinterval() == pytest.approx(before)

    asyncio.run(run())
