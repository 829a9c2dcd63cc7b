"""A grammar of SELECT statements that SQLite can prepare: the names of a database, each where it is in scope.

In: the tables of a database with their columns. Out: a Lark grammar for `guided.lark(text, lexer="basic")`.

How: a statement names its columns before its tables, and a context-free grammar cannot look ahead. But a database has
few *scopes*: sets of at most `MAX_TABLES` tables, each with the name that qualifies its columns. So the rules of a
statement are written out for each scope, and a statement is a choice of scopes. After `SELECT c.name FROM`, the mask
allows only tables of the scopes that fit: `customers` with the alias c.

- **Names.** A table is qualified by its name or by an alias: its first letter (o for orders), with a number if several
  tables begin with it, or the first letters of its words (oi for order_items). All tables of a FROM clause may also
  have the aliases t1, t2, ... in their order. Names and keywords may be in capital or small letters. Other words are
  refused.
- **Columns.** A column without a qualifier is allowed if exactly one table of the scope has it.
- **Joins.** JOIN, INNER JOIN, LEFT JOIN and CROSS JOIN. ON compares columns of the tables that are already joined, with
  their qualifiers.
- **Aggregates** may stand in the results, HAVING and ORDER BY, and not inside another aggregate. HAVING requires GROUP
  BY. GROUP BY and ORDER BY do not begin with a number, which SQLite would read as the position of a result.
- **Subqueries** use only their own tables. As a value and after IN they have one column. After EXISTS, a subquery with
  one table may begin its WHERE clause with a comparison with a column of the statement around it.
- **Left out.** Other statements, compounds, subqueries in FROM, self-joins, NATURAL and USING, aliases of results,
  WITH, VALUES, parameters, windows, and names in quotes.
- **Names that would need quotes**, such as a column named "order", are an error.

Cost: the number of rules is linear in the number of scopes, which grows with the number of tables to the power of
`MAX_TABLES`. SQLite limits the depth of parentheses to about a hundred, and the grammar does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, permutations, product
from typing import Final, NamedTuple

__all__ = ["MAX_TABLES", "sql_grammar"]

MAX_TABLES: Final = 4
"""Tables in a FROM clause, at most."""

_SHARED: Final = """
start: _query ";"?
_join: ("INNER"i | "LEFT"i "OUTER"i?)? "JOIN"i
_cross: "," | "CROSS"i "JOIN"i
_limit: "LIMIT"i INTEGER ["OFFSET"i INTEGER]
_direction: ("ASC"i | "DESC"i) ["NULLS"i ("FIRST"i | "LAST"i)]
_not: "NOT"i?
_distinct: ("DISTINCT"i | "ALL"i)?
_compare: "=" | "==" | "<>" | "!=" | "<" | "<=" | ">" | ">=" | "IS"i _not
_operator: "+" | "-" | "*" | "/" | "%" | "||"
_literal: INTEGER | DECIMAL | STRING | "NULL"i | "CURRENT_DATE"i | _misread
_type: "INTEGER"i | "REAL"i | "TEXT"i
_collate: "COLLATE"i ("BINARY"i | "NOCASE"i | "RTRIM"i)
INTEGER: /[0-9]{1,18}/
DECIMAL: /[0-9]{1,15}\\.[0-9]{1,15}|\\.[0-9]{1,15}/
// Other words, and numbers that run into words. Nothing can follow them, so no statement has one
_misread: (NAME | RUN_ON | COMMENT) NEVER
NAME: /[A-Za-z_][A-Za-z0-9_$]*/
RUN_ON.1: /([0-9]+(\\.[0-9]*)?|\\.[0-9]+)[A-Za-z_$][A-Za-z_$0-9.]*/
COMMENT.1: "--"
NEVER: /[^\\s\\S]/
STRING: /'([^'\\0]|'')*'/
%ignore /[ \\t\\n\\f\\r]+/
"""

_PLAIN: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS: Final = frozenset(
    re.findall(
        "[A-Z_]+",
        "ADD ALL ALTER AND AS ASC AUTOINCREMENT BETWEEN BY CASE CAST CHECK COLLATE COMMIT CONSTRAINT CREATE "
        "CROSS CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DEFAULT DEFERRABLE DELETE DESC DISTINCT "
        "DROP ELSE END ESCAPE EXCEPT EXISTS FILTER FIRST FOREIGN FROM FULL GLOB GROUP HAVING IF IN INDEX "
        "INDEXED INNER INSERT INTERSECT INTO IS ISNULL JOIN LAST LEFT LIKE LIMIT MATCH NATURAL NOT NOTHING "
        "NOTNULL NULL NULLS OFFSET ON OR ORDER OUTER OVER PRIMARY RAISE RECURSIVE REFERENCES REGEXP "
        "RETURNING RIGHT SELECT SET TABLE THEN TO TRANSACTION UNBOUNDED UNION UNIQUE UPDATE USING VALUES "
        "WHEN WHERE WINDOW WITH ",
    )
)
_NUMBERED: Final = tuple(f"t{number}" for number in range(1, MAX_TABLES + 1))

# {s}: the number of a scope; {e}: an expression without aggregates, or "a", with them
_OF_SCOPE: Final = """
_select{s}: "SELECT"i _distinct _results{s} _rest{s}
_single{s}: "SELECT"i _distinct _a{s} _rest{s}
_results{s}: _result{s} ("," _result{s})*
_result{s}: _a{s} | "*" | _star{s}
_on{s}: _qualified{s} _compare (_qualified{s} | _literal)
_rest{s}: "FROM"i _from{s} ["WHERE"i _e{s}] _ordered{s}? _limit?
_ordered{s}: _group{s} ["ORDER"i "BY"i _terms_a{s}] | "ORDER"i "BY"i _terms_e{s}
_more{s}: ("AND"i _test_e{s})*
_group{s}: "GROUP"i "BY"i _groups{s} ["HAVING"i _a{s}]
_groups{s}: _start_e{s} ("," _start_e{s})*
_call{s}: ("AVG"i | "COUNT"i | "GROUP_CONCAT"i | "MAX"i | "MIN"i | "SUM"i | "TOTAL"i) "(" "DISTINCT"i? _e{s} ")"
    | "COUNT"i "(" "*" ")"
