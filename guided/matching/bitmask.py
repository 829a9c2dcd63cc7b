"""Allocates, reads and fills token bitmasks: int32 (batch, ceil(size / 32)), in which bit `id % 32` of word `id // 32`
is 1 if the token is allowed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from guided.automaton import _core
from guided.errors import brief
from guided.keywords import read_items

__all__ = ["allocate_token_bitmask", "allowed_tokens", "bits_of", "fill_batch", "first_allowed", "is_allowed", "row_of"]


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> npt.NDArray[np.int32]:
    """A bitmask that allows all tokens.

    Returns:
        int32 (batch_size, ceil(vocab_size / 32)), C-contiguous.
    """
    if not (isinstance(batch_size, int | np.integer) and isinstance(vocab_size, int | np.integer)):
        raise TypeError(f"batch_size and vocab_size must be integers, not {brief(batch_size)} and {brief(vocab_size)}")
    if batch_size < 1 or vocab_size < 1:
        raise ValueError(f"batch_size and vocab_size must be positive, got {batch_size} and {vocab_size}")
    return np.full((batch_size, (vocab_size + 31) // 32), -1, dtype=np.int32)


def allowed_tokens(bitmask: Any, row: int = 0) -> list[int]:
    """The ids that a row allows, ascending.

    Args:
        bitmask: int32 (batch, ceil(size / 32)), numpy or a CPU tensor.
    """
    if not isinstance(bitmask, np.ndarray) and hasattr(bitmask, "numpy"):
        bitmask = bitmask.numpy()
    if getattr(bitmask, "dtype", None) != np.int32:
        raise TypeError(f"a token bitmask is an int32 array, not {getattr(bitmask, 'dtype', type(bitmask).__name__)}")
    return [int(i) for i in np.flatnonzero(bits_of(bitmask[row]))]


def bits_of(row: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
    """The bits of a row, uint8 (32 * words,): 1 for each allowed id, otherwise 0. Also takes (n, words)."""
    return np.unpackbits(row.astype("<i4", copy=False).view(np.uint8), axis=-1, bitorder="little")


def first_allowed(row: npt.NDArray[np.int32]) -> int:
    """The lowest id that a row allows, or -1 if it allows none."""
    word = int(np.argmax(row != 0))
    bits = int(row[word]) & 0xFFFFFFFF
    return 32 * word + (bits & -bits).bit_length() - 1 if bits else -1


def row_of(vocab_size: int, ids: Sequence[int] | slice) -> npt.NDArray[np.int32]:
    """The row that allows exactly these ids, int32 (ceil(vocab_size / 32),): the inverse of `allowed_tokens`."""
    bits = np.zeros((vocab_size + 31) // 32 * 32, np.uint8)
    bits[ids] = 1
    return np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)


def is_allowed(row: npt.NDArray[np.int32], token: int) -> bool:
    """Whether a row allows an id, which must be within the row."""
    return bool(row.item(token >> 5) >> (token & 31) & 1)


def fill_batch(
    matchers: Sequence[_core.Matcher],
    bitmask: Any,
    rows: Sequence[int] | None = None,
    *,
    max_tokens: int | None = None,
    threads: int | None = None,
) -> None:
    """Fill a row for each matcher, on several threads and without the GIL.

    Args:
        matchers: one per row; grammars may differ, the vocabulary may not.
        bitmask: int32 (batch, ceil(size / 32)), numpy or a CPU tensor.
        rows: the row of each matcher; None: 0, 1, 2, ... Other rows do not change.
        max_tokens: the budget of every row, see `GrammarMatcher.fill_next_token_bitmask`.
        threads: the maximum number of threads, including the caller's, which works alone for the first 0.1 ms; None:
            one per core, but at most one per 4 rows.

    Raises:
        BudgetError: a row's shortest completion does not fit. Other rows may have been filled.
    """
    for name, value in (("max_tokens", max_tokens), ("threads", threads)):
        if value is not None and not isinstance(value, int | np.integer):
            raise TypeError(f"{name} must be an integer or None, not {brief(value)}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    matchers = read_items("matchers", matchers)
    row_numbers = list(range(len(matchers))) if rows is None else read_items("rows", rows)
    if len({id(m) for m in matchers}) != len(matchers):
        raise ValueError("matchers: a matcher occurs twice; fork() it")
    thread_count = threads if threads is not None else min(_count_cores(), max(1, len(matchers) // 4))
    _core.fill_batch(matchers, bitmask, row_numbers, max_tokens, thread_count)


@cache
def _count_cores() -> int:
    return os.cpu_count() or 1  # cached: the call takes longer than filling a few rows
