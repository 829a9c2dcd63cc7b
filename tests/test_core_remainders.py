"""Tokens that leave the frames of several rules in sequence, in many ways. The judge walks each token separately."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided import GrammarCompiler, GrammarMatcher, Vocabulary
from guided.errors import SpecError, UnsupportedError
from tests.core_support import mask_of

MAX_LENGTH = 100
RUNS = {
    "one or two letters": ("root ::= c*\nc ::= [a-z]{1,2}", "x"),
    "indentation": ('root ::= (line "\\n")*\nline ::= ind* [a-z]+\nind ::= "  " | "    "', " "),
    "whitespace": ('root ::= ws* "x"\nws ::= " " | "\\t" | "    "', " "),
    "line breaks": ('root ::= nl* "x"\nnl ::= "\\n" "\\r"? | "\\n\\n"', "\n"),
    "bytes in hexadecimal": ("root ::= byte*\nbyte ::= [0-9a-f] [0-9a-f]?", "0"),
    "two rules with the same text": ('root ::= (c | d)*\nc ::= "a" | "[" c "]"\nd ::= "a" | "(" d ")"', "a"),
    "two rules with optional ends": ('root ::= (c | d)+\nc ::= [a-z] "1"?\nd ::= [a-z] "2"?', "a"),
    "dashes": ('root ::= (hr | dash)* "\\n"\nhr ::= "---"\ndash ::= "-" "-"?', "-"),
}


def vocabulary(texts: list[bytes]) -> Vocabulary:
    tokens = [bytes([byte]) for byte in range(256)] + texts
    return Vocabulary(tokens, eos_token_ids=[len(tokens)])


def check(grammar: str, texts: list[bytes], steps: int) -> GrammarMatcher:
    """Compare masks with walks of all tokens, along a few tokens."""
    matcher = GrammarMatcher(GrammarCompiler(vocabulary(texts)).compile_gbnf(grammar))
    end = matcher.grammar.vocabulary.size - 1
    for step in range(steps):
        mask = mask_of(matcher)
        assert list(mask) == sorted(matcher._walk_mask())
        others = [token for token in mask if token != end]
        if not others:
            break
        assert matcher.accept_token(others[step * 7 % len(others)])
    return matcher


@pytest.mark.parametrize("name", RUNS)
def test_no_long_token_is_missing(name: str) -> None:
    """The number of ways to divide a token between frames must not matter."""
    grammar, unit = RUNS[name]
    matcher = check(grammar, [unit.encode() * length for length in range(2, MAX_LENGTH)], 3)
    assert matcher.memory_bytes < 100 << 20


ATOMS = st.sampled_from(['"a"', '"aa"', '"ab"', '"b"?', "[ab]", '"a" "b"?', "[ab]{1,2}", '"(" r "a"', '"a" r?'])
BODIES = st.lists(ATOMS, min_size=1, max_size=3).map(" | ".join)


@given(
    st.lists(BODIES, min_size=2, max_size=3),
    st.sampled_from(["(r | s)*", "r* s*", "(r s?)+", "(r | s){1,9}", 'r+ "(" s']),
    st.sets(st.text("ab(", min_size=2, max_size=12).map(str.encode), max_size=12),
)
def test_masks_match_a_walk(bodies: list[str], root: str, texts: set[bytes]) -> None:
    rules = "\n".join(f"{name} ::= {body}" for name, body in zip("rst", bodies, strict=False))
    with suppress(SpecError, UnsupportedError):  # endless recursion, or left recursion
        check(f"root ::= {root}\n{rules}", sorted(texts), 4)
