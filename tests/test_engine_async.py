"""The asynchronous methods: the same results, one batch for coroutines and threads, and cancelling frees everything."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import guided  # noqa: E402
from guided.engine.engine import Engine  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

OPTIONS: dict[str, Any] = {"max_tokens": 40, "temperature": 1.0}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return small_engine()


def run(body: Any) -> Any:
    return asyncio.run(asyncio.wait_for(body, 60))


def is_idle(engine: Engine) -> bool:
    with engine.driver.lock:
        return not engine.scheduler


def test_results_match_the_synchronous_methods(engine: Engine):
    async def body() -> list[Any]:
        one, several, batch = await asyncio.gather(
            engine.agenerate("a", "[a-z]{5,30}", seed=1, **OPTIONS),
            engine.agenerate("b", "[0-9]{5,30}", n=3, seed=2, **OPTIONS),
            engine.agenerate_batch(["c", "d"], constraints=["x{3,9}", None], seed=3, **OPTIONS),
        )
        events = [event async for event in engine.astream("e", list[int], seed=4, **OPTIONS)]
        return [one, *several, *batch, events[-1].result, "".join(event.text for event in events)]

    got = run(body())
    expected = [
        engine.generate("a", "[a-z]{5,30}", seed=1, **OPTIONS),
        *engine.generate("b", "[0-9]{5,30}", n=3, seed=2, **OPTIONS),
        *engine.generate_batch(["c", "d"], constraints=["x{3,9}", None], seed=3, **OPTIONS),
        engine.generate("e", list[int], seed=4, **OPTIONS),
    ]
    assert [result.tokens for result in got[:-1]] == [result.tokens for result in expected]
    assert got[-1] == expected[-1].text and got[-2].value == expected[-1].value
    assert is_idle(engine)


def test_errors_are_raised_where_they_are_awaited(engine: Engine):
    async def body() -> None:
        with pytest.raises(guided.SpecError):
            await engine.agenerate("a", "[")
        with pytest.raises(guided.BudgetError):
            await engine.agenerate_batch(["a", "b"], "x{50}", max_tokens=20)
        with pytest.raises(guided.OptionError):
            async for _ in engine.astream("a", temperature=-1.0):
                pass
        with pytest.raises(TypeError, match="did you mean 'max_tokens'"):
            await engine.agenerate("a", max_token=3)
        with pytest.raises(TypeError, match="a list of prompts"):
            await engine.agenerate_batch("ab")

    run(body())
    assert is_idle(engine)


def test_cancelling_a_task_cancels_its_request(engine: Engine):
    async def body() -> None:
        started = asyncio.Event()

        async def endless() -> None:
            async for event in engine.astream("a", "[a-z]{500}", max_tokens=550):
                if event.text:
                    started.set()

        tasks = [asyncio.create_task(endless()) for _ in range(3)]
        waiting = asyncio.create_task(engine.agenerate("b", "[a-z]{500}", max_tokens=550))
        await started.wait()
        for task in (*tasks, waiting):
            task.cancel()
        assert all(
            isinstance(end, asyncio.CancelledError)
            for end in await asyncio.gather(*tasks, waiting, return_exceptions=True)
        )
        assert (await engine.agenerate("c", "d{9}")).text == "d" * 9  # after the cancellations

    run(body())
    assert is_idle(engine)


def test_a_closed_stream_ends_its_request(engine: Engine):
    async def body() -> None:
        events = engine.astream("a", "[a-z]{500}", max_tokens=550)
        await anext(events)
        await events.aclose()
        await engine.agenerate("c", "d{9}")

    run(body())
    assert is_idle(engine)


def test_loops_and_threads_share_an_engine(engine: Engine):
    expected = engine.generate("a", "[a-z]{20}", seed=5, **OPTIONS).text

    def synchronous() -> str:
        return engine.generate("a", "[a-z]{20}", seed=5, **OPTIONS).text

    def loop() -> list[str]:
        async def body() -> list[str]:
            results = await asyncio.gather(*(engine.agenerate("a", "[a-z]{20}", seed=5, **OPTIONS) for _ in range(4)))
            return [result.text for result in results]

        return run(body())

    with ThreadPoolExecutor(4) as pool:
        texts = [pool.submit(synchronous) for _ in range(4)]
        loops = [pool.submit(loop) for _ in range(3)]
    assert {future.result() for future in texts} == {expected}
    assert {text for future in loops for text in future.result()} == {expected}
    assert is_idle(engine)


def test_the_thread_ends_when_nothing_is_left(engine: Engine):
    run(engine.agenerate("a", "b{3}"))
    for thread in threading.enumerate():
        if thread.name == "guided steps":
            thread.join(10)
            assert not thread.is_alive()


def test_a_loop_that_is_gone_holds_nothing(engine: Engine):
    """The event loop is closed while its request runs. The request is cancelled at its next event."""

    async def body() -> None:
        events = engine.astream("a", "[a-z]{500}", max_tokens=550)
        await anext(events)
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.stop)
        kept.append(events)

    kept: list[Any] = []
    loop = asyncio.new_event_loop()
    task = loop.create_task(body())
    loop.run_forever()
    loop.close()
    assert engine.generate("c", "d{9}").text == "d" * 9
    for thread in threading.enumerate():
        if thread.name == "guided steps":
            thread.join(20)
    assert is_idle(engine)
    assert task.done()
    kept.clear()


def test_a_step_that_fails_ends_all_waiting_requests(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    async def body() -> None:
        def fail() -> Any:
            raise MemoryError("no memory for a step")

        with monkeypatch.context() as patch:
            patch.setattr(engine.scheduler, "step", fail)
            ends = await asyncio.gather(
                engine.agenerate("a", "b{3}"), engine.agenerate("c", "d{3}"), return_exceptions=True
            )
            assert [str(end) for end in ends] == ["no memory for a step"] * 2
        assert (await engine.agenerate("a", "b{3}")).text == "bbb"

    run(body())
    assert is_idle(engine)
