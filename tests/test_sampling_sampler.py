"""The sampler compared with the definition of softmax, top-k and top-p in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import GuidedError, OptionError
from guided.sampling import SamplingParams
from guided.sampling.sampler import choose, log_mass, uniform

ROWS = st.lists(st.floats(-8, 8, width=32) | st.just(-math.inf), min_size=1, max_size=40).filter(
    lambda row: any(math.isfinite(x) for x in row)
)


def softmax(row: list[float], temperature: float) -> list[float]:
    top = max(row)
    weights = [math.exp((x - top) / temperature) for x in row]
    return [w / math.fsum(weights) for w in weights]


def frequencies(row: list[float], params: SamplingParams, draws: int) -> np.ndarray:
    logits = torch.tensor(row)
    counts = np.zeros(len(row))
    for position in range(draws):
        counts[choose(logits, params, position)] += 1
    return counts / draws


@pytest.mark.parametrize(
    ("temperature", "known"),
    [(1.0, [0.629, 0.231, 0.140]), (0.5, [0.844, 0.114, 0.042]), (2.0, [0.481, 0.292, 0.227])],
)
def test_softmax_at_known_values(temperature, known):
    assert softmax([2.0, 1.0, 0.5], temperature) == pytest.approx(known, abs=6e-4)
    seen = frequencies([2.0, 1.0, 0.5], SamplingParams(temperature, seed=5), 4000)
    assert np.abs(seen - known).max() < 4 * 0.5 / math.sqrt(4000)


@given(ROWS, st.integers(0, 2**64 - 1), st.integers(0, 10**6), st.floats(0.05, 3))
def test_it_is_the_inverse_of_the_cumulative_distribution(row, seed, position, temperature):
    chosen = choose(torch.tensor(row), SamplingParams(temperature, seed=seed), position)
    p, u = softmax(row, temperature), uniform(seed, position)
    assert row[chosen] > -math.inf
    assert math.fsum(p[:chosen]) - 1e-5 <= u <= math.fsum(p[: chosen + 1]) + 1e-5


@given(ROWS)
def test_greedy_takes_the_first_of_the_greatest(row):
    assert choose(torch.tensor(row), SamplingParams(), 0) == row.index(max(row))


@given(ROWS, st.integers(1, 50), st.floats(0.05, 3))
def test_top_k_keeps_exactly_k_of_the_most_likely(row, k, temperature):
    kept = sorted((x for x in row if x > -math.inf), reverse=True)[:k]
    seen = {choose(torch.tensor(row), SamplingParams(temperature, top_k=k), i) for i in range(30)}
    assert len(seen) <= len(kept)
    assert min(row[i] for i in seen) >= kept[-1]


def test_ties_at_the_kth_value_do_not_widen_top_k():
    seen = {choose(torch.zeros(10), SamplingParams(1.0, top_k=3), i) for i in range(500)}
    assert len(seen) == 3


def test_top_k_off_and_wider_than_the_vocabulary():
    row = torch.tensor([0.5, 1.0, 0.0, 0.7])
    plain = [choose(row, SamplingParams(1.0), i) for i in range(50)]
    for k in (None, 0, -1, 4, 5, 10**9):
        assert [choose(row, SamplingParams(1.0, top_k=k), i) for i in range(50)] == plain


@given(ROWS, st.floats(0.01, 1), st.floats(0.2, 3), st.none() | st.integers(1, 10))
def test_top_p_keeps_the_fewest_that_hold_the_mass(row, top_p, temperature, k):
    p = softmax(row, temperature)
    order = sorted((i for i in range(len(row)) if p[i] > 0), key=lambda i: -p[i])[:k]
    total = math.fsum(p[i] for i in order)
    least, mass = 0.0, 0.0
    for i in order:
        if mass >= top_p * total + 1e-5:
            break
        least, mass = p[i], mass + p[i]
    for position in range(20):
        chosen = choose(torch.tensor(row), SamplingParams(temperature, top_p=top_p, top_k=k), position)
        assert p[chosen] >= least * (1 - 1e-5)


def test_top_p_over_a_flat_row_that_needs_more_than_the_first_look():
    row = torch.zeros(5000)
    seen = {choose(row, SamplingParams(1.0, top_p=0.9), i) for i in range(2000)}
    assert max(np.bincount(list(seen))) == 1
    assert len(seen) > 1000
    probabilities = torch.linspace(0, -4, 3000)
    limit = int(torch.searchsorted(probabilities.softmax(0).double().cumsum(0), 0.5)) + 1
    assert max(choose(probabilities, SamplingParams(1.0, top_p=0.5), i) for i in range(3000)) < limit


@given(ROWS, st.integers(0, 2**64 - 1), st.floats(1e-30, 100), st.none() | st.integers(1, 50), st.floats(0.01, 1))
def test_never_a_masked_token(row, seed, temperature, k, top_p):
    for position in range(5):
        chosen = choose(torch.tensor(row), SamplingParams(temperature, k, top_p, seed), position)
        assert row[chosen] > -math.inf


def test_a_choice_depends_only_on_seed_and_position():
    row = torch.randn(100, generator=torch.Generator().manual_seed(0))
    params = SamplingParams(1.0, seed=3)
    forward = [choose(row, params, i) for i in range(40)]
    torch.manual_seed(99)
    assert [choose(row, params, i) for i in reversed(range(40))] == forward[::-1]
    assert [choose(row, params.sample(1), i) for i in range(40)] != forward
    assert params.sample(2) == SamplingParams(1.0, seed=5)
    assert SamplingParams(seed=2**64 - 1).sample(1).seed == 0


def test_uniform_numbers_are_uniform_and_pinned():
    numbers = np.array([uniform(1, i) for i in range(4000)])
    assert 0 <= numbers.min() < numbers.max() < 1
    assert np.abs(np.histogram(numbers, 10, (0, 1))[0] - 400).max() < 80
    assert uniform(0, 0) == 0.43435307984966554  # a change of this number would change every seeded output


@given(ROWS)
def test_log_mass(row):
    assert log_mass(torch.tensor(row)) == pytest.approx(math.log(math.fsum(map(math.exp, row))), abs=1e-5)


@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(1.0), SamplingParams(0.7, 5, 0.9)])
def test_nothing_to_choose_from_is_an_error_with_its_reason(params):
    with pytest.raises(GuidedError, match="the mask is empty"):
        choose(torch.full((8,), -math.inf), params, 0)
    for bad in (math.nan, math.inf):
        with pytest.raises(GuidedError, match="logits are not finite"):
            choose(torch.tensor([0.0, bad, 1.0]), params, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1}, {"temperature": math.nan}, {"temperature": math.inf}, {"top_k": 1.5}, {"top_k": True},
        {"top_p": 0}, {"top_p": 1.01}, {"top_p": math.nan}, {"seed": -1}, {"seed": 2**64}, {"seed": 0.5},
        {"top_k": -2}, {"top_k": -5}, {"top_k": "1"}, {"temperature": True}, {"temperature": "1"},
        {"temperature": 10**400}, {"temperature": None}, {"top_p": "1"}, {"top_p": True}, {"min_p": "0"},
        {"min_p": [0]}, {"min_p": -0.1}, {"repetition_penalty": None}, {"repetition_penalty": 10**400},
        {"presence_penalty": "1"}, {"frequency_penalty": math.nan}, {"frequency_penalty": True},
        {"logit_bias": [1]}, {"logit_bias": {1: "1"}}, {"logit_bias": {1: math.nan}}, {"allowed_token_ids": 1},
        {"allowed_token_ids": b"1"}, {"bad_words": 1}, {"bad_words": [1]}, {"bad_words": ["1"]}, {"min_tokens": -1},
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused_by_name(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        SamplingParams(**wrong)


@pytest.mark.parametrize("everything", [None, 0, -1])
def test_top_k_that_leaves_all_tokens(everything):
    params = SamplingParams(temperature=1e6, top_k=everything)
    assert {choose(torch.tensor([0.0, 1.0, 2.0]), params, position) for position in range(60)} == {0, 1, 2}


@pytest.mark.parametrize("temperature", [5e-324, 1e-320, 1e-46, 1e-40, 1e-30])
def test_the_coldest_takes_the_most_likely_token(temperature):
    params = SamplingParams(temperature=temperature, seed=1)
    assert {choose(torch.tensor([0.0, 2.0, 1.0]), params, position) for position in range(20)} == {1}
