"""Markdown for the section `first`: the goals, and the tables."""

from __future__ import annotations

from typing import Any

from benchmarks.first import ENGINES, WAYS
from benchmarks.tables import number, table

__all__ = ["first_goals", "first_section"]

Row = dict[str, Any]
_READY_MADE, _BYTES = 20.0, 5.0  # milliseconds


def first_goals(data: Row) -> list[tuple[str, str, bool]]:
    """(goal, result, whether the goal is met)."""
    ours, theirs = data["schemas"]["guided"], data["schemas"]["llguidance"]
    out = []
    for key in ("p50", "p99"):
        ratio = ours[key] / theirs[key]
        out.append((f"schemas: {key} of the first mask at most llguidance's", f"{ratio:.2f} x", ratio <= 1))
    for key, most in (("mean", 0.15), ("p99", 0.1)):
        ratio = ours["masks"][key] / theirs["masks"][key]
        out.append((f"schemas: {key} mask at most {most:g} x llguidance's", f"{ratio:.3f} x", ratio <= most))
    ratios = {row["name"].split(":")[-1].strip(): row["guided"] / row["llguidance"] for row in _measured(data["lark"])}
    words = "; ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    out.append(("Lark: first mask at most 1.5 x llguidance's", f"{words} x", max(ratios.values(), default=0.0) <= 1.5))
    for way, most, what in (
        ("stored", _READY_MADE, "ready-made grammars: first mask in 20 ms"),
        ("bytes", _BYTES, "grammars from bytes: first mask in 5 ms"),
    ):
        rows = _measured(data["ready_made"])
        over = [f"{row['name']} {number(row[way])}" for row in rows if row[way] > most]
        out.append((what, f"{len(rows) - len(over)} of {len(rows)}; {', '.join(over) or 'none'} ms", not over))
    slowest = data["schemas"]["from bytes"]["max"]
    return [*out, ("schemas from bytes: first mask in 5 ms", f"slowest {number(slowest)} ms", slowest <= _BYTES)]


def first_section(data: Row) -> list[str]:
    """The tables."""
    schemas, keys = data["schemas"], ("p50", "p90", "p99", "max", "mean")
    rows = [(f"{name}: first mask, ms", *(number(schemas[name][key]) for key in keys)) for name in ENGINES]
    rows.append(("guided, from bytes: first mask, ms", *(number(schemas["from bytes"][key]) for key in keys)))
    rows += [(f"{name}: all masks, us", *(number(schemas[name]["masks"][key]) for key in keys)) for name in ENGINES]
    beside = [
        (row["name"], row["failure"], "", "")
        if "failure" in row
        else (row["name"], *(number(row[name]) for name in ENGINES), f"{row['guided'] / row['llguidance']:.2f}")
        for row in data["lark"]
    ]
    ready = [
        (row["name"], row["failure"], "", "")
        if "failure" in row
        else (row["name"], *(number(row[way]) for way in WAYS))
        for row in data["ready_made"]
    ]
    text = (
        f"The time from the text of a specification to its first mask, for {schemas['count']} schemas of MaskBench "
        f"({schemas['refused']} more were refused by one of the libraries), and the masks of the first walk of one "
        f"instance of each ({schemas['masks']:,} masks)."
    )
    ready_text = (
        "Ready-made grammars, in milliseconds to the first mask. *Text*: the front end reads the grammar. *Stored*: "
        "`guided.grammar` reads the stored form that comes with guided. *Bytes*: `CompiledGrammar.from_bytes`."
    )
    return [
        "## First masks", "", text, "", *table(("", *keys), rows), "",
        "Grammars in Lark's notation, in milliseconds to the first mask.", "",
        *table(("", *ENGINES, "ratio"), beside), "", ready_text, "", *table(("", "text", "stored", "bytes"), ready),
    ]  # fmt: skip


def _measured(rows: list[Row]) -> list[Row]:
    return [row for row in rows if "failure" not in row]
