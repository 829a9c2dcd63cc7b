"""Matrices of ggml's blocks: their values, and products compared with a judge that rounds activations as the kernel
does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.files.dequantise import Blocks
from guided.files.gguf import GGML_TYPES
from guided.kernels import BlockTiles, _kernels
from guided.models.block_matrix import BlockMatrix
from tests.block_support import FORMATS, HALVES, NUMBERS, random_blocks
from tests.json_schema_support import QUIET

torch.set_num_threads(1)
ROUNDING = 2.0**-24  # the largest relative error of a float32 number
DTYPES = [torch.float32, torch.bfloat16]
each_format = pytest.mark.parametrize("kind", FORMATS, ids=NUMBERS)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "bfloat16"])
kinds = st.sampled_from(FORMATS)


def noise(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def values(parts: list[Blocks]) -> np.ndarray:
    return np.concatenate([part.values() for part in parts])


def magnitudes(parts: list[Blocks]) -> np.ndarray:
    """The sum of the absolute values of the two terms of each weight: the rounding error of float32 is proportional to
    it.
    """
    found = []
    for part in parts:
        raw = part.raw.copy()
        for rest in HALVES[part.ggml_type][1:]:
            raw.reshape(-1, GGML_TYPES[part.ggml_type][2])[:, rest : rest + 2] = 0
        scaled, whole = Blocks(raw, part.ggml_type, part.columns, part.order).values(), part.values()
        found.append(np.abs(scaled) + np.abs(whole - scaled))
    return np.concatenate(found)


def rounded(x: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """x as the kernel rounds it: integers of 8 bits times a scale; and the scales, one for each number."""
    groups = x.float().numpy().reshape(-1, 32)
    greatest = np.abs(groups).max(1, keepdims=True)
    inverse = np.divide(np.float32(127), greatest, out=np.zeros_like(greatest), where=greatest > 0)
    scale = np.broadcast_to((greatest / np.float32(127)).astype(np.float64), groups.shape)
    return (np.rint(groups * inverse) * scale).reshape(x.shape), scale.reshape(x.shape)


def check_product(parts: list[Blocks], x: torch.Tensor, bias: torch.Tensor | None = None) -> None:
    """Compared with float64. Apart from x, the kernel rounds only the steps of a float32 sum and the result."""
    got, own, size = BlockMatrix(parts, x.dtype)(x, bias), values(parts).astype(np.float64), magnitudes(parts)
    assert (got.dtype, got.shape) == (x.dtype, (len(x), len(own)))
    added = np.zeros(len(own)) if bias is None else bias.double().numpy()
    of_x, scale = rounded(x)
    want, steps = of_x @ own.T + added, 2 * (x.shape[1] // 16) + 8
    slack = steps * ROUNDING * (np.abs(of_x) @ size.T + np.abs(added))
    slack += (2.0**-8 if x.dtype == torch.bfloat16 else 0) * np.abs(want) * 1.01
    assert (np.abs(got.double().numpy() - want) <= slack).all()
    exact = x.double().numpy() @ own.T + added
    assert (np.abs(got.double().numpy() - exact) <= slack + 0.50001 * scale @ np.abs(own).T).all()


# ---- numbers without blocks


ALONE = {0: np.float32, 1: np.float16, 30: None}
alone = st.sampled_from(sorted(ALONE))


def plain(kind: int, rows: int, columns: int, seed: int = 0) -> Blocks:
    """A matrix of plain numbers, without blocks."""
    numbers = noise(seed, rows, columns)
    if kind == 30:
        return Blocks(numbers.bfloat16().view(torch.uint8).reshape(rows, -1).numpy(), kind, columns)
    return Blocks(numbers.numpy().astype(ALONE[kind]).view(np.uint8), kind, columns)


@QUIET
@given(
    st.lists(st.tuples(alone | st.just(8), st.integers(1, 70), st.booleans()), min_size=1, max_size=3),
    st.sampled_from([1, 2, 15, 16, 33, 100, 256]),
    st.integers(1, 20),
    st.sampled_from(DTYPES),
    st.integers(0, 99),
)
def test_numbers_that_stand_alone_stay_as_they_are(drawn, columns, rows, dtype, seed):
    """Also next to blocks. Only factors next to bfloat16 numbers are rounded, to bfloat16."""
    columns = 256 if any(kind == 8 for kind, _, _ in drawn) else columns
    rng, parts = np.random.default_rng(seed), list[Blocks]()
    for i, (kind, outs, ordered) in enumerate(drawn):
        part = random_blocks(8, outs, columns, seed + i) if kind == 8 else plain(kind, outs, columns, seed + i)
        parts.append(part.rows(rng.integers(0, outs, outs + 3)) if ordered else part)
    matrix, want = BlockMatrix(parts, dtype), values(parts)
    assert np.array_equal(BlockMatrix(parts, torch.float32)[torch.arange(len(want))].numpy(), want)
    x, bias = noise(seed, rows, columns).to(dtype), noise(seed + 1, len(want)).to(dtype)
    got = matrix(x, bias)
    exact = x.double().numpy() @ want.T.astype(np.float64) + bias.double().numpy()
    size = np.abs(x.double().numpy()) @ np.abs(want.T).astype(np.float64) + np.abs(bias.double().numpy())
    loss = np.concatenate([np.full(len(p), {8: 2.0**-7, 30: 2.0**-8}.get(p.ggml_type, 2.0**-18)) for p in parts])
    slack = size * loss + (2.0**-8 * np.abs(exact) if dtype == torch.bfloat16 else 0)
    if 8 not in {kind for kind, _, _ in drawn}:  # rounded(), above, is this exact
        assert (np.abs(got.double().numpy() - exact) <= slack).all()
    one_by_one = torch.cat([matrix(x[i : i + 1], bias) for i in range(rows)])
    assert torch.equal(one_by_one, got)


# ---- values


@each_format
@pytest.mark.parametrize("rows", [1, 15, 16, 17, 40])
def test_rows_are_the_values(kind, rows):
    """Bit for bit. If a value is a product and a sum, up to the rounding that a fused operation saves."""
    blocks = random_blocks(kind, rows, 512, seed=rows)
    matrix, want = BlockMatrix([blocks], torch.float32), blocks.values()
    assert (matrix.shape, len(matrix), matrix.dtype, matrix.device.type) == ((rows, 512), rows, torch.float32, "cpu")
    wanted = np.random.default_rng(1).integers(0, rows, 50)
    got = matrix[torch.from_numpy(wanted)]
    assert (got.dtype, got.shape) == (torch.float32, (50, 512))
    slack = 2 * ROUNDING * magnitudes([blocks]) if len(HALVES[kind]) > 1 else np.zeros_like(want)
    assert (np.abs(got.numpy() - want[wanted]) <= slack[wanted]).all()
    half = BlockMatrix([blocks], torch.bfloat16)
    assert torch.equal(half[torch.from_numpy(wanted)], got.bfloat16())
    assert matrix[torch.zeros(0, dtype=torch.int64)].shape == (0, 512)


@QUIET
@given(st.lists(st.tuples(kinds, st.integers(1, 40), st.booleans()), min_size=1, max_size=4), st.integers(0, 99))
def test_parts_in_any_order_of_rows(drawn, seed):
    """Parts of different formats, with any number of rows: some rows, some twice, from the last to the first."""
    rng, parts = np.random.default_rng(seed), list[Blocks]()
    for i, (kind, rows, ordered) in enumerate(drawn):
        part = random_blocks(kind, rows, 256, seed + i)
        if ordered:
            part = part.rows(np.arange(rows)[::-1].copy()).rows(rng.integers(0, rows, rng.integers(1, 40)))
        parts.append(part)
    matrix, want = BlockMatrix(parts, torch.float32), values(parts)
    assert matrix.shape == want.shape == (sum(map(len, parts)), 256)
    got = matrix[torch.arange(len(want))].numpy()
    assert (np.abs(got - want) <= 2 * ROUNDING * magnitudes(parts)).all()
    x, bias = noise(seed, 3, 256), noise(seed + 1, len(want))
    check_product(parts, x)
    check_product(parts, x.bfloat16(), bias.bfloat16())


@each_format
def test_memory_matches_the_file(kind):
    blocks = random_blocks(kind, 64, 512)
    share = BlockMatrix([blocks], torch.float32).nbytes / blocks.raw.nbytes
    assert 1 <= share < 1.04
    assert share == 1 or GGML_TYPES[kind][0] in ("Q3_K", "Q4_K", "Q5_K", "IQ4_XS"), "scales of 6 bits take 8"


@each_format
def test_parts_without_rows(kind):
    """A rank may have no rows of an output matrix, or all rows of one part and none of another."""
    blocks = random_blocks(kind, 20, 256)
    none, x = blocks.rows(np.zeros(0, np.int64)), noise(1, 3, 256)
    empty = BlockMatrix([none], torch.float32)
    assert (empty.shape, empty.nbytes, empty(x).shape) == ((0, 256), 0, (3, 0))
    with pytest.raises(IndexError, match="no such row"):
        empty[torch.tensor([0])]
    want = BlockMatrix([blocks], torch.float32)
    for parts in ([none, blocks], [blocks, none], [none, none, blocks, none]):
        matrix = BlockMatrix(parts, torch.float32)
        assert matrix.shape == (20, 256) and torch.equal(matrix(x), want(x))
        assert torch.equal(matrix[torch.arange(20)], want[torch.arange(20)])


def test_bytes_need_not_be_contiguous_or_stay():
    blocks = random_blocks(8, 20, 64)
    wide = np.zeros((20, 200), np.uint8)
    wide[:, 7 : 7 + blocks.raw.shape[1]] = blocks.raw
    matrix = BlockMatrix([Blocks(wide[:, 7 : 7 + blocks.raw.shape[1]], 8, 64)], torch.float32)
    wide[:] = 255
    assert np.array_equal(matrix[torch.arange(20)].numpy(), blocks.values())


# ---- products


@each_format
@each_dtype
@pytest.mark.parametrize(("outs", "columns"), [(1, 256), (16, 256), (50, 512), (131, 2048)])
def test_products(kind, dtype, outs, columns):
    blocks = random_blocks(kind, outs, columns, seed=outs)
    check_product([blocks], noise(1, 13, columns).to(dtype))
    check_product([blocks], noise(2, 2, columns).to(dtype) * 1e-4, noise(3, outs).to(dtype))


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if GGML_TYPES[kind][1] == 32])
def test_products_of_few_columns(kind):
    for columns in (32, 64, 96, 288):
        check_product([random_blocks(kind, 33, columns)], noise(columns, 5, columns))


def test_the_eighth_bit_of_both():
    """The largest possible sums: 255 * 127, and -128 * 127 with the same sign everywhere."""
    for number in (0x7F, 0x80, 0xFF, 0x00):
        raw = np.full((16, 34), number, np.uint8)
        raw[:, :2] = np.array([1], "<f2").view(np.uint8)
        for sign in (1.0, -1.0):
            x = torch.full((3, 32), sign)
            got = BlockMatrix([Blocks(raw, 8, 32)], torch.float32)(x)
            torch.testing.assert_close(got, torch.full((3, 16), sign * 32 * float(np.int8(np.uint8(number)))))


@each_dtype
def test_of_each_row_the_greatest_is_exact(dtype):
    """One number among zeros is 127 of its own steps: its product is the weight, in every format."""
    for kind in FORMATS:
        blocks = random_blocks(kind, 20, 256)
        x = (torch.eye(256) * 127).to(dtype)
        got = BlockMatrix([blocks], dtype)(x).t().double().numpy() / 127
        slack = 4 * ROUNDING if dtype == torch.float32 else 2.0**-8
        assert (np.abs(got - blocks.values()) <= slack * magnitudes([blocks])).all()


# ---- the same bits


@each_format
@each_dtype
def test_a_row_has_the_same_bits_in_any_batch(kind, dtype):
    """On one thread and on two, which share large products. Other formats are used for smaller and larger batches."""
    parts = [random_blocks(kind, 150, 256, 1), random_blocks(14 if kind != 14 else 8, 37, 256, 2)]
    matrix, x, bias = BlockMatrix(parts, dtype), noise(3, 30, 256).to(dtype), noise(4, 187).to(dtype)
    alone = torch.cat([matrix(row, bias) for row in x.split(1)])
    assert torch.equal(BlockMatrix(parts[:1], dtype)(x, bias[:150]), alone[:, :150])
    assert torch.equal(BlockMatrix(parts[::-1], dtype)(x, bias.roll(37)), alone.roll(37, 1))
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for rows in range(1, 31):
                for first in {0, (30 - rows) // 2, 30 - rows}:
                    assert torch.equal(matrix(x[first : first + rows], bias), alone[first : first + rows])
    finally:
        torch.set_num_threads(1)


@each_dtype
def test_rows_that_are_more_than_stay_near(dtype):
    """So wide that twelve rows are read at a time."""
    blocks = random_blocks(2, 20, 24576)
    matrix, x = BlockMatrix([blocks], dtype), noise(1, 27, 24576).to(dtype)
    assert torch.equal(matrix(x), torch.cat([matrix(row) for row in x.split(1)]))


def test_tiles_are_the_same_however_many_threads_make_them():
    parts = [random_blocks(kind, 300, 256, kind) for kind in (2, 14)]
    matrix, x = BlockMatrix(parts, torch.float32), noise(1, 4, 256)
    torch.set_num_threads(3)
    try:
        other = BlockMatrix(parts, torch.float32)
    finally:
        torch.set_num_threads(1)
    assert torch.equal(other(x), matrix(x))


ON_OTHER_PROCESSORS = """
import sys
import numpy as np, torch
from guided.kernels import _kernels
from guided.models.block_matrix import BlockMatrix
from tests.block_support import FORMATS, random_blocks
torch.set_num_threads(1)
found = {"level": np.array(_kernels.block_instructions())}
for kind in FORMATS:
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(15, 512, generator=torch.Generator().manual_seed(kind)).to(dtype)
        matrix = BlockMatrix([random_blocks(kind, 41, 512, kind)], dtype)
        got = matrix(x)
        assert torch.equal(got, torch.cat([matrix(row) for row in x.split(1)])), (kind, dtype)
        found[f"{kind} {dtype}"] = got.float().numpy()
        found[f"rows {kind} {dtype}"] = matrix[torch.arange(41)].float().numpy()
