"""Shared by the tests of grammars of languages: a vocabulary, texts that are nearly right, numbers of examples."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence

import pytest

import guided
from tests.lexer_support import vocabulary_of

SEED = os.environ.get("GUIDED_FUZZ_SEED", "0")


def few_or_many(few: int, many: int) -> pytest.MarkDecorator:
    """The same test on a few fixed examples, and, marked slow, on many."""
    rows = [pytest.param(few, "0", id="few"), pytest.param(many, SEED, id="many", marks=pytest.mark.slow)]
    return pytest.mark.parametrize(("count", "seed"), rows)


def vocabulary_of_words(words: Sequence[str], others: Iterable[str]) -> guided.Vocabulary:
    """Tokens: each byte; the words, with and without a space before them; pieces of them; and others."""
    pieces = {word[i : i + n] for word in words for n in (2, 3) for i in range(len(word) - n + 1)}
    texts = {text.encode() for text in (*pieces, *words, *(f" {word}" for word in words), *others)}
    return vocabulary_of([bytes([byte]) for byte in range(256)] + sorted(text for text in texts if len(text) > 1))


def mutated(rng: random.Random, text: str, parts: Sequence[str], words: Sequence[str], gap: str = " ") -> str:
    """The text with one word or character removed, inserted, doubled, replaced, or swapped with another.

    `parts`: the words and gaps of the text. `words`: words to insert. `gap`: the text around an inserted word.
    """
    parts = list(parts)
    places = [at for at, word in enumerate(parts) if not word.isspace()]
    at, other = rng.choice(places), rng.choice(places)
    match rng.randrange(6):
        case 0:
            parts[at] = ""
        case 1:
            parts[at] += f" {rng.choice(words)} "
        case 2:
            parts[at] = f"{gap}{rng.choice(words)}{gap}"
        case 3:
            parts[at] += gap + parts[at]
        case 4:
            parts[at], parts[other] = parts[other], parts[at]
        case _:
            at = rng.randrange(len(text))
            return text[:at] + rng.choice(["", rng.choice(text)]) + text[at + rng.randrange(2) :]
    return "".join(parts)
