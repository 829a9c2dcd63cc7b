"""The grammar of C: generated texts, its samples, and texts near them, judged by pycparser and by Lark."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

import guided

pytest.importorskip("lark", reason="lark is not installed")
pytest.importorskip("pycparser", reason="pycparser is not installed")

from tests.c_judge import PIECES, RELAXED, is_parsed, preprocessed, reason_for
from tests.lark_judge import parses
from tests.program_support import few_or_many, mutated, vocabulary_of_words
from tests.test_library import accepts, by_lark, samples, written

GOOD, BAD = samples("c", "accept"), samples("c", "reject")
WORDS = sorted(
    {found[0] for text in GOOD for found in PIECES.finditer(text) if not found["skipped"] and not found[0].isspace()}
)


both = few_or_many(150, 1000)


@pytest.fixture(scope="module")
def grammar() -> guided.CompiledGrammar:
    vocabulary = vocabulary_of_words(WORDS, ["\n    ", "; ", " ("])
    return guided.GrammarCompiler(vocabulary).compile(guided.grammar("c"))


@pytest.fixture(scope="module")
def parser() -> object:
    return by_lark("c")


def test_samples_are_read_by_pycparser():
    assert len(GOOD) >= 60
    for text in GOOD:
        assert is_parsed(text), text
    taken = {text: reason_for(text) for text in BAD if is_parsed(text)}
    assert len(taken) < len(BAD) / 2 and None not in taken.values(), taken
    assert {*taken.values()} == {*RELAXED}, "a sample for each reason why pycparser takes more"


def test_a_file_of_500_lines(grammar: guided.CompiledGrammar, parser: object):
    """All samples concatenated, with random tokens."""
    lines = [line for text in GOOD for line in text.splitlines()]
    first = [line for line in lines if line.startswith("#")]
    text = "\n".join([*first, *(line for line in lines if not line.startswith("#"))])
    assert text.count("\n") >= 500 and parses(parser, text) and is_parsed(text)
    ids = {token: number for number, token in enumerate(grammar.vocabulary.tokens) if token}
    matcher, data, rng, at = guided.GrammarMatcher(grammar), text.encode(), random.Random(0), 0
    row = guided.allocate_token_bitmask(1, grammar.vocabulary.size)
    while at < len(data):
        matcher.fill_next_token_bitmask(row)
        size = rng.choice([n for n in range(1, 12) if data[at : at + n] in ids])
        token = ids[data[at : at + size]]
        assert row[0, token >> 5] >> (token & 31) & 1 and matcher.accept_token(token), data[:at]
        at += size
    assert matcher.is_accepting()


@both
def test_programs_that_are_written_parse(grammar: guided.CompiledGrammar, parser: object, count: int, seed: str):
    rng, texts, size = random.Random(seed), set(), 0
    least = guided.GrammarMatcher(grammar).min_tokens_to_finish()
    plain = np.array([token is not None and not set(token) & set(b"#\"'") for token in grammar.vocabulary.tokens])
    for _ in range(count):
        text = written(grammar, rng, least + rng.choice([4, 15, 40, 120]), plain)
        assert parses(parser, text), text
        assert is_parsed(text), text
        texts.add(text)
        size += len(text)
    assert len(texts) > 0.9 * count and size > 100 * count
    print(f"{len(texts)} programs, {size} characters")


@both
def test_mutated_programs_are_judged_alike(grammar: guided.CompiledGrammar, parser: object, count: int, seed: str):
    """guided and Lark agree on each text. pycparser accepts the same texts, and more only for known reasons."""
    rng, found = random.Random(seed), Counter()
    for _ in range(count):
        text = rng.choice(GOOD)
        text = mutated(rng, text, [found[0] for found in PIECES.finditer(text)], WORDS)
        taken = accepts(grammar, text)
        assert parses(parser, text) == taken, text
        if taken:
            assert is_parsed(text), text
            found["both"] += 1
        elif is_parsed(text):
            reason = reason_for(text)
            assert reason is not None, text
            found[reason] += 1
        else:
            found["neither"] += 1
    assert found["both"] > count / 10 and found["neither"] > count / 4
    print(dict(found))


def test_the_text_for_pycparser():
    text = '#include <stdio.h>\nPoint p; /* Note */ char *s = "/* kept */"; // Note\nint a[ *b];'
    assert preprocessed(text).endswith('typedef int Point;\n \nPoint p;   char *s = "/* kept */";  \nint a[+*b];')
