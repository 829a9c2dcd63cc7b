"""Writes grammars as tables of integers, and reads them.

In: grammars of the IR. Out: one table for each grammar, and the texts and JSON values of all of them; or the reverse.

A table has a row for each object (`layout.py`), children before their parents. The last row is the grammar. An object
that occurs several times has one row. Equal objects share a row, too, and the reader refuses a table in which two rows
are equal. So objects of different rows are never equal. Otherwise, comparing two objects that share most of their parts
could take exponential time.

A rule that is compiled later has its own table, which is read when the rule is entered. The number of this table is
larger than the number of the table that refers to it, so the references form no cycle.

The core reads tables, too, without creating objects (`automaton/build_stored.py`). All other code that
needs the nodes uses this reader, and so do all errors.

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
from guided.frontends.stored.layout import FIELDS, LAYOUT, NUMBERS
from guided.ir.nodes import Grammar
from guided.ir.serial import ByIdentity
from guided.limits import Limits
from guided.meter import spend

__all__ = ["Tables", "TablesWriter", "check_json", "from_little_endian", "json_text", "to_little_endian"]

_ROWS_PER_CHECK: Final = 256  # rows between two checks of the limits
_Row: TypeAlias = tuple[Any, tuple[tuple[Callable[..., Any], Callable[..., Any]], ...]]
_PLAIN: Final = frozenset((str, int, float, bool, type(None)))


class TablesWriter:
    """Collects tables.

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
        self._deferred: list[Callable[[], Grammar]] = []

    def add(self, grammar: Grammar) -> int:
        """Add a table, and the tables of its deferred rules. Returns its number.

        Raises:
            SpecError: a part of the grammar cannot be stored.
        """
        first = len(self.tables)
        waiting: list[Callable[[], Grammar]] = [partial(_identity, grammar)]
        for at, read in enumerate(waiting):  # grows during the loop
            self._deferred, self._first_deferred = [], first + len(waiting)
            self.tables.append(self._table(read()))
            assert len(self.tables) == first + at + 1
            waiting += self._deferred
        return first

    def entry(self, part: Any) -> int:
        """The row of an object that was written before."""
        return self._numbers[part]

    def text(self, text: str) -> int:
        """The number of a text."""
        return self.texts.setdefault(text, len(self.texts))

    def value(self, value: Any) -> int:
        """The number of a JSON value. Raises SpecError if it is not plain JSON: it could not be read again."""
        number = self._known_values.get(value)
        if number is None:
            number = self._known_values[value] = self.values.setdefault(json_text(value), len(self.values))
        return number

    def deferred_table(self, read: Callable[[], Grammar]) -> int:
        """The number of a table that is read later."""
        self._deferred.append(read)
        return self._first_deferred + len(self._deferred) - 1

    def _table(self, grammar: Grammar) -> array[int]:
        """The rows, in the order in which the objects are completed. Uses a stack instead of recursion."""
        self._rows, self._numbers = {}, ByIdentity()
        stack: list[tuple[Any, bool]] = [(grammar, False)]
        while stack:
            part, is_ready = stack.pop()
            if part in self._numbers:
                continue
            fields = FIELDS.get(type(part))
            if fields is None:
                raise SpecError(f"a {type(part).__name__} cannot be stored")
            if is_ready:
                self._write(part)
                continue
            stack.append((part, True))
            for name, field in fields:
                stack += [(child, False) for child in field.parts(getattr(part, name))]
        try:
            return array("I", chain.from_iterable(self._rows))
        except (OverflowError, TypeError) as error:
            raise SpecError(f"a number of a node cannot be stored: {error}") from None

    def _write(self, part: Any) -> None:
        row = [NUMBERS[type(part)]]
        for name, field in FIELDS[type(part)]:
            field.write(getattr(part, name), row, self)
        self._numbers[part] = self._rows.setdefault(tuple(row), len(self._rows))


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
        """A function that reads the row at a position of a table. The row refers to no other row."""
        return _TableReader(self, number, self._limits).read_row


@cache
def _row_readers() -> tuple[_Row, ...]:
    """Each class, and for each field the function that reads it and the function that stores it in an object.

    The classes are frozen. Storing fields directly in their slots takes a third of the time of calling the class.
    """
    return tuple(
        (cls, tuple((field.read, cls.__dict__[name].__set__) for name, field in FIELDS[cls])) for cls, _ in LAYOUT
    )


class _TableReader:
    """Reads one table."""

    def __init__(self, tables: Tables, number: int, limits: Limits) -> None:
        self._all, self._number, self._limits = tables, number, limits
        self.ints = from_little_endian(tables.tables[number])
        self.texts, self.values = tables.texts, tables._values
        self.entries: list[Any] = []
        self._rows = _row_readers()

    def deferred_table(self, number: int) -> Callable[[], Grammar]:
        """A function that reads another table."""
        if not self._number < number < len(self._all.tables):
            raise malformed("a table refers to an earlier one")
        return partial(self._all.read, number)

    def read(self) -> Grammar:
        """The grammar of the last row."""
        ints, entries, seen, at = self.ints, self.entries, set[bytes](), 0
        data, size = ints.tobytes(), len(ints)
        while at < size:
            begin = at
            entry, at = self._read_row(at)
            entries.append(entry)
            seen.add(data[4 * begin : 4 * at])
            if not len(entries) % _ROWS_PER_CHECK:
                self._check()
        self._check()
        if at != len(ints) or len(seen) != len(entries):
            raise malformed("a row occurs twice, or the last one is cut off")
        if not entries or type(entries[-1]) is not Grammar:
            raise malformed("there is no grammar")
        for entry in entries:
            if type(entry) is Grammar:
                _check_names(entry)
        grammar: Grammar = entries[-1]
        return grammar

    def read_row(self, at: int) -> Any:
        """The object of the row at a position. It refers to no other row."""
        return self._read_row(at)[0]

    def _read_row(self, at: int) -> tuple[Any, int]:
        """The object of the row at a position, and the position after it."""
        cls, fields = self._rows[self.ints[at]]
        entry = cls.__new__(cls)
        at += 1
        for read, store in fields:
            value, at = read(self, at)
            store(entry, value)
        return entry, at

    def _check(self) -> None:
        spend(_ROWS_PER_CHECK)
        if len(self.entries) > self._limits.nodes:
            raise LimitExceeded("nodes", len(self.entries), self._limits.nodes)


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


def _identity(grammar: Grammar) -> Grammar:
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


def json_text(value: Any) -> str:
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
        elif type(part) not in _PLAIN:
            raise SpecError(
                f"a schema with a {type(part).__name__} cannot be stored", hint="use the types of json.loads only"
            )
