"""The grammar of JavaScript: generated texts, its samples, and texts near them, judged by node and Lark."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections import Counter

import numpy as np
import pytest

import guided

pytest.importorskip("lark", reason="lark is not installed")

from tests.lark_judge import lalr, parses
from tests.program_support import few_or_many, mutated, vocabulary_of_words
from tests.test_library import accepts, by_lark, samples, written

GOOD, BAD = samples("javascript", "accept"), samples("javascript", "reject")
PIECES = re.compile(r"[\w$]+|=>|\?\.|\.\.\.|\+\+|--|&&|\|\||\?\?|\*\*|[=!]==?|\s+|.")
WORDS = sorted({word for text in GOOD for word in PIECES.findall(text) if not word.isspace()})
SCRIPT = """
const answers = JSON.parse(require('fs').readFileSync(0)).map(text => {
  try { new Function('return (' + text + '\\n)'); return '' } catch (error) { return error.message }
})
console.log(JSON.stringify(answers))
"""
# Texts that node accepts but the grammar leaves out, as its head says, or that node refuses only at run time.
LEFT_OUT = {
    "01", "let", "++a()", "f() = 1", "f()++", "a <!--b", "function () { }", "async () => 1", "async x => 1",
    "{get a() { return 1 }}", "(a) = 1", "a?.5:b", '"\\1"', "/(?<a>b)/", "a => { b\nc }", "a => { while (b) c; }",
    "a => { return\n1 }", "a = 'use strict'",
}  # fmt: skip
# Errors that no grammar can detect, such as names that are declared twice.
EARLY_ERRORS = re.compile(
    r"Identifier '.*' has already been declared|Duplicate parameter name not allowed|Duplicate __proto__ fields"
)


def by_node(texts: list[str]) -> list[str]:
    """Node's result for each expression: the message of a SyntaxError, or ""."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on PATH")
    done = subprocess.run([node, "-e", SCRIPT], input=json.dumps(texts), text=True, capture_output=True, check=True)
    answers: list[str] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def grammar() -> guided.CompiledGrammar:
    vocabulary = vocabulary_of_words(WORDS, ["\n  ", "; ", " ("])
    return guided.GrammarCompiler(vocabulary).compile(guided.grammar("javascript"))


@pytest.fixture(scope="module")
def parser() -> object:
    return by_lark("javascript")


both = few_or_many(80, 500)


def test_the_rules_have_no_conflicts():
    assert lalr(guided.library()["javascript"].text) is not None


def test_samples_are_judged_by_node():
    assert len(GOOD) >= 75 and len(BAD) >= 150
    assert dict(zip(GOOD, by_node(GOOD), strict=True)) == dict.fromkeys(GOOD, "")
    assert {text for text, answer in zip(BAD, by_node(BAD), strict=True) if not answer} == LEFT_OUT


@both
def test_expressions_that_are_written_parse(grammar: guided.CompiledGrammar, parser: object, count: int, seed: str):
    rng, texts = random.Random(seed), set[str]()
    least = guided.GrammarMatcher(grammar).min_tokens_to_finish()
    plain = np.array([token is not None and not set(token) & set(b"/\"'`") for token in grammar.vocabulary.tokens])
    for _ in range(count):
        texts.add(written(grammar, rng, least + rng.choice([4, 15, 40, 120]), plain if rng.random() < 0.5 else None))
    assert len(texts) > 0.8 * count and sum(map(len, texts)) > 30 * count
    for text, answer in zip(texts, by_node([*texts]), strict=True):
        assert parses(parser, text), text
        assert not answer or EARLY_ERRORS.search(answer), (text, answer)


@both
def test_mutated_expressions_are_judged_alike(grammar: guided.CompiledGrammar, parser: object, count: int, seed: str):
    """guided and Lark agree on each text. node accepts the same texts, except for early errors."""
    rng, found = random.Random(seed), Counter[str]()
    drawn = [rng.choice(GOOD) for _ in range(40 * count)]
    texts = sorted({mutated(rng, text, PIECES.findall(text), [*WORDS, "\n"], gap="") for text in drawn} - {""})
    for text, answer in zip(texts, by_node(texts), strict=True):
        taken = accepts(grammar, text)
        assert parses(parser, text) == taken, text
        assert not taken or not answer or EARLY_ERRORS.search(answer), (text, answer)
        found["both" if taken else "neither" if answer else "node alone"] += 1
    assert found["both"] > count and found["neither"] > count
    print(dict(found))
