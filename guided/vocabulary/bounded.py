"""Tokenizers with more tokens than the model has logits.

The tokenizers of some checkpoints have added tokens for which the model has neither embeddings nor logits, such as
`<image_soft_token>` in text-only Gemma 3 models. The same holds for tokens that were added for a fine-tune without
resizing its embeddings. Such tokens can neither be read nor generated.
"""

from __future__ import annotations

from guided.errors import VocabularyError, brief
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["fit_to_logits"]


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
    added_tokens = {marker.encode() for marker in vocabulary.text_markers}
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
