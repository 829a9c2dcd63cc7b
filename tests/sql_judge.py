"""SQLite as a judge of SQL, and where it accepts more than `grammars/sql.lark`.

SQLite prepares a statement or returns a message. Some messages are about syntax errors. Very many others are about
valid syntax without a meaning, such as `SELECT a FROM b` if there is no b. `verdict` tells them apart. A message that
is in neither list is an error, so none is misjudged.

`RELAXED` lists constructs that only SQLite accepts, as changes of the grammar. If only SQLite accepts a text, a relaxed
grammar must generate it.
"""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from pathlib import Path
from typing import Final, Literal

from tests.lark_judge import reasons_of

GRAMMAR: Final = (Path(__file__).parent.parent / "grammars" / "sql.lark").read_text(encoding="utf-8")
SCHEMA: Final = """
CREATE TABLE plays (title TEXT PRIMARY KEY, kind TEXT, year INTEGER);
CREATE TABLE speeches (id INTEGER PRIMARY KEY, play TEXT REFERENCES plays, speaker TEXT, words TEXT);
CREATE TABLE customers (customer_name, address);
CREATE VIEW customer_address AS SELECT customer_name, address AS cust_addr FROM customers;
"""  # the last two are for the triggers of the samples
PIECES: Final = re.compile(r"""--[^\n]*|/\*.*?\*/|x?'(?:[^']|'')*'|"[^"]*"|`[^`]*`|\[[^]]*\]|[\w$.]+|\s+|->>|->|<="""
                           r"""|>=|<>|[!=]=|<<|>>|\|\||.""", re.DOTALL)  # fmt: skip

# A construct that only SQLite accepts -> changes of the grammar that would allow it: (old text, new text), ...
RELAXED: Final = {
    "words that are names in quotes alone": [
        ('unreserved: "ABORT"i', 'unreserved: "CAST"i | "CURRENT"i | "CURRENT_DATE"i | "CURRENT_TIME"i | "FILTER"i'
         ' | "IF"i | "CURRENT_TIMESTAMP"i | "INDEXED"i | "OVER"i | "RAISE"i | "RECURSIVE"i | "UNBOUNDED"i | "WINDOW"i'
         ' | "WITH"i | "ABORT"i'),
    ],
    "ALWAYS and GENERATED as types, and as names without AS": [
        ("_after_value: _plain", '_after_value: "ALWAYS"i | "GENERATED"i | _plain'),
    ],
    "joins whose words are doubled or change places": [
        ('join: ","', 'join: ("CROSS"i | "FULL"i | "INNER"i | "LEFT"i | "NATURAL"i | "OUTER"i | "RIGHT"i)+ "JOIN"i'
         ' | ","'),
    ],
    "NOT before a comparison, before ESCAPE": [("_sum [\"ESCAPE\"i", "_comparison [\"ESCAPE\"i")],
    "a number and a name without a space": [('HEXADECIMAL /[G-Zg-z_$\\u0080-\\U0010ffff]/ | ', "")],
    "other parameters": [(r"/\?([1-9][0-9]{0,3})?/ | /[:@$]", r"/\?[0-9]*/ | /[:@$#]")],
    "a comment without an end": [(r"\*+\//", r"(\*+\/|\**\Z)/")],
    "a byte order mark as a space": [(r"%ignore /[ \t\n\f\r]+/", r"%ignore /[ \t\n\f\r\ufeff]+/")],
    "ORDER BY and LIMIT in UPDATE and DELETE": [('["RETURNING"i results]', '["RETURNING"i results] order? limit?')],
    "options of tables, which SQLite refuses as well, but names another error first": [
        ('option: "WITHOUT"i "ROWID"i', 'option: "WITHOUT"i? name'),
    ],
    "other statements": [
        ("start: (", "start: OTHER | ("),
        ("\nNEVER:", "\nOTHER.9: /(?<![\\s\\S])(alter|analyze|attach|begin|commit|create virtual|detach|drop|end"
         "|explain|pragma|reindex|release|rollback|savepoint|vacuum)\\b[\\s\\S]*/i\nNEVER:"),
    ],
}  # fmt: skip

