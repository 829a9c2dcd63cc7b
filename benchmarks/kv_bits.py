"""Compares 8-bit keys and values with the model's own type: the time of a decode step, and the change of the answers.

`python -m benchmarks.kv_bits [--model PATH] [--text FILE] [--steps]`. In: SmolLM2's GGUF file, a text. Out, over the
text: the divergence (KL, in nats) of the distribution of the next token, and how often the most likely token is the
same. For greedy answers: how many of 64 tokens agree before the first difference. For contexts of 1,000 to 8,000 tokens
and batches of 1 and 8: milliseconds of a decode step on one thread (the lesser of wall and CPU time). Both caches
alternate within a round, and the median round counts.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.end_to_end import find_weights

_CONTEXTS, _BATCHES, _ROUNDS, _BLOCK = (1000, 2000, 4000, 8000), (1, 8), 15, 16
_QUESTIONS = (
    "What is the capital of France?", "Explain why the sky is blue.", "Write a short story about a dog.",
    "How does a bicycle stay upright?", "Name three rivers in Europe.", "What does a compiler do?",
    "Extract as JSON (name, age): Ana Lopes is 34.", "Give me a recipe for pancakes.",
)  # fmt: skip


class Steps:
    """Decode steps of some sequences over a cache of random values. Each step is rolled back."""

    def __init__(self, model: Any, packed: bool, positions: int) -> None:
        import torch

        from guided.engine.runner import ModelRunner, cache_shape
        from guided.kv.paged import PagedCache
        from guided.kv.quantised import QuantisedCache, pack, packed_shape

        shape = cache_shape(model)
        paged = PagedCache(packed_shape(shape) if packed else shape, -(-positions // _BLOCK), _BLOCK)
        for memory in (paged._pool.k, paged._pool.v):
            for layer in memory:
                noise = torch.randn(len(layer), shape.kv_heads, shape.head_dim, dtype=shape.dtype)
                layer[:] = pack(noise) if packed else noise
        self.runner = ModelRunner(model, QuantisedCache(paged, shape) if packed else paged)

    def prepare(self, batch: int, context: int) -> list[Any]:
        """Leases with this many tokens, and space for one more."""
        cache, leases = self.runner.cache, []
        for _ in range(batch):
            lease = cache.open([])
            assert cache.reserve(lease, context + 1)
            cache.advance(lease, [len(leases)] * context)
            leases.append(lease)
        return leases

    def step(self, leases: list[Any], context: int) -> float:
        """Seconds."""
        from guided.engine.runner import Chunk

        wall, cpu = time.perf_counter(), time.thread_time()
        self.runner.step([Chunk(lease, [1]) for lease in leases])
        seconds = min(time.perf_counter() - wall, time.thread_time() - cpu)
        for lease in leases:
            self.runner.cache.truncate(lease, context)
            assert self.runner.cache.reserve(lease, 1)
        return seconds


def measure_steps(model: Any) -> None:
    """A line for each batch size and context."""
    both = [Steps(model, packed, _BATCHES[-1] * (_CONTEXTS[-1] + _BLOCK)) for packed in (False, True)]
    for batch in _BATCHES:
        for context in _CONTEXTS:
            leases = [steps.prepare(batch, context) for steps in both]
            rounds = [[s.step(one, context) for s, one in zip(both, leases, strict=True)] for _ in range(_ROUNDS + 1)]
            for steps, some in zip(both, leases, strict=True):
                for lease in some:
                    steps.runner.cache.close(lease)
            plain, packed = (1e3 * median(times) for times in zip(*rounds[1:], strict=True))
            ratio = median(b / a for a, b in rounds[1:])
            print(f"batch {batch}, {context} tokens: {plain:.1f} ms, int8 {packed:.1f} ms ({ratio:.2f}x)", flush=True)


def measure_answers(path: Path, text: str, dtype: str) -> None:
    """Two lines: one for the text's tokens, one for answers."""
    from guided import Engine

    plain = Engine.from_pretrained(path, dtype=dtype)
    packed = Engine(plain.model, plain.vocabulary, chat=plain.chat_template, bos=plain.bos, kv_dtype="int8")
    ids = plain.encode_prompt(text, raw=True)
    p, q = (engine.logits(ids, len(ids)).log_softmax(-1) for engine in (plain, packed))
    divergence, same = (p.exp() * (p - q)).sum(-1), int((p.argmax(-1) == q.argmax(-1)).sum())
    print(f"{dtype}, {len(ids)} tokens: KL {divergence.mean():.1e} (most {divergence.max():.1e}), likeliest token the "
          f"same at {same}", flush=True)  # fmt: skip
    agree = []
    for question in _QUESTIONS:
        prompt = [{"role": "user", "content": question}]
        a, b = (engine.generate(prompt, max_tokens=64, ignore_eos=True).tokens for engine in (plain, packed))
        agree.append(next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), len(a)))
    print(f"{dtype}, greedy: {agree} of 64 tokens before the first that differs", flush=True)


def main() -> int:
    """Run all measurements."""
    import torch

    from guided import Engine

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kv_bits", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="SmolLM2's GGUF file")
    parser.add_argument("--steps", action="store_true", help="measure only the times")
    parser.add_argument(
        "--text",
        type=Path,
        default=Path("docs/architecture.md"),
        help="the text, of which the first 2,600 characters are used",
    )
    arguments = parser.parse_args()
    path = find_weights(arguments.model)
    torch.set_num_threads(1)
    text = arguments.text.read_text("utf-8")[:2600]
    for dtype in () if arguments.steps else ("bfloat16", "float32"):
        measure_answers(path, text, dtype)
    measure_steps(Engine.from_pretrained(path).model)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
