"""GBNF compared with an interpreter of grammars as trees: the generated texts, and the texts that masks allow."""

from __future__ import annotations

import itertools
import random

import pytest

from guided.errors import SpecError, UnsupportedError
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.vocabulary import Vocabulary
from tests.gbnf_support import Drawn
from tests.tree_grammars import Rules, accepts, generates_something

pytestmark = pytest.mark.filterwarnings("ignore:.*takes two digits")

LETTERS = "abé"
BYTES = [bytes([code]) for code in range(256)]
TOKENS = [*BYTES, b"ab", b"ba", "éa".encode(), b"aab", "bé".encode(), b"bb", b"\xa9a"]
END = len(TOKENS)
COMPILER = GrammarCompiler(Vocabulary(TOKENS, eos_token_ids=[END]))


def compiled(rules: Rules, text: str) -> CompiledGrammar | None:
    """The grammar, or None if it generates nothing, which the interpreter must confirm."""
    try:
        grammar = COMPILER.compile_gbnf(text)
    except SpecError as error:
        assert not generates_something(rules), (text, str(error))
        return None
    except UnsupportedError as error:
        assert "left recursion" in error.reason, (text, str(error))
        return None
    assert generates_something(rules), text
    return grammar


@pytest.mark.parametrize("block", range(20))
def test_random_grammars_on_all_short_texts(block: int) -> None:
    texts = ["".join(chars) for length in range(5) for chars in itertools.product(LETTERS, repeat=length)]
    source = random.Random(block)
    for seed in range(block * 20, block * 20 + 20):
        drawn = Drawn(seed)
        rules = drawn.rules()
        written = drawn.text(rules)
        grammar = compiled(rules, written)
        if grammar is None:
            continue
        matcher = GrammarMatcher(grammar)
        for text in source.sample(texts, 40):
            got = matcher.accept_string(text) and matcher.is_accepting()
            assert got == accepts(rules, text), (written, text)
            matcher.reset()


@pytest.mark.parametrize("block", range(10))
def test_random_walks_through_masks(block: int) -> None:
    bitmask = allocate_token_bitmask(1, COMPILER.vocabulary.size)
    source = random.Random(block)
    for seed in range(1000 + block * 20, 1000 + block * 20 + 20):
        drawn = Drawn(seed)
        rules = drawn.rules()
        written = drawn.text(rules)
        grammar = compiled(rules, written)
        if grammar is None:
            continue
        for _ in range(2):
            matcher, text = GrammarMatcher(grammar), b""
            left = matcher.min_tokens_to_finish() + source.randint(0, 4)
            while True:
                matcher.fill_next_token_bitmask(bitmask, max_tokens=left)
                token = source.choice(list(allowed_tokens(bitmask)))
                assert matcher.accept_token(token)
                left -= 1
                if token == END:
                    break
                text += TOKENS[token]
            assert accepts(rules, text.decode()), (written, text)


TAGS: list[Rules] = [
    {"root": ("tags", [("ab", "x"), ("bb", "y")], [], True), "x": ("text", "é"), "y": ("text", "a")},
    {"root": ("tags", [("ab", "x"), ("bb", "y")], [], False), "x": ("text", "é"), "y": ("text", "a")},
    {"root": ("tags", [("aa", "x")], ["é"], True), "x": ("repeat", ("text", "b"), 0, 1)},
    {
        "root": ("seq", [("tags", [("ab", "x")], ["éé"], True), ("text", "éé")]),
        "x": ("alt", [("text", "b"), ("seq", [])]),
    },
    {"root": ("tags", [("aab", "x"), ("b", "y")], ["bé"], True), "x": ("text", "a"), "y": ("rule", "root")},
    {"root": ("tags", [], ["ab", "é"], True)},
    {"root": ("repeat", ("tags", [("aé", "x")], [], False), 1, 2), "x": ("class", [("a", "b")], False)},
    {"root": ("tags", [("ab", "x"), ("ab", "y")], [], True), "x": ("text", "é"), "y": ("text", "a")},
]


@pytest.mark.parametrize("number", range(len(TAGS)))
def test_tag_dispatch_on_all_short_texts(number: int) -> None:
    rules = TAGS[number]
    matcher = GrammarMatcher(COMPILER.compile_gbnf(Drawn(1).text(rules)))
    reached = 0
    for length in range(7):
        for chars in itertools.product(LETTERS, repeat=length):
            text = "".join(chars)
            expected = accepts(rules, text)
            assert (matcher.accept_string(text) and matcher.is_accepting()) == expected, text
            matcher.reset()
            reached += expected
    assert reached > 10
