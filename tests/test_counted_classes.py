"""Bounded repetitions of characters that may begin at many places: their automata are exact, and stay small."""

from __future__ import annotations

import random
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.frontends.regex import parse_regex
from guided.frontends.regex.derivatives import Terms
from guided.matching import GrammarMatcher
from tests.core_support import vocabulary
from tests.effort import examples

TEXTS = ["".join(letters) for length in range(10) for letters in product("ab", repeat=length)]


def pattern(rng: random.Random, depth: int = 0) -> str:
    """A pattern over a and b, in which repetitions overlap."""
    parts = list[str]()
    if depth == 0 and rng.random() < 0.5:  # counting may begin after each a
        low = rng.randrange(8)
        parts.append(f"[ab]*a[ab]{{{low},{low + rng.randrange(4)}}}")
    for _ in range(rng.randrange(3) if parts else rng.randrange(1, 5)):
        low = rng.randrange(4)
        high = rng.choice(["", low, low + rng.randrange(1, 5), low + 2])
        bounds = rng.choice([f"{{{low},{high}}}", f"{{{low},{high}}}", "*", "?", ""])
        item = rng.choice(["[ab]", "[ab]", "a", "b"])
        if depth < 1 and rng.random() < 0.2:  # deeper, `re` would search for minutes
            item, bounds = f"({pattern(rng, depth + 1)}|{pattern(rng, depth + 1)})", rng.choice(["", "?", "{1,2}"])
        parts.append(item + bounds)
    return "".join(parts)


@examples(200)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_determinised_patterns_equal_re(rng: random.Random, least: int) -> None:
    """An intersection makes the pattern deterministic."""
    text = pattern(rng)
    compiled, expected = compile_pattern(text, least), re.compile(text)
    for candidate in TEXTS:
        matcher = GrammarMatcher(compiled)
        accepted = matcher.accept_string(f'"{candidate}"') and matcher.is_accepting()
        assert accepted == (len(candidate) >= least and expected.fullmatch(candidate) is not None), (text, candidate)


def compile_pattern(text: str, least: int) -> guided.CompiledGrammar:
    schema = {"type": ["string", "null"], "pattern": f"^(?:{text})$", "minLength": least, "not": {"const": "!"}}
    return guided.GrammarCompiler(vocabulary()).compile_json_schema(schema)


@examples(200)
@given(st.randoms(use_true_random=False))
def test_derivatives_equal_re(rng: random.Random) -> None:
    text = pattern(rng)
    terms, expected = Terms(), re.compile(text)
    start = terms.read(parse_regex(text, dialect="python"))
    for candidate in TEXTS:
        term = start
        for char in candidate:
            term = terms.derive(term, ord(char))
        assert terms.nullable[term] == (expected.fullmatch(candidate) is not None), (text, candidate)


P = "^.{1,64}@.{1,255}$"


@pytest.mark.parametrize(
    "schema",
    [
        *({"pattern": P} | other for other in (
            {"const": "a@b"}, {"enum": ["a@b", "c"]}, {"minLength": 6}, {"maxLength": 254}, {"not": {"const": "a@b"}},
            {"format": "email"},
        )),
        {"pattern": r"\..{2,24}$", "format": "hostname"},
        {"pattern": "[0-9].{20,30}$", "minLength": 3},
        {"pattern": "[0-9].{20,}$", "minLength": 3},
        {"pattern": "^[a-z0-9-]{1,40}-[a-z0-9-]{1,40}$", "maxLength": 63},
        {"pattern": r"^(?!.*\.\.).{1,64}@.{1,255}$"},
        {"not": {"pattern": P}},
        {"pattern": r"^.{1,20}\@.{1,20}$"},
    ],
    ids=str,
)  # fmt: skip
def test_states_do_not_double_with_each_beginning(schema: dict) -> None:
    """Without this, the number of states doubles with each character of the bounds."""
    guided.GrammarCompiler(vocabulary()).compile_json_schema({"type": "string", **schema})


@pytest.mark.parametrize("style", guided.TOOL_STYLES)
def test_arguments_with_such_a_pattern(style: str) -> None:
    """Texts that are not JSON must not contain their end, which is one more condition."""
    parameters = {"type": "object", "properties": {"p": {"type": "string", "pattern": P}}, "required": ["p"]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    guided.GrammarCompiler(vocabulary()).compile_structural_tag(guided.tool_style(style).structural_tag(tools))
