"""The paged cache: blocks of positions, block tables, shared prefixes.

Memory is divided into blocks of `block_size` positions, and a sequence has a block table. So nothing is moved when a
sequence grows, and sequences with a common prefix share its blocks (with reference counts). A full block is found by
its tokens and all tokens before it: its key is a chain of xxhash64 over token ids, as in vLLM. A hit is then compared
with the ids and with the previous block, so a hash collision never yields a wrong prefix. Blocks without references
keep their contents until they are needed. The least recently used blocks are reused first; within a sequence, the last
blocks first.

Only one sequence writes a block. After a `fork`, a shared block that is not full is copied before it is written. After
a `truncate`, an indexed block is removed from the index before it is overwritten.

Source: "Efficient Memory Management for Large Language Model Serving with PagedAttention", arXiv 2309.06180; the hash
chain follows the block managers of vLLM and nano-vllm. Cost: O(blocks) per call.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
import xxhash
from torch import Tensor

from guided.kernels.transfer import send
from guided.kv.cache import CacheShape, KVView, Lease, check_cache
from guided.kv.pool import SlotPool, as_slice

__all__ = ["BlockPool", "PagedCache", "PagedPlan"]


@dataclass(eq=False, slots=True)
class _Block:
    number: int
    reference_count: int = 0
    page: _Page | None = None  # the contents, if the block is indexed


@dataclass(eq=False, slots=True)
class _Page:
    """The indexed contents of a full block."""

    key: int
    tokens: tuple[int, ...]
    previous_page: _Page | None
    salt: str
    block: _Block


@dataclass(eq=False)
class _Table(Lease):
    blocks: list[_Block] = field(default_factory=list)
    pages: list[_Page] = field(default_factory=list)  # of the full blocks, or of equal blocks that were indexed first


class BlockPool(SlotPool):
    """The memory of a paged cache.

    Attributes:
        k_blocks: keys, (layers, blocks, block_size, kv_heads, head_dim).
        v_blocks: values, with the same shape.
    """

    def __init__(self, shape: CacheShape, blocks: int, block_size: int) -> None:
        super().__init__(shape, blocks * block_size)
        size = (shape.layers, blocks, block_size, shape.kv_heads, shape.head_dim)
        self.blocks, self.block_size = blocks, block_size
        self.k_blocks, self.v_blocks = self.k.view(size), self.v.view(size)


class PagedPlan:
    """A plan for a paged cache: block tables for kernels that read them, and views and `write` for all other code.

    Attributes:
        k: keys, (layers, blocks, block_size, kv_heads, head_dim).
        v: values, with the same shape.
        counts: the number of new positions of each sequence.
        tables: the block ids of each sequence, up to its last position.
        lengths: the number of positions of each sequence, including new ones.
    """

    def __init__(
        self, pool: BlockPool, counts: Sequence[int], tables: Sequence[Sequence[int]], lengths: Sequence[int]
    ) -> None:
        self._pool, self.k, self.v = pool, pool.k_blocks, pool.v_blocks
        self.counts, self.tables, self.lengths = counts, tables, lengths

    def with_single_tokens(self, tables: Sequence[Sequence[int]], lengths: Sequence[int]) -> PagedPlan:
        """A plan with more sequences that have one new position each. Their tables may have further blocks."""
        counts = [*self.counts, *[1] * len(lengths)]
        return PagedPlan(self._pool, counts, [*self.tables, *tables], [*self.lengths, *lengths])

    @cached_property
    def slots(self) -> list[int]:
        """The slots of all new positions, sequence by sequence."""
        size = self._pool.block_size
        sequences = zip(self.counts, self.tables, self.lengths, strict=True)
        return [table[i // size] * size + i % size for n, table, end in sequences for i in range(end - n, end)]

    @cached_property
    def views(self) -> list[KVView]:
        """See `Plan`."""
        sequences = zip(self.tables, self.lengths, strict=True)
        return [KVView(self._pool.k, self._pool.v, self._slots_of(table, length)) for table, length in sequences]

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """See `Plan`."""
        self._pool.k[layer, self._new_slots] = k
        self._pool.v[layer, self._new_slots] = v

    @cached_property
    def _new_slots(self) -> slice | Tensor:
        return self._pool.index(self.slots)

    def _slots_of(self, table: Sequence[int], length: int) -> slice | Tensor:
        """The slots of the first `length` positions. Computed block by block, so that long sequences are cheap."""
        size = self._pool.block_size
        if (block_range := as_slice(table)) is not None:
            return slice(block_range.start * size, block_range.start * size + length)
        starts = send(table, torch.int64, self._pool.k.device) * size
        return (starts.unsqueeze(1) + torch.arange(size, device=starts.device)).flatten()[:length]


class PagedCache:
    """`blocks` times `block_size` positions."""

    def __init__(self, shape: CacheShape, blocks: int, block_size: int = 256, *, pool: BlockPool | None = None) -> None:
        """`pool`: existing memory of these sizes; None: allocate memory."""
        check_cache(shape, blocks=blocks, block_size=block_size)
        self._pool, self.block_size = pool or BlockPool(shape, blocks, block_size), block_size
        self._blocks = [_Block(number) for number in range(blocks)]
        self._unused = OrderedDict((block.number, block) for block in self._blocks)  # the next one to reuse comes first
        self._pages: dict[int, _Page] = {}

    def touch(self) -> None:
        """See `KVCache`."""
        self._pool.touch()

    @property
    def capacity(self) -> int:
        """The total number of positions."""
        return self._pool.slots

    @property
    def available(self) -> int:
        """The number of positions in unused blocks."""
        return len(self._unused) * self.block_size

    def open(self, tokens: Sequence[int], *, keep: int = 1, salt: str = "") -> Lease:
        """Open a new sequence with the cached full blocks of `tokens`."""
        table, size = _Table(salt=salt), self.block_size
        for start in range(0, len(tokens) - keep - size + 1, size):
            page = self._find(table, tuple(tokens[start : start + size]))
            if page is None:
                break
            self._retain(page.block)
            table.blocks.append(page.block)
            table.pages.append(page)
            table.tokens += page.tokens
        return table

    def reserve(self, lease: Lease, new: int) -> bool:
        """Allocate the missing blocks. Copy the block that is written next if other sequences share it."""
        assert isinstance(lease, _Table)
        if new == 0:
            return True
        missing_count = -(-(lease.length + new) // self.block_size) - len(lease.blocks)
        index = lease.length // self.block_size
        is_shared = index < len(lease.blocks) and lease.blocks[index].reference_count > 1
        if max(missing_count, 0) + is_shared > len(self._unused):
            return False
        if is_shared:
            self._copy_shared_block(lease, index)
        elif index < len(lease.blocks):
            self._unindex(lease.blocks[index])
        lease.blocks += (self._allocate() for _ in range(missing_count))
        return True

    def fork(self, lease: Lease) -> Lease:
        """Share all blocks with stored positions."""
        assert isinstance(lease, _Table)
        blocks = lease.blocks[: -(-lease.length // self.block_size)]
        for block in blocks:
            self._retain(block)
        return _Table(list(lease.tokens), lease.salt, blocks=blocks, pages=list(lease.pages))

    def truncate(self, lease: Lease, length: int) -> None:
        """Forget the positions from `length` on, and release their blocks."""
        assert isinstance(lease, _Table)
        lease.forget(length)
        count = -(-length // self.block_size)
        for block in reversed(lease.blocks[count:]):
            self._release(block)
        del lease.blocks[count:]
        del lease.pages[length // self.block_size :]

    def plan(self, leases: Sequence[Lease], counts: Sequence[int]) -> PagedPlan:
        """A plan with block tables."""
        tables, lengths = list[list[int]](), list[int]()
        for lease, count in zip(leases, counts, strict=True):
            assert isinstance(lease, _Table)
            lengths.append(end := lease.length + count)
            tables.append([block.number for block in lease.blocks[: -(-end // self.block_size)]])
        return PagedPlan(self._pool, counts, tables, lengths)

    def block_table(self, lease: Lease) -> list[int]:
        """The block ids of all reserved positions."""
        assert isinstance(lease, _Table)
        return [block.number for block in lease.blocks]

    def advance(self, lease: Lease, tokens: Sequence[int]) -> None:
        """Record the tokens of the new positions; index the blocks that are now full."""
        assert isinstance(lease, _Table)
        lease.tokens += tokens
        for index in range(len(lease.pages), lease.length // self.block_size):
            self._index_block(lease, index)

    def close(self, lease: Lease) -> None:
        """Release the blocks. The last blocks will be reused first."""
        assert isinstance(lease, _Table)
        if not lease.closed:
            lease.closed = True
            for block in reversed(lease.blocks):
                self._release(block)
            lease.blocks, lease.pages, lease.tokens = [], [], []

    # ---- blocks
    def _allocate(self) -> _Block:
        _, block = self._unused.popitem(last=False)
        self._unindex(block)
        block.reference_count = 1
        return block

    def _retain(self, block: _Block) -> None:
        if block.reference_count == 0:
            del self._unused[block.number]
        block.reference_count += 1

    def _release(self, block: _Block) -> None:
        block.reference_count -= 1
        if block.reference_count == 0:
            self._unused[block.number] = block
            if block.page is None:  # not indexed, so reuse it before all indexed blocks
                self._unused.move_to_end(block.number, last=False)

    def _copy_shared_block(self, lease: _Table, index: int) -> None:
        """Replace a shared block with a copy of the positions that the sequence uses."""
        old, new = lease.blocks[index], self._allocate()
        size, length = self.block_size, lease.length % self.block_size
        source, target = old.number * size, new.number * size
        self._pool.copy(slice(source, source + length), slice(target, target + length))
        self._release(old)
        lease.blocks[index] = new

    # ---- the index
    def _key(self, table: _Table, tokens: tuple[int, ...]) -> int:
        prefix_key = table.pages[-1].key.to_bytes(8, "little") if table.pages else table.salt.encode()
        return xxhash.xxh64_intdigest(prefix_key + array("q", tokens).tobytes())

    def _find(self, table: _Table, tokens: tuple[int, ...]) -> _Page | None:
        """The indexed page with these tokens after the table's pages, or None."""
        page = self._pages.get(self._key(table, tokens))
        previous = table.pages[-1] if table.pages else None
        is_same = (
            page is not None and (page.tokens, page.salt) == (tokens, table.salt) and page.previous_page is previous
        )
        return page if is_same else None

    def _index_block(self, table: _Table, index: int) -> None:
        """Index a full block, unless an equal block is indexed already."""
        tokens = tuple(table.tokens[index * self.block_size : (index + 1) * self.block_size])
        page = self._find(table, tokens)
        if page is None:
            key, block = self._key(table, tokens), table.blocks[index]
            if (other := self._pages.get(key)) is not None:  # its previous page was replaced, or hashes collide
                other.block.page = None
            page = _Page(key, tokens, table.pages[-1] if table.pages else None, table.salt, block)
            block.page = self._pages[key] = page
        table.pages.append(page)

    def _unindex(self, block: _Block) -> None:
        if block.page is not None:
            del self._pages[block.page.key]
            block.page = None
