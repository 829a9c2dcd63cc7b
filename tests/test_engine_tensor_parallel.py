"""A model that several processes compute: outputs equal those of one process, and lost processes are reported."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from guided.cli import main
from guided.engine.engine import Engine
from guided.engine.pretrained import load_model
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.sequence import Sequence as Output
from guided.engine.task import Task
from guided.engine.tensor_parallel.commands import Command, CopySlots, OpenCache, Step, receive_command, send_command
from guided.engine.tensor_parallel.leader import Ranks, _choose_devices
from guided.errors import GuidedError, UnsupportedError
from guided.kv.dense import DenseCache
from guided.matching.matcher import GrammarMatcher
from guided.models.architectures.llama import LlamaConfig
from guided.sampling.params import SamplingParams
from tests.effort import draws, every
from tests.engine_support import drive
from tests.llama_support import LETTERS, write_directory

pytest.importorskip("safetensors")
torch.set_num_threads(1)
CONFIG = LlamaConfig(
    layers=3,
    dim=32,
    heads=4,
    kv_heads=2,
    head_dim=8,
    hidden=64,
    vocab_size=len(LETTERS) + 1,
    context=256,
    qk_norm="head",
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


@pytest.fixture(scope="module", params=every(2, [(2, 1), (1, 3)]), ids=["tensor", "pipeline"])
def engine(request, directory):
    tensor, pipeline = request.param
    engine = Engine.from_pretrained(directory, dtype="float32", tensor_parallel=tensor, pipeline_parallel=pipeline)
    yield engine
    engine.close()


def requests() -> list[dict]:
    """Greedy and sampled requests, free and constrained."""
    rng = random.Random(1)
    made = []
    for number in range(draws(12)):
        constraint = rng.choice([None, "[a-z]+: [a-z ]{5,}[.]", SCHEMA])
        temperature = rng.choice([0.0, 1.0])
        made.append({"prompt": rng.choice(PROMPTS), "constraint": constraint, "temperature": temperature})
        made[-1] |= {"seed": number, "max_tokens": rng.choice([20, 60]), "drafts": rng.choice([0, 0, 3])}
    return made


def test_outputs_match_one_process(engine, alone) -> None:
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
    """The last common block is copied in the memory of every rank before it is changed."""
    options = {"n": 4, "temperature": 1.0, "seed": 7, "max_tokens": 40}
    got, want = (e.generate("the cat sat on", "[a-z ,.:]+", **options) for e in (engine, alone))
    assert [result.tokens for result in got] == [result.tokens for result in want]
    assert len({tuple(result.tokens) for result in got}) == 4


def test_long_steps_and_known_prefixes(engine, alone) -> None:
    ids = [(i * i + 3 * i) % len(LETTERS) for i in range(230)]
    seen = []
    for _ in range(2):
        seen.append(engine.logits(ids, 5))
        torch.testing.assert_close(seen[-1], alone.logits(ids, 5), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(engine.logits([*ids[:100], 3, 4], 2), alone.logits([*ids[:100], 3, 4], 2))
    assert torch.equal(*seen), "a prefix that is known changes no bit"
    if engine.ranks.parallel.tensor_group.size == 1:
        assert torch.equal(seen[0], alone.logits(ids, 5)), "nor do stages"


def test_steps_of_many_tokens(engine, alone) -> None:
    """Their commands take two messages."""
    prompts = [[(i * i + shift * i + shift) % len(LETTERS) for i in range(200)] for shift in range(4)]
    got, want = (e.generate_batch(prompts, "[a-z]{8}", max_tokens=9) for e in (engine, alone))
    assert [result.tokens for result in got] == [result.tokens for result in want]


def test_who_gives_way_reads_again(directory, alone) -> None:
    """A cache of 7 blocks for four outputs of up to 4 blocks each."""
    ranks = Ranks(directory, dtype=torch.float32, device=torch.device("cpu"), tensor_size=2)
    try:
        model = load_model(directory, dtype=torch.float32, device=ranks.device, parallel=ranks.parallel)
        batch = Scheduler(ranks.runner(model, 7, 16), token_budget=20)
        tasks = [Task(output(alone, seed)) for seed in range(4)]
        for task in tasks:
            batch.add([task])
        ended = {}
        while batch:
            for task, outcome in batch.step():
                assert not isinstance(outcome, Exception), outcome
                ended[task] = outcome.result
        assert batch.preemptions > 1
        for seed, task in enumerate(tasks):
            single = Scheduler(ModelRunner(alone.model, DenseCache(cache_shape(alone.model), 4096)))
            assert ended[task].tokens == drive(single, [Task(output(alone, seed))])[0][-1].result.tokens
        with pytest.raises(ValueError, match="already belong to an engine"):
            ranks.runner(model, 7, 16)
        with pytest.raises(GuidedError, match="only a part of a split model"):
            Engine(model, alone.vocabulary)
        with pytest.raises(ValueError, match="leave cache out"):
            Engine(model, alone.vocabulary, ranks=ranks, cache=DenseCache(cache_shape(model), 100))
    finally:
        ranks.close()


def output(engine: Engine, seed: int) -> Output:
    prompt = engine.encode_prompt("the cat sat on the"[: 6 + 4 * seed])
    matcher = GrammarMatcher(engine.compiler.compile_regex("[a-z ]{40}"))
    return Output(engine.vocabulary, prompt, matcher, SamplingParams(1.0, seed=seed), max_tokens=41)


class Recorder:
    """A group of rank 0 and one other rank, which run one after the other."""

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
        OpenCache(17, 256),
        CopySlots(4, 400, 16),
        Step([5], [1], [9], [0], [[3]]),
        Step([], [], [], [], []),
        Step([1, 2, 3], [2, 1], [2, 40], [], [[0], [9, 8, 7]]),
        *(Step(list(range(n)), [n], [n], [n - 1], [list(range(n // 16 + 1))]) for n in (490, 500, 512, 5000)),
    ],
)
def test_commands_arrive_as_they_were_sent(command: Command) -> None:
    group = Recorder()
    send_command(group, command)  # type: ignore[arg-type]
    assert len(group.sent) <= 2
    group.hearing = True
    assert receive_command(group) == command  # type: ignore[arg-type]
    assert not group.sent


def workers_of(engine: Engine) -> list[subprocess.Popen]:
    assert isinstance(engine.ranks, Ranks)
    return list(engine.ranks.workers.processes)


def test_a_rank_that_is_lost_is_reported_and_ends_all(directory) -> None:
    engine = Engine.from_pretrained(directory, dtype="float32", tensor_parallel=2)
    assert engine.generate("a", max_tokens=3).tokens
    (worker,) = workers_of(engine)
    worker.kill()
    worker.wait()
    with pytest.raises(GuidedError, match="a process of this model ended"):
        engine.generate("b", max_tokens=3)
    with pytest.raises(GuidedError, match="load it again"):
        engine.generate("c", max_tokens=3)
    engine.close()


def test_models_that_cannot_be_split_are_refused_without_leaving_a_process(directory, monkeypatch) -> None:
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1])
    with pytest.raises(UnsupportedError, match=r"4 heads cannot be shared by 3 ranks[\s\S]*one of 1, 2"):
        Engine.from_pretrained(directory, tensor_parallel=3)
    with pytest.raises(UnsupportedError, match="models of this architecture cannot be split across processes"):
        Engine.from_pretrained("shakespeare", tensor_parallel=2)
    assert len(started) == 3 and all(process.poll() is not None for process in started)
    with pytest.raises(ValueError, match="at least 1"):
        Engine.from_pretrained(directory, pipeline_parallel=0)
    assert len(started) == 3


def test_a_rank_that_is_lost_in_the_middle_is_reported(directory) -> None:
    with Engine.from_pretrained(directory, dtype="float32", pipeline_parallel=2) as engine:
        (worker,) = workers_of(engine)
        events = engine.stream("a", "[a-z]{200}", max_tokens=201)
        next(events)
        killer = threading.Timer(0.02, worker.kill)
        killer.start()
        with pytest.raises(GuidedError, match=r"a process of this model ended: .*-9"):
            for _ in range(100):
                list(events)
                events = engine.stream("a", "[a-z]{200}", max_tokens=201)
        killer.join()


def test_a_caller_s_mistake_harms_nothing(engine) -> None:
    for wrong, message in (([1, 99999], "99999, which is not"), ([], "empty"), ([1] * 300, "context holds 256")):
        with pytest.raises(GuidedError, match=message):
            engine.logits(wrong)
    assert engine.logits([1] * 256).shape == (1, CONFIG.vocab_size)


def test_imports_and_output_of_workers(directory, tmp_path, monkeypatch) -> None:
    """Workers import nothing from the current folder. Output at the start of an interpreter is skipped."""
    (tmp_path / "json.py").write_text("raise SystemExit('imported from here')")
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text("print('x' * 30_000)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "start"))
    with Engine.from_pretrained(directory, dtype="float32", pipeline_parallel=2) as engine:
        assert engine.generate("a", max_tokens=3).tokens


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import os; print('ready', flush=True); os._exit(7)", "a process of this model ended: exit code 7"),
        ("import time; print('ready', flush=True); time.sleep(60)", "the processes of this model could not connect"),
        ("import os; print('hello', flush=True); os._exit(7)", "ended while it was starting"),
    ],
)
def test_workers_that_do_not_come(directory, tmp_path, monkeypatch, program: str, message: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("guided.engine.tensor_parallel.group._CONNECT_TIMEOUT", timedelta(seconds=1))
    with pytest.raises(GuidedError, match=message):
        Engine.from_pretrained(directory, pipeline_parallel=2)


def test_devices(monkeypatch) -> None:
    monkeypatch.setattr("guided.engine.tensor_parallel.group.dist.is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert [str(place) for place in _choose_devices(torch.device("cuda"), 3)] == ["cuda:1", "cuda:2", "cuda:3"]
    assert [str(place) for place in _choose_devices(torch.device("cuda:0"), 2)] == ["cuda:0", "cuda:1"]
    assert _choose_devices(torch.device("cpu"), 2) == [torch.device("cpu")] * 2
    with pytest.raises(GuidedError, match="3 processes need 3 GPUs, the first of them cuda:2, but this machine has 4"):
        _choose_devices(torch.device("cuda:2"), 3)
    with pytest.raises(GuidedError, match="on cpu and cuda, not on meta"):
        _choose_devices(torch.device("meta"), 2)


INTERRUPTED = """
import guided, os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in the background without
with guided.Engine.from_pretrained(sys.argv[1], tensor_parallel=2, dtype="float32") as engine:
    engine.generate("a", max_tokens=2)
    threading.Timer(0.2, lambda: os.killpg(0, signal.SIGINT)).start()
    try:
        while True:
            engine.generate("a", "[a-z]{200}", max_tokens=201)
    except KeyboardInterrupt:
        print(len(engine.generate("a", "[a-z]{9}", max_tokens=10).text))
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupted_model_answers_on(directory) -> None:
    """A terminal sends Ctrl-C to all processes."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(directory)],
        capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[1], start_new_session=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "9\n", "")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ranks_end_with_rank_0_however_it_ends(directory, tmp_path) -> None:
    program = f"""
import guided, os, signal
engine = guided.Engine.from_pretrained({str(directory)!r}, pipeline_parallel=2, dtype="float32")
engine.generate("a", max_tokens=2)
print([process.pid for process in engine.ranks.workers.processes], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[1],
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    (pid,) = json.loads(done.stdout)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _runs(pid):
        time.sleep(0.1)
    assert not _runs(pid)
    assert not list(tmp_path.glob("guided-ranks-*"))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_from_the_command_line(directory, capsys) -> None:
    said = []
    for cut in ([], ["--tensor-parallel", "2", "--pipeline-parallel", "2"]):
        line = ["generate", "the cat", "--raw", "--regex", "[a-z ]{12}[.]", "--no-stream", "--dtype", "float32"]
        assert main([*line, "--model", str(directory), *cut]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and len(said[0]) == 14
    assert main(["generate", "the cat", "--raw", "--model", str(directory), "--tensor-parallel", "3"]) == 2
    assert "tensor_parallel: one of 1, 2" in capsys.readouterr().err
