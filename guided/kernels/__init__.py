"""Fused CPU kernels for operations that torch splits into many small steps, on rows of float32 or bfloat16.

Most have a fallback in torch that runs on every device; `is_supported` tells whether the kernel is used. The C++ is in
`native/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from guided.files.gguf import GGML_TYPES
from guided.kernels import _kernels

__all__ = [
    "BlockTiles",
    "each_row",
    "geglu",
    "gelu",
    "is_supported",
    "multiply",
    "pack",
    "rms_norm",
    "rotate",
    "softcap",
    "swiglu",
]


_SUPPORTED_DTYPES = torch.float32, torch.bfloat16  # all kernels support both
BlockRows: TypeAlias = tuple[int, npt.NDArray[np.uint8], npt.NDArray[np.int64] | None]
"""A ggml type, the bytes of rows (rows, bytes per row), and the indices of the rows to use, in order; None: all
rows."""


def is_supported(x: Tensor) -> bool:
    """Whether the kernels can read a tensor: it is on the CPU and of a supported type, and torch is not compiling."""
    return not torch.compiler.is_compiling() and x.is_cpu and x.dtype in _SUPPORTED_DTYPES


def each_row(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply `function` to x (n, size) one row at a time, so that torch's result for a row depends only on that row."""
    return torch.cat([function(x[i : i + 1].clone()) for i in range(len(x))]) if len(x) else function(x)


