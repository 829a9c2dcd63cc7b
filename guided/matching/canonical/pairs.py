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

Cost: the derivations of 128,000 tokens take a few seconds, once. A row takes milliseconds, since only the merges of the
last few symbols of its token matter (benchmarks.md). The last rows used are cached in at most `MAX_ROWS_BYTES`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from guided.matching.bitmask import row_of
from guided.vocabulary.byte_pairs import BytePairs

__all__ = ["PairTable"]

MAX_ROWS_BYTES: Final = 32 * 1024 * 1024
_NEVER: Final = 1 << 60

Ints = npt.NDArray[np.int64]


class PairTable:
    """See the module docstring.

    Attributes:
        reachable: bool (size,), the tokens that merges produce for their own bytes.
    """

    def __init__(self, pairs: BytePairs, size: int) -> None:
        self._pairs, self._size = pairs, size
        self._byte_tokens = [pairs.ids.get(bytes((byte,)), -1) for byte in range(256)]
        singles = [token for token in self._byte_tokens if token >= 0]
        self._halves: dict[int, tuple[int, int] | None] = dict.fromkeys(singles)  # token -> its two parts
        self._time = dict.fromkeys(singles, -1)
        self.reachable = np.zeros(size, bool)
        for data, token in pairs.ids.items():
            self.reachable[token] = self.merge_word(data) == [token]
        self._rows: OrderedDict[int, npt.NDArray[np.int32]] = OrderedDict()
        self._time_array = np.full(size, -1, np.int64)
        self._time_array[list(self._time)] = list(self._time.values())
        self._by_left = self._merges_by_left()
        self._tokens_by_first = self._first_symbols()

    def merge_word(self, data: bytes) -> list[int]:
        """The tokens that merges produce for the bytes of a word; empty if a byte has no token."""
        find_merge, halves = self._pairs.find_merge, self._halves
        symbols = [self._byte_tokens[byte] for byte in data]
        if -1 in symbols:
            return []
        pairs = [find_merge(a, b) for a, b in pairwise(symbols)]
        while True:
            best, best_index = None, 0
            for index, merge in enumerate(pairs):
                if merge is not None and (best is None or merge[0] < best[0]):
                    best, best_index = merge, index
            if best is None:
                return symbols
            left, right = symbols[best_index : best_index + 2]
            rank, merged_token = best
            if merged_token not in halves:
                halves[merged_token] = left, right
                self._time[merged_token] = max(rank, self._time[left], self._time[right])
            symbols[best_index : best_index + 2] = [merged_token]
            del pairs[best_index]
            if best_index < len(pairs):
                pairs[best_index] = find_merge(merged_token, symbols[best_index + 1])
            if best_index > 0:
                pairs[best_index - 1] = find_merge(symbols[best_index - 1], merged_token)

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
        for x, x_exists_until in self._spine(token, side=1):
            others, rank, both_exist_from, y_exists_until = self._merging_tokens(x, x_exists_until)
            allowed[others[(rank >= both_exist_from) & (y_exists_until >= rank)]] = False
            is_early = (
                (rank < both_exist_from) & (y_exists_until >= both_exist_from) & (x_exists_until >= both_exist_from)
            )
            merges_at_once = is_early & (y_exists_until > both_exist_from) & (x_exists_until > both_exist_from)
            allowed[others[merges_at_once]] = False
            for other in others[is_early & ~merges_at_once].tolist():
                allowed[other] &= self.merge_word(self._token_bytes(token) + self._token_bytes(other)) == [token, other]
        return row_of(self._size, np.flatnonzero(allowed))  # type: ignore[arg-type]

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
        both_exist_from = np.maximum(self._time_array[ys], self._time[x])
        return (
            self._tokens_by_first[1][indices],
            np.repeat(ranks, counts),
            np.repeat(both_exist_from, counts),
            self._tokens_by_first[2][indices],
        )

    def _spine(self, token: int, *, side: int) -> Iterator[tuple[int, int]]:
        """Yield the last (`side` 1) or first (`side` 0) symbols that a token has over time, latest first, with their
        end times."""
        end_time = _NEVER
        symbol: int | None = token
        while symbol is not None:
            yield symbol, end_time
            end_time = self._time[symbol]
            halves = self._halves[symbol]
            symbol = None if halves is None else halves[side]

    def _first_symbols(self) -> tuple[Ints, Ints, Ints]:
        """(symbol, token that at some time begins with it, its end time), sorted by symbol."""
        symbols = [
            (symbol, token, until)
            for token in np.flatnonzero(self.reachable).tolist()
            for symbol, until in self._spine(token, side=0)
        ]
        return _sorted_columns(symbols)

    def _merges_by_left(self) -> tuple[Ints, Ints, Ints]:
        """(left, right, rank), sorted by the left symbol; reachable symbols only."""
        reachable = self.reachable
        return _sorted_columns(
            [
                (merge.left, merge.right, merge.rank)
                for merge in self._pairs.merges()
                if reachable[merge.left] and reachable[merge.right]
            ]
        )

    def _token_bytes(self, token: int) -> bytes:
        halves = self._halves[token]
        if halves is None:
            return bytes((self._byte_tokens.index(token),))
        return self._token_bytes(halves[0]) + self._token_bytes(halves[1])


def _sorted_columns(triples: list[tuple[int, int, int]]) -> tuple[Ints, Ints, Ints]:
    """The columns of the triples, sorted by the first column."""
    columns = np.array(triples or np.zeros((0, 3)), np.int64)
    columns = columns[np.argsort(columns[:, 0], kind="stable")]
    return columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy()
