"""Reads ggml's weight formats: bytes to float32, or to a matrix of packed bytes.

In: a tensor's bytes as in a GGUF file, its type and shape. Out: its values. Formats: F32, F16, BF16; blocks of 32
values with a scale (Q4_0, Q5_0, Q8_0), or with a scale and an offset (Q4_1, Q5_1); blocks of 256 in groups of 16 or 32,
whose scales and offsets are small integers times the block's scale and offset (Q2_K to Q6_K); 4-bit indices into a
table (IQ4_NL, IQ4_XS). The layout of a block is a struct in
https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h; each reader below follows its fields. Every block is one
row of an array. A few thousand blocks are read at a time, so little memory is needed in addition to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from guided.errors import ModelFileError, UnsupportedError
from guided.files.gguf import GGML_TYPES

__all__ = ["Blocks", "dequantise", "read_blocks"]

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

_CHUNK_VALUES = 1 << 17  # values read at once, so that intermediate arrays stay in the cache


@dataclass(frozen=True, slots=True)
class Blocks:
    """A matrix whose values are packed as in the file.

    Attributes:
        raw: uint8, (rows, bytes per row).
        ggml_type: the format of its blocks.
        columns: the number of values in a row.
        order: int64, the index in `raw` of each row of the matrix; None: all rows, in order.
    """

    raw: Bytes
    ggml_type: int
    columns: int
    order: npt.NDArray[np.int64] | None = None

    @property
    def is_quantised(self) -> bool:
        """Whether several values share a scale."""
        return GGML_TYPES[self.ggml_type][1] > 1

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.raw if self.order is None else self.order)

    def rows(self, order: npt.NDArray[np.int64]) -> Blocks:
        """A matrix of the rows with these indices, in this order."""
        return replace(self, order=order if self.order is None else self.order[order])

    def part(self, first: int, last: int) -> Blocks | None:
        """The columns from `first` to `last` (exclusive), or None if they do not consist of whole blocks."""
        _, block_size, nbytes = GGML_TYPES[self.ggml_type]
        if first % block_size or last % block_size:
            return None
        raw = self.raw[:, first // block_size * nbytes : last // block_size * nbytes]
        return replace(self, raw=np.ascontiguousarray(raw), columns=last - first)

    def values(self) -> Floats:
        """The values, (rows, columns)."""
        raw = self.raw if self.order is None else self.raw[self.order]
        return dequantise(raw.reshape(-1), self.ggml_type, (len(raw), self.columns))


def dequantise(raw: Bytes, ggml_type: int, shape: tuple[int, ...], name: str = "") -> Floats:
    """The values of one tensor, float32, in `shape` (rows first).

    Raises:
        UnsupportedError: the format is not one of those in the module docstring.
        ModelFileError: the number of bytes does not match the shape.
    """
    reader = _find_reader(ggml_type, name)
    rows, block_size = _split_blocks(raw, ggml_type, shape, name)
    out, chunk = np.empty((len(rows), block_size), np.float32), _CHUNK_VALUES // block_size
    with np.errstate(all="ignore"):  # a corrupt file may have infinite scales; the engine refuses NaN logits later
        for start in range(0, len(rows), chunk):
            out[start : start + chunk] = reader(rows[start : start + chunk])
    return out.reshape(shape)


def read_blocks(raw: Bytes, ggml_type: int, shape: tuple[int, int], name: str = "") -> Blocks:
    """A matrix as packed bytes.

    Raises:
        UnsupportedError, ModelFileError: as `dequantise`.
    """
    _find_reader(ggml_type, name)
    rows, block_size = _split_blocks(raw, ggml_type, shape, name)
    if shape[1] % block_size:
        raise ModelFileError(
            f"tensor {name!r}: rows of {shape[1]} values are not a multiple of the block size {block_size}"
        )
    return Blocks(rows.reshape(shape[0], -1), ggml_type, shape[1])


def _find_reader(ggml_type: int, name: str) -> Callable[[Bytes], Floats]:
    reader = _READERS.get(ggml_type)
    if reader is None:
        format_name = GGML_TYPES[ggml_type][0] if ggml_type in GGML_TYPES else f"type {ggml_type}"
        formats = ", ".join(GGML_TYPES[number][0] for number in sorted(_READERS))
        hint = f"requantize the file to one of {formats}"
        raise UnsupportedError(f"weights of format {format_name} are not supported", pointer=name, hint=hint)
    return reader


def _split_blocks(raw: Bytes, ggml_type: int, shape: tuple[int, ...], name: str) -> tuple[Bytes, int]:
    """A tensor's blocks, one per row, and the number of values in a block."""
    _, block_size, nbytes = GGML_TYPES[ggml_type]
    count = prod(shape)
    if count % block_size or raw.size != count // block_size * nbytes:
        raise ModelFileError(f"tensor {name!r}: {raw.size} bytes are not {count} values of its format")
    return np.ascontiguousarray(raw).reshape(-1, nbytes), block_size


