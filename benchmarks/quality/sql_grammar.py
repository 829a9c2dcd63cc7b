"""The ready-made grammar of SQL, narrowed to one SELECT statement about the tables and columns of a database.

In: the name of a database. Out: the text of `grammars/sql.lark` with rules behind it that override some of its rules.
Compile it with the same options: `guided.lark(restricted_grammar(name), **guided.library()["sql"].options)`.

The lexer still reads a word as one lexeme, and strings and comments as before. A word is a NAME unless it is a keyword
or one of the names below, and no rule accepts a NAME. So `products` is a table, `productsx` is refused, and 'productsx'
is a value. Names in double quotes, backquotes and square brackets are refused. So is "Basel", which SQLite reads as a
string only if no column has that name.

- **Names.** Tables and columns are those of the database, in small or capital letters. A list of functions is allowed.
- **Aliases.** An alias of a table is its first letter (o for orders), also with 1 or 2 (o1, o2), or the first letters
  of its words (oi for order_items). Any table, and a subquery in FROM, may also have an alias from t1 to t9.
- **Qualified columns.** After a table or its alias, only columns of that table may follow. Tables with the same first
  letter share aliases, so columns of either table may follow. After t1 to t9, any column may follow.
- **Left out.** Other statements, SELECT without FROM, HAVING without GROUP BY, WITH, VALUES, parameters, windows,
  table-valued functions, and aliases of results. A context-free grammar cannot check that an alias of a result is
  defined before its use.

SQLite still refuses some statements of the grammar. A column or a qualifier may belong to a table that FROM does not
contain. A column may be ambiguous, a subquery may have too many columns, and an aggregate may stand in WHERE.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import guided
from benchmarks.quality.sql_databases import catalog

__all__ = ["restricted_grammar"]

_RULES: Final = """
// One SELECT statement
%override start: query ";"?
%override query: open | closed
%override closed: compounds? (filtered | (unfiltered | filtered) (order limit? | limit))
%override compounds: compounds? (unfiltered | filtered) ("UNION"i "ALL"i? | "INTERSECT"i | "EXCEPT"i)
%override result: expression | "*" | _all_columns
%override source: _named_source | "(" query ")" _numbered_alias?
%override constraint: "ON"i expression | "USING"i "(" _any_column ("," _any_column)* ")"
%override filtered: _select _closed_from | _select from filters
%override filters: where | where? grouping
%override grouping: "GROUP"i "BY"i expressions having?
%override limit: "LIMIT"i NUMBER ["OFFSET"i NUMBER]

// Expressions
%override _comparison: _sum | _tested [_operator _sum]
    | _comparison ("=" | "==" | "<>" | "!=" | "IS"i | "IS"i "NOT"i? "DISTINCT"i "FROM"i) _sum
    | _comparison "NOT"i? ("LIKE"i | "GLOB"i) _sum ["ESCAPE"i _sum]
    | _comparison "NOT"i? "BETWEEN"i _comparison "AND"i _sum
%override set: "(" (expressions | query) ")"
%override _value: _literal | column | call | case | "(" (expression | query) ")" | _value "COLLATE"i _collation
    | "EXISTS"i "(" query ")" | "CAST"i "(" expression "AS"i ("INTEGER"i | "REAL"i | "TEXT"i) ")"
%override _collation: "BINARY"i | "NOCASE"i | "RTRIM"i
%override call: "COUNT"i "(" "*" ")" | _aggregate | _function
_aggregate: ("AVG"i | "COUNT"i | "GROUP_CONCAT"i | "MAX"i | "MIN"i | "SUM"i | "TOTAL"i) "(" "DISTINCT"i? expression ")"
_function: ("ABS"i | "LENGTH"i | "LOWER"i | "UPPER"i) "(" expression ")"
    | ("ROUND"i | "TRIM"i) "(" expression ["," expression] ")"
    | ("IFNULL"i | "INSTR"i | "NULLIF"i) "(" expression "," expression ")"
    | "SUBSTR"i "(" expression "," expression ["," expression] ")"
    | "REPLACE"i "(" expression "," expression "," expression ")"
    | "COALESCE"i "(" expression "," expressions ")"
    | ("DATE"i | "JULIANDAY"i | "STRFTIME"i) "(" expressions ")"

// The lexer reads these, and nothing may follow them
%override misread: (NO_BLOB | NO_NUMBER | NO_LONG_NUMBER | NAME | ODD_NAME | QUOTED | PARAMETER | reserved) NEVER

// Names
%override column: _any_column | _qualified_column
"""
_NUMBERED_ALIASES: Final = tuple(f"t{digit}" for digit in range(1, 10))


def restricted_grammar(name: str) -> str:
    """Return the grammar of SELECT statements about the tables and columns of a database.

    Args:
        name: the name of the database, as in `sql_databases.DATABASES`.

    Returns:
        A Lark grammar for a basic lexer.

    Raises:
        ValueError: no database has that name.
    """
    tables = catalog(name)
    columns = dict.fromkeys(column for of_table in tables.values() for column in of_table)
    qualified = dict.fromkeys(_NUMBERED_ALIASES, columns)
    for table, of_table in tables.items():
        for qualifier in (table, *_aliases(table)):
            qualified[qualifier] = qualified.get(qualifier, {}) | dict.fromkeys(of_table)
    qualifiers: dict[tuple[str, ...], list[str]] = {}  # those with the same columns
    for qualifier, of_qualifier in qualified.items():
        qualifiers.setdefault(tuple(of_qualifier), []).append(qualifier)
    rules = {
        "_any_column": [_any_of(columns)],
        "_all_columns": [f'{_any_of(qualified)} "." "*"'],
        "_qualified_column": [f'{_any_of(some)} "." {_any_of(of_them)}' for of_them, some in qualifiers.items()],
        "_numbered_alias": [f'"AS"i? {_any_of(_NUMBERED_ALIASES)}'],
        "_named_source": [f'{_any_of([it])} (_numbered_alias | "AS"i? {_any_of(_aliases(it))})?' for it in tables],
    }
    names = [f"{rule}: " + "\n    | ".join(expansions) for rule, expansions in rules.items()]
    return guided.library()["sql"].text + _RULES + "\n".join(names) + "\n"


def _aliases(table: str) -> list[str]:
    first, initials = table[0], "".join(word[0] for word in table.split("_"))
    return list(dict.fromkeys([first, f"{first}1", f"{first}2", initials]))


def _any_of(names: Iterable[str]) -> str:
    """An expansion that matches any of the names.

    The names are in capital letters, as the keywords and functions of the grammar are: two terminals for the same word
    would be a collision.
    """
    return "(" + " | ".join(f'"{name.upper()}"i' for name in names) + ")"
