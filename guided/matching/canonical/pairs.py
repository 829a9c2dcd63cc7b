"""Which token may follow which within a word, for tokenizers that merge pairs by rank.

In: the merges. Out: `PairTable`: the tokens that merges can produce (`reachable`), and for each token the row of tokens
that may follow it.

The merges of a word produce a sequence of tokens if and only if they do so for each pair of neighbours by itself
(Vieira et al., "Language Models over Canonical Byte-Pair Encodings", 2025). The reason: merges never cross a border
between two final tokens, so their order on both sides is the same with and without the rest of the word. This needs
only a fixed order (lowest rank, then leftmost) and reachable neighbours.

`a` and `b` do not stay apart if at some time the last symbol x of `a` merges with the first symbol y of `b`, before x
and y merge with their own neighbours. A token with the derivation (l, r) is made at the *time*
M = max(its rank, M(l), M(r)): a merge with a lower rank than an earlier merge happens at once. So x exists from M(x) to
M(what x becomes), and likewise y. If the rank of (x, y) is in both spans, `a` and `b` merge:

    rank(x, y) < M(what x becomes in a)      ties: the leftmost merge comes first
    rank(x, y) <= M(what y becomes in b)

If the rank of (x, y) is below the time at which both exist, which no trained tokenizer has, the two tokens are merged
step by step.

Cost: the derivations of 128,000 tokens take some seconds, once; a row takes the merges of the few last symbols of its
token, milliseconds (benchmarks.md). Rows are kept while they take at most `ROW_BYTES`.
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

ROW_BYTES: Final = 32 * 1024 * 1024
_NEVER: Final = 1 << 60

Ints = npt.NDArray[np.int64]


class PairTable:
    """See the module docstring.

    Attributes:
        reachable: bool (size,), the tokens that merges produce for their own bytes.
    """

    def __init__(self, pairs: BytePairs, size: int) -> None:
        self._pairs, self._size = pairs, size
        self._bytes = [pairs.ids.get(bytes((byte,)), -1) for byte in range(256)]
        singles = [token for token in self._bytes if token >= 0]
        self._halves: dict[int, tuple[int, int] | None] = dict.fromkeys(singles)
        self._time = dict.fromkeys(singles, -1)
        self.reachable = np.zeros(size, bool)
        for data, token in pairs.ids.items():
            self.reachable[token] = self.merged(data) == [token]
        self._rows: OrderedDict[int, npt.NDArray[np.int32]] = OrderedDict()
        self._times = np.full(size, -1, np.int64)
        self._times[list(self._time)] = list(self._time.values())
        self._by_left = self._merges_by_left()
        self._firsts = self._first_symbols()

    def merged(self, data: bytes) -> list[int]:
        """The tokens that merges produce for the bytes of a word; empty if a byte has no token."""
        pair, known = self._pairs.pair, self._halves
        symbols = [self._bytes[byte] for byte in data]
        if -1 in symbols:
            return []
        found = [pair(a, b) for a, b in pairwise(symbols)]
        while True:
            best, at = None, 0
            for place, merge in enumerate(found):
                if merge is not None and (best is None or merge[0] < best[0]):
                    best, at = merge, place
            if best is None:
                return symbols
            left, right = symbols[at : at + 2]
            rank, merged_token = best
            if merged_token not in known:
                known[merged_token] = left, right
                self._time[merged_token] = max(rank, self._time[left], self._time[right])
            symbols[at : at + 2] = [merged_token]
            del found[at]
            if at < len(found):
                found[at] = pair(merged_token, symbols[at + 1])
            if at > 0:
                found[at - 1] = pair(symbols[at - 1], merged_token)

    def row(self, token: int) -> npt.NDArray[np.int32]:
        """The reachable tokens that may follow a reachable token within a word, as a bitmask row."""
        found = self._rows.get(token)
        if found is None:
            found = self._rows[token] = self._row(token)
            if len(self._rows) * found.nbytes > ROW_BYTES:
                self._rows.popitem(last=False)
        else:
            self._rows.move_to_end(token)
        return found

    def _row(self, token: int) -> npt.NDArray[np.int32]:
        free = self.reachable.copy()
        for x, ends in self._spine(token, side=1):
            others, rank, both, until = self._meeting(x, ends)
            free[others[(rank >= both) & (until >= rank)]] = False
            early = (rank < both) & (until >= both) & (ends >= both)
            at_once = early & (until > both) & (ends > both)
            free[others[at_once]] = False
            for other in others[early & ~at_once].tolist():
                free[other] &= self.merged(self._token_bytes(token) + self._token_bytes(other)) == [token, other]
        return row_of(self._size, np.flatnonzero(free))  # type: ignore[arg-type]

    def _meeting(self, x: int, ends: int) -> tuple[Ints, Ints, Ints, Ints]:
        """The tokens with a first symbol that merges with x before x itself is merged, each (n,): the tokens, the rank
        of that merge, the time from which both symbols exist, and the time until which the first symbol exists."""
        low, high = np.searchsorted(self._by_left[0], (x, x + 1))
        soon = self._by_left[2][low:high] < ends
        firsts, ranks = self._by_left[1][low:high][soon], self._by_left[2][low:high][soon]
        begins, stops = np.searchsorted(self._firsts[0], firsts), np.searchsorted(self._firsts[0], firsts, "right")
        counts = stops - begins
        at = np.repeat(begins - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        there = np.maximum(self._times[firsts], self._time[x])
        return self._firsts[1][at], np.repeat(ranks, counts), np.repeat(there, counts), self._firsts[2][at]

    def _spine(self, token: int, *, side: int) -> Iterator[tuple[int, int]]:
        """The symbols that are at some time a token's last one (`side` 1) or first one (0), each with its end time."""
        until = _NEVER
        symbol: int | None = token
        while symbol is not None:
            yield symbol, until
            until = self._time[symbol]
            halves = self._halves[symbol]
            symbol = None if halves is None else halves[side]

    def _first_symbols(self) -> tuple[Ints, Ints, Ints]:
        """(symbol, token, end time), sorted by symbol."""
        found = [
            (symbol, token, until)
            for token in np.flatnonzero(self.reachable).tolist()
            for symbol, until in self._spine(token, side=0)
        ]
        return _sorted(found)

    def _merges_by_left(self) -> tuple[Ints, Ints, Ints]:
        """(left, right, rank), sorted by the left symbol; reachable symbols only."""
        reachable = self.reachable
        return _sorted(
            [
                (merge.left, merge.right, merge.rank)
                for merge in self._pairs.merges()
                if reachable[merge.left] and reachable[merge.right]
            ]
        )

    def _token_bytes(self, token: int) -> bytes:
        halves = self._halves[token]
        if halves is None:
            return bytes((self._bytes.index(token),))
        return self._token_bytes(halves[0]) + self._token_bytes(halves[1])


def _sorted(triples: list[tuple[int, int, int]]) -> tuple[Ints, Ints, Ints]:
    """The columns of some triples, sorted by the first one."""
    columns = np.array(triples or np.zeros((0, 3)), np.int64)
    columns = columns[np.argsort(columns[:, 0], kind="stable")]
    return columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy()
