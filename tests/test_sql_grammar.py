"""The grammar of SQL: generated texts, its samples, and texts near them, judged by SQLite and by Lark."""

from __future__ import annotations

import random
import re
import sqlite3
from collections import Counter

import numpy as np
import pytest

import guided

pytest.importorskip("lark", reason="lark is not installed")
if sqlite3.sqlite_version_info < (3, 39):
    pytest.skip("SQLite before 3.39 does not know all joins and operators", allow_module_level=True)

from tests.lark_judge import lalr, parses
from tests.program_support import few_or_many, mutated, vocabulary_of_words
from tests.sql_judge import GRAMMAR, PIECES, RELAXED, is_read, message, reason_for, verdict
from tests.test_library import accepts, by_lark, samples, written

GOOD, BAD = samples("sql", "accept"), samples("sql", "reject")
KEYWORDS = sorted(set(re.findall(r'"(\w+)"i', GRAMMAR)) | {"DATABASE", "EXPLAIN", "PLAN", "QUERY", "NOTHING"})
WORDS = sorted({word for text in GOOD for word in PIECES.findall(text) if not word.isspace()} | {*KEYWORDS})

# The grammar with only the names of `sql_judge.SCHEMA`, and functions with their numbers of arguments
SPECIALISED = """
%override start: (query | change | create_index | create_view) ";"?
%override table: "plays" | "main" "." "plays"
%override column: "title"i | "kind" | "year" | "rowid"i
%override columns: "(" "title" ("," "kind")? ")"
%override assignment: ("kind" | "year") "=" expression
%override results: "*" | "kind" | "title" alias? | expression alias?
%override alias: "AS"i WORD
%override row: "(" _constant "," _constant "," _constant ")"
_constant: _literal | "-" _number
%override limit: "LIMIT"i _number ["OFFSET"i _number]
%override order: "ORDER"i "BY"i ("title" | "kind" | "year") _direction?
%override _collation: "nocase"i | "binary"
%override call: ("abs" | "length"i | "typeof") "(" expression ")" | "coalesce" "(" expression ("," expression)+ ")"
%override with: "WITH"i WORD "AS"i "(" "SELECT"i "*" _one_source ")"
%override create_index: "CREATE"i "UNIQUE"i? "INDEX"i WORD "ON"i "plays" "(" ("kind" | "year") _direction? ")"
%override create_view: "CREATE"i _temporary? "VIEW"i _unless WORD "AS"i query
%override source: "plays" alias?
_one_source: "FROM"i source
%override filtered: _select _one_source filters
%override unfiltered: _select _one_source
%override grouping: "GROUP"i "BY"i ("kind" | "year") having?
%override windows: "WINDOW"i WORD "AS"i "(" window ")"
%override window: order?
%override set: "(" expressions? ")" | "(" "SELECT"i "kind" _one_source where? ")"
WORD: /w[0-9]{1,3}/
"""


def compiled(text: str) -> guided.CompiledGrammar:
    vocabulary = vocabulary_of_words(WORDS, [", ", " (", ");\n"])
    return guided.GrammarCompiler(vocabulary).compile_lark(text, lexer="basic")


@pytest.fixture(scope="module")
def grammar() -> guided.CompiledGrammar:
    return compiled(guided.library()["sql"].text)


@pytest.fixture(scope="module")
def parser() -> object:
    return by_lark("sql")


both = few_or_many(300, 2000)
in_detail = pytest.mark.skipif(
    sqlite3.sqlite_version_info >= (3, 41), reason="later versions of SQLite read more: here what 3.40 reads is known"
)


def test_there_are_no_conflicts():
    assert lalr(GRAMMAR, "basic") is not None


@in_detail
def test_samples_are_judged_by_sqlite():
    """SQLite reads all valid samples to their end. It accepts some of the invalid ones, each for a known reason."""
    assert len(GOOD) >= 110 and len(BAD) >= 170
    for text in GOOD:
        assert is_read(text), (text, message(text))
    taken = {text: reason_for(text) for text in BAD if verdict(text) != "syntax"}
    assert len(taken) < len(BAD) / 8 and None not in taken.values(), taken
    assert {*taken.values()} == {*RELAXED}, "a sample for each reason why SQLite takes more"


PLACES = """SELECT 1 FROM {}|SELECT {} FROM t|SELECT t.{}|SELECT {}.a|SELECT a AS {}|SELECT a {}, b|SELECT a FROM t {}
SELECT {}(1)|SELECT a IN {}|SELECT a LIKE {}|SELECT a COLLATE {}|SELECT CAST(a AS {})|SELECT CASE {} WHEN 1 THEN 2 END
SELECT f() OVER {}|SELECT f() OVER ({})|SELECT f() OVER ({} ORDER BY a)|SELECT f() OVER (ROWS {} PRECEDING)
SELECT 1 WINDOW {} AS ()|SELECT 1 FROM a JOIN b USING ({})|SELECT 1 FROM a {} JOIN b|WITH {} AS (SELECT 1) SELECT 1
CREATE TABLE {}(a)|CREATE TABLE z({})|CREATE TABLE z(a {})|CREATE TABLE z({} INT AS (1))|CREATE TABLE z(a DEFAULT {})
CREATE TABLE z(a CONSTRAINT {})|CREATE INDEX {} ON t(a)|CREATE VIEW {} AS SELECT 1|UPDATE {} SET a = 1
UPDATE t SET {} = 1|INSERT INTO {} VALUES (1)|INSERT INTO t({}) VALUES (1)|DELETE FROM t RETURNING {}
SELECT a ORDER BY {}|SELECT a LIMIT {}"""


