"""Statements as SQLite's documentation has them, by chapter, and texts that are none."""

from __future__ import annotations

from typing import Final

DOCUMENTATION: Final = {
    "SELECT": [
        "SELECT a, b FROM t1",
        "SELECT a AS x, count(*) AS n FROM t1 GROUP BY a HAVING count(*) > 1 ORDER BY n DESC, x",
        "SELECT * FROM t1 JOIN t2 ON t1.x = t2.y WHERE t2.z <> 5;",
        "SELECT t1.*, t2.b FROM t1 LEFT OUTER JOIN t2 USING (a)",
        "SELECT DISTINCT name FROM people WHERE name LIKE 'a%' ESCAPE '\\' LIMIT 10 OFFSET 20",
        "SELECT a FROM t1 UNION ALL SELECT b FROM t2 EXCEPT VALUES (1), (2)",
        "SELECT * FROM t1, t2 NATURAL JOIN t3 CROSS JOIN t4",
        "SELECT * FROM t1 FULL OUTER JOIN t2 ON t1.a = t2.b RIGHT JOIN t3 ON t3.c = t1.a",
        "SELECT max(a), b FROM t1 GROUP BY b ORDER BY 1 NULLS LAST LIMIT 5, 10",
        "SELECT name FROM main.sqlite_schema WHERE type='table' ORDER BY name;",
        "VALUES (1, 'one'), (2, 'two')",
        "SELECT (SELECT count(*) FROM t2 WHERE t2.a = t1.a) AS n FROM t1",
        "SELECT * FROM (SELECT a FROM t1 ORDER BY b LIMIT 3) AS s WHERE s.a IS NOT NULL",
        "SELECT * FROM t1 INDEXED BY idx WHERE a=5",
        "SELECT * FROM t1 NOT INDEXED WHERE a=5 -- a full scan",
        "SELECT * FROM generate_series(5, 50, 5) WHERE value % 2 == 1",
        "SELECT * FROM (t1 JOIN t2) JOIN t3",
        "SELECT a FROM t1 WHERE (a, b) IN (SELECT x, y FROM t2)",
        "SELECT a FROM t1 WHERE (a,b,c) > (1, 2, 3)",
        "SELECT a b, 1 c, (2) d FROM t f",
        "SELECT [a column], `another`, \"a third\" FROM \"a table\"",
    ],
    "expressions": [
        "SELECT 'it''s', x'53514C697465', 0x1F, 1.5e-3, .5, 5., NULL, CURRENT_TIMESTAMP",
        "SELECT a || ' ' || b, -c, +d, ~e, NOT f, a << 2 | b & 3",
        "SELECT CASE x WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'many' END FROM t",
        "SELECT CASE WHEN x > 0 THEN x END FROM t",
        "SELECT CAST(a AS INTEGER), CAST('3.14' AS DECIMAL(10,5)) FROM t",
        "SELECT a BETWEEN 1 AND 2 AND b NOT BETWEEN 3 AND 4 FROM t",
        "SELECT a IN (1,2,3), b NOT IN (SELECT x FROM t2), c IN t3, d IN main.t4, e IN () FROM t",
        "SELECT a IS NULL, b ISNULL, c NOTNULL, d NOT NULL, e IS NOT 5, f IS DISTINCT FROM g FROM t",
        "SELECT x GLOB 'a*', x NOT GLOB '*b', x REGEXP '^a', x MATCH 'word' FROM t",
        "SELECT a COLLATE nocase = 'abc' COLLATE binary FROM t",
        "SELECT EXISTS (SELECT 1 FROM t), NOT EXISTS (SELECT 2)",
        "SELECT ?, ?1, ?123, :name, @name, $name",
        "SELECT 1+2*3-4/5%6, 7==7, 8!=9, 10<>11",
        "SELECT coalesce(a, b, 0), replace(c, 'x', 'y'), like('a%', d), count(DISTINCT e) FROM t",
        "SELECT data -> '$.a' ->> 'b', data->>'$[0]' FROM t",
        "SELECT json_extract('{\"a\":2,\"c\":[4,5,{\"f\":7}]}', '$.c[2].f')",
        "SELECT date('now','start of month','+1 month','-1 day');",
    ],
    "WITH": [
        "WITH RECURSIVE cnt(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM cnt WHERE x<1000000) SELECT x FROM cnt;",
        "WITH RECURSIVE cnt(x) AS ( SELECT 1 UNION ALL SELECT x+1 FROM cnt LIMIT 1000000 ) SELECT x FROM cnt;",
        "WITH RECURSIVE works_for_alice(n) AS ( VALUES('Alice') UNION SELECT name FROM org, works_for_alice "
        "WHERE org.boss=works_for_alice.n ) SELECT avg(height) FROM org WHERE org.name IN works_for_alice;",
        "WITH t1(a) AS MATERIALIZED (SELECT 1), t2 AS NOT MATERIALIZED (SELECT 2) SELECT * FROM t1, t2",
        "WITH RECURSIVE under_alice(name,level) AS ( VALUES('Alice',0) UNION ALL SELECT org.name, under_alice.level+1 "
        "FROM org JOIN under_alice ON org.boss=under_alice.name ORDER BY 2 DESC ) "
        "SELECT substr('..........',1,level*3) || name FROM under_alice;",
        "WITH RECURSIVE xaxis(x) AS (VALUES(-2.0) UNION ALL SELECT x+0.05 FROM xaxis WHERE x<1.2), "
        "yaxis(y) AS (VALUES(-1.0) UNION ALL SELECT y+0.1 FROM yaxis WHERE y<1.0), "
        "m(iter, cx, cy, x, y) AS ( SELECT 0, x, y, 0.0, 0.0 FROM xaxis, yaxis UNION ALL "
        "SELECT iter+1, cx, cy, x*x-y*y + cx, 2.0*x*y + cy FROM m WHERE (x*x + y*y) < 4.0 AND iter<28 ), "
        "m2(iter, cx, cy) AS ( SELECT max(iter), cx, cy FROM m GROUP BY cx, cy ), "
        "a(t) AS ( SELECT group_concat( substr(' .+*#', 1+min(iter/7,4), 1), '') FROM m2 GROUP BY cy ) "
        "SELECT group_concat(rtrim(t),x'0a') FROM a;",
        "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
        "WITH x AS (SELECT 1) DELETE FROM t WHERE a IN x",
    ],
    "window functions": [
        "SELECT x, y, row_number() OVER (ORDER BY y) AS row_number FROM t0 ORDER BY x;",
        "SELECT x, y, row_number() OVER win1, rank() OVER win2 FROM t0 WINDOW win1 AS (ORDER BY y RANGE BETWEEN "
        "UNBOUNDED PRECEDING AND CURRENT ROW), win2 AS (PARTITION BY y ORDER BY x) ORDER BY x;",
        "SELECT a, b, group_concat(b, '.') OVER ( ORDER BY a ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING ) AS g FROM t1;",
        "SELECT c, a, b, group_concat(b, '.') OVER ( PARTITION BY c ORDER BY a RANGE BETWEEN CURRENT ROW AND "
        "UNBOUNDED FOLLOWING ) AS g FROM t1 ORDER BY c, a;",
        "SELECT c, a, b, group_concat(b, '.') FILTER (WHERE c!='two') OVER ( ORDER BY a ) AS g FROM t1 ORDER BY a;",
        "SELECT ntile(2) OVER win FROM t2 WINDOW win AS (ORDER BY a GROUPS 2 PRECEDING EXCLUDE TIES)",
        "SELECT sum(a) OVER (win ROWS UNBOUNDED PRECEDING EXCLUDE NO OTHERS) FROM t WINDOW win AS (PARTITION BY b)",
        "SELECT nth_value(b, 2) OVER (ORDER BY a ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING EXCLUDE CURRENT ROW) FROM t",
        "SELECT lag(b) OVER () FROM t",
    ],
    "INSERT": [
        "INSERT INTO t(a,b) VALUES (1,2)",
        "INSERT OR REPLACE INTO main.t AS x (a) SELECT b FROM t2 WHERE true",
        "INSERT INTO t DEFAULT VALUES",
        "REPLACE INTO t VALUES (1,2,3), (4,5,6);",
        "INSERT INTO vocabulary(word) VALUES('jovial') ON CONFLICT(word) DO UPDATE SET count=count+1;",
        "INSERT INTO phonebook(name,phonenumber) VALUES('Alice','704-555-1212') ON CONFLICT(name) DO UPDATE SET "
        "phonenumber=excluded.phonenumber;",
        "INSERT INTO phonebook2(name,phonenumber,validDate) VALUES('Alice','704-555-1212','2018-05-08') "
        "ON CONFLICT(name) DO UPDATE SET phonenumber=excluded.phonenumber, validDate=excluded.validDate "
        "WHERE excluded.validDate>phonebook2.validDate;",
        "INSERT INTO t1 SELECT * FROM t2 WHERE true ON CONFLICT(x) DO UPDATE SET y=excluded.y;",
        "INSERT INTO t VALUES (1) ON CONFLICT (a COLLATE nocase) WHERE b > 0 DO NOTHING ON CONFLICT DO NOTHING",
        "INSERT INTO t0 (a, b, c) VALUES (random(), random(), random()) RETURNING *;",
        "INSERT OR IGNORE INTO t(a) VALUES (1) RETURNING a, b + 1 AS c",
    ],
    "UPDATE and DELETE": [
        "UPDATE t1 SET a = 1, b = b + 1 WHERE c IS NULL",
        "UPDATE inventory SET quantity = quantity - daily.amt FROM (SELECT sum(quantity) AS amt, itemId FROM sales "
        "GROUP BY 2) AS daily WHERE inventory.itemId = daily.itemId;",
        "UPDATE OR ROLLBACK main.t AS u SET (a, b) = (SELECT x, y FROM v WHERE v.id = u.id)",
        "UPDATE t SET a = 1 RETURNING *",
        "DELETE FROM t",
        "DELETE FROM t AS x WHERE x.a NOT IN (1,2) RETURNING a",
    ],
    "CREATE TABLE": [
        "CREATE TABLE t1(a, b, c)",
        "CREATE TABLE IF NOT EXISTS main.t2(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, "
        "price NUMERIC(10,2) DEFAULT -1.5 CHECK (price > 0), made TEXT DEFAULT CURRENT_TIMESTAMP)",
        "CREATE TEMP TABLE t3 AS SELECT * FROM t1",
        "CREATE TABLE artist( artistid INTEGER PRIMARY KEY, artistname TEXT );",
        "CREATE TABLE track( trackid INTEGER, trackname TEXT, trackartist INTEGER, "
        "FOREIGN KEY(trackartist) REFERENCES artist(artistid) );",
        "CREATE TABLE track( trackid INTEGER, trackname TEXT, trackartist INTEGER REFERENCES artist(artistid) "
        "DEFERRABLE INITIALLY DEFERRED );",
        "CREATE TABLE song( songid INTEGER, songartist TEXT, songalbum TEXT, "
        "FOREIGN KEY(songartist, songalbum) REFERENCES album(albumartist, albumname) ON DELETE SET NULL "
        "ON UPDATE CASCADE );",
        "CREATE TABLE t1( a INTEGER PRIMARY KEY, b INT, c TEXT, d INT GENERATED ALWAYS AS (a*abs(b)) VIRTUAL, "
        "e TEXT GENERATED ALWAYS AS (substr(c,b,b+1)) STORED );",
        "CREATE TABLE t1( a INTEGER PRIMARY KEY, b INT, c TEXT, d INT AS (a*abs(b)), e TEXT AS (substr(c,b,b+1)) STORED);",
        "CREATE TABLE wordcount( word TEXT PRIMARY KEY, cnt INTEGER ) WITHOUT ROWID;",
        "CREATE TABLE t(a INT, b ANY) STRICT, WITHOUT ROWID",
        "CREATE TABLE t(a UNSIGNED BIG INT, b VARYING CHARACTER(255), c DOUBLE PRECISION, CONSTRAINT pk PRIMARY KEY "
        "(a DESC, b) ON CONFLICT REPLACE, UNIQUE (c), CHECK (a < b))",
        "CREATE TABLE t(x DEFAULT (1 + 2), y DEFAULT 'a', z DEFAULT NULL, w DEFAULT x'00', k COLLATE nocase)",
    ],
    "CREATE INDEX, VIEW and TRIGGER": [
        "CREATE INDEX idx ON t1(a, b DESC)",
        "CREATE UNIQUE INDEX IF NOT EXISTS main.team_leader ON person(team_id) WHERE is_team_leader;",
        "CREATE INDEX acctchng_magnitude ON account_change(acct_no, abs(amt));",
        "CREATE VIEW v(a, b) AS SELECT x, y FROM t",
        "CREATE TEMPORARY VIEW IF NOT EXISTS v AS VALUES (1)",
        "CREATE TRIGGER update_customer_address UPDATE OF address ON customers BEGIN UPDATE orders SET address = "
        "new.address WHERE customer_name = old.name; END;",
        "CREATE TRIGGER cust_addr_chng INSTEAD OF UPDATE OF cust_addr ON customer_address BEGIN UPDATE customer SET "
        "cust_addr=NEW.cust_addr WHERE cust_id=NEW.cust_id; END;",
        "CREATE TRIGGER t_audit AFTER INSERT ON t FOR EACH ROW WHEN new.a > 5 BEGIN INSERT INTO log(x) VALUES (new.a); "
        "SELECT RAISE(ABORT, 'too large'); DELETE FROM t WHERE a = old.a; END",
    ],
}  # fmt: skip

