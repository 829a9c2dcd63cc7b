"""`LLExecutor` steps many matchers at once. In: matchers, and the address of their masks or their tokens. Out: the
masks, or whether each token was allowed.

Masks are filled on several OS threads (`fill_batch`), or one after the other if there are draft tokens. Each matcher
may occur only once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from guided.compat.llguidance.matcher import LLMatcher
from guided.compat.memory import check_address, rows_at
from guided.matching.bitmask import allocate_token_bitmask, fill_batch

__all__ = ["LLExecutor"]


class LLExecutor:
    """Fills the masks of many matchers.

    Args:
        num_threads: the number of OS threads; None means four fifths of the cores, but at most 32.
    """

    def __init__(self, num_threads: int | None = None) -> None:
        default = min(32, max(1, (os.cpu_count() or 1) * 4 // 5))
        self.num_threads = num_threads or default

    def unsafe_compute_mask_ptr(
        self, interpreters: list[tuple[LLMatcher, int]], trg_pointer: int, one_mask_bytes: int, trg_batch_size: int
    ) -> None:
        """Write the mask of each matcher at `trg_pointer + index * one_mask_bytes`.

        Raises:
            ValueError: the address or a size is wrong, or an index is out of bounds. TypeError: an entry has no
                matcher. RuntimeError: a matcher occurs twice.
        """
        entries = _check_entries(interpreters, 2)
        rows = _view_rows(entries, trg_pointer, one_mask_bytes, trg_batch_size)
        unfilled_matchers = [matcher for matcher, _ in entries if matcher.needs_mask]
        if (
            len(unfilled_matchers) > 1
            and len({id(matcher.inner.grammar.vocabulary) for matcher in unfilled_matchers}) == 1
        ):
            masks = allocate_token_bitmask(len(unfilled_matchers), 32 * rows.shape[1])
            fill_batch([matcher.inner for matcher in unfilled_matchers], masks, threads=self.num_threads)
            for matcher, mask in zip(unfilled_matchers, masks, strict=True):
                matcher.set_mask(mask)
        for matcher, index in entries:
            rows[index] = matcher.row()

    def unsafe_compute_mask_ptr_with_draft_token(
        self,
        interpreters: list[tuple[LLMatcher, int, list[int]]],
        trg_pointer: int,
        one_mask_bytes: int,
        trg_batch_size: int,
    ) -> None:
        """Like `unsafe_compute_mask_ptr`, followed by masks after each draft token, up to the first forbidden one."""
        entries = _check_entries(interpreters, 3)
        rows = _view_rows(entries, trg_pointer, one_mask_bytes, trg_batch_size)
        for matcher, index, drafts in entries:
            if index + len(drafts) >= trg_batch_size:
                raise ValueError(f"Target index out of bounds: {index} and {len(drafts)} drafts in {trg_batch_size}")
            matcher.write_rows(rows[index : index + len(drafts) + 1], drafts)

    def consume_token_par(self, matchers: list[tuple[LLMatcher, int]]) -> list[bool]:
        """Let each matcher accept its token; see `LLMatcher.consume_token`. Errors: see `unsafe_compute_mask_ptr`."""
        return [matcher.consume_token(token) for matcher, token in _check_entries(matchers, 2)]


def _check_entries(entries: Sequence[Any], part_count: int) -> list[Any]:
    if not entries:
        raise ValueError("No matchers")
    for entry in entries:
        if not isinstance(entry, tuple):
            raise TypeError(f"'{type(entry).__name__}' object is not an instance of 'tuple'")
        if len(entry) != part_count:
            raise ValueError(
                f"Expecting tuples of {part_count} parts: (LLMatcher, int{', list' * (part_count - 2)}) tuple"
            )
        if not isinstance(entry[0], LLMatcher):
            raise TypeError(f"'{type(entry[0]).__name__}' object is not an instance of 'LLMatcher'")
    matcher_ids: set[int] = set()
    for entry in entries:
        if id(entry[0]) in matcher_ids:
            raise RuntimeError("Already borrowed: a matcher occurs twice; use deep_copy()")
        matcher_ids.add(id(entry[0]))
    return list(entries)


def _view_rows(entries: Sequence[Any], address: int, mask_bytes: int, batch_size: int) -> npt.NDArray[np.int32]:
    mask_words = entries[0][0].mask_words
    check_address(address)
    if mask_bytes != 4 * mask_words:
        raise ValueError(f"Invalid buffer size: a mask has {4 * mask_words} bytes, not {mask_bytes}")
    if invalid_indices := [entry[1] for entry in entries if not 0 <= entry[1] < batch_size]:
        raise ValueError(f"Target index out of bounds: {invalid_indices[0]} in {batch_size}")
    return rows_at(address, batch_size, mask_words)
