"""Masks over a vocabulary that is large enough for all shortcuts of token tables: loops, ranges, neighbours.

The definition of a mask is a walk of the whole vocabulary (`_walk_mask`).
"""

from __future__ import annotations

import json
import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import SpecError
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.effort import examples

CHARACTERS = [*"aabbcdeeXY019_-. /@", "é", "€", "\u2028", "\U0001f600"]
SIGNS = [*'"""\\,:{}[]\n ', '",', '":', '": "', '","', '"}', '{"', "\\u00", "\\n"]


@cache
def compiler() -> GrammarCompiler:
    """About 9,000 tokens: strings of few characters, many of them with a JSON character."""
    rng = random.Random(5)
    tokens = {bytes([b]) for b in range(256)}
    while len(tokens) < 9000:
        text = "".join(rng.choices(CHARACTERS, k=rng.choice([1, 2, 3, 4, 5, 6, 12])))
        if rng.random() < 0.3:
            text += rng.choice(SIGNS) + rng.choice(["", "", "a", " ", '"'])
        token = text.encode()
        tokens.add(token[: rng.randrange(1, len(token) + 1)] if rng.random() < 0.1 else token)
    tokens |= {b"-" * n for n in range(2, 80)} | {b" " * n for n in range(2, 80)}
    return GrammarCompiler(Vocabulary([*sorted(tokens), None], eos_token_ids=[len(tokens)]), cache_bytes=0)


PATTERNS = [
    "[A-z]+", "^a.*b$", "ab|ba|cde", "^(?:ab|ba).+$", "^[a-e]+$", "^[a-z0-9_-]{1,9}$", "^[^@]+@[^@.]+[.][a-z]{2,}$",
    "/a/b[0-9]+/", "^[0-9a-eXY]{4}-[0-9a-eXY]{2}-[0-9a-eXY]{5}$", "^\\S+$", "é", "^.{3}$", "^(?!ab)", "a{3}|b{3}",
    # for some characters, nothing is refused
    "^(?!.*(?:cde|baab)).*$", "(?:aab|e_e).*(?:X9|-b)", "^\\S+( \\S+)*$", "^(?:\\S+\\s+){2,9}\\S+$", "[a-e0-9_-]{9}",
    "ab.*ab",
    "^(?:.{7})*$", "^[^é]*(?:é[^é]*é[^é]*)*$", "^(?!.*(?:aba|bc[de]|eXY|01[ab]|9_-|[.]/@|é€)).*$",
    "(?:aab|b[cd]e|c.X|d0|[/@.]9_).*(?:X[ab]e|Y1-|[ -]@a)", "(?:[a-d]{3}|[-_/@.]{3}|[XY019e]{4}).*[a-dXY]{4}",
    "^[!-~]*-[!-~]{6}$",
    # all characters but some lead to a loop
    "^(?!(?:ab|cX|é)$).*$", "^(?!a|é).*$", "^(?!(?:[abc]|[^!-~]0)$).+$", "^(?:[^ab]|a[^b]|b$).*$",
    "^(?:[^a€]|a[Xb]).*$",
    # runs that are searched for, and words that may all be the last one
    "[a-eXY]{40}", "-?[a-e0-9]{30,50}", "^(?:\\S+\\s+){0,40}\\S+$", "^(?:[^ ]+ ){5,6}[^ ]+$", "^(?:\\S+\\s+){8,}[ab]+$",
]  # fmt: skip
STRINGS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "pattern": st.sampled_from(PATTERNS),
        "minLength": st.integers(0, 4),
        "maxLength": st.sampled_from([5, 9, 20, 64, 300]),
        "format": st.sampled_from(["email", "uri", "date", "uuid", "hostname"]),
    },
).filter(lambda s: not ("format" in s and len(s) > 2))
SCHEMAS = STRINGS | st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(st.sampled_from(["a", "ab", "e", "é"]), STRINGS, max_size=2),
        "additionalProperties": STRINGS | st.booleans(),
        "propertyNames": st.sampled_from(PATTERNS).map(lambda p: {"pattern": p}),
    },
)


