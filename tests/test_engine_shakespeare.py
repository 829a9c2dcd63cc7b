"""The character-level GPT in the package: guided decoding with a model that has learned its text."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from guided.engine.engine import Engine
from guided.models.architectures.gpt import GPT
from tests.effort import every
from tests.engine_support import Reader

pytest.importorskip("safetensors")
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def engine():
    return Engine.from_pretrained("shakespeare", dtype="float32")


def test_its_tokens_are_the_65_characters(engine):
    assert isinstance(engine.model, GPT)
    tokens = [engine.vocabulary.token_bytes(id) for id in range(65)]
    assert b"".join(tokens) == b"\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    assert engine.vocabulary.eos_token_ids == {65}
    assert engine.encode_prompt("\nRo!") == [0, 30, 53, 2]


@pytest.mark.parametrize("seed", every(2, range(5)))
def test_a_name_and_a_speech(engine, seed):
    result = engine.generate("\n", "[A-Z]+: [a-z]+\n", temperature=1.0, seed=seed, max_tokens=40)
    assert re.fullmatch("[A-Z]+: [a-z]+\n", result.text)
    assert result.finish_reason == "stop"


def test_it_has_learned_how_a_speech_begins(engine):
    """A name follows an empty line, and a line follows the name."""
    for seed in range(5):
        text = engine.generate("the king.\n\n", temperature=0.5, seed=seed, max_tokens=60).text
        assert re.match(r"[A-Z][A-Za-z ]+:\n[A-Z]", text)


def test_it_has_learned_text_that_it_has_not_seen(engine):
    """Far fewer bits per character than for independent characters (4.8), on text that was not used for training."""
    given = os.environ.get("GUIDED_ASSETS")
    found = list(Path(given).rglob("tinyshakespeare.txt")) if given else []
    if not found:
        pytest.skip("tinyshakespeare.txt is not below $GUIDED_ASSETS")
    text = found[0].read_text()
    losses = []
    for start in range(len(text) * 9 // 10, len(text) - 256, 10_000):
        ids = engine.vocabulary.encode(text[start : start + 256])
        logits = Reader(engine.model, 256).forward(ids[:-1], 255)
        losses.append(float(F.cross_entropy(logits, torch.tensor(ids[1:]))))
    assert sum(losses) / len(losses) < 1.8
