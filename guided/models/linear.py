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
    """A matrix and products of small ones on top of it, never summed: many may share a base, which may be quantised.

    Attributes:
        base: (out, in).
        down: (r, in), in the dtype of the activations or a finer one.
        ups: which rows of down's product go to which rows of the matrix, and by what: (part of r, part of out). Q, K
            and V have one each: a matrix for all three would be zeros for the most part.
    """

    base: Matrix
    down: Tensor
    ups: tuple[tuple[slice, slice, Tensor], ...]


Matrix: TypeAlias = Tensor | Int4Matrix | AdaptedMatrix  # (out, in)


def linear(x: Tensor, weight: Matrix, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias` for x of shape (n, in), weight (out, in).

    On a CPU, `F.linear` repacks the weights of a bfloat16 product at each call; the two forms below do not, and take
    0.55 to 0.65 of its time for n up to 64 (AVX-512 with AMX, torch 2.13), with the same rounding error.
    """
    if isinstance(weight, AdaptedMatrix):
        out = linear(x, weight.base, bias)
        low = linear(x.to(weight.down.dtype), weight.down)
        for ranks, rows, up in weight.ups:
            out[:, rows] += low[:, ranks] @ up  # rounded once, to out's dtype
        return out
    if isinstance(weight, Int4Matrix):
        out = weight(x)
    elif x.device.type == "cpu" and (x.shape[0] == 1 or x.dtype == torch.bfloat16):
        out = torch.mv(weight, x[0]).unsqueeze(0) if x.shape[0] == 1 else torch.mm(weight, x.t()).t().contiguous()
    else:
        return F.linear(x, weight, bias)
    return out if bias is None else out + bias
