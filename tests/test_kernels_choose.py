"""The choice of tokens, natively, in torch and in Triton, compared with the choice for a single row and with the
definition.
"""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import GuidedError
from guided.kernels import _kernels, choose, choose_batch, choose_device
from guided.kernels.choose import answer as answer_natively
from guided.kernels.choose_device import DeviceChoices
from guided.matching.bitmask import row_of
from guided.sampling import SamplingParams
from guided.sampling.choice import Answer, Choice, Choose, ChosenToken, Ramp
from guided.sampling.penalties import Penalties
from guided.sampling.reference_choice import choose_row
from tests.choice_support import close, in_torch, is_neighbour
from tests.effort import draws, examples
from tests.triton_support import import_kernels

# The interpreter computes a block's maximum with numpy, which warns if all numbers are NaN.
pytestmark = pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")


@pytest.fixture(scope="module", params=["native", "torch", "triton"])
def answer(request):
    """Choose as a CPU does, as a device does with torch alone, or with Triton's kernels."""

    def on_device(requests):
        found = iter(DeviceChoices(requests).wait() if requests else ())
        return [Answer([next(found) for _ in choices], 0.0) for _, choices, _ in requests]

    if request.param == "native":
        yield answer_natively
    elif request.param == "torch":
        yield on_device
    else:
        kernels = import_kernels("guided.kernels.choose_triton")
        with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):  # the interpreter computes with numpy
            patch.setattr(choose_device, "_triton_kernel", lambda device: kernels.choose_triton)
            patch.setattr(
                kernels, "_MIN_SORT_SIZE", 32
            )  # it sorts slowly; test_kernels_truncation.py uses the numbers of a device
            patch.setattr(choose_batch, "FIRST_LOOK", 32)
            yield on_device


NUMBERS = st.fixed_dictionaries(
    {"temperature": st.sampled_from([0.0, 0.0, 1e-30, 0.5, 1.0, 3.0]), "seed": st.integers(0, 2**64 - 1)},
    optional={
        "top_k": st.sampled_from([-1, 0, 1, 2, 7, 40, 10**9]),
        "top_p": st.sampled_from([0.001, 0.3, 0.9, 1.0]),
        "min_p": st.sampled_from([0.0, 0.05, 0.7, 1.0]),
        "repetition_penalty": st.sampled_from([0.5, 1.3]),
        "presence_penalty": st.sampled_from([-1.0, 0.7]),
        "frequency_penalty": st.sampled_from([-0.5, 0.2]),
        "min_tokens": st.integers(0, 5),
    },
)


