"""Finds the characters that a token completes, contains and begins.

    b"\\xa9t\\xc3"    `head` b"\\xa9" ends a character, `text` is "t", `tail` b"\\xc3" begins one

In: the bytes of tokens, and classes of characters (splitter.py). Out: `TokenCharacters` for each token that can be part
of a UTF-8 text. Tokens whose characters have the same classes share one node of a tree, so word boundaries are
computed once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple
from unicodedata import combining, decomposition

import numpy as np
import numpy.typing as npt

from guided.ir.ranges import ALL_CHARS, Ranges, intersect

__all__ = ["ClassTree", "TokenCharacters", "characters_starting_with", "composing_characters", "token_characters"]

_LENGTHS: Final = (
    (0xC0, 0xE0, 2),
    (0xE0, 0xF0, 3),
    (0xF0, 0xF8, 4),
)  # (first lead byte, last lead byte + 1, length in bytes)
_MAX_CLASSES: Final = 1 << 20  # no Splitter has more classes: a key is state * _MAX_CLASSES + class
Ints = npt.NDArray[np.int64]
_CODE_POINTS_BY_LENGTH: Final = {2: (0x80, 0x7FF), 3: (0x800, 0xFFFF), 4: (0x10000, 0x10FFFF)}


class TokenCharacters(NamedTuple):
    """The parts of a token: the end of a character, whole characters, the beginning of a character."""

    head: bytes
    text: str
    tail: bytes


def token_characters(data: bytes) -> TokenCharacters | None:
    """A token's characters, or None if no UTF-8 text contains these bytes."""
    try:
        return TokenCharacters(b"", data.decode(), b"")
    except UnicodeDecodeError:
        pass
    begin = 0
    while begin < len(data) and data[begin] & 0xC0 == 0x80:
        begin += 1
    end = len(data)
    for start in range(max(begin, end - 3), end):
        if data[start] >= 0xC0 and any(low <= data[start] < high and end - start < n for low, high, n in _LENGTHS):
            end = start
            break
    try:
        text = data[begin:end].decode()
    except UnicodeDecodeError:
        return None
    tail = data[end:]
    if begin > 3 or (tail and not characters_starting_with(tail)):
        return None
    return TokenCharacters(data[:begin], text, tail)


def characters_starting_with(data: bytes) -> Ranges:
    """The multi-byte characters that begin with these bytes; empty if there are none."""
    length = next((n for low, high, n in _LENGTHS if low <= data[0] < high), 0)
    if not length or len(data) >= length or any(byte & 0xC0 != 0x80 for byte in data[1:]):
        return ()
    code = data[0] & (0x7F >> length)
    for byte in data[1:]:
        code = code << 6 | byte & 0x3F
    shift = 6 * (length - len(data))
    ranges = (
        intersect(((code << shift, (code + 1 << shift) - 1),), (_CODE_POINTS_BY_LENGTH[length],))
        if code << shift <= 0x10FFFF
        else ()
    )
    return intersect(ranges, ALL_CHARS)


@cache
def composing_characters() -> frozenset[str]:
    """The characters that normalization may compose with earlier characters, or reorder among them."""
    jamo = {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    everything = map(chr, range(0x110000))
    composing = {char for char in everything if combining(char)}
    for code in range(0x110000):
        components = decomposition(chr(code)).split()
        if len(components) == 2 and not components[0].startswith("<"):
            composing.add(chr(int(components[1], 16)))
    return frozenset(composing | jamo)


class ClassTree:
    """Texts as paths of classes from a root, level by level. Node 0, the root, stands for the empty text.

    Attributes:
        nodes: the node of each text, int64 (n,).
        count: the number of nodes.
    """

    def __init__(self, texts: Sequence[str], classes_of: Callable[[Ints], Ints]) -> None:
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        begins = np.cumsum(lengths) - lengths
        codes = np.frombuffer("".join(texts).encode("utf-32-le"), "<u4").astype(np.int64)
        classes = classes_of(codes)
        self.nodes = np.zeros(len(texts), np.int64)
        self._levels: list[tuple[int, Ints, Ints]] = []  # the first node, parents, classes
        self.count = 1
        for depth in range(int(lengths.max(initial=0))):
            longer = np.flatnonzero(lengths > depth)
            keys = self.nodes[longer] * _MAX_CLASSES + classes[begins[longer] + depth]
            distinct_keys, inverse = np.unique(keys, return_inverse=True)
            self.nodes[longer] = self.count + inverse
            self._levels.append((self.count, distinct_keys // _MAX_CLASSES, distinct_keys % _MAX_CLASSES))
            self.count += len(distinct_keys)

    def walk(self, start: int, first_step: Callable[[int, int], int], next_step: Callable[[int, int], int]) -> Ints:
        """The state after each node, int64 (count,): `first_step` reads the first character, `next_step` the others.
        State 0 is dead. Both functions are called once for each level, state and class."""
        out = np.zeros(self.count, np.int64)
        out[0] = start
        step = first_step
        for begin, parents, classes in self._levels:
            keys = out[parents] * _MAX_CLASSES + classes
            distinct_keys, inverse = np.unique(keys, return_inverse=True)
            new_states = [
                step(key // _MAX_CLASSES, key % _MAX_CLASSES) if key >= _MAX_CLASSES else 0
                for key in distinct_keys.tolist()
            ]
            out[begin : begin + len(keys)] = np.array(new_states, np.int64)[inverse]
            step = next_step
        return out