"""
_EXPRESSION: Final = """
_{e}: _test_{e} | _{e} ("AND"i | "OR"i) _test_{e}
_test_{e}: _not _comparison_{e}
_comparison_{e}: _sum_{e} | _sum_{e} _compare _sum_{e} | _sum_{e} "IS"i _not "NULL"i | _sum_{e} "NOTNULL"i
    | _sum_{e} _not ("LIKE"i | "GLOB"i) _sum_{e} | _sum_{e} _not "BETWEEN"i _sum_{e} "AND"i _sum_{e}
    | _sum_{e} _not "IN"i "(" (_sum_{e} ("," _sum_{e})* | _single) ")" | "EXISTS"i "(" (_query | _correlated{s}) ")"
_sum_{e}: _signed_{e} | _sum_{e} _operator _signed_{e}
_signed_{e}: ("-" | "+")? _value_{e}
_value_{e}: _literal | _named_{e} | "(" (_{e} | _single) ")"
_start_{e}: _named_{e} (_operator _signed_{e})* _collate?
_terms_{e}: _start_{e} _direction? ("," _start_{e} _direction?)*
_named_{e}: {names} | _function_{e} | _case_{e} | "CAST"i "(" _{e} "AS"i _type ")"
_case_{e}: "CASE"i _sum_{e}? ("WHEN"i _{e} "THEN"i _{e})+ ["ELSE"i _{e}] "END"i
_function_{e}: ("ABS"i | "LENGTH"i | "LOWER"i | "UPPER"i) "(" _{e} ")" | ("ROUND"i | "TRIM"i) "(" _{e} ["," _{e}] ")"
    | ("IFNULL"i | "INSTR"i | "NULLIF"i) "(" _{e} "," _{e} ")" | "SUBSTR"i "(" _{e} "," _{e} ["," _{e}] ")"
    | "REPLACE"i "(" _{e} "," _{e} "," _{e} ")" | "COALESCE"i "(" _{e} ("," _{e})+ ")"
    | ("DATE"i | "JULIANDAY"i | "STRFTIME"i) "(" _{e} ("," _{e})* ")"
