"""Attention over the blocks of a paged cache by torch's own `varlen_attn`, on CUDA.

In: a `PagedStep`. Out: an `Attend` (models/model.py). Each layer makes one call, whether sequences add prompts, chunks
or single tokens: `varlen_attn` takes the concatenated queries of all sequences and reads the blocks through the block
tables. No package other than torch is needed. `step_attention` (segments.py) chooses it if flash-attn is not installed.

The kernel is FlashAttention-2, compiled into torch. According to torch's sources it needs:

- blocks of a multiple of 256 positions, float16 or bfloat16, heads of up to 256 numbers in multiples of 8, compute
  capability 8.0 or newer (`can_read_blocks`)
- query and key offsets, lengths and block tables as int32. Key offsets are required, but ignored if there are lengths
- `max_q` and `max_k` as Python numbers. `max_k` may be too large, so this module passes the capacity of the block
  table. A step of single tokens therefore has static shapes, copies nothing back to the host, and works in a CUDA graph
  (engine/graphs.py)
- `num_splits=1`. With more splits the kernel leaves rows of a paged batch unwritten

A row of length 0, which graphs use as padding, reads no keys. Nothing uses its output.

Cost: with one split, only (heads x sequences) thread blocks read the keys. So a few long sequences leave most of the
GPU idle; flash-attn splits their keys over more thread blocks. A step of single tokens is not marked causal: each query
is the last position and reads all keys anyway, and without the mark the kernel loads a KV head only once for all query
heads that share it. With `invariant` the step is marked causal. Single tokens then run in the same kernel as chunks,
and a sequence's output is bitwise independent of the other sequences in its batch (according to torch's documentation;
not measured here). This holds only for attention: matrix products on CUDA may add in an order that depends on the
batch.

It does not support capped scores (Gemma 2). Tests replace the kernel by a stand-in in plain torch and compare the
result with the attention on the CPU. The kernel itself was compared on an H100 (docs/inside/gpu.md).

Source: "FlashAttention-2", arXiv 2307.08691; torch/nn/attention/varlen.py of torch 2.13; the unwritten rows:
github.com/pytorch/pytorch/issues/194167.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.attention
import torch.nn.functional as F
from torch import Tensor

from guided.attention.paged_step import PagedAttention
from guided.models.model import AttentionKind

__all__ = ["VarlenAttention", "has_varlen_attn"]


def has_varlen_attn() -> bool:
    """Whether torch can read blocks: torch 2.13 or newer, built for CUDA, with its own flash attention kernel
    active."""
    return (
        torch.__version__ >= "2.13"  # `TorchVersion` compares versions, not strings
        and torch.version.hip is None
        and torch.backends.cuda.is_flash_attention_available()
        and torch.nn.attention.current_flash_attention_impl() is None
    )


@dataclass(eq=False)
class VarlenAttention(PagedAttention):
    """See the module docstring.

    Attributes:
        invariant: whether single tokens run in the same kernel as chunks.
    """

    invariant: bool = False

    def __post_init__(self) -> None:
        step = self.step
        if step.spans is None:
            self._queries = torch.arange(len(step.lengths) + 1, dtype=torch.int32, device=step.lengths.device)
            self._keys = F.pad(step.lengths.cumsum(0, dtype=torch.int32), (1, 0))
            self._max_queries = 1
        else:
            self._queries, self._keys, self._max_queries = step.spans.queries, step.spans.keys, step.spans.max_queries
        self._max_keys = step.tables.shape[1] * self.k.shape[2]

    def _attend(
        self, q: Tensor, new_kv: tuple[Tensor, Tensor], stored_kv: tuple[Tensor, Tensor], kind: AttentionKind
    ) -> Tensor:
        assert kind.softcap is None, "varlen_attn does not cap scores"
        keys, values = stored_kv
        out: Tensor = _import_varlen_attn()(
            q,
            keys,
            values,
            self._queries,
            self._keys,
            self._max_queries,
            self._max_keys,
            scale=kind.scale,
            window_size=self._window(kind),
            enable_gqa=q.shape[1] != keys.shape[2],
            seqused_k=self.step.lengths,
            block_table=self.step.tables,
            num_splits=1,
        )
        return out

    def _window(self, kind: AttentionKind) -> tuple[int, int]:
        """The number of keys that a query reads before and after its own position; -1: all."""
        if kind.window is not None:
            return kind.window - 1, 0
        return (-1, -1) if self._max_queries == 1 and not self.invariant else (-1, 0)


@cache
def _import_varlen_attn() -> Any:
    """torch's `varlen_attn`, imported on first use because its module imports torch's compiler."""
    return importlib.import_module("torch.nn.attention.varlen").varlen_attn
