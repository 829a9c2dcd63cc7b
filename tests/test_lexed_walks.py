"""Walks with grammars that have a lexer: judged by Lark, rolled back, forced, and long ones whose states are
renewed.
"""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

import guided
from guided.errors import LimitExceeded, SpecError
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher

pytest.importorskip("lark", reason="lark is not installed")

from tests.core_support import BLOCKS, LEXED_SPECS, vocabulary
from tests.effort import every
from tests.lark_judge import lalr, parses
from tests.lexer_support import Blocks, mask_of, random_blocks, random_grammar, vocabulary_for, vocabulary_of
from tests.test_composed import COMPILER, LEXED, PLAIN
from tests.test_indentation_masks import TOKENS
from tests.test_lark_indentation import EXAMPLES
from tests.test_real_vocabularies import VOCABULARIES, compiler_for

BYTES = [bytes([byte]) for byte in range(256)]
MANY_BLOCKS = BLOCKS + 'LPAR: "("\nRPAR: ")"\n'


# ---- judged by Lark


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("words", ["pieces", *VOCABULARIES])
def test_indented_texts_that_are_written_are_parsed_by_lark(name: str, words: str) -> None:
    text, indenter, good, _ = EXAMPLES[name]
    compiler = GrammarCompiler(vocabulary_for(good)) if words == "pieces" else compiler_for(words)
    grammar = compiler.compile_lark(text, postlex=indenter())
    parser, rng, deep = lalr(text, postlex=indenter()), random.Random(f"{name} {words}"), 0
    for _ in range(12 if words == "pieces" else 5):
        matcher, written = GrammarMatcher(grammar), b""
        budget = matcher.min_tokens_to_finish() + rng.choice((0, 5, 30))
        while not matcher.is_terminated():
            allowed = sorted(mask_of(matcher, budget))
            lines = [each for each in allowed if b"\n" in (grammar.vocabulary.token_bytes(each) or b"")]
            token = rng.choice(lines if lines and rng.random() < 0.3 else allowed)
            assert matcher.accept_token(token)
            written += b"" if matcher.is_terminated() else grammar.vocabulary.token_bytes(token) or b""
            budget -= 1
        assert budget >= 0
        try:
            output = written.decode()
        except UnicodeDecodeError:
            raise AssertionError(written) from None
        assert parses(parser, output), output
        deep += "\n " in output or "\n\t" in output
    assert deep


# ---- rollbacks and forced text


@pytest.mark.parametrize("name", LEXED_SPECS)
@pytest.mark.parametrize("seed", every(2, range(3)))
def test_undone_steps_leave_nothing(name: str, seed: int) -> None:
    """After rollbacks and in forks: masks, budgets and captures equal those of a matcher that accepted only the kept
    tokens.
    """
    rng, grammar = random.Random(seed), LEXED_SPECS[name](GrammarCompiler(vocabulary()))
    matcher, kept = GrammarMatcher(grammar), list[int]()
    for _ in range(25):
        if kept and rng.random() < 0.3:
            count = rng.randint(1, len(kept))
            matcher.rollback(count)
            del kept[len(kept) - count :]
        elif rng.random() < 0.2:
            matcher = matcher.fork()
        ids = sorted(mask_of(matcher) - grammar.vocabulary.eos_token_ids)
        if ids:
            kept.append(rng.choice(ids))
            assert matcher.accept_token(kept[-1])
        fresh = GrammarMatcher(LEXED_SPECS[name](GrammarCompiler(vocabulary())))
        assert fresh.validate_tokens(kept) == len(kept) and all(map(fresh.accept_token, kept))
        least = fresh.min_tokens_to_finish()
        assert (mask_of(matcher), matcher.min_tokens_to_finish()) == (mask_of(fresh), least)
        assert mask_of(matcher, least + 1) == mask_of(fresh, least + 1)
        assert matcher.captures(partial=True) == fresh.captures(partial=True)
        assert (matcher.is_accepting(), matcher.temperature()) == (fresh.is_accepting(), fresh.temperature())


def drawn(kind: str, rng: random.Random, compiler: GrammarCompiler) -> CompiledGrammar | None:
    """A random grammar of the kind; None if it is invalid, or generates nothing."""
    try:
        if kind == "lexed":
            return compiler.compile_lark(random_grammar(rng), lexer=rng.choice(("contextual", "basic")))
        if kind == "blocks":
            return compiler.compile_lark(random_blocks(rng), postlex=Blocks())
        parts = [guided.lark(rng.choice(LEXED)), guided.regex(rng.choice(PLAIN)), guided.lark(rng.choice(LEXED))]
        return compiler.compile(guided.sequence(*rng.sample(parts, rng.randint(1, 3)), "abc"))
    except (SpecError, LimitExceeded):
        return None