"""


class Source(NamedTuple):
    """A table in FROM, and the name that qualifies its columns."""

    qualifier: str
    table: str

    @property
    def is_numbered(self) -> bool:
        """Whether it is the table `t1`, `t2`, ..., which come in this order."""
        return self.qualifier in _NUMBERED


Scope = tuple[Source, ...]


def sql_grammar(tables: Mapping[str, Sequence[str]]) -> str:
    """Return the grammar of SELECT statements about these tables.

    Args:
        tables: the columns of each table.

    Returns:
        A Lark grammar for a basic lexer.

    Raises:
        ValueError: a name would need quotes, since it is a keyword or has other characters than letters, digits and
            underscores.
    """
    for name in (*tables, *chain(*tables.values())):
        if not _PLAIN.fullmatch(name) or name.upper() in _KEYWORDS:
            raise ValueError(f"the name {name!r} would need quotes, which the grammar does not have")
    grammar = _Grammar(tables)
    return "\n".join([_SHARED, *grammar.rules()])


def _scopes(tables: Mapping[str, Sequence[str]]) -> Iterator[Scope]:
    """All scopes. The sources of a scope have different qualifiers. No alias is the name of a table."""
    for size in range(1, min(MAX_TABLES, len(tables)) + 1):
        for chosen in combinations(tables, size):
            named = product(*([table, *_aliases(table, tables)] for table in chosen))
            for qualifiers in named:
                if len(set(qualifiers)) == size:
                    yield tuple(map(Source, qualifiers, chosen))
            for order in permutations(chosen):
                yield tuple(map(Source, _NUMBERED, order))


def _aliases(table: str, tables: Iterable[str]) -> list[str]:
    """The first letter, with a number if several tables begin with it, and the first letters of the words."""
    alike = [name for name in tables if name[0] == table[0]]
    numbered = [f"{table[0]}{alike.index(table) + 1}"] * (len(alike) > 1)
    initials = "".join(word[0] for word in table.split("_") if word)
    return [alias for alias in dict.fromkeys([table[0], initials, *numbered]) if alias not in tables]


class _Grammar:
    """Writes the rules. Scopes and sources have numbers, which are part of the names of their rules."""

    def __init__(self, tables: Mapping[str, Sequence[str]]) -> None:
        self.tables = tables
        self.scopes = {scope: number for number, scope in enumerate(_scopes(tables))}
        self.sources = {source: number for number, source in enumerate(dict.fromkeys(chain(*self.scopes)))}

    def rules(self) -> Iterator[str]:
        """All rules that depend on the tables."""
        yield _rule("_query", (f"_select{number}" for number in self.scopes.values()))
        yield _rule("_single", (f"_single{number}" for number in self.scopes.values()))
        for source, number in self.sources.items():
            name, table = _word(source.qualifier), _word(source.table)
            columns = " | ".join(map(_word, self.tables[source.table]))
            yield _rule(f"_table{number}", [table if name == table else f'{table} "AS"i? {name}'])
            yield _rule(f"_of{number}", [f'{name} "." ({columns})'])
            yield _rule(f"_inner{number}", [f'"SELECT"i ("*" | INTEGER) "FROM"i _table{number} "WHERE"i'])
        for scope, number in self.scopes.items():
            yield _OF_SCOPE.format(s=number)
            yield _EXPRESSION.format(s=number, e=f"e{number}", names=f"_column{number}")
            yield _EXPRESSION.format(s=number, e=f"a{number}", names=f"_column{number} | _call{number}")
            yield from self.columns(scope, number)
            yield _rule(f"_from{number}", self.joins(scope, number))
            yield _rule(f"_correlated{number}", self.correlated(number))

    def columns(self, scope: Scope, number: int) -> Iterator[str]:
        """The rules for the columns of a scope."""
        columns = [column for source in scope for column in self.tables[source.table]]
        plain = [_word(column) for column in columns if columns.count(column) == 1]
        yield _rule(f"_qualified{number}", (f"_of{self.sources[source]}" for source in scope))
        yield _rule(f"_column{number}", [*plain, f"_qualified{number}"])
        yield _rule(f"_star{number}", (f'{_word(source.qualifier)} "." "*"' for source in scope))

    def joins(self, scope: Scope, number: int) -> Iterator[str]:
        """The expansions for the tables of a scope after FROM."""
        if len(scope) == 1:
            yield f"_table{self.sources[scope[0]]}"
            return
        on = f'"ON"i _on{number} ("AND"i _on{number})*'
        for source in scope[-1:] if scope[0].is_numbered else scope:
            rest = self.scopes[tuple(other for other in scope if other != source)]
            table = f"_table{self.sources[source]}"
            yield f"_from{rest} (_join {table} {on} | _cross {table})"

    def correlated(self, number: int) -> Iterator[str]:
        """The expansions for a subquery that compares a column of its only table with one of the scope around it."""
        for scope, own in self.scopes.items():
            if len(scope) == 1:
                source = self.sources[scope[0]]
                pair = f"(_of{source} _compare _qualified{number} | _qualified{number} _compare _of{source})"
                yield f"_inner{source} {pair} _more{own}"


def _rule(name: str, expansions: Iterable[str]) -> str:
    return f"{name}: " + "\n    | ".join(expansions)


def _word(name: str) -> str:
    """A terminal for a name. In capital letters like the keywords: two terminals for one word would collide."""
    return f'"{name.upper()}"i'
