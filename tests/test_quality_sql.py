"""The questions about SQL databases: right queries work, the scoring is right, and the grammar has the right names."""

from __future__ import annotations

import random
import re
import sqlite3
import time
from collections import Counter
from contextlib import closing
from functools import cache
from typing import Any

import pytest

pytest.importorskip("lark", reason="lark is not installed")

import guided
from benchmarks.quality.sql_databases import DATABASES, catalog, connect, create_statements
from benchmarks.quality.sql_tasks import SQL_TASKS, prepares, restricted_grammar, right_rows
from guided.matching.sentences import byte_vocabulary, sentence
from tests.lark_judge import load, parses

each_task = pytest.mark.parametrize("task", SQL_TASKS, ids=lambda task: task.name)


@pytest.fixture
def connection():
    """The coffee shop."""
    with closing(connect("coffee_shop")) as connection:
        yield connection


@cache
def _compiler() -> guided.GrammarCompiler:
    return guided.GrammarCompiler(byte_vocabulary())


@cache
def _grammar(database: str | None) -> guided.CompiledGrammar:
    """The restricted grammar of a database, or the built-in one."""
    ready_made = guided.library()["sql"]
    text = ready_made.text if database is None else restricted_grammar(database)
    return _compiler().compile(guided.lark(text, **ready_made.options))


def _accepts(database: str | None, text: str) -> bool:
    matcher = guided.GrammarMatcher(_grammar(database))
    return matcher.accept_string(text) and matcher.is_accepting()


@cache
def _parser() -> Any:
    """Lark's parser of the restricted grammar of the coffee shop."""
    return load(restricted_grammar("coffee_shop"), parser="lalr", lexer="basic")


def test_there_are_sixty_tasks_with_unique_names_and_questions():
    assert len(SQL_TASKS) == len({task.name for task in SQL_TASKS}) == len({task.question for task in SQL_TASKS}) == 60
    assert Counter(task.database for task in SQL_TASKS) == dict.fromkeys(DATABASES, 20)
    assert Counter(task.difficulty for task in SQL_TASKS) == {"easy": 30, "medium": 20, "hard": 10}


