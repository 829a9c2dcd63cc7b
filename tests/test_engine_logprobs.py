"""Log probabilities of whole outputs, against a full recompute in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.engine.engine import Engine
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.errors import OptionError
from guided.kv.dense import DenseCache
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.sampling.logprobs import LogprobParams, token_logprobs
from guided.vocabulary.vocabulary import Vocabulary
from tests.effort import examples
from tests.engine_support import Reader

torch.set_num_threads(1)
LETTERS = [b"a", b"b", b"c", b"d", b"ab", b"cd", b" ", None]
EOS, SIZE = 8, 9
CONFIG = LlamaConfig(layers=2, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=11, context=512)
MODEL = Llama.random(CONFIG, seed=3)
ENGINE = Engine(MODEL, Vocabulary(LETTERS, eos_token_ids=[EOS]), token_budget=20)
PROMPT = [0, 3, 6, 2]


def logits(tokens: list[int]) -> np.ndarray:
    """The model's logits after each token."""
    return Reader(MODEL, 600).forward(tokens, len(tokens)).double().numpy().copy()


def log_softmax(row: np.ndarray) -> np.ndarray:
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


def check(scores, row: np.ndarray, token: int, k: int) -> None:
    """Check that `scores` are the scores of `token` under the log probabilities `row`."""
    assert scores.token == token
    assert scores.logprob == pytest.approx(row[token], abs=1e-4)
    possible = [i for i in range(SIZE) if row[i] > -np.inf]
    assert len(scores.top) == min(k, len(possible)) == len({i for i, _ in scores.top})
    assert [p for _, p in scores.top] == pytest.approx(sorted(row[possible], reverse=True)[:k], abs=1e-4)
    assert [p for _, p in scores.top] == pytest.approx([row[i] for i, _ in scores.top], abs=1e-4)
    assert all(a[1] >= b[1] for a, b in zip(scores.top, scores.top[1:], strict=False))


@examples(40)
@given(st.integers(0, 1000), st.sampled_from([0.0, 1.0, 3.0]), st.integers(0, 12), st.booleans())
def test_free_outputs(seed, temperature, k, raw):
    """Raw log probabilities are the model's. Masked ones include bias and penalties, but never the temperature."""
    mode, numbers = ("raw" if raw else "masked"), {"logit_bias": {1: 2.0}, "presence_penalty": 1.0, "bad_words": [[5]]}
    options = {"temperature": temperature, "seed": seed, "max_tokens": 12, **numbers}
    result = ENGINE.generate(PROMPT, logprobs=k, logprobs_mode=mode, **options)
    plain = ENGINE.generate(PROMPT, **options)
    assert (plain.tokens, plain.logprobs, plain.prompt_logprobs) == (result.tokens, None, None)
    rows = logits([*PROMPT, *result.tokens])[len(PROMPT) - 1 :]
    assert len(result.logprobs) == len(result.tokens)
    for i, token in enumerate(result.tokens):
        row = rows[i]
        if not raw:
            row[[5, *range(SIZE, CONFIG.vocab_size)]] = -np.inf
            row[1] += 2
            row[sorted(set(result.tokens[:i]))] -= 1
        check(result.logprobs[i], log_softmax(row), token, k)


@examples(40)
@given(st.integers(0, 1000), st.integers(0, 4), st.booleans(), st.booleans())
def test_constrained_outputs(seed, k, raw, forced):
    mode = "raw" if raw else "masked"
    options = {"temperature": 2.0, "seed": seed, "max_tokens": 20, "logprobs": k, "logprobs_mode": mode}
    result = ENGINE.generate(PROMPT, "(ab|cd){2}dd(a|b)c?", score_forced=forced, **options)
    rows = logits([*PROMPT, *result.tokens])[len(PROMPT) - 1 :]
    assert 0 in result.token_masks
    for i, (token, sampled, scores) in enumerate(zip(result.tokens, result.token_masks, result.logprobs, strict=True)):
        if not sampled and not forced:
            assert scores is None
        elif raw:
            check(scores, log_softmax(rows[i]), token, k)
        elif not sampled:
            assert (scores.logprob, scores.top) == (0.0, ((token, 0.0),)[:k])
        else:
            matcher = ENGINE.compiler.compile_regex("(ab|cd){2}dd(a|b)c?")
            allowed = allowed_after(matcher, result.tokens[:i])
            masked = np.full(CONFIG.vocab_size, -np.inf)
            masked[allowed] = rows[i][allowed]
            check(scores, log_softmax(masked), token, k)


