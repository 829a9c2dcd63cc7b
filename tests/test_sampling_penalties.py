"""Bias, bans and penalties compared with their definitions, written in plain Python over dictionaries of logits."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import GuidedError
from guided.sampling import SamplingParams
from guided.sampling.params import REPETITION_PENALTIES
from guided.sampling.penalties import Penalties, apply_changes
from guided.sampling.sampler import choose, uniform
from tests.effort import examples

SIZE, ENDS = 12, [10, 11]
IDS = st.integers(0, SIZE - 1)
ROWS = st.lists(st.floats(-8, 8, width=32) | st.just(-math.inf), min_size=SIZE, max_size=SIZE).filter(
    lambda row: max(row) > -math.inf
)
TEXTS = st.lists(IDS, max_size=8)
NUMBERS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 0.5, 1.0, 3.0]),
        "top_k": st.integers(-1, SIZE + 1),
        "top_p": st.floats(0.1, 1),
        "min_p": st.floats(0, 1),
        "repetition_penalty": st.floats(0.25, 4),
        "presence_penalty": st.floats(-2, 2),
        "frequency_penalty": st.floats(-2, 2),
        "logit_bias": st.dictionaries(IDS, st.floats(-100, 100), max_size=4),
        "allowed_token_ids": st.none() | st.lists(IDS, min_size=1, max_size=9),
        "bad_words": st.lists(st.lists(IDS, min_size=1, max_size=3), max_size=4),
        "min_tokens": st.integers(0, 6),
        "seed": st.integers(0, 2**64 - 1),
    },
)


def penalise(penalties: Penalties, logits: torch.Tensor, output: list[int]) -> None:
    apply_changes(penalties.changes(output), logits, len(output))


@pytest.mark.parametrize("penalty", REPETITION_PENALTIES)
def test_extreme_penalties_for_repetition_keep_logits_finite(penalty: float):
    logits = torch.tensor([3e4, -3e4, 0.0, 1e-3] + [0.0] * (SIZE - 4))
    penalise(Penalties(SamplingParams(repetition_penalty=penalty), [0, 1, 2, 3], ENDS, SIZE), logits, [])
    assert logits.isfinite().all()


def oracle(row: list[float], params: SamplingParams, prompt: list[int], output: list[int]) -> dict[int, float]:
    """The logit of each allowed token, from the definitions."""
    left = {i: x for i, x in enumerate(row) if x > -math.inf}
    if params.allowed_token_ids is not None:
        left = {i: x for i, x in left.items() if i in params.allowed_token_ids}
    for *before, last in params.bad_words:
        if output[len(output) - len(before) :] == before if before else True:
            left.pop(last, None)
    if len(output) < params.min_tokens and set(left) - set(ENDS):
        left = {i: x for i, x in left.items() if i not in ENDS}
    times = Counter(output)
    for i in left:
        left[i] += params.logit_bias.get(i, 0)
        if i in prompt or i in output:
            left[i] *= params.repetition_penalty if left[i] < 0 else 1 / params.repetition_penalty
        left[i] -= params.frequency_penalty * times[i] + params.presence_penalty * (i in times)
    return left


def distribution(logits: dict[int, float], params: SamplingParams) -> dict[int, float]:
    """The probability of each token: temperature, min-p, top-k, top-p."""
    top = max(logits.values())
    p = {i: math.exp((x - top) / params.temperature) for i, x in logits.items()}
    order = sorted(p, key=lambda i: -p[i])
    order = [i for i in order if p[i] >= (params.min_p or 0)]
    if params.top_k is not None and params.top_k > 0:
        order = order[: params.top_k]
    total, mass, kept = math.fsum(p[i] for i in order), 0.0, []
    for i in order:
        if kept and mass >= (params.top_p or 1) * total:
            break
        kept.append(i)
        mass += p[i]
    return {i: p[i] / mass for i in kept}


@examples(120, many=400)
@given(ROWS, NUMBERS, TEXTS, TEXTS)
def test_the_definitions(row, numbers, prompt, output):
    params = SamplingParams(**numbers)
    logits, expected = torch.tensor(row), oracle(row, params, prompt, output)
    penalties = Penalties(params, prompt, ENDS, SIZE)
    if not expected:
        with pytest.raises(GuidedError, match="forbid every token"):
            penalise(penalties, logits, output)
        return
    for i in range(len(output)):  # earlier tokens change nothing
        penalise(
            penalties, torch.zeros(SIZE), output[:i]
        ) if not params.bad_words and not params.allowed_token_ids else None
    penalise(penalties, logits, output)
    assert {i for i, x in enumerate(logits.tolist()) if x > -math.inf} == set(expected)
    assert [float(logits[i]) for i in expected] == pytest.approx(list(expected.values()), rel=1e-5, abs=1e-4)
    if params.keeps_logits:
        assert logits.tolist() == row
    allowed = {i for i, x in enumerate(row) if x > -math.inf and not penalties.forbids(i, output)}
    assert allowed == set(oracle(row, SamplingParams(
        allowed_token_ids=params.allowed_token_ids, bad_words=params.bad_words), prompt, output))  # fmt: skip


@examples(100, many=300)
@given(ROWS, NUMBERS.filter(lambda n: n.get("temperature")), st.integers(0, 10**6))
def test_choices_among_kept_tokens_follow_their_probabilities(row, numbers, position):
    numbers = {k: v for k, v in numbers.items() if k in ("temperature", "top_k", "top_p", "min_p", "seed")}
    row = list(np.float32(row) + np.arange(SIZE, dtype=np.float32) / 64)  # ties would be ambiguous
    params = SamplingParams(**numbers)
    chosen = choose(torch.tensor(np.array(row)), params, position)
    finite = {i: float(x) for i, x in enumerate(row) if x > -math.inf}
    eased = {}
    for slack in (-1e-5, 1e-5):  # thresholds may depend on the last bit
        bounds = {k: min(1.0, max(1e-9, v + slack)) for k, v in numbers.items() if k in ("top_p", "min_p") and v}
        eased |= distribution(finite, SamplingParams(**{**numbers, **bounds}))
    assert chosen in eased


@given(ROWS, st.floats(0, 1), st.floats(0.2, 3))
def test_min_p_alone_is_a_threshold(row, min_p, temperature):
    top = max(row)
    for position in range(10):
        chosen = choose(torch.tensor(row), SamplingParams(temperature, min_p=min_p), position)
        assert math.exp((row[chosen] - top) / temperature) >= min_p * (1 - 1e-5)


@given(ROWS, NUMBERS, TEXTS)
def test_greedy_is_untouched_by_the_seed(row, numbers, output):
    try:
        tokens = set()
        for seed in (0, 1, 2**63):
            params, logits = SamplingParams(**{**numbers, "temperature": 0.0, "seed": seed}), torch.tensor(row)
            penalise(Penalties(params, [], ENDS, SIZE), logits, output)
            tokens.add(choose(logits, params, len(output)))
        assert len(tokens) == 1
    except GuidedError:
        assert not oracle(row, SamplingParams(**numbers), [], output)


def test_frequencies_match_the_distribution():
    row, params = [1.0, 0.5, 0.0, -1.0, -3.0], SamplingParams(0.8, top_k=4, top_p=0.95, min_p=0.05, seed=9)
    expected = distribution(dict(enumerate(row)), params)
    counts = Counter(choose(torch.tensor(row), params, i) for i in range(4000))
    assert set(counts) == set(expected)
    for i, p in expected.items():
        assert counts[i] / 4000 == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 4000))
    assert uniform(9, 0) != uniform(10, 0)


def test_an_empty_mask_and_broken_logits_are_left_to_the_choice():
    penalties = Penalties(SamplingParams(bad_words=[[1]], min_tokens=3, repetition_penalty=2.0), [0], ENDS, SIZE)
    for row in (torch.full((SIZE,), -math.inf), torch.full((SIZE,), math.nan)):
        penalise(penalties, row, [])
        with pytest.raises(GuidedError):
            choose(row, penalties.params, 0)


@given(NUMBERS, TEXTS, TEXTS)
def test_reading_the_output_bit_by_bit_or_at_once(numbers, prompt, output):
    kept = {k: v for k, v in numbers.items() if k not in ("allowed_token_ids", "bad_words")}
    whole, bits = (Penalties(SamplingParams(**kept), prompt, ENDS, SIZE) for _ in range(2))
    rows = torch.ones(SIZE), torch.ones(SIZE)
    for i in range(len(output)):
        penalise(bits, torch.ones(SIZE), output[:i])
    penalise(bits, rows[0], output)
    penalise(whole, rows[1], output)
    assert rows[0].tolist() == rows[1].tolist()


def test_ids_past_the_vocabulary_are_refused():
    for numbers in ({"logit_bias": {12: 1.0}}, {"allowed_token_ids": [1, 12]}, {"bad_words": [[0], [12, 1]]}):
        with pytest.raises(ValueError, match="contains token 12"):
            Penalties(SamplingParams(**numbers), [], ENDS, SIZE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_p": -0.1}, {"min_p": 1.1}, {"min_p": math.nan}, {"repetition_penalty": 0},
        {"repetition_penalty": 1e-31}, {"repetition_penalty": 5e-324}, {"repetition_penalty": 1e31},
        {"repetition_penalty": math.inf}, {"bad_words": [[]]}, {"bad_words": [[1], ["a"]]}, {"min_tokens": -1},
        {"presence_penalty": 2.1}, {"frequency_penalty": math.nan}, {"logit_bias": {0: 101}}, {"logit_bias": {-1: 1}},
        {"logit_bias": {"a": 1}}, {"logit_bias": {1: math.nan}}, {"allowed_token_ids": []}, {"min_tokens": 1.5},
        {"allowed_token_ids": [True]},
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SamplingParams(**wrong)


def test_arguments_may_change_afterwards():
    bias, words = {1: 2.0}, [[1, 2]]
    params = SamplingParams(logit_bias=bias, bad_words=words)
    bias[1], words[0][1] = 3.0, 5
    assert (params.logit_bias, params.bad_words) == ({1: 2.0}, ((1, 2),))
    assert hash(params) == hash(params.sample(0))
