"""The slots of the ring: every block passes once, in order, and never into a slot that is still needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.kv.offload.ring import Attend, Load, RingBuffer
from tests.effort import examples

SLOTS, ITEMS = st.integers(2, 9), st.integers(0, 40)


def under_way(turns, items) -> int:
    """Simulate the turns. Returns the largest number of loads that are unfinished or unread."""
    slots, read, most = {}, [], 0
    for turn in turns:
        if isinstance(turn, Load):
            assert turn.slot not in slots, "it holds what was not attended to"
            slots[turn.slot] = turn.item
        else:
            assert list(turn.items) == [slots.pop(slot) for slot in turn.slots]
            read += turn.items
        most = max(most, len(slots))
    assert read == list(range(items)) and not slots
    return most


@given(SLOTS, ITEMS, st.integers(0, 100))
def test_a_prompt_turns_around_the_ring(slots, items, chunk):
    ring = RingBuffer(slots)
    write = ring.get_write_slot_for_prefill(chunk)
    loads = ring.get_load_slots_for_prefill(write)
    assert write == chunk % slots and sorted([write, *loads]) == list(range(slots))
    turns = ring.prefill(items, write)
    assert ring.prefill_depth == slots - 1
    assert under_way(turns, items) == min(items, slots - 1), "as many loads under way as there are slots"
    assert all(turn.slot in loads for turn in turns if isinstance(turn, Load))


@given(SLOTS, ITEMS)
def test_decoding_loads_one_half_while_the_other_is_read(slots, items):
    ring = RingBuffer(slots)
    half = ring.decode_depth
    assert half == max(1, (slots - 1) // 2)
    assert [ring.decode_slot, *ring.get_load_slots_for_decode()] == list(range(slots))
    turns = ring.decode(items)
    assert under_way(turns, items) == min(items, 2 * half if slots > 2 else 1)
    attends = [turn for turn in turns if isinstance(turn, Attend)]
    assert len(attends) == -(-items // half), "a half is attended to at once"
    halves = [range(1, 1 + half), range(1 + half, 1 + 2 * half) if slots > 2 else range(1, 2)]
    for number, attend in enumerate(attends):
        assert attend.slots == halves[number % 2][: len(attend.items)]


def test_two_slots_take_turns_one_block_at_a_time():
    one = range(1, 2)
    assert RingBuffer(2).decode(2) == [Load(1, 0), Attend(one, range(1)), Load(1, 1), Attend(one, range(1, 2))]


def test_four_slots_at_the_third_chunk():
    turns = RingBuffer(4).prefill(3, 3)
    assert turns == [*(Load(i, i) for i in range(3)), *(Attend(range(i, i + 1), range(i, i + 1)) for i in range(3))]


@examples(5)
@given(st.integers(-3, 1))
def test_one_slot_is_too_few(slots):
    with pytest.raises(ValueError, match=f"a ring of {slots} slots"):
        RingBuffer(slots)
