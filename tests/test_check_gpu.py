"""scripts/check_gpu.py: a dry run of all parts, and its behaviour if a part fails or there is no GPU."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from guided.kernels.transfer import Fetch
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from scripts import check_gpu
from scripts.gpu import clock
from scripts.gpu.build import MODULES, build_commands
from scripts.gpu.decoding import counted_waits
from scripts.gpu.inputs import LLAMA_8B, QWEN_17B, schemas, vocabulary
from scripts.gpu.page import HEADING, figures_of, write_page
from scripts.gpu.report import Report, Setting
from scripts.gpu.throughput import TOKENS
from tests.triton_support import REASON

ROOT = Path(__file__).parents[1]
SETTING = Setting(dry=False, deadline=math.inf)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/check_gpu.py", *arguments]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_dry_run_of_all_parts(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason=REASON)
    done = run("--dry", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert list(summary["parts"]) == list(check_gpu.LIMITS) and summary["dry"]
    for name, part in summary["parts"].items():
        assert part == json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
        assert len(part["checks"]) >= 2 and all(check["holds"] for check in part["checks"]) and not part["error"]
        assert part["figures"] or name in ("build", "models")
    assert "FAILED" not in done.stdout and "extras" in done.stdout.splitlines()[-1]


def test_a_missing_gpu_is_reported(tmp_path: Path) -> None:
    done = run("--out", str(tmp_path / "none"))
    assert done.returncode == 2 and done.stderr.strip() == check_gpu.NO_GPU
    assert not (tmp_path / "none").exists()


def test_all_parts_take_less_than_25_minutes() -> None:
    assert sum(check_gpu.LIMITS.values()) < 25 * 60 and check_gpu.LIMITS["build"] < 10 * 60


def test_a_part_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next part runs, and the table has the messages of both."""
    monkeypatch.setattr(check_gpu, "LIMITS", {"models": 0.3, "build": 60})
    assert check_gpu.main(["--dry", "--out", str(tmp_path)]) == 1
    summary = json.loads((tmp_path / "summary.json").read_text("utf-8"))["parts"]
    assert summary["models"]["error"] == "stopped after 0.3 s" and not summary["build"]["error"]
    assert "stopped after 0.3 s" in check_gpu.table(summary)


def test_failures_are_reported_and_the_other_checks_run(tmp_path: Path) -> None:
    with Report("models", tmp_path) as report:
        with report.checking("one") as said:
            said("never seen")
            assert 1 == 2, "not equal"
        with report.checking("another") as said:
            said("seen")
        report.figure("Times", "a row", "a column", 1234.5, "us")
        raise ValueError("the part ends here")
    found = json.loads((tmp_path / "models.json").read_text("utf-8"))
    assert report.failed and "the part ends here" in found["error"]
    failed, passed = found["checks"]
    assert not failed["holds"] and failed["said"].startswith("AssertionError: not equal")
    assert Path(__file__).name in failed["said"]
    assert passed == {"name": "another", "holds": True, "said": "seen"} and len(found["figures"]) == 1
    assert check_gpu.state(found) == "ValueError: the part ends here"
    assert check_gpu.state(found | {"error": ""}) == "1 failed"


def test_the_page_keeps_its_text(tmp_path: Path) -> None:
    part = {
        "part": "kernels", "seconds": 3.2, "error": "", "notes": ["a < b"],
        "checks": [{"name": "masks", "holds": False, "said": "no"}],
        "figures": [
            {"table": "Times", "row": "8 rows", "column": "guided", "value": 12.345, "unit": "us"},
            {"table": "Times", "row": "8 rows", "column": "floor", "value": 1234.5, "unit": "us"},
            {"table": "Times", "row": "64 rows", "column": "floor", "value": 9.0, "unit": "us"},
        ],
    }  # fmt: skip
    summary = {"versions": {"card": "H100"}, "dry": False, "parts": {"kernels": part}}
    text = figures_of(summary)
    assert "| | guided, us | floor, us |\n|---|--:|--:|\n| 8 rows | 12.3 | 1,234 |\n| 64 rows |  | 9 |" in text
    assert "- kernels: masks\n" in text and "| card | H100 |" in text and "- a &lt; b" in text
    page = tmp_path / "gpu.md"
    real = (ROOT / "docs" / "inside" / "gpu.md").read_text("utf-8")
    page.write_text(real, "utf-8")
    (tmp_path / "summary.json").write_text(json.dumps(summary), "utf-8")
    for _ in range(2):
        write_page(tmp_path, page)
        head, _, figures = page.read_text("utf-8").partition(HEADING)
        assert head == real.partition(HEADING)[0] and figures == "\n" + text


