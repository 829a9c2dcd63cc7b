"""The weights of a quantised model as the kernels read them, stored on disk and mapped into memory.

Why: packing the matrices of a GGUF file for the kernel (int4.py) takes longer than all the rest of loading a model. The
first load therefore stores the packed weights, and later loads map the file. Nothing is copied, and processes that run
the same model share the memory.

Where: beside a model in guided's own cache, and in `packed/` of that cache for any other file, because directories of
the user are left alone. There the eight that were used last are kept. A stored file can be deleted at any time; the
next load makes it again.

Layout: 16 bytes of magic, the length of the header (uint64, little-endian), the header as JSON, padding to a multiple
of 64, then the weights in the order of the header, each padded to a multiple of 64.

Safety: a file is used only if everything in it is as expected: the source (its size, modification time, and a digest of
its header and of samples of its weights), the layout and the code that packed it, the names and shapes that the
architecture demands, the length of the file, and a digest of all weights. Anything else is ignored and written anew. A
file is written under another name and then renamed, so that no process ever sees half of it. If it cannot be written,
the model works without.

Cost: one digest over the mapped weights for each load, about 0.1 s per GB; as much disk space as the packed weights.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.files.gguf import GgufFile
from guided.files.hub import cache_directory
from guided.models.decoder import Decoder, DecoderConfig, Layer, layer_shapes
from guided.models.int4 import LAYOUT, Int4Matrix
from guided.models.linear import Matrix

__all__ = ["PackedFile"]

_MAGIC: Final = b"guided-packed-1\n"
_ALIGNMENT: Final = 64
_LARGEST_HEADER: Final = 1 << 24  # bytes
_LEAST_SIZE: Final = 8 << 20  # bytes of a model file; packing a smaller one takes no time
_SAMPLES, _SAMPLE_SIZE = 64, 4096  # of the source's weights
_KEPT: Final = 8  # files in `packed/`
_ABANDONED: Final = 3600.0  # seconds after which a file that was not finished is nobody's any more
_MATRICES = ("qkv", "output", "gate_up", "down")


@dataclass(frozen=True, slots=True)
class PackedFile:
    """The packed weights of one model file.

    Attributes:
        path: where they are, or will be.
        source: what identifies the model file and the form of the weights, as JSON data.
    """

    path: Path
    source: dict[str, Any]

    @classmethod
    def of(cls, file: GgufFile) -> PackedFile | None:
        """The packed weights that belong to a model file; None if it is too small to be worth it."""
        status = os.stat(file.path)
        if status.st_size < _LEAST_SIZE:
            return None
        try:
            path = _path_for(file.path)
        except RuntimeError:  # the user has no home directory, so there is no cache
            return None
        digest = _digest(file.samples(_SAMPLES, _SAMPLE_SIZE))
        source = {
            "layout": LAYOUT,
            "code": _code(),
            "size": status.st_size,
            "modified": status.st_mtime_ns,
            "digest": digest,
        }
        return cls(path, source)

    def load(self, config: DecoderConfig) -> Decoder | None:
        """The model, its weights mapped; None if there is no file, or one that does not belong to this model."""
        try:
            mapped = np.memmap(self.path, np.uint8, mode="c")
        except (OSError, ValueError):  # there is none; it is empty
            return None
        try:
            weights = self._read(mapped, config)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if weights is None:
            return None
        with suppress(OSError):
            os.utime(self.path)  # the eight that were used last are kept
        return _assemble(config, weights)

    def store(self, model: Decoder) -> None:
        """Write the weights of a model; without effect where that fails or the disk would be nearly full."""
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            weights = dict(_weights(model))
            total = sum(_padded(len(_bytes(weight))) for weight in weights.values())
            if shutil.disk_usage(self.path.parent).free < 2 * total:
                return
            _remove_abandoned(self.path.parent)
            unfinished = self.path.with_name(f".packed-{secrets.token_hex(8)}")
            try:
                with open(unfinished, "xb") as out:  # with the rights that the user's files have
                    self._write(out, weights)
                os.replace(unfinished, self.path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
            _evict(self.path)

    def _write(self, out: Any, weights: dict[str, Matrix]) -> None:
        entries = [[name, *_form(weight)] for name, weight in weights.items()]
        digest = _digest(part for weight in weights.values() for part in _blocks(weight))
        header = json.dumps({"source": self.source, "digest": digest, "weights": entries}).encode()
        head = _MAGIC + struct.pack("<Q", len(header)) + header
        out.write(head.ljust(_padded(len(head)), b"\0"))
        for weight in weights.values():
            for part in _blocks(weight):
                out.write(part)

    def _read(self, mapped: npt.NDArray[np.uint8], config: DecoderConfig) -> dict[str, Matrix] | None:
        """The weights in a mapped file; None, or an error, where it is not exactly what is expected."""
        start = len(_MAGIC) + 8
        if bytes(mapped[: len(_MAGIC)]) != _MAGIC or len(mapped) < start:
            return None
        (length,) = struct.unpack("<Q", bytes(mapped[start - 8 : start]))
        if length > min(_LARGEST_HEADER, len(mapped) - start):
            return None
        header = json.loads(bytes(mapped[start : start + length]))
        if header["source"] != self.source:
            return None
        shapes, weights = dict(_shapes(config)), dict[str, Matrix]()
        begin = at = _padded(start + length)
        for name, shape, planes in header["weights"]:
            if tuple(shape) != shapes.pop(name) or planes not in ((0, 1, 2) if _may_be_packed(name) else (0,)):
                return None
            size = Int4Matrix.size(tuple(shape), planes) if planes else 2 * prod(shape)
            if at + size > len(mapped):
                return None
            data = torch.from_numpy(mapped[at : at + size])
            weights[name] = Int4Matrix(data, tuple(shape), planes) if planes else data.view(torch.bfloat16).view(*shape)
            at += _padded(size)
        complete = at == len(mapped) and shapes.keys() <= {"head"}
        return weights if complete and _digest([mapped[begin:]]) == header["digest"] else None


@cache
def _code() -> str:
    """A digest of the code between the model file and the packed weights: a change of it makes stored files stale."""
    import guided.files.dequantise
    import guided.models.architecture
    import guided.models.decoder_weights
    import guided.models.gguf_config
    import guided.models.int4
    import guided.models.weights

    modules = (
        guided.files.dequantise,
        guided.models.int4,
        guided.models.gguf_config,
        guided.models.decoder_weights,
        guided.models.architecture,
        guided.models.weights,
    )
    return _digest(Path(module.__file__ or "").read_bytes() for module in modules)


def _path_for(source: Path) -> Path:
    """Beside a model in guided's cache; elsewhere in a folder of that cache, under a name made of the path."""
    source, cache = source.resolve(), cache_directory().resolve()
    if source.is_relative_to(cache):
        return source.with_name(f"{source.name}.packed")
    name = _digest([os.fsencode(source)])
    return cache / "packed" / f"{source.stem[:60]}-{name[:16]}.packed"