@pytest.mark.parametrize("kind", ["lexed", "blocks", "composed"])
def test_forced_tokens_match_single_masks(kind: str) -> None:
    """With a token for each byte: text is forced as long as exactly one token, and not the end, is allowed."""
    rng, found = random.Random(kind), 0
    compiler = GrammarCompiler(vocabulary_of(BYTES))
    for grammar in filter(None, (drawn(kind, rng, compiler) for _ in range(50))):
        matcher = GrammarMatcher(grammar)
        with suppress(LimitExceeded):  # it is unknown whether an output can end
            for _ in range(6):
                after, expected = matcher.fork(), list[int]()
                while len(expected) < 12 and len(only := mask_of(after)) == 1 and only != {256}:
                    expected += only
                    assert after.accept_token(*only)
                assert matcher._forced(12) == expected
                found += len(expected)
                ids = sorted(mask_of(matcher) - {256})
                if not ids or not matcher.accept_token(rng.choice(ids)):
                    break
    assert found > 15


# ---- budgets and states that are renewed


@pytest.mark.parametrize("kind", ["lexed", "blocks", "composed"])
@pytest.mark.parametrize("seed", range(2))
def test_budgets_hold_where_states_are_renewed(kind: str, seed: int) -> None:
    rng, rebuilds, ended = random.Random(f"{kind} {seed}"), 0, 0
    words = vocabulary_of(TOKENS) if kind == "blocks" else COMPILER.vocabulary
    while ended < 600:
        compiler = GrammarCompiler(words, limits=guided.Limits(memory=rng.choice((1, 1, 5_000))))
        if not (grammar := drawn(kind, rng, compiler)):
            continue
        try:
            for _ in range(12):
                matcher = GrammarMatcher(grammar)
                budget = matcher.min_tokens_to_finish() + rng.choice((0, 0, 1, 4))
                while not matcher.is_terminated():
                    assert matcher.accept_token(rng.choice(sorted(mask_of(matcher, budget))))
                    budget -= 1
                assert budget >= 0
                ended += 1
        except LimitExceeded:  # it is unknown whether an output can end
            continue
        rebuilds += grammar.native.rebuilds
    assert rebuilds > 5


def long_text(rng: random.Random, lines: int) -> str:
    """Lines in blocks that are mostly shallow and sometimes ninety deep."""
    widths, out = [0], list[str]()
    while len(out) < lines or len(widths) > 1:
        ending = len(out) >= lines
        if not ending and len(widths) < 95 and rng.random() < (0.95 if len(out) // 200 % 4 == 1 else 0.3):
            out.append(" " * widths[-1] + "abc:")
            widths.append(widths[-1] + rng.randint(1, 4))
        out.append(" " * widths[-1] + rng.choice(("a", "ab, abc", "(a\n b)", "x1,a")))
        if ending or rng.random() < 0.3:
            del widths[rng.randint(1, len(widths)) :]
    return "\n".join(out) + "\n"


def test_places_of_long_texts_are_carried_over() -> None:
    """Thousands of lines: with little memory, states are renewed again and again, and nothing else changes."""
    text = long_text(random.Random(1), 6_000)
    words = [*BYTES, b"\n ", b"\n  ", b"\n    ", b"  ", b"    ", b":\n ", b"abc", b"a\n", b"ab, "]
    limits = guided.Limits(memory=100_000)
    plenty = GrammarCompiler(vocabulary_of(words)).compile_lark(MANY_BLOCKS, postlex=Blocks())
    little = GrammarCompiler(vocabulary_of(words), limits=limits).compile_lark(MANY_BLOCKS, postlex=Blocks())
    one, other = GrammarMatcher(plenty), GrammarMatcher(little)
    most, forks = 0, list[tuple[GrammarMatcher, GrammarMatcher]]()
    for number, line in enumerate(text.splitlines(keepends=True)):
        assert one.accept_string(line) and other.accept_string(line), line
        assert one.is_accepting() == other.is_accepting()
        if number % 40 == 0:
            assert mask_of(one) == mask_of(other)
            assert one.min_tokens_to_finish() == other.min_tokens_to_finish()
            forks.append((one.fork(), other.fork()))
        most = max(most, other.memory_bytes)
    assert one.is_accepting() and other.is_accepting()
    assert little.native.rebuilds > 3 and most < one.memory_bytes / 2
    for first, second in forks:
        first.rollback(min(first.steps, 30))
        second.rollback(min(second.steps, 30))
        assert mask_of(first) == mask_of(second)
