"""Reads GGUF files: the metadata and the tensor directory.

In: a path. Out: `GgufFile`: `metadata` (str, int, float, bool; arrays of numbers as numpy arrays, arrays of strings as
lists), `tensors` (name, shape, type, offset) and `tensor_bytes(name)`, a view of the memory-mapped file.
Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.

Why not use the reader of the `gguf` package? It creates several numpy arrays for each string, and a vocabulary has tens
of thousands of strings. For SmolLM2-135M (49,152 tokens, 272 tensors) `GGUFReader` of gguf 0.19.0 takes 2.7 to 3.4 s,
and this reader 0.04 to 0.07 s: ten runs each, alternating, on a busy machine with two cores.

Every length is checked against the remaining bytes before anything is allocated. So a corrupt or hostile file raises
`ModelFileError` and never costs more memory than a small multiple of its own size. The header is read once, and tensor
data is not touched. This module does not dequantise (dequantise.py does), join split files, or write.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from os import PathLike
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from guided.errors import ModelFileError

__all__ = ["GGML_TYPES", "GgufFile", "TensorInfo"]

# ggml type number -> (name, values per block, bytes per block). Retired numbers are absent.
GGML_TYPES: Final[Mapping[int, tuple[str, int, int]]] = MappingProxyType(
    {
        0: ("F32", 1, 4),
        1: ("F16", 1, 2),
        2: ("Q4_0", 32, 18),
        3: ("Q4_1", 32, 20),
        6: ("Q5_0", 32, 22),
        7: ("Q5_1", 32, 24),
        8: ("Q8_0", 32, 34),
        9: ("Q8_1", 32, 36),
        10: ("Q2_K", 256, 84),
        11: ("Q3_K", 256, 110),
        12: ("Q4_K", 256, 144),
        13: ("Q5_K", 256, 176),
        14: ("Q6_K", 256, 210),
        15: ("Q8_K", 256, 292),
        16: ("IQ2_XXS", 256, 66),
        17: ("IQ2_XS", 256, 74),
        18: ("IQ3_XXS", 256, 98),
        19: ("IQ1_S", 256, 50),
        20: ("IQ4_NL", 32, 18),
        21: ("IQ3_S", 256, 110),
        22: ("IQ2_S", 256, 82),
        23: ("IQ4_XS", 256, 136),
        24: ("I8", 1, 1),
        25: ("I16", 1, 2),
        26: ("I32", 1, 4),
        27: ("I64", 1, 8),
        28: ("F64", 1, 8),
        29: ("IQ1_M", 256, 56),
        30: ("BF16", 1, 2),
        34: ("TQ1_0", 256, 54),
        35: ("TQ2_0", 256, 66),
        39: ("MXFP4", 32, 17),
    }
)

# metadata value type -> numpy dtype, for fixed-size types
_SCALARS: Final[Mapping[int, np.dtype[Any]]] = MappingProxyType(
    {
        number: np.dtype(code)
        for number, code in enumerate(("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?", "", "", "<u8", "<i8", "<f8"))
        if code
    }
)
_BOOL, _STRING, _ARRAY = 7, 8, 9
_MAX_DIMENSIONS = 4
_MAX_ARRAY_DEPTH = 4
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor's entry in the directory.

    Attributes:
        name: as in the file.
        shape: rows first (torch and numpy order; the file stores the fastest dimension first).
        ggml_type: a key of `GGML_TYPES`.
        offset: the position of its first byte in the file.
        nbytes: its size in the file.
    """

    name: str
    shape: tuple[int, ...]
    ggml_type: int
    offset: int
    nbytes: int

    @property
    def type_name(self) -> str:
        """The type's name in ggml, such as "Q4_1"."""
        return GGML_TYPES[self.ggml_type][0]

    @property
    def is_quantised(self) -> bool:
        """Whether several values share a scale."""
        return GGML_TYPES[self.ggml_type][1] > 1


