"""Caches the grammars of a compiler by content; the least recently used are evicted first.

A grammar is small when it is stored, and grows with each state that matching creates. So each insertion measures some
other entries again, in turn. The cost does not depend on the number of entries n, and each entry is measured again
after at most n / `_ENTRIES_PER_INSERTION` insertions.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from guided.automaton import _core
from guided.matching.compiled import CompiledGrammar

__all__ = ["GrammarCache"]

_ENTRIES_PER_INSERTION: Final = 4  # entries measured per insertion


class _Weights(NamedTuple):
    """The memory of one kind of entry, as measured in a process with hundreds of them.

    Attributes:
        base_bytes: bytes per entry.
        bytes_per_position: bytes per position.
        bytes_per_reported_byte: bytes per byte that the core reports for the states.
    """

    base_bytes: int
    bytes_per_position: int
    bytes_per_reported_byte: float


_RULES_WEIGHTS: Final = _Weights(4096, 600, 1.0)
_LEXER_WEIGHTS: Final = _Weights(192 << 10, 6 << 10, 6.0)  # the core does not report the tables of terminals


class GrammarCache:
    """At most `bytes` of compiled grammars. Unhashable keys are never found and not stored. Thread-safe.

    Attributes:
        bytes: the limit.
        hits: the number of successful lookups.
    """

    def __init__(self, bytes: int) -> None:
        self.bytes = bytes
        self.hits = 0
        self._entries: OrderedDict[object, _Entry] = OrderedDict()
        self._weight = 0
        self._next_entries: Iterator[_Entry] = iter(())
        self._lock = threading.Lock()

    def find(self, key: object) -> CompiledGrammar | None:
        """The grammar that is stored under a key."""
        with self._lock:
            try:
                entry = self._entries.get(key)
            except TypeError:  # not hashable
                return None
            if entry is None:
                return None
            self._entries.move_to_end(key)
            self._measure(entry)
            self._shrink()
            self.hits += 1
            return entry.grammar

    def store(self, key: object, compiled: CompiledGrammar) -> None:
        """Store a grammar, and evict others if the total is then too large. A grammar that alone is too large, such as
        one that quotes from a long document, is not stored.
        """
        with self._lock:
            try:
                previous = self._entries.pop(key, None)  # another thread compiled the same grammar
            except TypeError:  # not hashable
                return
            if previous is not None:
                previous.is_dropped = True
                self._weight -= previous.weight
            entry = _Entry(compiled)
            self._measure(entry)
            if entry.weight > self.bytes:
                self._weight -= entry.weight
                return
            self._entries[key] = entry
            self._measure_others()
            self._shrink()

    def _shrink(self) -> None:
        """Evict the least recently used entries until the total fits. Matchers can still use evicted grammars."""
        while self._entries and self._weight > self.bytes:
            _, entry = self._entries.popitem(last=False)
            self._weight -= entry.weight
            entry.is_dropped = True

    def _measure_others(self) -> None:
        """Measure the entries whose turn it is."""
        entries = list(islice(self._next_entries, _ENTRIES_PER_INSERTION))
        if len(entries) < _ENTRIES_PER_INSERTION:
            self._next_entries = iter(tuple(self._entries.values()))
            entries += islice(self._next_entries, _ENTRIES_PER_INSERTION - len(entries))
        for entry in entries:
            if not entry.is_dropped:
                self._measure(entry)

    def _measure(self, entry: _Entry) -> None:
        """Measure an entry again: its automaton, and the states that matching has created."""
        native = entry.grammar.native
        weights = _LEXER_WEIGHTS if isinstance(native, _core.CompiledLexer) else _RULES_WEIGHTS
        weight = (
            weights.base_bytes
            + weights.bytes_per_position * native.positions
            + round(weights.bytes_per_reported_byte * native.memory_bytes)
        )
        self._weight += weight - entry.weight
        entry.weight = weight


@dataclass(slots=True)
class _Entry:
    """An entry of the cache, and its last measured size."""

    grammar: CompiledGrammar
    weight: int = 0
    is_dropped: bool = False