np.savez(sys.argv[1], **found)
"""


def on_processor(name: str, path: Path) -> dict[str, np.ndarray]:
    """The same products in a process that may use only some instructions."""
    root = Path(__file__).parents[1]
    environment = {key: value for key, value in os.environ.items() if key != "GUIDED_CPU"}
    environment |= {"PYTHONPATH": str(root)} | ({"GUIDED_CPU": name} if name else {})
    command = [sys.executable, "-c", ON_OTHER_PROCESSORS, str(path / f"{name}.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    with np.load(path / f"{name}.npz") as found:
        return dict(found)


def test_other_processors_compute_the_same(tmp_path):
    """Bit for bit on processors that fuse multiplication and addition. Others round once more."""
    own, avxvnni, avx2, plain = (on_processor(name, tmp_path) for name in ("", "avxvnni", "avx2", "plain"))
    levels = [str(found.pop("level")) for found in (own, avxvnni, avx2, plain)]
    assert levels[2:] == [levels[0] if levels[0] in ("neon", "plain") else "avx2", "plain"]
    assert levels[1] != "avx512"
    assert own.keys() == avxvnni.keys() == avx2.keys() == plain.keys()
    for name, want in own.items():
        assert np.array_equal(avx2[name], want), (name, levels)
        assert np.array_equal(avxvnni[name], want), (name, levels)
        if name.startswith("rows"):
            assert np.array_equal(plain[name], want), name
        else:  # if terms cancel, relative to the largest results
            near = (2.0**-7 if "bfloat16" in name else 2e-6) * np.abs(want).max()
            assert np.abs(plain[name] - want).max() <= near, name


# ---- special numbers


@each_format
@each_dtype
def test_zeros(kind, dtype):
    bias = noise(1, 20).to(dtype)
    matrix = BlockMatrix([random_blocks(kind, 20, 256)], dtype)
    zeros = torch.zeros(3, 256, dtype=dtype)
    assert torch.equal(matrix(zeros), torch.zeros(3, 20, dtype=dtype))
    assert torch.equal(matrix(-zeros, bias), bias.expand(3, 20))
    assert matrix(zeros[:0]).shape == (0, 20)


@each_format
def test_a_huge_number_among_small_ones(kind):
    """Its 32 neighbours are rounded in its steps, and the tiny numbers of another row in theirs."""
    blocks = random_blocks(kind, 20, 256)
    x = noise(1, 4, 256)
    x[1, 40], x[2, 40], x[3] = 1e30, -1e30, x[3] * 1e-30
    check_product([blocks], x)
    check_product([blocks], x.bfloat16())


@each_format
@pytest.mark.parametrize("size", [1e-20, 1e-36, 1e-38, 1e-42, 1e-45])
def test_activations_that_are_next_to_nothing(kind, size):
    """Below 127 times the smallest normal number, a step may be lost: the result is tiny, too."""
    blocks = random_blocks(kind, 20, 256)
    x = noise(1, 3, 256).clamp(-2, 2)
    x[:, 5] = 0
    got = BlockMatrix([blocks], torch.float32)(x * size)
    want = (x * size).double() @ torch.from_numpy(blocks.values()).double().t()
    slack = (2e-2 * size + 1e-36) * np.abs(blocks.values()).sum(1)
    assert (np.abs((got.double() - want).numpy()) <= slack).all()


@each_format
def test_scales_that_are_next_to_nothing(kind):
    """Numbers below the smallest normal one of float16 are exact."""
    blocks = random_blocks(kind, 40, 256)
    raw = blocks.raw.reshape(-1, GGML_TYPES[kind][2])
    for at in HALVES[kind]:
        raw[:, at : at + 2] = np.random.default_rng(at).integers(0, 1024, (len(raw), 1)).astype("<u2").view(np.uint8)
    check_product([blocks], noise(1, 5, 256))
    got = BlockMatrix([blocks], torch.float32)[torch.arange(40)].numpy()
    assert (np.abs(got - blocks.values()) <= 2 * ROUNDING * magnitudes([blocks])).all()


@each_format
@pytest.mark.parametrize("scale", [np.inf, -np.inf, np.nan])
def test_nan_scales_spoil_only_their_own_output(kind, scale):
    x = noise(1, 5, 512)
    for at in HALVES[kind]:
        blocks = random_blocks(kind, 40, 512)
        want = BlockMatrix([blocks], torch.float32)(x)
        raw = blocks.raw.reshape(40, -1, GGML_TYPES[kind][2])
        raw[19, -1, at : at + 2] = np.array([scale], "<f2").view(np.uint8)
        matrix = BlockMatrix([blocks], torch.float32)
        got = matrix(x)
        assert not got[:, 19].isfinite().any()
        others = torch.arange(40) != 19
        assert torch.equal(got[:, others], want[:, others])
        np.testing.assert_array_equal(matrix[torch.tensor([19])][0].numpy(), blocks.values()[19])


@QUIET
@given(kinds, st.integers(1, 20), st.integers(0, 999))
def test_any_bytes_are_a_matrix(kind, rows, seed):
    """Outputs whose values are all numbers are right. The others exist."""
    raw = np.random.default_rng(seed).integers(0, 256, (rows, 256 // GGML_TYPES[kind][1] * GGML_TYPES[kind][2]))
    blocks = Blocks(raw.astype(np.uint8), kind, 256)
    x, want = noise(seed, 3, 256), blocks.values()
    matrix = BlockMatrix([blocks], torch.float32)
    got = matrix(x)
    assert got.shape == (3, rows)
    fine = np.isfinite(want).all(1)
    near = 2e-2 * x.abs().sum(1, keepdim=True).numpy() * np.abs(want[fine]).max(1, initial=0)
    assert (np.abs(got.numpy()[:, fine] - x.numpy() @ want[fine].T) <= near + 1e-3).all()


@each_dtype
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_numbers_do_not_become_numbers(dtype, number):
    """A row with NaN or infinity has no finite output, so readers of the logits notice. Other rows are unaffected."""
    x, finite = noise(1, 6, 256).to(dtype), set[int]()
    for kind in FORMATS:
        matrix = BlockMatrix([random_blocks(kind, 40, 256)], dtype)
        want = matrix(x)
        for row, column in ((1, 0), (3, 77), (5, 255)):
            spoilt = x.clone()
            spoilt[row, column] = number
            got = matrix(spoilt)
            others = torch.arange(6) != row
            assert torch.equal(got[others], want[others])
            if got[row].isfinite().any():
                finite.add(kind)
    assert finite == set()


# ---- misuse


def test_products_that_do_not_fit_are_refused():
    matrix = BlockMatrix([random_blocks(2, 20, 64)], torch.float32)
    x, bias = torch.ones(2, 64), torch.ones(20)
    assert matrix(x, bias).shape == (2, 20)
    for some, added in [
        (x[:, :32], None), (torch.ones(2, 96), None), (x[0], None), (x[None], None), (x.half(), None),
        (x.double(), None), (x.long(), None), (x.to("meta"), None), (x, bias[:19]), (x, torch.ones(21)),
        (x, bias.bfloat16()), (x, bias[None]), (x.bfloat16(), bias), (x, torch.tensor(1.0)),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match="cannot multiply"):
            matrix(some, added)
    strided = torch.ones(64, 2).t()
    assert torch.equal(matrix(strided, torch.ones(40)[::2]), matrix(x, bias))


def test_rows_that_are_not_there_are_refused():
    matrix = BlockMatrix([random_blocks(2, 20, 64), random_blocks(3, 5, 64)], torch.float32)
    assert matrix[torch.tensor([24])].shape == (1, 64)
    for row in (25, -1, 1 << 62, -(1 << 63)):
        with pytest.raises(IndexError, match="no such row"):
            matrix[torch.tensor([0, row])]
    for numbers in (torch.tensor([0], dtype=torch.int32), torch.tensor([0.0]), torch.tensor(0), torch.tensor([[0]])):
        with pytest.raises(ValueError, match="expected"):
            matrix[numbers]
    for order in ([20], [-1], [0, 1 << 62]):
        with pytest.raises(IndexError, match="no such row"):
            BlockMatrix([random_blocks(2, 20, 64).rows(np.array(order))], torch.float32)


def test_bytes_of_a_wrong_size_are_refused_as_a_matrix():
    raw = np.zeros((3, 68), np.uint8)
    fine = BlockTiles([(8, raw, None)], 64)
    assert (fine.outs, fine.columns) == (3, 64)
    for kind, some, columns in [
        (8, raw, 63), (8, raw, 65), (8, raw, 95), (8, raw, 32), (8, raw, 0), (8, raw, -64), (8, raw, 1 << 62),
        (8, raw.view(np.int8), 64), (8, raw.view(np.uint16), 64), (8, raw[0], 64), (8, raw[None], 64),
        (8, raw[:, :67], 64), (2, raw, 64), (12, raw, 64), (12, np.zeros((3, 144), np.uint8), 255),
        (9, np.zeros((3, 72), np.uint8), 64), (16, np.zeros((3, 66), np.uint8), 256), (0, raw, 16), (30, raw, 35),
        (1, raw, 0), (0, raw[:, :0], 0), (4, raw, 64), (99, raw, 64), (-1, raw, 64),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=r"not rows of|no rows of|not known|known format"):
            BlockTiles([(kind, some, None)], columns)
    with pytest.raises(ValueError, match="not rows of"):
        BlockMatrix([random_blocks(8, 3, 64), random_blocks(8, 3, 96)], torch.float32)


def test_native_matrices_check_what_they_can_see():
    """The caller guarantees the addresses. Types, columns and numbers of rows are checked."""
    raw = np.zeros((4, 34), np.uint8)
    matrix = _kernels.BlockMatrix(32)
    for kind, columns in ((5, 32), (12, 32), (1 << 30, 32), (8, 33), (0, 0), (1, -1), (30, 1 << 62)):
        with pytest.raises(ValueError, match="whole blocks"):
            _kernels.BlockMatrix(columns).add(kind, raw.ctypes.data, 4, None, 4, 1)
    with pytest.raises(IndexError, match="no such row"):
        matrix.add(8, raw.ctypes.data, 4, None, 5, 1)
    assert matrix.bytes == 0
    matrix.add(8, raw.ctypes.data, 4, None, 4, 1)
    assert matrix.bytes == 16 * 34


def test_shapes_that_fit():
    blocks = random_blocks(8, 3, 32)
    assert BlockMatrix.can_multiply([blocks, random_blocks(2, 17, 32)])
    assert not BlockMatrix.can_multiply([blocks, torch.zeros(16, 32)])
