"""Sixty questions about three databases, and functions that judge a query.

Each database has twenty questions. Thirty questions are easy, twenty medium and ten hard: see `SqlTask.difficulty`.
Judge queries on a connection from `sql_databases.connect`, which refuses everything but SELECT.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from benchmarks.quality.sql_coffee_shop import COFFEE_SHOP
from benchmarks.quality.sql_library import LIBRARY
from benchmarks.quality.sql_running_club import RUNNING_CLUB
from benchmarks.quality.sql_task import SqlTask

__all__ = ["SQL_TASKS", "SqlTask", "prepares", "right_rows"]

SQL_TASKS: Final[list[SqlTask]] = [*COFFEE_SHOP, *LIBRARY, *RUNNING_CLUB]

_LIMIT: Final = 1.0  # seconds
_INSTRUCTIONS: Final = 1_000  # of SQLite's virtual machine, between two looks at the clock
_TOLERANCE: Final = 1e-6
# A text with a NUL or a lone surrogate is a ValueError, or an sqlite3.Error in later versions of Python
_ERRORS: Final = (sqlite3.Error, sqlite3.Warning, ValueError)


def right_rows(connection: sqlite3.Connection, gold: str, query: str, *, ordered: bool) -> bool:
    """Return whether a query returns the same rows as the right query.

    Numbers are equal if they differ by at most 1e-6. Everything else is equal only to the same value of the same type.
    The number and the order of the columns matter, their names do not. A query is wrong if SQLite refuses it, if it
    takes longer than a second, and if the text contains several statements. At most one row more than the right number
    is read.

    Args:
        connection: a connection from `sql_databases.connect`.
        gold: the right query.
        query: the query to judge.
        ordered: whether the order of the rows matters.

    Raises:
        sqlite3.Error: the right query fails.
    """
    right = connection.execute(gold).fetchall()
    try:
        with _deadline(connection), closing(connection.execute(query)) as cursor:
            rows = cursor.fetchmany(len(right) + 1)
    except _ERRORS:
        return False
    if len(rows) != len(right):
        return False
    if ordered:
        return all(map(_is_equal_row, right, rows))
    for expected in right:
        at = next((at for at, row in enumerate(rows) if _is_equal_row(expected, row)), None)
        if at is None:
            return False
        del rows[at]
    return True


def prepares(connection: sqlite3.Connection, sql: str) -> bool:
    """Return whether SQLite can prepare the text as one statement without parameters. The statement does not run.

    Args:
        connection: a connection from `sql_databases.connect`. It refuses to prepare statements that do not only read.
        sql: the statement.
    """
    try:
        connection.execute(f"EXPLAIN QUERY PLAN {sql}").close()
    except _ERRORS:
        return False
    return True


@contextmanager
def _deadline(connection: sqlite3.Connection) -> Iterator[None]:
    """Interrupt statements of the connection after `_LIMIT`."""
    end = time.monotonic() + _LIMIT
    connection.set_progress_handler(lambda: time.monotonic() > end, _INSTRUCTIONS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, _INSTRUCTIONS)


def _is_equal_row(expected: tuple[Any, ...], row: tuple[Any, ...]) -> bool:
    return len(expected) == len(row) and all(map(_is_equal, expected, row))


def _is_equal(expected: Any, value: Any) -> bool:
    if isinstance(expected, int | float) and isinstance(value, int | float):
        return math.isclose(expected, value, rel_tol=0, abs_tol=_TOLERANCE)
    return type(expected) is type(value) and expected == value
