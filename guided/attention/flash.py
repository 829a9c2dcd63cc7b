"""Attention over the blocks of a paged cache by flash-attn, on CUDA.

In: a `PagedStep`. Out: an `Attend` (models/model.py). Each layer makes one call for all sequences, whether they add
prompts, forced tokens or single tokens. On Hopper, with flash-attn 3, it calls `flash_attn_with_kvcache`. With
flash-attn 2 it calls `flash_attn_varlen_func`, or `flash_attn_with_kvcache` if each sequence has one new token: this
function spreads the keys of a long sequence over the GPU. The kernels read the cache through its block tables, so
nothing is gathered (`can_read_blocks` says which caches they can read; step.py reads all others, including 8-bit ones).
The package is optional: without it, torch's own kernel reads the same blocks (varlen.py). Tests compare the output of
this module with that of step.py.

Source: "FlashAttention-2", arXiv 2307.08691, and "FlashAttention-3", arXiv 2407.08608; the functions of flash-attn 2.6
to 2.8, and those in its folder `hopper` (2026).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from guided.attention.paged_step import PagedAttention, PagedStep
from guided.models.model import AttentionKind

__all__ = ["FlashAttention", "has_flash_attn"]


def has_flash_attn(device: torch.device) -> bool:
    """Whether an installed version of flash-attn runs on this device."""
    return _import_flash_attn_3(device) is not None or _import_flash_attn() is not None


@dataclass(eq=False)
class FlashAttention(PagedAttention):
    """See the module docstring."""

    def __post_init__(self) -> None:
        self._flash_attn_3 = _import_flash_attn_3(self.k.device)

    def _attend(
        self, q: Tensor, new_kv: tuple[Tensor, Tensor], stored_kv: tuple[Tensor, Tensor], kind: AttentionKind
    ) -> Tensor:
        if self._flash_attn_3 is not None:
            return _attend_3(self._flash_attn_3, q, *stored_kv, self.step, kind)
        return _attend_2(_import_flash_attn(), q, new_kv, *stored_kv, self.step, kind)


def _kind_arguments(kind: AttentionKind) -> dict[str, Any]:
    """Arguments that both packages take for a layer. Their window does not count the query's own position."""
    window = (-1, -1) if kind.window is None else (kind.window - 1, 0)
    return {"causal": True, "softmax_scale": kind.scale, "window_size": window, "softcap": kind.softcap or 0.0}


def _attend_3(package: Any, q: Tensor, keys: Tensor, values: Tensor, step: PagedStep, kind: AttentionKind) -> Tensor:
    """Attention by flash-attn 3, for any number of new tokens."""
    spans, common_arguments = (
        step.spans,
        {"cache_seqlens": step.lengths, "page_table": step.tables, **_kind_arguments(kind)},
    )
    out: Tensor
    if spans is None:
        out = package.flash_attn_with_kvcache(q.unsqueeze(1), keys, values, **common_arguments)
        return out.squeeze(1)
    out = package.flash_attn_with_kvcache(
        q, keys, values, cu_seqlens_q=spans.queries, max_seqlen_q=spans.max_queries, **common_arguments
    )
    return out


def _attend_2(
    package: Any,
    q: Tensor,
    new_kv: tuple[Tensor, Tensor],
    keys: Tensor,
    values: Tensor,
    step: PagedStep,
    kind: AttentionKind,
) -> Tensor:
    """Attention by flash-attn 2. If all positions are new, it reads the model's keys and values, not the cache."""
    spans = step.spans
    out: Tensor
    if spans is None:
        out = package.flash_attn_with_kvcache(
            q.unsqueeze(1), keys, values, cache_seqlens=step.lengths, block_table=step.tables, **_kind_arguments(kind)
        )
        return out.squeeze(1)
    k, v = new_kv if spans.is_all_new else (keys, values)
    out = package.flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=spans.queries,
        cu_seqlens_k=spans.keys,
        max_seqlen_q=spans.max_queries,
        max_seqlen_k=spans.max_keys,
        **_kind_arguments(kind),
        block_table=None if spans.is_all_new else step.tables,
    )
    return out


def _import_flash_attn() -> Any:
    """flash-attn 2, or None if it is not installed."""
    return _import_or_none("flash_attn")


def _import_flash_attn_3(device: torch.device) -> Any:
    """flash-attn 3, or None if it is not installed or the device is not Hopper."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device)[0] != 9:
        return None
    return _import_or_none("flash_attn_interface")


@cache
def _import_or_none(package: str) -> Any:
    """A package, or None if it is not installed or was built for another torch."""
    try:
        return importlib.import_module(package)
    except (ImportError, OSError):
        return None
