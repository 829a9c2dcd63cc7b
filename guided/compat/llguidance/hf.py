"""Converts Hugging Face tokenizers, like `llguidance.hf`. This module does not import transformers."""

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
    """Build an `LLTokenizer` from a fast transformers tokenizer.

    Args:
        n_vocab: the number of logits, if there are more logits than tokens.
        eos_token: the end token or tokens, instead of the tokenizer's.
        slices: ignored.

    Raises:
        ValueError: it is not a fast tokenizer, or the bytes of its tokens depend on their neighbours.
    """
    if not hasattr(hf_tokenizer, "backend_tokenizer"):
        raise ValueError("Only fast tokenizers are supported")
    eos = hf_tokenizer.eos_token_id if eos_token is None else eos_token
    try:
        end_ids = None if eos is None else [eos] if isinstance(eos, int) else eos
        vocabulary = Vocabulary.from_huggingface(hf_tokenizer, eos_token_ids=end_ids)
    except VocabularyError as error:
        raise ValueError(f"error loading tokenizer: {error}") from error
    return LLTokenizer(vocabulary, n_vocab, eos)
