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
    least = [guided.GrammarMatcher(grammar).min_tokens_to_finish() for grammar in grammars]

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
            for (text, _), grammar, needed in zip(TASKS, grammars, least, strict=True)
        ]
        found = 0
        for at, answer in engine.generate_each(requests):
            if isinstance(answer, Exception):
                raise answer
            found += count(ANSWERS[at], json.loads(answer[0].text))[0]
        return found

    rows = []
    for times in TIMES:
        for ramp in RAMPS if times is not None else RAMPS[:1]:
            greedy = right(times, ramp, 0.0, 0)
            sampled = [right(times, ramp, _TEMPERATURE, seed) for seed in range(seeds)]
            rows.append({"times": times, "ramp": ramp, "greedy": greedy, "sampled": sum(sampled)})
            print(rows[-1], flush=True)
    return {"rows": rows, "fields": sum(count(answer, None)[1] for answer in ANSWERS), "seeds": seeds}


def count(wanted: Any, found: Any) -> tuple[int, int]:
    """The number of right fields, and of all fields. A tuple lists alternative answers."""
    if isinstance(wanted, dict):
        parts = [count(part, found.get(name) if isinstance(found, dict) else None) for name, part in wanted.items()]
    elif isinstance(wanted, list):
        items = found if isinstance(found, list) else []
        parts = [count(part, items[at] if at < len(items) else None) for at, part in enumerate(wanted)]
    else:
        value = found.lower().strip(" .") if isinstance(found, str) else found
        answers = wanted if isinstance(wanted, tuple) else (wanted,)
        return int(any(type(value) is type(answer) and value == answer for answer in answers)), 1
    return sum(right for right, _ in parts), sum(all_ for _, all_ in parts)
