"""The compiled grammars that a compiler keeps, by content; the least recently used are dropped first.

A grammar weighs little when it is kept, and more with each state that matching makes later. So whenever one is kept,
some others are weighed again, in turns: cost that does not depend on how many there are, and no weight is older than as
many grammars as are kept, divided by `_WEIGHED`.
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

__all__ = ["GrammarCache", "content_of"]

_WEIGHED: Final = 16  # others, whenever one is kept


class _Weights(NamedTuple):
    """What entries of a kind take, as measured in the memory of a process that keeps hundreds of them.

    Attributes:
        least: bytes of an entry, whatever it holds.
        position: bytes of each position.
        memory: bytes of each byte of states that the core tells of.
    """

    least: int
    position: int
    memory: float


_OF_RULES: Final = _Weights(4096, 600, 1.0)
_OF_LEXERS: Final = _Weights(192 << 10, 6 << 10, 6.0)  # the tables of their terminals are not told of


class GrammarCache:
    """At most `bytes` of compiled grammars. Keys that have no hash are never found and not kept. Thread-safe.

    Attributes:
        bytes: see above.
        hits: how often a grammar was found.
    """

    def __init__(self, bytes: int) -> None:
        self.bytes = bytes
        self.hits = 0
        self._kept: OrderedDict[object, _Kept] = OrderedDict()
        self._weight = 0
        self._turn: Iterator[_Kept] = iter(())
        self._lock = threading.Lock()

    def find(self, key: object) -> CompiledGrammar | None:
        """The grammar that is kept under a key."""
        with self._lock:
            try:
                found = self._kept.get(key)
            except TypeError:  # it holds what has no hash
                return None
            if found is None:
                return None
            self._kept.move_to_end(key)
            self._weigh(found)
            self._shrink()
            self.hits += 1
            return found.compiled

    def keep(self, key: object, compiled: CompiledGrammar) -> None:
        """Keep a grammar, and drop others if there are too many bytes then."""
        with self._lock:
            try:
                before = self._kept.pop(key, None)  # of another thread that compiled the same
            except TypeError:  # it holds what has no hash
                return
            if before is not None:
                before.is_dropped = True
                self._weight -= before.weight
            kept = self._kept[key] = _Kept(compiled)
            self._weigh(kept)
            self._weigh_others()
            self._shrink()

    def _shrink(self) -> None:
        """Drop the least recently used entries, as long as all weigh too much; one that is used goes on being used."""
        while self._kept and self._weight > self.bytes:
            _, dropped = self._kept.popitem(last=False)
            self._weight -= dropped.weight
            dropped.is_dropped = True

    def _weigh_others(self) -> None:
        """Weigh the entries whose turn it is."""
        found = list(islice(self._turn, _WEIGHED))
        if len(found) < _WEIGHED:
            self._turn = iter(tuple(self._kept.values()))
            found += islice(self._turn, _WEIGHED - len(found))
        for entry in found:
            if not entry.is_dropped:
                self._weigh(entry)

    def _weigh(self, kept: _Kept) -> None:
        """Charge an entry for what it weighs now: its automaton, and the states that matching has made."""
        native = kept.compiled.native
        each = _OF_LEXERS if isinstance(native, _core.CompiledLexer) else _OF_RULES
        weight = each.least + each.position * native.positions + round(each.memory * native.memory_bytes)
        self._weight += weight - kept.weight
        kept.weight = weight


@dataclass(slots=True)
class _Kept:
    """An entry of the cache, and what it was charged for."""

    compiled: CompiledGrammar
    weight: int = 0
    is_dropped: bool = False


def content_of(value: object) -> object:
    """What stands for a value in the cache: equal only for equal values of equal types. Unhashable: it is not kept."""
    try:
        return repr(value)
    except (RecursionError, ValueError):  # too deep, an integer too long: the front end says so
        return []
