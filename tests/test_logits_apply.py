"""`apply_token_bitmask_inplace` compared with a definition that reads one bit at a time."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.logits import apply, apply_token_bitmask_inplace
from tests.effort import examples
from tests.triton_support import import_kernels

NUMPY = [np.float16, np.float32, np.float64]
TORCH = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def expected(logits: np.ndarray, bitmask: np.ndarray, rows: list[int]) -> np.ndarray:
    out = logits.copy()
    for r in rows:
        for id in range(out.shape[1]):
            word = id // 32
            if word >= bitmask.shape[1] or not int(bitmask[r, word]) >> (id % 32) & 1:
                out[r, id] = -np.inf
    return out


@st.composite
def cases(draw):
    rows, width = draw(st.integers(1, 4)), draw(st.integers(1, 100))
    words = draw(st.integers(0, (width + 31) // 32))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    logits = rng.choice([-np.inf, -3.5, 0.0, -0.0, 1.25, 8.0, np.inf, np.nan], size=(rows, width))
    bitmask = rng.integers(-(2**31), 2**31, (rows, words)).astype(np.int32)
    indices = draw(st.none() | st.lists(st.integers(0, rows - 1), max_size=rows))
    return logits, bitmask, indices


@given(cases(), st.sampled_from(NUMPY))
def test_numpy(case, dtype):
    logits, bitmask, indices = case
    logits = logits.astype(dtype)
    want = expected(logits, bitmask, list(range(len(logits))) if indices is None else indices)
    apply_token_bitmask_inplace(logits, bitmask, indices)
    np.testing.assert_array_equal(logits, want)


@given(cases(), st.sampled_from(TORCH), st.booleans())
def test_torch(case, dtype, torch_bitmask):
    logits, bitmask, indices = case
    tensor = torch.from_numpy(logits).to(dtype)
    want = expected(tensor.double().numpy(), bitmask, list(range(len(logits))) if indices is None else indices)
    apply_token_bitmask_inplace(tensor, torch.from_numpy(bitmask) if torch_bitmask else bitmask, indices)
    np.testing.assert_array_equal(tensor.double().numpy(), want)


@examples(60)
@given(cases(), st.sampled_from(TORCH), st.booleans(), st.booleans())
def test_the_kernel_of_cuda(case, dtype, torch_bitmask, transposed):
    """Triton's interpreter runs it on CPU tensors."""
    kernel = import_kernels("guided.logits.apply_triton").mask_triton
    logits, bitmask, indices = case
    tensor = torch.from_numpy(logits).to(dtype)
    tensor = tensor.T.contiguous().T if transposed else tensor
    want = expected(tensor.double().numpy(), bitmask, list(range(len(logits))) if indices is None else indices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_find_kernel", lambda logits: kernel)
        apply_token_bitmask_inplace(tensor, torch.from_numpy(bitmask) if torch_bitmask else bitmask, indices)
    np.testing.assert_array_equal(tensor.double().numpy(), want)


@given(cases())
def test_the_path_for_accelerators_has_the_same_results(case):
    from guided.logits.apply import _forbidden_ids

    logits, bitmask, _ = case
    covered = min(32 * bitmask.shape[1], logits.shape[1])
    got = torch.from_numpy(logits.copy())
    got[:, :covered].masked_fill_(_forbidden_ids(bitmask, covered, torch.device("cpu")), -np.inf)
    want = expected(logits, bitmask, list(range(len(logits))))
    np.testing.assert_array_equal(got.numpy()[:, :covered], want[:, :covered])


def test_one_row_without_a_batch_dimension():
    logits = np.zeros(40, np.float32)
    apply_token_bitmask_inplace(logits, np.array([0b101], np.int32))
    assert np.flatnonzero(logits == 0).tolist() == [0, 2]


def test_views_with_strides_and_inference_tensors():
    wide = np.zeros((3, 80), np.float32)
    apply_token_bitmask_inplace(wide[::2, ::2], np.full((2, 2), 1, np.int32))
    assert (wide[1] == 0).all()
    masked = {i for i in range(0, 80, 2) if i not in (0, 64)}
    assert set(np.flatnonzero(np.isneginf(wide[0])).tolist()) == masked
    with torch.inference_mode():
        logits = torch.zeros(2, 40)
        apply_token_bitmask_inplace(logits, np.ones((2, 1), np.int32))
        assert torch.isfinite(logits).sum() == 2


@pytest.mark.parametrize(
    ("logits", "bitmask", "indices", "error", "message"),
    [
        ([1.0], np.zeros((1, 1), np.int32), None, TypeError, "expected numpy arrays or torch tensors, got list"),
        (np.zeros(32), np.zeros(1, np.int64), None, TypeError, "a token bitmask is int32, not int64"),
        (np.zeros(32, int), np.zeros(1, np.int32), None, TypeError, "logits must be of a floating type, not int64"),
        (torch.zeros(32, dtype=torch.int64), np.zeros(1, np.int32), None, TypeError, "floating type, not torch.int64"),
        (np.zeros(32), np.zeros(2, np.int32), None, ValueError, "a bitmask of 2 words has more ids than 32 logits"),
        (np.zeros((2, 32)), np.zeros((3, 1), np.int32), None, ValueError, "logits have 2 rows, the bitmask 3"),
        (np.zeros((2, 2, 32)), np.zeros((2, 1), np.int32), None, ValueError, "expected one or two dimensions"),
        (np.zeros((2, 32)), np.zeros((3, 1), np.int32), [2], IndexError, "row 2 is not in both"),
        (np.zeros((2, 32)), np.zeros((2, 1), np.int32), [-1], IndexError, "row -1 is not in both"),
    ],
)
def test_refusals(logits, bitmask, indices, error, message):
    with pytest.raises(error, match=message):
        apply_token_bitmask_inplace(logits, bitmask, indices)


def test_numpy_needs_no_torch():
    code = (
        "import sys, numpy as np; sys.modules['torch'] = None\n"
        "from guided.logits import apply_token_bitmask_inplace as apply\n"
        "x = np.zeros(32, np.float32); apply(x, np.array([6], np.int32)); print(np.flatnonzero(x == 0).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[1, 2]", done.stderr


def test_allowed_tokens_of_a_tensor_match_its_array():
    bitmask = np.array([[5, -1], [0, 1]], np.int32)
    for row in range(2):
        assert guided.allowed_tokens(torch.from_numpy(bitmask), row) == guided.allowed_tokens(bitmask, row)
    with pytest.raises(TypeError, match="an int32 array, not int64"):
        guided.allowed_tokens(torch.zeros(1, 2, dtype=torch.int64))