WRONG: Final = [
    "",
    "SELECT",
    "SELECT FROM t",
    "SELECT a FROM",
    "SELECT a b c FROM t",
    "SELECT a, FROM t",
    "SELECTa FROM t",
    "SELECT 1x",
    "SELECT 0x1g",
    "SELECT 1e",
    "SELECT 0x",
    "SELECT 1AND 2",
    "SELECT select FROM t",
    "SELECT a FROM t WHERE",
    "SELECT a FROM t GROUP a",
    "SELECT a FROM t LIMIT 1 OFFSET 2 OFFSET 3",
    "SELECT a FROM t ORDER BY a UNION SELECT b FROM t",
    "SELECT 'open",
    "SELECT x'123'",
    "SELECT a FROM t HAVING a > 1 GROUP BY a",
    "SELECT * FROM t JOIN",
    "SELECT (1, 2",
    "SELECT a IN 5",
    "SELECT CASE END",
    "SELECT a BETWEEN 1 OR 2",
    "SELECT count(*",
    "VALUES (1) ORDER BY 1",
    "VALUES ()",
    "INSERTINTO t VALUES (1)",
    "INSERT INTO t",
    "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING ON CONFLICT DO NOTHING",
    "INSERT INTO t SELECT * FROM u ON CONFLICT DO NOTHING",
    "UPDATE t WHERE a = 1",
    "UPDATE t SET a",
    "DELETE t",
    "DELETE FROM t WHERE",
    "CREATE TABLE t",
    "CREATE TABLE t()",
    "CREATE TABLE t(a,)",
    "CREATE TABLE t(PRIMARY KEY (a), a)",
    "CREATE TABLE table(a)",
    "CREATE UNIQUE VIEW v AS SELECT 1",
    "CREATE TRIGGER t AFTER INSERT ON u BEGIN END",
    "WITH x AS SELECT 1 SELECT * FROM x",
    "SELECT sum(a) OVER (ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) FROM t",
    "SELECT 1; SELECT 2",
]