# Syntax errors. After the first line, messages of rules that SQLite's parser has in addition to its grammar
SYNTAX: Final = (
    r'near ".*": syntax error', "incomplete input", r'unrecognized token: ".*',
    "You can only execute one statement at a time\\.", "the query contains a null character",
    "(ORDER BY|LIMIT) clause should come after (UNION|UNION ALL|EXCEPT|INTERSECT) not before",
    "unknown join type: .*", "a JOIN clause is required before (ON|USING)", "unknown table option: .*",
    "unsupported frame specification", "unsupported use of NULLS (FIRST|LAST)", "syntax error after column name .*",
    "qualified table names are not allowed on INSERT, UPDATE, and DELETE statements within triggers",
    "cannot use RETURNING in a trigger",
    "the (INDEXED BY|NOT INDEXED) clause is not allowed on UPDATE or DELETE statements within triggers",
)  # fmt: skip
# Valid syntax without a meaning
SEMANTIC: Final = (
    # names
    "no such (table|column|function|index|window|module|collation sequence): .*", "no query solution",
    "unknown database .*", "ambiguous (column name: |reference to ).*", "no tables specified",
    "table .* has no column named .*", "unknown column .* in foreign key definition", "no such rowid.*",
    "(table|view|index|trigger) .* already exists", "there is already .* name.*", "object name reserved .*",
    "duplicate (WITH table|column) name: .*", "'.*' is not a function", "temporary .* (un)?qualified.*",
    "target object/alias may not appear in FROM clause: .*", "circular reference: .*",
    "(trigger|view) .* cannot reference .*",
    # numbers of values and columns
    "wrong number of arguments to function .*", "sub-select returns .*", r"IN\(\.\.\.\) element has .*",
    "all VALUES must have the same number of terms", "SELECTs to the left and right of .*", "row value misused",
    r"\d+ columns assigned \d+ values", r"\d+ values for \d+ columns", "(table )?.* has .* columns? (but|for) .*",
    r"table .* has \d+ values for \d+ columns", "number of columns in foreign key .*", "foreign key on .*",
    "too many .*", "at most .* tables in a join", "DISTINCT aggregates must have exactly one argument",
    r"\d+(st|nd|rd|th) (ORDER|GROUP) BY term .*", r"expected \d+ columns for .*",
    # constructs in the wrong place
    "misuse of .*", ".* may not be used as a window function", ".* prohibited in .*", "cannot .*",
    "aggregate functions are not allowed in .*", "parameters are not allowed in views", ".* cannot use variables",
    "HAVING clause on a non-aggregate query", "a GROUP BY clause is required before HAVING", "FILTER .* may .*",
    "DISTINCT is not supported for window functions", r"RAISE\(\) may only be used within a trigger-program",
    "RANGE with offset .*", "ON clause references tables to its right", "RETURNING may not use .*",
    "a NATURAL join may not have an ON or USING clause", "multiple .*references to recursive table: .*",
    "recursive (aggregate queries not supported|reference.*)", "ON CONFLICT clause does not match .*",
    "(table|view|views) .*may not be (modified|indexed).*", "conflicting ON CONFLICT clauses specified",
    r"second argument to .*\(\) must be a .*", "views may not be indexed",
    # definitions
    "(unknown|missing) datatype for .*", "default value of column .* is not constant", "PRIMARY KEY missing on .*",
    "AUTOINCREMENT .*", "error in generated column .*", "generated column.*", "must have at least one non-gen.*",
    ".* more than one primary key", "ORDER BY without LIMIT on .*",
    # limits
    "hex literal too big: .*", "oversized integer: .*", r"variable number must be between \?1 and .*",
    "parser stack overflow", "Recursion limit", "Expression tree is too large .*", "string or blob too big",
)  # fmt: skip


@cache
def _base() -> sqlite3.Connection:
    base = sqlite3.connect(":memory:")
    base.executescript(SCHEMA)
    return base


def message(text: str) -> str | None:
    """SQLite's message about a statement; None if SQLite can prepare it. The statement is not run."""
    try:
        _base().execute(f"EXPLAIN {text}")
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        return None if str(error).startswith("Incorrect number of bindings") else str(error)
    return None


def verdict(text: str) -> Literal["prepared", "semantic", "syntax"]:
    """Whether SQLite prepares a statement, refuses its meaning, or does not read it as a statement.

    Raises:
        AssertionError: the message is unknown.
    """
    said = message(text)
    if said is None:
        return "prepared"
    if _one_of(SYNTAX, said):
        return "syntax"
    assert _one_of(SEMANTIC, said), said
    return "semantic"


def _one_of(patterns: tuple[str, ...], said: str) -> bool:
    return any(re.fullmatch(pattern, said, re.DOTALL) for pattern in patterns)


def is_read(text: str) -> bool:
    """Whether SQLite reads a statement to its end. An error in its meaning may stop it earlier.

    SQLite cannot read anything after the character U+0001, so it reports this character only after it has read all
    before.
    """
    found = verdict(text)
    if found == "semantic":
        said = message(text.rstrip(" \n").removesuffix(";") + "\n\x01")
        return said is not None and said.startswith('unrecognized token: "\x01')
    return found == "prepared"


reason_for = reasons_of(GRAMMAR, RELAXED)
"""Why SQLite alone takes a text, or None if that is not known."""
