"""Drafts change only the number of forward passes. tests/test_engine_scheduler.py mixes sequences with and without
drafts.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import guided
from guided.engine.draft_model import PIECE, check_same_tokens
from guided.engine.drafting import Ngrams
from guided.engine.engine import Engine
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.sequence import Sequence
from guided.engine.task import Task
from guided.kernels.choose import answer
from guided.kv.dense import DenseCache
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.sampling import SamplingParams
from guided.sampling.choice import Answer, Choose
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
    passes, saved = len(plain.timings.forward) - len(drafted.timings.forward), drafted.timings.accepted_drafts
    assert 0 <= passes <= saved <= drafted.timings.drafted_tokens
    assert plain.timings.drafted_tokens == 0


def test_repetitions_need_fewer_passes():
    prompt, pattern = VOCABULARY.encode("abc,ab ,abc,ab ,"), "(abc,ab ,){12}"
    engine = Engine(ENGINE.model, VOCABULARY)
    with_forced = engine.generate(prompt, pattern, max_tokens=200)
    assert with_forced.timings.drafted_tokens == 0  # nothing was requested
    letters = engine.generate(prompt, "[abc, ]{100}", drafts=8, max_tokens=200, temperature=0)
    assert letters.timings.accepted_drafts > 20  # greedy outputs of a small model are repetitive


def test_samples_with_drafts_match_samples_without():
    prompt = VOCABULARY.encode("ab ab ab ab")
    options = {"n": 4, "temperature": 1.0, "seed": 3, "max_tokens": 40}
    plain, drafted = (ENGINE.generate(prompt, "[abc ]{30,60}", drafts=d, **options) for d in (0, 4))
    assert [r.tokens for r in plain] == [r.tokens for r in drafted]


@pytest.mark.parametrize("drafts", [-1, 65])
def test_how_many(drafts):
    with pytest.raises(ValueError, match="drafts is"):
        ENGINE.generate([0], drafts=drafts)


OTHER = Llama.random(CONFIG, seed=5)


def with_draft_model(model: Llama, **options) -> Engine:
    return Engine(ENGINE.model, VOCABULARY, draft_model=model, **options)


BY_MODELS = [with_draft_model(ENGINE.model), with_draft_model(OTHER)]


@SHORT
@given(
    st.sampled_from(BY_MODELS),
    st.sampled_from(CONSTRAINTS),
    st.sampled_from([0.0, 0.7, 2.0]),
    st.none() | st.integers(1, 8),
    st.integers(0, 999),
    st.integers(40, 70),
)
def test_the_output_is_the_same_with_a_draft_model(engine, constraint, temperature, drafts, seed, most):
    prompt = random.Random(seed).choices(range(11), k=24)
    options = {"temperature": temperature, "seed": seed, "max_tokens": most, "repetition_penalty": 1.1, "logprobs": 1}
    plain = ENGINE.generate(prompt, constraint, **options)
    drafted = engine.generate(prompt, constraint, drafts=drafts, **options)
    assert (drafted.tokens, drafted.text, drafted.finish_reason) == (plain.tokens, plain.text, plain.finish_reason)
    assert drafted.logprobs == plain.logprobs
    assert drafted.removed_log_mass == pytest.approx(plain.removed_log_mass, abs=1e-4)
    assert drafted.timings.accepted_drafts <= drafted.timings.drafted_tokens


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_of_the_model_itself_are_always_accepted(temperature):
    options = {"max_tokens": 60, "temperature": temperature, "seed": 8, "frequency_penalty": 0.3}
    result = BY_MODELS[0].generate([1, 2, 3], "[abc]{50}", **options)
    assert result.timings.accepted_drafts == result.timings.drafted_tokens >= 20
    assert len(result.timings.forward) <= len(result.tokens) / 5 + 1


def test_a_batch_is_drafted_for_together():
    requests = [([i % 11, 3, i % 7], c) for i, c in enumerate(CONSTRAINTS * 4)]
    options = {"max_tokens": 50, "temperature": 1.0, "seed": 2}
    want = [ENGINE.generate(prompt, constraint, **options).tokens for prompt, constraint in requests]
    for engine in BY_MODELS:
        got = engine.generate_batch([p for p, _ in requests], constraints=[c for _, c in requests], **options)
        assert [result.tokens for result in got] == want
    samples = BY_MODELS[0].generate([1, 2], "[abc ]{30,60}", n=4, **options)
    assert [s.tokens for s in samples] == [s.tokens for s in ENGINE.generate([1, 2], "[abc ]{30,60}", n=4, **options)]
    assert not BY_MODELS[0].scheduler._answers._draft_model._leases  # all of them were returned


def test_a_long_prompt_is_read_in_pieces():
    model = Llama.random(replace(CONFIG, context=2048), seed=4)
    prompt = random.Random(1).choices(range(3), k=3 * PIECE + 5)
    options = {"max_tokens": 40, "temperature": 1.0, "seed": 1}
    plain = Engine(model, VOCABULARY).generate(prompt, "[abc]{30}", **options)
    drafted = Engine(model, VOCABULARY, draft_model=model).generate(prompt, "[abc]{30}", **options)
    assert drafted.tokens == plain.tokens and drafted.timings.accepted_drafts > 0


def test_without_room_for_the_draft_model_nothing_is_drafted():
    small = ModelRunner(OTHER, DenseCache(cache_shape(OTHER), 8))
    scheduler = Scheduler(ENGINE.scheduler.runner, draft=small)
    for prompt in ([1, 2], [1] * 20):
        output = Sequence(VOCABULARY, prompt, None, SamplingParams(), max_tokens=20, drafts=4, drafted_by_model=True)
        plain = Sequence(VOCABULARY, prompt, None, SamplingParams(), max_tokens=20)
        found, want = (next(e.result for _, e in drain(scheduler, s) if e.result) for s in (output, plain))
        assert found.tokens == want.tokens


def drain(scheduler: Scheduler, sequence: Sequence) -> list:
    scheduler.add([Task(sequence)])
    out = []
    while scheduler:
        out += scheduler.step()
    return out


def test_a_model_with_other_tokens_does_not_draft():
    narrow = Llama.random(replace(CONFIG, vocab_size=12), seed=1)
    with pytest.raises(guided.GuidedError, match="12 logits, but there are 13 tokens"):
        with_draft_model(narrow)
    others = Vocabulary([*LETTERS[:-1], b"_", None, None], eos_token_ids=[END], special_tokens={END: "<end>"})
    with pytest.raises(guided.GuidedError, match=r"token 10 is b' ' in the model, but b'_' in .*same tokens"):
        check_same_tokens(VOCABULARY, OTHER, others)
    check_same_tokens(VOCABULARY, OTHER, VOCABULARY)


def test_texts_longer_than_the_context_of_the_draft_model():
    short = Llama.random(replace(CONFIG, context=32), seed=4)
    engine, options = with_draft_model(short), {"max_tokens": 60, "temperature": 1.0, "seed": 3}
    prompts = [[1, 2, 3], [1] * 100, [2] * 30]
    results = engine.generate_batch(prompts, "[abc]{50}", **options)
    assert [r.tokens for r in results] == [r.tokens for r in ENGINE.generate_batch(prompts, "[abc]{50}", **options)]
    assert results[0].timings.drafted_tokens > 0 and results[1].timings.drafted_tokens == 0


def test_a_draft_model_that_breaks_drafts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = with_draft_model(OTHER)
    monkeypatch.setattr(engine.scheduler._answers._draft_model._runner, "step", lambda chunks: 1 // 0)
    prompts = [[1, 2], [3, 4]]
    results = engine.generate_batch(prompts, max_tokens=20)
    assert [r.tokens for r in results] == [r.tokens for r in ENGINE.generate_batch(prompts, max_tokens=20)]


def test_a_failed_choice_ends_only_its_own_request(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(ENGINE.model, VOCABULARY)

    def failing(requests: list[Choose]) -> list[Answer]:
        if any(choice.params.seed == 13 for request in requests for choice in request.choices):
            raise MemoryError("no room")
        return answer(requests)

    monkeypatch.setattr("guided.engine.answers.answer", failing)
    requests = [guided.Request([1, 2], options={"seed": seed, "max_tokens": 9}) for seed in (12, 13, 14)]
    outcomes = dict(engine.generate_each(requests))
    assert isinstance(outcomes[1], MemoryError)
    assert all(isinstance(outcomes[at], list) for at in (0, 2))
