"""The rows of a choice under a budget: the core against its Python twin, for walks under all kinds of grammars."""

from __future__ import annotations

import random

import numpy as np
import pytest

from guided.engine.masks import Masks
from guided.errors import BudgetError
from guided.matching import GrammarCompiler, GrammarMatcher
from tests.core_support import EVERY_SPEC, vocabulary


class Wrapper:
    """A matcher of another class, which the engine must call from Python."""

    def __init__(self, inner: GrammarMatcher) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def rows_of(masks: Masks, tokens_left: int) -> object:
    masks.invalidate()
    try:
        masks.fill(tokens_left)
    except BudgetError as error:
        return str(error)
    row = masks.row()
    assert row.allowed is not None
    unbudgeted = None if row.unbudgeted is None else row.unbudgeted.tolist()
    ramp = None if row.ramp is None else (row.ramp.penalty, row.ramp.bits.tolist())
    return row.allowed.tolist(), unbudgeted, ramp, masks.is_budget_bound(), masks.allows_only_ends()


@pytest.mark.parametrize("ramp", [0.0, 3.0], ids=["without ramp", "with ramp"])
@pytest.mark.parametrize("name", EVERY_SPEC)
def test_the_core_fills_the_rows_of_the_twin(name: str, ramp: float) -> None:
    grammar, rng = EVERY_SPEC[name](GrammarCompiler(vocabulary())), random.Random(name)
    kinds = set()
    for _ in range(6):
        matcher = GrammarMatcher(grammar)
        core = Masks(matcher, vocabulary(), 1, [], ramp=ramp)
        twin = Masks(Wrapper(matcher), vocabulary(), 1, [], ramp=ramp)
        for _ in range(8):
            shortest = matcher.min_tokens_to_finish()
            for budget in {shortest - 1, shortest, shortest + 1, 2 * shortest - 1, 2 * shortest, 60}:
                if budget <= 0:
                    continue
                found = rows_of(core, budget)
                assert found == rows_of(twin, budget)
                kinds.add(found if isinstance(found, str) else (found[1] is None, found[2] is None))
            allowed = matcher._walk_mask()
            if matcher.is_terminated() or not allowed:
                break
            assert matcher.accept_token(rng.choice(allowed))
    assert len(kinds) > 1, "budgets that bind, and budgets that do not"


def test_rows_of_text_that_may_be_anything() -> None:
    """The core writes all tokens of the vocabulary, and no bit beyond."""
    matcher = GrammarMatcher(GrammarCompiler(vocabulary()).compile_regex("(?s:.*)"))
    masks = Masks(matcher, vocabulary(), 1, [])
    masks.fill(10)
    allowed = masks.row().allowed
    assert allowed is not None
    bits = np.unpackbits(allowed.view(np.uint8), bitorder="little").nonzero()[0]
    assert bits.max() < vocabulary().size
    assert bits.tolist() == sorted(matcher._walk_mask())
