"""Terminals whose automata have many states together: a call ends at its limits, and the grammar can still be used."""

from __future__ import annotations

import itertools
import string

import pytest

import guided
from guided.errors import LimitExceeded
from tests.lexer_support import mask_of, vocabulary_of

LETTERS = string.ascii_lowercase[:12]
TOKENS = ["".join(letters) for length in (1, 2, 3, 4) for letters in itertools.product(LETTERS, repeat=length)]
# The lexer remembers where each letter occurred in the last few letters, so nearly every text has its own state.
TERMINALS = [f"T{i}: /[a-l]*{letter}[a-l]{{{3 + i % 4}}}/" for i, letter in enumerate(LETTERS)]
GRAMMAR = "\n".join([f"start: ({' | '.join(f'T{i}' for i in range(len(TERMINALS)))})+", *TERMINALS])


@pytest.mark.parametrize(("limit", "value"), [("call_work", 2_000_000), ("memory", 1)])
def test_a_mask_ends_at_the_limits(limit: str, value: int) -> None:
    """`memory` allows 64 MiB for each call in any case."""
    vocabulary = vocabulary_of([token.encode() for token in TOKENS])
    compiler = guided.GrammarCompiler(vocabulary, limits=guided.Limits(**{"call_work": 10**9, limit: value}))
    compiled = compiler.compile_lark(GRAMMAR)
    with pytest.raises(LimitExceeded) as caught:
        mask_of(guided.GrammarMatcher(compiled))
    assert caught.value.limit == limit
    matcher = guided.GrammarMatcher(compiled)
    assert matcher.accept_string("abcdefgh")
    assert matcher.is_accepting()
