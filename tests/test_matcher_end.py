"""After an end token, only end tokens are allowed, and another one changes nothing."""

import numpy as np
import pytest
import torch

from guided import (
    GrammarCompiler,
    GrammarMatcher,
    Vocabulary,
    allocate_token_bitmask,
    allowed_tokens,
    apply_token_bitmask_inplace,
    fill_batch,
)

ENDS = {256, 300}
LAST = 301


@pytest.fixture(params=["regex", "any order"])
def matcher(request: pytest.FixtureRequest) -> GrammarMatcher:
    """A matcher at an output that is complete but could continue."""
    words = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=ENDS, size=LAST + 1)
    compiler = GrammarCompiler(words)
    if request.param == "regex":
        matcher = GrammarMatcher(compiler.compile_regex("a+"))
        assert matcher.accept_string("a")
    else:
        schema = {"required": ["a"], "properties": {"a": {"type": "integer"}, "b": {"const": 1}}}
        matcher = GrammarMatcher(compiler.compile_json_schema({"type": "object", **schema}, property_order="any"))
        assert matcher.accept_string('{"b":1,"a":12}')
    assert matcher.is_accepting() and not matcher.is_terminated()
    return matcher


def mask(matcher: GrammarMatcher, budget: int | None = None) -> set[int]:
    bitmask = allocate_token_bitmask(1, LAST + 1)
    bitmask[:] = -1
    assert matcher.fill_next_token_bitmask(bitmask, max_tokens=budget)
    return set(allowed_tokens(bitmask))


@pytest.mark.parametrize("end", sorted(ENDS))
def test_only_ends_follow_an_end(matcher: GrammarMatcher, end: int) -> None:
    assert matcher.accept_token(end)
    for _ in range(3):
        assert matcher.is_terminated() and matcher.is_accepting() and matcher.min_tokens_to_finish() == 0
        assert mask(matcher) == set(matcher._walk_mask()) == ENDS
        assert mask(matcher, 0) == mask(matcher, 1) == mask(matcher, 100) == ENDS
        assert [token for token in range(LAST + 1) if matcher.fork().accept_token(token)] == sorted(ENDS)
        assert matcher.validate_tokens([*ENDS, *ENDS, ord("a")]) == 4
        assert not matcher.accept_string("a") and matcher.accept_string("") and matcher.forced_tokens() == []
        assert matcher.accept_token(256)


def test_every_accepted_end_is_a_step_back(matcher: GrammarMatcher) -> None:
    before, steps = mask(matcher), matcher.steps
    assert all(matcher.accept_token(token) for token in (256, 300, 256))
    assert matcher.steps == steps + 3
    matcher.rollback(2)
    assert matcher.is_terminated() and mask(matcher) == ENDS
    matcher.rollback(1)
    assert not matcher.is_terminated() and mask(matcher) == before


def test_a_softmax_of_an_ended_row_is_a_distribution(matcher: GrammarMatcher) -> None:
    assert matcher.accept_token(256)
    bitmask = allocate_token_bitmask(2, LAST + 1)
    fill_batch([matcher, matcher.fork()], bitmask)
    logits = torch.zeros(2, LAST + 1)
    apply_token_bitmask_inplace(logits, bitmask)
    expected = np.zeros((2, LAST + 1))
    expected[:, sorted(ENDS)] = 0.5
    assert np.array_equal(logits.softmax(-1).numpy(), expected)
