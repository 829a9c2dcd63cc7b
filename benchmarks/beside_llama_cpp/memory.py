"""The bytes that a decode step reads, and the time that the machine's memory takes for them.

guided's bytes are counted: all matrices as the kernel reads them, one row of an embedding that is not the head, the
other weights, and the keys and values of a context. The bandwidth is measured: threads search 1 GiB for a byte that
does not occur, with the C library's `memchr`, which only reads.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from benchmarks.beside_llama_cpp.speed import load_engine
from guided.files.gguf import GgufFile

__all__ = ["MEMORY_HEAD", "bandwidth", "file_bytes_per_token", "memory_rows", "weight_bytes_per_token"]

MEMORY_HEAD: Final = (
    "| model | threads | guided, MB | file, MB | guided / file | keys and values, MB | bandwidth, GB / s "
    "| limit, ms / token | measured, ms / token | limit / measured |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)
_SWEPT: Final = 1 << 30
_SHORT, _WRITTEN = 20, 100


def memory_rows(model: Path, threads: int, rounds: int) -> list[str]:
    """A row of the table. The context has the length of the middle of the measured steps."""
    engine = load_engine(model, threads)
    with GgufFile(model) as file:
        stored = file_bytes_per_token(file)
    weights, context = weight_bytes_per_token(engine.model), _SHORT + _WRITTEN // 2
    cached = context * _kv_bytes(engine.model)
    speed, measured = bandwidth(threads, rounds), min(_decode(engine) for _ in range(rounds + 1))
    limit = (weights + cached) / speed
    sizes = f"{weights / 1e6:.1f} | {stored / 1e6:.1f} | {weights / stored:.3f} | {cached / 1e6:.1f}"
    times = f"{speed / 1e9:.1f} | {1000 * limit:.2f} | {1000 * measured:.2f} | {limit / measured:.2f}"
    return [f"| {model.name} | {threads} | {sizes} | {times} |"]


def weight_bytes_per_token(model: Any) -> int:
    """The bytes of a decoder's weights that a step of one token reads."""
    parts = [part for layer in model.layers for part in _fields(layer)] + [model.norm, model.head]
    row = 0 if model.head is model.embedding else _nbytes(model.embedding) // len(model.embedding)
    return row + sum(_nbytes(part) for part in parts if part is not None)


def file_bytes_per_token(file: GgufFile) -> int:
    """The same for a file: all tensors, but only one row of an embedding that is not the head."""
    sizes = {name: info.nbytes for name, info in file.tensors.items()}
    if "output.weight" in sizes:
        sizes["token_embd.weight"] //= file.tensors["token_embd.weight"].shape[0]
    return sum(sizes.values())


def bandwidth(threads: int, rounds: int) -> float:
    """The bytes per second that this number of threads read; the best of several sweeps."""
    memory = np.ones(_SWEPT, np.uint8)
    search = ctypes.CDLL(None).memchr
    search.restype, search.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    share, best = _SWEPT // threads, 0.0
    with ThreadPoolExecutor(threads) as pool:  # ctypes releases the GIL
        for _ in range(3 * rounds):
            begin = perf_counter()
            parts = [pool.submit(search, memory.ctypes.data + i * share, 0, share) for i in range(threads)]
            assert all(part.result() is None for part in parts)
            best = max(best, _SWEPT / (perf_counter() - begin))
    return best


def _fields(layer: Any) -> list[Any]:
    return [getattr(layer, name) for name in type(layer).__dataclass_fields__]


def _nbytes(part: Any) -> int:
    return int(part.nbytes)


def _kv_bytes(model: Any) -> int:
    from guided.engine.runner import cache_shape

    return cache_shape(model).bytes_per_token


def _decode(engine: Any) -> float:
    """Seconds per token."""
    prompt = engine.vocabulary.encode("The history of the city begins with a small village. " * 4)[:_SHORT]
    times = [perf_counter() for _ in engine.stream(prompt, max_tokens=_WRITTEN + 1, ignore_eos=True)]
    return (times[_WRITTEN] - times[0]) / _WRITTEN
