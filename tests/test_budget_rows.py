"""The rows of a choice under a budget: the core against its Python twin, for walks under all kinds of grammars."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from guided.automaton import _core
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


def rows_of(masks: Masks, tokens_left: int) -> Any:
    """The rows under a budget, filled anew; or the error."""
    masks.invalidate()
    try:
        return filled_rows(masks, tokens_left)
    except BudgetError as error:
        return str(error)


def filled_rows(masks: Masks, tokens_left: int) -> Any:
    """The rows under a budget, filled if necessary."""
    masks.fill(tokens_left)
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
    assert (True, True) in kinds, "an ample budget"
    assert (False, True) in kinds, "a budget that removes tokens"
    assert any(isinstance(kind, str) for kind in kinds), "a budget that is too small"
    if ramp and name != "calls":  # after any of its tokens, its shortest completion is as long as before
        assert {(True, False), (False, False)} & kinds, "a budget with a ramp"


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


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_rows_that_a_step_has_filled_are_used_only_under_its_budget(name: str) -> None:
    grammar, rng = EVERY_SPEC[name](GrammarCompiler(vocabulary())), random.Random(name)
    matcher = GrammarMatcher(grammar)
    stepped = Masks(matcher, vocabulary(), 1, [], ramp=2.0)
    twin = Masks(Wrapper(matcher), vocabulary(), 1, [], ramp=2.0)

    def run_step(token: int | None, tokens_left: int) -> None:
        step = stepped.next_step(token, tokens_left)
        assert step is not None
        (result,) = _core.advance_matchers([step.matcher], [step.arguments])
        stepped.record_step(step, result)

    for _ in range(8):
        shortest = matcher.min_tokens_to_finish()
        for filled, needed in ((60, 60), (60, shortest), (shortest, 60), (shortest, shortest)):
            stepped.invalidate()
            run_step(None, filled)
            assert stepped.is_ready(filled) and stepped.is_ready(needed) == (filled == needed)
            assert filled_rows(stepped, needed) == rows_of(twin, needed)
        assert stepped.next_step(None, shortest) is None, "the rows are filled"
        allowed = twin.row().allowed
        tokens = [token for token in matcher._walk_mask() if allowed[token // 32] >> token % 32 & 1]
        token = rng.choice(tokens)
        effects = twin.effects(token)
        if name.startswith("captured"):  # these matchers record what they accept
            assert stepped.next_step(token, 60) is None
        else:
            run_step(token, 60)
        assert stepped.effects(token) == effects and stepped.accept(token)
        if matcher.is_terminated():
            break
        assert stepped.forced_tokens() == matcher.forced_tokens()
        assert filled_rows(stepped, 60) == rows_of(twin, 60)
