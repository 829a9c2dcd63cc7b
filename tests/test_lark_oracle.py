"""Lark as the judge of the core, in numbers: on each pair of a grammar and a text both must agree.

Of each grammar, texts are written by walks through its masks, which Lark has to parse, and others are judged by both:
its samples, what is near them, and random ones. With a lexer the judge is Lark's LALR parser; without one, its Earley
parser with `dynamic_complete`, which takes long for long texts. The slow runs judge more than 20,000 pairs, and print
how many (`pytest -s`); GUIDED_FUZZ_SEED says where they begin.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import guided
from guided.errors import LimitExceeded, SpecError, UnsupportedError

lark = pytest.importorskip("lark", reason="lark is not installed")

from tests.effort import examples  # noqa: E402 - needs lark
from tests.lark_judge import Sequences, lalr, parses  # noqa: E402
from tests.lark_public import PUBLIC  # noqa: E402
from tests.lexer_support import near, random_grammar, vocabulary_for  # noqa: E402
from tests.test_lark_language import grammars  # noqa: E402
from tests.test_library import LONGEST_FOR_EARLEY, NAMES, accepts, by_lark, samples, written  # noqa: E402

SEED = os.environ.get("GUIDED_FUZZ_SEED", "0")
LONGEST = 24  # characters of a text for the Earley parser
NO_LALR = {  # whose readings are what matters
    "fruit flies": (
        'start: noun verb noun | noun verb "like" noun\nnoun: A? N\nverb: V\n'
        'A: "fruit"\nN: "flies" | "bananas" | "fruit"\nV: "like" | "flies"\n%ignore " "',
        ["fruit flies like bananas"],
        ["flies", "fruit like"],
    ),
    "sums of sums": (
        'start: start "+" start | start start | /[a-c]/ |\n%ignore /#[a-z]*/',
        ["a+bc", "", "+", "#a", "a#a"],
        ["d", "#1"],
    ),
    "palindromes": ('start: "a" start "a" | "b" start "b" | "a" | "b" |', ["abba", "aba", ""], ["ab", "abc"]),
    "letters": ("start: (A | B)+ C?\nA: /[a-z]/\nB: /[a-z]+/\nC: /z+/", ["az", "zz"], ["", "A"]),
}

COUNTS: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def total():
    yield
    print(f"\n{COUNTS.total()} pairs, no disagreement: {dict(COUNTS)}")


class Pairs:
    """Judges texts of one grammar, and keeps those on which it and Lark differ. `kind`: what is counted."""

    def __init__(self, kind: str, grammar: guided.CompiledGrammar, takes: Callable[[str], bool]) -> None:
        self.kind, self.grammar, self.takes, self.differ = kind, grammar, takes, list[str]()

    def judge(self, text: str, must: bool = False) -> None:
        """`must`: the text was written with the grammar, so Lark has to parse it."""
        try:
            parsed = self.takes(text)
        except RuntimeError as error:  # "... Please report this bug", on some cyclic grammars
            assert "report this bug" in str(error)
            return
        COUNTS[self.kind] += 1
        if parsed != (must or accepts(self.grammar, text)):
            self.differ.append(text)

    def judge_walks(self, rng: random.Random, count: int, more: int, longest: int = 100_000) -> None:
        """Texts of as many tokens as are needed, and up to `more` further ones."""
        least = guided.GrammarMatcher(self.grammar).min_tokens_to_finish()
        for _ in range(count):
            text = written(self.grammar, rng, least + rng.randrange(more))
            if len(text) <= longest:
                self.judge(text, must=True)

    def judge_near(self, rng: random.Random, texts: list[str], count: int, longest: int = 100_000) -> None:
        """The texts, and others that differ from them by a character."""
        for text in texts:
            for other in (text, *(near(rng, text, [*'a1 ,"(])}\n', *rng.choice(texts)], 1) for _ in range(count))):
                if len(other) <= longest:
                    self.judge(other)


few_or_many = pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.slow)])


@few_or_many
@pytest.mark.parametrize("how", ["contextual", "basic"])
@pytest.mark.parametrize("name", PUBLIC)
def test_public_grammars_with_a_lexer(name: str, how: str, count: int) -> None:
    text, good, bad = PUBLIC[name]
    parser, rng = lalr(text, how), random.Random(f"{SEED} {name}")
    assert parser is not None
    try:
        grammar = guided.GrammarCompiler(vocabulary_for(good)).compile_lark(text, lexer=how)
    except SpecError as error:  # where all keywords are tried everywhere, little may be left
        assert how == "basic" and "no sequence of terminals" in str(error)
        assert not any(parses(parser, each) for each in good)
        return
    pairs = Pairs(f"public, {how} lexer", grammar, lambda sample: parses(parser, sample))
    pairs.judge_walks(rng, count, 40)
    pairs.judge_near(rng, [*good, *bad], count)
    assert not pairs.differ
    if how == "contextual":
        assert [accepts(grammar, sample) for sample in (*good, *bad)] == [True] * len(good) + [False] * len(bad)


@few_or_many
@pytest.mark.parametrize("name", [*PUBLIC, *NO_LALR])
def test_public_grammars_without_a_lexer(name: str, count: int) -> None:
    text, good, bad = {**PUBLIC, **NO_LALR}[name]
    parser, rng = lark.Lark(text, parser="earley", lexer="dynamic_complete"), random.Random(f"{SEED} {name}")
    if name == "lua":
        with pytest.raises(UnsupportedError, match="is ignored, may extend past the end"):
            guided.GrammarCompiler(vocabulary_for(good)).compile_lark(text, semantics="scannerless")
        return
    grammar = guided.GrammarCompiler(vocabulary_for(good)).compile_lark(text, semantics="scannerless")
    pairs = Pairs("public, every reading", grammar, lambda sample: parses(parser, sample))
    pairs.judge_walks(rng, 2 * count, 8, LONGEST)
    pairs.judge_near(rng, [*good, *bad], count, LONGEST)
    assert not pairs.differ
    if name in NO_LALR:
        assert [accepts(grammar, sample) for sample in (*good, *bad)] == [True] * len(good) + [False] * len(bad)


@few_or_many
@pytest.mark.parametrize("name", sorted({*NAMES} - {"play"}))  # whose Earley parser takes minutes to be made
def test_grammars_that_come_with_guided(name: str, count: int) -> None:
    good, bad = samples(name, "accept"), samples(name, "reject")
    parser, rng = by_lark(name), random.Random(f"{SEED} {name}")
    grammar = guided.GrammarCompiler(vocabulary_for(good)).compile(guided.grammar(name))
    longest = LONGEST_FOR_EARLEY.get(name, LONGEST) if guided.library()[name].semantics == "scannerless" else 100_000
    judged = name != "python"  # where "match" may be a name, an LALR parser cannot tell
    pairs = Pairs("library", grammar, lambda sample: parses(parser, sample) if judged or "match" not in sample else
                  accepts(grammar, sample))  # fmt: skip
    pairs.judge_walks(rng, 10 * count, 12, longest)
    pairs.judge_near(rng, [*good, *bad], count, longest)
    assert not pairs.differ


def random_texts(rng: random.Random, count: int) -> list[str]:
    return ["".join(rng.choice("aabbcA") for _ in range(rng.randrange(8))) for _ in range(count)]


def has_no_table(text: str) -> bool:
    try:
        lark.Lark(text, parser="lalr")
    except lark.exceptions.GrammarError as error:
        return "Reduce/Reduce" in str(error)
    return False


def judge_random_lexer(rng: random.Random) -> None:
    """A grammar of any kind: with conflicts, Lark's Earley parser takes the lexemes, or sequences are written out."""
    text, how = random_grammar(rng), rng.choice(["contextual", "basic"])
    compiler = guided.GrammarCompiler(vocabulary_for(["abcaab", "Abba"]))
    try:
        parser = lalr(text, how)
        if parser is None and how == "basic":
            parser = lark.Lark(text, parser="earley", lexer="basic")
        elif parser is None and not has_no_table(text):
            return assume(False)  # Lark resolves the conflict, so that it parses less than the grammar has
        takes = Sequences(text, 6).parses if parser is None else lambda sample: parses(parser, sample)
    except lark.exceptions.LarkError:
        return assume(False)
    try:
        grammar = compiler.compile_lark(text, lexer=how)
    except LimitExceeded:
        return assume(False)
    except SpecError as error:
        if parser is None or "no sequence of terminals" not in str(error):
            return assume(False)  # not a grammar, as with a terminal that matches the empty text
        COUNTS["random, with a lexer"] += 30
        assert not any(map(takes, random_texts(rng, 30))), text
        return None
    pairs = Pairs("random, with a lexer", grammar, takes)
    try:
        pairs.judge_walks(rng, 6, 6, 6 if parser is None else 30)
        for sample in random_texts(rng, 12):
            pairs.judge(sample[: 6 if parser is None else 8])
    except LimitExceeded:  # whether an output can end is not known
        pass
    assert not pairs.differ, (text, how)


