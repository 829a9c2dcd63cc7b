"""A product with a matrix of weights, in the form that is fastest where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

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


def _types_of_onednn() -> frozenset[torch.dtype]:
    """What the library multiplies on this CPU."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return frozenset()
    half = {torch.bfloat16} if torch.ops.mkldnn._is_mkldnn_bf16_supported() else set()
    return frozenset({torch.float32, *half})


_ONEDNN: Final = _types_of_onednn()
_LONGEST: Final = 1024  # numbers in a row: longer ones it adds up in pieces, which depend on the batch


def linear(x: Tensor, weight: Matrix, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias` for x of shape (n, in), weight (out, in)."""
    if isinstance(weight, AdaptedMatrix):
        out = linear(x, weight.base, bias)
        low = linear(x.to(weight.down.dtype), weight.down)
        for ranks, rows, up in weight.ups:
            out[:, rows] += low[:, ranks] @ up  # rounded once, to out's dtype
        return out
    if isinstance(weight, Int4Matrix):
        out = weight(x)
        return out if bias is None else out + bias
    trained = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, weight, bias))
    if x.device.type != "cpu" or x.dtype not in _ONEDNN or trained:
        return F.linear(x, weight, bias)
    if x.dtype == torch.bfloat16 and x.shape[1] > _LONGEST:
        out = torch.mv(weight, x[0]).unsqueeze(0) if len(x) == 1 else torch.mm(weight, x.t()).t().contiguous()
        return out if bias is None else out + bias
    return _by_onednn(x, weight, bias)


def _by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """By the library that `F.linear` calls for weights that were packed ahead (of a bfloat16 product it packs them at
    each call, and in float32 it calls MKL).

    As the weights lie, one product takes 0.35 to 0.7 of that time in float32 and 0.5 to 1.05 in bfloat16 (1 to 512
    rows, AVX-512 on an EPYC, torch 2.13). In bfloat16 the bits of a row do not depend on its batch.
    """
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return out
