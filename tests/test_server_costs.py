"""The cost of a body is proportional to its size and bounded, and shorter bodies do not wait for longer ones."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import tracemalloc

import pytest
from pydantic import ValidationError

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

import guided.server.routes.openai as route
from guided import GuidedError
from guided.engine.stopping import Stops, StopSearch
from guided.sampling.params import SamplingParams
from guided.server.http.body_limits import _check_messages, _parse_json
from guided.server.http.errors import RequestError
from guided.server.http.lanes import MAX_SMALL_BODY_BYTES, BodyThreads
from guided.server.openai.completion_request import CompletionRequest
from guided.server.openai.reading import read_request
from guided.server.openai.requests import ChatRequest
from guided.server.openai.responses_request import InputTokensRequest
from guided.server.preparing import RequestPreparer
from guided.server.routes.openai import prepare_request
from guided.server.server import Server
from guided.server.settings import Settings
from tests.body_fields import BODIES, SAY
from tests.live_server import served
from tests.server_support import small_engine

SERVER = Server(small_engine(context=20_000), Settings())
PREPARING = RequestPreparer(SERVER.engine, 5.0)
NAMES = [f"{kind.__name__} {name}" for kind, name, _ in BODIES]


def read_all(kind, data: bytes) -> None:
    """All work on a body before the model's first step. A refusal ends it."""
    try:
        body = _parse_json(bytearray(data), 256)
        _check_messages(body, SERVER.settings.max_messages)
        asked = read_request(kind, body)
        if isinstance(asked, InputTokensRequest):
            asked = asked.to_chat_request()
        if isinstance(asked, ChatRequest | CompletionRequest):
            for part in prepare_request(SERVER, asked).engine_requests[:1]:
                ids = SERVER.engine.encode_prompt(part.prompt, raw=part.options.get("raw", False))
                PREPARING._make_steppers(part, ids, 0.5)
    except (GuidedError, RequestError, ValidationError) as error:
        assert len(str(error)) < 5000, "it repeats what was sent"


def calls_of(kind, data: bytes) -> int:
    """The number of calls of Python and C functions."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        read_all(kind, data)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(("kind", "make"), [(kind, make) for kind, _, make in BODIES], ids=NAMES)
def test_the_work_for_a_body_grows_with_its_size(kind, make):
    """Four times the bytes need at most four times the calls, apart from the fixed cost of all bodies."""
    small, large = (json.dumps(make(size)).encode() for size in (8_000, 32_000))
    for body in (small, large):
        read_all(kind, body)  # one-time initialisation, and the check of a new sequence of roles
    few, many = calls_of(kind, small), calls_of(kind, large)
    assert many <= 4.4 * few + 3000
    assert many <= 30 * len(large), "some calls for each byte"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "make"), [(kind, make) for kind, _, make in BODIES], ids=NAMES)
def test_the_largest_bodies_take_seconds_and_some_times_their_memory(kind, make):
    taken = []
    for size in (1_000_000, 4_000_000):
        data = json.dumps(make(size - 1000), separators=(",", ":")).encode()[: 4 << 20]
        begin = time.thread_time()
        read_all(kind, data)
        taken.append(time.thread_time() - begin)
    assert taken[1] < 12 * taken[0] + 1 and taken[1] < 15
    tracemalloc.start()
    read_all(kind, json.dumps(make(300_000)).encode())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * 300_000


# ---- bounds
PARTS = [{"type": "text", "text": "a"}] * 10
CALLS = [{"id": "1", "function": {"name": "f", "arguments": "{}"}}] * 9


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", {"messages": SAY * 11}, "messages"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": PARTS}]}, "messages"),
        ("/v1/chat/completions", {"messages": [*SAY, {"role": "assistant", "tool_calls": CALLS}]}, "messages"),
        ("/v1/responses", {"input": SAY * 11}, "input"),
        ("/v1/responses/input_tokens", {"input": SAY * 11}, "input"),
        ("/tokenize", {"messages": SAY * 11}, "messages"),
        ("/v1/grammars/step", {"messages": SAY * 11, "regex": "a"}, "messages"),
    ],
)  # fmt: skip
def test_messages_are_bounded(path, body, param):
    async def run():
        async with served(max_messages=10) as (server, http):
            for small in (0, 1 << 30):
                server.bodies.max_inline_bytes = small
                answer = await http.post(path, json=body)
                error = answer.json()["error"]
                assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_request", param)
                assert "11 messages" in error["message"] and "at most 10" in error["message"]
            few = {name: value if name != param else SAY * 10 for name, value in body.items()}
            assert (await http.post(path, json=few)).status_code == 200

    asyncio.run(run())


def test_lanes_hold_bodies_of_at_most_four_times_their_size():
    lanes = BodyThreads()
    sizes = [0, 1, *(4**power * MAX_SMALL_BODY_BYTES + more for power in range(5) for more in (0, 1)), 1 << 40]
    numbers = [lanes._executors.index(lanes.executor_for(size)) for size in sizes]
    assert numbers == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    lanes.close()


@pytest.mark.parametrize("place", ["body", "prompt"])
def test_shorter_bodies_do_not_wait_for_longer_ones(monkeypatch, place):
    """While the longest one is read, as a body or as a prompt, all bodies of shorter lanes are answered."""
    inside, leave = threading.Event(), threading.Event()

    def held(original, is_long):
        def call(*args, **kwargs):
            if is_long(args):
                inside.set()
                assert leave.wait(30)
            return original(*args, **kwargs)

        return call

    def body(size: int) -> dict:
        return {"messages": SAY, "user": "u" * size, "regex": "ab", "metadata": {"long": size > 1_000_000}}

    async def run():
        async with served() as (server, http):
            if place == "body":
                is_long = lambda args: args[1].get("metadata") == {"long": True}  # noqa: E731
                monkeypatch.setattr(route, "read_request", held(route.read_request, is_long))
            else:
                monkeypatch.setattr(
                    server.engine, "encode_prompt", held(server.engine.encode_prompt, lambda _: not inside.is_set())
                )
            long = asyncio.create_task(http.post("/v1/chat/completions", json=body(3_000_000)))
            while not inside.is_set():
                await asyncio.sleep(0.005)
            for size in (1, 40_000, 200_000, 1_000_000):
                answer = await http.post("/v1/chat/completions", json=body(size))
                assert answer.json()["choices"][0]["message"]["content"] == "ab" and not long.done()
            assert (await http.post("/tokenize", json={"prompt": "a"})).status_code == 200
            leave.set()
            assert (await long).status_code == 200

    asyncio.run(run())


# ---- what a request costs while it runs


def test_long_stops_cost_a_step_for_each_character():
    """Not one for each character of the stop, however much of it occurs in the text."""
    stops = Stops(texts=["a" * 3000 + str(number) for number in range(20)])
    watch, calls = StopSearch(stops), 0

    def note(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        for _ in range(2000):
            assert watch.read("a") is None
    finally:
        sys.setprofile(None)
    assert watch.decided_length == 0 and calls < 2000 * 20 * 12


def test_samples_share_the_ids_of_their_request():
    params = SamplingParams(logit_bias={1: 2.0}, allowed_token_ids=range(1000), seed=5)
    others = [params.sample(index) for index in range(3)] + [params.at(0.5)]
    assert all(other.allowed_token_ids is params.allowed_token_ids for other in others)
    assert all(other.logit_bias is params.logit_bias and other.shared is params.shared for other in others)
    assert [other.seed for other in others] == [5, 6, 7, 5] and others[3].temperature == 0.5
