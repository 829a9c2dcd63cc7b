"""What torch does in many small steps on a CPU, in one each: kernels for rows of float32 or bfloat16.

Each has a form in torch that runs everywhere; `takes` says where the kernel is used. C++ in `native/`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from guided.kernels import _kernels
from guided.logits.apply import apply_token_bitmask_inplace
from guided.sampling.sampler import log_mass

__all__ = ["each_row", "gelu", "lay_mask", "multiply", "multiply4", "rms_norm", "rotate", "swiglu", "takes"]


def takes(x: Tensor) -> bool:
    """Whether the kernels read this tensor: on the CPU, of a type that they have, and not while torch compiles."""
    return not torch.compiler.is_compiling() and x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16)


def each_row(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """`function` of x (n, size), one row at a time: what torch makes of a row depends on nothing else then."""
    return torch.cat([function(x[i : i + 1].clone()) for i in range(len(x))]) if len(x) else function(x)


def multiply(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """`x @ weights.T + bias` for x (n, in) and weights (out, in) of one type that `takes` names.

    A row has the same bits whatever rows are beside it, and however many threads there are.

    Raises:
        ValueError: they do not fit together.
    """
    x, weights = x.contiguous(), weights.contiguous()
    _check(x, bias, len(weights), weights.shape[1], weights.dtype)
    bias = None if bias is None else bias.contiguous()
    out, address = x.new_empty(len(x), len(weights)), 0 if bias is None else bias.data_ptr()
    addresses = x.data_ptr(), weights.data_ptr(), address, out.data_ptr()
    _kernels.multiply(_half(x), *addresses, len(x), len(weights), x.shape[1], torch.get_num_threads())
    return out


def multiply4(x: Tensor, weights: Tensor, shape: tuple[int, int], planes: int, bias: Tensor | None) -> Tensor:
    """The same of bfloat16 with numbers of 4 bits, a matrix of `shape` (out, in), as models/int4.py lays them out."""
    outs, ins = shape
    x = x.contiguous()
    _check(x, bias, outs, ins, torch.bfloat16)
    bias = None if bias is None else bias.contiguous()
    out, address = x.new_empty(len(x), outs), 0 if bias is None else bias.data_ptr()
    addresses = x.data_ptr(), weights.data_ptr(), address, out.data_ptr()
    _kernels.multiply4(*addresses, len(x), outs, ins, planes, torch.get_num_threads())
    return out


def _check(x: Tensor, bias: Tensor | None, outs: int, ins: int, dtype: torch.dtype) -> None:
    """Before addresses are handed on: nobody looks after that."""
    biased = bias is None or (bias.shape == (outs,) and bias.dtype == dtype and bias.device == x.device)
    if x.dim() != 2 or x.shape[1] != ins or x.dtype != dtype or x.device.type != "cpu" or not biased:
        raise ValueError(f"{tuple(x.shape)} in {x.dtype} times the transpose of {outs, ins} in {dtype}: no product")


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """`x / sqrt(mean(x ** 2) + eps) * weight` over the last dimension ("RMSNorm", arXiv 1910.07467)."""
    if not takes(x):
        return F.rms_norm(x, x.shape[-1:], weight, eps)
    x = x.contiguous()
    out, size = torch.empty_like(x), x.shape[-1]
    address = 0 if weight is None else weight.data_ptr()
    _kernels.rms_norm(_half(x), x.data_ptr(), address, out.data_ptr(), x.numel() // size, size, eps)
    return out


def swiglu(x: Tensor) -> Tensor:
    """`silu(gate) * up` for rows (n, 2 size) that hold gate and up ("GLU Variants", arXiv 2002.05202): (n, size)."""
    if not takes(x):
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up
    x = x.contiguous()
    rows, size = x.shape[0], x.shape[1] // 2
    out = x.new_empty(rows, size)
    _kernels.swiglu(_half(x), x.data_ptr(), out.data_ptr(), rows, size)
    return out


def gelu(x: Tensor, approximate: Literal["tanh", "none"]) -> Tensor:
    """`x * P(X <= x)` for a normal X ("Gaussian Error Linear Units", arXiv 1606.08415) of rows (n, size)."""
    if not takes(x):
        torchs = partial(F.gelu, approximate=approximate)
        return each_row(torchs, x) if x.device.type == "cpu" and not torch.compiler.is_compiling() else torchs(x)
    x = x.contiguous()
    out = torch.empty_like(x)
    _kernels.gelu(_half(x), approximate == "none", x.data_ptr(), out.data_ptr(), *x.shape)
    return out


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn heads x (n, heads, head_dim) in place: (a, b) -> (a cos - b sin, b cos + a sin); see models/rotary.py.

    cos and signed sin: (n, 1, head_dim), contiguous.
    """
    rows, heads, size = x.shape
    if not takes(x) or x.stride()[1:] != (size, 1):
        return x.copy_(torch.addcmul(x * cos, x.roll(size // 2, -1), sin))
    _kernels.rotate(_half(x), x.data_ptr(), x.stride(0), cos.data_ptr(), sin.data_ptr(), rows, heads, size)
    return x


def lay_mask(logits: Tensor, bits: npt.NDArray[np.int32]) -> tuple[float, float]:
    """Take from logits (vocab_size,) in place what the bitmask (words,) has not: they become -inf.

    Returns:
        The log of the sum of exponentials of all logits, and of those that are left.
    """
    if logits.device.type != "cpu" or logits.dtype != torch.float32 or not logits.is_contiguous():
        before = log_mass(logits)
        apply_token_bitmask_inplace(logits, bits[None])
        return before, log_mass(logits)
    return _kernels.lay_mask(logits.data_ptr(), len(logits), bits.ctypes.data, len(bits))


def _half(x: Tensor) -> bool:
    return x.dtype == torch.bfloat16
