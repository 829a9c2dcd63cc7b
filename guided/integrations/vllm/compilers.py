"""Compilers for the model that vLLM serves. In: the tokenizer, and the end tokens of a request. Out: a compiler.

A grammar allows an end token only where the output may end, whatever the token's bytes are. So each set of end tokens
needs its own vocabulary. There are few such sets, and the most recently used vocabularies are cached. Creating a
vocabulary of 50,000 tokens takes 0.1 s, half of it when its first grammar is compiled.

vLLM uses the tokenizers of transformers or mistral-common. This module does not import vLLM.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from functools import cache
from typing import Any, Final

from guided.errors import VocabularyError
from guided.integrations.lru_cache import LruCache
from guided.limits import Limits
from guided.matching.compiler import GrammarCompiler
from guided.vocabulary import Vocabulary

__all__ = ["Compilers", "compilers_of", "get_byte_compiler", "read_vocabulary"]

_MAX_CACHED: Final = 8


def read_vocabulary(tokenizer: Any) -> Vocabulary:
    """The vocabulary of a vLLM tokenizer.

    Raises:
        VocabularyError: the tokenizer cannot be read, for example because its tokens have no fixed bytes.
    """
    if getattr(tokenizer, "IS_MISTRAL_TOKENIZER", False):
        end_ids, path = [tokenizer.eos_token_id], tokenizer.tokenizer.file_path
        if tokenizer.is_tekken:
            return Vocabulary.from_tekken(path, eos_token_ids=end_ids)
        return Vocabulary.from_sentencepiece(path, eos_token_ids=end_ids)
    return Vocabulary.from_huggingface(tokenizer)


class Compilers:
    """The compilers of one model, by the end tokens of requests. Thread-safe.

    Args:
        vocabulary: the model's tokens; its end tokens apply to requests that specify none.
        size: the number of logits. Tokens beyond it cannot be generated, and are left out.
        limits: the limits of each compilation.
    """

    def __init__(self, vocabulary: Vocabulary, size: int, limits: Limits | None = None) -> None:
        self.vocabulary, self.size, self.limits = vocabulary, size, limits
        self._lock = threading.Lock()
        self._compilers = LruCache[frozenset[int], GrammarCompiler](_MAX_CACHED)

    def compiler_for_ends(self, end_token_ids: Collection[int] | None = None) -> GrammarCompiler:
        """The compiler for grammars that end with one of these tokens. None or empty: the tokenizer's own end tokens.

        Raises:
            VocabularyError: the model has no logit for any of the end tokens.
        """
        end_ids = frozenset(id for id in end_token_ids or self.vocabulary.eos_token_ids if 0 <= id < self.size)
        if not end_ids:
            raise VocabularyError(f"none of the end tokens {sorted(end_token_ids or ())} is below {self.size}")
        with self._lock:
            compiler: GrammarCompiler | None = self._compilers.get(end_ids)
            if compiler is None:
                vocabulary = self.vocabulary.copy_with(eos_token_ids=end_ids, size=self.size)
                compiler = self._compilers[end_ids] = GrammarCompiler(vocabulary, limits=self.limits)
            return compiler


_by_tokenizer = LruCache[int, tuple[Any, Compilers]](_MAX_CACHED)
_lock = threading.Lock()


def compilers_of(tokenizer: Any, size: int, limits: Limits | None = None) -> Compilers:
    """The compilers of a tokenizer, created on the first call.

    Raises:
        VocabularyError: see `read_vocabulary`.
    """
    with _lock:
        cached_tokenizer, cached_compilers = _by_tokenizer.get(id(tokenizer), (None, None))
        compilers: Compilers | None = cached_compilers
        if (
            cached_tokenizer is not tokenizer
            or compilers is None
            or (compilers.size, compilers.limits) != (size, limits)
        ):
            compilers = Compilers(read_vocabulary(tokenizer), size, limits)
            _by_tokenizer[id(tokenizer)] = (tokenizer, compilers)
        return compilers


@cache
def get_byte_compiler() -> GrammarCompiler:
    """A compiler whose tokens are the single bytes. A specification that it refuses is invalid for every tokenizer.

    It has no control tokens. So if it raises a VocabularyError, the model's own vocabulary may have the token.
    """
    return GrammarCompiler(Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))
