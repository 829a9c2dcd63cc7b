"""Markdown for the section `grammars`: the goals, and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.tables import mib, number, table

__all__ = ["grammar_goals", "grammar_section"]

Row = dict[str, Any]
_GROWTH, _MEMORY = 2.0, 512 << 20
_WHY = (
    "Why are some goals missed? *First mask*: llguidance compiles regular expressions on demand. guided builds the "
    "automata of all terminals and the LALR table in advance, as Lark does. *99th percentile*: the goal is met for C. "
    "guided caches the effect of tokens on the top of the parser's stack, and new stacks seldom have new tops. The "
    "remaining slow masks are the first to need a lexer table or a top of the stack. In the short JSON text, nearly "
    "all of the slowest masks are of this kind. llguidance recomputes most masks, so its 99th percentile is only a few "
    "times its mean."
)


def grammar_goals(data: Row) -> list[tuple[str, str, bool]]:
    """(goal, result, whether the goal is met), for the worst grammar of each."""
    cases = _by_case(data["cases"])
    measured: dict[str, dict[str, float]] = {"first": {}, "p50": {}, "third": {}, "p99": {}}
    for name, rows in cases.items():
        ours, others = rows["guided"], [row for engine, row in rows.items() if engine != "guided" and "masks" in row]
        if "masks" not in ours or not others:
            return [("grammars with a lexer accept their texts", f"{name} does not", False)]
        measured["first"][name] = ours["first_mask"] / min(row["first_mask"] for row in others)
        measured["p50"][name] = ours["masks"]["p50"]
        measured["third"][name] = ours["masks"]["p50"] / min(row["masks"]["p50"] for row in others)
        measured["p99"][name] = ours["masks"]["p99"] / min(row["masks"]["p99"] for row in others)
    out = [
        _goal("grammars with a lexer: first mask at most 1 x the faster library's", measured["first"], 1, "x"),
        _goal("grammars with a lexer: median mask at most 10 us", measured["p50"], 10, "us"),
        _goal("grammars with a lexer: median at most a third of the faster library's", measured["third"], 1 / 3, "x"),
        _goal("grammars with a lexer: p99 at most a tenth of the faster library's", measured["p99"], 0.1, "x"),
    ]
    walks = data["long"]
    failed = [row for row in walks if "failure" in row or not row["accepting"]]
    growth = max((_growth(row) for row in walks if "failure" not in row), default=0.0)
    memory = max((row["bytes"] for row in walks if "failure" not in row), default=0)
    reached = f"{len(failed)} of {len(walks)} failed; growth at most {growth:.2f} x, {mib(memory)} MiB"
    good = not failed and growth <= _GROWTH and memory <= _MEMORY
    return [*out, ("texts of 100,000 tokens in linear time and at most 512 MiB", reached, good)]


def _goal(words: str, measured: dict[str, float], most: float, unit: str) -> tuple[str, str, bool]:
    values = "; ".join(f"{name.split(':')[0]} {number(value)}" for name, value in measured.items())
    return words, f"{values} {unit}", max(measured.values()) <= most


def _growth(row: Row) -> float:
    """Brackets open in the first half and close in the second, so each half is compared with itself."""
    tenths = row["tenths"]
    halves = (tenths[1:5], tenths[5:]) if row["shape"] == "brackets" else (tenths[1:],)
    return max(float(half[-1] / half[0]) for half in halves)


def grammar_section(data: Row) -> list[str]:
    """The tables."""
    header = ("", "", "lines", "tokens", "first mask ms", "mask p50 us", "p90", "p99", "max", "mean", "step p50", "MiB")
    rows = []
    for name, engines in _by_case(data["cases"]).items():
        for engine, row in engines.items():
            shown = name if engine == "guided" else ""
            if "masks" not in row:
                rows.append((shown, engine, row.get("failure", ""), *[""] * 9))
                continue
            masks = [number(row["masks"][key]) for key in ("p50", "p90", "p99", "max", "mean")]
            first, step = number(row["first_mask"]), number(row["accepts"]["p50"])
            tokens = f"{row['tokens']:,}" + (" (1)" if "few" in row else "")
            rows.append((shown, engine, str(row["lines"]), tokens, first, *masks, step, mib(row["bytes"])))
    notes = [f"(1) {row['few']}." for row in data["cases"] if "few" in row]
    long = []
    for row in data["long"]:
        cells = [row["failure"], *[""] * 4] if "failure" in row else _long(row)
        long.append((row["shape"], row["way"], *cells))
    text = (
        "Each library reads the same grammar in its own notation: Lark's for guided and llguidance, and xgrammar's "
        "EBNF from `benchmarks/peer_grammars.py`. *First mask*: the time from the text of the grammar to the first "
        "mask, with only the vocabulary prepared. *Masks*: the first walk of a real text. xgrammar has no lexer: it "
        "follows every way to split the text."
    )
    walks = (
        "This table is for texts of 100,000 tokens and only for guided. A time is the sum for a mask and a step. "
        "*Growth*: the last tenth divided by the second tenth. Brackets nest 50,000 deep: they open in the first half "
        "of the text and close in the second, so each half is compared with itself, and the larger ratio is given. If "
        "states exceed the memory limit, they are rebuilt once, in one step of about 80 ms. This step makes the last "
        "tenth of the brackets in GBNF slow."
    )
    columns = ("", "", "second tenth us", "last tenth us", "growth", "MiB", "accepted")
    out = ["## Grammars with a lexer", "", text, "", *table(header, rows), ""]
    return [*out, *_lines(notes[:1]), _WHY, "", walks, "", *table(columns, long)]


def _long(row: Row) -> list[str]:
    second, last = row["tenths"][1] / 1e3, row["tenths"][-1] / 1e3
    return [
        number(second),
        number(last),
        f"{_growth(row):.2f} x",
        mib(row["bytes"]),
        "yes" if row["accepting"] else "no",
    ]


def _lines(notes: Sequence[str]) -> list[str]:
    return [line for note in notes for line in (note, "")]


def _by_case(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    out: dict[str, dict[str, Row]] = {}
    for row in rows:
        out.setdefault(row["case"], {})[row["engine"]] = row
    return out
