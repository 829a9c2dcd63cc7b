"""The calculator's and Shakespeare's grammars, written with the 65 characters of Tiny Shakespeare."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import guided
from guided.tools.calculator import calculate

pytest.importorskip("lark", reason="lark is not installed")

CHARACTERS = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
WORD = "(?:[A-Z]?[a-z]{1,13}|[IOA])(?:['-][a-z]+){0,2}"
SHAKESPEARE = re.compile(rf"(?:[A-Z]+(?: [A-Z]+)?: [A-Z]\S*(?:(?:[,;:]|--)? {WORD}){{0,5}}[.!?]\n)+")


@pytest.fixture(scope="module")
def compiler() -> guided.GrammarCompiler:
    assert len(CHARACTERS) == len(set(CHARACTERS)) == 65
    tokens = [*(each.encode() for each in CHARACTERS), None]
    return guided.GrammarCompiler(guided.Vocabulary(tokens, eos_token_ids=[65]))


def written(grammar: guided.CompiledGrammar, rng: random.Random, budget: int) -> str:
    """A random walk through the masks, complete within the budget."""
    matcher, out = guided.GrammarMatcher(grammar), b""
    row = guided.allocate_token_bitmask(1, grammar.vocabulary.size)
    while not matcher.is_terminated():
        matcher.fill_next_token_bitmask(row, 0, max_tokens=budget)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: grammar.vocabulary.size]
        token = int(rng.choice(np.flatnonzero(bits).tolist()))
        assert matcher.accept_token(token)
        out += grammar.vocabulary.tokens[token] or b""
        budget -= 1
    assert budget >= 0
    return out.decode()


@pytest.mark.parametrize("name", ["calculator", "shakespeare"])
def test_texts_of_65_characters_are_accepted(compiler: guided.GrammarCompiler, name: str) -> None:
    grammar, rng = compiler.compile(guided.grammar(name)), random.Random(name)
    least = guided.GrammarMatcher(grammar).min_tokens_to_finish()
    texts = {written(grammar, rng, least + rng.randrange(40)) for _ in range(150)}
    assert len(texts) > 40
    for text in texts:
        assert calculate(text) is not None if name == "calculator" else SHAKESPEARE.fullmatch(text), text
