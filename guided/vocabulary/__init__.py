"""Vocabularies: what each token id of a model spells, read from the tokenizers that models come with."""

from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
