"""Indentation during generation: the core compared with its twin, with each token tried by itself, and with Lark."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

import guided
from guided.automaton.reference.lexer import LexedLanguage
from guided.errors import BudgetError, LimitExceeded, SpecError
from guided.ir.nodes import Grammar
from tests.effort import every
from tests.lark_support import lark_to_lexed

lark = pytest.importorskip("lark", reason="lark is not installed")


from tests.lexer_support import Blocks, allowed_by, mask_of, random_blocks, vocabulary_of  # noqa: E402

TOKENS = (b"a", b"b", b"(", b")", b" ", b"\t", b"\n", b"#", b"\n ", b"\n  ", b"\n\n", b"  ", b"a\n", b"b\n ", b"\n a",
          b" a", b"a)\n", b"(\n", b"\n\t", b"\n a\nb", b"a\n\n", b"b(", b")\n b\n")  # fmt: skip
ALPHABET = frozenset(b"".join(TOKENS))


@dataclass
class Pair:
    """A grammar of indented blocks, compiled by the core and by its twin. Blocks are at most three levels deep."""

    text: str
    postlex: Any
    tokens: tuple[bytes, ...]
    grammar: guided.CompiledGrammar
    language: LexedLanguage


def lexed(text: str, postlex: Any, levels: int = 3, width: int = 4, **options: Any) -> tuple[Grammar, Any]:
    """The rules and the lexer, with limits so small that searches of the twin end."""
    rules, lexer = lark_to_lexed(text, postlex=postlex, **options)
    return rules, replace(lexer, indentation=replace(lexer.indentation, most_levels=levels, most_width=width))


def pair_of(text: str, postlex: Any, tokens: tuple[bytes, ...] = TOKENS, **options: Any) -> Pair:
    rules, lexer = lexed(text, postlex, **options)
    language = LexedLanguage(rules, lexer, frozenset(b"".join(tokens)))
    grammar = guided.GrammarCompiler(vocabulary_of(tokens)).compile_grammar(replace(rules, lexer=lexer))
    return Pair(text, postlex, tokens, grammar, language)


def drawn_pairs(seed: int, count: int, **options: Any) -> list[Pair]:
    """Grammars that generate something. Those that neither can decide within its limits are skipped, which is rare."""
    rng, out, undecided = random.Random(seed), list[Pair](), 0
    while len(out) < count:
        text = random_blocks(rng)
        try:
            out.append(pair_of(text, Blocks(), **options))
        except LimitExceeded:
            undecided += 1
        except SpecError:
            try:
                rules, lexer = lexed(text, Blocks(), **options)
                assert LexedLanguage(rules, lexer, ALPHABET).start is None, text
            except (SpecError, LimitExceeded):
                continue  # not a valid grammar
    assert undecided <= count // 5
    return out


@pytest.mark.parametrize("how", ["contextual", "basic"])
@pytest.mark.parametrize("seed", every(3, range(3)))
def test_masks_match_the_twin(seed: int, how: str) -> None:
    rng, masks = random.Random(seed), 0
    for pair in drawn_pairs(seed, 12, lexer=how):
        for _ in range(3):
            matcher, state = guided.GrammarMatcher(pair.grammar), pair.language.start
            for _ in range(8):
                assert state is not None
                try:
                    allowed = allowed_by(pair.language, state, pair.tokens)
                    found = mask_of(matcher)
                except LimitExceeded:
                    break
                assert found == allowed == set(matcher._walk_mask()), pair.text
                masks += 1
                tokens = sorted(allowed - {len(TOKENS)})
                if not tokens:
                    break
                token = rng.choice(tokens)
                assert matcher.accept_token(token)
                for byte in TOKENS[token]:
                    state = pair.language.read(state, byte)
                assert matcher.is_accepting() == pair.language.is_accepting(state)
    assert masks > 100


@pytest.mark.parametrize("seed", every(2, range(4)))
def test_budgets_hold(seed: int) -> None:
    rng, finished = random.Random(seed), 0
    for pair in drawn_pairs(100 + seed, 8):
        try:
            least = guided.GrammarMatcher(pair.grammar).min_tokens_to_finish()
            for slack in (0, 0, 1, 3, 8):
                matcher, budget, written = guided.GrammarMatcher(pair.grammar), least + slack, b""
                while not matcher.is_terminated():
                    plain, some = mask_of(matcher), mask_of(matcher, budget)
                    most = matcher._rests()[0]  # after any allowed token
                    for token in plain - {len(TOKENS)}:
                        after = matcher.fork()
                        assert after.accept_token(token) and after.min_tokens_to_finish() - 1 <= most
                    assert mask_of(matcher, most + 2) == plain
                    assert some and some <= plain
                    assert mask_of(matcher, 10_000) == plain
                    needed = matcher.min_tokens_to_finish()
                    with pytest.raises(BudgetError):
                        mask_of(matcher, needed - 1)
                    for token in some:
                        after = matcher.fork()
                        assert after.accept_token(token)
                        assert after.is_terminated() or after.min_tokens_to_finish() <= budget - 1
                    token = rng.choice(sorted(some))
                    assert matcher.accept_token(token)
                    written += TOKENS[token] if token < len(TOKENS) else b""
                    budget -= 1
                    assert budget >= 0
                assert pair.language.accepts(written), pair.text
                finished += 1
        except LimitExceeded:
            continue
    assert finished >= 30
