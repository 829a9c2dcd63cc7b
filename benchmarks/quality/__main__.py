"""Right fields of fifty extractions, with and without a description of the schema in the prompt.

    python -m benchmarks.quality --model qwen2.5-coder-0.5b-instruct

In: a model. Out: for each mode the right fields, tokens, the removed mass and seconds, and how well `Field.confidence`
tells right fields from wrong ones: the probability that a right one has the higher confidence (AUROC). Decoding is
greedy. An extra item of a list counts as a wrong field, so the number of fields differs between modes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import guided
from benchmarks.extraction import ANSWERS, INSTRUCTIONS
from benchmarks.extraction import TASKS as FIRST_TASKS
from benchmarks.quality.extraction_tasks import TASKS, right_fields
from guided.cli.model import DEFAULT_MODEL

_MAX_TOKENS = 300


class _Case(NamedTuple):
    text: str
    schema: dict[str, Any]
    answer: Any


def _cases() -> list[_Case]:
    first = [_Case(text, schema, answer) for (text, schema), answer in zip(FIRST_TASKS, ANSWERS, strict=True)]
    return [*first, *(_Case(task.text, task.schema, task.answer) for task in TASKS)]


def _results(engine: guided.Engine, cases: list[_Case], describe: bool) -> Iterator[tuple[_Case, guided.Result]]:
    requests = []
    for case in cases:
        messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": case.text}]
        options = guided.Options(max_tokens=_MAX_TOKENS, describe=describe)
        requests.append(guided.Request(messages, case.schema, options=options))
    for number, outcome in engine.generate_each(requests):
        if isinstance(outcome, Exception):
            raise outcome
        yield cases[number], cast("guided.Result", outcome[0])


def _auroc(right: list[float], wrong: list[float]) -> float:
    """The probability that a right field has the higher confidence; ties count half."""
    pairs = [(a > b) + 0.5 * (a == b) for a in right for b in wrong]
    return sum(pairs) / len(pairs) if pairs else float("nan")


def _measure(engine: guided.Engine, describe: bool) -> str:
    begin, tokens, removed = time.perf_counter(), 0, 0.0
    verdicts, right, wrong = list[bool](), list[float](), list[float]()
    for case, result in _results(engine, _cases(), describe):
        tokens, removed = tokens + len(result.tokens), removed + result.removed_log_mass
        for pointer, is_right in right_fields(case.answer, result.value).items():
            verdicts.append(is_right)
            if pointer in result.fields:
                (right if is_right else wrong).append(result.fields[pointer].confidence)
    seconds = time.perf_counter() - begin
    share = f"{sum(verdicts)} of {len(verdicts)} | {sum(verdicts) / len(verdicts):.1%}"
    mode = "described" if describe else "plain"
    return f"| {mode} | {share} | {tokens:,} | {removed:.0f} | {seconds:.0f} | {_auroc(right, wrong):.2f} |"


def main() -> None:
    """Measure both modes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a name or a path")
    engine = guided.Engine.from_pretrained(parser.parse_args().model)
    print("| mode | right fields | share | tokens | removed, nats | seconds | AUROC |\n|---|--:|--:|--:|--:|--:|--:|")
    for describe in (False, True):
        print(_measure(engine, describe), flush=True)


if __name__ == "__main__":
    main()