def judge_random_reading(text: str, rng: random.Random) -> None:
    try:
        parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
    except lark.exceptions.LarkError:
        return assume(False)
    try:
        grammar = guided.GrammarCompiler(vocabulary_for(["abcaab", "Bba"])).compile_lark(text, semantics="scannerless")
    except UnsupportedError as error:
        assert "is ignored, may extend past the end" in error.reason, text
        return assume(False)
    except SpecError as error:
        assert "generates nothing" in str(error) or "allows no output" in str(error), text
        with suppress(RuntimeError):  # as in `judge`
            assert not any(parses(parser, sample) for sample in random_texts(rng, 10)), text
        return assume(False)
    pairs = Pairs("random, every reading", grammar, lambda sample: parses(parser, sample))
    pairs.judge_walks(rng, 6, 5, 12)
    for sample in random_texts(rng, 10):
        pairs.judge(sample)
    assert not pairs.differ, text


@given(st.randoms(use_true_random=False))
def test_random_grammars_with_a_lexer(rng: random.Random) -> None:
    judge_random_lexer(rng)


@given(grammars(), st.randoms(use_true_random=False))
def test_random_grammars_without_a_lexer(text: str, rng: random.Random) -> None:
    judge_random_reading(text, rng)


@pytest.mark.slow
@examples(700)
@given(st.randoms(use_true_random=True))
def test_many_random_grammars_with_a_lexer(rng: random.Random) -> None:
    judge_random_lexer(rng)


@pytest.mark.slow
@examples(500)
@given(grammars(), st.randoms(use_true_random=True))
def test_many_random_grammars_without_a_lexer(text: str, rng: random.Random) -> None:
    judge_random_reading(text, rng)