@in_detail
def test_keywords_as_names(grammar: guided.CompiledGrammar):
    """Each keyword in each position: SQLite accepts all that the grammar does, and more only for known reasons."""
    found, kept = Counter[bool](), set[str]()
    for place in re.split(r"[|\n]", PLACES):
        for word in KEYWORDS:
            text = place.format(word)
            taken, read = accepts(grammar, text), is_read(text)
            assert not taken or verdict(text) != "syntax", text
            found[taken] += 1
            if read and not taken:
                kept.add(word)
    assert found[True] > 1500 and found[False] > 1000
    assert kept == {
        "ALWAYS", "CAST", "CURRENT", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "FILTER", "GENERATED", "IF",
        "INDEXED", "OVER", "RAISE", "RECURSIVE", "UNBOUNDED", "WINDOW", "WITH",
    }  # fmt: skip


def liked(vocabulary: guided.Vocabulary) -> np.ndarray:
    """Words with a space before them."""
    return np.array([token is not None and token[:1] == b" " for token in vocabulary.tokens])


@both
def test_statements_that_are_written(grammar: guided.CompiledGrammar, parser: object, count: int, seed: str):
    """SQLite finds no syntax error. Names and numbers of values are random, so most statements have no meaning."""
    rng, found, texts = random.Random(f"{seed} written"), Counter[str](), set[str]()
    least, plain = guided.GrammarMatcher(grammar).min_tokens_to_finish(), liked(grammar.vocabulary)
    for _ in range(count):
        text = written(grammar, rng, least + rng.choice([4, 15, 40, 100]), rng.choice([plain, plain, None]))
        assert parses(parser, text), text
        found[verdict(text)] += 1
        texts.add(text)
        assert not found["syntax"], (text, message(text))
    assert len(texts) > 0.9 * count and found["prepared"] > count / 10
    print(f"{len(texts)} statements, {sum(map(len, texts))} characters: {dict(found)}")


@both
def test_statements_with_the_names_of_a_schema_are_prepared(count: int, seed: str):
    """With the names of a table, SQLite prepares most of them, and finds no syntax error in the others."""
    grammar, rng = compiled(guided.library()["sql"].text + SPECIALISED), random.Random(f"{seed} schema")
    least, plain = guided.GrammarMatcher(grammar).min_tokens_to_finish(), liked(grammar.vocabulary)
    found, texts = Counter[str](), set[str]()
    for _ in range(count):
        text = written(grammar, rng, least + rng.choice([4, 15, 40, 100]), plain)
        found[verdict(text)] += 1
        texts.add(text)
        assert not found["syntax"], (text, message(text))
    assert len(texts) > 0.8 * count and found["prepared"] > count / 2
    print(f"{len(texts)} statements: {dict(found)}")


@in_detail
@both
def test_mutated_statements_are_judged_alike(grammar: guided.CompiledGrammar, parser: object, count: int, seed: str):
    """guided and Lark agree on each text. SQLite accepts the same texts, and more only for known reasons."""
    rng, found = random.Random(f"{seed} mutated"), Counter[str]()
    for _ in range(count):
        text = rng.choice(GOOD)
        text = mutated(rng, text, PIECES.findall(text), WORDS)
        taken, judged = accepts(grammar, text), verdict(text)
        assert parses(parser, text) == taken, text
        if taken:
            assert judged != "syntax", (text, message(text))
            found["both"] += 1
        elif judged == "syntax":
            found["neither"] += 1
        elif is_read(text):
            reason = reason_for(text)
            assert reason is not None, text
            found[reason] += 1
        else:
            found["SQLite stopped before the end"] += 1
    assert found["both"] > count / 10 and found["neither"] > count / 2
    assert found["SQLite stopped before the end"] < count / 10
    print(dict(found))


LEXEMES = [*"01eExXAaFgz_.+-'$@:?\"`[]/*<>=!|&%~ \n;,()éſ\ufeff\u212a", "0x", "1e", "--", "/*", "*/", "x'", "''"]
AROUND = ["SELECT {}", "SELECT {} FROM t", "SELECT a{}", "SELECT 1{}2", "SELECT (a{})", "SELECT a {}b", "SELECT x'{}"]


@in_detail
@both
def test_numbers_strings_and_comments(grammar: guided.CompiledGrammar, parser: object, count: int, seed: str):
    """Random characters, in which SQLite's lexer must find numbers, names, strings, operators and comments."""
    rng, found = random.Random(f"{seed} lexemes"), Counter[str]()
    for _ in range(5 * count):
        text = rng.choice(AROUND).format("".join(rng.choice(LEXEMES) for _ in range(rng.randrange(1, 6))))
        taken, judged = accepts(grammar, text), verdict(text)
        assert parses(parser, text) == taken, text
        assert judged != "syntax" or not taken, (text, message(text))
        if is_read(text) and not taken:
            assert reason_for(text) is not None, text
        found["both" if taken else judged] += 1
    assert found["both"] > count / 10 and found["syntax"] > count
    print(dict(found))
