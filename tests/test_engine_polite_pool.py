"""Long calls yield to everything else. Otherwise, the pool behaves like any pool."""

from __future__ import annotations

import os
import sys
import threading
from time import monotonic, sleep

import pytest

from guided.engine import polite_pool
from guided.engine.polite_pool import LONG_CALL, PolitePool

WAIT = 20.0


def policy() -> tuple[int, int]:
    thread = threading.get_native_id()
    return os.sched_getscheduler(thread), thread


def after_a_while() -> tuple[int, int]:
    end = monotonic() + WAIT
    while policy()[0] != os.SCHED_IDLE and monotonic() < end:
        sleep(LONG_CALL)
    return policy()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this policy")
def test_a_long_call_gives_way_and_its_thread_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = PolitePool(1, "test")
    monkeypatch.setattr(polite_pool, "LONG_CALL", 2 * WAIT)  # on a busy machine, even short calls take long
    first, thread = pool.submit(policy).result(WAIT)
    assert first == os.SCHED_OTHER
    assert pool.submit(policy).result(WAIT) == (os.SCHED_OTHER, thread), "a short call leaves it as it is"
    monkeypatch.setattr(polite_pool, "LONG_CALL", LONG_CALL)
    assert pool.submit(after_a_while).result(WAIT) == (os.SCHED_IDLE, thread)
    monkeypatch.setattr(polite_pool, "LONG_CALL", 2 * WAIT)
    again, other = pool.submit(policy).result(WAIT)
    assert again == os.SCHED_OTHER and other != thread
    pool.shutdown()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this policy")
def test_long_calls_of_a_batch_do_not_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polite_pool, "LONG_CALL", 0.0)
    pool = PolitePool(1, "test", yields=False)

    def policy_after_checks() -> tuple[int, int]:
        watched.submit(after_a_while).result(WAIT)  # the watch has checked all calls
        return policy()

    watched = PolitePool(1, "watched")
    first, thread = pool.submit(policy_after_checks).result(WAIT)
    assert first == os.SCHED_OTHER
    assert pool.submit(policy).result(WAIT) == (os.SCHED_OTHER, thread)
    pool.yields = True
    assert pool.submit(after_a_while).result(WAIT) == (os.SCHED_IDLE, thread)
    pool.shutdown()
    watched.shutdown()


def test_no_more_run_at_once_than_are_allowed_and_all_run() -> None:
    pool, running, most = PolitePool(2, "test"), [], []

    def work(number: int) -> int:
        running.append(number)
        most.append(len(running))
        sleep(0.002)
        running.remove(number)
        return number

    futures = [pool.submit(work, number) for number in range(50)]
    assert [future.result(WAIT) for future in futures] == list(range(50))
    assert max(most) == 2
    pool.shutdown()


def test_errors_match_a_future() -> None:
    pool = PolitePool(1, "test")
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 // 0).result(WAIT)
    assert pool.submit(lambda: 1).result(WAIT) == 1
    pool.shutdown()


@pytest.mark.parametrize("cancel", [False, True])
def test_shutdown_runs_or_cancels_waiting_jobs(cancel: bool) -> None:
    pool, begun, go_on = PolitePool(1, "test"), threading.Event(), threading.Event()

    def held() -> int:
        begun.set()
        go_on.wait(WAIT)
        return 1

    first = pool.submit(held)
    assert begun.wait(WAIT)
    later = [pool.submit(lambda: 2) for _ in range(3)]
    pool.shutdown(wait=False, cancel_futures=cancel)
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(lambda: 3)
    go_on.set()
    assert first.result(WAIT) == 1
    assert [future.cancelled() or future.result(WAIT) for future in later] == [True if cancel else 2] * 3


def test_shutdown_waits_for_running_and_waiting_jobs() -> None:
    pool, ended = PolitePool(1, "test"), []

    def work(number: int) -> None:
        sleep(0.05)
        ended.append(number)

    for number in range(3):
        pool.submit(work, number)
    pool.shutdown()
    assert ended == [0, 1, 2]


def test_callbacks_of_cancelled_calls_may_use_the_pool() -> None:
    pool, begun, go_on, told = PolitePool(1, "test"), threading.Event(), threading.Event(), []
    pool.submit(lambda: (begun.set(), go_on.wait(WAIT)))
    assert begun.wait(WAIT)

    def refused(_: object) -> None:
        with pytest.raises(RuntimeError, match="closed"):
            pool.submit(int)
        told.append(True)

    pool.submit(int).add_done_callback(refused)
    pool.shutdown(wait=False, cancel_futures=True)
    assert told == [True]
    go_on.set()


def test_a_future_that_was_cancelled_is_left_out() -> None:
    pool, begun, go_on = PolitePool(1, "test"), threading.Event(), threading.Event()
    pool.submit(lambda: (begun.set(), go_on.wait(WAIT)))
    assert begun.wait(WAIT)
    ran: list[int] = []
    second, third = pool.submit(ran.append, 2), pool.submit(ran.append, 3)
    assert second.cancel()
    go_on.set()
    third.result(WAIT)
    assert ran == [3]
    pool.shutdown()
