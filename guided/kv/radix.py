"""The radix cache: a prefix tree over the tokens of all computed keys and values.

A node of the tree contains token ids and the slots of their keys and values. A sequence that begins with the tokens of
a path in the tree uses the path's slots and locks the path. Unlike with blocks, prefixes are shared to the exact token.
A sequence writes to its own slots. They are inserted into the tree when the sequence is closed, or earlier by
`publish`. When slots are needed, unlocked leaves are dropped, the least recently used first. Locks are counted; a
`Lease` releases its lock once, even if it is closed twice.

Source: RadixAttention, "SGLang: Efficient Execution of Structured Language Model Programs", arXiv 2312.07104.
Cost: O(length) per call, and O(nodes) if slots must be freed. Slots that are not consecutive are copied when read.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from guided.kv.cache import CacheShape, Lease, Plan, check_cache
from guided.kv.pool import PoolPlan, SlotPool

__all__ = ["RadixCache"]


@dataclass(eq=False, slots=True)
class _Node:
    tokens: list[int]
    slots: list[int]
    parent: _Node | None
    children: dict[int, _Node] = field(default_factory=dict)
    lock_count: int = 0
    last_use: int = 0  # according to the cache's clock


@dataclass(eq=False)
class _Path(Lease):
    slots: list[int] = field(default_factory=list)
    first_own: int = 0  # earlier slots belong to the tree, locked at `node`; later slots to the sequence
    node: _Node | None = None


class RadixCache:
    """Keys and values of at most `slots` positions."""

    def __init__(self, shape: CacheShape, slots: int) -> None:
        check_cache(shape, slots=slots)
        self._pool = SlotPool(shape, slots)
        self._free_slots = list(range(slots))[::-1]
        self._roots: dict[str, _Node] = {}
        self._clock = 0
        self._evictable_count = 0  # the number of slots in unlocked nodes

    @property
    def capacity(self) -> int:
        """The total number of positions."""
        return self._pool.slots

    @property
    def available(self) -> int:
        """The number of free and unlocked slots."""
        return len(self._free_slots) + self._evictable_count

    def touch(self) -> None:
        """See `KVCache`."""
        self._pool.touch()

    def open(self, tokens: Sequence[int], *, keep: int = 1, salt: str = "") -> Lease:
        """Open a new sequence with the longest prefix of `tokens` that is in the tree."""
        node = self._root(salt)
        path = _Path(salt=salt)
        reusable = tokens[: max(0, len(tokens) - keep)]
        while (child := self._find_child(node, reusable, path.length)) is not None:
            node = child
            path.tokens += node.tokens
            path.slots += node.slots
        path.first_own, path.node = path.length, node
        self._lock(node)
        return path

    def reserve(self, lease: Lease, new: int) -> bool:
        """Allocate slots. Drop unlocked leaves if necessary."""
        assert isinstance(lease, _Path)
        missing_count = lease.length + new - len(lease.slots)
        if missing_count > self.available:
            return False
        if missing_count > len(self._free_slots):
            self._evict(missing_count - len(self._free_slots))
        lease.slots += (self._free_slots.pop() for _ in range(missing_count))
        return True

    def publish(self, lease: Lease) -> None:
        """Insert the stored positions of a running sequence into the tree, so that other sequences can use them."""
        assert isinstance(lease, _Path) and lease.node is not None
        node, start = self._root(lease.salt), 0
        while start < lease.length:
            child = self._find_child(node, lease.tokens, start)
            if child is None:  # the remaining tokens are new
                child = _Node(lease.tokens[start:], lease.slots[start : lease.length], node)
                node.children[child.tokens[0]] = child
                self._evictable_count += len(child.slots)
            for i, slot in enumerate(child.slots, start):  # free slots whose positions are already in the tree
                if i >= lease.first_own and lease.slots[i] != slot:
                    self._free_slots.append(lease.slots[i])
                lease.slots[i] = slot
            node, start = child, start + len(child.tokens)
        self._lock(node)
        self._unlock(lease.node)
        lease.node, lease.first_own = node, lease.length

    def fork(self, lease: Lease) -> Lease:
        """Insert the stored positions into the tree, and share them."""
        assert isinstance(lease, _Path)
        self.publish(lease)
        assert lease.node is not None
        self._lock(lease.node)
        stored_slots = lease.slots[: lease.length]
        return _Path(list(lease.tokens), lease.salt, slots=stored_slots, first_own=lease.length, node=lease.node)

    def truncate(self, lease: Lease, length: int) -> None:
        """Forget the positions from `length` on. Positions in the tree stay there."""
        assert isinstance(lease, _Path)
        lease.forget(length)
        if length < lease.first_own:  # these slots belong to the tree
            del lease.slots[length : lease.first_own]
            lease.first_own = length

    def plan(self, leases: Sequence[Lease], counts: Sequence[int]) -> Plan:
        """A plan over individual slots."""
        new_slots, slots_by_sequence = list[int](), []
        for lease, count in zip(leases, counts, strict=True):
            assert isinstance(lease, _Path)
            new_slots += lease.slots[lease.length : lease.length + count]
            slots_by_sequence.append(self._pool.index(lease.slots[: lease.length + count]))
        return PoolPlan(self._pool, self._pool.index(new_slots), slots_by_sequence)

    def advance(self, lease: Lease, tokens: Sequence[int]) -> None:
        """Record the tokens of the new positions."""
        lease.tokens += tokens

    def close(self, lease: Lease) -> None:
        """Insert the stored positions into the tree, and unlock them."""
        assert isinstance(lease, _Path)
        if lease.closed:
            return
        self.publish(lease)
        assert lease.node is not None
        lease.closed = True
        self._unlock(lease.node)
        self._free_slots += lease.slots[lease.length :]
        lease.slots, lease.tokens, lease.node = [], [], None

    # ---- the tree
    def _root(self, salt: str) -> _Node:
        return self._roots.setdefault(salt, _Node([], [], None))

    def _find_child(self, node: _Node, tokens: Sequence[int], start: int) -> _Node | None:
        """The child that matches the tokens from `start` on. It is split if only its beginning matches."""
        child = node.children.get(tokens[start]) if start < len(tokens) else None
        if child is None:
            return None
        matching_count = 0
        for ours, theirs in zip(child.tokens, tokens[start : start + len(child.tokens)], strict=False):
            if ours != theirs:
                break
            matching_count += 1
        return child if matching_count == len(child.tokens) else self._split(child, matching_count)

    def _split(self, node: _Node, length: int) -> _Node:
        """Split a node: a new node takes its first `length` tokens, and becomes its parent."""
        assert node.parent is not None
        new_parent = _Node(
            node.tokens[:length], node.slots[:length], node.parent, lock_count=node.lock_count, last_use=node.last_use
        )
        node.parent.children[new_parent.tokens[0]] = new_parent
        node.tokens, node.slots, node.parent = node.tokens[length:], node.slots[length:], new_parent
        new_parent.children[node.tokens[0]] = node
        return new_parent

    def _lock(self, node: _Node | None) -> None:
        self._clock += 1
        while node is not None:
            self._evictable_count -= len(node.slots) if node.lock_count == 0 else 0
            node.lock_count += 1
            node.last_use = self._clock
            node = node.parent

    def _unlock(self, node: _Node | None) -> None:
        while node is not None:
            node.lock_count -= 1
            self._evictable_count += len(node.slots) if node.lock_count == 0 else 0
            node = node.parent

    def _evict(self, count: int) -> None:
        """Drop leaves until `count` more slots are free."""
        leaves = [(leaf.last_use, id(leaf), leaf) for root in self._roots.values() for leaf in _leaves(root)]
        heapq.heapify(leaves)
        while count > 0:
            _, _, leaf = heapq.heappop(leaves)
            assert leaf.parent is not None
            self._free_slots += leaf.slots
            self._evictable_count -= len(leaf.slots)
            count -= len(leaf.slots)
            del leaf.parent.children[leaf.tokens[0]]
            if _is_evictable(leaf.parent):
                heapq.heappush(leaves, (leaf.parent.last_use, id(leaf.parent), leaf.parent))


def _is_evictable(node: _Node) -> bool:
    return node.parent is not None and not node.children and node.lock_count == 0


def _leaves(root: _Node) -> Iterator[_Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        stack += node.children.values()
        if _is_evictable(node):
            yield node
