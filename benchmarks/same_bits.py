"""The same requests in other circumstances: how many have the same tokens and the same log probabilities, bit for bit.

`python -m benchmarks.same_bits [--model PATH] [--prompts 60] [--kinds quantised,...]`. In: SmolLM2's GGUF file. Out: a
table. Its rows are the types of weights, keys and values. Its columns are what may differ between two runs of a
request: a cached prefix, a prompt that is read in chunks, seven other requests in the batch, drafts, preemption. The
reference is each request alone, with an empty cache. A cell has the number of equal requests, greedy and sampled at
temperature 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from benchmarks.end_to_end import find_weights

KINDS = {
    "float32": {"dtype": "float32"},
    "bfloat16": {"dtype": "bfloat16", "dense": True},
    "quantised": {},
    "quantised bfloat16": {"dtype": "bfloat16"},
    "quantised, int8 cache": {"kv_dtype": "int8"},
}
_PLACES = [
    "Lisbon",
    "Oslo",
    "Rome",
    "Turin",
    "Paris",
    "Berlin",
    "Madrid",
    "Vienna",
    "Prague",
    "Athens",
    "Dublin",
    "Warsaw",
]
_COUNTS = ["one", "two", "three", "four", "five", "six"]
_OPTIONS: dict[str, Any] = {"max_tokens": 14, "logprobs": 1}
_GROUP = 8


def prompts(count: int) -> list[list[dict[str, str]]]:
    """Questions that begin alike."""
    texts = [f"Tell me {number} things about {place}, briefly." for place in _PLACES for number in _COUNTS]
    return [[{"role": "user", "content": text}] for text in texts[:count]]


def load(path: Any, kind: dict[str, Any]) -> Callable[..., Any]:
    """Makes engines over the same weights, each with its own cache, of default size or of a number of blocks."""
    import torch

    from guided import Engine
    from guided.engine.runner import cache_shape
    from guided.files.gguf import GgufFile
    from guided.kv.paged import PagedCache
    from guided.kv.quantised import QuantisedCache, packed_shape
    from guided.models.loading.gguf_loader import load_gguf

    kind = dict(kind)
    kv_dtype, dense = kind.pop("kv_dtype", "auto"), kind.pop("dense", False)
    first = Engine.from_pretrained(path, **kind)
    if dense:
        with GgufFile(path) as file:
            model = load_gguf(file, dtype=torch.bfloat16, device=torch.device("cpu"), keep_format=False)
        first = Engine(model, first.vocabulary, chat=first.chat_template, bos=first.bos)
    shape = cache_shape(first.model)

    def make(blocks: int | None = None, token_budget: int = 512) -> Any:
        options: dict[str, Any] = {"kv_dtype": kv_dtype}
        if blocks is not None:
            packed = kv_dtype == "int8"
            paged = PagedCache(packed_shape(shape) if packed else shape, blocks, 16)
            options = {"cache": QuantisedCache(paged, shape) if packed else paged}
        return Engine(
            first.model, first.vocabulary, chat=first.chat_template, bos=first.bos, token_budget=token_budget, **options
        )

    return make


def answers(make: Callable[..., Any], requests: list[Any], how: str, options: dict[str, Any]) -> list[Any]:
    """The result of each request in these circumstances."""
    groups = [requests[at : at + _GROUP] for at in range(0, len(requests), _GROUP)]
    if how == "alone, nothing known":
        results = [make().generate(prompt, **options) for prompt in requests]
    elif how == "its prefix known":
        engine = make()
        for prompt in requests:
            engine.generate(prompt, max_tokens=1)
        results = [engine.generate(prompt, **options) for prompt in requests]
    elif how == "its prompt in pieces of 7":
        results = [make(token_budget=7).generate(prompt, **options) for prompt in requests]
    elif how == "eight side by side":
        results = [result for group in groups for result in make().generate_batch(group, **options)]
    elif how == "eight, with prompts in pieces among them":
        results = [result for group in groups for result in make(token_budget=24).generate_batch(group, **options)]
    elif how == "with drafts":
        results = [make().generate(prompt, drafts=4, **options) for prompt in requests]
    else:
        results, gave_way = [], 0
        for group in groups:
            engine = make(blocks=18)
            results += engine.generate_batch(group, **options)
            gave_way += engine.scheduler.preemptions
        assert gave_way, "nobody gave way"
    return [(result.tokens, result.logprobs) for result in results]


CIRCUMSTANCES = (
    "its prefix known", "its prompt in pieces of 7", "eight side by side", "eight, with prompts in pieces among them",
    "with drafts", "giving way and read again",
)  # fmt: skip


def main() -> int:
    """The table, line by line."""
    import torch

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.same_bits", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="SmolLM2's GGUF file")
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--kinds", default=",".join(name for name in KINDS if "," not in name))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    path, requests = find_weights(arguments.model), prompts(arguments.prompts)
    print(f"| of {len(requests)}: greedy / sampled | " + " | ".join(CIRCUMSTANCES) + " |", flush=True)
    for name in arguments.kinds.split(","):
        make, row = load(path, KINDS[name.replace("+", ", ")]), []
        expected = {
            temperature: answers(
                make, requests, "alone, nothing known", _OPTIONS | {"temperature": temperature, "seed": 1}
            )
            for temperature in (0.0, 1.0)
        }
        for how in CIRCUMSTANCES:
            same = [
                sum(map(_same, answers(make, requests, how, _OPTIONS | {"temperature": temperature, "seed": 1}), want))
                for temperature, want in expected.items()
            ]
            row.append(" / ".join(map(str, same)))
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)
    return 0


def _same(a: Any, b: Any) -> bool:
    return bool(a == b)


if __name__ == "__main__":
    raise SystemExit(main())
