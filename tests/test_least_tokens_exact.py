"""The number of tokens that complete an output is called the smallest only if it is."""

from __future__ import annotations

import itertools
import random

import pytest

import guided
from guided.cli import main
from guided.errors import BudgetError
from guided.matching.least_tokens import MinTokens, count_min_tokens

TOKENS = [b"a", b"b", b"ab"]
VOCABULARY = guided.Vocabulary(TOKENS, eos_token_ids=[3])
PAIRS = 'root ::= ("a"|"b") ("a"|"b") | root'


def test_a_shorter_completion_than_the_known_one() -> None:
    matcher = guided.GrammarMatcher(guided.GrammarCompiler(VOCABULARY).compile_gbnf(PAIRS))
    assert matcher.min_tokens_to_finish() == 3 and matcher.validate_tokens([2, 3]) == 2  # `ab` and the end
    assert count_min_tokens(matcher) == MinTokens(3, False)
    assert str(count_min_tokens(matcher)) == "at most 3 tokens"
    with pytest.raises(BudgetError, match="shortest known completion has 3 tokens, but the budget is 2"):
        matcher.fill_next_token_bitmask(guided.allocate_token_bitmask(1, 4), max_tokens=2)


def test_a_number_is_exact_only_if_no_fewer_tokens_do() -> None:
    """The oracle tries all sequences of tokens."""
    rng, exact, others = random.Random(3), 0, 0
    parts = ['"a"', '"b"', '"ab"', '("a"|"b")', '("a"|"ab")', '"b" "a"', "root?"]
    for _ in range(150):
        text = "root ::= " + " | ".join(" ".join(rng.choices(parts, k=rng.randint(1, 4))) for _ in range(2))
        try:
            matcher = guided.GrammarMatcher(guided.GrammarCompiler(VOCABULARY).compile_gbnf(text))
        except guided.GuidedError:
            continue
        found = count_min_tokens(matcher)
        least = next(
            length + 1
            for length in range(found.count)
            for tokens in itertools.product(range(3), repeat=length)
            if matcher.validate_tokens([*tokens, 3]) == length + 1
        )
        assert found.is_exact == (least == found.count), text
        assert matcher.steps == 0
        exact += found.is_exact
        others += not found.is_exact
    assert exact > 50 and others > 3


def test_a_search_that_is_cut_off_proves_nothing() -> None:
    matcher = guided.GrammarMatcher(guided.GrammarCompiler(VOCABULARY).compile_regex("[ab]{8}"))
    assert count_min_tokens(matcher).is_exact
    assert count_min_tokens(matcher, max_steps=3) == MinTokens(matcher.min_tokens_to_finish(), False)


def test_one_token_is_exact() -> None:
    assert str(BudgetError(1, 0)) == "the shortest completion has 1 token, but the budget is 0"
    assert str(BudgetError(4, 2, is_exact=True)) == "the shortest completion has 4 tokens, but the budget is 2"


def test_the_command_prints_the_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--regex", "[0-9]{4}", "--prefix", "20"]) == 0
    assert "shortest way to finish: '00', 3 tokens with the end token" in capsys.readouterr().out
