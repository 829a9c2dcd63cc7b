"""`BatchGrammarMatcher`: one call fills the rows of many matchers, or lets all of them accept or take back tokens."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from guided.compat.xgrammar.arrays import as_array, as_rows, copy_visible_bits
from guided.compat.xgrammar.base import XGRObject
from guided.compat.xgrammar.grammar_matcher import GrammarMatcher
from guided.matching import fill_batch

if TYPE_CHECKING:
    import torch

__all__ = ["BatchGrammarMatcher"]


class BatchGrammarMatcher(XGRObject):
    """Fills the rows of many matchers on several OS threads, without the GIL.

    Args:
        max_threads: the number of threads; "auto" means half as many as there are cores.

    Raises:
        RuntimeError: `max_threads` is neither "auto" nor at least 1.
    """

    def __init__(self, max_threads: int | Literal["auto"] = "auto") -> None:
        if max_threads == "auto":
            threads = max(1, (os.cpu_count() or 1) // 2)
        elif isinstance(max_threads, int) and max_threads >= 1:
            threads = max_threads
        else:
            raise RuntimeError(f"max_threads must be 'auto' or at least 1, not {max_threads!r}")
        self._threads = threads
        self._init_handle(self)

    def batch_fill_next_token_bitmask(
        self,
        matchers: list[GrammarMatcher],
        bitmask: Any,
        indices: list[int] | None = None,
        debug_print: bool = False,
    ) -> None:
        """Fill one row for each matcher, see `GrammarMatcher.fill_next_token_bitmask`.

        Args:
            bitmask: int32 (batch, words), on the CPU. Rows without a matcher are not changed.
            indices: the row of each matcher; None means 0, 1, 2, ...

        Raises:
            RuntimeError: the bitmask has a wrong type or shape or lacks a row, the numbers of matchers and indices
                differ, or an output has ended.
        """
        if indices is not None and len(indices) != len(matchers):
            raise RuntimeError(
                f"The size of indices ({len(indices)}) should be the same as the size of matchers ({len(matchers)})."
            )
        if not matchers:
            return
        row_numbers = list(range(len(matchers))) if indices is None else [int(row) for row in indices]
        rows = as_rows(bitmask, matchers[0]._size, dimensions=(2,))
        for index, (matcher, row) in enumerate(zip(matchers, row_numbers, strict=True)):
            if not 0 <= row < len(rows):
                raise RuntimeError(f"The index {row} is out of range [0, {len(rows)}) for batch_id {index}.")
            matcher._check_running("find the next token mask")
        self._fill_rows(matchers, rows, row_numbers)
        if debug_print:
            print(f"batch_fill_next_token_bitmask: {len(matchers)} rows")

    def _fill_rows(self, matchers: list[GrammarMatcher], rows: np.ndarray[Any, Any], row_numbers: list[int]) -> None:
        size = matchers[0]._size
        vocabularies = {id(matcher._matcher.grammar.vocabulary) for matcher in matchers}
        has_duplicates = len(set(map(id, matchers))) < len(matchers) or len(set(row_numbers)) < len(row_numbers)
        if len(vocabularies) > 1 or has_duplicates:
            for matcher, row in zip(matchers, row_numbers, strict=True):
                if matcher._size != size:
                    raise RuntimeError("the vocabularies of all matchers in a batch must have the same size")
                matcher._fill_row(rows, row)
            return
        inner_matchers = [matcher._matcher for matcher in matchers]
        if matchers[0]._row_with_hidden is None:
            rows[row_numbers] = -1
            fill_batch(inner_matchers, rows, row_numbers, threads=self._threads)
            for matcher, row in zip(matchers, row_numbers, strict=True):
                matcher._set_stops(rows[row])
            return
        masks = np.full((len(inner_matchers), matchers[0]._row_with_hidden.shape[1]), -1, np.int32)
        fill_batch(inner_matchers, masks, threads=self._threads)
        for index, (matcher, row) in enumerate(zip(matchers, row_numbers, strict=True)):
            copy_visible_bits(masks[index], rows[row], size)
            matcher._set_stops(rows[row])

    @staticmethod
    def batch_fill_temperature(
        matchers: list[GrammarMatcher],
        temperatures: torch.Tensor,
        indices: list[int] | None = None,
    ) -> None:
        """Write the temperature of each matcher, or -1 if there is none, into a float32 tensor on the CPU.

        Raises:
            RuntimeError: the tensor has a wrong type or shape or is too short, or the numbers of matchers and indices
                differ.
        """
        values = as_array(temperatures, np.float32, "temperatures")
        if indices is not None and len(indices) != len(matchers):
            raise RuntimeError("The indices size must match the number of matchers")
        row_numbers = range(len(matchers)) if indices is None else indices
        for matcher, index in zip(matchers, row_numbers, strict=True):
            if not 0 <= index < len(values):
                raise RuntimeError(f"The index {index} is out of bounds for the temperatures tensor")
            temperature = matcher.temperature
            values[index] = -1.0 if temperature is None else temperature

    @staticmethod
    def batch_accept_token(matchers: list[GrammarMatcher], tokens: list[int], debug_print: bool = False) -> list[bool]:
        """Let each matcher accept its token, and return for each whether it did. RuntimeError: the numbers of matchers
        and tokens differ.
        """
        _check_lengths(matchers, tokens, "token_ids")
        return [
            matcher.accept_token(int(token), debug_print=debug_print)
            for matcher, token in zip(matchers, tokens, strict=True)
        ]

    @staticmethod
    def batch_accept_string(
        matchers: list[GrammarMatcher], strings: list[str | bytes], debug_print: bool = False
    ) -> list[bool]:
        """Let each matcher accept its string, and return for each whether it did. RuntimeError: the numbers of
        matchers and strings differ.
        """
        _check_lengths(matchers, strings, "input_strs")
        return [
            matcher.accept_string(text, debug_print=debug_print)
            for matcher, text in zip(matchers, strings, strict=True)
        ]

    @staticmethod
    def batch_rollback(matchers: list[GrammarMatcher], num_tokens: list[int] | int = 1) -> None:
        """Take back steps: the same number for all matchers, or a number for each.

        RuntimeError: the numbers of matchers and counts differ.
        """
        counts = [num_tokens] * len(matchers) if isinstance(num_tokens, int) else num_tokens
        _check_lengths(matchers, counts, "num_tokens")
        for matcher, count in zip(matchers, counts, strict=True):
            matcher.rollback(count)


def _check_lengths(matchers: list[GrammarMatcher], values: list[Any], name: str) -> None:
    if len(matchers) != len(values):
        raise RuntimeError(f"The size of matchers ({len(matchers)}) and {name} ({len(values)}) should be the same.")
