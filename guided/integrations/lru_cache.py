"""A dictionary that keeps its most recently used entries and drops the rest (an LRU cache).

It is for objects that engines look up repeatedly but never release: requests, grammars, tokenizers. It is not
thread-safe. Its operations cost as much as a dictionary's.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Generic, TypeVar

__all__ = ["LruCache"]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class LruCache(OrderedDict[_Key, _Value], Generic[_Key, _Value]):
    """A dictionary of at most `capacity` entries: the ones that were set, or read with `get`, most recently."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity

    def get(self, key: _Key, default: Any = None) -> Any:
        """Like `dict.get`; the entry becomes the most recently used."""
        if key in self:
            self.move_to_end(key)
        return super().get(key, default)

    def __setitem__(self, key: _Key, value: _Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self._capacity:
            self.popitem(last=False)