def _view_field(rows: Bytes, start: int, stop: int, dtype: str) -> npt.NDArray[Any]:
    """A field of each block as numbers of another type."""
    return np.ascontiguousarray(rows[:, start:stop]).view(dtype)


def _read_half(rows: Bytes, start: int) -> Floats:
    """A float16 field of each block, (n, 1)."""
    return _view_field(rows, start, start + 2, "<f2").astype(np.float32)


def _unpack(packed: Bytes, bits: int, width: int) -> Bytes:
    """Unpack numbers of `bits` bits: a run of `width` bytes contains 8 / bits runs of numbers, lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    numbers = packed.reshape(len(packed), -1, 1, width) >> shifts & np.uint8((1 << bits) - 1)
    return numbers.reshape(len(packed), -1)


def _combine_bits(low: Bytes, high: Bytes, bits: int) -> Bytes:
    """Combine numbers from their low bits, `bits` each, and their high bits."""
    return low | high << np.uint8(bits)


def _scale(numbers: npt.NDArray[Any], scale: Floats, offset: Floats | None = None) -> Floats:
    """Numbers (n, values) times the scale of their group (n, groups), minus its offset."""
    out = numbers.reshape(*scale.shape, -1) * scale[..., None]
    if offset is not None:
        out -= offset[..., None]
    return out.reshape(numbers.shape)


def _subtract_zero(numbers: Bytes, zero: int) -> npt.NDArray[np.int8]:
    """Subtract `zero`, the number that represents 0."""
    return (numbers - np.uint8(zero)).view(np.int8)


def _bf16(rows: Bytes) -> Floats:
    return (rows.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _q4_0(rows: Bytes) -> Floats:
    return _scale(_subtract_zero(_unpack(rows[:, 2:], 4, 16), 8), _read_half(rows, 0))


def _q4_1(rows: Bytes) -> Floats:
    return _scale(_unpack(rows[:, 4:], 4, 16), _read_half(rows, 0), -_read_half(rows, 2))


def _read_q5_numbers(rows: Bytes, start: int) -> Bytes:
    """32 numbers, stored as their fifth bits followed by their four low bits."""
    fifth_bits = np.unpackbits(rows[:, start : start + 4], axis=1, bitorder="little")
    return _combine_bits(_unpack(rows[:, start + 4 :], 4, 16), fifth_bits, 4)


def _q5_0(rows: Bytes) -> Floats:
    return _scale(_subtract_zero(_read_q5_numbers(rows, 2), 16), _read_half(rows, 0))


def _q5_1(rows: Bytes) -> Floats:
    return _scale(_read_q5_numbers(rows, 4), _read_half(rows, 0), -_read_half(rows, 2))


def _q8_0(rows: Bytes) -> Floats:
    return _scale(rows[:, 2:].view(np.int8), _read_half(rows, 0))


def _q2_k(rows: Bytes) -> Floats:
    """Fields: 16 bytes of scales and offsets, 64 of numbers, scale, offset."""
    group_scales = rows[:, :16]
    scale, offset = _read_half(rows, 80) * (group_scales & 15), _read_half(rows, 82) * (group_scales >> 4)
    return _scale(_unpack(rows[:, 16:80], 2, 32), scale, offset)


def _q3_k(rows: Bytes) -> Floats:
    """Fields: 32 bytes of third bits, 64 of two low bits, 12 of scales (four low bits, then two high), scale."""
    group_scales = _combine_bits(_unpack(rows[:, 96:104], 4, 8), _unpack(rows[:, 104:108], 2, 4), 4)
    numbers = _combine_bits(_unpack(rows[:, 32:96], 2, 32), _unpack(rows[:, :32], 1, 32), 2)
    return _scale(_subtract_zero(numbers, 4), _read_half(rows, 108) * _subtract_zero(group_scales, 32))


def _read_k_scales(rows: Bytes) -> tuple[Floats, Floats]:
    """The scales and offsets of the 8 groups of Q4_K and Q5_K.

    Fields: the block's scale, its offset, and 12 bytes with 6 bits for the scale and 6 for the offset of each group.
    Bytes 0 to 3 hold the scales of groups 0 to 3 in their low six bits, and the two high bits of the scales of groups 4
    to 7 in their high two bits. Bytes 4 to 7 hold the offsets in the same way. Bytes 8 to 11 hold the four low bits of
    the scales and offsets of groups 4 to 7.
    """
    first, second, third = rows[:, 4:8], rows[:, 8:12], rows[:, 12:16]
    scale = np.concatenate((first & 63, third & 15 | first >> 2 & 48), axis=1)
    offset = np.concatenate((second & 63, third >> 4 | second >> 2 & 48), axis=1)
    return _read_half(rows, 0) * scale, _read_half(rows, 2) * offset


def _q4_k(rows: Bytes) -> Floats:
    """Fields: scales, 128 bytes of numbers."""
    return _scale(_unpack(rows[:, 16:], 4, 32), *_read_k_scales(rows))


def _q5_k(rows: Bytes) -> Floats:
    """Fields: scales, 32 bytes of fifth bits, 128 of four low bits."""
    numbers = _combine_bits(_unpack(rows[:, 48:], 4, 32), _unpack(rows[:, 16:48], 1, 32), 4)
    return _scale(numbers, *_read_k_scales(rows))


def _q6_k(rows: Bytes) -> Floats:
    """Fields: 128 bytes of four low bits, 64 of two high bits, 16 scales, scale."""
    numbers = _combine_bits(_unpack(rows[:, :128], 4, 64), _unpack(rows[:, 128:192], 2, 32), 4)
    return _scale(_subtract_zero(numbers, 32), _read_half(rows, 208) * rows[:, 192:208].view(np.int8))


def _iq4_nl(rows: Bytes) -> Floats:
    return _scale(_IQ4[_unpack(rows[:, 2:], 4, 16)], _read_half(rows, 0))


def _iq4_xs(rows: Bytes) -> Floats:
    """Fields: scale, 2 bytes with the two high bits of the scales, 4 with their low bits, 128 of numbers."""
    group_scales = _combine_bits(_unpack(rows[:, 4:8], 4, 1), _unpack(rows[:, 2:4], 2, 1), 4)
    return _scale(_IQ4[_unpack(rows[:, 8:], 4, 16)], _read_half(rows, 0) * _subtract_zero(group_scales, 32))


_IQ4: Final = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)
_FLOAT_READERS: Final[Mapping[int, Callable[[Bytes], Floats]]] = MappingProxyType(
    {0: lambda rows: rows.view("<f4"), 1: lambda rows: rows.view("<f2").astype(np.float32), 30: _bf16}
)
_READERS: Final[Mapping[int, Callable[[Bytes], Floats]]] = MappingProxyType(
    {
        **_FLOAT_READERS,
        2: _q4_0,
        3: _q4_1,
        6: _q5_0,
        7: _q5_1,
        8: _q8_0,
        10: _q2_k,
        11: _q3_k,
        12: _q4_k,
        13: _q5_k,
        14: _q6_k,
        20: _iq4_nl,
        23: _iq4_xs,
    }
)