def test_the_page_names_the_parts_and_their_limits() -> None:
    text = (ROOT / "docs" / "inside" / "gpu.md").read_text("utf-8")
    for part, seconds in check_gpu.LIMITS.items():
        assert any(line.startswith(f"| {part} |") and line.endswith(f"| {seconds} |") for line in text.splitlines())


# ---- code that runs only on a device


class Event:
    """Replaces a CUDA event: a call takes 5 us, and work launched before the first event does not count."""

    now = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = Event.now

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) / 1e3


def test_device_times_are_times_between_events(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()

    def call(name: str) -> None:
        done.append(name)
        Event.now += 5

    monkeypatch.setattr("torch.cuda.Event", Event)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: done.append("wait"))
    monkeypatch.setattr("torch.cuda._sleep", lambda cycles: done.append("sleep"))
    calls = [lambda: call("a"), lambda: call("b")]
    assert clock.device_time(SETTING, calls, rounds=2) == pytest.approx(5.0)
    assert done[:6] == ["a", "b", "wait", "sleep", "a", "b"] and done.count("sleep") == 2
    assert clock.host_time(SETTING, calls[0], 3) >= 0
    assert [clock.copies_for(SETTING, nbytes) for nbytes in (1000, 10**8, 10**9)] == [320, 2, 2]


def test_waits_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = list[str]()
    monkeypatch.setattr("torch.cuda.set_sync_debug_mode", modes.append)
    fetch = Fetch(torch.zeros(3))
    with counted_waits(SETTING) as waits:
        for _ in range(2):
            warnings.warn("called a synchronizing CUDA operation (Triggered internally)", stacklevel=1)
        warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=1)
        assert fetch.wait().tolist() == [0, 0, 0]
    assert modes == ["warn", "default"] and len(waits.warned) == 2 and waits.fetched == 1
    assert all(Path(__file__).name in one for one in waits.warned)
    fetch.wait()
    assert waits.fetched == 1


# ---- inputs


def test_ways_to_build() -> None:
    ways = build_commands(ROOT / "build" / "none")
    for name, commands in ways.items():
        assert name in ("pip", "CMake") and all(isinstance(word, str) for command in commands for word in command)
    text = (ROOT / "CMakeLists.txt").read_text("utf-8")
    for module, folder in MODULES.items():
        assert f"guided_module({module} {folder}" in text


def test_schemas_differ_and_fit_their_budget() -> None:
    some, tokens = schemas(40), vocabulary(4000)
    assert len({json.dumps(schema, sort_keys=True) for schema in some}) == 40
    assert tokens.size == 4000 and len(set(tokens.tokens)) == len(tokens.tokens)
    compiler = GrammarCompiler(tokens)
    for schema in some:
        assert GrammarMatcher(compiler.compile_json_schema(schema)).min_tokens_to_finish() <= TOKENS


def test_shapes_match_the_models() -> None:
    """Weights in billions; the head is counted once."""
    for config, billions in ((QWEN_17B, 1.72), (LLAMA_8B, 7.5)):
        c = config
        attention = c.dim * c.head_dim * (2 * c.heads + 2 * c.kv_heads)
        assert (c.layers * (attention + 3 * c.dim * c.hidden) + c.vocab_size * c.dim) / 1e9 == pytest.approx(
            billions, rel=0.01
        )
