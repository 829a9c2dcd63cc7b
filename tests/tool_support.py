"""A small random model that calls tools, and the structure of an output with calls."""

from __future__ import annotations

import torch

from guided.engine.engine import Engine
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.vocabulary import Vocabulary

torch.set_num_threads(1)
NAMES = ["<|assistant_end|>", "<|python_start|>", "<|python_end|>", "<|output_start|>", "<|output_end|>"]
NAMES += ["<ask>", "</ask>", "<told>", "</told>"]
END, BEGIN_CALL, END_CALL, BEGIN_RESULT, END_RESULT, *ASKING = range(256, 256 + len(NAMES))
PIECES = [b"12", b"+1", b" *", b"(3", b"the", b" is ", b'"a', b".count("]
VOCABULARY = Vocabulary(
    [*(bytes([b]) for b in range(256)), *[None] * len(NAMES), *PIECES],
    eos_token_ids=[END],
    special_tokens=dict(enumerate(NAMES, 256)),
)
CONFIG = LlamaConfig(
    layers=1, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=VOCABULARY.size + 3, context=400
)
MODEL = Llama.random(CONFIG, seed=5)


def engine(**options) -> Engine:
    return Engine(MODEL, VOCABULARY, **options)


ENGINE = engine()
EAGER = {"logit_bias": {BEGIN_CALL: 4.0, END_CALL: 4.0, ASKING[0]: 4.0, ASKING[1]: 4.0}, "temperature": 1.0}
"""Calls come often, in texts of random tokens."""


def segments(result, vocabulary=VOCABULARY, tokens=(BEGIN_CALL, END_CALL, BEGIN_RESULT, END_RESULT)):
    """(arguments, result, masks of the result's tokens) of each call in an output, and the call's number of tokens."""
    begin, end, result_begin, result_end = tokens
    out, at, ids = [], 0, result.tokens
    while begin in ids[at:]:
        start = ids.index(begin, at)
        closed = ids.index(end, start)
        assert ids[closed + 1] == result_begin
        at = ids.index(result_end, closed) + 1
        text, said = (vocabulary.decode(ids[a + 1 : b]).decode() for a, b in ((start, closed), (closed + 1, at - 1)))
        assert not set(range(256, 265)) & {*ids[start + 1 : closed], *ids[closed + 2 : at - 1]}
        out.append((text, said, result.token_masks[closed + 1 : at]))
    return out