def allowed_after(grammar, tokens: list[int]) -> list[int]:
    from guided.matching import GrammarMatcher, allocate_token_bitmask, allowed_tokens

    matcher = GrammarMatcher(grammar)
    assert all(matcher.accept_token(token) for token in tokens)
    bitmask = allocate_token_bitmask(1, SIZE)
    matcher.fill_next_token_bitmask(bitmask, max_tokens=20 - len(tokens))
    return allowed_tokens(bitmask)


@pytest.mark.parametrize("length", [1, 2, 19, 128, 129, 130, 300])
def test_prompts(length):
    prompt = np.random.default_rng(length).integers(0, 7, length).tolist()
    result = ENGINE.generate(prompt, "ab", prompt_logprobs=3, max_tokens=9)
    assert result.prompt_logprobs[0] is None and len(result.prompt_logprobs) == length
    rows = logits(prompt)
    for i in range(1, length):
        check(result.prompt_logprobs[i], log_softmax(rows[i - 1]), prompt[i], 3)
    free = ENGINE.generate(prompt, max_tokens=9, temperature=1.0, seed=5)
    scored = ENGINE.generate(prompt, max_tokens=9, temperature=1.0, seed=5, prompt_logprobs=0, n=3)
    assert scored[0].tokens == free.tokens
    assert all(len(r.prompt_logprobs) == length for r in scored)


@pytest.mark.parametrize("length", [1, 2, 129])
def test_a_prompt_may_be_scored_without_an_output(length):
    prompt = np.random.default_rng(length).integers(0, 7, length).tolist()
    whole = ENGINE.generate(prompt, max_tokens=3, prompt_logprobs=1)
    for result in ENGINE.generate(prompt, max_tokens=0, prompt_logprobs=1, n=2):
        assert (result.text, result.tokens, result.finish_reason, result.timings.forward) == ("", [], "length", [])
        assert [score and score.token for score in result.prompt_logprobs] == [None, *prompt[1:]]
        for score, other in zip(result.prompt_logprobs[1:], whole.prompt_logprobs[1:], strict=True):
            assert score.logprob == pytest.approx(other.logprob, abs=1e-4)
    with pytest.raises(OptionError, match="max_tokens is 0"):
        ENGINE.generate(prompt, max_tokens=0)


def test_the_first_event_has_the_scores_of_the_prompt():
    for constraint in (None, "ab"):
        first, *others = ENGINE.stream(PROMPT, constraint, max_tokens=9, prompt_logprobs=2)
        assert list(first.prompt_logprobs) == others[-1].result.prompt_logprobs and first.tokens
        assert not any(event.prompt_logprobs for event in others)


def test_streamed_and_stopped_ones_go_with_their_tokens():
    options = {"temperature": 2.0, "max_tokens": 30, "logprobs": 2, "stop": ["bd", "a c"], "ignore_eos": True}
    for seed in range(10):
        events = list(ENGINE.stream(PROMPT, seed=seed, **options))
        result = events[-1].result
        assert [scores for event in events for scores in event.logprobs] == result.logprobs
        assert [scores.token for scores in result.logprobs] == result.tokens


def test_a_prompt_that_is_scored_gives_way_and_comes_back():
    """A cache with space for only one sequence changes nothing."""
    small = Engine(MODEL, ENGINE.vocabulary, cache=DenseCache(cache_shape(MODEL), 2 * 256), token_budget=50)
    assert isinstance(small.scheduler, Scheduler) and isinstance(small.scheduler.runner, ModelRunner)
    prompts = [[i % 7] * 180 for i in range(5)]
    together = small.generate_batch(prompts, prompt_logprobs=1, logprobs=1, max_tokens=20)
    for prompt, result in zip(prompts, together, strict=True):
        alone = ENGINE.generate(prompt, prompt_logprobs=1, logprobs=1, max_tokens=20)
        assert alone.tokens == result.tokens
        for a, b in zip([*alone.prompt_logprobs[1:], *alone.logprobs], [*result.prompt_logprobs[1:], *result.logprobs],
                        strict=True):  # fmt: skip
            assert a.logprob == pytest.approx(b.logprob, abs=1e-4)


def test_ties_and_impossible_tokens():
    row = torch.tensor([0.0, 1.0, -float("inf"), 1.0, 9.0])
    assert [i for i, _ in token_logprobs(row, 1, 9, 4).top] == [1, 3, 0]
    assert token_logprobs(row, 2, 0, 4).logprob == -float("inf")


@pytest.mark.parametrize("wrong", [{"output": -1}, {"output": True}, {"prompt": 1.5}, {"mode": "both"}])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="logprobs"):
        LogprobParams(**wrong)