@examples(30)
@given(SCHEMAS, st.randoms(use_true_random=False))
def test_masks_are_walks(schema: dict, rng: random.Random) -> None:
    try:
        grammar = compiler().compile_json_schema(schema)
    except SpecError:  # no text satisfies it
        return
    matcher, written = GrammarMatcher(grammar), b""
    for _ in range(12):
        allowed = mask_of(matcher)
        assert set(allowed) == set(matcher._walk_mask()), (schema, written)
        tokens = [t for t in allowed if compiler().vocabulary.tokens[t] is not None]
        if not tokens:
            break
        token = rng.choice(tokens)
        assert matcher.accept_token(token)
        written += compiler().vocabulary.tokens[token] or b""


@pytest.mark.parametrize("pattern", PATTERNS)
def test_masks_of_patterns_are_walks(pattern: str) -> None:
    """Each pattern, from its begin and from inside the texts that a walk finds."""
    rng = random.Random(pattern)
    grammar = compiler().compile_json_schema({"type": "string", "pattern": pattern})
    for _ in range(3):
        matcher = GrammarMatcher(grammar)
        assert matcher.accept_string('"')
        for _ in range(6):
            allowed = mask_of(matcher)
            assert set(allowed) == set(matcher._walk_mask())
            tokens = [t for t in allowed if compiler().vocabulary.tokens[t] not in (None, b'"')]
            if not tokens:
                break
            assert matcher.accept_token(rng.choice(tokens))


@pytest.mark.parametrize("text", ['"', '"a', '"a-', '"_@'])
def test_a_loop_along_which_the_end_becomes_reachable(text: str) -> None:
    """Strings of at least three characters: a loop along which the end becomes reachable."""
    schema = {"type": "string", "pattern": "[A-z]+", "minLength": 3, "maxLength": 64}
    matcher = GrammarMatcher(compiler().compile_json_schema(json.dumps(schema)))
    assert matcher.accept_string(text)
    assert set(mask_of(matcher)) == set(matcher._walk_mask())


@pytest.mark.parametrize("pattern", ["[a-eXY]{390}", "(?:x|-?[a-e]{385,390})", "b*[a-e]{390}X"])
def test_a_run_that_is_searched_for_is_in_one_place(pattern: str) -> None:
    """Each character may be its first one: the length so far determines all, so memory grows only with the text."""
    matcher = GrammarMatcher(compiler().compile_json_schema({"type": "string", "pattern": pattern}))
    assert matcher.accept_string('"' + "abcde" * 38)
    half = matcher.memory_bytes
    assert matcher.accept_string("abcde" * 38)
    assert matcher.memory_bytes < 2.5 * half
    assert set(mask_of(matcher)) == set(matcher._walk_mask())


@pytest.mark.parametrize("words", [1, 5, 13, 20])
def test_words_of_which_any_may_be_the_last(words: int) -> None:
    """Far from the bounds of the count, near the upper bound, and at the upper bound."""
    pattern = "^(?:[^ ]+ ){0,20}[^ ]+$"
    matcher = GrammarMatcher(compiler().compile_json_schema({"type": "string", "pattern": pattern}))
    assert matcher.accept_string('"' + "ab " * words)
    for text in ["", "a", "_@ "[: 3 if words < 20 else 2]]:
        assert matcher.accept_string(text)
        assert set(mask_of(matcher)) == set(matcher._walk_mask())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_masks_under_a_budget_lead_to_an_end_in_time(pattern: str) -> None:
    """Tokens are decided by the state that they lead to. For a sample, distances to the end are computed separately."""
    rng = random.Random(pattern)
    matcher = GrammarMatcher(compiler().compile_json_schema({"type": "string", "pattern": pattern}))
    assert matcher.accept_string('"')
    for _ in range(4):
        plain = mask_of(matcher)
        sample = rng.sample(plain, min(len(plain), 150))
        needed = {}
        for token in sample:
            after = matcher.fork()
            assert after.accept_token(token)
            needed[token] = after.min_tokens_to_finish()
        least = matcher.min_tokens_to_finish()
        for left in (least, least + 1, least + 3, least + 9):
            fits = set(mask_of(matcher, left))
            assert {token for token in sample if needed[token] < left} == fits & set(sample), left
        tokens = [t for t in sample if compiler().vocabulary.tokens[t] not in (None, b'"')]
        if not tokens:
            break
        assert matcher.accept_token(rng.choice(tokens))
