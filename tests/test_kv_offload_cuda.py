"""The streams and events of CUDA copies, simulated on the CPU: copies run as late as events allow.

Computation runs at once, as on the host. Whether a copy waits for it is checked when the copy is launched.
"""

from __future__ import annotations

import inspect
import random
from collections import deque
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.kv.offload.cache import OffloadCache
from guided.kv.offload.copy_engine import CheckedCopies, CopyEngine
from guided.kv.offload.cuda_copies import CudaCopies
from tests.effort import examples
from tests.test_kv_caches import SHAPE, walk


class Marker:
    """A position in a stream."""

    def __init__(self, stream):
        self.stream, self.passed = stream, False

    def reach(self):
        while not self.passed:
            self.stream.go_on()


class Stream:
    """Work that was launched and has not run. `caught_up`: all computation so far precedes later launches."""

    def __init__(self, device=None):
        self.queue, self.caught_up = deque(), True
        STREAMS.append(self)

    def launch(self, copy):
        assert self.caught_up, "what is copied, or overwritten, may still be computed with"
        self.queue.append(copy)

    def go_on(self):
        self.queue.popleft()()

    def wait_stream(self, other):
        assert other is COMPUTE
        self.caught_up = True

    def wait_event(self, event):
        self.queue.append(event.marker.reach)


class Compute(Stream):
    def wait_event(self, event):
        event.marker.reach()


class Event:
    def record(self, stream):
        self.marker = marker = Marker(stream)

        def passed():
            marker.passed = True

        stream.queue.append(passed)


STREAMS: list[Stream] = []
COMPUTE = Compute()
NOW = [COMPUTE]


@contextmanager
def on(stream):
    NOW.append(stream)
    yield
    NOW.pop()


class Played(CudaCopies):
    """Launched copies; some of them run earlier than they must."""

    def __init__(self, *args, rng):
        STREAMS.clear()
        super().__init__(*args)
        self.rng, self.often = rng, rng.choice([0.0, 0.3, 1.0])

    def copy_to_device(self, *args):
        NOW[-1].launch(partial(super().copy_to_device, *args))

    def copy_to_cpu(self, *args):
        NOW[-1].launch(partial(super().copy_to_cpu, *args))

    def write(self, *args):
        self.compute()
        super().write(*args)

    def read(self, *args):
        self.compute()
        return super().read(*args)

    def compute(self):
        for stream in STREAMS:
            stream.caught_up = False
            while stream.queue and self.rng.random() < self.often:
                stream.go_on()


@pytest.fixture
def cuda(monkeypatch):
    def synchronize(device):
        for stream in STREAMS:
            while stream.queue:
                stream.go_on()

    played = {"Stream": Stream, "Event": Event, "stream": on, "current_stream": lambda _: COMPUTE}
    for name, value in (played | {"synchronize": synchronize}).items():
        monkeypatch.setattr(torch.cuda, name, value)


def run(rng: random.Random, kind=Played) -> None:
    slots, size, device = rng.randrange(2, 6), rng.randrange(1, 6), rng.choice([0, 2])
    copies = kind(SHAPE, slots + device, 30, size, rng=rng)
    walk(OffloadCache(SHAPE, 30, slots, size, device_blocks=device, copies=copies), rng, look=0.3)


@pytest.mark.usefixtures("cuda")
def test_each_sequence_reads_its_own_past():
    @examples(15)
    @given(st.randoms(use_true_random=False))
    def check(rng):
        run(rng)

    check()


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("what", ["wait_slot_layer", "wait_offload_layer"])
def test_a_missing_wait_is_found(what):
    forgetful = type("Forgetful", (Played,), {what: lambda *_: None})
    with pytest.raises(AssertionError):
        for seed in range(40):
            run(random.Random(seed), forgetful)


@pytest.mark.usefixtures("cuda")
def test_events_are_by_slot_and_layer():
    copies = Played(SHAPE, 3, 4, 2, rng=random.Random(1))
    for events in (copies.ring_slot_ready, copies.ring_slot_offload_done):
        assert [len(row) for row in events] == [SHAPE.layers] * 3
        assert len({id(event) for row in events for event in row}) == 3 * SHAPE.layers


def test_both_engines_are_called_alike():
    public = [one for one in inspect.getmembers(CopyEngine, inspect.isfunction) if not one[0].startswith("_")]
    assert len(public) > 1
    for name, one in public:
        assert inspect.signature(one) == inspect.signature(getattr(CheckedCopies, name)), name
        assert inspect.signature(one) == inspect.signature(getattr(CudaCopies, name)), name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_the_device():
    from dataclasses import replace

    shape = replace(SHAPE, device=torch.device("cuda"))
    for seed in range(20):
        rng = random.Random(seed)
        cache = OffloadCache(shape, 30, rng.randrange(2, 6), rng.randrange(1, 6))
        walk(cache, rng, look=0.3)
