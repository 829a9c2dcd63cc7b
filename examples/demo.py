"""The main job, shown on SmolLM2-135M-Instruct: what the model writes satisfies the specification, within its budget.

In: email.txt and order.schema.json beside this file. Out, on standard output: the record as it is written, the same
under a budget a third as large, a date under a regular expression, and a table of what was measured in this very run.
Exit code 1 where an independent judge (the jsonschema package, `re`) finds an output wrong.

    make demo        or        python examples/demo.py [--model NAME_OR_GGUF] [--threads N]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import torch

import guided
from guided.engine.result import Result

HERE = Path(__file__).parent
MAIL = (HERE / "email.txt").read_text(encoding="utf-8")
SCHEMA = json.loads((HERE / "order.schema.json").read_text(encoding="utf-8"))
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
DATE = rf"([1-9]|[12][0-9]|3[01]) ({MONTHS}) 20[0-9]{{2}}"
ASK_RECORD = (
    "Extract the order from this e-mail as JSON: order number, customer, items with product and quantity, "
    f"shipping address, delivery date.\n\n{MAIL}"
)
ASK_DATE = f"{MAIL}\n\nBy which date is the delivery needed? Answer with day, month and year."
BUDGET = 300
# How small models write JSON best; Engine.generate does the same when it is given a schema as a dict.
SPELLING = {"whitespace": "single_space", "numbers": "plain", "escapes": "minimal"}


@dataclass(frozen=True)
class Run:
    """One output and what an independent judge says of it."""

    label: str
    budget: int
    result: Result
    verdict: str
    good: bool

    def row(self) -> list[str]:
        """Its cells in the table."""
        masks, sampled = sorted(self.result.timings.mask_us), sum(self.result.token_masks)
        p99 = masks[min(len(masks) - 1, int(len(masks) * 0.99))]
        numbers = [self.budget, len(self.result.tokens), sampled, len(self.result.tokens) - sampled]
        speed = f"{self.result.tokens_per_second:.1f}"
        return [self.label, *map(str, numbers), f"{statistics.median(masks):.0f}", f"{p99:.0f}", speed, self.verdict]


def main() -> int:
    """Run the demo; the exit code."""
    parser = argparse.ArgumentParser(description="Structured output of a 135M model, guaranteed and measured.")
    parser.add_argument("--model", default="smollm2-135m-instruct", help="a known name, a GGUF file or a directory")
    parser.add_argument("--threads", type=int, default=min(4, max(1, (os.cpu_count() or 1) // 2)), help="of PyTorch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    start = time.perf_counter()
    note(f"loading {arguments.model}")
    engine = guided.Engine.from_pretrained(arguments.model)
    note(f"loaded in {time.perf_counter() - start:.1f} s; PyTorch runs on {arguments.threads} thread(s)")

    record = engine.compiler.compile_json_schema(SCHEMA, **SPELLING)
    least = guided.GrammarMatcher(record).min_tokens_to_finish()
    heading("the e-mail")
    print(MAIL)
    heading(f"an order, as a nested JSON Schema wants it; at most {BUDGET} tokens")
    runs = [run(engine, "JSON Schema", ASK_RECORD, record, BUDGET, jsonschema_says)]
    heading(f"the same with a third of the budget, {BUDGET // 3} tokens (no valid record has fewer than {least})")
    runs.append(run(engine, "a third of it", ASK_RECORD, record, BUDGET // 3, jsonschema_says))
    heading(f"by when? An answer that matches {DATE}")
    runs.append(run(engine, "regex", ASK_DATE, DATE, 20, re_says))
    table(runs)
    return 0 if all(run.good for run in runs) else 1


def run(
    engine: guided.Engine,
    label: str,
    prompt: str,
    constraint: guided.CompiledGrammar | str,
    budget: int,
    judge: Callable[[str], tuple[str, bool]],
) -> Run:
    """One output, printed as it comes."""
    result = None
    for event in engine.stream([{"role": "user", "content": prompt}], constraint, max_tokens=budget):
        print(event.text, end="", flush=True)
        result = event.result
    assert result is not None
    print()
    return Run(label, budget, result, *judge(result.text))


def jsonschema_says(text: str) -> tuple[str, bool]:
    """The verdict of the jsonschema package."""
    try:
        jsonschema.validate(json.loads(text), SCHEMA)
    except (ValueError, jsonschema.ValidationError) as error:
        return f"jsonschema: INVALID, {str(error).splitlines()[0]}", False
    return "jsonschema: valid", True


def re_says(text: str) -> tuple[str, bool]:
    """The verdict of `re`."""
    matches = re.fullmatch(DATE, text) is not None
    return "re: matches" if matches else "re: NO MATCH", matches


def table(runs: list[Run]) -> None:
    """What was measured. Mask times are those of every step, first visits of a state included."""
    heading("measured in this run (mask times in microseconds; forced tokens need no choice)")
    head = ["constraint", "budget", "tokens", "sampled", "forced", "mask p50", "mask p99", "tokens/s", "verdict"]
    rows = [head, *(run.row() for run in runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for first, *middle, last in rows:
        cells = [cell.rjust(width) for cell, width in zip(middle, widths[1:-1], strict=True)]
        print("  ".join([first.ljust(widths[0]), *cells, last]))


def heading(text: str) -> None:
    """A line that parts the output."""
    print(f"\n--- {text}")


def note(text: str) -> None:
    """Progress, on standard error."""
    print(f"== {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
