"""Tokenizers with more tokens than the model has logits.

The tokenizers of some checkpoints have added tokens for which the model has neither embeddings nor logits, such as
`<image_soft_token>` in text-only Gemma 3 models. The same holds for tokens that were added for a fine-tune without
resizing its embeddings. Such tokens can neither be read nor generated. `fit_to_logits` removes them from a vocabulary,
and `BoundedEncoder` refuses texts that contain them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guided.errors import VocabularyError, brief

if TYPE_CHECKING:
    from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["BoundedEncoder", "first_base_token", "fit_to_logits"]


class BoundedEncoder:
    """Encodes text as `vocabulary` does, but raises an error for ids from `size` on.

    `with_special`: names of special tokens become these tokens.
    """

    def __init__(self, vocabulary: Vocabulary, size: int, *, with_special: bool = False) -> None:
        self._vocabulary, self._size, self._with_special = vocabulary, size, with_special

    def encode(self, text: str, continued: bool = False) -> list[int]:
        """The ids of `text`. Raises VocabularyError if one of them has no logit."""
        vocabulary = self._vocabulary
        ids = (
            vocabulary.encode_with_special(text) if self._with_special else vocabulary.encode(text, continued=continued)
        )
        if (id := max(ids, default=-1)) >= self._size:
            name = vocabulary.special_tokens.get(id) or vocabulary.decode([id]).decode(errors="replace")
            raise VocabularyError(
                f"the text contains the token {brief(name, 60)} (id {id}), but the model has only {self._size} logits "
                "and embeddings: leave this token out"
            )
        return ids


def first_base_token(vocabulary: Vocabulary, start: int) -> int | None:
    """The first id from `start` on whose token has text and was not added to the tokenizer's own tokens."""
    added_tokens = _added_tokens(vocabulary) | {None}
    ids = range(start, len(vocabulary.tokens))
    return next((id for id in ids if vocabulary.tokens[id] not in added_tokens), None)


def _added_tokens(vocabulary: Vocabulary) -> set[bytes | None]:
    return {marker.encode() for marker in vocabulary.text_markers}


def fit_to_logits(vocabulary: Vocabulary, logits: int) -> Vocabulary:
    """The vocabulary without the added tokens that have no logits; the same vocabulary if there are none.

    Args:
        logits: the number of the model's logits.

    Raises:
        VocabularyError: the tokenizer belongs to another model: an id without a logit is not an added token, or no end
            token has a logit.
    """
    if vocabulary.size <= logits:
        return vocabulary
    reason = f"the tokenizer has {vocabulary.size} tokens, but the model has logits for only {logits}"
    added_tokens = _added_tokens(vocabulary)
    for id in range(logits, vocabulary.size):
        token = vocabulary.token_bytes(id)
        if id not in vocabulary.special_tokens and token not in added_tokens:
            description = f"token {id} ({brief(token, 60)}) is not an added token"
            raise VocabularyError(f"{reason}, and {description}: the tokenizer belongs to another model")
    end_ids = {id for id in vocabulary.eos_token_ids if id < logits}
    if vocabulary.eos_token_ids and not end_ids:
        missing_ids = brief(sorted(vocabulary.eos_token_ids), 60)
        raise VocabularyError(
            f"{reason}, and none for the end tokens {missing_ids}: the tokenizer belongs to another model"
        )
    return vocabulary.copy_with(eos_token_ids=end_ids or None, size=logits)
