"""Draws pictures of the measurements into `docs/img`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["draw"]

_COLOURS = {
    "guided": "#1b6ca8",
    "guided, any whitespace": "#7fb2d9",
    "xgrammar": "#d1603d",
    "llguidance": "#5b8c5a",
    "llguidance, kept pointer": "#a9c8a4",
}


def draw(results: dict[str, Any], folder: Path) -> None:
    """Draw the picture of each section that has one."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True})
    plt.rcParams.update({"grid.alpha": 0.3, "legend.frameon": False, "savefig.dpi": 130, "savefig.bbox": "tight"})
    folder.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, Callable[[Any, Any], Any]] = {
        "masks": _masks,
        "patterns": _patterns,
        "nesting": _nesting,
        "budgets": _budgets,
    }
    for name, picture in pictures.items():
        if name in results:
            figure = picture(plt, results[name]["data"])
            figure.savefig(folder / f"{name}.png", metadata={"Software": None})
            plt.close(figure)


def _masks(plt: Any, data: dict[str, Any]) -> Any:
    """The share of all masks that take longer than x."""
    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    for name, mine in data.items():
        times = sorted(mine["times"])
        above = [1 - i / len(times) for i in range(len(times))]
        axes.plot(times, above, color=_COLOURS[name], label=name, lw=1.6)
    axes.set(xscale="log", yscale="log", xlabel="mask time, us", ylabel="part of the masks that take longer")
    axes.legend()
    return figure


def _patterns(plt: Any, data: list[dict[str, Any]]) -> Any:
    names = list(dict.fromkeys(row["workload"] for row in data))
    engines = list(dict.fromkeys(row["engine"] for row in data))
    figure, both = plt.subplots(1, 2, figsize=(8.4, 3.2), sharey=True)
    kinds: list[tuple[str, Callable[[Any], Any]]] = [
        ("compile, ms", lambda row: row.get("compile")),
        ("mask, mean us", lambda row: row.get("masks", {}).get("mean")),
    ]
    for axes, (label, value) in zip(both, kinds, strict=True):
        for shift, engine in enumerate(engines):
            rows = [(names.index(row["workload"]), value(row)) for row in data if row["engine"] == engine]
            points = [(at + 0.26 * (shift - 1), result) for at, result in rows if result is not None]
            axes.barh(*zip(*points, strict=True), height=0.24, color=_COLOURS[engine], label=engine)
        axes.set(xscale="log", xlabel=label)
    both[0].set_yticks(range(len(names)), [name.replace("`", "").replace("$", r"\$") for name in names])
    both[0].invert_yaxis()
    figure.legend(*both[1].get_legend_handles_labels(), loc="upper center", ncols=3, bbox_to_anchor=(0.5, 1.03))
    return figure


def _nesting(plt: Any, data: list[dict[str, Any]]) -> Any:
    figure, both = plt.subplots(1, 2, figsize=(8, 2.9))
    for engine in dict.fromkeys(row["engine"] for row in data):
        rows = [row for row in data if row["engine"] == engine and "failure" not in row]
        depths = [row["depth"] for row in rows]
        style = {"marker": "o", "color": _COLOURS[engine], "label": engine}
        both[0].plot(depths, [(row["in"] + row["out"]) * row["depth"] / 1e3 for row in rows], **style)
        both[1].plot(depths, [row["bytes"] / (1 << 20) for row in rows], **style)
    both[0].set(xlabel="depth", ylabel="in and out, ms", xscale="log", yscale="log")
    both[1].set(xlabel="depth", ylabel="memory, MiB")
    both[0].legend()
    return figure


def _budgets(plt: Any, data: dict[str, Any]) -> Any:
    slacks = [(int(kind.removeprefix("slack ")), mine) for kind, mine in data.items() if kind.startswith("slack ")]
    figure, axes = plt.subplots(figsize=(6, 3))
    for key, label, style in (("ratio", "median", "-"), ("ratio_p99", "p99", ":")):
        axes.plot(
            [max(s, 0.5) for s, _ in slacks],
            [mine[key] for _, mine in slacks],
            style,
            color=_COLOURS["guided"],
            marker="o",
            label=label,
        )
    axes.axhline(2, color="grey", lw=0.8)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="tokens left beyond the shortest completion (0 drawn at 0.5)",
        ylabel="budgeted / plain mask",
    )
    axes.legend()
    return figure
