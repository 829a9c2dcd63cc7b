"""Attention over paged caches with torch operations, on any device. It replaces the kernels of flash attention.

One call computes a layer for any number of sequences, with static shapes and without reading values back. So CUDA
graphs can contain it. With it, stores, graphs and the engine can be tested if neither flash-attn nor a torch with block
attention is installed. It copies all keys and values of all sequences in each layer, so its speed says nothing about a
real kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from guided.attention import segments
from guided.attention.flash import has_flash_attn
from guided.attention.paged_step import PagedAttention, PagedStep
from guided.attention.varlen import has_varlen_attn
from guided.engine.graphs import Capture
from guided.kv.paged import PagedPlan
from guided.models.model import Attend, AttentionKind
from scripts.gpu.report import Setting

__all__ = ["PATHS", "GatheredAttention", "attention_of", "best_path", "capture_of", "paths_here"]

PATHS = ("flash-attn", "varlen_attn", "stand-in", "one by one")


def paths_here(setting: Setting) -> list[str]:
    """The attention implementations that run here, best first."""
    flash = not setting.dry and has_flash_attn(setting.device)
    there = {"flash-attn": flash, "varlen_attn": not setting.dry and has_varlen_attn()}
    return [path for path in PATHS if there.get(path, True)]


def best_path(setting: Setting) -> str:
    """The fastest implementation."""
    return paths_here(setting)[0]


def capture_of(setting: Setting) -> Capture | None:
    """The function that captures graphs. None: CUDA graphs. A dry run has no graphs."""
    return (lambda run: run) if setting.dry else None


@contextmanager
def attention_of(path: str) -> Iterator[None]:
    """Let the engine use one of these implementations."""
    original = segments.step_attention

    def choose(plan: Any, counts: Sequence[int], **options: Any) -> Attend:
        if path == "stand-in" and isinstance(plan, PagedPlan):
            return GatheredAttention(plan.k, plan.v, PagedStep.from_plan(plan))
        return original(plan, counts, **options)

    with (
        mock.patch("guided.engine.runner.step_attention", choose),
        mock.patch("guided.attention.segments.has_flash_attn", lambda device: path == "flash-attn"),
        mock.patch("guided.attention.segments.has_varlen_attn", lambda: path == "varlen_attn"),
    ):
        yield


class GatheredAttention(PagedAttention):
    """See the module."""

    def _attend(
        self, q: Tensor, new: tuple[Tensor, Tensor], stored: tuple[Tensor, Tensor], kind: AttentionKind
    ) -> Tensor:
        step, at = self.step, torch.arange(len(q), device=q.device)
        row, last = at, step.lengths - 1  # for each query: its sequence, and the last position that it reads
        if step.spans is not None:
            starts = step.spans.queries
            row = (torch.searchsorted(starts, at.int(), right=True) - 1).clamp(max=len(step.lengths) - 1)  # padding
            last = step.lengths[row] - 1 - (starts[row + 1] - 1 - at)
        keys, values = (x[step.tables.long()].flatten(1, 2)[row] for x in stored)
        positions = torch.arange(keys.shape[1], device=q.device)
        seen = positions <= last.unsqueeze(1)
        if kind.window is not None:
            seen = seen & (positions > last.unsqueeze(1) - kind.window)
        return self._attend_to_seen(q, keys, values, seen, kind)

    def _attend_to_seen(self, q: Tensor, keys: Tensor, values: Tensor, seen: Tensor, kind: AttentionKind) -> Tensor:
        """q (n, heads, head_dim), keys and values (n, positions, kv_heads, head_dim), seen (n, positions)."""
        n, heads, size = q.shape
        grouped = q.view(n, keys.shape[2], -1, size)  # (n, kv_heads, heads that share a KV head, head_dim)
        scores = grouped @ keys.permute(0, 2, 3, 1)
        scores = scores.float() * kind.scale_for(size)
        if kind.softcap is not None:
            scores = kind.softcap * torch.tanh(scores / kind.softcap)
        weights = scores.masked_fill(~seen[:, None, None], -torch.inf).softmax(-1).to(values.dtype)
        values = torch.where(seen[:, :, None, None], values, 0)  # uninitialised memory may contain NaN
        return (weights @ values.transpose(1, 2)).reshape(n, heads, size)
