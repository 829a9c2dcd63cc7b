"""All caches compared with their expected contents: each key and value identifies the whole past of a position.

They are integers up to 127, a number that always occurs, so quantised caches store them exactly.
"""

from __future__ import annotations

import hashlib
import random
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import OptionError
from guided.kv.cache import CacheShape, KVCache, Lease, Plan, SegmentedPlan
from guided.kv.dense import DenseCache
from guided.kv.offload.cache import OffloadCache
from guided.kv.paged import PagedCache
from guided.kv.quantised import QuantisedCache, packed_shape
from guided.kv.radix import RadixCache
from tests.effort import examples

SHAPE = CacheShape(layers=2, kv_heads=1, head_dim=7)
KINDS = {
    "dense": lambda shape: DenseCache(shape, 1 << 20),
    "paged": lambda shape: PagedCache(shape, blocks=24, block_size=4),
    "radix": lambda shape: RadixCache(shape, slots=96),
    "offload": lambda shape: OffloadCache(shape, blocks=24, ring_slots=4, block_size=4),
    "hybrid": lambda shape: OffloadCache(shape, blocks=18, ring_slots=3, block_size=4, device_blocks=6),
}
CACHES = {name: partial(make, SHAPE) for name, make in KINDS.items()} | {
    f"quantised {name}": partial(lambda make: QuantisedCache(make(packed_shape(SHAPE)), SHAPE), make)
    for name, make in KINDS.items()
}


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda: DenseCache(SHAPE, -5), "capacity"),
        (lambda: DenseCache((2, 1, 7), 5), "shape"),  # type: ignore[arg-type]
        (lambda: PagedCache(SHAPE, 4, block_size=0), "block_size"),
        (lambda: PagedCache(SHAPE, True), "blocks"),
        (lambda: RadixCache(SHAPE, 1.5), "slots"),  # type: ignore[arg-type]
        (lambda: OffloadCache(SHAPE, 4, 0), "ring_slots"),
        (lambda: OffloadCache(SHAPE, 4, 4, device_blocks=-1), "device_blocks"),
        (lambda: QuantisedCache(DenseCache(SHAPE, 5), None), "shape"),  # type: ignore[arg-type]
        (lambda: CacheShape(0, 1, 7), "layers"),
        (lambda: CacheShape(2, -1, 7), "kv_heads"),
        (lambda: CacheShape(2, 1, "7"), "head_dim"),  # type: ignore[arg-type]
    ],
)
def test_wrong_sizes_are_errors_that_name_the_argument(make, option):
    with pytest.raises(OptionError, match=f"{option} is .*, but must be") as caught:
        make()
    assert caught.value.option == option


def past(tokens: list[int], layer: int) -> torch.Tensor:
    """Keys that are unique to a past: (length, 1, head_dim)."""
    rows, read = [], hashlib.blake2b(f"{layer}".encode(), digest_size=6)
    for token in tokens:
        read.update(f" {token}".encode())
        rows.append([127.0, *(float(byte % 255 - 127) for byte in read.copy().digest())])
    return torch.tensor(rows).reshape(-1, 1, SHAPE.head_dim)


def pass_layer(plan: Plan | SegmentedPlan, layer: int, pairs: list[tuple[Lease, list[int]]]) -> None:
    """Write the new positions, and check what all of them read."""
    wants = [past(lease.tokens + new, layer) for lease, new in pairs]
    news = [want[lease.length :] for want, (lease, _) in zip(wants, pairs, strict=True)]
    if isinstance(plan, SegmentedPlan):
        for index, (k, want) in enumerate(zip(news, wants, strict=True)):
            pass_segments(plan, layer, index, k, want)
        return
    k = torch.cat(news)
    plan.write(layer, k, -k)
    for index, want in enumerate(wants):
        keys, values = plan.views[index].read(layer)
        assert torch.equal(keys, want) and torch.equal(values, -want)


