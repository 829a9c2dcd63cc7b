"""The scripts in examples/, and the scripts that set up what they need.

The training script trains the model that generates, and its output is read back. The record that the demo shows is
right.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F

from guided.engine.engine import Engine
from guided.models.architectures.gpt import GPT, GPTConfig
from tests.engine_support import Reader
from tests.weights import SMOLLM2, weights_of

torch.set_num_threads(1)
CONFIG = GPTConfig(layers=2, dim=32, heads=2, hidden=64, vocab_size=9, context=16)


ROOT = Path(__file__).parents[1]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script():
    return load(ROOT / "examples" / "train_shakespeare.py")


def test_the_loss_matches_the_model(script) -> None:
    model = GPT.random(CONFIG, seed=3)
    batch = torch.randint(9, (3, 17), generator=torch.Generator().manual_seed(0))
    singles = [F.cross_entropy(Reader(model).forward(row[:-1].tolist(), 16), row[1:]) for row in batch]
    torch.testing.assert_close(script.loss_of(model, batch), torch.stack(singles).mean())


def test_it_learns_more_than_pairs_of_characters(script, tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("safetensors")
    text = "the cat sat on the mat, and that is that. " * 100
    (tmp_path / "text.txt").write_text(text)
    argv = ["train", str(tmp_path / "text.txt"), "--out", str(tmp_path / "model"), "--steps", "250", "--threads", "1"]
    sizes = ("--layers", "2", "--dim", "32", "--heads", "2", "--context", "32")
    monkeypatch.setattr(sys, "argv", [*argv, *sizes])
    script.main()
    last = capsys.readouterr().out.splitlines()[-2]
    assert float(last.split("validation")[1].split()[0]) < 0.4  # with pairs only: 0.87
    engine = Engine.from_pretrained(tmp_path / "model", dtype="float32")
    assert engine.generate("the cat sat on", max_tokens=12).text == " the mat, an"


@pytest.mark.parametrize(
    ("length", "options", "message"),
    [
        (
            0,
            [],
            "text.txt has 0 bytes, but a context of 16 needs 161 or more: use a longer text, or a smaller --context",
        ),
        (160, [], "text.txt has 160 bytes, but a context of 16 needs 161 or more"),
        (161, ["--dim", "15", "--heads", "2"], "--dim must be a multiple of --heads, but is 15 for 2 heads"),
        (161, ["--heads", "0"], "argument --heads: 0 is not a positive integer"),
        (161, ["--steps", "0"], "argument --steps: 0 is not a positive integer"),
        (161, ["--batch", "-1"], "argument --batch: -1 is not a positive integer"),
        (161, ["--rate", "nan"], "--rate must be a positive number, not nan"),
        (None, [], "No such file or directory"),
        (161, ["--out", "text.txt"], "File exists"),
        (161, [], ""),
    ],
)
def test_arguments_of_the_training(script, length, options, message, tmp_path, monkeypatch, capsys) -> None:
    """Bad input ends with a message and writes nothing. The shortest text that fits its context is enough."""
    pytest.importorskip("safetensors")
    monkeypatch.chdir(tmp_path)
    if length is not None:
        Path("text.txt").write_text(("ab" * length)[:length])
    sizes = ("--layers", "1", "--dim", "8", "--heads", "2", "--context", "16", "--steps", "1", "--out", "model")
    monkeypatch.setattr(sys, "argv", ["train", "text.txt", *sizes, *options])
    if not message:
        script.main()
        assert Path("model", "config.json").exists()
        return
    with pytest.raises(SystemExit) as ended:
        script.main()
    output, errors = capsys.readouterr()
    assert ended.value.code == 2 and not output
    assert errors.splitlines()[-1].startswith("train: error: ") and message in errors.splitlines()[-1]
    assert not Path("model").exists()


@pytest.mark.parametrize("name", ["agent", "demo"])
def test_a_model_that_is_missing(name, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--model", str(tmp_path / "none.gguf")])
    with pytest.raises(SystemExit) as ended:
        load(ROOT / "examples" / f"{name}.py").main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"{name}: ")


@pytest.mark.model
def test_the_record_of_the_demo_is_right(capsys) -> None:
    path = weights_of(SMOLLM2)
    demo = load(ROOT / "examples" / "demo.py")
    record = demo.run(Engine.from_pretrained(path), "", demo.ASK_RECORD, demo.SCHEMA, demo.BUDGET, demo.jsonschema_says)
    assert record.good
    capsys.readouterr()
    demo.compare(record.result)
    told = capsys.readouterr().out
    assert told.endswith("\n10 of 10 fields are right\n") and "WRONG" not in told


def test_the_comparison_of_the_demo(capsys) -> None:
    demo = load(ROOT / "examples" / "demo.py")
    assert all(text in demo.MAIL for _, text in demo.fields(demo.WANTED))
    assert demo.jsonschema_says(json.dumps(demo.WANTED)) == ("jsonschema: valid", True)
    assert not demo.jsonschema_says("{")[1] and not demo.jsonschema_says("{}")[1]
    wrong = {**demo.WANTED, "items": [{"product": "sidamo washed", "quantity": 3}], "more": True}
    demo.compare(type("Result", (), {"value": wrong}))
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told if line.endswith("WRONG")] == [
        *("items.0.quantity", "items.1.product", "items.1.quantity", "more")
    ]
    assert told[-1] == "7 of 11 fields are right"


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("echo loud; echo louder >&2", 0, r"== a step \.\.\.\.* \d+ s\n"),
        ("echo why; exit 3", 3, r"== a step \.\.\.\.* failed \(exit code 3\)\. It said:\n\nwhy\n\nall of it: .*/log\n"),
    ],
)
def test_a_step_of_the_set_up_is_a_line(tmp_path, command, code, told) -> None:
    step = [*("sh", str(ROOT / "scripts" / "step.sh"), str(tmp_path / "log"), "a step", "sh", "-c", command)]
    done = subprocess.run(step, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (code, "")
    assert re.fullmatch(told, done.stderr), done.stderr


def test_a_step_that_compiles_reports_files(tmp_path) -> None:
    pipes = [
        tmp_path / "first",
        tmp_path / "second",
    ]  # with a single pipe, its reader could reach the end before the writer
    for pipe in pipes:
        os.mkfifo(pipe)
    compiling = "; ".join(
        f"echo '  [{at}/3] Building CXX object a.o'; read line <{pipe}" for at, pipe in enumerate(pipes, 1)
    )
    step = ["sh", str(ROOT / "scripts" / "step.sh"), str(tmp_path / "log"), "a step", "sh", "-c", compiling]
    with subprocess.Popen(
        step, stderr=subprocess.PIPE, text=True, env=os.environ | {"STEP_PAUSE": "sleep 0.01"}
    ) as done:
        assert done.stderr is not None
        said = ""
        for report, pipe in ((" 1/3 files", pipes[0]), (" 2/3 files", pipes[1])):
            while not said.endswith(report):
                character = done.stderr.read(1)
                assert character, said
                said += character
            pipe.write_text("\n")
        said += done.stderr.read()
    assert done.returncode == 0 and re.fullmatch(r"== a step \.\.\.\.* 1/3 files\.* 2/3 files\.* \d+ s\n", said), said


def test_packages_to_install_match_the_project_file() -> None:
    def listed(name: str) -> list[str]:
        command = [sys.executable, str(ROOT / "scripts" / "requirements.py"), name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert "jsonschema>=4.21" in listed("test") and all(re.match("[a-z]", line) for line in listed("test"))
    assert [re.split("[<>=]", line)[0] for line in listed("build")] == ["scikit-build-core", "nanobind"]


@pytest.mark.parametrize(
    ("name", "package", "last"),
    [
        ("compat_llguidance", "llguidance", "[('size', b'42'), ('colour', b'red')], stopped: NoExtension"),
        ("compat_outlines_core", "outlines_core", "two steps back, 'false' is allowed: True"),
    ],
)
def test_programs_for_other_libraries(name: str, package: str, last: str) -> None:
    example = load(ROOT / "examples" / f"{name}.py")
    found = example.run(importlib.import_module(f"guided.compat.{package}"))
    assert found[-1] == last
    if importlib.util.find_spec(package) is not None:
        assert example.run(importlib.import_module(package)) == found


def test_a_program_for_xgrammar_answers_by_its_schema() -> None:
    pytest.importorskip("pydantic")
    script = load(ROOT / "examples" / "compat_xgrammar.py")
    answers = [json.loads(script.answer(seed)) for seed in range(3)]
    assert all(one["city"] in ("Oslo", "Rome", "Quito") and 1 <= one["days"] <= 14 for one in answers)
