"""Three small SQLite databases: a coffee shop, a library and a running club.

Names of tables and columns are in snake_case and dates are TEXT of the form YYYY-MM-DD. Names and titles are unique in
their table. Comments in the schemas explain columns and list their values, so the schema is enough to write a query.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Final

__all__ = ["DATABASES", "catalog", "connect", "create_statements"]

_COFFEE_SHOP: Final = """
CREATE TABLE products (
    product_id INTEGER PRIMARY KEY,
    name TEXT,
    category TEXT, -- coffee, tea, pastry or equipment
    price REAL, -- in euros
    stock INTEGER
);
CREATE TABLE customers (
    customer_id INTEGER PRIMARY KEY,
    name TEXT,
    city TEXT,
    email TEXT, -- NULL if unknown
    joined_on TEXT -- YYYY-MM-DD
);
CREATE TABLE orders (
    order_id INTEGER PRIMARY KEY,
    customer_id INTEGER REFERENCES customers (customer_id),
    ordered_on TEXT, -- YYYY-MM-DD
    payment_method TEXT -- card, cash or voucher
);
CREATE TABLE order_items (
    order_id INTEGER REFERENCES orders (order_id),
    product_id INTEGER REFERENCES products (product_id),
    quantity INTEGER
);
"""
_COFFEE_SHOP_ROWS: Final = """
INSERT INTO products VALUES
    (1, 'Espresso', 'coffee', 2.40, 120),
    (2, 'Cappuccino', 'coffee', 3.20, 90),
    (3, 'Flat White', 'coffee', 3.60, 80),
    (4, 'Filter Coffee', 'coffee', 2.80, 150),
    (5, 'Green Tea', 'tea', 2.60, 60),
    (6, 'Earl Grey', 'tea', 2.50, 75),
    (7, 'Peppermint Tea', 'tea', 2.70, 0),
    (8, 'Croissant', 'pastry', 1.90, 40),
    (9, 'Cinnamon Roll', 'pastry', 2.90, 25),
    (10, 'Cheesecake', 'pastry', 4.10, 0),
    (11, 'Milk Jug', 'equipment', 18.50, 8),
    (12, 'Hand Grinder', 'equipment', 49.00, 3);
INSERT INTO customers VALUES
    (1, 'Ana Keller', 'Basel', 'ana.keller@mail.example', '2023-02-11'),
    (2, 'Bruno Costa', 'Zurich', 'bruno@costa.example', '2023-05-30'),
    (3, 'Chloe Martin', 'Basel', NULL, '2023-09-04'),
    (4, 'David Osei', 'Bern', 'd.osei@mail.example', '2024-11-07'),
    (5, 'Elena Rossi', 'Zurich', NULL, '2024-03-22'),
    (6, 'Felix Brandt', 'Basel', 'felix.b@mail.example', '2024-08-19'),
    (7, 'Grace Lim', 'Geneva', 'grace@lim.example', '2024-04-02'),
    (8, 'Hugo Meier', 'Bern', NULL, '2024-01-15'),
    (9, 'Ines Duarte', 'Zurich', 'ines.duarte@mail.example', '2025-01-28'),
    (10, 'Jonas Wolf', 'Basel', 'j.wolf@mail.example', '2025-02-14');
INSERT INTO orders VALUES
    (1, 1, '2025-01-05', 'card'),
    (2, 2, '2025-01-09', 'cash'),
    (3, 1, '2025-01-20', 'card'),
    (4, 4, '2025-02-02', 'card'),
    (5, 6, '2025-02-14', 'voucher'),
    (6, 2, '2025-02-18', 'cash'),
    (7, 7, '2025-03-01', 'cash'),
    (8, 1, '2025-03-08', 'card'),
    (9, 9, '2025-03-15', 'card'),
    (10, 6, '2025-03-22', 'cash'),
    (11, 5, '2025-04-03', 'card'),
    (12, 10, '2025-04-11', 'card'),
    (13, 4, '2025-04-19', 'voucher'),
    (14, 1, '2025-04-27', 'card');
INSERT INTO order_items VALUES
    (1, 1, 2), (1, 8, 2), (2, 2, 1), (2, 10, 1), (3, 12, 1), (4, 4, 3), (4, 9, 2), (5, 3, 2), (6, 5, 1), (6, 2, 1),
    (7, 6, 2), (7, 9, 1), (8, 1, 4), (8, 2, 1), (8, 8, 3), (9, 4, 1), (9, 11, 1), (10, 2, 2), (10, 10, 2), (11, 1, 1),
    (12, 3, 1), (12, 8, 2), (13, 4, 2), (14, 5, 2), (14, 9, 1);
