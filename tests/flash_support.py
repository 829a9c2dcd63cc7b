"""Replacements for CUDA on a CPU: flash-attn's functions and torch's `varlen_attn` in plain torch, and graphs that
record and replay.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

READS_BACK = (
    "_local_scalar_dense",
    "nonzero",
    "equal",
    "masked_select",
    "unique",
)  # operations for which the CPU waits


def flash_attn_with_kvcache(
    q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None, cache_batch_idx=None,
    cache_leftpad=None, block_table=None, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
    rotary_interleaved=True, alibi_slopes=None, num_splits=0, return_softmax_lse=False,
):  # fmt: skip
    """The signature of 2.8; q: (sequences, new, heads, head_dim). No number of a tensor is read."""
    assert k is None and v is None and causal and block_table is not None
    for numbers in (cache_seqlens, block_table):
        assert numbers.dtype == torch.int32 and numbers.is_contiguous()
    assert k_cache.stride(-1) == v_cache.stride(-1) == q.stride(-1) == 1
    assert block_table.shape[0] == len(cache_seqlens) == len(q)
    keys, values = (x[block_table.long()].flatten(1, 2) for x in (k_cache, v_cache))
    return attend(q, keys, values, cache_seqlens, softmax_scale, window_size, softcap)


def attend(
    q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, scale=None, window=(-1, -1), softcap=0.0
) -> Tensor:
    """Causal, aligned to the last of each row's `lengths` keys; zero if there is nothing to read."""
    assert window == (-1, -1) or (window[0] >= 0 and window[1] == 0)
    new, total = q.shape[1], keys.shape[1]
    groups = q.shape[2] // keys.shape[2]
    keys, values = (x.repeat_interleave(groups, 2).transpose(1, 2).double() for x in (keys, values))
    scores = q.transpose(1, 2).double() @ keys.transpose(2, 3) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    last = lengths.unsqueeze(1) - new + torch.arange(new)
    at = torch.arange(total)
    seen = at <= last.unsqueeze(2)
    if window[0] >= 0:
        seen = seen & (at >= last.unsqueeze(2) - window[0])
    seen = seen.unsqueeze(1)
    weights = torch.softmax(scores.masked_fill(~seen, -1e300), -1) * seen
    values = torch.where((torch.arange(total) < lengths.unsqueeze(1))[:, None, :, None], values, 0.0)
    return (weights @ values).transpose(1, 2).to(q.dtype)


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None, causal=False,
    window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False,
    block_table=None,
):  # fmt: skip
    """The signature of 2.8; q: (new positions of all sequences, heads, head_dim). Blocks are read without reading a
    number of a tensor."""
    assert causal and cu_seqlens_q.dtype == cu_seqlens_k.dtype == torch.int32
    assert k.dim() == (3 if block_table is None else 4) and k.stride(-1) == v.stride(-1) == q.stride(-1) == 1
    if block_table is not None:
        assert block_table.dtype == torch.int32
        lengths = cu_seqlens_k.diff()
        return attend_spans(
            q, k, v, cu_seqlens_q, lengths, max_seqlen_q, block_table, softmax_scale, window_size, softcap
        )
    counts, lengths = cu_seqlens_q.diff().tolist(), cu_seqlens_k.diff().tolist()
    assert (max_seqlen_q, max_seqlen_k) == (max(counts), max(lengths)) and sum(counts) == len(q)
    out, first, start = [], 0, 0
    for count, length in zip(counts, lengths, strict=True):
        keys, values, new = k[start : start + length], v[start : start + length], q[first : first + count]
        options = softmax_scale, window_size, softcap
        out.append(attend(new[None], keys[None], values[None], torch.tensor([length]), *options)[0])
        first, start = first + count, start + length
    return torch.cat(out)


def attend_spans(
    q: Tensor, k: Tensor, v: Tensor, starts: Tensor, lengths: Tensor, most: int, table: Tensor, *options
) -> Tensor:
    """The queries of row i begin at starts[i]. Queries after the last one, and those of rows without keys, are NaN,
    which kernels may leave there.
    """
    counts, at = starts.diff(), torch.arange(len(q))
    holds = (starts[0] == 0) & (starts[-1] <= len(q)) & (counts >= 0).all() & (counts <= most).all()
    torch._assert_async(holds & (table >= 0).all() & (table < len(k)).all())
    row = (torch.searchsorted(starts, at, right=True) - 1).clamp(max=len(lengths) - 1)
    keys, values = (x[table.long()].flatten(1, 2)[row] for x in (k, v))
    read = (lengths - counts)[row] + at - starts[row] + 1
    out = attend(q.unsqueeze(1), keys, values, read, *options).squeeze(1)
    return torch.where(((lengths > 0)[row] & (at < starts[-1]))[:, None, None], out, torch.nan)


