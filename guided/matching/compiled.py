"""A specification compiled for one vocabulary. A compiler creates it; matchers and threads share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn, Self

from guided.automaton import _core
from guided.errors import Finding, GuidedError, LimitExceeded, warn_about
from guided.frontends.stored import malformed
from guided.ir import Grammar
from guided.ir.nodes import Region
from guided.limits import Limits
from guided.matching.gc_pause import gc_paused
from guided.matching.native import NativeCompiler, native_vocabulary, text_ids, vocabulary_digest
from guided.matching.regions.annotated_grammar import AnnotatedGrammar
from guided.matching.stored import LATER, StoredSpecification, read_specification, write_specification
from guided.meter import limit_compilation
from guided.vocabulary import Vocabulary

__all__ = ["CompiledGrammar", "native_vocabulary", "read_compiled", "text_ids"]

NO_REGIONS: Final[Mapping[str, Region]] = MappingProxyType({})


class CompiledGrammar:
    """A specification compiled for a vocabulary. Immutable; shared by matchers and threads.

    Attributes:
        vocabulary: the vocabulary it was compiled for.
        kind: "json_schema", "regex", "gbnf", "lark", "structural_tag", "choice", "pattern", "type", "expr" or
            "grammar".
        origins: rule of the grammar -> the part of the specification that it represents, for explanations. The rules
            themselves are not stored.
        grammar: the IR, computed again on each access.
        native: the core's compiled grammar, with `positions`, `states` and `memory_bytes` for measurements.
        findings: parts of the specification that are not enforced. Each compilation warns about them, cached or not.
        regions: rule -> the captures and temperatures of its texts.
    """

    __slots__ = (
        "_annotated_grammar", "_limits", "_read", "_read_first", "_source", "findings", "kind", "native", "origins",
        "regions", "vocabulary",
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
        read_first: Callable[[], Grammar] | None = None,
    ) -> None:
        """`read` reads the whole grammar. `read_first` reads the grammar that was compiled, if parts of the whole may
        be compiled later. If `source` is `stored.LATER`, the source is the grammar that `read` returns.
        """
        self._read_first = read_first or read
        self._read, self._limits, self.regions = read, limits or Limits(), regions
        self._annotated_grammar: AnnotatedGrammar | None = None
        self.native, self.vocabulary, self.origins, self.kind, self._source = native, vocabulary, origins, kind, source
        self.findings = tuple(findings)

    def __copy__(self) -> Self:
        duplicate = object.__new__(type(self))
        for name in CompiledGrammar.__slots__:
            setattr(duplicate, name, getattr(self, name))
        return duplicate

    def __deepcopy__(self, memo: object) -> Self:
        return self  # immutable

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a CompiledGrammar cannot be pickled: pickle its to_bytes(), and read them with CompiledGrammar.from_bytes"
        )

    @property
    def source(self) -> Any:
        """The specification as given."""
        if self._source is LATER:
            self._source = self._read()
        return self._source

    @property
    def grammar(self) -> Grammar:
        """The IR of the specification.

        Raises:
            SpecError: the specification is a schema that has changed since the compilation.
        """
        return self._read()

    def to_bytes(self) -> bytes:
        """Serialise this grammar for `from_bytes`. Only the version of guided that wrote the bytes can read them.

        The bytes contain the IR, so `from_bytes` does not read the specification again. They fit one vocabulary. A
        Python type is stored as its JSON Schema, and a composed specification as its IR: the grammar read from the
        bytes has these as its source, so outputs are parsed to JSON values rather than to values of the type.

        Cost: the specification is read again; then linear in the IR.

        Raises:
            SpecError: the specification is a schema that has changed since the compilation, or that contains
                values that `json.loads` cannot return.
        """
        digest = vocabulary_digest(self.vocabulary)
        with gc_paused(), limit_compilation(self._limits, work=False):
            first = self._read_first()
            read = None if self._read_first is self._read else self._read
            return write_specification(self.kind, self.source, self.findings, first, read, digest)

    @classmethod
    def from_bytes(cls, data: bytes, vocabulary: Vocabulary, *, limits: Limits | None = None) -> CompiledGrammar:
        """The grammar that `to_bytes` wrote. It has the same masks, explanations and captures, and the same findings.

        The bytes may come from anyone: they contain no code, are checked, and are compiled under `limits`. Forged bytes
        describe another grammar at worst.

        Args:
            data: the bytes.
            vocabulary: a vocabulary with the same tokens, end ids and special tokens.
            limits: bounds on the compilation and on the memory of the grammar's states.

        Raises:
            SpecError: the bytes are not a stored grammar, are damaged, or were written by another version of guided.
            VocabularyError: they were written for another vocabulary.
            UnsupportedError, LimitExceeded: as for a compilation.

        Warns:
            GuidedWarning: parts that are not enforced, as for a compilation.
        """
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(f"vocabulary must be a guided.Vocabulary, not a {type(vocabulary).__name__}")
        if limits is not None and not isinstance(limits, Limits):
            raise TypeError(f"limits must be guided.Limits, not a {type(limits).__name__}")
        compiled = read_compiled(data, NativeCompiler(vocabulary), limits or Limits())
        warn_about(compiled.findings)
        return compiled

    @property
    def limits(self) -> Limits:
        """The limits of its compilation."""
        return self._limits

    @property
    def annotated(self) -> AnnotatedGrammar:
        """The grammar with marks around its regions, compiled on first access.

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


def read_compiled(data: bytes, compiler: NativeCompiler, limits: Limits) -> CompiledGrammar:
    """The grammar that `CompiledGrammar.to_bytes` wrote. Raises the errors of `from_bytes`, but does not warn."""
    vocabulary = compiler.vocabulary
    with gc_paused(), limit_compilation(limits, work=False):
        stored = read_specification(data, vocabulary_digest(vocabulary), limits)
        table = compiler.compile_stored(stored.tables, stored.grammar_number, limits)
        if table is None:
            return _compile_from_ir(stored, compiler, limits)
        source = stored.source(table.start, table.schemas)
    return CompiledGrammar(
        table.native, vocabulary, table.origins, stored.kind, source, stored.read, stored.findings, NO_REGIONS,
        limits, stored.read_first)  # fmt: skip


def _compile_from_ir(stored: StoredSpecification, compiler: NativeCompiler, limits: Limits) -> CompiledGrammar:
    """Compile a stored specification from its IR objects, if the core cannot read its tables."""
    first = (stored.read_first or stored.read)()
    source = stored.source(first.start, first.schemas)
    try:
        native = compiler.compile(first, limits)
    except RecursionError:
        raise LimitExceeded("depth", 1000, 900, fixed=True) from None
    except (LookupError, OverflowError, TypeError, ValueError) as error:  # checks of the core and of its callers
        if isinstance(error, GuidedError):
            raise
        raise malformed(str(error)) from error
    return CompiledGrammar(
        native, compiler.vocabulary, first.origins, stored.kind, source, stored.read, stored.findings, first.regions,
        limits, stored.read_first)  # fmt: skip