def pass_segments(plan: SegmentedPlan, layer: int, index: int, k: torch.Tensor, want: torch.Tensor) -> None:
    """All segments are visited, and each new position reads itself and all earlier ones once."""
    rows = [tuple(row) for row in want.flatten(1).tolist()]
    seen, reads = set(), [[] for _ in k]
    for segment in plan.segments(layer, index, k, -k):
        keys, values = (one.cpu() for one in segment.read())
        assert torch.equal(values, -keys)
        assert torch.equal(keys, want[[position for run in segment.positions for position in run]])
        keys = [tuple(row) for row in keys.flatten(1).tolist()]
        queries = range(len(k))[segment.queries]
        for i, query in enumerate(queries, 1):
            reads[query] += keys[: len(keys) - len(queries) + i] if segment.is_causal else keys
        seen |= {*keys}
    assert seen == {*rows}
    for i, read in enumerate(reads, 1):
        assert sorted(read) == sorted(rows[: len(rows) - len(k) + i])


def write(cache: KVCache, pairs: list[tuple[Lease, list[int]]]) -> None:
    """One forward pass over new tokens of some sequences."""
    plan = cache.plan([lease for lease, _ in pairs], [len(new) for _, new in pairs])
    for layer in range(SHAPE.layers):
        pass_layer(plan, layer, pairs)
    for lease, new in pairs:
        cache.advance(lease, new)


def fail(cache: KVCache, pairs: list[tuple[Lease, list[int]]]) -> None:
    """A forward pass that stops after its first layer, or within it."""
    plan = cache.plan([lease for lease, _ in pairs], [len(new) for _, new in pairs])
    if len(pairs) % 2 and isinstance(plan, SegmentedPlan):
        lease, new = pairs[0]
        k = past(lease.tokens + new, 0)[lease.length :]
        next(plan.segments(0, 0, k, -k))
    else:
        pass_layer(plan, 0, pairs)


def check(cache: KVCache, lease: Lease, tokens: list[int]) -> None:
    assert lease.tokens == tokens
    plan = cache.plan([lease], [0])
    for layer in range(SHAPE.layers):
        pass_layer(plan, layer, [(lease, [])])


@pytest.mark.parametrize("name", CACHES)
@examples(15)
@given(st.randoms(use_true_random=False))
def test_each_sequence_reads_its_own_past(name: str, rng: random.Random) -> None:
    cache = CACHES[name]()
    cache.touch()
    walk(cache, rng, look=0.2)


@pytest.mark.parametrize("name", ["paged", "radix", "quantised paged", "quantised radix"])
def test_memory_may_be_allocated_at_once(name: str) -> None:
    cache = CACHES[name]()
    pool = getattr(cache, "inner", cache)._pool
    pool.k.fill_(5)
    pool.v.fill_(5)
    cache.touch()
    assert not pool.k.any() and not pool.v.any()


