"""Tokenizers of transformers, as in `llguidance.hf`. This module does not import transformers."""

from __future__ import annotations

from typing import Any

from guided.compat.llguidance.tokenizer import LLTokenizer
from guided.errors import VocabularyError
from guided.vocabulary import Vocabulary

__all__ = ["from_tokenizer"]


def from_tokenizer(
    hf_tokenizer: Any,
    n_vocab: int | None = None,
    eos_token: int | list[int] | None = None,
    slices: list[str] | None = None,
) -> LLTokenizer:
    """The `LLTokenizer` of a fast tokenizer of transformers.

    Args:
        n_vocab: the number of logits, if there are more logits than tokens.
        eos_token: the end token or tokens, instead of the tokenizer's.
        slices: ignored.

    Raises:
        ValueError: it is not a fast tokenizer, or its tokens do not have fixed bytes.
    """
    if not hasattr(hf_tokenizer, "backend_tokenizer"):
        raise ValueError("Only fast tokenizers are supported")
    ends = hf_tokenizer.eos_token_id if eos_token is None else eos_token
    try:
        end_ids = None if ends is None else [ends] if isinstance(ends, int) else ends
        vocabulary = Vocabulary.from_huggingface(hf_tokenizer, eos_token_ids=end_ids)
    except VocabularyError as error:
        raise ValueError(f"error loading tokenizer: {error}") from error
    return LLTokenizer(vocabulary, n_vocab, ends)
