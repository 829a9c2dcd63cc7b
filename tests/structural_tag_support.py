"""Shared by the tests of structural tags: vocabularies, whether a text is accepted, and random texts."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.vocabulary import Vocabulary

END = 256


@cache
def byte_compiler() -> GrammarCompiler:
    """Tokens are the bytes, and an end token."""
    return GrammarCompiler(Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[END]))


@cache
def compiler_with(*names: str) -> GrammarCompiler:
    """Tokens are the bytes, an end token, and these control tokens."""
    special = {END + 1 + number: name for number, name in enumerate(names)}
    tokens = [bytes([byte]) for byte in range(256)]
    size = END + 1 + len(names)
    return GrammarCompiler(Vocabulary(tokens, eos_token_ids=[END], special_tokens=special, size=size))


def of_format(form: Mapping[str, Any]) -> dict[str, Any]:
    """The structural tag with this format."""
    return {"type": "structural_tag", "format": form}


def ids_of(compiler: GrammarCompiler, text: str) -> list[int]:
    """The tokens of a text, in which names of control tokens stand for these tokens."""
    special = {name: id for id, name in compiler.vocabulary.special_tokens.items()}
    if not special:
        return list(text.encode())
    out: list[int] = []
    for piece in re.split(f"({'|'.join(map(re.escape, special))})", text):
        out += [special[piece]] if piece in special else piece.encode()
    return out


def accepts(grammar: CompiledGrammar, ids: list[int]) -> bool:
    """Whether these tokens and then the end are accepted."""
    matcher = GrammarMatcher(grammar)
    return all(map(matcher.accept_token, ids)) and matcher.accept_token(END)


def walk(compiler: GrammarCompiler, grammar: CompiledGrammar, source: random.Random, budget: int) -> list[str]:
    """A random text of the grammar, in pieces: each control token is a piece (its name), and so is each text between
    them.
    """
    matcher = GrammarMatcher(grammar)
    mask = allocate_token_bitmask(1, compiler.vocabulary.size)
    pieces: list[bytes | str] = [b""]
    budget = max(budget, matcher.min_tokens_to_finish() + 5)
    for left in range(budget, 0, -1):
        matcher.fill_next_token_bitmask(mask, max_tokens=left)
        allowed = allowed_tokens(mask)
        printable = [id for id in allowed if 32 <= id < 127 or id > END]
        rare = [id for id in allowed if id > END]
        token = source.choice(rare if rare and source.random() < 0.3 else printable or allowed)
        if END in allowed and source.random() < 0.2:
            token = END
        assert matcher.accept_token(token)
        if token == END:
            break
        name = compiler.vocabulary.special_tokens.get(token)
        last = pieces[-1]
        if name is not None:
            pieces += [name, b""]
        else:
            assert isinstance(last, bytes)
            pieces[-1] = last + bytes([token])
    assert token == END
    return [piece.decode() if isinstance(piece, bytes) else piece for piece in pieces if piece]