def multiply(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """`x @ weights.T + bias` for x (n, in) and weights (out, in) of the same supported type.

    Each output row is bitwise independent of the other rows and of the number of threads.

    Raises:
        ValueError: the shapes or types do not match, or a tensor is not on the CPU.
    """
    outs, ins = _checked_shape(weights, 2)
    _check_product(x, bias, outs, ins, weights.dtype)
    x, weights, bias = x.contiguous(), weights.contiguous(), None if bias is None else bias.contiguous()
    rows = x.shape[0]
    out = x.new_empty(rows, outs)
    addresses = x.data_ptr(), _address(weights, (outs, ins), _SUPPORTED_DTYPES), _address_if_any(bias, outs, x.dtype)
    _kernels.multiply(_is_bfloat16(x), *addresses, out.data_ptr(), rows, outs, ins, torch.get_num_threads())
    return out


def _check_product(x: Tensor, bias: Tensor | None, outs: int, ins: int, dtype: torch.dtype) -> None:
    is_bias_valid = bias is None or (bias.shape == (outs,) and bias.dtype == dtype)
    if x.dim() != 2 or x.shape[1] != ins or x.dtype != dtype or not x.is_cpu or not is_bias_valid:
        raise ValueError(f"cannot multiply {tuple(x.shape)} in {x.dtype} by the transpose of {outs, ins} in {dtype}")


class BlockTiles:
    """A matrix (outs, columns) of ggml blocks, in the kernel's layout; see native/block_product.hpp."""

    def __init__(self, parts: Sequence[BlockRows], columns: int) -> None:
        """Concatenate the rows of the parts.

        Raises:
            ValueError: the format is unknown, or rows do not consist of whole blocks. IndexError: a row does not exist.
        """
        self._native, self.outs, self.columns = _kernels.BlockMatrix(columns), 0, columns
        for ggml_type, raw, order in parts:
            if ggml_type not in GGML_TYPES:
                raise ValueError(f"{ggml_type} is not a known format")
            _, block_size, nbytes = GGML_TYPES[ggml_type]
            if raw.dtype != np.uint8 or raw.shape != (len(raw), columns // block_size * nbytes):
                raise ValueError(
                    f"bytes of shape {raw.shape} are not rows of {columns} values in blocks of {block_size}"
                )
            raw = np.ascontiguousarray(raw)
            row_order = None if order is None else np.ascontiguousarray(order, np.int64)
            count, address = (len(raw), None) if row_order is None else (len(row_order), row_order.ctypes.data)
            self._native.add(ggml_type, raw.ctypes.data, len(raw), address, count, torch.get_num_threads())
            self.outs += count

    @property
    def nbytes(self) -> int:
        """The number of bytes that a multiplication reads."""
        return self._native.bytes

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """`x @ weights.T + bias` for x (n, columns), in x's dtype. Each output row is bitwise independent of the other
        rows.

        Raises:
            ValueError: the shapes or types do not match, or the type is not supported.
        """
        _check_product(x, bias, self.outs, self.columns, x.dtype)
        if not is_supported(x):
            raise ValueError(f"cannot multiply {x.dtype} on {x.device}")
        x, bias = x.contiguous(), None if bias is None else bias.contiguous()
        rows = x.shape[0]  # ten times as fast as `len`
        out = x.new_empty(rows, self.outs)
        addresses = x.data_ptr(), 0 if bias is None else bias.data_ptr(), out.data_ptr()
        self._native.multiply(_is_bfloat16(x), *addresses, rows, torch.get_num_threads())
        return out

    def rows(self, numbers: Tensor) -> Tensor:
        """Return rows as float32 (n, columns). `numbers`: their indices, int64 (n,). IndexError: a row does not
        exist."""
        (count,), numbers = _checked_shape(numbers, 1), numbers.contiguous()
        out = torch.empty(count, self.columns)
        self._native.values(_address(numbers, (count,), torch.int64), count, out.data_ptr())
        return out


def rms_norm(x: Tensor, weight: Tensor | None, eps: float, offset: float = 0.0) -> Tensor:
    """`x / sqrt(mean(x ** 2) + eps) * (offset + weight)` over the last dimension ("RMSNorm", arXiv 1910.07467)."""
    if not is_supported(x):
        if weight is None or offset == 0:
            return F.rms_norm(x, x.shape[-1:], weight, eps)
        precise_dtype = torch.promote_types(
            x.dtype, torch.float32
        )  # in bfloat16, adding 1 to a weight near -1 loses precision
        return F.rms_norm(x.to(precise_dtype), x.shape[-1:], offset + weight.to(precise_dtype), eps).to(x.dtype)
    x, weight, size = x.contiguous(), None if weight is None else weight.contiguous(), x.shape[-1]
    out, rows = torch.empty_like(x), x.numel() // max(1, size)
    addresses = x.data_ptr(), _address_if_any(weight, size, x.dtype), out.data_ptr()
    _kernels.rms_norm(_is_bfloat16(x), *addresses, rows, size, eps, offset)
    return out


def swiglu(x: Tensor) -> Tensor:
    """`silu(gate) * up` for rows (gate, up) of shape (n, 2 size); returns (n, size). Source: "GLU Variants", arXiv
    2002.05202."""
    if not is_supported(x):
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up
    return _run_gated_kernel(_kernels.swiglu, x)


def geglu(x: Tensor) -> Tensor:
    """`gelu(gate) * up` with the tanh approximation, for the same rows as `swiglu`; returns (n, size)."""
    if not is_supported(x):
        gate, up = x.chunk(2, dim=-1)
        return gelu(gate, "tanh") * up
    return _run_gated_kernel(_kernels.geglu, x)


def _run_gated_kernel(kernel: Callable[[bool, int, int, int, int], None], x: Tensor) -> Tensor:
    (rows, width), x = _checked_shape(x, 2), x.contiguous()
    if width % 2:
        raise ValueError(f"a row of {width} numbers cannot be split into gate and up")
    out = x.new_empty(rows, width // 2)
    kernel(_is_bfloat16(x), x.data_ptr(), out.data_ptr(), rows, width // 2)
    return out


def softcap(x: Tensor, cap: float) -> Tensor:
    """`cap * tanh(x / cap)` for float32 rows (n, size). The kernel overwrites x."""
    (rows, size), x = _checked_shape(x, 2), x.contiguous()
    if x.dtype != torch.float32:
        raise ValueError(f"rows must be float32, not {x.dtype}")
    if not is_supported(x):
        return cap * torch.tanh(x / cap)
    _kernels.softcap(x.data_ptr(), rows, size, cap)
    return x


def gelu(x: Tensor, approximate: Literal["tanh", "none"]) -> Tensor:
    """`x * P(X <= x)` for a standard normal X, on rows (n, size) ("Gaussian Error Linear Units", arXiv 1606.08415)."""
    if not is_supported(x):
        torch_gelu = partial(F.gelu, approximate=approximate)
        return (
            each_row(torch_gelu, x) if x.device.type == "cpu" and not torch.compiler.is_compiling() else torch_gelu(x)
        )
    (rows, size), x = _checked_shape(x, 2), x.contiguous()
    out = torch.empty_like(x)
    _kernels.gelu(_is_bfloat16(x), approximate == "none", x.data_ptr(), out.data_ptr(), rows, size)
    return out


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate heads x (n, heads, head_dim) in place: (a, b) -> (a cos - b sin, b cos + a sin); see models/rotary.py.

    cos and signed sin: (n, 1, rotary_dim), contiguous. a and b are the halves of a head's first `rotary_dim`
    dimensions; the other dimensions do not change.
    """
    (rows, heads, size), rotary_dim = _checked_shape(x, 3), _checked_shape(cos, 3)[2]
    if rotary_dim % 2 or rotary_dim > size:
        raise ValueError(f"cannot rotate {rotary_dim} dimensions of heads of size {size}")
    if not is_supported(x) or x.stride()[1:] != (size, 1) or (rows > 1 and x.stride(0) < heads * size):
        rotated_part = x if rotary_dim == size else x[..., :rotary_dim]
        rotated_part.copy_(torch.addcmul(rotated_part * cos, rotated_part.roll(rotary_dim // 2, -1), sin))
        return x
    tables = _address(cos, (rows, 1, rotary_dim), x.dtype), _address(sin, (rows, 1, rotary_dim), x.dtype)
    _kernels.rotate(_is_bfloat16(x), x.data_ptr(), x.stride(0), *tables, rows, heads, size, rotary_dim)
    return x


def pack(x: Tensor) -> Tensor:
    """Pack rows x (n, heads, size) of a supported type as int8 (n, heads, size + 4), see kv/quantised.py."""
    rows, heads, size = _checked_shape(x, 3)
    if x.stride()[1:] != (size, 1):
        x = x.contiguous()
    if not is_supported(x):
        raise ValueError(f"cannot pack {x.dtype} on {x.device}")
    out = torch.empty((rows, heads, size + torch.float32.itemsize), dtype=torch.int8)
    _kernels.pack(_is_bfloat16(x), x.data_ptr(), x.stride(0), out.data_ptr(), rows, heads, size)
    return out


def _checked_shape(x: Tensor, dimensions: int) -> torch.Size:
    if x.dim() != dimensions:
        raise ValueError(f"expected {dimensions} dimensions, not a tensor of shape {tuple(x.shape)}")
    return x.shape


def _address(x: Tensor, shape: tuple[int, ...], dtype: torch.dtype | tuple[torch.dtype, ...]) -> int:
    """Return the address of the first number. This is the last check, since the kernels get only addresses."""
    has_dtype = x.dtype in dtype if isinstance(dtype, tuple) else x.dtype == dtype
    if not (has_dtype and x.is_cpu and x.shape == shape and x.is_contiguous()):
        description = f"{x.dtype} of shape {tuple(x.shape)} on {x.device}"
        raise ValueError(f"expected {dtype} of shape {shape}, contiguous, on the CPU, not {description}")
    return x.data_ptr()


def _address_if_any(x: Tensor | None, size: int, dtype: torch.dtype) -> int:
    return 0 if x is None else _address(x, (size,), dtype)


def _is_bfloat16(x: Tensor) -> bool:
    return x.dtype == torch.bfloat16
