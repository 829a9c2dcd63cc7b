"""Two replicas of the small engine in a local Ray, called by the official client through Ray's proxy.

The tests do not install Ray. These tests run if it is installed (`pip install -e '.[ray]'`).
"""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from pydantic import BaseModel

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
ray = pytest.importorskip("ray", reason="ray is not installed")
pytest.importorskip("ray.serve", reason="ray[serve] is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from ray import serve  # noqa: E402

from guided.integrations.ray_serve import build  # noqa: E402
from guided.server.settings import Settings  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
SAY = [{"role": "user", "content": "Say something."}]
LONG = {"prompt": "a", "regex": "[a-z]{400}", "max_tokens": 420, "n": 24, "stream": True}
PATIENCE = 150.0  # seconds that any operation may take on a busy machine


class Point(BaseModel):
    x: int
    y: list[bool]


def engine_that_tells(folder: Path):
    """Its process writes the prompts to a file in `folder`. It fails once the file "broken" exists, and removes the
    file at its end.
    """
    engine, mark = small_engine(), folder / f"{os.getpid()}"
    step, encode_prompt = engine.scheduler.step, engine.encode_prompt

    def checked_step():
        if mark.read_text().startswith("broken"):
            raise RuntimeError("a broken engine")
        return step()

    def noted_prompt(prompt, **options):
        with mark.open("a") as file:
            print(prompt, file=file)
        return encode_prompt(prompt, **options)

    engine.scheduler.step, engine.encode_prompt, engine.close = checked_step, noted_prompt, mark.unlink
    mark.write_text("prompts:\n")
    return engine


class Served:
    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.address = folder, f"http://127.0.0.1:{port}"
        self.client = openai.OpenAI(base_url=f"{self.address}/v1", api_key="k", timeout=PATIENCE, max_retries=8)

    def start(self) -> None:
        made = functools.partial(engine_that_tells, self.folder)
        application = build(
            made, settings=Settings(api_keys=("k",)), num_replicas=2, affinity=True,
            health_check_period_s=0.2, health_check_timeout_s=5, graceful_shutdown_wait_loop_s=0.1,
            ray_actor_options={"num_cpus": 0.5},
        )  # fmt: skip
        serve.run(application, name="guided")

    def processes(self) -> set[int]:
        return {int(mark.name) for mark in self.folder.iterdir()}

    def states(self) -> dict[str, int]:
        found = serve.status().applications["guided"].deployments["guided"].replica_states
        return {str(getattr(state, "value", state)): number for state, number in found.items()}


def eventually(holds) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        patch.setenv("RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH", "guided.integrations.ray_sessions:middlewares")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("PYTHONPATH", str(ROOT))
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        found = Served(tmp_path_factory.mktemp("replicas"), port)
        found.start()
        yield found
    finally:
        serve.shutdown()
        ray.shutdown()


def test_the_official_client_gets_answers_and_streams(served):
    answer = served.client.chat.completions.parse(model="guided", messages=SAY, response_format=Point, max_tokens=60)
    assert isinstance(answer.choices[0].message.parsed, Point)
    options = {"model": "guided", "prompt": "a", "max_tokens": 40, "seed": 3, "extra_body": {"regex": "[a-z]{30}"}}
    pieces = [chunk.choices[0].text for chunk in served.client.completions.create(**options, stream=True)]
    assert len(pieces) > 10 and re.fullmatch("[a-z]{30}", "".join(pieces))
    assert "".join(pieces) == served.client.completions.create(**options).choices[0].text
    with pytest.raises(openai.BadRequestError, match="give max_tokens=30 at least"):
        served.client.completions.create(**options | {"max_tokens": 5})
    with pytest.raises(openai.AuthenticationError):
        served.client.with_options(api_key="other").models.list()
    assert served.states() == {"RUNNING": 2} and len(served.processes()) == 2


def test_prompts_that_begin_alike_go_to_one_replica(served):
    """Conversations stay with their replica, and both replicas have some."""
    conversations = [f"The number of this conversation is {number}." for number in range(16)]
    for beginning in conversations:
        messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": beginning}]
        for _ in range(3):
            answer = served.client.chat.completions.create(model="guided", messages=messages, max_tokens=4)
            said = answer.choices[0].message.content
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "Go on."}]
    asked = [(served.folder / str(process)).read_text() for process in served.processes()]
    where = [[prompts.count(beginning) for prompts in asked] for beginning in conversations]
    assert sorted({tuple(counts) for counts in where}) == [(0, 3), (3, 0)]


