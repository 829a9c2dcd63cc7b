"""The compiled grammars that a compiler keeps, by content; the least recently used are dropped first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from guided.matching.compiled import CompiledGrammar

__all__ = ["GrammarCache", "content_of"]


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
            self.hits += 1
            return found.compiled

    def keep(self, key: object, compiled: CompiledGrammar) -> None:
        """Keep a grammar, and drop others if there are too many bytes then."""
        with self._lock:
            try:
                before = self._kept.pop(key, None)  # of another thread that compiled the same
            except TypeError:  # it holds what has no hash
                return
            self._weight -= 0 if before is None else before.weight
            kept = self._kept[key] = _Kept(compiled)
            self._weigh(kept)
            while self._kept and self._weight > self.bytes:
                _, dropped = self._kept.popitem(last=False)
                self._weight -= dropped.weight

    def _weigh(self, kept: _Kept) -> None:
        """Charge an entry for what it weighs now: its automaton, and the states that matching has made."""
        native = kept.compiled.native
        weight = native.memory_bytes + 600 * native.positions
        self._weight += weight - kept.weight
        kept.weight = weight


@dataclass(slots=True)
class _Kept:
    """An entry of the cache, and what it was charged for."""

    compiled: CompiledGrammar
    weight: int = 0


def content_of(value: object) -> object:
    """What stands for a value in the cache: equal only for equal values of equal types. Unhashable: it is not kept."""
    try:
        return repr(value)
    except (RecursionError, ValueError):  # too deep, an integer too long: the front end says so
        return []
