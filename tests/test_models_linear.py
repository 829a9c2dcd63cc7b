"""Products with dense matrices, in every form of computation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.models.block_matrix import BlockMatrix
from guided.models.linear import Matrix, linear
from tests.block_support import random_blocks
from tests.effort import examples

torch.set_num_threads(1)
SIZES = st.sampled_from([1, 2, 3, 7, 16, 24, 33, 64, 100])
ERRORS = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 2e-3}


def random(*shape: int, seed: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@examples(60)
@given(
    rows=st.integers(0, 20),
    size=SIZES,
    outputs=SIZES,
    biased=st.booleans(),
    strided=st.booleans(),
    dtype=st.sampled_from(list(ERRORS)),
)
def test_it_is_the_product(rows: int, size: int, outputs: int, biased: bool, strided: bool, dtype: torch.dtype) -> None:
    x = random(rows, 2 * size, seed=1, dtype=dtype)[:, ::2] if strided else random(rows, size, seed=1, dtype=dtype)
    weight, bias = random(outputs, size, seed=2, dtype=dtype), random(outputs, seed=3, dtype=dtype) if biased else None
    got = linear(x, weight, bias)
    want = x.double() @ weight.double().t() + (0 if bias is None else bias.double())
    assert (got.dtype, got.shape) == (dtype, want.shape)
    assert (got.double() - want).norm() <= ERRORS[dtype] * (want.norm() + 1e-9)


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize(("rows", "size", "outputs"), [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_products_of_nothing(dtype: torch.dtype, rows: int, size: int, outputs: int) -> None:
    bias = torch.ones(outputs, dtype=dtype)
    got = linear(torch.ones(rows, size, dtype=dtype), torch.ones(outputs, size, dtype=dtype), bias)
    assert torch.equal(got, bias.expand(rows, -1) + size)


def test_inputs_that_do_not_fit_are_refused() -> None:
    x, weight = torch.ones(2, 3), torch.ones(4, 3)
    matrix = BlockMatrix([random_blocks(2, 16, 32)], torch.float32)
    wrong: list[tuple[torch.Tensor, Matrix, torch.Tensor | None]] = [
        (x, torch.ones(4, 5), None), (x, weight.bfloat16(), None), (x, weight, torch.ones(3)),
        (x, weight, torch.ones(4).bfloat16()), (x, matrix, None), (torch.ones(32), matrix, None),
        (torch.ones(2, 64).bfloat16(), matrix, None), (torch.ones(2, 32).bfloat16(), matrix, torch.ones(15).bfloat16()),
        (torch.ones(2, 32), matrix, torch.ones(16).bfloat16()),
    ]  # fmt: skip
    for some, by, bias in wrong:
        with pytest.raises(ValueError, match="cannot multiply"):
            linear(some, by, bias)


@pytest.mark.parametrize("trained", [0, 1, 2])
def test_trained_weights_get_gradients(trained: int) -> None:
    parts = [random(3, 7, seed=2, dtype=torch.float32), random(5, 7, seed=1, dtype=torch.float32), torch.zeros(5)]
    x, weight, bias = parts
    parts[trained].requires_grad_()
    linear(x, weight, bias).sum().backward()
    want = [weight.sum(0).expand(3, -1), x.sum(0).expand(5, -1), torch.full((5,), 3.0)]
    grad = parts[trained].grad
    assert grad is not None
    torch.testing.assert_close(grad, want[trained])
