"""A small engine for tests of the server: random weights, a token for each byte, ChatML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from guided.chat import ChatTemplate
from guided.chat.template import CHATML
from guided.engine import Engine
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.vocabulary import Vocabulary

NAMES = ("<|im_start|>", "<|im_end|>")


def small_engine(context: int = 600, *, more: tuple[str, ...] = (), template: str = CHATML) -> Engine:
    """`more`: names of control tokens; `template`: the chat template."""
    torch.set_num_threads(1)
    names = (*NAMES, *more)
    vocabulary = Vocabulary(
        [*(bytes([b]) for b in range(256)), *[None] * len(names)],
        eos_token_ids=[257],
        special_tokens=dict(enumerate(names, 256)),
    )
    sizes = {"layers": 1, "dim": 16, "heads": 2, "kv_heads": 1, "head_dim": 8, "hidden": 24}
    model = Llama.random(LlamaConfig(**sizes, vocab_size=vocabulary.size, context=context), seed=7)
    return Engine(model, vocabulary, chat=ChatTemplate(vocabulary, template))


def after_tokens(number: int, step: Callable[[], Any], then: Callable[[], Any]) -> Callable[[], Any]:
    """Call `step` until it has returned `number` outcomes, then call `then`. While a grammar is compiled, steps return
    no outcomes.
    """
    left = number

    def counted() -> Any:
        nonlocal left
        if left <= 0:
            return then()
        outcomes = step()
        left -= len(outcomes)
        return outcomes

    return counted
