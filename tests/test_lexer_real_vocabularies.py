"""Grammars with a lexer on the vocabularies of five real models, at random states.

Whole masks are compared with each id tried separately, and samples of them with the twin. Outputs must end within
budgets. By default, each grammar is tested with one vocabulary; the slow run tests all pairs. Skipped if the files are
missing (see vocabulary_support.asset).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

import guided
from guided.automaton.reference.lexer import LexedLanguage
from guided.errors import BudgetError
from guided.matching import GrammarMatcher
from tests.lark_support import lark_to_lexed

pytest.importorskip("lark", reason="lark is not installed")

from tests.lark_public import PUBLIC
from tests.test_real_vocabularies import (
    RULES,
    VOCABULARIES,
    compiler_for,
    finish,
    ids_of,
    random_state,
    simulated,
    tastes,
)

LEXERS: dict[str, tuple[str, Mapping[str, Any]]] = {
    **{name: (each.text, each.options) for name, each in guided.library().items() if each.semantics == "lexer"},
    **{f"public {name}": (PUBLIC[name][0], {}) for name in ("select", "lua", "keywords", "css", "hcl", "operators")},
    **{f"basic {name}": (PUBLIC[name][0], {"lexer": "basic"}) for name in ("select", "s-expressions", "prolog")},
}
PAIRS = [(name, vocabulary) for name in LEXERS for vocabulary in VOCABULARIES]
FEW = [(name, [*VOCABULARIES][at % len(VOCABULARIES)]) for at, name in enumerate(LEXERS)]
both_runs = pytest.mark.parametrize(
    ("name", "vocabulary"), [*FEW, *(pytest.param(*each, marks=pytest.mark.slow) for each in PAIRS if each not in FEW)]
)


def compiled(name: str, vocabulary: str) -> guided.CompiledGrammar:
    text, options = LEXERS[name]
    return compiler_for(vocabulary).compile_lark(text, **options)


@both_runs
def test_masks(name: str, vocabulary: str) -> None:
    """Whole masks equal the results of single tokens. For a sample, a token is allowed exactly if the twin reads it and
    the current lexeme is then possible at its position. Whether an output follows a lexeme would take the twin too long
    to search among all bytes, but for these grammars one always does.
    """
    grammar, rng = compiled(name, vocabulary), random.Random(f"{name} {vocabulary}")
    text, options = LEXERS[name]
    rules, lexer = lark_to_lexed(text, **{key: value for key, value in options.items() if key != "semantics"})
    twin, compared = LexedLanguage(rules, lexer), 0
    texts = grammar.vocabulary
    for steps in (0, 3, 10):
        matcher = GrammarMatcher(grammar)
        taken = random_state(matcher, rng, steps)
        allowed = ids_of(matcher).tolist()
        assert allowed == simulated(matcher)
        state = twin.initial_readings
        for byte in b"".join(texts.token_bytes(id) or b"" for id in taken):
            state = twin.read(state, byte)
        assert twin.is_accepting(state) == matcher.is_accepting()
        sample = {*rng.sample(allowed, min(len(allowed), 30)), *rng.sample(range(texts.size), 60)}
        for id in sample - texts.eos_token_ids - set(texts.special_tokens):
            data, after = texts.token_bytes(id), state
            for byte in data or b"":
                after = twin.read(after, byte)
            assert (id in allowed) == (data is not None and twin.can_continue(after)), data
            compared += 1
    assert compared > 150


@both_runs
def test_budgets(name: str, vocabulary: str) -> None:
    grammar, rng = compiled(name, vocabulary), random.Random(f"{name} {vocabulary}")
    for rule in RULES:
        start = GrammarMatcher(grammar)
        random_state(start, rng, rng.choice([0, 8]))
        least = start.min_tokens_to_finish()
        with pytest.raises(BudgetError) as caught:
            ids_of(start, least - 1)
        assert (caught.value.needed, caught.value.given) == (least, least - 1)
        for extra in (0, 20):
            finish(start.fork(), least + extra, rule, rng, *tastes(vocabulary), name)
