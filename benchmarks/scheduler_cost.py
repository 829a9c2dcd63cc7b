"""The scheduler's time for each token, without the model and without the choice of tokens. Needs no GPU.

    python -m benchmarks.scheduler_cost --sequences 64 256

On a GPU, the host must finish its work for a batch while the device computes a pass. Here the model returns no logits,
and tokens are drawn from the masks at random, which is not timed. The table of the choices is made, but not sent. In:
256 JSON Schemas and a vocabulary of 128,000 tokens (scripts/gpu/inputs.py). Out: microseconds per sequence and step,
the median of the steps in which all sequences decode, and microseconds per token of whole outputs. `constrained`: 256
tokens each; `tight`: 96, so budgets end texts.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Final
from unittest import mock

import numpy as np
import torch

from guided.engine import answers
from guided.engine.engine import Engine
from guided.engine.runner import ModelRunner, cache_shape
from guided.kernels.choice_table import make_choice_table
from guided.kv.paged import PagedCache
from guided.matching.bitmask import bits_of
from guided.models.decoder import Decoder
from guided.sampling.choice import Answer, Choice, Choose, ChosenToken
from guided.sampling.prepared import PreparedChoices, PreparedTokens
from guided.vocabulary.vocabulary import Vocabulary
from scripts.gpu.decoding import Run, requests, start_all, take
from scripts.gpu.inputs import TINY, VOCABULARY_SIZE, schemas, vocabulary

_KINDS: Final = {"free": 256, "constrained": 256, "tight": 96}  # tokens of an output


class _RandomChoices:
    """Stands for tokens that a device is choosing. `seconds`: the time for all random choices so far."""

    seconds = seconds_per_row = 0.0
    rechosen_rows = ()
    rng = np.random.default_rng(0)

    def __init__(self, requests: Sequence[Choose], prepared: PreparedChoices | None = None) -> None:
        choices = [choice for request in requests for choice in request.choices]
        make_choice_table(choices, range(len(choices)), torch.device("cpu"), prepared)
        begin = perf_counter()
        self._rows = [[self._draw(choice) for choice in request.choices] for request in requests]
        rows = [] if prepared is None else [self._draw(prepared.make_choice(index)) for index in range(len(prepared))]
        self.prepared_tokens = PreparedTokens.from_rows(rows) if rows else None
        self.tokens = torch.zeros(len(choices) + len(rows), dtype=torch.int64)
        _RandomChoices.seconds += perf_counter() - begin

    def wait(self) -> list[Answer]:
        """The answers."""
        return [Answer(row, 0.0) for row in self._rows]

    def _draw(self, choice: Choice) -> ChosenToken:
        if choice.allowed is None:
            return ChosenToken(int(self.rng.integers(256, choice.size - 1)))
        word = int(self.rng.choice(np.flatnonzero(choice.allowed)))
        bit = int(self.rng.choice(np.flatnonzero(bits_of(choice.allowed[word : word + 1]))))
        return ChosenToken(32 * word + bit, 0.1)


def measure(engine: Engine, tokens: Vocabulary, kind: str, count: int) -> tuple[float, float]:
    """Microseconds per sequence and full step, and per token of the outputs."""
    workload = requests(tokens, count, [] if kind == "free" else schemas(256), _KINDS[kind], temperature=0.8)
    start_all(engine, workload)
    gc.collect()
    gc.freeze()  # as `guided serve` does
    scheduler, run, steps = engine.scheduler, Run(), list[float]()
    total = 0.0
    while scheduler:
        is_full = scheduler.running_count >= 0.9 * count and not scheduler.prefilling_count
        begin, drawn = perf_counter(), _RandomChoices.seconds
        outcomes = scheduler.step()
        seconds = perf_counter() - begin - (_RandomChoices.seconds - drawn)
        total += seconds
        if is_full:
            steps.append(seconds / count)
        take(run, outcomes)
    assert not run.errors, run.errors[:3]
    return 1e6 * median(steps), 1e6 * total / run.tokens


def main() -> None:
    """Measure each kind with each number of sequences; the first of several rounds is a warm-up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    tokens = vocabulary(VOCABULARY_SIZE)
    model = Decoder.random(replace(TINY, vocab_size=VOCABULARY_SIZE), dtype=torch.float32, device="cpu")
    no_logits = torch.zeros(1, 1).expand(4096, VOCABULARY_SIZE)
    print("| sequences | kind | us per sequence and step | us per token |\n|--:|---|--:|--:|")
    for count in arguments.sequences:
        runner = ModelRunner(model, PagedCache(cache_shape(model), 8 * count + 8, 256))
        engine = Engine(model, tokens, runner=runner, token_budget=max(512, count))
        engine.scheduler.runs_ahead = True
        with (
            mock.patch.object(runner, "run", lambda batch: no_logits[: len(batch.kept_positions)]),
            mock.patch.object(answers, "launch", _RandomChoices),
            mock.patch.object(answers, "answer", lambda requests: _RandomChoices(requests).wait()),
        ):
            for kind in _KINDS:
                rounds = [measure(engine, tokens, kind, count) for _ in range(arguments.rounds + 1)][1:]
                step, token = (median(values) for values in zip(*rounds, strict=True))
                print(f"| {count} | {kind} | {step:.1f} | {token:.1f} |", flush=True)


if __name__ == "__main__":
    main()