@pytest.mark.parametrize("database", DATABASES)
def test_databases_are_small_and_their_catalog_is_their_schema(database):
    tables = catalog(database)
    assert 3 <= len(tables) <= 4
    with closing(connect(database)) as connection, closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(create_statements(database))
        for table, columns in tables.items():
            assert all(re.fullmatch("[a-z]+(_[a-z]+)*", name) for name in [table, *columns])
            assert [name for name, *_ in empty.execute(f"SELECT * FROM {table}").description] == columns
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            assert 8 <= len(rows) <= 25
            for row in rows:
                dates = [value for name, value in zip(columns, row, strict=True) if re.search("_on$|_date$", name)]
                assert all(date is None or re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", date) for date in dates)


def test_an_unknown_database_is_an_error():
    for function in (connect, catalog, create_statements, restricted_grammar):
        with pytest.raises(ValueError, match="unknown database 'shop': choose one of coffee_shop, library"):
            function("shop")


@each_task
def test_right_queries_have_few_rows_and_are_in_both_grammars(task):
    with closing(connect(task.database)) as connection:
        assert prepares(connection, task.sql)
        assert 1 <= len(connection.execute(task.sql).fetchall()) <= 10
        assert right_rows(connection, task.sql, task.sql + ";", ordered=task.ordered)
        if task.ordered:
            assert not right_rows(connection, task.sql, task.sql.rpartition(" ORDER BY ")[0], ordered=True)
        if "DISTINCT" in task.sql:
            assert not right_rows(connection, task.sql, task.sql.replace("DISTINCT ", ""), ordered=task.ordered)
    assert _accepts(None, task.sql) and _accepts(task.database, task.sql)


TEAS = "SELECT name, price FROM products WHERE category = 'tea'"  # Green Tea, Earl Grey, Peppermint Tea
PREFIX = "SELECT 1, 'a' UNION ALL SELECT 2, 'b' UNION ALL SELECT 2, 'b'"


@pytest.mark.parametrize(
    ("gold", "given", "unordered", "ordered"),
    [
        (TEAS, f"{TEAS} ORDER BY product_id", True, True),
        (TEAS, f"{TEAS} ORDER BY product_id DESC", True, False),
        (TEAS, "SELECT name AS n, price AS p FROM products WHERE name LIKE '% tea' OR price = 2.5", True, True),
        (TEAS, "SELECT price, name FROM products WHERE category = 'tea'", False, False),
        (TEAS, "SELECT name FROM products WHERE category = 'tea'", False, False),
        (TEAS, "SELECT name, price, stock FROM products WHERE category = 'tea'", False, False),
        (TEAS, f"{TEAS} LIMIT 2", False, False),
        (TEAS, "SELECT name, price FROM products", False, False),
        (TEAS, "SELECT name, price + 0.0000005 FROM products WHERE category = 'tea'", True, True),
        (TEAS, "SELECT name, price + 0.01 FROM products WHERE category = 'tea'", False, False),
        (TEAS, "SELECT upper(name), price FROM products WHERE category = 'tea'", False, False),
        (TEAS, "SELECT name, NULL FROM products WHERE category = 'tea'", False, False),
        (PREFIX, "SELECT 2.0, 'b' UNION ALL SELECT 2, 'b' UNION ALL SELECT 1, 'a'", True, False),
        (PREFIX, "SELECT 2, 'b' UNION ALL SELECT 1, 'a' UNION ALL SELECT 1, 'a'", False, False),
        ("SELECT 4", "SELECT COUNT(*) FROM customers WHERE city = 'Basel' -- Basel", True, True),
        ("SELECT 4", "SELECT '4'", False, False),
        ("SELECT NULL", "SELECT NULL", True, True),
        ("SELECT NULL", "SELECT 0", False, False),
        ("SELECT 9e999", "SELECT 9e999", True, True),
    ],
)
def test_right_rows_compares_rows(connection, gold, given, unordered, ordered):
    assert right_rows(connection, gold, given, ordered=False) is unordered
    assert right_rows(connection, gold, given, ordered=True) is ordered


@pytest.mark.parametrize(
    "given",
    [
        "",
        "SELECT",
        "SELECT title FROM products",
        "SELECT 4; SELECT 4",
        "SELECT ?",
        "SELECT 4\0",
        "SELECT '\ud800'",
        "SELECT CAST(x'ff' AS TEXT)",
        "SELECT abs(-9223372036854775808)",
        "SELECT length(zeroblob(100000000))",
        "DROP TABLE products",
        "DELETE FROM products",
        "UPDATE products SET price = 0",
        "PRAGMA query_only = 0",
        "ATTACH ':memory:' AS other",
        "CREATE TEMP TABLE other (a)",
        "BEGIN",
    ],
)
def test_errors_changes_and_several_statements_are_wrong(connection, given):
    assert not right_rows(connection, "SELECT 4", given, ordered=False)
    with pytest.raises((sqlite3.Error, sqlite3.Warning)):
        connection.execute("DROP TABLE products")
    assert connection.execute("SELECT COUNT(*), SUM(price) FROM products").fetchone() == (12, pytest.approx(96.2))


def test_endless_queries_are_wrong(connection):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
    start = time.monotonic()
    assert not right_rows(connection, "SELECT 4", endless.format("count(*)"), ordered=False)
    assert 0.9 < time.monotonic() - start < 4
    start = time.monotonic()
    assert not right_rows(connection, "SELECT 1", endless.format("i"), ordered=False)
    assert right_rows(connection, "SELECT 1", endless.format("i") + " LIMIT 1", ordered=False)
    assert time.monotonic() - start < 0.9  # no unnecessary rows are read


def test_a_right_query_that_fails_is_an_error(connection):
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        right_rows(connection, "SELECT a FROM b", "SELECT 4", ordered=False)


def test_prepares_does_not_run_the_statement(connection):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    assert prepares(connection, endless) and prepares(connection, "SELECT name FROM products -- all")
    for text in ["", "SELECT title FROM products", "SELECT 1; SELECT 2", "QUERY PLAN SELECT 1", "DROP TABLE products",
                 "EXPLAIN SELECT 1", "SELECT ?", "SELECT 1\0"]:  # fmt: skip
        assert not prepares(connection, text), text


@pytest.mark.parametrize(
    "text",
    [
        "select Name from PRODUCTS;",
        "SELECT name\nFROM products -- productsx\nWHERE name = 'productsx' OR name = 'it''s \"x\"'",
        "SELECT count ( * ) , max(price) FROM products",
        "SELECT orders.*, o.order_id FROM orders, orders o1 JOIN order_items AS oi USING (order_id)",
        "SELECT o.quantity, o.ordered_on, t1.price, T9.email FROM orders o",  # two tables: any column
        "SELECT name FROM (SELECT name, price FROM products) AS t1 WHERE t1.price NOT BETWEEN 2 AND 3",
        "SELECT city FROM customers GROUP BY city HAVING COUNT(DISTINCT name) > 1 ORDER BY COUNT(*) DESC LIMIT 3",
        "SELECT name FROM products UNION SELECT name FROM customers ORDER BY name COLLATE NOCASE LIMIT 2 OFFSET 1",
        "SELECT CASE WHEN stock > 0 THEN 'yes' ELSE 'no' END, CAST(price AS INTEGER) FROM products",
        "SELECT strftime('%Y', ordered_on), round(2.5, 1), -stock || '' FROM products WHERE email IS NOT NULL",
        "SELECT price FROM customers",  # a column of another table
    ],
)
def test_the_restricted_grammar_accepts(text):
    assert _accepts("coffee_shop", text) and _accepts(None, text) and parses(_parser(), text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name FROM product",
        "SELECT name FROM productsx",
        "SELECT name FROM products2",
        "SELECT name FROM books",
        "SELECT name FROM sqlite_schema",
        "SELECT name FROM main.products",
        "SELECT title FROM products",
        "SELECT namen FROM products",
        "SELECT name2 FROM products",
        "SELECT rowid FROM products",
        "SELECT orders.price FROM orders",
        "SELECT p.quantity FROM products p",
        "SELECT t1.title FROM products t1",
        "SELECT o FROM orders o",
        "SELECT x.name FROM products x",
        "SELECT name FROM products ORDER BY total",
        "SELECT name FROM products LIMIT title",
        "SELECT name FROM products WHERE product_id IN order_items",
        "SELECT name FROM products JOIN orders USING (title)",
        'SELECT "name" FROM products',
        "SELECT name FROM [products]",
        "SELECT name FROM `products`",
        "SELECT name FROM 'products'",
        'SELECT name FROM products WHERE category = "tea"',
        "SELECT name AS title FROM products",
        "SELECT name title FROM products",
        "SELECT name 'title' FROM products",
        "SELECT md5(name) FROM products",
        "SELECT name FROM products WHERE name = ?",
        "SELECT name FROM products WHERE name = :name",
        "SELECT 1",
        "SELECT name FROM products; SELECT name FROM products",
        "WITH products AS (SELECT 1) SELECT name FROM products",
        "VALUES (1)",
        "DROP TABLE products",
        "DELETE FROM products",
        "EXPLAIN SELECT name FROM products",
    ],
)
def test_the_restricted_grammar_refuses(text):
    assert not _accepts("coffee_shop", text) and not parses(_parser(), text)


@pytest.mark.parametrize("database", DATABASES)
def test_sentences_of_the_restricted_grammar_name_only_what_exists(database):
    tables, rng, prepared = catalog(database), random.Random(database), 0
    names = {*tables, *(column for columns in tables.values() for column in columns), *(f"t{n}" for n in range(1, 10))}
    names |= {alias for table in tables for alias in (table[0], f"{table[0]}1", f"{table[0]}2")} | {"oi"}
    with closing(connect(database)) as connection:
        for _ in range(60):
            text = sentence(_grammar(database), rng, 150, False)
            assert _accepts(None, text)
            try:
                connection.execute(f"EXPLAIN {text}")
                prepared += 1
            except sqlite3.OperationalError as error:
                unknown = re.fullmatch("(no such (table|column): |ambiguous column name: )(.*)", str(error))
                assert unknown or re.search("misuse of|row value|SELECTs to the left and right|sub-select", str(error))
                assert unknown is None or names.issuperset(unknown[3].lower().split(".")), text
    assert prepared > 30
