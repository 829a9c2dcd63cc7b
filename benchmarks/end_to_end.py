"""SmolLM2-135M-Instruct with and without a constraint: the cost of a forward pass, and tokens per second.

In: the model's file. Out: milliseconds of a forward pass with its mask and the choice of a token, without a constraint
and under one that masks at every step and forces nothing; and tokens per second, without a constraint and under a
schema that forces text. Runs alternate on one thread and one CPU. The pass over the prompt is left out. CPU time is
compared, since other programs interrupt a shared machine during a pass; wall time is also reported.
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
# It masks most of the vocabulary at every step, and forces nothing.
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


def find_weights(location: str | None = None) -> Path:
    """The model's file: `location`, or in the engine's cache, or below $GUIDED_ASSETS. It is not downloaded.

    Raises:
        FileNotFoundError: there is no such file.
    """
    from guided.files.hub import cache_directory
    from guided.files.known_models import MODELS

    name = MODELS["smollm2-135m-instruct"].file
    places = [Path(location)] if location else [cache_directory() / name]
    if not location and "GUIDED_ASSETS" in os.environ:
        places += Path(os.environ["GUIDED_ASSETS"]).rglob(name)
    for path in places:
        if path.is_file():
            return path
    raise FileNotFoundError(f"{places[0]} is not there: run `guided generate` once, or pass --model with the GGUF file")


def measure_end_to_end(weights: Path, *, repeats: int, tokens: int = 64) -> dict[str, Any]:
    """Measure free text, masks, and a schema in turn."""
    import torch

    from guided import Engine

    torch.set_num_threads(1)
    cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if cpus is not None:
        os.sched_setaffinity(0, {pinned_cpu()})
    try:
        engine = Engine.from_pretrained(weights)
        runs = {"free": None, "masked": _ASCII, "schema": _SCHEMA}
        measurements: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
        for _ in range(repeats + 1):
            for name, constraint in runs.items():
                measurements[name].append(_generate(engine, constraint, 200 if name == "schema" else tokens))
    finally:
        if cpus is not None:
            os.sched_setaffinity(0, cpus)
    warm = {name: results[1:] for name, results in measurements.items()}
    neighbours = zip(warm["free"], warm["masked"], strict=True)  # both runs of a pair meet the same noise
    return {
        name: {key: median(result[key] for result in results) for key in results[0]} for name, results in warm.items()
    } | {
        "dtype": str(engine.model.dtype),
        "masked_to_free": median(free["cpu_per_pass"] / masked["cpu_per_pass"] for free, masked in neighbours),
    }


def _generate(engine: Any, constraint: Any, most: int) -> dict[str, float]:
    """The cost of one output from its second forward pass to its end."""
    gc.collect()
    gc.disable()
    stream = engine.stream([{"role": "user", "content": _MAIL}], constraint, max_tokens=most)
    before = 0
    for event in stream:  # the pass over the prompt ends when a sampled token arrives
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
