"""Computes attention over parts of the keys, and merges the outputs into the attention over all keys.

The softmax over all keys follows from the softmax over each part and its log-sum-exp (lse): the output of each part is
weighted by its share of the total sum of exponentials. A part without keys has lse = -inf and changes nothing. Outputs
are (n, heads, head_dim); lse is (n, heads) in at least float32.

Source: "FlashAttention-2" (arXiv 2307.08691), section 3.1.1, and "Ring Attention" (arXiv 2310.01889).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from guided.models.model import DEFAULT_ATTENTION, AttentionKind

__all__ = ["attention_with_lse", "merge_attention_outputs"]

# `scaled_dot_product_attention` does not return the lse; its CPU kernel does.
_CPU_FLASH_ATTENTION: Any = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)


def merge_attention_outputs(o1: Tensor, lse1: Tensor, o2: Tensor, lse2: Tensor) -> tuple[Tensor, Tensor]:
    """Merge the attention over two parts of the keys, in at least float32. Zeros if both parts are empty."""
    lse = torch.logaddexp(lse1, lse2)
    finite_lse = lse.masked_fill(lse == -torch.inf, 0.0)
    out = torch.zeros((), dtype=finite_lse.dtype, device=finite_lse.device)
    for o, part_lse in ((o1, lse1), (o2, lse2)):
        share = (part_lse - finite_lse).exp().unsqueeze(-1)
        out = out + (share * o).masked_fill(share == 0, 0.0)  # ignores the output of an empty part, even NaN
    return out, lse


def attention_with_lse(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, kind: AttentionKind = DEFAULT_ATTENTION
) -> tuple[Tensor, Tensor]:
    """Attention of q (n, heads, head_dim) to k, v (s, kv_heads, head_dim), with grouped heads as in `sdpa`.

    Args:
        q: queries.
        k: keys; there may be none.
        v: values.
        mask: (n, s), true where a query reads a key; None: every query reads every key.
        kind: the scale and the soft cap of scores. Its window is ignored: `mask` must contain it.

    Returns:
        The output and its lse. The output is 0 for queries without keys.
    """
    n, heads, _ = q.shape
    if n == 0 or len(k) == 0:
        return torch.zeros_like(q), q.new_full((n, heads), -torch.inf, dtype=_accumulation_dtype(q))
    group = heads // k.shape[1]
    # Query heads that share a KV head become rows of one head: (kv_heads, group * n, head_dim).
    grouped_q = q.reshape(n, -1, group, q.shape[2]).permute(1, 2, 0, 3).flatten(1, 2)
    k, v = k.transpose(0, 1), v.transpose(0, 1)
    if mask is None and kind.softcap is None and _CPU_FLASH_ATTENTION is not None and q.device.type == "cpu":
        out, lse = (
            tensor[0]
            for tensor in _CPU_FLASH_ATTENTION(
                *(_make_heads_contiguous(tensor)[None] for tensor in (grouped_q, k, v)), scale=kind.scale
            )
        )
    else:
        out, lse = _attend_in_torch(grouped_q, k, v, None if mask is None else mask.repeat(group, 1), kind)
    out = out.reshape(-1, group, n, q.shape[2]).permute(2, 0, 1, 3).flatten(1, 2)
    return out, lse.reshape(-1, group, n).permute(2, 0, 1).flatten(1, 2)


def _attend_in_torch(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, kind: AttentionKind
) -> tuple[Tensor, Tensor]:
    """Like the CPU kernel, but with plain torch operations on any device. It computes all scores at once."""
    q, k, v = (tensor.to(_accumulation_dtype(tensor)) for tensor in (q, k, v))
    scores = q @ k.transpose(1, 2) * kind.scale_for(q.shape[-1])
    if kind.softcap is not None:
        scores = kind.softcap * torch.tanh(scores / kind.softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    lse = scores.logsumexp(-1)
    return (scores - lse.masked_fill(lse == -torch.inf, 0.0).unsqueeze(-1)).exp() @ v, lse


def _make_heads_contiguous(x: Tensor) -> Tensor:
    """Return x with contiguous head vectors. The kernel requires them but does not check."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _accumulation_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