def walk(cache: KVCache, rng: random.Random, steps: int = 40, look: float = 1.0) -> None:
    """Whatever is done to some sequences, each reads its own past.

    `look`: how often all are read through; they are at the end, which finds whatever was overwritten before.
    """
    live: list[tuple[Lease, list[int]]] = []
    for step in range(steps):
        action = rng.choice(["open", "write", "write", "write", "write", "fail", "fork", "truncate", "close"])
        if action == "open":
            text = [*rng.choice([[], *(tokens for _, tokens in live)])[: rng.randrange(12)], rng.randrange(3)]
            keep = rng.choice([1, 1, 3])
            lease = cache.open(text, keep=keep, salt=rng.choice(["", "", "s"]))
            assert lease.tokens == text[: lease.length] and lease.length <= max(0, len(text) - keep)
            live.append((lease, list(lease.tokens)))
        elif action in ("write", "fail") and live:
            some = rng.sample(live, rng.randrange(1, min(4, len(live)) + 1))
            chosen = []
            for lease, tokens in some:
                new = [rng.randrange(3) for _ in range(rng.randrange(1, 9))]
                if cache.reserve(lease, len(new)):
                    chosen.append((lease, tokens, new))
            if chosen:
                run = write if action == "write" else fail
                run(cache, [(lease, new) for lease, _, new in chosen])
            for lease, tokens, new in chosen:
                if action == "write":
                    tokens += new
                else:
                    assert lease.tokens == tokens
        elif action == "fork" and live:
            lease, tokens = rng.choice(live)
            live.append((cache.fork(lease), list(tokens)))
        elif action == "truncate" and live:
            lease, tokens = rng.choice(live)
            length = rng.randrange(len(tokens) + 1)
            cache.truncate(lease, length)
            del tokens[length:]
        elif action == "close" and live:
            lease, _ = live.pop(rng.randrange(len(live)))
            cache.close(lease)
            cache.close(lease)
            assert lease.closed and lease.length == 0
        if rng.random() < look or step == steps - 1:
            for lease, tokens in live:
                check(cache, lease, tokens)
    rng.shuffle(live)
    for lease, _ in live:
        cache.close(lease)
    assert cache.available == cache.capacity, "closed in any order, nothing is used any more"


@pytest.mark.parametrize(
    ("name", "found"), [("dense", 0), ("paged", 8), ("radix", 9), ("offload", 0), ("quantised radix", 9)]
)
def test_a_known_prefix_is_found(name: str, found: int) -> None:
    cache = CACHES[name]()
    tokens = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    first = cache.open(tokens)
    assert cache.reserve(first, len(tokens))
    write(cache, [(first, tokens)])
    cache.close(first)
    assert cache.open([*tokens[:9], 0]).length == found
    assert cache.open([*tokens[:9], 0], salt="another").length == 0
    assert cache.open([9, *tokens]).length == 0
    assert cache.open(tokens[:1]).length == 0, "the last token is always computed"


@pytest.mark.parametrize("name", ["paged", "radix", "quantised paged"])
def test_the_least_recently_used_block_is_dropped_first(name: str) -> None:
    cache = CACHES[name]()

    def use(token: int) -> int:
        tokens = [token] * 17
        lease = cache.open(tokens)
        found = lease.length
        assert cache.reserve(lease, 17 - found)
        write(cache, [(lease, tokens[found:])])
        cache.close(lease)
        return found

    assert [use(token) for token in (1, 2, 3)] == [0, 0, 0]
    assert use(1) == 16
    for token in range(10, 13):
        assert use(token) == 0
    assert use(1) == 16
    assert use(2) < 16 <= use(1)


def test_a_collision_of_hashes_gives_no_wrong_past(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guided.kv.paged.xxhash.xxh64_intdigest", lambda data: 7)
    cache = PagedCache(SHAPE, blocks=8, block_size=4)
    for tokens in ([1, 2, 3, 4, 5], [6, 7, 8, 9, 1], [1, 2, 3, 4, 5]):
        lease = cache.open(tokens)
        assert lease.tokens in ([], tokens[:4])
        missing = tokens[lease.length :]
        assert cache.reserve(lease, len(missing))
        write(cache, [(lease, missing)])
        check(cache, lease, tokens)
        cache.close(lease)
    assert cache.available == cache.capacity


@pytest.mark.parametrize("name", CACHES)
def test_reservations_that_do_not_fit_change_nothing(name: str) -> None:
    cache = CACHES[name]()
    lease = cache.open([1])
    assert not cache.reserve(lease, cache.capacity + 1)
    assert cache.available == cache.capacity
    with pytest.raises(ValueError, match="cannot truncate to 1: 0 positions"):
        cache.truncate(lease, 1)
    assert cache.reserve(lease, 8)
    write(cache, [(lease, [1] * 8)])
    other = cache.open([2])
    room = cache.available
    assert not cache.reserve(other, room + 1) and cache.available == room
    assert cache.reserve(other, room)
