"""Writers of small tokenizer files, a mutator for fuzzing, and locations of real files, for the vocabulary tests."""

from __future__ import annotations

import base64
import json
import os
import random
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from guided.errors import GuidedError

ROOT = Path(__file__).resolve().parent.parent


def asset(name: str) -> Path:
    """A real file by name, from $GUIDED_ASSETS or the folder `shared` beside the repository; skips without one.
    The weights of known models: tests/weights.py."""
    roots = [Path(os.environ["GUIDED_ASSETS"])] if "GUIDED_ASSETS" in os.environ else []
    for root in [*roots, ROOT.parent / "shared"]:
        found = next(root.rglob(name), None) if root.is_dir() else None
        if found is not None:
            return found
    pytest.skip(f"{name} is in neither $GUIDED_ASSETS nor {ROOT.parent / 'shared'}")


# --- writers


def gguf_string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def gguf_value(value: Any) -> bytes:
    """A value with its type before it: the smallest type that fits."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<Iq", 11, value)
    if isinstance(value, float):
        return struct.pack("<Id", 12, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    inner = [gguf_value(item) for item in value] or [struct.pack("<I", 8)]
    assert len({item[:4] for item in inner}) == 1
    return struct.pack("<I", 9) + inner[0][:4] + struct.pack("<Q", len(value)) + b"".join(i[4:] for i in inner if value)


def gguf_file(
    metadata: dict[str, Any],
    tensors: Iterable[tuple[str, tuple[int, ...], int, bytes]] = (),
    *,
    version: int = 3,
) -> bytes:
    """A GGUF file; tensors are (name, shape with rows first, ggml type, data)."""
    tensors = list(tensors)
    alignment = metadata.get("general.alignment", 32)
    alignment = alignment if isinstance(alignment, int) else 32
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    out += b"".join(gguf_string(key) + gguf_value(value) for key, value in metadata.items())
    body = b""
    for name, shape, kind, data in tensors:
        body += b"\0" * (-len(body) % alignment)
        dims = b"".join(struct.pack("<Q", size) for size in reversed(shape))
        out += gguf_string(name) + struct.pack("<I", len(shape)) + dims + struct.pack("<IQ", kind, len(body))
        body += data
    return out + b"\0" * (-len(out) % alignment) + body


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes((value & 0x7F | 0x80,)), value >> 7
    return out + bytes((value,))


def field(number: int, value: int | float | bytes) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece_file(
    pieces: Iterable[tuple[str, float, int]],
    *,
    algorithm: int = 2,
    trainer: bytes = b"",
    dummy_prefix: bool = False,
    collapse: bool = False,
    charsmap: bytes = b"",
) -> bytes:
    """A .model file. Pieces are (text, score, type). Bytes are a fallback if all of them have a piece."""
    pieces = list(pieces)
    if sum(kind == 6 for _, _, kind in pieces) == 256:
        trainer += field(35, 1)
    out = b""
    for text, score, kind in pieces:
        out += field(1, field(1, text.encode()) + field(2, float(score)) + field(3, kind))
    normalizer = field(2, charsmap) + field(3, int(dummy_prefix)) + field(4, int(collapse))
    return out + field(2, field(3, algorithm) + trainer) + field(3, normalizer)


def ranks_file(tokens: Iterable[bytes]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def tekken_file(
    tokens: Iterable[bytes], *, specials: int = 20, pattern: str = r"\p{L}+|\p{N}|\s+|[^\s\p{L}\p{N}]+"
) -> bytes:
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate(tokens)
    ]
    config = {
        "pattern": pattern,
        "num_vocab_tokens": len(vocab),
        "default_vocab_size": len(vocab) + specials,
        "default_num_special_tokens": specials,
        "version": "v3",
    }
    return json.dumps({"config": config, "vocab": vocab}).encode()


# --- fuzzing

_NUMBERS = (b"\xff" * 8, b"\xff" * 4, b"\0" * 8, struct.pack("<Q", 1 << 62), struct.pack("<Q", 1 << 31), b"\x80" * 9)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """`data` with one to six changes: bytes replaced, removed, doubled, moved, overwritten, truncated."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        place = rng.randrange(len(out) + 1)
        length = rng.choice((1, 1, 2, 4, 8, 32))
        kind = rng.randrange(7)
        if kind == 0:
            out[place : place + length] = rng.randbytes(len(out[place : place + length]))
        elif kind == 1:
            del out[place : place + length]
        elif kind == 2:
            out[place:place] = out[place : place + length] * rng.randint(1, 3)
        elif kind == 3:
            number = rng.choice(_NUMBERS)
            out[place : place + len(number)] = number
        elif kind == 4 and out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        elif kind == 5:
            out[place:place] = rng.randbytes(length)
        elif rng.random() < 0.3:
            del out[place:]
    return bytes(out)


def fuzz(
    read: Callable[[Path], object], seeds: list[bytes], path: Path, fuzzed_bytes: int, seed: int
) -> tuple[int, int]:
    """Read mutations of `seeds` (and noise) until `fuzzed_bytes` have been read. Only GuidedError may be raised."""
    rng = random.Random(seed)
    done = refused = accepted = 0
    while done < fuzzed_bytes:
        data = mutated(rng.choice(seeds), rng) if rng.random() < 0.97 else rng.randbytes(rng.randrange(200))
        path.write_bytes(data)
        done += len(data) + 1
        try:
            read(path)
            accepted += 1
        except GuidedError as error:
            assert str(error)
            refused += 1
    return accepted, refused
