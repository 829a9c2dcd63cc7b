"""SmolLM2-135M-Instruct with and without a constraint: what a forward pass costs, and tokens per second.

In: the model's file. Out: milliseconds for a forward pass with all that goes with it (mask, choice of a token), free
and under a constraint that masks at every step and forces nothing; and tokens per second, free and where a schema
forces text. Runs alternate, one thread, one CPU; the prompt's own pass is left out. CPU time is compared, since a pass
takes longer than a shared machine leaves a process alone; wall time stands beside it.
"""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.workers import pinned_cpu

__all__ = ["find_weights", "measure_end_to_end"]

_MAIL = (
    "Extract the order as JSON.\n\nHello, this is Maria Silva (maria.silva@example.org). Please send two oak tables "
    "and one copper lamp to Rua Augusta 12, 1100-053 Lisboa. I have paid 480.50 EUR by card. Thank you!"
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
    from guided.files.hub import cache_directory
    from guided.files.known_models import MODELS

    name = MODELS["smollm2-135m-instruct"].file
    places = [Path(given)] if given else [cache_directory() / name]
    if not given and "GUIDED_ASSETS" in os.environ:
        places += Path(os.environ["GUIDED_ASSETS"]).rglob(name)
    for path in places:
        if path.is_file():
            return path
    raise FileNotFoundError(f"{places[0]} is not there: run `guided generate` once, or pass --model with the GGUF file")


def measure_end_to_end(weights: Path, *, repeats: int, tokens: int = 64) -> dict[str, Any]:
    """Free, masked and under a schema in turn."""
    import torch

    from guided import Engine

    torch.set_num_threads(1)
    cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if cpus is not None:
        os.sched_setaffinity(0, {pinned_cpu()})
    try:
        engine = Engine.from_pretrained(weights)
        runs = {"free": None, "masked": _ASCII, "schema": _SCHEMA}
        found: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
        for _ in range(repeats + 1):
            for name, constraint in runs.items():
                found[name].append(_generate(engine, constraint, 200 if name == "schema" else tokens))
    finally:
        if cpus is not None:
            os.sched_setaffinity(0, cpus)
    warm = {name: results[1:] for name, results in found.items()}
    neighbours = zip(warm["free"], warm["masked"], strict=True)  # a pair meets the same noise
    return {
        name: {key: median(result[key] for result in results) for key in results[0]} for name, results in warm.items()
    } | {
        "dtype": str(engine.model.dtype),
        "masked_to_free": median(free["cpu_per_pass"] / masked["cpu_per_pass"] for free, masked in neighbours),
    }


def _generate(engine: Any, constraint: Any, most: int) -> dict[str, float]:
    """One output: what it cost from its second forward pass to its end."""
    gc.collect()
    gc.disable()
    stream = engine.stream([{"role": "user", "content": _MAIL}], constraint, max_tokens=most)
    before = 0
    for event in stream:  # the prompt's pass is over when a sampled token comes
        before += len(event.tokens)
        if not event.forced:
            break
    cpu, wall = time.thread_time(), time.perf_counter()
    for event in stream:
        result = event.result
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    gc.enable()
    timings = result.timings
    passes = len(timings.forward)
    return {
        "cpu_per_pass": cpu / passes * 1e3,
        "wall_per_pass": wall / passes * 1e3,
        "tokens_per_cpu_second": (len(result.tokens) - before) / cpu,
        "tokens_per_second": (len(result.tokens) - before) / wall,
        "mask_us": median(timings.mask) * 1e6 if timings.mask else 0.0,
        "sample_us": median(timings.sample) * 1e6,
        "tokens": len(result.tokens),
        "forced": result.token_masks.count(0),
        "passes": passes + 1,
    }
