"""Converts tiktoken encodings, like `llguidance.tiktoken`."""

from __future__ import annotations

from typing import Any

from guided.compat.llguidance.tokenizer import LLTokenizer
from guided.errors import VocabularyError
from guided.vocabulary import Vocabulary

__all__ = ["lltokenizer_from_encoding"]


def lltokenizer_from_encoding(
    encoding: Any,
    *,
    n_vocab: int | None = None,
    eos_token: int | list[int] | None = None,
    slices: list[str] | None = None,
) -> LLTokenizer:
    """Build an `LLTokenizer` from a `tiktoken.Encoding`. For the other arguments, see `LLTokenizer`.

    ValueError: the encoding cannot be read.
    """
    eos = encoding.eot_token if eos_token is None else eos_token
    try:
        vocabulary = Vocabulary.from_tiktoken(encoding, eos_token_ids=[eos] if isinstance(eos, int) else eos)
    except VocabularyError as error:
        raise ValueError(f"error loading tokenizer: {error}") from error
    return LLTokenizer(vocabulary, n_vocab, eos)
