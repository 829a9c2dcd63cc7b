"""A product with a matrix of weights, in the form that is fastest where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from guided.models.int4 import Int4Matrix

__all__ = ["AdaptedMatrix", "Matrix", "linear"]


@dataclass(frozen=True, slots=True, eq=False)
class AdaptedMatrix:
    """`base + up @ down`, never summed: many may share a base, and the base may be quantised (lora.py).

    Attributes:
        base: (out, in).
        down: (r, in).
        up: (out, r), times the adapter's scale.
    """

    base: Matrix
    down: Tensor
    up: Tensor


Matrix: TypeAlias = Tensor | Int4Matrix | AdaptedMatrix  # (out, in)


def linear(x: Tensor, weight: Matrix, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias` for x of shape (n, in), weight (out, in).

    On a CPU, `F.linear` repacks the weights of a bfloat16 product at each call; the two forms below do not, and take
    0.55 to 0.65 of its time for n up to 64 (AVX-512 with AMX, torch 2.13), with the same rounding error.
    """
    if isinstance(weight, AdaptedMatrix):
        return linear(x, weight.base, bias) + linear(linear(x, weight.down), weight.up)
    if isinstance(weight, Int4Matrix):
        out = weight(x)
    elif x.device.type == "cpu" and (x.shape[0] == 1 or x.dtype == torch.bfloat16):
        out = torch.mv(weight, x[0]).unsqueeze(0) if x.shape[0] == 1 else torch.mm(weight, x.t()).t().contiguous()
    else:
        return F.linear(x, weight, bias)
    return out if bias is None else out + bias