class _Reader:
    """A cursor over the mapped file that never reads past its end."""

    def __init__(self, buffer: mmap.mmap, path: Path) -> None:
        self.buffer, self.size, self.position, self.path = buffer, len(buffer), 0, path

    def error(self, message: str, position: int | None = None) -> ModelFileError:
        return ModelFileError(f"{self.path}: {message} (at byte {self.position if position is None else position})")

    def require_bytes(self, count: int, description: str) -> None:
        if count > self.size - self.position:
            raise self.error(
                f"truncated or corrupt GGUF: {description} needs {count} bytes, "
                f"but {self.size - self.position} are left"
            )

    def read_u32(self, description: str) -> int:
        self.require_bytes(4, description)
        (value,) = _U32.unpack_from(self.buffer, self.position)
        self.position += 4
        return int(value)

    def read_u64(self, description: str) -> int:
        self.require_bytes(8, description)
        (value,) = _U64.unpack_from(self.buffer, self.position)
        self.position += 8
        return int(value)

    def read_string(self, description: str) -> str:
        return self.read_strings(1, description)[0]

    def read_strings(self, count: int, description: str) -> list[str]:
        """Read `count` strings, each a u64 length followed by that many bytes of UTF-8."""
        self.require_bytes(8 * count, description)
        out: list[str] = []
        append, unpack, buffer, size, position = out.append, _U64.unpack_from, self.buffer, self.size, self.position
        try:
            for _ in range(count):
                start: int = position + 8
                end = start + unpack(buffer, position)[0]
                if end > size:
                    raise self.error(
                        f"truncated or corrupt GGUF: {description} extends beyond the end of the file", position
                    )
                append(str(buffer[start:end], "utf-8"))
                position = end
        except UnicodeDecodeError as error:
            raise self.error(f"{description} is not UTF-8: {error.reason}", position) from None
        except struct.error:
            raise self.error(f"truncated or corrupt GGUF: {description} has no length", position) from None
        self.position = position
        return out

    def read_value(self, kind: int, description: str, depth: int = 0) -> Any:
        if kind == _STRING:
            return self.read_string(description)
        if kind == _ARRAY:
            return self.read_array(description, depth)
        return self.read_numbers(kind, 1, description)[0].item()

    def read_numbers(self, kind: int, count: int, description: str) -> npt.NDArray[Any]:
        dtype = _SCALARS.get(kind)
        if dtype is None:
            raise self.error(f"{description} has the unknown value type {kind}")
        self.require_bytes(count * dtype.itemsize, description)
        raw = np.frombuffer(self.buffer[self.position : self.position + count * dtype.itemsize], dtype="u1")
        if kind == _BOOL and raw.size and raw.max() > 1:
            raise self.error(f"{description} contains a boolean that is neither 0 nor 1")
        self.position += count * dtype.itemsize
        return raw.view(dtype)

    def read_array(self, description: str, depth: int) -> Any:
        kind, count = self.read_u32(description), self.read_u64(description)
        if kind == _STRING:
            return self.read_strings(count, description)
        if kind != _ARRAY:
            return self.read_numbers(kind, count, description)
        if depth + 1 >= _MAX_ARRAY_DEPTH:
            raise self.error(f"{description} nests arrays deeper than {_MAX_ARRAY_DEPTH}")
        self.require_bytes(12 * count, description)
        return [self.read_array(description, depth + 1) for _ in range(count)]


