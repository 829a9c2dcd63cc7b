"""Grammars with a lexer on real texts, beside llguidance (Lark) and xgrammar (EBNF); and very long texts, for guided
only.

In: grammars that all three libraries can read (`benchmarks/grammars/`, `grammars/json.lark`) and real texts: a module
of Python's library, a C program, views in SQL, a JSON document. Out, for each grammar and library: milliseconds from
the text of the grammar to its first mask, and the masks of walks of the text that begin with a new grammar.

If a text takes a library more than `LIMIT` seconds, it is walked again up to `FEW` tokens only. `LONG` are texts of
100,000 tokens: left-recursive and right-recursive lists, brackets, a string and a comment, each in its own process.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import llama3
from benchmarks.peer_grammars import to_ebnf
from benchmarks.statistics import by_position, summary
from benchmarks.workers import Failure, Worker
from benchmarks.workloads import LARK_WARM_UP

__all__ = ["CASES", "measure_grammars"]

ENGINES = ("guided", "llguidance", "xgrammar")
LIMIT, FEW, TOKENS = 30.0, 100, 100_000
_HERE = Path(__file__).parent
_SCHEMAS = llama3.ROOT / "guided" / "frontends" / "json_schema" / "documents" / "metaschemas"


@dataclass(frozen=True)
class Case:
    """A grammar, and a text of its language."""

    name: str
    grammar: Path
    text: Callable[[], str]


CASES = (
    Case(
        "JSON: the metaschema of draft 7",
        llama3.ROOT / "grammars" / "json.lark",
        lambda: (
            (_SCHEMAS / "draft-07" / "schema.json").read_text().strip()
        ),  # llguidance does not ignore anything at the end
    ),
    Case(
        "SQL: views of PostgreSQL's information schema",
        _HERE / "grammars" / "sql.lark",
        (_HERE / "texts" / "information_schema.sql").read_text,
    ),
    Case("C: zlib's enough.c", _HERE / "grammars" / "c.lark", (_HERE / "texts" / "enough.c").read_text),
    Case("Python: the module textwrap", _HERE / "grammars" / "python.lark", Path(textwrap.__file__).read_text),
)


def measure_grammars(vocabulary: Path, *, repeats: int) -> dict[str, Any]:
    """`cases`: a row for each grammar and library. `long`: a row for each long text and each grammar for it."""
    workers = {name: Worker(name, vocabulary) for name in ENGINES}
    for worker in workers.values():
        worker.call("warm", LARK_WARM_UP)
    rows = []
    for case in CASES:
        text, grammar = case.text(), case.grammar.read_text(encoding="utf-8")
        results: dict[str, dict[str, Any]] = {name: {"first": [], "walks": [], "accepts": []} for name in ENGINES}
        for _ in range(repeats):
            for name, worker in workers.items():
                if "failure" not in results[name]:
                    spec = ("ebnf", to_ebnf(grammar)) if name == "xgrammar" else ("lark", grammar)
                    _walk(worker, case.name, spec, text, results[name])
        for name, mine in results.items():
            row: dict[str, Any] = {"case": case.name, "engine": name, "lines": len(text.splitlines())}
            row |= {key: mine[key] for key in ("failure", "few", "tokens", "bytes") if key in mine}
            if mine["walks"]:
                row |= {"first_mask": median(mine["first"]) / 1e6, "masks": summary(by_position(mine["walks"]))}
                row["accepts"] = summary(by_position(mine["accepts"]))
            rows.append(row)
    for worker in workers.values():
        worker.close()
    return {"cases": rows, "long": [_long(vocabulary, *each) for each in LONG]}


def _walk(worker: Worker, name: str, spec: tuple[str, str], text: str, results: dict[str, Any]) -> None:
    """A new grammar, its first mask, and one walk."""
    compiled = worker.call("compile_times", name, *spec, 1, limit=LIMIT)
    if isinstance(compiled, Failure):
        results["failure"] = compiled.reason
        return
    worker.call("recompile", name, *spec, limit=LIMIT)
    walked = worker.call("walk", name, text, FEW if "few" in results else None, limit=LIMIT)
    if isinstance(walked, Failure) and "few" not in results:
        results["few"] = f"the first {FEW} tokens; the whole text is {walked.reason}"
        worker.call("warm", LARK_WARM_UP)
        worker.call("recompile", name, *spec, limit=LIMIT)
        walked = worker.call("walk", name, text, FEW, limit=2 * LIMIT)
    if isinstance(walked, Failure):
        results["failure"] = walked.reason
        return
    if walked["stopped"] is not None:
        results["failure"] = f"the text is refused at token {walked['stopped']}"
        return
    results["first"].append(compiled["first"][0])
    results["walks"].append(walked["fills"])
    results["accepts"].append(walked["accepts"])
    results.setdefault("bytes", compiled["bytes"] + walked["bytes"])
    results["tokens"] = len(walked["accepts"])


_LEXED = r"""
start: {rule}
{rules}
NAME: /[a-z]+/
STRING: /"[^"]*"/
%ignore " "
%ignore /#[^\n]*\n/
"""
_LARK = {
    "list, left recursion": ('list: list "," NAME | NAME', "x", ",x", ""),
    "list, right recursion": ('list: NAME "," list | NAME', "x", ",x", ""),
    "brackets": ('list: "(" list ")" | NAME', "", "(", "x"),
    "a string": ("list: STRING", '"', " word", '"'),
    "a comment": ("list: NAME", "#", " word", "\nx"),
}
_GBNF = {
    "list, left recursion": 'root ::= root "," name | name\nname ::= [a-z]+ " "*',
    "list, right recursion": 'root ::= name "," root | name\nname ::= [a-z]+ " "*',
    "brackets": 'root ::= "(" root ")" | name\nname ::= [a-z]+ " "*',
    "a string": r'root ::= "\"" [^"]* "\""',
    "a comment": 'root ::= ("#" [^\\n]* "\\n" | " ")* [a-z]+',
}
LONG = [(shape, way) for shape in _LARK for way in ("lexer", "scannerless", "gbnf")]


def _long(vocabulary: Path, shape: str, way: str) -> dict[str, Any]:
    rule, *text = _LARK[shape]
    spec = _GBNF[shape] if way == "gbnf" else _LEXED.format(rule="list", rules=rule)
    row = {"shape": shape, "way": way, "tokens": TOKENS}
    with Worker("guided", vocabulary) as worker:
        worker.call("warm", LARK_WARM_UP)
        answer = worker.call("long_walk", way, spec, *text, TOKENS)
    return row | ({"failure": answer.reason} if isinstance(answer, Failure) else answer)
