"""Drafts change nothing but the number of forward passes; see also tests/test_engine_scheduler.py, where some draft."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import guided
from guided.engine.drafting import Ngrams
from guided.engine.engine import Engine
from guided.models.llama import Llama, LlamaConfig
from guided.vocabulary.vocabulary import Vocabulary

LETTERS = [b"a", b"b", b"c", b"ab", b"bc", b"abc", b",", b'"', b"[", b"]", b" "]
END, CONTROL = len(LETTERS), len(LETTERS) + 1
VOCABULARY = Vocabulary([*LETTERS, None, None], eos_token_ids=[END], special_tokens={END: "<end>", CONTROL: "</think>"})
CONFIG = LlamaConfig(layers=2, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=16, context=256)
ENGINE = Engine(Llama.random(CONFIG, seed=4), VOCABULARY)
SHORT = settings(deadline=None, max_examples=60)

torch.set_num_threads(1)


@SHORT
@given(st.lists(st.integers(0, 2), max_size=40), st.integers(0, 5), st.integers(0, 40))
def test_ngrams(tokens, most, cut):
    grams = Ngrams(tokens[:cut])
    grams.extend(tokens[cut:])
    want = []
    for size in (4, 3, 2):
        ends = [i for i in range(size, len(tokens)) if tokens[i - size : i] == tokens[len(tokens) - size :]]
        if len(tokens) >= size and ends:
            want = tokens[ends[-1] : ends[-1] + most]
            break
    assert grams.propose(most) == want
    assert grams.length == len(tokens)


CONSTRAINTS = [
    None,
    r"(abc,|ab ){3,12}",
    r'\[("[abc]{1,6}",){2,9}\]',
    guided.repeat(guided.choice("abc,", "ab "), 0, 20),
]


@SHORT
@given(
    st.sampled_from(CONSTRAINTS),
    st.sampled_from([0.0, 0.7, 2.0]),
    st.integers(1, 8),
    st.integers(0, 999),
    st.integers(40, 70),
)
def test_the_output_is_the_same(constraint, temperature, drafts, seed, most):
    prompt = random.Random(seed).choices(range(11), k=12) * 2
    options = {"temperature": temperature, "seed": seed, "max_tokens": most, "repetition_penalty": 1.1}
    plain = ENGINE.generate(prompt, constraint, **options)
    drafted = ENGINE.generate(prompt, constraint, drafts=drafts, **options)
    assert (drafted.tokens, drafted.text, drafted.finish_reason) == (plain.tokens, plain.text, plain.finish_reason)
    assert drafted.removed_log_mass == pytest.approx(plain.removed_log_mass, abs=1e-4)
    passes, saved = len(plain.timings.forward) - len(drafted.timings.forward), drafted.timings.held
    assert passes == saved <= drafted.timings.drafted
    assert plain.timings.drafted == 0


def test_repetitions_need_fewer_passes():
    prompt, pattern = VOCABULARY.encode("abc,ab ,abc,ab ,"), "(abc,ab ,){12}"
    engine = Engine(ENGINE.model, VOCABULARY)
    with_forced = engine.generate(prompt, pattern, max_tokens=200)
    assert with_forced.timings.drafted == 0  # nothing was asked for
    letters = engine.generate(prompt, "[abc, ]{100}", drafts=8, max_tokens=200, temperature=0)
    assert letters.timings.held > 20  # greedy outputs of a small model go in circles


def test_samples_with_drafts_are_those_without():
    prompt = VOCABULARY.encode("ab ab ab ab")
    options = {"n": 4, "temperature": 1.0, "seed": 3, "max_tokens": 40}
    plain, drafted = (ENGINE.generate(prompt, "[abc ]{30,60}", drafts=d, **options) for d in (0, 4))
    assert [r.tokens for r in plain] == [r.tokens for r in drafted]


@pytest.mark.parametrize("drafts", [-1, 65])
def test_how_many(drafts):
    with pytest.raises(ValueError, match="drafts is"):
        ENGINE.generate([0], drafts=drafts)
