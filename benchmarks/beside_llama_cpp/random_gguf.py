"""Writes GGUF files with random weights in one format. The time of a matrix product does not depend on the values.

In: the name of a format, the sizes, and the metadata of a tokenizer. Out: a file of the architecture `llama` that
guided and llama.cpp read. Every matrix has the format, the embedding is also the head, and norms are ones. Values have
the spread of a trained model's weights, so logits are finite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from guided.files.dequantise import Blocks
from guided.files.gguf import GGML_TYPES, GgufFile

__all__ = ["HALVES", "Sizes", "random_blocks", "write_random_gguf"]

HALVES: Final[Mapping[int, tuple[int, ...]]] = MappingProxyType(
    {
        2: (0,), 3: (0, 2), 6: (0,), 7: (0, 2), 8: (0,), 10: (80, 82), 11: (108,), 12: (0, 2), 13: (0, 2), 14: (208,),
        20: (0,), 23: (0,),
    }
)  # fmt: skip
"""By the number of a quantised format: where its blocks have float16 numbers."""
_SPREAD: Final = 0.02


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a model. Rows are multiples of 256. The default has 140 million weights, so no file fits into a
    cache.
    """

    layers: int = 8
    dim: int = 1024
    hidden: int = 2816
    heads: int = 16
    kv_heads: int = 4
    context: int = 2048


def random_blocks(kind: int, rows: int, columns: int, seed: int = 0, size: float | None = None) -> Blocks:
    """Random bytes with finite scales and offsets of blocks. `size`: the standard deviation of the values."""
    rng, (_, block, nbytes) = np.random.default_rng(seed), GGML_TYPES[kind]
    raw = rng.integers(0, 256, (rows * columns // block, nbytes), dtype=np.uint8)
    halves = rng.uniform(0.5, 1.5, (len(HALVES[kind]), len(raw), 1)) * rng.choice([-1, 1], (len(raw), 1))
    _put_halves(raw, kind, halves)
    whole = Blocks(raw.reshape(rows, -1), kind, columns)
    if size is not None:
        _put_halves(raw, kind, halves * (size / Blocks(whole.raw[:256], kind, columns).values().std()))
    return whole


def write_random_gguf(
    path: Path, format: str, tokenizer: Path | Mapping[str, Any], sizes: Sizes = Sizes(), seed: int = 0
) -> None:
    """Write a file. `tokenizer`: another file with the tokenizer, or metadata by name."""
    import gguf

    if isinstance(tokenizer, Path):
        with GgufFile(tokenizer) as file:
            tokenizer = dict(file.metadata)
    kinds = {name: kind for kind, (name, _, _) in GGML_TYPES.items()}
    writer = gguf.GGUFWriter(path, "llama")
    _add_metadata(writer, tokenizer, sizes)
    for number, (name, shape) in enumerate(_shapes(sizes, len(tokenizer["tokenizer.ggml.tokens"]))):
        if len(shape) == 1:
            writer.add_tensor(name, np.ones(shape, np.float32))
            continue
        raw = _random_matrix(kinds[format], shape[0], shape[1], seed + number)
        writer.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType(kinds[format]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _put_halves(raw: npt.NDArray[np.uint8], kind: int, halves: npt.NDArray[np.float64]) -> None:
    for at, half in zip(HALVES[kind], halves, strict=True):
        raw[:, at : at + 2] = half.astype("<f2").view(np.uint8)


def _random_matrix(kind: int, rows: int, columns: int, seed: int) -> npt.NDArray[np.uint8]:
    """The bytes of each row, as stored in a file."""
    if kind in HALVES:
        return random_blocks(kind, rows, columns, seed, _SPREAD).raw
    values = np.random.default_rng(seed).standard_normal((rows, columns), np.float32) * np.float32(_SPREAD)
    if GGML_TYPES[kind][0] == "BF16":
        return np.ascontiguousarray(values.view("<u2")[:, 1::2]).view(np.uint8)  # the upper half of each number
    return values.astype("<f2" if GGML_TYPES[kind][0] == "F16" else "<f4").view(np.uint8)


def _shapes(sizes: Sizes, tokens: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The tensors by name, rows first."""
    dim, hidden, kv = sizes.dim, sizes.hidden, sizes.dim // sizes.heads * sizes.kv_heads
    yield "token_embd.weight", (tokens, dim)
    yield "output_norm.weight", (dim,)
    for layer in range(sizes.layers):
        shapes: dict[str, tuple[int, ...]] = {
            "attn_norm": (dim,), "attn_q": (dim, dim), "attn_k": (kv, dim), "attn_v": (kv, dim),
            "attn_output": (dim, dim), "ffn_norm": (dim,), "ffn_gate": (hidden, dim), "ffn_up": (hidden, dim),
            "ffn_down": (dim, hidden),
        }  # fmt: skip
        for name, shape in shapes.items():
            yield f"blk.{layer}.{name}.weight", shape


def _add_metadata(writer: Any, tokenizer: Mapping[str, Any], sizes: Sizes) -> None:
    writer.add_block_count(sizes.layers)
    writer.add_context_length(sizes.context)
    writer.add_embedding_length(sizes.dim)
    writer.add_feed_forward_length(sizes.hidden)
    writer.add_head_count(sizes.heads)
    writer.add_head_count_kv(sizes.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    add = {str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
    for name, value in tokenizer.items():
        if name.startswith("tokenizer."):
            add_value = add.get(type(value), writer.add_array)
            add_value(name, value.tolist() if isinstance(value, np.ndarray) else value)
