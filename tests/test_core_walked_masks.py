"""Masks of rules that nearly all tokens leave. The vocabulary is walked for them. The judge walks it for each state."""

from __future__ import annotations

import random
from itertools import product

import pytest

from guided import GrammarCompiler, GrammarMatcher, Vocabulary
from tests.core_support import mask_of

LETTERS = "abcdefghijklmnopqrst"
MIXED = [*"abc()[]|,", "ab)", "a(b", "(a", "))", "])", "[a", "a|b", "),", "a,b", "|a)", "b]c"]
TOKENS = [*MIXED, *("".join(each) for size in (2, 3) for each in product(LETTERS, repeat=size)), *LETTERS[3:]]
GRAMMARS = {
    "groups": 'root ::= seq\nseq ::= atom*\natom ::= [a-t] | [|,] | group\ngroup ::= ("(" | "[" "]") seq ")"',
    "alternatives": """root ::= alt
alt ::= seq ("|" seq)*
seq ::= repeated*
repeated ::= atom ","?
atom ::= [a-t] | "(" alt ")" | "[" [a-c]+ "]\"""",
    "counted": 'root ::= "(" atom{2,4} ")" root?\natom ::= [a-t] | "(" atom ")" | "[" atom{0,2} "]"',
    "two kinds of brackets": """root ::= a
a ::= (x | "[" b "]")*
b ::= (x | "(" a ")" | ",")*
x ::= [a-t] | "|" x "|\"""",
}


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    tokens = [token.encode() for token in dict.fromkeys(TOKENS)]
    return GrammarCompiler(Vocabulary([*tokens, None], eos_token_ids=[len(tokens)]))


@pytest.mark.parametrize("name", GRAMMARS)
def test_walked_masks(compiler: GrammarCompiler, name: str) -> None:
    rng = random.Random(name)
    grammar = compiler.compile_gbnf(GRAMMARS[name])
    tokens, sizes = compiler.vocabulary.tokens, set()
    for _ in range(4):
        matcher = GrammarMatcher(grammar)
        for _ in range(14):
            mask = mask_of(matcher)
            assert list(mask) == sorted(matcher._walk_mask())
            sizes.add(len(mask))
            with_brackets = [token for token in mask if (tokens[token] or b"a")[-1:] in b"([|"]
            assert matcher.accept_token(rng.choice(with_brackets or mask))
            if matcher.is_terminated():
                break
    assert max(sizes) > 8000 and len(sizes) >= 4


def test_equal_tops_share_a_walk(compiler: GrammarCompiler) -> None:
    """A deeper nesting costs memory for its own state only, not for another row of all tokens."""
    matcher = GrammarMatcher(compiler.compile_gbnf(GRAMMARS["groups"]))
    sizes, closing = [], list(compiler.vocabulary.tokens).index(b"))")
    for depth in range(1, 40):
        assert matcher.accept_string("(a")
        assert (closing in mask_of(matcher)) == (depth > 1)
        sizes.append(matcher.memory_bytes)
    assert sizes[-1] - sizes[3] < 35 * 8192
