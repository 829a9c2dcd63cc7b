"""A question about a database, and the query that answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["SqlTask"]


@dataclass(frozen=True, slots=True)
class SqlTask:
    """A question, and a query whose rows are the right answer.

    Attributes:
        name: a unique name that describes the task.
        database: the name of the database, as in `sql_databases.DATABASES`.
        question: the question. It names the columns of the answer in their order.
        sql: a right query.
        ordered: whether the order of the rows matters. If it does, the question says how to sort.
        difficulty: "easy" is a query of one table without groups, "medium" has a join or groups, and "hard" has
            several joins, a subquery, or a comparison of dates besides a join.
    """

    name: str
    database: str
    question: str
    sql: str
    ordered: bool
    difficulty: Literal["easy", "medium", "hard"]
