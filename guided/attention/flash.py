"""Attention over the blocks of a paged cache by flash-attn, on CUDA.

In: the plan of a `PagedCache`. Out: an `Attend` (models/model.py). Prompts, forced runs and single tokens of all
sequences of a layer are one call. On Hopper, with flash-attn 3, it is always `flash_attn_with_kvcache`; with
flash-attn 2 it is where each sequence has one new token, for it splits a long past over the GPU, else
`flash_attn_varlen_func`. Nothing is gathered: the kernels read the cache by its block tables. Keys and values are
stored before (kernels/store_kv.py). Used where a package is there and reads such a cache (`reads`); elsewhere, and
for keys and values of 8 bits (kv/quantised.py), attention is torch's (step.py), to which this is tested to be equal.

Source: "FlashAttention-2", arXiv 2307.08691, and "FlashAttention-3", arXiv 2407.08608; the functions as of flash-attn
2.6 to 2.8, and those of its folder `hopper` in 2026.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from guided.kernels.store_kv import store_kv
from guided.kernels.transfer import send
from guided.kv.paged import PagedPlan
from guided.models.model import PLAIN, AttentionKind

__all__ = ["FlashAttention", "FlashStep", "Spans", "reads"]


def reads(k: Tensor) -> bool:
    """Whether flash-attn is installed and reads blocks (layers, blocks, block_size, kv_heads, head_dim) like these."""
    size, head_dim = k.shape[2], k.shape[4]
    return (
        k.device.type == "cuda"
        and k.dtype in (torch.float16, torch.bfloat16)
        and size % 256 == 0
        and head_dim % 8 == 0
        and head_dim <= 256
        and torch.cuda.get_device_capability(k.device) >= (8, 0)
        and (_flash_attn_3(k.device) is not None or _flash_attn() is not None)
    )


@dataclass(frozen=True, slots=True)
class Spans:
    """Where sequences have more than one new token.

    Attributes:
        queries: int32 (sequences + 1,): where the new tokens of each begin, and the end of all.
        keys: the same of all positions.
        most_queries: new tokens of a sequence.
        most_keys: positions of a sequence.
        fresh: all positions are new.
    """

    queries: Tensor
    keys: Tensor
    most_queries: int
    most_keys: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class FlashStep:
    """What the kernels are told of a forward pass.

    Attributes:
        slots: int64 (n,): where new positions are stored; -1: not at all.
        tables: int32 (sequences, blocks): numbers of blocks.
        lengths: int32 (sequences,): positions, new ones included.
        spans: None: each sequence has one new token.
    """

    slots: Tensor
    tables: Tensor
    lengths: Tensor
    spans: Spans | None = None

    @classmethod
    def of(cls, plan: PagedPlan) -> FlashStep:
        """Sent to the device, and not waited for."""
        device, width = plan.k.device, max(map(len, plan.tables))
        spans = None
        if any(count != 1 for count in plan.counts):
            queries, keys = (
                send([0, *accumulate(numbers)], torch.int32, device) for numbers in (plan.counts, plan.lengths)
            )
            fresh = list(plan.counts) == list(plan.lengths)
            spans = Spans(queries, keys, max(plan.counts), max(plan.lengths), fresh)
        return cls(
            send(plan.slots, torch.int64, device),
            send([[*table, *[0] * (width - len(table))] for table in plan.tables], torch.int32, device),
            send(plan.lengths, torch.int32, device),
            spans,
        )


class FlashAttention:
    """See the module; k, v: (layers, blocks, block_size, kv_heads, head_dim)."""

    def __init__(self, k: Tensor, v: Tensor, step: FlashStep) -> None:
        self.k, self.v, self.step = k, v, step
        self._package_3 = _flash_attn_3(k.device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, kind: AttentionKind = PLAIN) -> Tensor:
        """See `Attend`."""
        step, keys, values = self.step, self.k[layer], self.v[layer]
        store_kv(k, v, keys.flatten(0, 1), values.flatten(0, 1), step.slots)
        if self._package_3 is not None:
            return _read_3(self._package_3, q, keys, values, step, kind)
        return _read_2(_flash_attn(), q, (k, v), keys, values, step, kind)


def _options(kind: AttentionKind) -> dict[str, Any]:
    """What both packages are told of a layer; a window is counted without the query."""
    window = (-1, -1) if kind.window is None else (kind.window - 1, 0)
    return {"causal": True, "softmax_scale": kind.scale, "window_size": window, "softcap": kind.softcap or 0.0}


def _read_3(package: Any, q: Tensor, keys: Tensor, values: Tensor, step: FlashStep, kind: AttentionKind) -> Tensor:
    """By flash-attn 3: new tokens of any number, side by side."""
    spans, common = step.spans, {"cache_seqlens": step.lengths, "page_table": step.tables, **_options(kind)}
    out: Tensor
    if spans is None:
        out = package.flash_attn_with_kvcache(q.unsqueeze(1), keys, values, **common)
        return out.squeeze(1)
    out = package.flash_attn_with_kvcache(
        q, keys, values, cu_seqlens_q=spans.queries, max_seqlen_q=spans.most_queries, **common
    )
    return out


def _read_2(
    package: Any,
    q: Tensor,
    new: tuple[Tensor, Tensor],
    keys: Tensor,
    values: Tensor,
    step: FlashStep,
    kind: AttentionKind,
) -> Tensor:
    """By flash-attn 2; a step in which all positions are new reads them where the model has made them."""
    spans = step.spans
    out: Tensor
    if spans is None:
        out = package.flash_attn_with_kvcache(
            q.unsqueeze(1), keys, values, cache_seqlens=step.lengths, block_table=step.tables, **_options(kind)
        )
        return out.squeeze(1)
    k, v = new if spans.fresh else (keys, values)
    out = package.flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=spans.queries,
        cu_seqlens_k=spans.keys,
        max_seqlen_q=spans.most_queries,
        max_seqlen_k=spans.most_keys,
        **_options(kind),
        block_table=None if spans.fresh else step.tables,
    )
    return out


def _flash_attn() -> Any:
    """flash-attn 2; None where it is not there."""
    return _installed("flash_attn")


def _flash_attn_3(device: torch.device) -> Any:
    """flash-attn 3, which is for Hopper alone; None where it is not there, or the device is another."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device)[0] != 9:
        return None
    return _installed("flash_attn_interface")


@cache
def _installed(package: str) -> Any:
    """A package; None where it is not installed, or was built for another torch."""
    try:
        return importlib.import_module(package)
    except (ImportError, OSError):
        return None
