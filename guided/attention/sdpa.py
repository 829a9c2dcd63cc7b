"""Causal attention by torch's `scaled_dot_product_attention`.

In: queries of the last n positions of a sequence, keys and values of all S positions, layout (positions, heads,
head_dim). If there are fewer KV heads than query heads, groups of query heads share a KV head. Out: the attention
output, with the shape of the queries. Query i of n reads keys 0 to S - n + i or, with a window, the last `window` of
them. Runs on every torch device. Cost: n times S per head; the mask is built once per forward pass, not once per layer.
Capped scores are computed with plain torch operations (merge.py), since torch's function cannot cap them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from guided.attention.merge import attention_with_lse
from guided.models.model import DEFAULT_ATTENTION, AttentionKind

__all__ = ["causal_mask", "sdpa"]


def causal_mask(
    new_count: int, key_count: int, device: torch.device | str = "cpu", *, window: int | None = None
) -> Tensor | None:
    """A mask (new_count, key_count) of the keys that each of the last queries reads; None if the kernel needs no
    mask."""
    is_windowed = window is not None and window < key_count
    if not is_windowed and (new_count == 1 or new_count == key_count):
        return None
    mask = torch.ones(new_count, key_count, dtype=torch.bool, device=device).tril(key_count - new_count)
    return mask.triu(key_count - new_count - window + 1) if is_windowed and window is not None else mask


def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, kind: AttentionKind = DEFAULT_ATTENTION) -> Tensor:
    """Attention of one sequence. `mask`: the result of `causal_mask` for `len(q)`, `len(k)` and `kind.window`."""
    if kind.softcap is not None:
        if mask is None and len(q) > 1:
            mask = torch.ones(len(q), len(k), dtype=torch.bool, device=q.device).tril()
        return attention_with_lse(q, k, v, mask, kind)[0].to(q.dtype)
    out = F.scaled_dot_product_attention(
        q.transpose(0, 1).unsqueeze(0),
        k.transpose(0, 1).unsqueeze(0),
        v.transpose(0, 1).unsqueeze(0),
        attn_mask=mask,
        is_causal=mask is None and q.shape[0] > 1,
        scale=kind.scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return out.squeeze(0).transpose(0, 1)
