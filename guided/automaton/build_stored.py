"""Compiles stored grammars with the native core, which reads the tables itself, without objects of the IR.

In: the tables of a file (`frontends/stored/tables.py`). Out: the core's compiled grammar, with the names and schemas
that its users need; or None if the core rejects a table because it is malformed, has rare parts such as captures, or
cannot be compiled. Then the caller reads the IR and compiles it, which also raises all errors.

The core makes the same checks as the other readers, so it accepts no bytes that they reject. This module reads the
leaf rows that need Python: schemas, `OtherTokens`, `Substrings`, and tokens whose name has several ids.

Cost: about a tenth of reading the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

from guided.automaton import _core
from guided.automaton.build import GrammarBuilder, Target
from guided.automaton.native_encodings import native_encoding
from guided.errors import GuidedError
from guided.frontends.stored import Tables
from guided.ir.embedded import EmbeddedSchema
from guided.ir.encodings import UTF8
from guided.ir.nodes import Grammar
from guided.limits import Limits
from guided.meter import limit_compilation, seconds_left, spend

__all__ = ["CompiledTable", "compile_stored"]

_REFUSALS = (GuidedError, LookupError, OverflowError, TypeError, ValueError)
_NativeLimits: TypeAlias = tuple[int, float, int, int, int]


@dataclass(frozen=True, slots=True)
class CompiledTable:
    """The compiled grammar of one table.

    Attributes:
        native: the core's grammar.
        start: the name of the start rule.
        rules: the names of all rules.
        origins, schemas: as in `Grammar`.
    """

    native: _core.Compiled
    start: str
    rules: Sequence[str]
    origins: dict[str, str]
    schemas: Mapping[str, EmbeddedSchema]


def compile_stored(tables: Tables, number: int, target: Target, limits: Limits) -> CompiledTable | None:
    """Compile the grammar of table `number`. None if the IR must be read instead."""
    return _TableCompiler(tables, target, limits).compile(number)


@dataclass(frozen=True, slots=True)
class _TableCompiler:
    """Compiles the tables of a file."""

    tables: Tables
    target: Target
    limits: Limits

    def compile(self, number: int, prefix: str = "") -> CompiledTable | None:
        try:
            tables = self.tables
            table = _core.StoredTable(
                tables.tables[number], tables.texts, number, len(tables.tables), self.limits.nodes
            )
            spend(len(table))
            read_row, origins = tables.row_reader(number), table.origins
            embedded = {row: read_row(row) for row in table.embedded}
            schemas = {name: embedded[row] for name, row in table.schemas}
            if table.has_lexer:
                native: _core.Compiled = table.compile_lexer(
                    native_encoding(UTF8), self.target.vocabulary, self._native_limits()
                )
            else:
                native = self._compile_rules(table, read_row, origins, prefix)
        except _REFUSALS:
            return None
        return CompiledTable(native, table.start, table.rules, origins, schemas)

    def _native_limits(self) -> _NativeLimits:
        limits = self.limits
        return limits.states, seconds_left(limits.seconds), limits.memory, limits.work, limits.call_work

    def _compile_rules(
        self, table: _core.StoredTable, read_row: Callable[[int], Any], origins: dict[str, str], prefix: str
    ) -> _core.CompiledRules:
        builder, target, later = GrammarBuilder(Grammar({}), self.target, self.limits), self.target, table.later
        digests = [blake2b(bytes.fromhex(content), digest_size=16).digest() for _, content, _, _ in later]
        return table.compile_rules(
            builder.builder, native_encoding(UTF8), lambda row: builder.add_checked(read_row(row)), target.vocabulary,
            target.special_ids, sorted(target.end_tokens), self._native_limits(), prefix, digests,
            self._later_compiler(later, origins) if later else None,
        )  # fmt: skip

    def _later_compiler(
        self, later: Sequence[tuple[str, str, int, int]], origins: dict[str, str]
    ) -> Callable[[Sequence[int]], list[_core.CompiledRules]]:
        """Like `GrammarBuilder._later_compiler`, but the deferred rules are in other tables."""

        def compile_later(numbers: Sequence[int]) -> list[_core.CompiledRules]:
            return [self._compile_later(rule, table, origins) for rule, _, _, table in map(later.__getitem__, numbers)]

        return compile_later

    def _compile_later(self, rule: str, number: int, origins: dict[str, str]) -> _core.CompiledRules:
        prefix = f"{rule}: "
        with limit_compilation(self.limits, work=False):
            table = self.compile(number, prefix)
            if table is not None and isinstance(table.native, _core.CompiledRules):
                origins.update({prefix + name: table.origins.get(name, name) for name in table.rules})
                return table.native
            grammar = self.tables.read(number)
            origins.update({prefix + name: grammar.origins.get(name, name) for name in grammar.rules})
            return GrammarBuilder(grammar, self.target, self.limits).compile(prefix)
