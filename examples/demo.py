"""Shows guided's main task with SmolLM2-135M-Instruct: the output satisfies the specification, within a token budget.

In: email.txt and order.schema.json next to this file. Prints the model's text if the prompt merely asks for JSON; a
record under a schema, with each field next to the value in the e-mail; a record within a third of the budget; a date
under a regular expression; and a table of measurements. The exit code is 1 if an independent judge (the jsonschema
package, `re`) finds that a constrained output does not satisfy its specification.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import torch

import guided
from guided.engine.result import Result
from guided.matching.constraint import compile_constraint

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
WANTED = {
    "order_number": "BR-20417",
    "customer": {"name": "Marta Lindqvist", "email": "marta@nordlicht-kaffee.de"},
    "items": [{"product": "Sidamo Washed", "quantity": 12}, {"product": "filter papers", "quantity": 3}],
    "ship_to": {"street": "Hafenstrasse 17", "city": "Hamburg"},
    "deliver_by": "2025-03-12",
}
"""What the e-mail says."""


@dataclass(frozen=True)
class Run:
    """One output, and the verdict of an independent judge."""

    label: str
    budget: int
    result: Result
    verdict: str
    good: bool

    def row(self) -> list[str]:
        """The cells of this run in the table."""
        masks, sampled = sorted(self.result.timings.mask_us), sum(self.result.token_masks)
        times = [statistics.median(masks), masks[min(len(masks) - 1, int(len(masks) * 0.99))]] if masks else []
        numbers = [self.budget, len(self.result.tokens), sampled, len(self.result.tokens) - sampled]
        cells = [*map(str, numbers), *([f"{time:.0f}" for time in times] or ["", ""])]
        return [self.label, *cells, f"{self.result.tokens_per_second:.1f}", self.verdict]


def main() -> int:
    """Run the demo, and return the exit code."""
    parser = argparse.ArgumentParser(description="Structured output of a 135M model, guaranteed and measured.")
    parser.add_argument("--model", default="smollm2-135m-instruct", help="a known name, a GGUF file or a directory")
    parser.add_argument(
        "--threads", type=int, default=min(4, max(1, (os.cpu_count() or 1) // 2)), help="number of PyTorch's threads"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    start = time.perf_counter()
    try:
        engine = guided.Engine.from_pretrained(arguments.model)
    except guided.GuidedError as error:  # for example, the model cannot be fetched
        parser.exit(2, f"{parser.prog}: {error}\n")
    seconds = time.perf_counter() - start
    note(f"{arguments.model}, loaded in {seconds:.1f} s; PyTorch runs on {arguments.threads} thread(s)")

    heading("the e-mail")
    print(MAIL.rstrip())
    heading(f"the model alone, asked for JSON; at most {BUDGET} tokens")
    free = run(engine, "none", ASK_RECORD, None, BUDGET, jsonschema_says)
    print(f"\n{free.verdict}")
    heading("the same model and budget, under a nested JSON Schema")
    record = run(engine, "JSON Schema", ASK_RECORD, SCHEMA, BUDGET, jsonschema_says)
    compare(record.result)
    minimum = guided.GrammarMatcher(compiled(engine)).min_tokens_to_finish()
    heading(f"with a third of the budget, {BUDGET // 3} tokens (no valid record has fewer than {minimum})")
    short = run(engine, "a third of it", ASK_RECORD, SCHEMA, BUDGET // 3, jsonschema_says)
    bound, choices = short.result.budget_bound, len(short.result.removed_log_masses)
    print(f"\n{short.verdict}; at {bound.steps} of {choices} choices the budget removed tokens that the schema allows")
    heading(f"by when? An answer that matches {DATE}")
    date = run(engine, "regex", ASK_DATE, DATE, 20, re_says)
    table([free, record, short, date])
    return 0 if all(run.good for run in (record, short, date)) else 1


def compiled(engine: guided.Engine) -> guided.CompiledGrammar:
    """Compile the schema as the engine does."""
    grammar = compile_constraint(engine.compiler, SCHEMA)
    assert grammar is not None
    return grammar


def run(
    engine: guided.Engine,
    label: str,
    prompt: str,
    constraint: dict[str, Any] | str | None,
    budget: int,
    judge: Callable[[str], tuple[str, bool]],
) -> Run:
    """Generate one output, and print it as it arrives."""
    result = None
    for event in engine.stream([{"role": "user", "content": prompt}], constraint, max_tokens=budget):
        print(event.text, end="", flush=True)
        result = event.result
    assert result is not None
    print()
    return Run(label, budget, result, *judge(result.text))


def compare(result: Result) -> None:
    """Print each field of the record next to its value in the e-mail."""
    values = dict(fields(result.value))
    rows = [(path, expected, values.pop(path, "")) for path, expected in fields(WANTED)]
    rows += [(path, "", value) for path, value in values.items()]
    print(f"\n{'field':20} {'what the e-mail says':28} the record")
    for path, expected, value in rows:
        print(f"{path:20} {expected:28} {value}{'' if is_right(expected, value) else '   WRONG'}")
    print(f"{sum(is_right(expected, value) for _, expected, value in rows)} of {len(rows)} fields are right")


def fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, value as text) for each value that is neither an object nor an array."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield path, str(value)
    else:
        for name, part in parts:
            yield from fields(part, f"{path}.{name}" if path else str(name))


def is_right(expected: str, value: str) -> bool:
    """Whether a field has the value in the e-mail, ignoring case."""
    return expected.lower() == value.lower()


def jsonschema_says(text: str) -> tuple[str, bool]:
    """The verdict of the jsonschema package, and whether the text is valid."""
    try:
        jsonschema.validate(json.loads(text), SCHEMA)
    except jsonschema.ValidationError as error:
        return f"jsonschema: INVALID, {error.message}"[:100], False
    except ValueError as error:
        return f"no JSON: {error}", False
    return "jsonschema: valid", True


def re_says(text: str) -> tuple[str, bool]:
    """The verdict of `re`, and whether the text matches."""
    matches = re.fullmatch(DATE, text) is not None
    return "re: matches" if matches else "re: NO MATCH", matches


def table(runs: list[Run]) -> None:
    """Print the measurements. Each run is the first one with its constraint, except the run under a smaller budget,
    which is the second.
    """
    heading(
        "measured in this run; forced tokens need no choice; mask: microseconds, first instance, between forward passes"
    )
    head = ["constraint", "budget", "tokens", "sampled", "forced", "mask p50", "mask p99", "tokens/s", "verdict"]
    rows = [head, *(run.row() for run in runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for first, *middle, last in rows:
        cells = [cell.rjust(width) for cell, width in zip(middle, widths[1:-1], strict=True)]
        print("  ".join([first.ljust(widths[0]), *cells, last]))


def heading(text: str) -> None:
    """Print a line that separates sections."""
    print(f"\n--- {text}")


def note(text: str) -> None:
    """Print progress on standard error."""
    print(f"== {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
