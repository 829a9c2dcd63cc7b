"""A model that several processes compute: outputs are those of one process, and whoever is lost is reported."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from guided.engine.engine import Engine
from guided.engine.ranks.commands import Command, Copy, Open, Step, hear, tell
from guided.engine.ranks.leader import Ranks
from guided.errors import GuidedError, UnsupportedError
from guided.models.llama import LlamaConfig
from tests.llama_support import LETTERS, write_directory

pytest.importorskip("safetensors")
torch.set_num_threads(1)
CONFIG = LlamaConfig(
    layers=3, dim=32, heads=4, kv_heads=2, head_dim=8, hidden=64, vocab_size=len(LETTERS) + 1, context=256, qk_norm=True
)
SCHEMA = {"enum": ["yes: no", "no. yes", "perhaps"]}
PROMPTS = ["the cat sat on the mat. ", "a", "the cat sat on the map", "so: ", "the cat sat on the mat. the dog"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("llama")
    write_directory(path, CONFIG, tied=False, seed=5)
    return path


@pytest.fixture(scope="module")
def alone(directory) -> Engine:
    return Engine.from_pretrained(directory, dtype="float32")


@pytest.fixture(scope="module", params=[(2, 1), (1, 3)], ids=["tensor", "pipeline"])
def engine(request, directory):
    tensor, pipeline = request.param
    engine = Engine.from_pretrained(directory, dtype="float32", tensor_parallel=tensor, pipeline_parallel=pipeline)
    yield engine
    engine.close()


def requests() -> list[dict]:
    """Greedy and sampled, free and constrained."""
    rng = random.Random(1)
    made = []
    for number in range(12):
        constraint = rng.choice([None, "[a-z]+: [a-z ]{5,}[.]", SCHEMA])
        temperature = rng.choice([0.0, 1.0])
        made.append({"prompt": rng.choice(PROMPTS), "constraint": constraint, "temperature": temperature})
        made[-1] |= {"seed": number, "max_tokens": rng.choice([20, 60]), "drafts": rng.choice([0, 0, 3])}
    return made


def test_outputs_are_those_of_one_process(engine, alone) -> None:
    for request in requests():
        assert engine.generate(**request).tokens == alone.generate(**request).tokens


def test_a_batch_equals_its_singles(engine) -> None:
    batch = [dict(request, max_tokens=30, drafts=0) for request in requests()]
    constraints = [request.pop("constraint") for request in batch]
    prompts = [request.pop("prompt") for request in batch]
    together = engine.generate_batch(prompts, constraints=constraints, max_tokens=30, temperature=1.0, seed=3)
    for prompt, constraint, result in zip(prompts, constraints, together, strict=True):
        single = engine.generate(prompt, constraint, max_tokens=30, temperature=1.0, seed=3)
        assert single.tokens == result.tokens
        assert single.removed_log_mass == pytest.approx(result.removed_log_mass, abs=1e-4)


def test_samples_share_a_prompt_that_is_copied_when_they_part(engine, alone) -> None:
    """The block that they have in common and write to is copied in the memory of every rank."""
    options = {"n": 4, "temperature": 1.0, "seed": 7, "max_tokens": 40}
    got, want = (e.generate("the cat sat on", "[a-z ,.:]+", **options) for e in (engine, alone))
    assert [result.tokens for result in got] == [result.tokens for result in want]
    assert len({tuple(result.tokens) for result in got}) == 4


def test_long_steps_and_known_prefixes(engine, alone) -> None:
    ids = [(i * i + 3 * i) % len(LETTERS) for i in range(230)]
    for _ in range(2):
        torch.testing.assert_close(engine.logits(ids, 5), alone.logits(ids, 5), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(engine.logits([*ids[:100], 3, 4], 2), alone.logits([*ids[:100], 3, 4], 2))


class Recorder:
    """A group of rank 0 and one other, one after the other."""

    def __init__(self) -> None:
        self.sent: list[torch.Tensor] = []
        self.hearing = False

    def broadcast(self, x: torch.Tensor) -> torch.Tensor:
        if not self.hearing:
            self.sent.append(x.clone())
            return x
        return x.copy_(self.sent.pop(0))


@pytest.mark.parametrize(
    "command",
    [
        Open(17, 256),
        Copy(4, 400, 16),
        Step([5], [1], [9], [0], [[3]]),
        Step([], [], [], [], []),
        Step([1, 2, 3], [2, 1], [2, 40], [], [[0], [9, 8, 7]]),
        *(Step(list(range(n)), [n], [n], [n - 1], [list(range(n // 16 + 1))]) for n in (490, 500, 512, 5000)),
    ],
)
def test_commands_arrive_as_they_were_sent(command: Command) -> None:
    group = Recorder()
    tell(group, command)  # type: ignore[arg-type]
    assert len(group.sent) <= 2
    group.hearing = True
    assert hear(group) == command  # type: ignore[arg-type]
    assert not group.sent


def test_a_rank_that_is_lost_is_reported_and_ends_all(directory) -> None:
    engine = Engine.from_pretrained(directory, dtype="float32", tensor_parallel=2)
    assert engine.generate("a", max_tokens=3).tokens
    ranks = engine.ranks
    assert isinstance(ranks, Ranks)
    (worker,) = ranks.processes
    worker.kill()
    worker.wait()
    with pytest.raises(GuidedError, match="a process of this model was lost"):
        engine.generate("b", max_tokens=3)
    with pytest.raises(GuidedError, match="load it again"):
        engine.generate("c", max_tokens=3)
    engine.close()


def test_what_cannot_be_cut_is_refused_and_leaves_no_process(directory, monkeypatch) -> None:
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1])
    with pytest.raises(UnsupportedError, match=r"4 heads cannot be shared by 3 ranks[\s\S]*one of 1, 2, 4"):
        Engine.from_pretrained(directory, tensor_parallel=3)
    with pytest.raises(UnsupportedError, match="only Llama and Qwen3 are cut into parts"):
        Engine.from_pretrained("shakespeare", tensor_parallel=2)
    assert len(started) == 3 and all(process.poll() is not None for process in started)
    with pytest.raises(ValueError, match="at least 1"):
        Engine.from_pretrained(directory, pipeline_parallel=0)
    assert len(started) == 3


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ranks_end_with_rank_0_however_it_ends(directory) -> None:
    program = f"""
import guided, os, signal
engine = guided.Engine.from_pretrained({str(directory)!r}, pipeline_parallel=2, dtype="float32")
engine.generate("a", max_tokens=2)
print([process.pid for process in engine.ranks.processes], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[1]
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    (pid,) = json.loads(done.stdout)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _runs(pid):
        time.sleep(0.1)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
