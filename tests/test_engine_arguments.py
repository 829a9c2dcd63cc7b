"""Arguments of the wrong type or out of range are errors that name the argument, before anything runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import guided
from guided.chat.template import CHATML, ChatTemplate
from guided.engine.engine import Engine
from guided.engine.runner import ModelRunner, default_cache
from guided.engine.scheduler import Scheduler
from guided.models.architectures.llama import Llama, LlamaConfig

torch.set_num_threads(1)
VOCABULARY = guided.Vocabulary(
    [*(bytes([byte]) for byte in range(256)), None, None],
    eos_token_ids=[257],
    special_tokens={256: "<|im_start|>", 257: "<|im_end|>"},
)
CONFIG = LlamaConfig(layers=1, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=258, context=1024)
MODEL = Llama.random(CONFIG, seed=1)
PLAIN = Engine(MODEL, VOCABULARY)
WITH_SYSTEM = Engine(MODEL, VOCABULARY, chat=ChatTemplate(VOCABULARY, CHATML))
INTEGER = {"type": "integer"}
NO_COUNTS = (0, -1, True, 1.0, math.nan, "5", None)


@pytest.mark.parametrize("value", NO_COUNTS)
def test_an_engine_needs_a_positive_token_budget(value: Any) -> None:
    with pytest.raises(guided.OptionError, match=r"token_budget is .* must be an integer of at least 1") as caught:
        Engine(MODEL, VOCABULARY, token_budget=value)
    assert caught.value.option == "token_budget"
    with pytest.raises(guided.OptionError, match="max_running is"):
        Scheduler(ModelRunner(MODEL, default_cache(MODEL, "auto")), max_running=value)


@pytest.mark.parametrize("value", [1, np.int64(2)])
def test_the_smallest_token_budgets(value: Any) -> None:
    small = Engine(MODEL, VOCABULARY, token_budget=value)
    assert small.generate("ab", max_tokens=3).tokens == PLAIN.generate("ab", max_tokens=3).tokens


@pytest.mark.parametrize("id", [-1, 258, True, 1.0, "a"])
def test_ids_before_a_prompt_must_be_tokens(id: Any) -> None:
    with pytest.raises(guided.OptionError, match=r"bos contains .* not a token id below 258"):
        Engine(MODEL, VOCABULARY, bos=[257, id])
    assert Engine(MODEL, VOCABULARY, bos=[0, 257]).encode_prompt("a") == [0, 257, 97]
