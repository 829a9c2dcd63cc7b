"""ggml's formats compared with reading one value at a time, and with the `gguf` package."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.errors import ModelFileError, UnsupportedError
from guided.files.dequantise import dequantise, read_blocks
from guided.files.gguf import GGML_TYPES
from tests.block_support import FORMATS, random_blocks

F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, BF16 = 0, 1, 2, 3, 6, 7, 8, 20, 30
REFUSED = {9, 15, 16, 17, 18, 19, 21, 22, 24, 25, 26, 27, 28, 29, 34, 35, 39}

IQ4_NUMBERS = -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113


def one_value(raw: bytes, kind: int, i: int) -> float:
    if kind == F32:
        return struct.unpack_from("<f", raw, 4 * i)[0]
    if kind == F16:
        return struct.unpack_from("<e", raw, 2 * i)[0]
    if kind == BF16:
        return struct.unpack("<f", b"\0\0" + raw[2 * i : 2 * i + 2])[0]
    block = raw[i // 32 * GGML_TYPES[kind][2] :][: GGML_TYPES[kind][2]]
    (d,), i = struct.unpack_from("<e", block), i % 32
    if kind == Q8_0:
        return np.float32(d) * np.float32(struct.unpack_from("<b", block, 2 + i)[0])
    packed = block[-16:]
    q = packed[i] & 15 if i < 16 else packed[i - 16] >> 4
    if kind == IQ4_NL:
        return d * IQ4_NUMBERS[q]
    if kind in (Q5_0, Q5_1):
        q |= (int.from_bytes(block[-20:-16], "little") >> i & 1) << 4
    if kind in (Q4_0, Q5_0):
        return d * (q - (8 if kind == Q4_0 else 16))
    return np.float32(d) * np.float32(q) + np.float32(struct.unpack_from("<e", block, 2)[0])


@settings(deadline=None)
@given(
    st.sampled_from([F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, BF16]),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
def test_dequantise(kind, rows, seed):
    block, size = GGML_TYPES[kind][1:]
    count = rows * 64
    raw = np.random.default_rng(seed).integers(0, 256, count // block * size, dtype=np.uint8)
    got = dequantise(raw, kind, (rows, 64))
    assert (got.shape, got.dtype) == ((rows, 64), np.float32)
    with np.errstate(all="ignore"):  # scales may be inf or NaN
        want = np.array([one_value(raw.tobytes(), kind, i) for i in range(count)], np.float32).reshape(rows, 64)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("kind", sorted(GGML_TYPES.keys() - REFUSED))
def test_every_format_is_what_the_gguf_package_reads(kind):
    gguf = pytest.importorskip("gguf", reason="the gguf package is the judge of ggml's formats")
    _, block, size = GGML_TYPES[kind]
    raw = np.random.default_rng(kind).integers(0, 256, (300, 1024 // block * size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        want = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(kind))
    np.testing.assert_array_equal(dequantise(raw.reshape(-1), kind, (300, 1024)), want)


def test_other_formats_and_wrong_sizes_are_refused():
    with pytest.raises(UnsupportedError, match=r"format IQ2_XXS are not supported \(at blk.0\)\nhint: requantize"):
        dequantise(np.zeros(66, np.uint8), 16, (256,), "blk.0")
    with pytest.raises(ModelFileError, match="17 bytes are not 32 values"):
        dequantise(np.zeros(17, np.uint8), Q4_0, (32,))
    with pytest.raises(UnsupportedError, match="format Q8_K are not supported"):
        read_blocks(np.zeros(292, np.uint8), 15, (1, 256))
    with pytest.raises(ModelFileError, match="35 bytes are not 32 values"):
        read_blocks(np.zeros(35, np.uint8), Q8_0, (1, 32))
    with pytest.raises(ModelFileError, match="'a': rows of 16 values are not a multiple of the block size 32"):
        read_blocks(np.zeros(34, np.uint8), Q8_0, (2, 16), "a")


@pytest.mark.parametrize("kind", sorted(GGML_TYPES.keys() - REFUSED))
def test_a_matrix_is_read_as_it_is(kind):
    _, block, size = GGML_TYPES[kind]
    raw = np.random.default_rng(kind).integers(0, 60, 5 * 512 // block * size, dtype=np.uint8)
    blocks = read_blocks(raw, kind, (5, 512))
    assert blocks.is_quantised == (kind in FORMATS) == (block > 1)
    assert (len(blocks), blocks.columns) == (5, 512)
    np.testing.assert_array_equal(blocks.values(), dequantise(raw, kind, (5, 512)))


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_and_columns_of_blocks(kind):
    """Rows in any order; columns that cut no block."""
    blocks, block = random_blocks(kind, 9, 768), GGML_TYPES[kind][1]
    values = blocks.values()
    some = blocks.rows(np.array([3, 1, 8, 3])).rows(np.array([2, 0, 2]))
    assert len(some) == 3
    np.testing.assert_array_equal(some.values(), values[[8, 3, 8]])
    for first, last in ((0, 768), (256, 512), (512, 768), (0, block), (768 - 2 * block, 768)):
        part = some.part(first, last)
        assert part is not None and (len(part), part.columns) == (3, last - first)
        np.testing.assert_array_equal(part.values(), values[[8, 3, 8], first:last])
    assert all(blocks.part(*cut) is None for cut in ((16, 768), (0, block + 16), (block - 1, block)))
