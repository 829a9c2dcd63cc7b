"""Writes grammars as tables of integers, and reads them.

In: grammars of the IR. Out: one table for each grammar, and the texts and JSON values of all of them; or the reverse.

A table has a row for each object (`layout.py`), children before their parents. The last row is the grammar. An object
that occurs several times has one row. Equal objects share a row, too, and the reader refuses a table in which two rows
are equal. So the objects of different rows are never equal. Without this rule, comparing two objects that share most of
their parts could take exponential time.

A deferred rule has its own table, which is read when the rule is entered. This table has a larger number than the table
that refers to it, so the references form no cycle.

The core reads tables, too, without creating objects (`automaton/build_stored.py`). All other code that
needs the nodes uses this reader. So does the core's caller if the core refuses a table.

Cost: linear; reading takes about 1.5 us for each node.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, Final, TypeAlias

from guided.errors import LimitExceeded, SpecError
from guided.frontends.stored.fields import malformed
from guided.frontends.stored.layout import CLASS_NUMBERS, FIELDS, LAYOUT
from guided.ir.nodes import Automaton, Grammar
from guided.ir.serial import ByIdentity
from guided.limits import Limits
from guided.meter import spend

__all__ = ["Tables", "TablesWriter", "check_json", "from_little_endian", "to_json_text", "to_little_endian"]

_ROWS_PER_CHECK: Final = 256  # rows between two checks of the limits
_RowReader: TypeAlias = tuple[Any, tuple[tuple[Callable[..., Any], Callable[..., Any]], ...]]
_SCALAR_TYPES: Final = frozenset((str, int, float, bool, type(None)))


class TablesWriter:
    """Writes grammars as tables, and collects the tables, their texts and their values.

    Attributes:
        tables: the integers of each table.
        texts: all texts.
        values: the JSON text of each value.
    """

    def __init__(self) -> None:
        self.tables: list[array[int]] = []
        self.texts: dict[str, int] = {}
        self.values: dict[str, int] = {}
        self._known_values: ByIdentity[Any, int] = ByIdentity()
        self._rows: dict[tuple[int, ...], int] = {}
        self._numbers: ByIdentity[Any, int] = ByIdentity()
        self._deferred_reads: list[Callable[[], Grammar]] = []

    def add(self, grammar: Grammar) -> int:
        """Add a table, and the tables of its deferred rules. Returns its number.

        Raises:
            SpecError: a part of the grammar cannot be stored.
        """
        first_number = len(self.tables)
        pending_reads: list[Callable[[], Grammar]] = [partial(_return_grammar, grammar)]
        for index, read in enumerate(pending_reads):  # grows during the loop
            self._deferred_reads, self._first_deferred_number = [], first_number + len(pending_reads)
            self.tables.append(self._write_table(read()))
            assert len(self.tables) == first_number + index + 1
            pending_reads += self._deferred_reads
        return first_number

    def entry_number(self, entry: Any) -> int:
        """The number of the row of an object that has been written."""
        return self._numbers[entry]

    def text_number(self, text: str) -> int:
        """The number of a text."""
        return self.texts.setdefault(text, len(self.texts))

    def value_number(self, value: Any) -> int:
        """The number of a JSON value. Raises SpecError unless it is plain JSON, which reading restores."""
        number = self._known_values.get(value)
        if number is None:
            number = self._known_values[value] = self.values.setdefault(to_json_text(value), len(self.values))
        return number

    def deferred_table_number(self, read: Callable[[], Grammar]) -> int:
        """The number of the table of a deferred rule, whose grammar `read` returns."""
        self._deferred_reads.append(read)
        return self._first_deferred_number + len(self._deferred_reads) - 1

    def _write_table(self, grammar: Grammar) -> array[int]:
        """The rows of a table, children before parents. Uses a stack instead of recursion."""
        self._rows, self._numbers = {}, ByIdentity()
        stack: list[tuple[Any, bool]] = [(grammar, False)]
        while stack:
            entry, is_ready = stack.pop()
            if entry in self._numbers:
                continue
            fields = FIELDS.get(type(entry))
            if fields is None:
                raise SpecError(f"a {type(entry).__name__} cannot be stored")
            if is_ready:
                self._write_row(entry)
                continue
            stack.append((entry, True))
            for name, field in fields:
                stack += [(child, False) for child in field.parts(getattr(entry, name))]
        try:
            return array("I", chain.from_iterable(self._rows))
        except (OverflowError, TypeError) as error:
            raise SpecError(f"a number of a node cannot be stored: {error}") from None

    def _write_row(self, entry: Any) -> None:
        row = [CLASS_NUMBERS[type(entry)]]
        for name, field in FIELDS[type(entry)]:
            field.write(getattr(entry, name), row, self)
        self._numbers[entry] = self._rows.setdefault(tuple(row), len(self._rows))


class Tables:
    """The tables of a file. Grammars are read when they are needed.

    Args:
        tables: the integers of each table, as little-endian words of four bytes.
        texts, values: the texts and JSON values, each once.
        limits: `nodes` bounds the rows of each table, `seconds` the time.

    Attributes:
        tables, texts: see `Args`.
    """

    def __init__(self, tables: Sequence[bytes], texts: Sequence[str], values: list[Any], limits: Limits) -> None:
        if not set(map(type, texts)) <= {str} or len(set(texts)) != len(texts):
            raise malformed("a text occurs twice, or is not a string")
        self.tables, self.texts, self._values, self._limits = tables, tuple(texts), values, limits

    def read(self, number: int) -> Grammar:
        """The grammar of a table. Each call reads it again.

        Raises:
            SpecError: the table is malformed. LimitExceeded: it has too many rows.
        """
        try:
            return _TableReader(self, number, self._limits).read()
        except (LookupError, OverflowError, TypeError, ValueError) as error:
            raise malformed(f"{type(error).__name__} in a row") from error

    def row_reader(self, number: int) -> Callable[[int], Any]:
        """A function that reads the row at an offset of a table. The row must not refer to other rows."""
        return _TableReader(self, number, self._limits).read_row


@cache
def _row_readers() -> tuple[_RowReader, ...]:
    """Each class; for each of its fields, the function that reads it and the function that stores it in an object.

    The classes are frozen. Storing fields directly in their slots takes a third of the time that calling the class
    takes.
    """
    return tuple(
        (cls, tuple((field.read, cls.__dict__[name].__set__) for name, field in FIELDS[cls])) for cls, _ in LAYOUT
    )


class _TableReader:
    """Reads one table."""

    def __init__(self, tables: Tables, number: int, limits: Limits) -> None:
        self._tables, self._number, self._limits = tables, number, limits
        self.ints = from_little_endian(tables.tables[number])
        self.texts, self.values = tables.texts, tables._values
        self.entries: list[Any] = []
        self._row_readers = _row_readers()

    def deferred_table(self, number: int) -> Callable[[], Grammar]:
        """A function that reads another table."""
        if not self._number < number < len(self._tables.tables):
            raise malformed("a table refers to an earlier one")
        return partial(self._tables.read, number)

    def read(self) -> Grammar:
        """The grammar of the last row."""
        ints, entries, seen_rows, offset = self.ints, self.entries, set[bytes](), 0
        data, length = ints.tobytes(), len(ints)
        while offset < length:
            row_start = offset
            entry, offset = self._read_row(offset)
            entries.append(entry)
            seen_rows.add(data[4 * row_start : 4 * offset])
            if not len(entries) % _ROWS_PER_CHECK:
                self._check_limits()
        self._check_limits()
        if offset != len(ints) or len(seen_rows) != len(entries):
            raise malformed("a row occurs twice, or the last one is cut off")
        if not entries or type(entries[-1]) is not Grammar:
            raise malformed("there is no grammar")
        for entry in entries:
            if type(entry) is Grammar:
                _check_names(entry)
            elif type(entry) is Automaton:
                _check_states(entry)
        grammar: Grammar = entries[-1]
        return grammar

    def read_row(self, offset: int) -> Any:
        """The object of the row at an offset. The row must not refer to other rows."""
        return self._read_row(offset)[0]

    def _read_row(self, offset: int) -> tuple[Any, int]:
        """The object of the row at an offset, and the offset after the row."""
        cls, fields = self._row_readers[self.ints[offset]]
        entry = cls.__new__(cls)
        offset += 1
        for read, store in fields:
            value, offset = read(self, offset)
            store(entry, value)
        return entry, offset

    def _check_limits(self) -> None:
        spend(_ROWS_PER_CHECK)
        if len(self.entries) > self._limits.nodes:
            raise LimitExceeded("nodes", len(self.entries), self._limits.nodes)


def _check_states(automaton: Automaton) -> None:
    """Refuse an automaton that starts in a state that it lacks, or leads to one. Other Python code does not check this,
    and the core checks only the grammar that it compiles, not the one for explanations.
    """
    count = len(automaton.states)
    spend(count)
    if automaton.start >= count or any(to >= count for _, edges in automaton.states for _, _, to in edges):
        raise malformed("an automaton leads to a state that it lacks")


def _check_names(grammar: Grammar) -> None:
    """Refuse undefined names, since other code looks names up without a check. Front ends define all of them."""
    if any(name not in grammar.rules for name in (*grammar.regions, *grammar.later, *grammar.schemas)):
        raise malformed("it has data about a rule that is not defined")
    if grammar.lexer is None:
        return
    terminals = {terminal.name for terminal in grammar.lexer.terminals}
    indentation, marks = grammar.lexer.indentation, frozenset[str]().union(*grammar.lexer.contexts)
    names = terminals if indentation is None else terminals | {indentation.indent, indentation.dedent}
    if len(terminals) != len(grammar.lexer.terminals) or not marks.isdisjoint(names):
        raise malformed("two terminals or marks have the same name")
    keywords = {keyword.name for terminal in grammar.lexer.terminals for keyword in terminal.keywords}
    if not (keywords | grammar.lexer.ignored) <= terminals:
        raise malformed("a keyword or an ignored terminal is not defined")


def _return_grammar(grammar: Grammar) -> Grammar:
    return grammar


def to_little_endian(table: array[int]) -> bytes:
    """Integers as words of four bytes."""
    if sys.byteorder == "big":
        table = array("I", table)
        table.byteswap()
    return table.tobytes()


def from_little_endian(data: bytes) -> array[int]:
    """The integers of `to_little_endian`."""
    table = array("I", data)
    if sys.byteorder == "big":
        table.byteswap()
    return table


def to_json_text(value: Any) -> str:
    """The JSON text of a value, from which `json.loads` restores it with the same types.

    Raises:
        SpecError: the value has no such text.
    """
    check_json(value)
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):  # too deep, circular, or an integer with too many digits
        raise SpecError("a schema that nests deeply or has a huge integer cannot be stored") from None


def check_json(value: Any) -> None:
    """Raise SpecError unless a value consists of the types that `json.loads` returns."""
    pending, seen = [value], ByIdentity[Any, None]()
    for part in pending:  # grows during the loop
        if type(part) in (dict, list):
            if part in seen:
                continue
            seen[part] = None
        if type(part) is dict:
            if not all(type(key) is str for key in part):
                raise SpecError("a schema with keys that are not strings cannot be stored")
            pending += part.values()
        elif type(part) is list:
            pending += part
        elif type(part) not in _SCALAR_TYPES:
            raise SpecError(
                f"a schema with a {type(part).__name__} cannot be stored", hint="use the types of json.loads only"
            )
