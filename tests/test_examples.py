"""The training script in examples/: it trains the model that answers, and what it writes is read back."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from guided.engine.engine import Engine
from guided.models.gpt import GPT, GPTConfig
from tests.engine_support import Reader

torch.set_num_threads(1)
CONFIG = GPTConfig(layers=2, dim=32, heads=2, hidden=64, vocab_size=9, context=16)


@pytest.fixture(scope="module")
def script():
    path = Path(__file__).parents[1] / "examples" / "train_shakespeare.py"
    spec = importlib.util.spec_from_file_location("train_shakespeare", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_loss_is_that_of_the_model_that_answers(script) -> None:
    model = GPT.random(CONFIG, seed=3)
    batch = torch.randint(9, (3, 17), generator=torch.Generator().manual_seed(0))
    singles = [F.cross_entropy(Reader(model).forward(row[:-1].tolist(), 16), row[1:]) for row in batch]
    torch.testing.assert_close(script.loss_of(model, batch), torch.stack(singles).mean())


def test_it_learns_what_pairs_of_characters_do_not_tell(script, tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("safetensors")
    text = "the cat sat on the mat, and that is that. " * 100
    (tmp_path / "text.txt").write_text(text)
    argv = ["train", str(tmp_path / "text.txt"), "--out", str(tmp_path / "model"), "--steps", "250", "--threads", "1"]
    sizes = ("--layers", "2", "--dim", "32", "--heads", "2", "--context", "32")
    monkeypatch.setattr(sys, "argv", [*argv, *sizes])
    script.main()
    last = capsys.readouterr().out.splitlines()[-2]
    assert float(last.split("validation")[1].split()[0]) < 0.4  # pairs alone: 0.87
    engine = Engine.from_pretrained(tmp_path / "model", dtype="float32")
    assert engine.generate("the cat sat on", max_tokens=12).text == " the mat, an"
