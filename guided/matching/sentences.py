"""Draws random sentences of a language, without a model. In: a grammar for the byte vocabulary. Out: a text.

A sentence is a random walk through the masks under a budget, so it is complete and no longer than requested. Letters
are more likely than braces, so the sentences look like text. With `any_character`, every sentence that is short enough
can occur. The distribution over sentences is not uniform. Each byte counts as one step of the caller's meter.
"""

from __future__ import annotations

import random
from typing import Final

from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.compiled import CompiledGrammar
from guided.matching.matcher import GrammarMatcher
from guided.meter import spend
from guided.vocabulary import Vocabulary

__all__ = ["byte_vocabulary", "draw_sentence"]

_END: Final = 256
# (weight, bytes): the allowed bytes of a group share its weight. The end token is a group, too.
_BYTE_GROUPS: Final = (
    (3.0, frozenset([_END])),
    (8.0, frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")),
    (4.0, frozenset(b"0123456789")),
    (1.0, frozenset(b" ")),
    (2.0, frozenset(b'"')),
    (0.6, frozenset(b"}])")),
    (1.0, frozenset(b"!#$%&'(*+,-./:;<=>?@[^_`{|~")),
)
_OTHER_WEIGHT: Final = 0.5  # backslash, control characters, bytes of non-ASCII characters


def byte_vocabulary() -> Vocabulary:
    """A vocabulary with one token for each byte, and an end token; independent of any model."""
    return Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])


def draw_sentence(grammar: CompiledGrammar, generator: random.Random, max_length: int, any_character: bool) -> str:
    """One sentence of at most `max_length` bytes; `grammar` is compiled for the byte vocabulary."""
    matcher = GrammarMatcher(grammar)
    bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
    out = bytearray()
    while True:
        matcher.fill_next_token_bitmask(bitmask, max_tokens=max_length + 1 - len(out))
        spend()
        token = _draw_token(allowed_tokens(bitmask), generator, any_character)
        matcher.accept_token(token)
        if token == _END:
            return out.decode()
        out.append(token)


def _draw_token(allowed: list[int], generator: random.Random, any_character: bool) -> int:
    weighted_groups: list[tuple[float, list[int]]] = []
    remaining = set(allowed)
    for weight, group in _BYTE_GROUPS:
        if allowed_in_group := sorted(remaining & group):
            weighted_groups.append((weight, allowed_in_group))
            remaining -= group
    if remaining and (any_character or not weighted_groups):
        weighted_groups.append((_OTHER_WEIGHT, sorted(remaining)))
    _, tokens = generator.choices(weighted_groups, [weight for weight, _ in weighted_groups])[0]
    return generator.choice(tokens)
