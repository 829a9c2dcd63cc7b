"""A product with a matrix of weights, in the form that is fastest where it runs."""

from __future__ import annotations

from typing import Final, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from guided.models.int4 import Int4Matrix

__all__ = ["Matrix", "linear"]

Matrix: TypeAlias = Tensor | Int4Matrix  # (out, in)


def _types_of_onednn() -> frozenset[torch.dtype]:
    """What the library multiplies on this CPU."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return frozenset()
    half = {torch.bfloat16} if torch.ops.mkldnn._is_mkldnn_bf16_supported() else set()
    return frozenset({torch.float32, *half})


_ONEDNN: Final = _types_of_onednn()


def linear(x: Tensor, weight: Matrix, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias` for x of shape (n, in), weight (out, in)."""
    if isinstance(weight, Int4Matrix):
        out = weight(x)
        return out if bias is None else out + bias
    if x.device.type == "cpu" and x.dtype in _ONEDNN and not weight.requires_grad:
        return _by_onednn(x, weight, bias)
    return F.linear(x, weight, bias)


def _by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """By the library that `F.linear` calls for weights that were packed ahead (of a bfloat16 product it packs them at
    each call, and in float32 it calls MKL).

    As the weights lie, one product takes 0.35 to 0.7 of that time in float32 and 0.5 to 1.05 in bfloat16 (1 to 512
    rows, AVX-512 on an EPYC, torch 2.13). In bfloat16 a row has the same bits in any batch. No gradients.
    """
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return out
