"""Compiles IR grammars for one vocabulary. Caches the results in memory and, with `cache_dir`, in a folder.

In: a key for the content of a specification, and functions that read it. Out: a compiled grammar. `GrammarCompiler`
adds a method for each kind of specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Final

from guided.automaton import _core
from guided.errors import (
    Finding,
    GuidedError,
    LimitExceeded,
    SpecError,
    UnsupportedError,
    VocabularyError,
    brief,
    warn_about,
)
from guided.frontends.common.end_tokens import EndTokenNamed
from guided.frontends.common.plain_values import content_of
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.lark.scan import find_token
from guided.frontends.stored import Tables
from guided.ir import Grammar
from guided.ir.release import free_entries
from guided.keywords import to_int
from guided.limits import Limits
from guided.matching.compiled import CompiledGrammar, read_compiled
from guided.matching.gc_pause import gc_paused
from guided.matching.grammar_cache import GrammarCache
from guided.matching.grammar_folder import GrammarFolder
from guided.matching.native import NativeCompiler, vocabulary_digest
from guided.matching.stored import write_specification
from guided.meter import limit_compilation
from guided.vocabulary import Vocabulary

__all__ = ["CachedCompiler", "NotCached"]

_WHY_EMPTY: Final = {
    "regex": "its parts contradict each other: check lookarounds, empty sets and lone surrogates",
    "json_schema": "its keywords contradict each other",
    "choice": "give at least one string without lone surrogates",
    "pattern": "give a class with characters",
    "lark": "look for rules that can never end, and for terminals that others shadow",
    "gbnf": "look for rules that can never end, and for empty character classes",
    "structural_tag": "look for contradictions: an end that is excluded, a schema that allows nothing",
    "expr": "look for parts that contradict each other, and for rules that can never end",
}
"""Kind of specification -> what to look for if it generates nothing."""


class NotCached(GuidedError):
    """A compiler with `finds_only` did not find a grammar."""


class CachedCompiler:
    """The base of `GrammarCompiler`, which documents the arguments.

    Attributes:
        finds_only: whether specifications that are not in the cache in memory raise `NotCached`.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        limits: Limits | None = None,
        cache_bytes: int = 64 << 20,
        warn: bool = True,
        cache_dir: str | PathLike[str] | None = None,
    ) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(f"vocabulary must be a guided.Vocabulary, not a {type(vocabulary).__name__}")
        if limits is not None and not isinstance(limits, Limits):
            raise TypeError(f"limits must be guided.Limits, not a {type(limits).__name__}")
        self.vocabulary = vocabulary
        self.limits = limits if limits is not None else Limits()
        cache_bytes = to_int(cache_bytes)
        if isinstance(cache_bytes, bool) or not isinstance(cache_bytes, int) or cache_bytes < 0:
            raise ValueError(f"cache_bytes must be an integer of at least 0, not {brief(cache_bytes)}")
        self.cache_bytes, self.warns, self.finds_only = cache_bytes, warn, False
        self._native = NativeCompiler(vocabulary)
        self.cache = GrammarCache(cache_bytes)
        self.folder = None if cache_dir is None else GrammarFolder(cache_dir)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.vocabulary!r})"

    def compile_grammar(self, grammar: Grammar) -> CompiledGrammar:
        """Compile a grammar given as IR."""
        native, ended = self._compile_ended(grammar)
        regions_and_limits = ended.regions, self.limits
        return CompiledGrammar(
            native, self.vocabulary, ended.origins, "grammar", grammar, lambda: ended, (), *regions_and_limits
        )

    def _to_native(self, grammar: Grammar) -> _core.Compiled:
        return self._native.compile(grammar, self.limits)

    def _compile_ended(self, grammar: Grammar) -> tuple[_core.Compiled, Grammar]:
        """Compile a grammar, whose outputs end at the end tokens that it names. Returns the grammar without them, too;
        if it names none, this is the same object.
        """
        try:
            return self._to_native(grammar), grammar
        except EndTokenNamed:
            if grammar.composed:
                raise
            ended = self._read_ended(lambda _: grammar, [])
        return self._to_native(ended), ended

    def _read_ended(self, read: Callable[[list[Finding]], Grammar], findings: list[Finding]) -> Grammar:
        """Read a grammar, and end its outputs at the end tokens that it names."""
        with limit_compilation(self.limits, work=False):
            return self._native.end_at_tokens(read(findings))

    def _compile(
        self,
        key: tuple[object, ...],
        source: object,
        read_source: Callable[[list[Finding]], Grammar],
        why_empty: Callable[[], object] = lambda: None,
        read_first: Callable[[list[Finding]], Grammar] | None = None,
        parts: Sequence[object] | None = (),
        find_tables: Callable[[], Tables | None] = lambda: None,
    ) -> CompiledGrammar:
        """Return the cached grammar, or compile the result of `read_source`. Warns about the findings in both cases.

        `why_empty` may raise a more precise error for a specification that allows nothing. `read_first` replaces
        `read_source` if some parts of the grammar are compiled later. `parts`: the values that the key contains only as
        their `repr`. If they are not plain JSON, or if `parts` is None because the key does not determine the content,
        the grammar is not stored in the folder. `find_tables` returns the tables of a grammar that comes with guided.
        """
        compiled = self._find_cached(key)
        if compiled is None:
            if self.finds_only:
                raise NotCached("the grammar is not in the cache")
            with gc_paused(), limit_compilation(self.limits, work=False):
                name = None if self.folder is None or parts is None else self._file_name(key, parts)
                compiled = None if name is None else self._find_stored(name, source)
                if compiled is None and (tables := find_tables()) is not None:
                    compiled = self._compile_tables(tables, key, source, read_source)
                if compiled is None:
                    compiled = self._compile_uncached(key, source, read_source, why_empty, read_first, name)
            self.cache.store(key, compiled)
        if self.warns:
            warn_about(compiled.findings)
        return compiled

    def _compile_with_fallback(
        self, compile_with: Callable[[JsonSchemaOptions], CompiledGrammar], options: JsonSchemaOptions
    ) -> CompiledGrammar:
        """Compile with `options`. If that fails, for example because the grammar is empty, allow all characters of
        classes, or all members, or both.

        If the specification itself is wrong, the last attempt raises the error.
        """
        attempts = [options]
        if options.classes == "plain":
            attempts.append(replace(options, classes="full"))
        if options.additional_properties == "minimal":
            attempts += [replace(attempt, additional_properties=None) for attempt in attempts]
        *earlier_attempts, last_attempt = attempts
        with limit_compilation(self.limits, work=False):  # all attempts together
            for attempt in earlier_attempts:
                try:
                    return compile_with(attempt)
                except (SpecError, UnsupportedError):
                    pass
            return compile_with(last_attempt)

    def _find_cached(self, key: tuple[object, ...]) -> CompiledGrammar | None:
        text = key[1]
        if isinstance(text, str) and len(text) > self.limits.spec_length:
            raise LimitExceeded("spec_length", len(text), self.limits.spec_length)
        return self.cache.find(key)

    def _compile_uncached(
        self,
        key: tuple[object, ...],
        source: object,
        read_source: Callable[[list[Finding]], Grammar],
        why_empty: Callable[[], object],
        read_first: Callable[[list[Finding]], Grammar] | None,
        name: str | None,
    ) -> CompiledGrammar:
        """Compile a specification, and store it in the folder if `name` is given."""
        findings: list[Finding] = []
        kind, grammar, data = str(key[0]), (read_first or read_source)(findings), None

        def make_reader(read_source: Callable[[list[Finding]], Grammar]) -> Callable[[], Grammar]:
            def read_unchanged() -> Grammar:
                is_json = kind in ("json_schema", "structural_tag") and not isinstance(source, str)
                if is_json and content_of(source) != key[1]:
                    raise SpecError("the schema has changed since it was compiled", hint="compile it again")
                return read_source([])

            return read_unchanged

        try:
            native, ended = self._compile_ended(grammar)
            if ended is not grammar:
                grammar, read_source = ended, partial(self._read_ended, read_source)
                read_first = read_first and partial(self._read_ended, read_first)
            if name is not None:
                read_whole = None if read_first is None else partial(read_source, [])
                data = self._to_bytes(kind, source, findings, grammar, read_whole)
        except SpecError as error:  # the grammar generates nothing
            why_empty()
            text = source if isinstance(source, str) else ""
            raise SpecError(error.message, text=text, span=(0, len(text)), hint=_WHY_EMPTY[kind]) from None
        except VocabularyError as error:
            if isinstance(source, str) and error.token is not None and (span := find_token(source, error.token)):
                error.with_location(source, span)
            raise
        finally:
            if kind == "json_schema":
                free_entries(grammar.rules)
        if data is not None and name is not None and self.folder is not None:
            self.folder.write(name, data)
        return CompiledGrammar(
            native, self.vocabulary, grammar.origins, kind, source, make_reader(read_source), findings, grammar.regions,
            self.limits, None if read_first is None else make_reader(read_first),
        )  # fmt: skip

    def _compile_tables(
        self, tables: Tables, key: tuple[object, ...], source: object, read_source: Callable[[list[Finding]], Grammar]
    ) -> CompiledGrammar | None:
        """Compile a grammar that comes with guided; None: the core does not read its table."""
        compiled = self._native.compile_stored(tables, 0, self.limits)
        if compiled is None:
            return None
        return CompiledGrammar(
            compiled.native,
            self.vocabulary,
            compiled.origins,
            str(key[0]),
            source,
            lambda: read_source([]),
            limits=self.limits,
        )

    def _file_name(self, key: tuple[object, ...], parts: Sequence[object]) -> str | None:
        """The name of a specification's file; None if the key does not determine the content."""
        assert self.folder is not None
        limits = self.limits  # limits on time and memory do not change a grammar
        bounds = (limits.spec_length, limits.depth, limits.nodes, limits.states, limits.work)
        return self.folder.name_of((*key, bounds), parts, vocabulary_digest(self.vocabulary))

    def _to_bytes(
        self,
        kind: str,
        source: object,
        findings: Sequence[Finding],
        first_grammar: Grammar,
        read_source: Callable[[], Grammar] | None,
    ) -> bytes | None:
        """The bytes of a specification; None if it cannot be stored."""
        try:
            digest = vocabulary_digest(self.vocabulary)
            return write_specification(kind, source, findings, first_grammar, read_source, digest)
        except GuidedError:
            return None

    def _find_stored(self, name: str, source: object) -> CompiledGrammar | None:
        """The grammar in a file of the folder, with the caller's source; None: there is no usable file."""
        assert self.folder is not None
        data = self.folder.read(name)
        if data is None:
            return None
        try:
            compiled = read_compiled(data, self._native, self.limits)
        except GuidedError:  # damaged, or written by another version: the caller writes it again
            return None
        compiled._source = source
        return compiled
