"""Vocabularies: the bytes of each token id of a model, read from the model's tokenizer."""

from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