class GgufFile:
    """A GGUF file, memory-mapped. A context manager; views from `tensor_bytes` stay valid after `close`.

    Raises:
        ModelFileError: the file is not GGUF, is truncated or corrupt, or has an unsupported version.
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        with self.path.open("rb") as file:
            size = file.seek(0, 2)
            if size < 24:
                raise ModelFileError(f"{self.path}: not a GGUF file: {size} bytes are too few for a header")
            # A private mapping: the file is never written, and torch can wrap the memory without a warning.
            self._map: mmap.mmap | None = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
        try:
            self._reader = _Reader(self._map, self.path)
            self.version, self._tensor_count, pairs = self._read_header()
            self.metadata: Mapping[str, Any] = MappingProxyType(self._read_metadata(pairs))
            self._directory_start = self._reader.position
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> GgufFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unmap the file now, or when its last view is freed."""
        if self._map is not None:
            mapping, self._map = self._map, None
            try:
                mapping.close()
            except BufferError:
                return  # a view exists: the mapping is freed with it

    @cached_property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """The tensor directory, in the order of the file; read on first use."""
        reader = self._open_reader(self._directory_start)
        entries: dict[str, tuple[tuple[int, ...], int, int]] = {}
        reader.require_bytes(24 * self._tensor_count, "the tensor directory")
        for _ in range(self._tensor_count):
            name = reader.read_string("a tensor's name")
            if name in entries:
                raise reader.error(f"the tensor {name!r} is listed twice")
            dimensions = reader.read_u32(f"tensor {name!r}")
            if dimensions > _MAX_DIMENSIONS:
                raise reader.error(f"tensor {name!r} has {dimensions} dimensions, more than {_MAX_DIMENSIONS}")
            shape = tuple(reader.read_u64(f"tensor {name!r}") for _ in range(dimensions))[::-1]
            entries[name] = (shape, reader.read_u32(f"tensor {name!r}"), reader.read_u64(f"tensor {name!r}"))
        alignment = self.metadata.get("general.alignment", 32)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise reader.error(f"general.alignment is {alignment!r}, not a power of two")
        data_start = -(-reader.position // alignment) * alignment
        return MappingProxyType(
            {name: self._check_tensor(reader, name, *entry, data_start, alignment) for name, entry in entries.items()}
        )

    def tensor_bytes(self, name: str) -> npt.NDArray[np.uint8]:
        """The tensor's bytes in the file, as a view: nothing is copied. Writing to it does not change the file.

        Raises:
            KeyError: no tensor has this name.
        """
        info = self.tensors[name]
        return np.frombuffer(self._get_map(), dtype=np.uint8, count=info.nbytes, offset=info.offset)

    def forget(self, name: str) -> None:
        """Free the memory of a tensor's bytes. A later access reads the file again."""
        info = self.tensors[name]
        if hasattr(mmap, "MADV_DONTNEED"):
            start = -(-info.offset // mmap.PAGESIZE) * mmap.PAGESIZE
            if (size := (info.offset + info.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - start) > 0:
                self._get_map().madvise(mmap.MADV_DONTNEED, start, size)

    def _get_map(self) -> mmap.mmap:
        if self._map is None:
            raise ValueError(f"{self.path} is closed")
        return self._map

    def _open_reader(self, position: int) -> _Reader:
        reader = _Reader(self._get_map(), self.path)
        reader.position = position
        return reader

    def _read_header(self) -> tuple[int, int, int]:
        reader = self._reader
        magic = bytes(reader.buffer[:4])
        if magic != b"GGUF":
            raise ModelFileError(f"{self.path}: not a GGUF file: it begins with {magic!r}, not b'GGUF'")
        reader.position = 4
        version = reader.read_u32("the version")
        if version not in (2, 3):
            kind = "big-endian GGUF" if version and version % 65536 == 0 else f"GGUF version {version}"
            raise ModelFileError(f"{self.path}: {kind} is not supported; convert the file to version 3, little-endian")
        return version, reader.read_u64("the number of tensors"), reader.read_u64("the number of metadata pairs")

    def _read_metadata(self, count: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        reader = self._reader
        reader.require_bytes(13 * count, "the metadata")
        for _ in range(count):
            key = reader.read_string("a metadata key")
            if key in out:
                raise reader.error(f"the metadata key {key!r} occurs twice")
            out[key] = reader.read_value(reader.read_u32(f"metadata {key!r}"), f"metadata {key!r}")
        return out

    @staticmethod
    def _check_tensor(
        reader: _Reader, name: str, shape: tuple[int, ...], kind: int, offset: int, data_start: int, alignment: int
    ) -> TensorInfo:
        if kind not in GGML_TYPES:
            raise reader.error(f"tensor {name!r} has the unknown ggml type {kind}")
        type_name, block_size, block_bytes = GGML_TYPES[kind]
        if (shape[-1] if shape else 1) % block_size:
            raise reader.error(
                f"tensor {name!r} of type {type_name}: a row of {shape[-1:]} is not a multiple of {block_size} values"
            )
        nbytes = prod(shape) // block_size * block_bytes
        if offset % alignment:
            raise reader.error(f"tensor {name!r} starts at {offset}, which is not a multiple of {alignment}")
        if data_start + offset + nbytes > reader.size:
            raise reader.error(f"truncated or corrupt GGUF: tensor {name!r} extends beyond the end of the file")
        return TensorInfo(name, shape, kind, data_start + offset, nbytes)
