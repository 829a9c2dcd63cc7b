"""A specification compiled for one vocabulary. A compiler creates it; matchers and threads share it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakKeyDictionary

from guided.automaton import _core
from guided.errors import Finding
from guided.ir import Grammar
from guided.ir.nodes import Region
from guided.limits import Limits
from guided.matching.regions.annotated_grammar import AnnotatedGrammar
from guided.vocabulary import Vocabulary

__all__ = ["CompiledGrammar", "native_vocabulary", "text_ids"]

_TABLE_BYTES: Final = 48 * 1024 * 1024
NO_REGIONS: Final[Mapping[str, Region]] = MappingProxyType({})
_natives: WeakKeyDictionary[Vocabulary, _core.TokenVocabulary] = WeakKeyDictionary()
_natives_lock = threading.Lock()


def native_vocabulary(vocabulary: Vocabulary) -> _core.TokenVocabulary:
    """The core's view of a vocabulary (its trie), built on the first call."""
    with _natives_lock:
        native = _natives.get(vocabulary)
        if native is None:
            native = _core.TokenVocabulary(
                vocabulary.tokens, sorted(vocabulary.eos_token_ids), vocabulary.size, _TABLE_BYTES
            )
            _natives[vocabulary] = native
        return native


def text_ids(vocabulary: Vocabulary) -> frozenset[int]:
    """The ids of the tokens that have text."""
    without = vocabulary.eos_token_ids | vocabulary.special_tokens.keys()
    return frozenset(id for id, data in enumerate(vocabulary.tokens) if data and id not in without)


class CompiledGrammar:
    """A specification compiled for a vocabulary. Immutable; shared by matchers and threads.

    Attributes:
        vocabulary: the vocabulary it was compiled for.
        kind: "json_schema", "regex", "gbnf", "lark", "structural_tag", "choice", "pattern", "type", "expr" or
            "grammar".
        source: the specification as given.
        origins: rule of the grammar -> the part of the specification that it represents, for explanations. The rules
            themselves are not stored.
        grammar: the IR, computed again on each access.
        native: the core's compiled grammar, with `positions`, `states`, `bytes` for measurements.
        findings: parts of the specification that are not enforced. Each compilation warns about them, cached or not.
        regions: rule -> the captures and temperatures of its texts.
    """

    __slots__ = (
        "_annotated_grammar", "_limits", "_read", "findings", "kind", "native", "origins", "regions", "source",
        "vocabulary",
    )  # fmt: skip

    def __init__(
        self,
        native: _core.Compiled,
        vocabulary: Vocabulary,
        origins: Mapping[str, str],
        kind: str,
        source: Any,
        read: Callable[[], Grammar],
        findings: Sequence[Finding] = (),
        regions: Mapping[str, Region] = NO_REGIONS,
        limits: Limits | None = None,
    ) -> None:
        self._read, self._limits, self.regions = read, limits or Limits(), regions
        self._annotated_grammar: AnnotatedGrammar | None = None
        self.native, self.vocabulary, self.origins, self.kind, self.source = native, vocabulary, origins, kind, source
        self.findings = tuple(findings)

    @property
    def grammar(self) -> Grammar:
        """The IR of the specification.

        Raises:
            SpecError: the specification is a schema that has changed since the compilation.
        """
        return self._read()

    @property
    def limits(self) -> Limits:
        """The limits of its compilation."""
        return self._limits

    @property
    def annotated(self) -> AnnotatedGrammar:
        """The grammar with marks around its regions, compiled on the first call.

        Raises:
            LimitExceeded: the grammar with marks is too large.
        """
        if self._annotated_grammar is None:
            counts_tokens = isinstance(self.native, _core.CompiledRules) and self.native.limits_tokens
            self._annotated_grammar = AnnotatedGrammar(
                self._read(), self.vocabulary, lambda: text_ids(self.vocabulary), counts_tokens, self._limits
            )
        return self._annotated_grammar

    def __repr__(self) -> str:
        return f"CompiledGrammar({self.kind}, {self.native.positions} positions)"
