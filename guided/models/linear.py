"""Multiplies activations by a weight matrix: dense, block-quantised or with LoRA adapters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from guided.kernels import each_row, is_supported, multiply
from guided.models.block_matrix import BlockMatrix

__all__ = ["AdaptedMatrix", "Embedding", "Matrix", "linear", "without_adapters"]


@dataclass(frozen=True, slots=True, eq=False)
class AdaptedMatrix:
    """A weight matrix with unmerged LoRA adapters. Several may share a base, which may be quantised.

    Attributes:
        base: (out, in).
        down: (r, in), in the dtype of activations or a more precise dtype.
        ups: for each fused part, such as Q, K and V: its rows of `down`, its rows of `base`, and its up matrix (rows of
            `base`, rows of `down`). A single matrix for all parts would be mostly zeros.
    """

    base: Matrix
    down: Tensor
    ups: tuple[tuple[slice, slice, Tensor], ...]


Matrix: TypeAlias = Tensor | BlockMatrix | AdaptedMatrix  # (out, in)
Embedding: TypeAlias = Tensor | BlockMatrix  # rows by token


def without_adapters(matrix: Matrix) -> Matrix:
    """Return the matrix without its adapters."""
    while isinstance(matrix, AdaptedMatrix):
        matrix = matrix.base
    return matrix


def linear(x: Tensor, weight: Matrix, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias` for x of shape (n, in), weight (out, in).

    On CPU, each output row is bitwise independent of the other rows in the batch: a kernel computes float32 and
    bfloat16; other types are computed row by row, since torch's order of additions depends on the shape of x.
    """
    if isinstance(weight, AdaptedMatrix):
        out = linear(x, weight.base, bias)
        down_output = linear(x.to(weight.down.dtype), weight.down)
        for ranks, rows, up in weight.ups:
            out[:, rows] += linear(down_output[:, ranks], up)  # rounded once, to out's dtype
        return out
    if isinstance(weight, BlockMatrix):
        return weight(x, bias)
    needs_gradient = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, weight, bias))
    if x.device.type != "cpu" or needs_gradient or torch.compiler.is_compiling():
        return F.linear(x, weight, bias)
    if is_supported(x):
        return multiply(x, weight, bias)
    return each_row(lambda row: F.linear(row, weight, bias), x)
