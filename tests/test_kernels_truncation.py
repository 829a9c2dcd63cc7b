"""Triton's kernels for filters and changes, compared with torch: equal logits, few chunks, a short look, overlapping
lists.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import GuidedError
from guided.kernels import choice_table as choice_table_module
from guided.kernels import choose_batch, choose_device
from guided.kernels.choice_table import make_choice_table
from guided.kernels.choose_batch import Column, NeededOperations
from guided.kernels.choose_device import DeviceChoices
from guided.matching.bitmask import row_of
from guided.sampling import SamplingParams
from guided.sampling.choice import Changes, Choice, Choose, ChosenToken
from tests.choice_support import close, is_neighbour
from tests.effort import examples
from tests.triton_support import import_kernels

# The interpreter computes a block's maximum with numpy, which warns if all numbers are NaN.
pytestmark = pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")
NONE = np.zeros(0, np.int32), np.zeros(0, np.float32)


@pytest.fixture(scope="module")
def kernels() -> Iterator[Any]:
    with np.errstate(all="ignore"):  # the interpreter computes with numpy
        yield import_kernels("guided.kernels.choose_triton")


def device_choices(kernels: Any, logits: torch.Tensor, choices: list[Choice], sizes: Any = None) -> tuple[list, set]:
    """What Triton's kernels choose, and which choices they leave to torch.

    Args:
        sizes: chunks, sorted keys, and the first look, if other than on a device.
    """
    chunks, keys, look = sizes or (4096, 512, 256)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose_device, "_triton_kernel", lambda device: kernels.choose_triton)
        patch.setattr(kernels, "_MAX_CHUNKS", chunks)
        patch.setattr(kernels, "_MIN_SORT_SIZE", keys)
        patch.setattr(choose_batch, "FIRST_LOOK", look)
        made = DeviceChoices([Choose(logits, choices)])
        return made.wait(), made.rechosen_rows


@st.composite
def logits_of(draw: st.DrawFn, size: int) -> torch.Tensor:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    width = size + draw(st.sampled_from([0, 0, 1, 60]))
    x = rng.normal(0, draw(st.sampled_from([0.5, 3.0, 30.0])), width).astype(np.float32)
    x[rng.random(width) < draw(st.sampled_from([0.0, 0.0, 0.3, 1.0]))] = -math.inf
    if draw(st.integers(0, 9)) == 0:
        x[rng.integers(width)] = draw(st.sampled_from([math.nan, math.inf]))
    shape = draw(st.sampled_from(["any", "whole", "bfloat16", "falling", "equal"]))
    if shape == "falling":  # all of the most likely tokens are in few chunks
        x = -np.sort(-x)
    if shape == "equal":
        x[:] = 0
    y = torch.from_numpy(x.round() if shape == "whole" else x)
    return y.bfloat16().float() if shape == "bfloat16" else y


@st.composite
def changes_of(draw: st.DrawFn, size: int) -> Changes:
    """Lists of changes that may overlap."""

    def ids(most: int = 6) -> list[int]:
        return draw(st.lists(st.integers(0, size - 1), max_size=most, unique=True))

    biased, seen = ids(), ids(40)
    return Changes(
        permitted=row_of(size, ids(20)) if draw(st.booleans()) else None,
        banned=ids(),
        ends=ids(),
        biased=np.array(biased, np.int32),
        bias=np.array(draw(st.lists(st.sampled_from([-100, -1.5, 4]), min_size=len(biased), max_size=len(biased)))),
        seen=np.array(seen, np.int32),
        counts=np.array(draw(st.lists(st.integers(0, 3), min_size=len(seen), max_size=len(seen))), np.float32),
        repetition=draw(st.sampled_from([1.0, 0.5, 1.3])),
        presence=draw(st.sampled_from([0.0, -1.0, 0.7])),
        frequency=draw(st.sampled_from([0.0, -0.5, 0.2])),
    )


PARAMS = st.fixed_dictionaries(
    {"temperature": st.sampled_from([0.0, 1e-30, 0.7, 1.0, 3.0]), "seed": st.integers(0, 2**64 - 1)},
    optional={
        "top_k": st.sampled_from([1, 2, 7, 40, 300]),
        "top_p": st.sampled_from([1e-9, 0.3, 0.9, 0.999, 1 - 1e-9]),
        "min_p": st.sampled_from([1e-6, 0.05, 0.7, 1.0]),
    },
)


@st.composite
def rows(draw: st.DrawFn) -> tuple[torch.Tensor, list[Choice]]:
    size = draw(st.sampled_from([1, 2, 17, 33, 100, 777, 2048, 2049, 5000]))
    x = [draw(logits_of(size)) for _ in range(draw(st.integers(1, 3)))]
    width = min(map(len, x))
    made = []
    for position in range(len(x)):
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        flags = rng.random(size) < draw(st.sampled_from([0.0, 0.02, 0.5, 1.0]))
        allowed = row_of(size, flags.nonzero()[0].tolist()) if draw(st.booleans()) else None
        changes = draw(changes_of(size)) if draw(st.booleans()) else None
        params = SamplingParams(**draw(PARAMS))
        choice = Choice(params, position, size, allowed, changes=changes, logprobs=draw(st.sampled_from([None, 0])))
        made.append(replace(choice, raw=draw(st.booleans())))
    return torch.stack([one[:width] for one in x]), made


@examples(30, many=400)  # the interpreter takes a third of a second for each
@given(
    rows(),
    st.sampled_from([None, *4 * [(4, 1, 1), (16, 4, 2), (16, 16, 5), (64, 1, 16), (64, 16, 16)]]),
)
def test_triton_chooses_as_torch_does(kernels, drawn, sizes) -> None:
    logits, choices = drawn
    wanted = DeviceChoices([Choose(logits, choices)]).wait()
    found, _ = device_choices(kernels, logits, choices, sizes)
    for row, choice, one, other in zip(logits, choices, found, wanted, strict=True):
        if isinstance(other, GuidedError):
            assert str(one) == str(other)
            continue
        assert isinstance(one, ChosenToken) and (one.scores is None) == (other.scores is None)
        assert one.token == other.token or is_neighbour(row, choice, one.token)
        if not row.isfinite().logical_or(row == -math.inf).all():
            continue  # an infinite sum
        assert close(one.removed, other.removed)
        if one.scores is not None and other.scores is not None and one.token == other.token:
            assert close(one.scores.logprob, other.scores.logprob)


def test_a_short_first_look_is_repeated(kernels) -> None:
    """Only for top-p, and only if the look does not hold all tokens."""
    logits = torch.zeros(5, 300)
    options: list[dict[str, Any]] = [{"top_p": 0.5}, {"top_k": 3}, {"top_k": 3, "top_p": 0.9}, {}, {"top_p": 0.001}]
    choices = [Choice(SamplingParams(1.0, **one), 0, 300) for one in options]
    found, repeated = device_choices(kernels, logits, choices, (4096, 512, 16))
    assert repeated == {0} and all(isinstance(one, ChosenToken) for one in found)
    few = row_of(300, range(0, 300, 20))  # 15 tokens are allowed
    choices = [Choice(SamplingParams(1.0, top_p=1 - 1e-12, min_p=min_p), 0, 300, few) for min_p in (None, 0.5)]
    assert device_choices(kernels, logits[:2], choices, (4096, 512, 16))[1] == set()


SIZES = [(4096, 512), (16, 4), *(pytest.param(sizes, marks=pytest.mark.slow) for sizes in ((16, 512), (64, 16)))]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("greatest", [[], list(range(2990, 3000))], ids=["equal", "ten above"])
def test_ties_are_ordered_by_id(kernels, sizes, greatest, monkeypatch) -> None:
    """Each of the k tokens, which are about equally likely, is chosen by some number."""
    monkeypatch.setattr(choice_table_module, "uniform", lambda seed, position: (position + 0.5) / 13)
    logits = torch.zeros(1, 3000)
    logits[0, greatest] = 1
    choices = [Choice(SamplingParams(1e6, top_k=13), position, 3000) for position in range(13)]
    found, _ = device_choices(kernels, logits.expand(13, 3000).contiguous(), choices, (*sizes, 8))
    assert [one.token for one in found if isinstance(one, ChosenToken)] == [*greatest, *range(3000)][:13]


def test_ids_outside_of_the_vocabulary_are_skipped(kernels) -> None:
    """The other rows are unchanged."""
    beyond = np.array([40, 63, 10**6], np.int32)
    changes = Changes(None, [40, 41], [43], beyond, np.full(3, 9, np.float32), beyond, np.ones(3, np.float32), 1.5)
    choices = [Choice(SamplingParams(), 0, 40, changes=changes) for _ in range(3)]
    logits = torch.arange(40.0).roll(5).repeat(3, 1)
    found, _ = device_choices(kernels, logits, choices)
    assert [one.token for one in found if isinstance(one, ChosenToken)] == [4, 4, 4]


def test_long_lists_are_read_in_parts(kernels) -> None:
    rng = np.random.default_rng(0)
    seen = rng.permutation(5000)[:3000].astype(np.int32)
    counts = rng.integers(0, 3, 3000).astype(np.float32)
    banned = rng.permutation(5000)[:2500].tolist()
    logits = torch.from_numpy(rng.normal(0, 1, (2, 5000)).astype(np.float32))
    for changes in (
        Changes(None, banned, [1, 2], *NONE, seen, counts, 1.3, 0.5, 0.1),
        Changes(None, [], list(range(4999)), *NONE, seen, counts, 1.3, 0.5, 0.1),
    ):
        choices = [Choice(SamplingParams(), 0, 5000, changes=changes, logprobs=0, raw=False) for _ in range(2)]
        found, _ = device_choices(kernels, logits, choices)
        for one, other in zip(found, DeviceChoices([Choose(logits, choices)]).wait(), strict=True):
            assert isinstance(one, ChosenToken) and isinstance(other, ChosenToken) and one.token == other.token
            assert one.scores is not None and other.scores is not None
            assert close(one.scores.logprob, other.scores.logprob)


def test_a_row_emptied_by_bans_differs_from_an_empty_mask(kernels) -> None:
    changes = Changes(None, [3, 4], [], *NONE, *NONE)
    masks = [row_of(40, [3, 4]), row_of(40, []), row_of(40, [3, 4, 5])]
    choices = [Choice(SamplingParams(), 0, 40, mask, changes=changes) for mask in masks]
    table = make_choice_table(choices, range(3), torch.device("cpu"))
    found = kernels.choose_triton(torch.zeros(3, 40), table, NeededOperations.from_choices(choices))
    assert found[:, Column.ALL_BANNED].tolist() == [1, 0, 0] and found[2, Column.TOKEN] == 5
