"""Chooses the size of the default KV cache, and with it the maximum length of a sequence.

By default, the cache holds twice the model's context, but takes at most a share of the free memory. If the whole
context does not fit into this share, sequences are limited to the size of the cache. A caller that sets `context` gets
a cache for at least this length, or an error. vLLM's `max_model_len` and llama.cpp's `--ctx-size` are the same option.

On a CPU, allocating the cache costs nothing: the operating system commits its memory page by page, on first write. So
the memory grows with the tokens that the cache has held. On other devices it is committed at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch

from guided.errors import GuidedError, OptionError
from guided.keywords import check_integer
from guided.kv.memory import free_memory

__all__ = ["CacheSize", "check_context", "choose_cache_size"]

_MIN_POSITIONS: Final = 4096  # the capacity for models with a short context: space for a batch
_MIN_CONTEXT: Final = 1024  # the shortest limit on the length of sequences that is set without being asked
_HOST_SHARE: Final = 0.5
_DEVICE_SHARE: Final = 0.8  # the rest is for activations, CUDA graphs, logits and sampling


@dataclass(frozen=True, slots=True)
class CacheSize:
    """The size of a cache.

    Attributes:
        positions: the capacity.
        context: the maximum length of a sequence, at most `positions`.
        bytes_per_token: the number of bytes of one position.
        device: the device of the cache.
    """

    positions: int
    context: int
    bytes_per_token: int
    device: torch.device

    @property
    def blocks(self) -> tuple[int, int]:
        """The number of blocks in a paged cache, and the positions per block."""
        block_size = 16 if self.device.type == "cpu" else 256  # flash attention needs 256; the CPU's kernel takes any
        return -(-self.positions // block_size), block_size

    @contextmanager
    def allocation(self) -> Iterator[None]:
        """Turn an allocation that fails in the block into a GuidedError."""
        try:
            yield
        except RuntimeError as error:  # torch's error for lack of memory
            if isinstance(error, torch.OutOfMemoryError) or "allocate" in str(error):
                raise _memory_error(self.positions, self) from error
            raise


def check_context(context: int | None, model_context: int) -> None:
    """Raise OptionError unless `context` is None, or a length of at most the model's context."""
    check_integer("context", context, minimum=1, optional=True)
    if context is not None and context > model_context:
        raise OptionError(f"context is {context}, but the model's context is {model_context}", option="context")


def choose_cache_size(
    bytes_per_token: int, device: torch.device, model_context: int, context: int | None = None, *, processes: int = 1
) -> CacheSize:
    """Choose the size of a cache on a device.

    Args:
        bytes_per_token: the number of bytes of one position in all caches of this size.
        device: the device of the cache.
        model_context: the model's context.
        context: the required maximum length of a sequence; None: at most the model's context, depending on the memory.
        processes: the number of processes that make a cache of this size; on a CPU they share its memory.

    Raises:
        GuidedError: the required length, or the shortest useful length, does not fit into the free memory.
    """
    on_host = device.type == "cpu"
    free = free_memory(device) // (processes if on_host else 1)
    limit = model_context if context is None else context
    needed = min(limit, _MIN_CONTEXT) if context is None else context
    fitting = int(free * (_HOST_SHARE if on_host else _DEVICE_SHARE)) // bytes_per_token
    positions = max(needed, min(fitting, max(2 * limit, _MIN_POSITIONS)))
    size = CacheSize(positions, min(limit, positions), bytes_per_token, device)
    if needed * bytes_per_token > free:
        raise _memory_error(needed, size, free)
    return size


def _memory_error(positions: int, size: CacheSize, free: int | None = None) -> GuidedError:
    free_text = "the memory cannot be allocated" if free is None else f"only {_format(free)} are free"
    required = _format(positions * size.bytes_per_token)
    message = f"a KV cache for {positions:,} tokens takes {required} on {size.device}, but {free_text}"
    return GuidedError(message).with_location("", (0, 0), hint="lower `context`, or use kv_dtype 'int8'")


def _format(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
