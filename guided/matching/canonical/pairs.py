"""Finds the tokens that may follow each token within a word, for tokenizers that merge pairs by rank.

In: the merges. Out: `PairTable`: the tokens that merges can produce (`reachable`), and for each token the row of tokens
that may follow it.

The merges of a word produce a sequence of tokens if and only if they produce each pair of neighbours from the text of
this pair (Vieira et al., "Language Models over Canonical Byte-Pair Encodings", 2025). The reason: merges never cross a
boundary between two final tokens, so the merges on each side happen in the same order with or without the other side.
This needs only a fixed order (lowest rank, then leftmost) and reachable neighbours.

A token `a` merges with the next token `b` if at some time the last symbol x of `a` merges with the first symbol y of
`b`, before x and y merge with their own neighbours. A token with the derivation (l, r) is created at the *time* M =
max(its rank, M(l), M(r)): a merge with a lower rank than an earlier merge happens at once. So x exists from M(x) until
M(the symbol that x merges into), and y likewise. `a` and `b` merge if the rank of (x, y) lies in both spans:

    rank(x, y) < M(the symbol that x merges into in a)      ties: the leftmost merge comes first
    rank(x, y) <= M(the symbol that y merges into in b)

In trained tokenizers, the rank of (x, y) is never below the time from which both exist. For other ranks, the merges of
the two tokens are simulated.

Cost: the derivations of 128,000 tokens take half a second, once (derivations.py). A row takes a third of a millisecond,
since only the merges of the last few symbols of its token matter. The last rows used are cached in at most
`MAX_ROWS_BYTES`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from guided.matching.canonical.derivations import NEVER, Derivations
from guided.vocabulary.byte_pairs import BytePairs

__all__ = ["PairTable", "pack_row"]

MAX_ROWS_BYTES: Final = 32 * 1024 * 1024

Ints = npt.NDArray[np.int64]


class PairTable:
    """See the module docstring.

    Attributes:
        reachable: bool (size,), the tokens that merges produce for their own bytes.
    """

    def __init__(self, pairs: BytePairs, size: int) -> None:
        self._find_merge, self._size = pairs.find_merge, size
        self._derivations = derivations = Derivations(pairs, size)
        self.reachable = derivations.reachable
        self._rows: OrderedDict[int, npt.NDArray[np.int32]] = OrderedDict()
        is_reachable = self.reachable[derivations.left] & self.reachable[derivations.right]
        columns = derivations.left, derivations.right, derivations.ranks
        self._by_left = tuple(column[is_reachable] for column in columns)  # the merges of reachable tokens
        self._tokens_by_first = self._first_symbols()

    def merge_word(self, data: bytes) -> list[int]:
        """The tokens that merges produce for the bytes of a word; empty if a byte has no token."""
        symbols: list[int] = self._derivations.byte_tokens[np.frombuffer(data, np.uint8)].tolist()
        if -1 in symbols:
            return []
        while True:
            merges = [self._find_merge(a, b) for a, b in pairwise(symbols)]
            ranks = [NEVER if merge is None else merge[0] for merge in merges]
            if min(ranks, default=NEVER) == NEVER:
                return symbols
            best = ranks.index(min(ranks))
            symbols[best : best + 2] = [merges[best][1]]  # type: ignore[index]

    def row(self, token: int) -> npt.NDArray[np.int32]:
        """The reachable tokens that may follow a reachable token within a word, as a bitmask row."""
        row = self._rows.get(token)
        if row is None:
            row = self._rows[token] = self._row(token)
            if len(self._rows) * row.nbytes > MAX_ROWS_BYTES:
                self._rows.popitem(last=False)
        else:
            self._rows.move_to_end(token)
        return row

    def _row(self, token: int) -> npt.NDArray[np.int32]:
        allowed = self.reachable.copy()
        for x, x_exists_until in self._last_symbols(token):
            others, rank, both_exist_from, y_exists_until = self._merging_tokens(x, x_exists_until)
            allowed[others[(rank >= both_exist_from) & (y_exists_until >= rank)]] = False
            is_early = (
                (rank < both_exist_from) & (y_exists_until >= both_exist_from) & (x_exists_until >= both_exist_from)
            )
            merges_at_once = is_early & (y_exists_until > both_exist_from) & (x_exists_until > both_exist_from)
            allowed[others[merges_at_once]] = False
            for other in others[is_early & ~merges_at_once].tolist():
                allowed[other] &= self.merge_word(self._token_bytes(token) + self._token_bytes(other)) == [token, other]
        return pack_row(allowed)

    def _merging_tokens(self, x: int, x_exists_until: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Find tokens that at some time begin with a symbol y that merges with x before x itself is merged.

        Returns int64 arrays (n,): the tokens, the rank of that merge, the time from which x and y both exist, and the
        time until which y exists.
        """
        low, high = np.searchsorted(self._by_left[0], (x, x + 1))
        in_time = self._by_left[2][low:high] < x_exists_until
        ys, ranks = self._by_left[1][low:high][in_time], self._by_left[2][low:high][in_time]
        starts, ends = (
            np.searchsorted(self._tokens_by_first[0], ys),
            np.searchsorted(self._tokens_by_first[0], ys, "right"),
        )
        counts = ends - starts
        indices = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        both_exist_from = np.maximum(self._derivations.time[ys], self._derivations.time[x])
        return (
            self._tokens_by_first[1][indices],
            np.repeat(ranks, counts),
            np.repeat(both_exist_from, counts),
            self._tokens_by_first[2][indices],
        )

    def _last_symbols(self, token: int) -> Iterator[tuple[int, int]]:
        """Yield the last symbols that a token has over time, latest first, with their end times."""
        end_time, symbol = NEVER, token
        while symbol >= 0:
            yield symbol, end_time
            end_time, symbol = int(self._derivations.time[symbol]), int(self._derivations.halves[1, symbol])

    def _first_symbols(self) -> tuple[Ints, Ints, Ints]:
        """(symbol, token that at some time begins with it, its end time), sorted by symbol."""
        tokens = symbols = np.flatnonzero(self.reachable)
        end_times = np.full(len(tokens), NEVER)
        columns = [(symbols, tokens, end_times)]
        while len(tokens):
            end_times, symbols = self._derivations.time[symbols], self._derivations.halves[0, symbols]
            has_symbol = symbols >= 0
            symbols, tokens, end_times = symbols[has_symbol], tokens[has_symbol], end_times[has_symbol]
            columns.append((symbols, tokens, end_times))
        symbols, tokens, end_times = (np.concatenate(column) for column in zip(*columns, strict=True))
        order = np.argsort(symbols, kind="stable")
        return symbols[order], tokens[order], end_times[order]

    def _token_bytes(self, token: int) -> bytes:
        left, right = self._derivations.halves[:, token].tolist()
        if left < 0:
            return bytes((self._derivations.byte_tokens.tolist().index(token),))
        return self._token_bytes(left) + self._token_bytes(right)


def pack_row(allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """The bitmask row of a bool array, (n,) -> int32 (ceil(n / 32),)."""
    row = np.zeros((len(allowed) + 31) // 32, "<i4")
    bytes_ = np.packbits(allowed, bitorder="little")
    row.view(np.uint8)[: len(bytes_)] = bytes_
    return row.astype(np.int32, copy=False)
