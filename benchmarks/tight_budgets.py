"""Extraction under tight budgets: how many fields are right if the budget guides the model, and if it only cuts the
output.

In: SmolLM2's GGUF file. Out: how many fields of the tasks of `extraction.py`, which has the right answers, are right at
1.1, 1.5 and 2 times the tokens of the shortest completion, and with a large budget; greedy, and sampled with some
seeds; for each strength of `budget_ramp`. Texts are compared without regard to case, lists item by item.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.extraction import ANSWERS, INSTRUCTIONS, TASKS

__all__ = ["measure_tight_budgets"]

TIMES = (1.1, 1.5, 2.0, None)
RAMPS = (0.0, 1.0, 2.0, 4.0)
SEEDS = 8
_PLENTY, _TEMPERATURE = 200, 0.7


def measure_tight_budgets(weights: Path, *, seeds: int = SEEDS) -> dict[str, Any]:
    """Right fields by budget and ramp."""
    import guided
    from guided.engine.request import Request

    engine = guided.Engine.from_pretrained(weights)
    grammars = [guided.matching.constraint.compile_constraint(engine.compiler, schema) for _, schema in TASKS]
    minima = [guided.GrammarMatcher(grammar).min_tokens_to_finish() for grammar in grammars]

    def right(times: float | None, ramp: float, temperature: float, seed: int) -> int:
        requests = [
            Request(
                [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": text}],
                grammar,
                options={
                    "max_tokens": _PLENTY if times is None else int(times * needed),
                    "temperature": temperature,
                    "seed": seed,
                    "budget_ramp": ramp,
                },
            )
            for (text, _), grammar, needed in zip(TASKS, grammars, minima, strict=True)
        ]
        right_count = 0
        for at, answer in engine.generate_each(requests):
            if isinstance(answer, Exception):
                raise answer
            right_count += count(ANSWERS[at], json.loads(answer[0].text))[0]
        return right_count

    rows = []
    for times in TIMES:
        for ramp in RAMPS if times is not None else RAMPS[:1]:
            greedy = right(times, ramp, 0.0, 0)
            sampled = [right(times, ramp, _TEMPERATURE, seed) for seed in range(seeds)]
            rows.append({"times": times, "ramp": ramp, "greedy": greedy, "sampled": sum(sampled)})
            print(rows[-1], flush=True)
    return {"rows": rows, "fields": sum(count(answer, None)[1] for answer in ANSWERS), "seeds": seeds}


def count(expected: Any, actual: Any) -> tuple[int, int]:
    """The number of right fields, and of all fields. A tuple lists alternative answers."""
    if isinstance(expected, dict):
        parts = [count(part, actual.get(name) if isinstance(actual, dict) else None) for name, part in expected.items()]
    elif isinstance(expected, list):
        items = actual if isinstance(actual, list) else []
        parts = [count(part, items[at] if at < len(items) else None) for at, part in enumerate(expected)]
    else:
        value = actual.lower().strip(" .") if isinstance(actual, str) else actual
        answers = expected if isinstance(expected, tuple) else (expected,)
        return int(any(type(value) is type(answer) and value == answer for answer in answers)), 1
    return sum(right for right, _ in parts), sum(all_ for _, all_ in parts)