def test_a_client_that_goes_away_leaves_nothing(served):
    """Its request ends before the 400 steps that the answer would take. There is one session, so one replica gets all
    requests.
    """
    headers = {"Authorization": "Bearer k", "x-session-id": "mine"}
    steps = httpx.get(f"{served.address}/health", headers=headers).json()["step"]
    with httpx.stream("POST", f"{served.address}/v1/completions", json=LONG, headers=headers, timeout=PATIENCE) as left:
        next(left.iter_lines())
    health = dict[str, int]()

    def idle() -> bool:
        health.update(httpx.get(f"{served.address}/health", headers=headers).json())
        return not any(health[what] for what in ("active", "waiting", "prefilling", "pending_submit"))

    assert eventually(idle)
    assert 0 < health["step"] - steps < 400


def test_a_replica_whose_process_is_killed_is_replaced(served):
    before = served.processes()
    killed = min(before)
    os.kill(killed, signal.SIGKILL)
    (served.folder / str(killed)).unlink()
    for number in range(6):  # if the replica is gone, the client tries again
        options = {"max_tokens": 9, "extra_body": {"regex": "[a-z]{6}"}}
        text = served.client.completions.create(model="guided", prompt=f"{number}", **options).choices[0].text
        assert re.fullmatch("[a-z]{6}", text)
    assert eventually(lambda: len(served.processes()) == 2 and served.states() == {"RUNNING": 2})
    assert len(served.processes() & before) == 1


def test_a_replica_whose_engine_has_failed_is_replaced(served):
    before = served.processes()
    broken = min(before)
    (served.folder / str(broken)).write_text("broken\n")
    ask = served.client.with_options(max_retries=0)
    codes = set[str | None]()

    def told() -> bool:
        try:
            ask.completions.create(model="guided", prompt=f"{len(codes)} {time.monotonic()}", max_tokens=3)
        except openai.InternalServerError as error:
            codes.add(error.code)
        return "engine_stopped" in codes

    assert eventually(told)
    assert eventually(lambda: len(served.processes()) == 2 and broken not in served.processes())
    assert eventually(lambda: served.states() == {"RUNNING": 2})
    assert served.client.models.list().data[0].id == "guided"


def test_too_many_requests_get_retry_after(served):
    tight = build(
        small_engine, name="tight", max_ongoing_requests=1, max_queued_requests=1, graceful_shutdown_wait_loop_s=0.1
    )
    serve.run(tight, name="tight", route_prefix="/tight")
    found = list[httpx.Response]()

    def ask() -> None:
        body = LONG | {"stream": False, "n": 6}
        found.append(httpx.post(f"{served.address}/tight/v1/completions", json=body, timeout=PATIENCE))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    serve.delete("tight")
    assert sorted({each.status_code for each in found}) == [200, 503]
    assert all(each.headers["retry-after"] == "1" for each in found if each.status_code == 503)


def test_open_requests_are_answered_when_the_replicas_end(served):
    texts, ends = [""] * LONG["n"], [""] * LONG["n"]
    ending = threading.Thread(target=serve.delete, args=("guided",))
    headers = {"Authorization": "Bearer k"}
    with httpx.stream("POST", f"{served.address}/v1/completions", json=LONG, headers=headers, timeout=PATIENCE) as read:
        for number, line in enumerate(line for line in read.iter_lines() if line.startswith("data: {")):
            if number == 1:
                ending.start()
            choice = json.loads(line.removeprefix("data: "))["choices"][0]
            texts[choice["index"]] += choice["text"]
            ends[choice["index"]] = choice["finish_reason"] or ends[choice["index"]]
    ending.join(PATIENCE)
    assert {*ends} == {"stop"} and all(re.fullmatch("[a-z]{400}", text) for text in texts)
    assert not served.processes()  # the engines were closed
    assert "guided" not in serve.status().applications
