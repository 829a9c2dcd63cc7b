"""Budgets if many values must differ, for numbers of values at which the open texts of completions change.

An open text is right for up to 4, 16, 64, ... values (`budget/open_texts.cpp`). Each step of a walk under a tight
budget must leave a token, whichever tokens were accepted before, and the walk must end in time.
"""

from __future__ import annotations

import json
import random

import pytest

import guided
from guided.matching.sentences import byte_vocabulary
from tests.effort import every

WORDS = [b'"', b'":', b'",', b", ", b"null", b"true", b"fal", b"10", b"[]", b'""', b"{}", b'":0,', b"ab", b"cd", b'","']
BYTES = byte_vocabulary()
VOCABULARIES = {
    "bytes": BYTES,
    "words": guided.Vocabulary(
        [*map(bytes, ([byte] for byte in range(256))), *WORDS], eos_token_ids=[256 + len(WORDS)]
    ),
}
SHAPES = {
    "items": lambda n: {"type": "array", "uniqueItems": True, "minItems": n},
    "names": lambda n: {"type": "object", "minProperties": n, "propertyNames": {"pattern": "^[a-z]+$"}},
    "nested": lambda n: {
        "type": "array",
        "uniqueItems": True,
        "minItems": 3,
        "items": {"type": "array", "uniqueItems": True, "minItems": n // 3, "items": {"type": "integer"}},
    },
}


NUMBERS = {"items": [4, 16, 17, 64], "names": [4, 16, 17, 64], "nested": [16]}
MORE_NUMBERS = {"items": [15, 63, 65], "names": [15, 63, 65], "nested": [4, 15, 17]}
CASES = every(
    4, [(shape, n, name) for name in VOCABULARIES for shape, numbers in NUMBERS.items() for n in numbers], unpack=True
)
CASES += [
    pytest.param(shape, n, name, marks=pytest.mark.slow)
    for name in VOCABULARIES
    for shape, numbers in MORE_NUMBERS.items()
    for n in numbers
]


@pytest.mark.parametrize(("shape", "n", "vocabulary"), CASES)
def test_a_walk_under_a_tight_budget_never_gets_stuck(shape: str, n: int, vocabulary: str):
    tokens = VOCABULARIES[vocabulary]
    grammar = guided.GrammarCompiler(tokens).compile_json_schema(SHAPES[shape](n))
    for slack in (0, 1, 5, 20):
        generator = random.Random(slack)
        matcher = guided.GrammarMatcher(grammar)
        least = matcher.min_tokens_to_finish()
        text = _walk(matcher, tokens, least + slack, generator)
        value = json.loads(text)
        assert len(value) >= (3 if shape == "nested" else n), text


def _walk(matcher: guided.GrammarMatcher, vocabulary: guided.Vocabulary, budget: int, generator: random.Random) -> str:
    bitmask = guided.allocate_token_bitmask(1, vocabulary.size)
    text = b""
    for left in range(budget, 0, -1):
        least = matcher.min_tokens_to_finish()
        assert least <= left, (text, least, left)
        matcher.fill_next_token_bitmask(bitmask, max_tokens=left)
        allowed = guided.allowed_tokens(bitmask)
        assert allowed, (text, left)
        token = generator.choice(allowed)
        assert matcher.accept_token(token)
        if token in vocabulary.eos_token_ids:
            return text.decode()
        text += vocabulary.decode([token])
    raise AssertionError((text, "did not end within its budget"))