@st.composite
def choices(draw):
    """A row of logits, and a choice from it."""
    size = draw(st.sampled_from([1, 2, 15, 16, 17, 31, 32, 33, 100, 2048, 2049, 5000]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    width = size + draw(st.sampled_from([0, 0, 1, 60]))
    logits = rng.normal(0, draw(st.sampled_from([0.5, 3.0, 30.0])), width).astype(np.float32)
    logits[rng.random(width) < draw(st.sampled_from([0.0, 0.0, 0.3]))] = -math.inf

    def ids(most=6):
        return sorted(set(rng.integers(0, size, draw(st.integers(0, most))).tolist()))

    allowed = unbudgeted = ramp = None
    if draw(st.booleans()):
        flags = rng.random(size) < draw(st.sampled_from([0.0, 0.02, 0.5, 1.0]))
        flags[rng.integers(size)] = True
        allowed = row_of(size, flags.nonzero()[0].tolist())
        if draw(st.booleans()):
            unbudgeted = allowed | row_of(size, ids(40))
        if draw(st.booleans()):
            ramp = Ramp(draw(st.sampled_from([0.5, 40.0])), allowed & row_of(size, ids(40)))
        if draw(st.booleans()):  # far below the logits of forbidden tokens
            logits[:size][flags] -= 500
    numbers = dict(draw(NUMBERS))
    for name, given_ids in (("allowed_token_ids", ids(30) or None), ("bad_words", [[id] for id in ids()])):
        if draw(st.booleans()):
            numbers[name] = given_ids
    numbers["logit_bias"] = {id: float(rng.normal(0, 5)) for id in ids()} if draw(st.booleans()) else {}
    params, output = SamplingParams(**numbers), [int(id) for id in rng.integers(0, size, draw(st.integers(0, 9)))]
    drafts = output[len(output) // 2 :] if draw(st.booleans()) else []
    output = output[: len(output) - len(drafts)]
    penalties = Penalties(params, ids(), ids(2), size)
    changes = None if params.keeps_logits else penalties.changes(output, drafts)
    logprobs = draw(st.sampled_from([None, 0, 1, 5, 10**6]))
    position, raw = len(output) + len(drafts), draw(st.booleans())
    return logits, Choice(params, position, size, allowed, unbudgeted, ramp, changes, logprobs, raw)


ROWS = st.lists(choices(), min_size=1, max_size=4)


@pytest.mark.parametrize("answer", ["native", "torch"], indirect=True)
@examples(300, many=4000)
@given(ROWS)
def test_it_chooses_as_the_form_for_one_row_does(answer, rows):
    compare(answer, rows)


@pytest.mark.parametrize("answer", ["triton"], indirect=True)
@examples(30, many=400)  # the interpreter takes a tenth of a second for each
@given(ROWS)
def test_triton_chooses_as_the_form_for_one_row_does(answer, rows):
    compare(answer, rows)


def compare(answer, rows):
    kept = [logits.copy() for logits, _ in rows]
    requests = [Choose(torch.from_numpy(logits)[None], [choice]) for logits, choice in rows]
    answers = answer(requests)
    for (logits, choice), before, (found,) in zip(rows, kept, (a.rows for a in answers), strict=True):
        assert np.array_equal(logits, before)
        wanted = in_torch(torch.from_numpy(logits), choice)
        if isinstance(wanted, GuidedError):
            assert isinstance(found, GuidedError) and str(found) == str(wanted)
            continue
        assert isinstance(found, ChosenToken)
        assert close(found.removed, wanted.removed) and close(found.budget_mass, wanted.budget_mass)
        assert found.preferred == wanted.preferred
        by_model = 0.0 if choice.allowed is None else float(torch.from_numpy(logits).log_softmax(0)[found.token])
        assert close(found.logprob, by_model)
        if found.token != wanted.token:  # the last bits of a sum or of a threshold, or equal logits in any order
            assert is_neighbour(torch.from_numpy(logits), choice, found.token)
        elif wanted.scores is None:
            assert found.scores is None
        else:
            assert found.scores is not None and close(found.scores.logprob, wanted.scores.logprob)
            assert len(found.scores.top) == len(wanted.scores.top)
            for (_, a), (_, b) in zip(found.scores.top, wanted.scores.top, strict=True):
                assert close(a, b)


def row(*logits: float) -> torch.Tensor:
    return torch.tensor([logits], dtype=torch.float32)


def one(answer, logits: torch.Tensor, **options) -> ChosenToken | GuidedError:
    params = SamplingParams(**{k: options.pop(k) for k in list(options) if k in SamplingParams.__dataclass_fields__})
    choice = Choice(params, options.pop("position", 0), options.pop("size", logits.shape[1]), **options)
    return answer([Choose(logits, [choice])])[0].rows[0]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("logits", [(0, math.nan, 1), (math.nan,), (math.inf, 0), (-math.inf, -math.inf)])
def test_values_that_are_not_numbers_are_refused(answer, logits, temperature):
    found = one(answer, row(*logits), temperature=temperature)
    assert isinstance(found, GuidedError)
    assert str(found) == str(in_torch(row(*logits)[0], Choice(SamplingParams(temperature), 0, len(logits))))


def test_nan_that_is_not_allowed_does_not_matter(answer):
    found = one(answer, row(0, math.nan, 1, math.inf), allowed=row_of(4, [0, 2]))
    assert isinstance(found, ChosenToken) and found.token == 2


def test_padded_heads_and_stray_bits_are_never_chosen(answer):
    for temperature in (0.0, 1.0, 50.0):
        for seed in range(draws(40)):
            found = one(
                answer, row(0, 0, 9, 9), size=2, temperature=temperature, seed=seed, allowed=np.array([-1], np.int32)
            )
            assert isinstance(found, ChosenToken) and found.token < 2


def test_ties_go_to_the_lowest_id(answer):
    logits = torch.zeros(1, 5000)
    logits[0, ::2] = -0.0
    found = one(answer, logits, logprobs=3)
    assert isinstance(found, ChosenToken) and found.token == 0 and found.scores is not None
    assert [id for id, _ in found.scores.top] == [0, 1, 2]


def test_top_p_over_many_equal_tokens(answer, request):
    """More tokens than the first look holds, and more than the second."""
    slow = request.node.callspec.params["answer"] == "triton"  # in its interpreter
    sizes, seeds = ((300, 5000), range(15)) if slow else ((300, 5000, 40000), range(60))
    for size in sizes:
        seen = {one(answer, torch.zeros(1, size), temperature=1.0, top_p=0.5, seed=seed).token for seed in seeds}
        assert len(seen) > 2 / 3 * len(seeds) and max(seen) < size / 2 + 2


def test_frequencies_match_the_distribution(answer, request):
    logits = torch.tensor(np.random.default_rng(0).normal(0, 1, (1, 40)).astype(np.float32))
    slow = request.node.callspec.params["answer"] == "triton"  # in its interpreter
    number = examples(60).max_examples if slow else 4000
    for options in ({}, {"top_k": 10}, {"top_p": 0.8}, {"min_p": 0.2}):
        counts = np.zeros(40)
        choices = [Choice(SamplingParams(0.8, **options), position, 40) for position in range(number)]
        for chosen in answer([Choose(logits.expand(number, 40), choices)])[0].rows:
            counts[chosen.token] += 1
        p = logits[0].double().div(0.8).softmax(0).numpy()
        order = np.argsort(-p)
        kept = order[: options.get("top_k", 40)]
        kept = kept[p[kept] >= options.get("min_p", 0) * p.max()]
        kept = kept[np.cumsum(p[kept]) - p[kept] < options.get("top_p", 1) * p[kept].sum()]
        assert set(counts.nonzero()[0]) <= set(kept)
        expected = p[kept] / p[kept].sum()
        assert np.abs(counts[kept] / number - expected).max() < 4 * 0.5 / math.sqrt(number)


def test_a_choice_does_not_depend_on_other_rows(answer):
    rng = np.random.default_rng(3)
    logits = torch.from_numpy(rng.normal(0, 2, (20, 3000)).astype(np.float32))
    options = [{}, {"top_k": 20}, {"top_p": 0.9}, {"repetition_penalty": 1.2}]
    rows = [
        Choice(
            params := SamplingParams(1.0, seed=i, **options[i % 4]), i, 3000, logprobs=2,
            changes=None if params.keeps_logits else Penalties(params, [1, 2], [0], 3000).changes([5, 6, 5]),
        )
        for i in range(20)
    ]  # fmt: skip
    together = answer([Choose(logits, rows)])[0].rows
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert [answer([Choose(logits[i : i + 1], [rows[i]])])[0].rows[0] for i in range(20)] == together
    finally:
        torch.set_num_threads(threads)
    assert answer([Choose(logits[i:], rows[i:]) for i in (0, 7, 19)])[1].rows == together[7:]


def test_requests_share_a_tensor(answer):
    """Requests refer to rows of a common tensor, in any order, next to requests with tensors of their own."""
    rng = np.random.default_rng(5)
    logits = torch.from_numpy(rng.normal(0, 3, (12, 40)).astype(np.float32))
    other = torch.from_numpy(rng.normal(0, 3, (3, 40)).astype(np.float32))
    places = [(logits, 7, 3), (logits, 0, 1), (logits, 11, 1), (other, 1, 2), (logits, 4, 2)]
    for some in (places[:3], places):
        shared, own = list[Choose](), list[Choose]()
        for at, (tensor, first, number) in enumerate(some):
            choices = [Choice(SamplingParams(0.9, seed=at), position, 40) for position in range(number)]
            shared.append(Choose(tensor, choices, first))
            own.append(Choose(tensor[first : first + number].clone(), choices))
        assert [one.rows for one in answer(shared)] == [one.rows for one in answer(own)]


def test_requests_that_do_not_fit_are_refused():
    choice = Choice(SamplingParams(), 0, 4)
    answer = answer_natively
    with pytest.raises(ValueError, match="choices from"):
        answer([Choose(torch.zeros(2, 4), [choice])])
    for first in (-1, 1, 2):
        with pytest.raises(ValueError, match=f"2 choices from .* from row {first}"):
            answer([Choose(torch.zeros(2, 4), [choice, choice], first)])
    with pytest.raises(ValueError, match="choices from"):
        answer([Choose(torch.zeros(1, 4, dtype=torch.bfloat16), [choice])])
    with pytest.raises(ValueError, match="fewer logits"):
        answer([Choose(torch.zeros(1, 3), [choice])])
    with pytest.raises(ValueError, match="one bit for each"):
        answer([Choose(torch.zeros(1, 4), [Choice(SamplingParams(), 0, 4, np.zeros(2, np.int32))])])
    empty, none = np.zeros(0, np.int32), np.zeros(0, np.float32)
    for changes in (
        (None, [4], [], empty, none, empty, none, 1.0, 0.0, 0.0),
        (None, [], [-1], empty, none, empty, none, 1.0, 0.0, 0.0),
        (None, [], [], np.array([7], np.int32), np.zeros(1, np.float32), empty, none, 1.0, 0.0, 0.0),
        (None, [], [], empty, none, np.array([-2], np.int32), np.zeros(1, np.float32), 1.0, 0.0, 0.0),
    ):
        logits = np.zeros(4, np.float32)
        row = (logits.ctypes.data, 4, 4, None, None, None, 0.0, changes, 0.0, 0, 1.0, 0.0, 0.0, -1, True)
        with pytest.raises(IndexError, match="no such token"):
            _kernels.choose_rows([row], 1)
    assert answer([]) == []


@pytest.mark.parametrize("number", [2**62, 2**63, 2**70])
def test_any_number_of_logprobs_may_be_requested(answer, number):
    logits = torch.arange(40.0)[None]
    plain = [one(answer, logits, temperature=1.0, seed=seed) for seed in range(20)]
    assert [one(answer, logits, temperature=1.0, seed=seed, top_k=number) for seed in range(20)] == plain
    found = one(answer, logits, logprobs=number)
    assert isinstance(found, ChosenToken) and found.scores is not None and len(found.scores.top) == 40


def test_logits_that_are_not_numbers_may_be_banned(answer):
    params = SamplingParams(bad_words=[[1]])
    changes = Penalties(params, [], [], 3).changes([])
    for wrong in (math.nan, math.inf):
        found = answer([Choose(row(1, wrong, 3), [Choice(params, 0, 3, changes=changes)])])[0].rows[0]
        assert isinstance(found, ChosenToken) and found.token == 2


def test_no_log_probability_is_above_0(answer):
    rng = np.random.default_rng(0)
    for _ in range(100):
        logits = torch.from_numpy(rng.normal(0, 1, (1, 500)).astype(np.float32))
        logits[0, 7], logits[0, 9] = 30, 30 + rng.uniform(0, 15)
        found = one(answer, logits, allowed=row_of(500, [*range(9), *range(10, 500)]), logprobs=3, raw=False)
        assert isinstance(found, ChosenToken) and found.token == 7 and found.scores is not None
        assert max(found.scores.logprob, *(p for _, p in found.scores.top)) <= 0


def test_hot_rows_in_torch_too():
    params = SamplingParams(temperature=1e300, seed=1)
    assert choose_row(torch.tensor([1.0, 2.0, -math.inf, 4.0]), Choice(params, 0, 4)).token in (0, 1, 3)


def edges():
    """Logits of 40 blocks, and uniform numbers between the sums up to a block and the same sums in another order."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        logits = rng.normal(0, 2, (40, 3)).astype(np.float32)
        greatest = logits.max(1)
        weights = np.zeros((40, 2048), np.float32)
        weights[:, 7:10] = np.exp(logits - greatest[:, None])
        sums = np.zeros(64)
        sums[:40] = weights.sum(1).astype(np.float64) * np.exp(greatest - greatest.max()).astype(np.float64)
        cumulative = np.cumsum(sums)
        for block in range(3, 39):
            other = np.sum(np.where(np.arange(64) <= block, sums, 0))
            for step in range(-3, 4):
                number = np.floor(cumulative[block] / np.sum(sums) * 2**53) / 2**53 + step * 2.0**-53
                if cumulative[block] <= number * np.sum(sums) < other:
                    yield logits, float(number)


def test_a_number_at_the_edge_of_a_block_draws_what_is_allowed(answer, monkeypatch):
    """Sums of blocks in another order may be smaller in their last bits than the sums up to a block."""
    from guided.kernels import choice_table

    allowed = [2048 * block + at for block in range(40) for at in (7, 8, 9)]
    for few, number in islice(edges(), 4):
        monkeypatch.setattr(choice_table, "uniform", lambda seed, position, number=number: number)
        monkeypatch.setattr(choose, "uniform", lambda seed, position, number=number: number)
        logits = np.full((40, 2048), -3, np.float32)
        logits[:, 7:10] = few
        found = one(
            answer, torch.from_numpy(logits.reshape(1, -1)), temperature=1.0, allowed=row_of(40 * 2048, allowed)
        )
        assert isinstance(found, ChosenToken) and found.token in allowed


def test_no_requests_have_no_answers(answer):
    assert answer([]) == []
    assert answer([Choose(torch.zeros(0, 4), [])])[0].rows == []
