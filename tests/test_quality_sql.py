"""The questions about SQL databases: right queries work, the scoring is right, and the grammar has the right names."""

from __future__ import annotations

import random
import re
import sqlite3
import time
from collections import Counter
from contextlib import closing
from functools import cache

import pytest

pytest.importorskip("lark", reason="lark is not installed")

import guided
from benchmarks.quality.sql_databases import DATABASES, catalog, connect, create_statements
from benchmarks.quality.sql_grammar import sql_grammar
from benchmarks.quality.sql_tasks import SQL_TASKS, prepares, right_rows
from guided.matching.sentences import byte_vocabulary, draw_sentence

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
    """The grammar of a database, or the built-in one."""
    text = guided.library()["sql"].text if database is None else sql_grammar(catalog(database))
    return _compiler().compile_lark(text, lexer="basic")


def _accepts(database: str | None, text: str) -> bool:
    matcher = guided.GrammarMatcher(_grammar(database))
    return matcher.accept_string(text) and matcher.is_accepting()


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
    for function in (connect, catalog, create_statements):
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
        "SELECT name\nFROM products\nWHERE name = 'productsx' OR name = 'it''s \"x\" --'",
        "SELECT count ( * ) , max(price) FROM products",
        "SELECT orders.*, quantity FROM orders JOIN order_items AS oi ON orders.order_id = oi.order_id",
        "SELECT price FROM order_items t1 LEFT JOIN products AS t2 ON t1.product_id = t2.product_id AND t2.price > 0",
        "SELECT city FROM customers GROUP BY city HAVING COUNT(DISTINCT name) > 1 ORDER BY COUNT(*) DESC LIMIT 3",
        "SELECT name FROM products ORDER BY name COLLATE NOCASE LIMIT 2 OFFSET 1",
        "SELECT CASE WHEN stock > 0 THEN 'yes' ELSE 'no' END, CAST(price AS INTEGER) FROM products",
        "SELECT strftime('%Y', ordered_on), round(2.5, 1), -order_id FROM orders WHERE payment_method IS NOT NULL",
        "SELECT name FROM products WHERE price = (SELECT MAX(price) FROM products) AND product_id NOT IN "
        "(SELECT product_id FROM order_items)",
        "SELECT c.name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id)",
        "SELECT city, name, stock FROM customers, order_items, products WHERE 1",
    ],
)
def test_the_grammar_of_a_database_accepts(connection, text):
    if "city, name" in text:  # both customers and products have a name
        assert not _accepts("coffee_shop", text) and not prepares(connection, text)
        text = text.replace(" name,", " products.name,")
    assert _accepts("coffee_shop", text) and _accepts(None, text) and prepares(connection, text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name FROM product",
        "SELECT name FROM productsx",
        "SELECT name FROM books",
        "SELECT title FROM products",
        "SELECT name2 FROM products",
        "SELECT price FROM customers",  # a column of another table
        "SELECT o.quantity FROM orders o",
        "SELECT customers.name FROM customers c",
        "SELECT name FROM products, customers",  # a column of both
        "SELECT o.order_id FROM orders o, order_items o",
        "SELECT name FROM products WHERE MAX(price) > 3",
        "SELECT MAX(COUNT(*)) FROM products",
        "SELECT name FROM products ORDER BY MAX(price)",
        "SELECT name FROM products ORDER BY 2",
        "SELECT name FROM products GROUP BY (2)",
        "SELECT name FROM products HAVING stock > 1",
        "SELECT name FROM products WHERE product_id IN (SELECT product_id, quantity FROM order_items)",
        "SELECT name FROM products LIMIT 2.5",
        "SELECT SUBSTR(name) FROM products",
    ],
)
def test_the_grammar_of_a_database_refuses_what_sqlite_refuses(connection, text):
    assert not _accepts("coffee_shop", text)
    if "LIMIT" not in text:  # SQLite prepares this one, and fails when it runs
        assert not prepares(connection, text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name FROM main.products",
        "SELECT rowid FROM products",
        "SELECT name FROM sqlite_schema",
        'SELECT "name" FROM products',
        "SELECT name FROM [products]",
        "SELECT name AS title FROM products",
        "SELECT name FROM products UNION SELECT name FROM customers",
        "SELECT name FROM (SELECT name FROM products)",
        "SELECT name FROM products NATURAL JOIN order_items",
        "SELECT name FROM products LIMIT 2--1",
        "SELECT 1",
        "VALUES (1)",
    ],
)
def test_the_grammar_of_a_database_leaves_out(connection, text):
    assert prepares(connection, text) and not _accepts("coffee_shop", text)


@pytest.mark.parametrize("database", DATABASES)
def test_sqlite_prepares_every_sentence_of_the_grammar(database):
    rng = random.Random(database)
    with closing(connect(database)) as connection:
        for _ in range(60):
            text = draw_sentence(_grammar(database), rng, 150, False)
            assert prepares(connection, text) and _accepts(None, text), text


@pytest.mark.parametrize("name", ["order", "first name", "", "naïve"])
def test_names_that_would_need_quotes_are_refused(name):
    for tables in ({name: ["x"]}, {"x": [name]}):
        with pytest.raises(ValueError, match="would need quotes"):
            sql_grammar(tables)