def flash_attn_3_with_kvcache(
    q, k_cache, v_cache, k=None, v=None, qv=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
    cache_batch_idx=None, cache_leftpad=None, page_table=None, cu_seqlens_q=None, cu_seqlens_k_new=None,
    max_seqlen_q=None, rotary_seqlens=None, q_descale=None, k_descale=None, v_descale=None, softmax_scale=None,
    causal=False, window_size=(-1, -1), attention_chunk=0, softcap=0.0, rotary_interleaved=True,
    scheduler_metadata=None, num_splits=0, pack_gqa=None, sm_margin=0, return_softmax_lse=False,
):  # fmt: skip
    """The signature of flash-attn 3; q as above, or (new positions of all sequences, heads, head_dim)."""
    if cu_seqlens_q is None:
        return flash_attn_with_kvcache(
            q,
            k_cache,
            v_cache,
            cache_seqlens=cache_seqlens,
            block_table=page_table,
            causal=causal,
            softmax_scale=softmax_scale,
            window_size=window_size,
            softcap=softcap,
        )
    assert k is None and causal and q.dim() == 3 and cache_seqlens.dtype == torch.int32
    options = softmax_scale, window_size, softcap
    return attend_spans(q, k_cache, v_cache, cu_seqlens_q, cache_seqlens, max_seqlen_q, page_table, *options)


def varlen_attn(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, return_aux=None, scale=None, window_size=(-1, -1),
    enable_gqa=False, seqused_k=None, block_table=None, num_splits=None,
):  # fmt: skip
    """The signature of torch 2.13, for blocks of any size and dtype. Reads no number of a tensor. Rows without keys are
    NaN, which the kernel may leave there.
    """
    assert query.dim() == 3 and key.dim() == 4 and key.shape == value.shape and query.shape[2] == key.shape[3]
    assert query.dtype == key.dtype == value.dtype and query.stride(-1) == key.stride(-1) == value.stride(-1) == 1
    assert query.shape[1] % key.shape[2] == 0 and enable_gqa == (query.shape[1] != key.shape[2])
    rows = len(seqused_k)
    assert cu_seq_q.shape == cu_seq_k.shape == (rows + 1,) and block_table.shape[0] == rows > 0
    for numbers in (cu_seq_q, cu_seq_k, seqused_k, block_table):
        assert numbers.dtype == torch.int32 and numbers.is_contiguous() and numbers.device == query.device
    assert type(max_q) is type(max_k) is int and max_q > 0 and max_k <= block_table.shape[1] * key.shape[1]
    assert num_splits == 1 and return_aux is None and isinstance(window_size, tuple)
    assert window_size[1] == 0 or (window_size == (-1, -1) and max_q == 1 and len(query) == rows), "not causal"
    torch._assert_async((cu_seq_k[0] == 0) & (cu_seq_k.diff() == seqused_k).all() & (seqused_k <= max_k).all())
    window = (-1, -1) if window_size[0] < 0 else window_size
    return attend_spans(query, key, value, cu_seq_q, seqused_k, max_q, block_table, scale, window)


FLASH_ATTN_3 = SimpleNamespace(flash_attn_with_kvcache=flash_attn_3_with_kvcache)
FLASH_ATTN = SimpleNamespace(
    flash_attn_with_kvcache=flash_attn_with_kvcache, flash_attn_varlen_func=flash_attn_varlen_func
)


KERNELS = ("flash-attn 2", "flash-attn 3", "varlen_attn")


def use_flash(monkeypatch, kernel: str = "flash-attn 2") -> None:
    """Attention over paged caches as on CUDA, with torch operations only, so that a graph can record it."""
    assert kernel in KERNELS
    two, three = (
        package if kernel == f"flash-attn {n}" else None for n, package in ((2, FLASH_ATTN), (3, FLASH_ATTN_3))
    )
    monkeypatch.setattr("guided.attention.flash._import_flash_attn", lambda: two)
    monkeypatch.setattr("guided.attention.flash._import_flash_attn_3", lambda device: three)
    monkeypatch.setattr("guided.attention.varlen._import_varlen_attn", lambda: varlen_attn)
    monkeypatch.setattr("guided.attention.segments.can_read_blocks", lambda k: True)
    monkeypatch.setattr("guided.attention.segments.has_varlen_attn", lambda: kernel == "varlen_attn")
    for user in ("guided.kernels", "guided.models.linear"):
        monkeypatch.setattr(f"{user}.is_supported", lambda x: False)


class Recorder(TorchDispatchMode):
    """Records each operation, and refuses operations that make the CPU wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in READS_BACK, f"{func} reads numbers back"
        if name.startswith(("index", "_index")):
            assert all(x.dtype != torch.bool for x in tree_leaves(args[1:]) if isinstance(x, Tensor)), (
                "counts what is set"
            )
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, out))
        return out


class FakeCapture:
    """Like CUDA graphs: Python runs once, and a replay repeats its operations on the memory that they had then."""

    def __init__(self) -> None:
        self.captured: list[int] = []  # batch sizes
        self.replays = 0

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        run()
        with Recorder() as recorder:
            out = run()
        self.captured.append(len(out))

        def replay() -> Tensor:
            self.replays += 1
            for func, args, kwargs, old in recorder.calls:
                for into, new in zip(tree_leaves(old), tree_leaves(func(*args, **kwargs)), strict=True):
                    if isinstance(into, Tensor) and into.data_ptr() != new.data_ptr():  # neither a view nor in place
                        into.copy_(new)
            return out

        return replay
