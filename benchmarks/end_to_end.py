"""SmolLM2-135M-Instruct with and without a constraint: what a forward pass costs, and tokens per second.

In: the model's file. Out: milliseconds a step (forward pass, mask, choice of a token) free and under a constraint that
masks at every step and forces nothing; and tokens per second, free and where a schema forces text. Runs alternate, one
thread, one CPU; the median over all steps is compared, because single steps meet the rest of the machine.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.workers import pinned_cpu

__all__ = ["find_weights", "measure_end_to_end"]

_PROMPT = [{"role": "user", "content": "Write a long story about a fox who learns to repair old clocks."}]
_MAIL = (
    "Extract the order as JSON.\n\nHello, this is Maria Silva (maria.silva@example.org). Please send two oak tables and "
    "one copper lamp to Rua Augusta 12, 1100-053 Lisboa. I have paid 480.50 EUR by card. Thank you!"
)
# Masks most of the vocabulary at every step, and forces nothing.
_ASCII = r"[ -~\n]{1,4000}"
_SCHEMA = {
    "type": "object",
    "properties": {
        "customer_name": {"type": "string", "maxLength": 48},
        "customer_email": {"type": "string", "maxLength": 48},
        "delivery_address": {
            "type": "object",
            "properties": {
                "street_and_number": {"type": "string", "maxLength": 48},
                "postal_code": {"type": "string", "maxLength": 12},
                "city_name": {"type": "string", "maxLength": 24},
            },
            "required": ["street_and_number", "postal_code", "city_name"],
            "additionalProperties": False,
        },
        "payment_method": {"enum": ["credit_card", "bank_transfer", "cash_on_delivery"]},
        "payment_received": {"type": "boolean"},
        "number_of_positions": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": [
        "customer_name",
        "customer_email",
        "delivery_address",
        "payment_method",
        "payment_received",
        "number_of_positions",
    ],
    "additionalProperties": False,
}


def find_weights(given: str | None = None) -> Path:
    """The model's file: `given`, or in the engine's cache, or below $GUIDED_ASSETS. Nothing is fetched.

    Raises:
        FileNotFoundError: it is nowhere.
    """
    from guided.engine.hub import MODELS, cache_directory

    name = Path(MODELS["smollm2-135m-instruct"].member).name
    places = [Path(given)] if given else [cache_directory() / name]
    if not given and "GUIDED_ASSETS" in os.environ:
        places += Path(os.environ["GUIDED_ASSETS"]).rglob(name)
    for path in places:
        if path.is_file():
            return path
    raise FileNotFoundError(f"{places[0]} is not there: run `guided generate` once, or pass --model with the GGUF file")


def measure_end_to_end(weights: Path, *, repeats: int, tokens: int = 64) -> dict[str, Any]:
    """Free and constrained in turn."""
    import torch

    from guided import Engine

    torch.set_num_threads(1)
    cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if cpus is not None:
        os.sched_setaffinity(0, {pinned_cpu()})
    try:
        engine = Engine.from_pretrained(weights)
        mail = [{"role": "user", "content": _MAIL}]
        runs: dict[str, tuple[Any, Any, int]] = {
            "free": (_PROMPT, None, tokens),
            "masked": (_PROMPT, _ASCII, tokens),
            "free, extraction": (mail, None, 100),
            "schema": (mail, _SCHEMA, 200),
        }
        results: dict[str, list[Any]] = {name: [] for name in runs}
        for _ in range(repeats + 1):
            for name, (prompt, constraint, most) in runs.items():
                gc.collect()
                gc.disable()
                results[name].append(engine.generate(prompt, constraint, max_tokens=most))
                gc.enable()
    finally:
        if cpus is not None:
            os.sched_setaffinity(0, cpus)
    return {name: _summary(found[1:]) for name, found in results.items()} | {"dtype": str(engine.model.dtype)}


def _summary(results: list[Any]) -> dict[str, float]:
    """Medians over the steps of all runs, the first (cold) one left out."""
    steps, overhead, forward = [], [], []
    for result in results:
        timings = result.timings
        # the prompt's own pass has a mask and a choice too: they stand first
        for passed, masked, chosen in zip(
            timings.forward, timings.mask[-len(timings.forward) :] or [0.0] * 10**4, timings.sample[1:], strict=False
        ):
            forward.append(passed)
            overhead.append(masked + chosen)
            steps.append(passed + masked + chosen)
    return {
        "step": median(steps) * 1e3,
        "forward": median(forward) * 1e3,
        "overhead": median(overhead) * 1e3,
        "tokens_per_second": median(
            len(result.tokens) / (result.timings.total - result.timings.prefill) for result in results
        ),
        "tokens": len(results[0].tokens),
        "forced": results[0].token_masks.count(0),
        "passes": len(results[0].timings.forward) + 1,
    }
