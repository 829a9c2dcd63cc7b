"""Builds the core's view of a vocabulary, and compiles IR for it.

In: a vocabulary, and grammars of the IR. Out: the core's compiled grammars. Data that all grammars of a vocabulary
share is computed once.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from hashlib import blake2b
from typing import Final
from weakref import WeakKeyDictionary

from guided.automaton import _core
from guided.automaton.build import Target, compile_native
from guided.automaton.build_composed import compile_composed
from guided.automaton.build_lexer import compile_lexed
from guided.automaton.build_stored import CompiledTable, compile_stored
from guided.errors import VocabularyError
from guided.frontends.common.end_tokens import end_at_tokens
from guided.frontends.common.left_recursion import check_regions
from guided.frontends.stored import Tables
from guided.ir import EMPTY, Alt, Grammar, Node, Special
from guided.ir.encodings import UTF8
from guided.ir.ranges import Ranges, charset, intersect, merge, union
from guided.limits import Limits
from guided.vocabulary import Vocabulary

__all__ = ["NativeCompiler", "native_vocabulary", "text_ids", "vocabulary_digest"]

_TABLE_BYTES: Final = 48 * 1024 * 1024
_NO_TEXT: Final = 0xFFFFFFFF
_native_vocabularies: WeakKeyDictionary[Vocabulary, _core.TokenVocabulary] = WeakKeyDictionary()
_native_vocabularies_lock = threading.Lock()
_digests: WeakKeyDictionary[Vocabulary, str] = WeakKeyDictionary()


def native_vocabulary(vocabulary: Vocabulary) -> _core.TokenVocabulary:
    """The core's view of a vocabulary (its trie), built on the first call."""
    with _native_vocabularies_lock:
        native = _native_vocabularies.get(vocabulary)
        if native is None:
            native = _core.TokenVocabulary(
                vocabulary.tokens, sorted(vocabulary.eos_token_ids), vocabulary.size, _TABLE_BYTES
            )
            _native_vocabularies[vocabulary] = native
        return native


def text_ids(vocabulary: Vocabulary) -> frozenset[int]:
    """The ids of the tokens that have text."""
    ids_without_text = vocabulary.eos_token_ids | vocabulary.special_tokens.keys()
    return frozenset(id for id, data in enumerate(vocabulary.tokens) if data and id not in ids_without_text)


def vocabulary_digest(vocabulary: Vocabulary) -> str:
    """A digest of everything on which compiled grammars depend: the tokens, the end ids, the names of special tokens.

    Cost: 15 ms for 128,000 tokens on the first call for a vocabulary.
    """
    digest = _digests.get(vocabulary)
    if digest is None:
        tokens = vocabulary.tokens
        lengths = array("I", [_NO_TEXT if data is None else len(data) for data in tokens])
        names = sorted(vocabulary.special_tokens.items())
        digest_state = blake2b(
            repr((vocabulary.size, sorted(vocabulary.eos_token_ids), names)).encode(), digest_size=20
        )
        digest_state.update(lengths.tobytes())
        digest_state.update(b"".join([data for data in tokens if data]))
        digest = _digests[vocabulary] = digest_state.hexdigest()
    return digest


class NativeCompiler:
    """Compiles IR for a vocabulary.

    Attributes:
        native: the core's view of the vocabulary.
        special_ids: the name of a special token -> its ids.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary, self.native = vocabulary, native_vocabulary(vocabulary)
        self.special_ids: dict[str, list[int]] = {}
        for token, name in vocabulary.special_tokens.items():
            self.special_ids.setdefault(name, []).append(token)
        known_text_ids = cache(lambda: text_ids(vocabulary))
        self._target = Target(self.native, self.special_ids, vocabulary.eos_token_ids, known_text_ids)

    def end_at_tokens(self, grammar: Grammar) -> Grammar:
        """A copy of a grammar that raised `EndTokenNamed`: outputs end at the end tokens that the grammar names.

        Raises:
            UnsupportedError: an end token is in a permutation, or in a part whose values must differ.
        """
        end_ids = self.vocabulary.eos_token_ids

        def without_ends(token: int | str) -> Node:
            ids = [token] if isinstance(token, int) else self.special_ids.get(token, [])
            other_ids = [number for number in ids if number not in end_ids]
            if len(other_ids) == len(ids):
                return Special(token)
            return Alt(tuple(map(Special, other_ids))) if other_ids else EMPTY

        return end_at_tokens(grammar, without_ends)

    def compile(self, grammar: Grammar, limits: Limits) -> _core.Compiled:
        """Compile a grammar of any kind: rules over bytes, with a lexer, or composed of such grammars.

        Raises:
            EndTokenNamed: it names a token that ends the output. If no part has a lexer, compile `end_at_tokens` of it.
            SpecError: it is malformed, or generates nothing. UnsupportedError: the core does not support a part.
            VocabularyError: the vocabulary lacks a token. LimitExceeded: it is too large.
        """
        check_regions(grammar)
        with _blame_specification():
            if isinstance(grammar, Grammar) and grammar.composed:
                return compile_composed(grammar, partial(self._compile_part, limits=limits), self.native, limits)
            return self._compile_part(grammar, limits)

    def _compile_part(self, grammar: Grammar, limits: Limits) -> _core.Compiled:
        if isinstance(grammar, Grammar) and grammar.lexer is not None:
            return compile_lexed(grammar, grammar.lexer, self.native, limits)
        return compile_native(grammar, self._target, limits)

    def find_alphabet(self) -> Ranges:
        """The characters whose bytes all occur in the vocabulary's tokens."""
        live_bytes = set(b"".join(filter(None, self.vocabulary.tokens)))
        out: list[Ranges] = []
        for form in UTF8.forms:
            ranges: Ranges = ((0, 0),)
            for digit in form.digits:
                values = [
                    span.value + (byte - span.low) * span.step
                    for span in digit
                    for byte in live_bytes.intersection(range(span.low, span.high + 1))
                ]
                steps = merge((value, value) for value in values)
                ranges = tuple((low + least, high + most) for low, high in ranges for least, most in steps)
            out.append(intersect(charset(ranges), form.ranges))
        return union(out)

    def compile_stored(self, tables: Tables, number: int, limits: Limits) -> CompiledTable | None:
        """Compile a stored grammar from its tables; None: the core cannot, so the caller must read its IR."""
        return compile_stored(tables, number, self._target, limits)


@contextmanager
def _blame_specification() -> Iterator[None]:
    """Mark a VocabularyError of this block as concerning the specification that is compiled."""
    try:
        yield
    except VocabularyError as error:
        error.concerns_specification = True
        raise
