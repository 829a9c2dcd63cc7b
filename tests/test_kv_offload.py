"""The offloaded cache: no copy races with anything, and outputs equal those of a cache that fits into the device."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import contextmanager, nullcontext
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.attention import segments
from guided.attention.segments import step_attention
from guided.engine.runner import Chunk, ModelRunner, cache_shape
from guided.kv.cache import CacheShape
from guided.kv.dense import DenseCache
from guided.kv.offload.cache import OffloadCache
from guided.kv.offload.copy_engine import Block, CheckedCopies, CopyOrderError
from guided.kv.offload.slots import SlotTable
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.models.decoder import LayerKind
from guided.models.rotary import Rope
from tests.effort import examples
from tests.engine_support import Reader
from tests.test_kv_caches import SHAPE, check, walk, write
from tests.test_models_forward import close, each_model

torch.set_num_threads(1)


def offload(shape: CacheShape, blocks: int, slots: int, size: int, device=0, kind=CheckedCopies, **how) -> OffloadCache:
    copies = kind(shape, slots + device, blocks, size, **how)
    return OffloadCache(shape, blocks, slots, size, device_blocks=device, copies=copies)


@st.composite
def caches(draw, shape: CacheShape, positions: int) -> OffloadCache:
    """Caches of any geometry. Copies are made late, at once, or either."""
    size, often = draw(st.integers(1, 6)), draw(st.sampled_from([0, 0.5, 1]))
    rng = draw(st.randoms(use_true_random=False))
    device = draw(st.sampled_from([0, 0, 1, 3]))
    blocks = -(-positions // size)
    return offload(shape, blocks, draw(st.integers(2, 8)), size, device, executes_at_once=lambda: rng.random() < often)


# ---- the order of copies
@examples(20)
@given(caches(SHAPE, 90), st.randoms(use_true_random=False), st.sampled_from([0.0, 0.3]))
def test_each_sequence_reads_its_own_past(cache, rng, look):
    walk(cache, rng, look=look)


class Forgetful(CheckedCopies):
    """Omits one wait."""

    waits, left_out = 0, -1

    def wait_slot_layer(self, slot, layer):
        self.wait(super().wait_slot_layer, slot, layer)

    def wait_offload_layer(self, slot, layer):
        self.wait(super().wait_offload_layer, slot, layer)

    def wait(self, really, slot, layer):
        self.waits += 1
        if self.waits - 1 != self.left_out:
            really(slot, layer)


@pytest.mark.parametrize("often", [0, 0.5, 1])
def test_every_wait_is_needed(often):
    """If any wait is omitted, something races, whenever the copies are made."""

    def run(left_out):
        Forgetful.left_out, rng = left_out, random.Random(5)
        cache = offload(SHAPE, 30, 3, 4, kind=Forgetful, executes_at_once=lambda: rng.random() < often)
        walk(cache, random.Random(3), steps=25, look=0.1)
        return cache.slots.engine.waits

    waits = run(-1)
    assert waits > 150
    for left_out in range(0, waits, 3):
        with pytest.raises(CopyOrderError):
            run(left_out)


@pytest.mark.parametrize("what", ["_wait_loaded", "_wait_slot_copied", "_wait_block_written", "wait_unused_loads"])
def test_each_wait_is_needed(what, monkeypatch):
    monkeypatch.setattr(SlotTable, what, lambda *_: None)
    with pytest.raises(CopyOrderError):
        for seed in range(40):
            walk(offload(SHAPE, 30, 3, 4), random.Random(seed), look=0.1)


@pytest.mark.parametrize("what", ["_store_held", "flush"])
def test_each_check_of_held_blocks_is_needed(what, monkeypatch):
    monkeypatch.setattr(SlotTable, what, lambda *_: None)
    with pytest.raises(AssertionError):
        for seed in range(40):
            walk(offload(SHAPE, 30, 3, 4), random.Random(seed), look=0.1)


def test_a_released_block_is_not_confused_with_its_successor():
    cache = offload(SHAPE, 30, 3, 4)
    shared = cache.open([])
    read_on(cache, shared, 6)
    other, short = cache.fork(shared), cache.open([])
    read_on(cache, short, 2)  # stays in slot 0
    block = short.blocks[0]
    cache.close(short)
    read_on(cache, other, 1)
    assert other.blocks[1] is block, "the copy of what was shared"
    check(cache, shared, [1] * 6)
    check(cache, other, [1] * 7)


def test_forks_that_know_less_of_a_block_do_not_hide_the_rest():
    cache = offload(SHAPE, 30, 3, 4)
    longer = cache.open([])
    read_on(cache, longer, 3)
    shorter = cache.fork(longer)
    cache.truncate(shorter, 1)
    read_on(cache, cache.open([]), 1)  # is copied to the slot
    check(cache, shorter, [1])
    check(cache, longer, [1] * 3)
    fresh = cache.open([])
    read_on(cache, fresh, 3)  # is in the slot only
    other = cache.fork(fresh)
    cache.truncate(fresh, 1)
    for lease, length in ((fresh, 1), (longer, 3), (other, 3)):
        check(cache, lease, [1] * length)


def test_the_rules_of_copies():
    def fresh():
        return CheckedCopies(SHAPE, 3, 3, 4)

    one, rows, blocks = torch.ones(1, 1, SHAPE.head_dim), range(4), [Block(i, False) for i in range(2)]
    load, store = (lambda c: c.load_to_slot_layer(0, 1, 0, 4)), (lambda c: c.offload_slot_to_cpu(0, 0, rows, 1))
    cases = [  # started operations, what must wait for them, and what is waited for
        (load, lambda c: c.read(range(2), 1, 4), "wait_slot_layer"),
        (load, lambda c: c.write(0, 1, 0, one, one), "wait_slot_layer"),
        (load, lambda c: c.load_to_slot_layer(0, 1, 2, 4), "wait_slot_layer"),
        (load, lambda c: c.offload_slot_to_cpu(0, 2, rows, 1), "wait_slot_layer"),
        (load, lambda c: c.offload_slot_to_cpu(1, 0, rows, 1), "wait_slot_layer"),
        (load, lambda c: c.copy_block(blocks[1], blocks[0], 4), "wait_slot_layer"),
        (store, lambda c: c.write(0, 1, 0, one, one), "wait_offload_layer"),
        (store, lambda c: c.load_to_slot_layer(0, 1, 2, 4), "wait_offload_layer"),
        (store, lambda c: c.load_to_slot_layer(1, 1, 0, 4), "wait_offload_layer"),
        (store, lambda c: c.offload_slot_to_cpu(1, 0, rows, 1), "wait_offload_layer"),
        (store, lambda c: c.copy_block(*blocks, 4), "wait_offload_layer"),
    ]  # fmt: skip
    for begin, then, wait in cases:
        copies = fresh()
        begin(copies)
        with pytest.raises(CopyOrderError):
            then(copies)
        copies = fresh()
        begin(copies)
        getattr(copies, wait)(0, 1)
        then(copies)
    copies = fresh()  # nothing in another layer must be waited for, and a read is not a write
    copies.load_to_slot_layer(0, 1, 0, 4)
    copies.read(range(2), 0, 4)
    copies.offload_slot_to_cpu(1, 1, rows)
    copies.read(range(1, 2), 1, 4)


# ---- when operations are copied
class Logged(CheckedCopies):
    """Records operations and their layers."""

    def __init__(self, *args):
        super().__init__(*args)
        self.log = []

    def write(self, slot, layer, *rest):
        self.log.append(("write", layer, slot))
        super().write(slot, layer, *rest)

    def read(self, slots, layer, stop):
        self.log += [("read", layer, slot) for slot in slots]
        return super().read(slots, layer, stop)

    def load_to_slot_layer(self, slot, layer, block, stop):
        self.log.append(("load", layer, slot))
        super().load_to_slot_layer(slot, layer, block, stop)

    def wait_slot_layer(self, slot, layer):
        self.log.append(("wait", layer, slot))
        super().wait_slot_layer(slot, layer)

    def offload_slot_to_cpu(self, slot, block, rows, layer=None):
        self.log.append(("store", layer, slot))
        super().offload_slot_to_cpu(slot, block, rows, layer)

    def since(self):
        log, self.log = self.log, []
        return log


def logged(slots: int, size: int = 4) -> OffloadCache:
    return offload(SHAPE, 40, slots, size, kind=Logged)


def read_on(cache, lease, count):
    """The operations for a number of further tokens."""
    assert cache.reserve(lease, count)
    write(cache, [(lease, [1] * count)])
    return cache.slots.engine.since() if isinstance(cache.slots.engine, Logged) else []


def test_a_chunk_of_a_prompt_passes_in_six_steps():
    cache = logged(4)
    lease = cache.open([])
    for _ in range(3):
        read_on(cache, lease, 4)
    log = read_on(cache, lease, 4)
    first = [("load", 0, 0), ("load", 0, 1), ("load", 0, 2)]
    own = [(("write", layer, 3), ("read", layer, 3), ("store", layer, 3)) for layer in range(2)]
    past = [
        [entry for slot in range(3) for entry in (("wait", layer, slot), ("read", layer, slot))] for layer in range(2)
    ]
    ahead = [("load", 1, slot) for slot in range(3)]  # the next layer's, while this one goes on
    assert log == [*first, own[0][0], *past[0], *ahead, *own[0][1:], own[1][0], *past[1], *own[1][1:]]


@pytest.mark.parametrize("slots", [2, 3, 4, 7])
def test_a_long_prompt_keeps_the_ring_full(slots):
    cache = logged(slots)
    lease = cache.open([])
    read_on(cache, lease, 40)
    log = [(what, slot) for what, layer, slot in read_on(cache, lease, 4) if layer == 0]
    loads = [what for what, _ in log if what in ("load", "wait")]
    assert loads[: slots - 1] == ["load"] * (slots - 1) and loads.count("load") == 10
    assert ("write", 10 % slots) in log and ("load", 10 % slots) not in log
    assert log[-1] == ("store", 10 % slots)


def test_a_layer_waits_for_its_own_data():
    cache = logged(3)
    lease = cache.open([])
    read_on(cache, lease, 13)
    for count in (1, 1, 1, 1, 4, 6, 1):
        at = 0
        for what, layer, _ in read_on(cache, lease, count):
            if what in ("write", "read", "wait"):
                assert layer >= at, "in order"
                at = layer


def test_the_block_that_grows_stays_until_it_is_full():
    cache = logged(4)
    lease = cache.open([])
    read_on(cache, lease, 8)
    for count in range(1, 5):
        log = read_on(cache, lease, 1)
        done = Counter(what for what, _, _ in log)
        assert done["load"] == 2 * SHAPE.layers, "the two complete blocks, and nothing of the one that grows"
        assert done["store"] == (SHAPE.layers if count == 4 else 0)
        assert {slot for what, _, slot in log if what == "write"} == {0}
        assert len(cache.manager.get_full_cpu_block_ids(lease)) == 2 + (count == 4)


def test_sequences_side_by_side_share_the_slot():
    cache = logged(4)
    leases = [cache.open([]), cache.open([])]
    for lease in leases:
        read_on(cache, lease, 5)
    for lease in leases:
        assert cache.reserve(lease, 1)
    write(cache, [(lease, [1]) for lease in leases])
    cache.slots.engine.since()
    for lease in leases:
        assert cache.reserve(lease, 1)
    write(cache, [(lease, [1]) for lease in leases])
    done = Counter(what for what, _, _ in cache.slots.engine.since())
    assert done["load"] == 2 * 2 * SHAPE.layers, "a complete block and the last one, of each"
    assert done["store"] == 2 * SHAPE.layers, "the new positions of whoever was there before"


# ---- blocks
def test_blocks_of_the_device_go_first():
    cache = offload(SHAPE, 4, 2, 4, device=2)
    manager, lease = cache.manager, cache.open([])
    assert cache.reserve(lease, 17) and (cache.capacity, cache.available) == (24, 4)
    assert [block.on_device for block in lease.blocks] == [True, True, False, False, False]
    assert manager.get_cpu_block_ids(lease) == [0, 1, 2] and manager.get_full_cpu_block_ids(lease) == []
    assert manager.get_write_slot_for_chunked_offload(lease) == 2, "the first behind the ring"
    write(cache, [(lease, [1] * 13)])
    assert manager.get_full_cpu_block_ids(lease) == [0]
    assert manager.get_write_slot_for_chunked_offload(lease) == 0
    assert not manager.allocate_cpu_only().on_device
    with pytest.raises(MemoryError):
        manager.allocate()
    cache.close(lease)
    assert manager.allocate().on_device and not manager.allocate_cpu_only().on_device


def test_a_sequence_that_fits_the_device_copies_nothing():
    cache = offload(SHAPE, 4, 2, 4, device=3, kind=Logged)
    lease = cache.open([])
    for count in (5, 1, 1, 5):
        assert {what for what, _, _ in read_on(cache, lease, count)} == {"write", "read"}


# ---- outputs
@each_model
@pytest.mark.parametrize("merged", [False, True])
@examples(8)
@given(st.data(), st.randoms(use_true_random=False))
def test_logits_match_a_run_without_offload(merged, model, data, rng):
    """Chunks of any size, batches, forks, truncations and failed steps give the same bits, except if segments are
    merged.
    """
    with merging(merged):
        check_logits(merged, model, data, rng)


@contextmanager
def merging(merged=True):
    """Segments of keys are read one by one and merged, as on a device with its own memory."""
    with mock.patch.object(segments, "GatheredSegments", segments.MergedSegments) if merged else nullcontext():
        yield


def check_logits(merged, model, data, rng):
    cache = data.draw(caches(cache_shape(model), 200))
    plain, other = ModelRunner(model, DenseCache(cache_shape(model), 1 << 14)), ModelRunner(model, cache)
    pairs = [(plain.cache.open([]), other.cache.open([]))]
    for _ in range(12):
        action = rng.choice(["step", "step", "step", "step", "open", "fork", "truncate", "close", "fail"])
        at = rng.randrange(len(pairs))
        if action in ("step", "fail"):
            chosen, chunks = rng.sample(pairs, rng.randrange(1, min(3, len(pairs)) + 1)), ([], [])
            for pair in chosen:
                tokens = [rng.randrange(50) for _ in range(rng.choice([1, 1, rng.randrange(1, 20)]))]
                if pair[0].length + len(tokens) <= 60 and other.cache.reserve(pair[1], len(tokens)):
                    assert plain.cache.reserve(pair[0], len(tokens))
                    for lease, part in zip(pair, chunks, strict=True):
                        part.append(Chunk(lease, tokens, len(tokens)))
            if chunks[0] and action == "step":
                got, want = other.step(chunks[1]), plain.step(chunks[0])
                if merged:
                    torch.testing.assert_close(got, want, **close)
                else:
                    assert torch.equal(got, want)
            elif chunks[0]:
                break_off(other, chunks[1])
        elif action == "open":
            pairs.append((plain.cache.open([]), other.cache.open([])))
        elif action == "fork":
            pairs.append(tuple(runner.cache.fork(one) for runner, one in zip((plain, other), pairs[at], strict=True)))
        elif action == "truncate":
            length = rng.randrange(pairs[at][0].length + 1)
            for runner, lease in zip((plain, other), pairs[at], strict=True):
                runner.cache.truncate(lease, length)
        elif len(pairs) > 1:
            for runner, lease in zip((plain, other), pairs.pop(at), strict=True):
                runner.cache.close(lease)


def break_off(runner: ModelRunner, chunks: list[Chunk]) -> None:
    """A step that fails after its first layer."""
    counts = [len(c.tokens) for c in chunks]
    attend = step_attention(runner.cache.plan([c.lease for c in chunks], counts), counts, has_softcap=False)

    def broken(layer, *qkv):
        if layer:
            raise InterruptedError
        return attend(layer, *qkv)

    tokens = torch.tensor([token for c in chunks for token in c.tokens])
    with pytest.raises(InterruptedError), torch.inference_mode():
        runner.model.forward(tokens, torch.arange(len(tokens)) % 64, broken)


def greedy(reader: Reader, prompt: list[int], count: int, chunk: int) -> tuple[list[int], torch.Tensor]:
    """The tokens, and the logits of which they are the largest."""
    for first in range(0, len(prompt), chunk):
        logits = reader.forward(prompt[first : first + chunk])
    tokens, rows = [], []
    for _ in range(count):
        rows.append(logits)
        tokens.append(int(logits.argmax()))
        logits = reader.forward(tokens[-1:])
    return tokens, torch.cat(rows)


@each_model
@pytest.mark.parametrize("slots", [2, *(pytest.param(slots, marks=pytest.mark.slow) for slots in (3, 5)), 8])
@pytest.mark.parametrize("length", [1, 4, 17])
def test_decoding_continues_from_offloaded_blocks(model, slots, length):
    """Across block boundaries, even if no block was complete when decoding began."""
    prompt = [(7 * i + slots) % 50 for i in range(length)]
    cache = offload(cache_shape(model), 16, slots, 4)
    reader = Reader(model, cache=cache)
    (got, logits), (want, wanted) = greedy(reader, prompt, 40, 6), greedy(Reader(model), prompt, 40, 6)
    assert got == want and torch.equal(logits, wanted)
    filled = cache.manager.get_full_cpu_block_ids(reader.lease)
    assert filled == cache.manager.get_cpu_block_ids(reader.lease)[: (length + 40) // 4] and filled


@each_model
def test_merged_bfloat16_differs_by_rounding_only(model):
    low, tokens = type(model).random(model.config, seed=5, dtype=torch.bfloat16), list(range(45))
    want = Reader(low, 64).forward(tokens, 45)
    reader = Reader(low, cache=offload(cache_shape(low), 20, 3, 4))
    with merging():
        got = torch.cat([reader.forward(tokens[:30], 30), *(reader.forward([token]) for token in tokens[30:])])
    assert (got - want).abs().max() < 0.15 < want.abs().max()


TINY = {
    "layers": 1, "dim": 16, "heads": 2, "kv_heads": 1, "head_dim": 8, "hidden": 16, "vocab_size": 64, "context": 32768,
    "kinds": (LayerKind(rope=Rope(1e6)),),
}  # fmt: skip


def keen(config: LlamaConfig) -> Llama:
    """Random weights that attend to single keys at any distance, because a mean over 32k keys shows nothing."""
    model = Llama.random(config, seed=1)
    turning = (config.heads + config.kv_heads) * config.head_dim
    for layer in model.layers:
        layer.output *= 4
        for part in (layer.qkv[:turning],) if layer.q_norm is None else (layer.q_norm, layer.k_norm):
            part *= 2.5
    model.head = Llama.random(config, seed=2).embedding
    return model


def long_context(config: LlamaConfig, block_size: int, chunk: int, count: int) -> None:
    """32k tokens of context, 4k of them on the device."""
    model, rng = keen(config), random.Random(2)
    prompt = [rng.randrange(config.vocab_size) for _ in range(32768 - count)]
    cache = OffloadCache(cache_shape(model), 32768 // block_size, 4096 // block_size, block_size)
    assert cache.slots.engine.k_device[0, :, :, 0, 0].numel() == 4096
    want, wanted = greedy(Reader(model, 1 << 15), prompt, count, len(prompt))
    with merging():
        got, logits = greedy(Reader(model, cache=cache), prompt, count, chunk)
    assert got == want and len({*got}) > 5
    torch.testing.assert_close(logits, wanted, atol=1e-3, rtol=1e-3)
    window, _ = greedy(Reader(model, 4096), prompt[count - 4096 :], count, chunk)
    assert window != want, "what is far away counts"


def test_32k_tokens_in_4k_slots():
    long_context(LlamaConfig(**TINY), 512, 2048, 24)


@pytest.mark.slow
@pytest.mark.parametrize("block_size", [256, 1024])
def test_32k_tokens_in_4k_slots_of_a_larger_model(block_size):
    sizes = TINY | {"layers": 3, "dim": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "hidden": 128}
    long_context(LlamaConfig(**sizes, qk_norm="head"), block_size, 512, 600)
