"""Merges the bytes of all tokens of a vocabulary at once, to find which tokens the merges can produce.

In: the merges. Out: `Derivations`: the tokens that merges produce for their own bytes (`reachable`), and the last merge
of each of them. In any word, the merges produce a token from the same parts: until it exists, no merge crosses its
borders, so the merges within it happen in the same order with or without the rest of the word.

How: tokens of similar length form the rows of a matrix of symbols. Each round merges the best pair of each row.

Cost: 0.5 s for 150,000 tokens.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from guided.vocabulary.byte_pairs import BytePairs

__all__ = ["NEVER", "Derivations"]

NEVER: Final = 1 << 60
"""A rank that no merge has, and a time after all merges."""

Ints = npt.NDArray[np.int64]


class Derivations:
    """See the module docstring. All arrays have an entry for each token, (size,), unless noted otherwise.

    Attributes:
        reachable: bool, the tokens that merges produce for their own bytes.
        halves: int64 (2, size), the two tokens that merge into each reachable token; -1: it is a byte.
        time: int64, the time at which each reachable token is created (pairs.py); -1: it is a byte.
        byte_tokens: int64 (256,), the token of each byte; -1: there is none.
        left, right, ranks: int64 (n,), all merges, sorted by `left`, then by `right`.
    """

    def __init__(self, pairs: BytePairs, size: int) -> None:
        numbers = (n for merge in pairs.merges() for n in (merge.left, merge.right, merge.rank, merge.merged))
        merges = np.fromiter(numbers, np.int64).reshape(-1, 4)
        keys = merges[:, 0] * size + merges[:, 1]
        order = np.argsort(keys)
        self._size = size
        self._keys = np.append(keys[order], -1)  # the last entry stands for a missing merge
        self.left, self.right, ranks, self._merged = merges[order].T.copy()
        self._ranks, self.ranks = np.append(ranks, NEVER), ranks
        self.byte_tokens = np.array([pairs.ids.get(bytes((byte,)), -1) for byte in range(256)], np.int64)
        self.halves = np.full((2, size), -1, np.int64)
        self.time = np.full(size, -1, np.int64)
        self.reachable = np.zeros(size, bool)
        groups: dict[int, list[tuple[bytes, int]]] = {}  # by length, up to a factor of two
        for data, token in pairs.ids.items():
            groups.setdefault((len(data) - 1).bit_length(), []).append((data, token))
        for group in groups.values():
            self._derive([data for data, _ in group], np.array([token for _, token in group], np.int64))

    def _derive(self, texts: list[bytes], tokens: Ints) -> None:
        """Merge the bytes of tokens, given as `texts`."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        symbols = np.full((len(texts), int(lengths.max())), -1, np.int64)
        is_symbol = np.arange(symbols.shape[1]) < lengths[:, None]
        symbols[is_symbol] = self.byte_tokens[np.frombuffer(b"".join(texts), np.uint8)]
        has_bytes = ~((symbols < 0) & is_symbol).any(axis=1)
        symbols, tokens = symbols[has_bytes], tokens[has_bytes]
        merges = self._find_merges(symbols[:, :-1], symbols[:, 1:])
        while symbols.shape[1] > 1 and len(tokens):
            rows, best = np.arange(len(tokens)), self._ranks[merges].argmin(axis=1)
            can_merge = self._ranks[merges[rows, best]] < NEVER
            self._finish(symbols[~can_merge], tokens[~can_merge])
            symbols, merges, tokens, best = symbols[can_merge], merges[can_merge], tokens[can_merge], best[can_merge]
            symbols, merges = self._merge(symbols, merges, best)
        self._finish(symbols, tokens)

    def _merge(self, symbols: Ints, merges: Ints, best: Ints) -> tuple[Ints, Ints]:
        """Merge the pair `best` of each row. `merges`: the merge of each pair of neighbours."""
        rows, columns = np.arange(len(best)), np.arange(symbols.shape[1] - 1)
        merge = merges[rows, best]
        left, right, merged = self.left[merge], self.right[merge], self._merged[merge]
        self.halves[:, merged] = left, right
        self.time[merged] = np.maximum(self._ranks[merge], np.maximum(self.time[left], self.time[right]))
        symbols = np.take_along_axis(symbols, columns + (columns > best[:, None]), axis=1)
        symbols[rows, best] = merged
        merges = np.take_along_axis(merges, columns[:-1] + (columns[:-1] >= best[:, None]), axis=1)
        for pair in (best - 1, best):  # the pairs that contain the new symbol
            changed = np.flatnonzero((pair >= 0) & (pair < merges.shape[1]))
            at = pair[changed]
            merges[changed, at] = self._find_merges(symbols[changed, at], symbols[changed, at + 1])
        return symbols, merges

    def _find_merges(self, left: Ints, right: Ints) -> Ints:
        """The merge of each pair, as an index; the index of a rank of `NEVER` if the pair does not merge."""
        keys = left * self._size + right
        found = np.searchsorted(self._keys[:-1], keys)
        return np.where((self._keys[found] == keys) & (left >= 0) & (right >= 0), found, len(self.left))

    def _finish(self, symbols: Ints, tokens: Ints) -> None:
        """Record the tokens whose bytes have become one symbol."""
        is_one = (symbols[:, 1:] < 0).all(axis=1) & (symbols[:, 0] == tokens)
        self.reachable[tokens[is_one]] = True
