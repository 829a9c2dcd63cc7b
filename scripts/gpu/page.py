"""Updates the page docs/inside/gpu.md: keeps its text, and puts the latest figures below the heading `Figures`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

__all__ = ["HEADING", "figures_of", "write_page"]

HEADING: Final = "## Figures\n"


def write_page(out: Path, page: Path) -> Path:
    """Put the figures of `out`/summary.json into the page."""
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    text = page.read_text("utf-8")
    head = text[: text.index(HEADING) + len(HEADING)]
    page.write_text(head + "\n" + figures_of(summary), encoding="utf-8")
    return page


def figures_of(summary: dict[str, Any]) -> str:
    """The machine and date of the run, the checks, and a table for each group of figures."""
    versions, parts = summary["versions"], summary["parts"]
    lines = [f"Measured on {datetime.now(UTC):%Y-%m-%d} by `make gpu`."]
    if summary["dry"]:
        lines = ["A dry run on a CPU: these figures say nothing about a GPU."]
    lines += ["", "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in versions.items())]
    lines += ["", "| part | checks | failed | seconds |", "|---|--:|--:|--:|"]
    for name, part in parts.items():
        failed = [check for check in part["checks"] if not check["holds"]]
        lines.append(f"| {name} | {len(part['checks'])} | {len(failed)} | {part.get('seconds', 0):.0f} |")
    for name, part in parts.items():
        bad = [f"- {name}: {check['name']}" for check in part["checks"] if not check["holds"]]
        bad += [f"- {name}: {part['error'].splitlines()[-1]}"] if part.get("error") else []
        lines += ["", "What failed:", "", *bad] if bad else []
    for part in parts.values():
        for table in dict.fromkeys(figure["table"] for figure in part["figures"]):
            lines += ["", f"### {table}", "", *_table([one for one in part["figures"] if one["table"] == table])]
        if part.get("notes") and part["part"] != "build":  # its notes are the versions above
            lines += ["", *(f"- {note.replace('<', '&lt;')}" for note in part["notes"])]
    return "\n".join(lines) + "\n"


def _table(figures: list[dict[str, Any]]) -> list[str]:
    """A table whose rows and columns keep the order of arrival."""
    columns = dict.fromkeys(f"{one['column']}, {one['unit']}" if one["unit"] else one["column"] for one in figures)
    rows: dict[str, dict[str, str]] = {}
    for one in figures:
        column = f"{one['column']}, {one['unit']}" if one["unit"] else one["column"]
        rows.setdefault(one["row"], {})[column] = _number(one["value"])
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'--:|' * len(columns)}"]
    return lines + [
        f"| {row} | {' | '.join(cells.get(column, '') for column in columns)} |" for row, cells in rows.items()
    ]


def _number(value: float) -> str:
    """The number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