"""

_LIBRARY: Final = """
CREATE TABLE authors (
    author_id INTEGER PRIMARY KEY,
    name TEXT,
    country TEXT,
    birth_year INTEGER
);
CREATE TABLE books (
    book_id INTEGER PRIMARY KEY,
    title TEXT,
    author_id INTEGER REFERENCES authors (author_id),
    genre TEXT, -- novel, crime, history or science
    published_year INTEGER,
    pages INTEGER
);
CREATE TABLE members (
    member_id INTEGER PRIMARY KEY,
    name TEXT,
    city TEXT,
    joined_on TEXT -- YYYY-MM-DD
);
CREATE TABLE loans (
    loan_id INTEGER PRIMARY KEY,
    book_id INTEGER REFERENCES books (book_id),
    member_id INTEGER REFERENCES members (member_id),
    loaned_on TEXT, -- YYYY-MM-DD
    due_on TEXT, -- YYYY-MM-DD
    returned_on TEXT -- YYYY-MM-DD, NULL if not yet returned
);
"""
_LIBRARY_ROWS: Final = """
INSERT INTO authors VALUES
    (1, 'Marta Lindqvist', 'Sweden', 1958),
    (2, 'Tomas Herrera', 'Chile', 1971),
    (3, 'Aiko Tanabe', 'Japan', 1980),
    (4, 'Peter Novak', 'Czechia', 1949),
    (5, 'Nadia Benali', 'Morocco', 1985),
    (6, 'Owen Fletcher', 'Ireland', 1963),
    (7, 'Lucia Ferri', 'Italy', 1990),
    (8, 'Erik Dahl', 'Sweden', 1976);
INSERT INTO books VALUES
    (1, 'The Silent Harbour', 1, 'crime', 1994, 312),
    (2, 'Winter Letters', 1, 'novel', 2003, 268),
    (3, 'The Ice Witness', 1, 'crime', 2011, 354),
    (4, 'Salt and Stars', 2, 'novel', 2008, 421),
    (5, 'A Map of Wind', 2, 'novel', 2016, 233),
    (6, 'The Paper Garden', 3, 'novel', 2013, 198),
    (7, 'Counting Cells', 3, 'science', 2019, 287),
    (8, 'Bridges of Prague', 4, 'history', 1988, 512),
    (9, 'The Long Armistice', 4, 'history', 1999, 604),
    (10, 'Desert Radio', 5, 'novel', 2021, 240),
    (11, 'Murder at Low Tide', 6, 'crime', 2001, 298),
    (12, 'The Fifth Key', 6, 'crime', 2006, 331),
    (13, 'How Rivers Think', 7, 'science', 2022, 176),
    (14, 'Northern Kitchens', 8, 'history', 2012, 389),
    (15, 'The Glass Planet', 8, 'science', 2018, 345);
INSERT INTO members VALUES
    (1, 'Alice Moreau', 'Leeds', '2021-03-14'),
    (2, 'Ben Carter', 'York', '2021-06-02'),
    (3, 'Carla Nunes', 'Leeds', '2022-01-19'),
    (4, 'Daniel Roth', 'Hull', '2022-05-27'),
    (5, 'Emma Yates', 'York', '2022-10-08'),
    (6, 'Farid Hassan', 'Leeds', '2023-02-21'),
    (7, 'Gina Park', 'Bradford', '2023-07-30'),
    (8, 'Harry Doyle', 'Hull', '2024-01-05'),
    (9, 'Irene Vogel', 'Leeds', '2024-04-16'),
    (10, 'Jack Stone', 'York', '2024-09-12');
INSERT INTO loans VALUES
    (1, 4, 1, '2024-01-08', '2024-01-29', '2024-01-25'),
    (2, 4, 2, '2024-01-15', '2024-02-05', '2024-02-12'),
    (3, 8, 3, '2024-01-22', '2024-02-12', '2024-02-10'),
    (4, 3, 1, '2024-02-05', '2024-02-26', '2024-02-20'),
    (5, 7, 5, '2024-02-13', '2024-03-05', '2024-03-01'),
    (6, 1, 6, '2024-02-27', '2024-03-19', '2024-03-28'),
    (7, 11, 4, '2024-03-04', '2024-03-25', '2024-03-22'),
    (8, 10, 3, '2024-03-11', '2024-04-01', '2024-03-30'),
    (9, 2, 7, '2024-03-19', '2024-04-09', '2024-04-09'),
    (10, 12, 4, '2024-04-02', '2024-04-23', '2024-04-30'),
    (11, 1, 8, '2024-04-08', '2024-04-29', '2024-04-20'),
    (12, 6, 5, '2024-04-15', '2024-05-06', NULL),
    (13, 15, 6, '2024-05-06', '2024-05-27', NULL),
    (14, 1, 1, '2024-05-13', '2024-06-03', '2024-06-01'),
    (15, 13, 9, '2024-05-21', '2024-06-11', NULL),
    (16, 3, 2, '2024-06-03', '2024-06-24', '2024-06-30'),
    (17, 1, 5, '2024-06-10', '2024-07-01', NULL),
    (18, 9, 3, '2024-06-17', '2024-07-08', '2024-07-05'),
    (19, 8, 1, '2024-07-01', '2024-07-22', NULL),
    (20, 7, 7, '2024-07-09', '2024-07-30', '2024-07-20');