def _remove_abandoned(directory: Path) -> None:
    """Remove what processes that were killed have left half written."""
    now = time.time()
    for path in directory.glob(".packed-*"):
        with suppress(OSError):
            if now - path.stat().st_mtime > _ABANDONED:
                path.unlink()


def _evict(new: Path) -> None:
    """Remove the files in `packed/` that were not used for longest; a process that has one mapped keeps it."""
    if new.parent.name != "packed":
        return
    used: list[tuple[float, Path]] = []
    for path in new.parent.glob("*.packed"):
        with suppress(OSError):
            used.append((path.stat().st_mtime, path))
    for _, path in sorted(used)[:-_KEPT]:
        if path != new:
            with suppress(OSError):
                path.unlink()


def _weights(model: Decoder) -> Iterator[tuple[str, Matrix]]:
    """All weights of a model by name. A head that is the embedding is left out."""
    yield "embedding", model.embedding
    yield "norm", model.norm
    if model.head is not model.embedding:
        yield "head", model.head
    for number, layer in enumerate(model.layers):
        for field in fields(layer):
            if (weight := getattr(layer, field.name)) is not None:
                yield f"{number}.{field.name}", weight


def _assemble(config: DecoderConfig, weights: dict[str, Matrix]) -> Decoder:
    """The inverse of `_weights`."""

    def layer(number: int) -> Layer:
        found = {field.name: weights.get(f"{number}.{field.name}") for field in fields(Layer)}
        return Layer(**found)  # type: ignore[arg-type]

    embedding, norm = weights["embedding"], weights["norm"]
    assert isinstance(embedding, Tensor) and isinstance(norm, Tensor)
    return Decoder(config, embedding, list(map(layer, range(config.layers))), norm, weights.get("head", embedding))


def _shapes(c: DecoderConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The name and the shape of each weight that the architecture has, the head included."""
    yield from (("embedding", (c.vocab_size, c.dim)), ("norm", (c.dim,)), ("head", (c.vocab_size, c.dim)))
    for number in range(c.layers):
        for name, shape in layer_shapes(c).items():
            yield f"{number}.{name}", shape


def _may_be_packed(name: str) -> bool:
    return name == "head" or name.partition(".")[2] in _MATRICES


def _form(weight: Matrix) -> tuple[list[int], int]:
    """Shape, and how many planes of 4 bits; 0 for bfloat16."""
    assert isinstance(weight, Tensor | Int4Matrix)
    return list(weight.shape), weight.planes if isinstance(weight, Int4Matrix) else 0


def _bytes(weight: Matrix) -> npt.NDArray[np.uint8]:
    """The bytes of a weight; nothing is copied."""
    assert isinstance(weight, Tensor | Int4Matrix)
    data = weight.weights if isinstance(weight, Int4Matrix) else weight
    flat: npt.NDArray[np.uint8] = data.contiguous().view(-1).view(torch.uint8).numpy()
    return flat


def _blocks(weight: Matrix) -> Iterator[npt.NDArray[np.uint8] | bytes]:
    """The bytes of a weight, and its padding."""
    data = _bytes(weight)
    yield data
    yield bytes(_padded(len(data)) - len(data))


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _digest(parts: Any) -> str:
    """XXH3 of some bytes: it finds accidents. Whoever may write into the cache may write into the models, too."""
    import xxhash

    state = xxhash.xxh3_128()
    for part in parts:
        state.update(part)
    return str(state.hexdigest())
