"""Markdown for the measurements: `docs/benchmarks.md`. It contains each measured section."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.engine_speed import summary
from benchmarks.first_report import first_goals, first_section
from benchmarks.grammars_report import grammar_goals, grammar_section
from benchmarks.tables import mib, number, table

__all__ = ["markdown"]

Results = dict[str, Any]


def markdown(results: Results) -> str:
    """The whole page."""
    sections: dict[str, Callable[[Any], list[str]]] = {
        "masks": _masks,
        "patterns": _patterns,
        "grammars": grammar_section,
        "nesting": _nesting,
        "budgets": _budgets,
        "first": first_section,
        "first_walks": _first_walks,
        "slack": _slack,
        "hard": _hard,
        "end_to_end": _end_to_end,
        "engine": _engine,
        "tight_budgets": _tight_budgets,
    }
    lines = [_HEAD, *_goals(results)]
    for name, write in sections.items():
        if name in results:
            lines += ["", *write(results[name]["data"]), "", f"<sub>{results[name]['when']}</sub>"]
    return "\n".join([*lines, _TAIL])


_HEAD = """# Benchmarks

`python -m benchmarks` writes this page and overwrites manual edits.

**How is it measured?** guided, xgrammar and llguidance do the same work in the same run. Each library has its own
process with one thread, pinned to the same CPU, and the libraries take turns instance by instance. Each time covers
only the Python call, with the garbage collector off. Two measures exclude other processes on the machine: each time is
the smaller of wall time and CPU time, and the time of a position is its median over repeated walks. Only ratios are
meaningful on another machine. The vocabulary is Llama-3's, with 128,256 ids.

**Which goals are met?** The table lists each goal with the measured result, including the missed goals."""

_TAIL = """
## Run it