"""

_RUNNING_CLUB: Final = """
CREATE TABLE members (
    member_id INTEGER PRIMARY KEY,
    name TEXT,
    birth_year INTEGER,
    town TEXT,
    joined_on TEXT -- YYYY-MM-DD
);
CREATE TABLE races (
    race_id INTEGER PRIMARY KEY,
    name TEXT,
    town TEXT,
    race_date TEXT, -- YYYY-MM-DD
    distance_km REAL
);
CREATE TABLE results (
    race_id INTEGER REFERENCES races (race_id),
    member_id INTEGER REFERENCES members (member_id),
    finish_minutes REAL, -- NULL if the member did not finish
    place INTEGER -- NULL if the member did not finish
);
"""
_RUNNING_CLUB_ROWS: Final = """
INSERT INTO members VALUES
    (1, 'Amira Saleh', 1991, 'Ashford', '2019-04-01'),
    (2, 'Boris Lang', 1984, 'Dover', '2019-09-15'),
    (3, 'Carmen Ortiz', 1996, 'Ashford', '2020-02-10'),
    (4, 'Derek Shaw', 1972, 'Hythe', '2020-06-21'),
    (5, 'Elsa Nyberg', 1988, 'Dover', '2021-01-12'),
    (6, 'Finn Walker', 2001, 'Ashford', '2021-05-03'),
    (7, 'Greta Hahn', 1979, 'Hythe', '2022-03-18'),
    (8, 'Hassan Karimi', 1994, 'Dover', '2022-08-29'),
    (9, 'Isla Reid', 2003, 'Ashford', '2023-04-11'),
    (10, 'Jorge Silva', 1986, 'Folkestone', '2024-02-06'),
    (11, 'Kofi Mensah', 1999, 'Hythe', '2024-08-30');
INSERT INTO races VALUES
    (1, 'Spring Ten', 'Ashford', '2024-03-17', 10),
    (2, 'Harbour Run', 'Dover', '2024-04-21', 5),
    (3, 'Castle Half', 'Dover', '2024-05-19', 21.1),
    (4, 'Night Five', 'Hythe', '2024-06-28', 5),
    (5, 'Summer Ten', 'Ashford', '2024-07-14', 10),
    (6, 'Coast Marathon', 'Folkestone', '2024-09-22', 42.2),
    (7, 'Autumn Half', 'Ashford', '2024-10-20', 21.1),
    (8, 'Winter Five', 'Dover', '2025-01-12', 5),
    (9, 'Hill Challenge', 'Hythe', '2025-02-09', 15);
INSERT INTO results VALUES
    (1, 1, 46.5, 12), (1, 2, 52.0, 31), (1, 3, 44.2, 7), (1, 6, 39.8, 2),
    (2, 2, 24.6, 18), (2, 5, 23.1, 11), (2, 8, 21.4, 4),
    (3, 1, 101.5, 15), (3, 4, 118.0, 42), (3, 5, 104.9, 20),
    (4, 3, 20.8, 6), (4, 6, 18.9, 1), (4, 9, 20.3, 5),
    (5, 3, 43.5, 5), (5, 6, 39.1, 1), (5, 7, 55.7, 38), (5, 10, 48.3, 21),
    (6, 1, 215.4, 33), (6, 4, NULL, NULL), (6, 8, 198.6, 17),
    (7, 2, 112.2, 29), (7, 3, 97.8, 9), (7, 10, 106.4, 19),
    (8, 5, 22.8, 8), (8, 9, 19.9, 3);
"""

_TEXTS: Final = {
    "coffee_shop": (_COFFEE_SHOP, _COFFEE_SHOP_ROWS),
    "library": (_LIBRARY, _LIBRARY_ROWS),
    "running_club": (_RUNNING_CLUB, _RUNNING_CLUB_ROWS),
}
DATABASES: Final[tuple[str, ...]] = tuple(_TEXTS)
"""The names of the databases."""

_READING: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
_LONGEST_VALUE: Final = 1_000_000  # bytes


def connect(name: str) -> sqlite3.Connection:
    """Return a connection to a new copy of the database in memory. The caller closes it.

    The database cannot be changed. `PRAGMA query_only` refuses changes, and an authorizer refuses every statement but
    SELECT, so no other PRAGMA can allow changes again. A value of more than a million bytes is an error.

    Raises:
        ValueError: no database has that name.
    """
    connection = _build(name)
    connection.execute("PRAGMA query_only=1")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.set_authorizer(_authorize)
    return connection


def catalog(name: str) -> dict[str, list[str]]:
    """Return the columns of each table, in the order of the schema."""
    with closing(_build(name)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid").fetchall()
        return {table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for (table,) in tables}


def create_statements(name: str) -> str:
    """Return the CREATE TABLE statements with their comments, for a prompt."""
    return _find(name)[0].strip()


def _find(name: str) -> tuple[str, str]:
    if name not in _TEXTS:
        raise ValueError(f"unknown database {name!r}: choose one of {', '.join(DATABASES)}")
    return _TEXTS[name]


def _build(name: str) -> sqlite3.Connection:
    schema, rows = _find(name)
    connection = sqlite3.connect(":memory:")
    connection.executescript(schema + rows)
    return connection


def _authorize(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY
