"""What values that must differ cost: long numbers, and large objects that repeat a seen one."""

from __future__ import annotations

import json

import pytest

import guided

UNIQUE = {"type": "array", "uniqueItems": True}
VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])


def matcher(**limits: int) -> guided.GrammarMatcher:
    compiler = guided.GrammarCompiler(VOCABULARY, limits=guided.Limits(**limits))
    return guided.GrammarMatcher(compiler.compile_json_schema(UNIQUE))


def test_a_long_number_takes_little_memory_and_all_of_it_is_counted() -> None:
    """A number may end after each digit. The 4,000 sets with these ends would take 200 MB as tries."""
    long_number = matcher()
    assert long_number.accept_string("[" + "1" * 4000)
    assert 4_000_000 < long_number.grammar.native.memory_bytes < 40_000_000


def test_sets_that_are_built_late_have_all_values() -> None:
    numbers = ["1", "12", "123", "1234"]
    for repeated in numbers:
        for text in (f"[{','.join(numbers)},{repeated}]", f"[{','.join(reversed(numbers))},{repeated}]"):
            assert not matcher().accept_string(text), text
            assert matcher().accept_string(text.removesuffix(f"{repeated}]") + f"{repeated}5]"), text


@pytest.mark.parametrize("nested", [False, True])
def test_a_large_object_that_repeats_a_seen_one(nested: bool) -> None:
    """The members are compared as they are read: each takes one step, not one for each other member."""
    members = {f"name {number}": {"n": number} if nested else number for number in range(400)}
    text, reverse = (json.dumps(dict(items)) for items in (members.items(), reversed(members.items())))
    for second in (text, reverse):
        repeats = matcher(call_work=2_000_000)
        assert repeats.accept_string(f"[{text},{second[:-1]}")
        assert not repeats.accept_string("}")
        assert repeats.accept_string(', "more": 1}]')
    changed = text.replace('"n": 399', '"n": 398') if nested else text[:-4] + "398}"
    assert matcher(call_work=2_000_000).accept_string(f"[{text},{changed}]")


@pytest.mark.parametrize("depth", [250, 2000])
def test_masks_under_a_budget_are_linear_in_the_depth_of_nested_objects(depth: int) -> None:
    """Each object has seen a name. The outer objects are visited once for a mask, not once for each level."""
    compiler = guided.GrammarCompiler(VOCABULARY, limits=guided.Limits(call_work=900 * depth))
    nested = guided.GrammarMatcher(compiler.compile_json_schema(True))
    bitmask = guided.allocate_token_bitmask(1, VOCABULARY.size)
    assert nested.accept_string('{"a":' * depth)
    budget = nested.min_tokens_to_finish() + 100
    nested.fill_next_token_bitmask(bitmask, max_tokens=budget)
    assert nested.accept_string('"x","b":')
    nested.fill_next_token_bitmask(bitmask, max_tokens=budget)
    assert ord("{") in guided.allowed_tokens(bitmask)