<!-- snippet: not run, it installs packages and takes minutes -->
```sh
pip install 'guided-decoding[bench]'
python -m benchmarks --llama3 llama3.tiktoken          # everything, about half an hour
python -m benchmarks --quick masks patterns            # two sections, few repeats
```
"""


# --- the goals


def _goals(results: Results) -> list[str]:
    rows: list[tuple[str, str, bool]] = []
    if "masks" in results:
        rows += _mask_goals(results["masks"]["data"])
    if "patterns" in results:
        rows += _compile_goals(results["patterns"]["data"])
    if "grammars" in results:
        rows += grammar_goals(results["grammars"]["data"])
    if "nesting" in results:
        rows.append(_nesting_goal(results["nesting"]["data"]))
    if "budgets" in results:
        ratio = results["budgets"]["data"]["again"]["ratio"]
        rows.append(("budgeted mask at most 2 x the plain mask", f"{ratio:.2f} x, median", ratio <= 2))
    if "first" in results:
        rows += first_goals(results["first"]["data"])
    if "first_walks" in results:
        ratio = results["first_walks"]["data"]["ratio"]
        rows.append(("budgeted masks of first walks at most 1.2 x plain masks", f"{ratio:.2f} x, mean", ratio <= 1.2))
    if "slack" in results:
        rows.append(_slack_goal(results["slack"]["data"]))
    if "hard" in results:
        rows += _hard_goals(results["hard"]["data"])
    if "end_to_end" in results:
        rows += _end_goals(results["end_to_end"]["data"])
    if not rows:
        return []
    cells = [(goal, measured, "met" if met else "**not met**") for goal, measured, met in rows]
    return ["", *table(("goal", "reached", ""), cells)]


def _mask_goals(data: Results) -> list[tuple[str, str, bool]]:
    ours = data["guided"]
    out = []
    for quantile, limits in (
        ("p50", {"xgrammar": 0.5, "llguidance": 0.1}),
        ("p99", dict.fromkeys(("xgrammar", "llguidance"), 0.1)),
    ):
        for peer, limit in limits.items():
            ratio = ours["first"][quantile] / data[peer]["first"][quantile]
            name = "median" if quantile == "p50" else quantile
            out.append((f"{name} mask at most {limit:g} x {peer}'s", f"{ratio:.3f} x", ratio <= limit))
    ratio = ours["prepare"] / data["llguidance"]["prepare"]
    out.append(("vocabulary preparation at most llguidance's", f"{ratio:.2f} x", ratio <= 1))
    return out


def _compile_goals(data: Sequence[Results]) -> list[tuple[str, str, bool]]:
    rows = [row for row in data if row["engine"] == "guided" and "mail" not in row["workload"]]
    return [
        (f"{row['workload']} compiles in under 5 ms", f"{number(row['compile'])} ms", row["compile"] < 5)
        for row in rows
    ]


def _nesting_goal(data: Sequence[Results]) -> tuple[str, str, bool]:
    goal = "nesting: time and memory per level at most doubles from 1,000 to 10,000 levels"
    ours = {row["depth"]: row for row in data if row["engine"] == "guided"}
    if any("failure" in row for row in ours.values()):
        return (goal, "failed", False)
    low, high = ours[min(ours)], ours[max(ours)]
    time = (high["in"] + high["out"]) / (low["in"] + low["out"])
    space = (high["bytes"] / high["depth"]) / max(1.0, low["bytes"] / low["depth"])
    return (goal, f"{time:.2f} x the time, {space:.2f} x the memory", time < 2 and space < 2)


def _slack_goal(data: Results) -> tuple[str, str, bool]:
    ways = list(data.values())
    none = sum(way["slacks"].get("0", 0) for way in ways)
    solved = sum(sum(way["slacks"].values()) for way in ways)
    return (
        "the budget's bound is the true minimum for most schemas",
        f"for {none} of {solved} solved",
        none > solved / 2,
    )


def _hard_goals(data: Sequence[Results]) -> list[tuple[str, str, bool]]:
    """A goal for each bound of the hard schemas: the worst walk, and how many walks exceed the bound."""
    walks = [row for row in data if "failure" not in row and row["stopped"] is None]
    values, conjunctions = ([row for row in walks if bool(row["compiles"]) == one] for one in (False, True))
    out = []
    for goal, key, most, unit, rows in (
        ("values that must differ: p99 mask at most 100 us", "mask_p99", 100.0, "us", values),
        ("values that must differ: masks grow at most 2 x along 10,000 tokens", "growth", 2.0, "x", values),
        ("values that must differ: at most 100 MB", "bytes", 100e6, "MiB", values),
        ("hard schemas: no mask after the first above 5 ms", "mask_max", 5000.0, "us", walks),
        ("conjunctions compile in 100 ms", "compile", 100.0, "ms", conjunctions),
    ):
        if rows:
            worst, over = max(row[key] for row in rows), sum(row[key] > most for row in rows)
            shown = mib(worst) if key == "bytes" else number(worst)
            out.append((goal, f"worst {shown} {unit}; {over} of {len(rows)} walks exceed it", over == 0))
    if len(walks) < len(data):
        out.append(("hard schemas compile and accept their texts", f"{len(data) - len(walks)} do not", False))
    return out


def _end_goals(data: Results) -> list[tuple[str, str, bool]]:
    ratio = data["masked_to_free"]
    faster = data["schema"]["tokens_per_cpu_second"] / data["free"]["tokens_per_cpu_second"]
    return [
        (
            "a constrained forward pass at least 98 % as fast as an unconstrained pass",
            f"{100 * ratio:.1f} %",
            ratio >= 0.98,
        ),
        ("more tokens/s than unconstrained if text is forced", f"{faster:.2f} x", faster > 1),
    ]


# --- the sections


def _masks(data: Results) -> list[str]:
    quantiles = ("p50", "p90", "p99", "p99.9", "max", "mean")
    out = ["## A nested object schema and its instances"]
    out += [
        "",
        "54 members on 4 levels, 24 instances. *First walk*: the grammar is new, and states and tables are built during"
        " the walk, most of them by the first of the 24 instances. *Between forward passes*: as in an engine, the model"
        " runs a forward pass before each mask and fills the CPU caches with other data.",
    ]
    for run, title in (
        ("first", "Mask, first walk of 24 instances, us"),
        ("alone", "Mask, first instance, us"),
        ("evicted", "Mask, first instance, between forward passes, us"),
        ("again", "Mask, states seen before, us"),
        ("accept", "Step, us"),
    ):
        rows = [(name, *(number(mine[run][q]) for q in quantiles)) for name, mine in data.items()]
        out += ["", *table((title, *quantiles), rows)]
    rows = [
        (
            name,
            number(mine["compile"]),
            number(mine["compile_first"]),
            number(mine["first_mask"]),
            mib(mine["bytes"]),
            number(mine["prepare"]),
            mib(mine["prepare_bytes"]),
        )
        for name, mine in data.items()
    ]
    header = (
        "",
        "compile ms",
        "first grammar in the process",
        "to the first mask ms",
        "grammar MiB",
        "vocabulary ms",
        "vocabulary MiB",
    )
    out += ["", *table(header, rows), "", "![Distribution of mask times](img/masks.png)"]
    return [
        *out,
        "",
        f"Each row covers {data['guided']['first']['n']:,} masks; rows of the first instance cover"
        f" {data['guided']['alone']['n']:,}. `any whitespace`: guided allows any"
        " whitespace between JSON tokens. `kept pointer`: llguidance fills"
        " the mask through a pointer that is kept, without the cost of its numpy helper.",
    ]


def _patterns(data: Sequence[Results]) -> list[str]:
    header = (
        "",
        "",
        "compile ms",
        "first grammar in the process",
        "to the first mask ms",
        "MiB",
        "mask p50 us",
        "p99",
        "mean",
    )
    rows = []
    for row in data:
        name = row["workload"] if row["engine"] == "guided" else ""
        if "compile" not in row:
            rows.append((name, row["engine"], row["failure"], *[""] * 6))
            continue
        cost = [number(row[key]) for key in ("compile", "compile_first", "first_mask")] + [mib(row["bytes"])]
        masks = row.get("masks")
        cells = [number(masks[q]) for q in ("p50", "p99", "mean")] if masks else [row["failure"], "", ""]
        rows.append((name, row["engine"], *cost, *cells))
    notes = sorted(
        {f"{row['engine']} stops {row['refused']} walks of {row['workload']}" for row in data if "refused" in row}
    )
    out = [
        "## Repetition",
        "",
        "These specifications become large if counts are unrolled into states.",
        "",
        *table(header, rows),
    ]
    out += ["", "![Compile time and mean mask](img/patterns.png)"]
    return out + (["", "; ".join(notes) + "."] if notes else [])


def _nesting(data: Sequence[Results]) -> list[str]:
    rows = []
    for row in data:
        cells = (
            (row["failure"], "", "")
            if "failure" in row
            else (number(row["in"]), number(row["out"]), number(row["bytes"] / row["depth"]))
        )
        rows.append((row["engine"], f"{row['depth']:,}", *cells))
    header = ("", "depth", "us per level in", "us per level out", "bytes per level")
    text = (
        "The text is nested arrays, with a mask and a step for each bracket. Constant columns mean linear time and "
        "memory."
    )
    return ["## Nesting", "", text, "", *table(header, rows), "", "![Cost per level](img/nesting.png)"]


def _budgets(data: Results) -> list[str]:
    names = {"plain": "no budget", "first": "1,000 tokens left over, first time", "again": "1,000 tokens left over"}
    rows = [
        (
            names.get(kind, f"{kind.removeprefix('slack ')} left over"),
            *(number(mine[key]) for key in ("p50", "p99", "mean", "ratio", "ratio_p99")),
        )
        for kind, mine in data.items()
    ]
    header = ("tokens beyond the shortest completion", "p50 us", "p99 us", "mean us", "ratio, median", "ratio, p99")
    text = (
        "These are the masks of the nested schema's instances, with a budget. *Ratio*: relative to the mask without a "
        "budget at the same position."
    )
    return ["## Budgets", "", text, "", *table(header, rows), "", "![Budgeted against plain masks](img/budgets.png)"]


def _first_walks(data: Results) -> list[str]:
    keys = ("mean", "p50", "p99", "max")
    names = {"plain": "plain", "budget": f"{data['left']:,} tokens left"}
    rows = [(title, *(number(data[kind][key]) for key in keys)) for kind, title in names.items()]
    text = (
        f"CPU time of masks on the first walks of {data['schemas']} schemas of MaskBench, {data['masks']:,} masks. "
        "Masks with and without a budget are measured in separate processes. "
        f"The ratio of the means is {data['ratio']:.2f}; refused schemas: {data['refused']}. "
        f"The budget costs most for {', '.join(f'`{file}` ({us / 1e3:.1f} ms)' for file, us in data['most'])}."
    )
    return ["## Budgets on first walks", "", text, "", *table(("", "mean us", "p50", "p99", "max"), rows)]


def _slack(data: Results) -> list[str]:
    rows = []
    for way, mine in data.items():
        solved = sum(mine["slacks"].values())
        none = mine["slacks"].get("0", 0)
        others = ", ".join(f"{count} by {slack}" for slack, count in mine["slacks"].items() if slack != "0") or "none"
        rows.append((way, str(mine["schemas"]), str(solved), str(none), others, str(mine["largest_bound"])))
    header = ("", "schemas", "solved exactly", "no slack", "too high", "largest bound")
    seconds = next(iter(data.values()))["seconds"]
    text = (
        "`min_tokens_to_finish()` for real schemas (MaskBench), compared with the true minimum, which an exhaustive "
        f"search finds (`benchmarks/exact_minimum.py`, at most {seconds:g} s each)."
    )
    return ["## Shortest completions", "", text, "", *table(header, rows)]


def _hard(data: Sequence[Results]) -> list[str]:
    header = ("", "", "tokens", "compile ms", "first mask ms", "mask p50 us", "p99", "max", "step p99", "growth", "MiB")
    rows = []
    for row in data:
        name = f"{row['shape']}, {row['way']}"
        budget = "" if row["budget"] == "none" else "budget"
        if "failure" in row:
            rows.append((name, budget, row["failure"], *[""] * 8))
            continue
        keys = ("compile", "first_mask", "mask_p50", "mask_p99", "mask_max", "step_p99", "growth")
        tokens = f"{row['tokens']:,}" + ("" if row["stopped"] is None else ", refused")
        rows.append((name, budget, tokens, *(number(row[key]) for key in keys), mib(row["bytes"])))
    over = [f"- {row['shape']}, {_way(row)}: {'; '.join(excesses)}" for row in data if (excesses := _over(row))]
    bounds = (
        "For values that must differ, dictionaries and members in any order, the bounds are: 99th percentile of masks "
        "at most 100 us, no mask after the first above 5 ms, growth at most 2 x, memory at most 100 MB. For "
        "conjunctions they are: compiled in 100 ms, no mask after the first above 5 ms."
    )
    text = (
        "Each row is a walk along one text, in a new process with empty caches. *Growth*: the mean mask time of the "
        "last thousand tokens divided by the mean of the first thousand. *MiB*: memory growth of the process, which "
        "includes the grammar and its tables. The command is `python -m benchmarks hard --llama3 llama3.tiktoken`."
    )
    verdict = (
        [f"{bounds} {len(over)} of {len(data)} walks exceed a bound:", "", *over]
        if over
        else [f"{bounds} All {len(data)} walks are within the bounds."]
    )
    return ["## Hard schemas", "", *verdict, "", text, "", *table(header, rows)]


def _way(row: Results) -> str:
    return row["way"] + ("" if row["budget"] == "none" else ", budget")


def _over(row: Results) -> list[str]:
    """The walks that exceed the bounds."""
    if "failure" in row or row["stopped"] is not None:
        return [row.get("failure", "refused")]
    bounds = [("mask_max", 5000.0, "a mask of", "us")]
    if row["compiles"]:
        bounds.append(("compile", 100.0, "compiled in", "ms"))
    else:
        bounds += [("mask_p99", 100.0, "p99", "us"), ("growth", 2.0, "growth", "x")]
    out = [f"{words} {number(row[key])} {unit}" for key, most, words, unit in bounds if row[key] > most]
    return out + ([f"{mib(row['bytes'])} MiB"] if not row["compiles"] and row["bytes"] > 100e6 else [])


def _end_to_end(data: Results) -> list[str]:
    names = {
        "free": "unconstrained",
        "masked": "masked at every step, nothing forced",
        "schema": "nested schema, text forced",
    }
    keys = ("cpu_per_pass", "wall_per_pass", "tokens_per_cpu_second", "tokens_per_second", "mask_us", "sample_us")
    rows = [
        (
            title,
            *(number(data[name][key]) for key in keys),
            *(f"{data[name][key]:.0f}" for key in ("tokens", "forced", "passes")),
        )
        for name, title in names.items()
    ]
    header = (
        "",
        "CPU ms / pass",
        "wall ms / pass",
        "tokens / CPU s",
        "tokens / s",
        "mask us",
        "choice us",
        "tokens",
        "forced",
        "passes",
    )
    dtype = data["dtype"].removeprefix("torch.")
    text = f"SmolLM2-135M-Instruct, {dtype}, one thread, greedy, excluding the prompt's forward pass."
    return ["## A model end to end", "", text, "", *table(header, rows)]


def _engine(data: Results) -> list[str]:
    speeds, extractions = [], []
    for name, row in summary(data).items():
        each = (row["decode_1"], row["decode_8"])
        speeds.append((name, *(cell for speed, ratio in each for cell in (number(speed), f"{ratio:.2f}x"))))
        for variant, results in row["extract"].items():
            title = name if len(row["extract"]) == 1 else f"{name}: {variant}"
            cells = (results["seconds"], results["ratio"], results["tokens"], results["passes"], results["valid"])
            extractions.append((title, number(cells[0]), f"{cells[1]:.2f}x", *(f"{cell:.0f}" for cell in cells[2:])))
    first = next(iter(data["rounds"][0]))
    whole = [results[first]["extract"]["all"] for results in data["rounds"]]
    share = sum(results["mask"] for results in whole) / sum(results["seconds"] for results in whole)
    text = (
        f"All engines run SmolLM2-135M-Instruct from the same GGUF file, on {data['threads']} threads, greedily. "
        f"*Decoding* writes {data['tokens']} tokens after a prompt of 60, excluding the prompt's forward pass; x is "
        "guided's speed divided by the other engine's. *Extraction* answers ten prompts under their schemas "
        "(`benchmarks/extraction.py`), with at most 200 tokens each; x is the other engine's time divided by guided's. "
        "transformers uses xgrammar's processor. A ratio compares runs of the same round. *All*: with forced tokens "
        "and the prefix cache; drafts are off unless named."
    )
    if any(row[0].startswith("llama.cpp") for row in speeds):
        text += " llama.cpp runs its Python call, which does not batch, and its own grammars."
    lines = ["## The engine", "", text, ""]
    lines += table(("", "batch 1, tokens / s", "x", "batch 8, tokens / s", "x"), speeds)
    lines += ["", *table(("ten extractions", "s", "x", "tokens", "passes", "complete JSON"), extractions)]
    lines += ["", f"Masks took {100 * share:.2f} % of the time of guided's extractions."]
    for one in data["cached"]:
        lines.append(
            f"{one['length']} tokens took {number(one['cached'])} s with the KV cache and {number(one['naive'])} s "
            f"without it ({one['naive'] / one['cached']:.1f}x; the second time is extrapolated from five passes)."
        )
    return lines


def _tight_budgets(data: Results) -> list[str]:
    fields, sampled = data["fields"], data["fields"] * data["seeds"]
    text = (
        "The same ten extractions, under budgets that are a multiple of the shortest completion. The table counts the "
        f"right fields: of {fields} with greedy decoding, and of {sampled} with {data['seeds']} seeds at temperature "
        "0.7. If less than twice the shortest completion is left, the engine lowers the logits of tokens that make the "
        "output longer, by at most `budget_ramp`. With `budget_ramp=0`, only the mask enforces the budget."
    )
    rows = []
    for row in data["rows"]:
        budget = "200 tokens" if row["times"] is None else f"{row['times']:g} x"
        shares = (row["greedy"] / fields, row["sampled"] / sampled)
        rows.append(
            (budget, f"{row['ramp']:g}", str(row["greedy"]), str(row["sampled"]), *(f"{s:.1%}" for s in shares))
        )
    header = ("budget", "`budget_ramp`", "right, greedy", "right, sampled", "share, greedy", "share, sampled")
    return ["## Tight budgets", "", text, "", *table(header, rows)]
