"""Part `extras`: the offload cache with long contexts, CUDA graphs, and LoRA adapters.

An engine has one adapter. Several engines can share a base model on the device, each with its own adapter. Each of them
has the cost of one adapter, which is measured here.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from guided.engine.graphs import Capture
from guided.engine.runner import Chunk, ModelRunner, cache_shape
from guided.kv.cache import CacheShape, KVCache
from guided.kv.offload.cache import OffloadCache
from guided.kv.paged import PagedCache
from guided.models.decoder import Decoder, Layer
from guided.models.linear import AdaptedMatrix, Matrix
from guided.models.model import Model
from scripts.gpu.attention import attention_of, best_path, capture_of
from scripts.gpu.clock import host_time
from scripts.gpu.inputs import QWEN_17B, TINY
from scripts.gpu.report import Report, Setting
from tests.test_kv_caches import KINDS, SHAPE, walk

__all__ = ["run"]

RANK: Final = 16
SEQUENCES: Final = (1, 8, 64, 256)
LAYERS: Final = 8  # layers of the model with long contexts


def run(setting: Setting, report: Report) -> None:
    """See the module."""
    for name in ("offload", "hybrid"):
        with report.checking(f"offload: each sequence reads its own past, {name}") as note:
            note(f"{walk_through(setting, name)} walks")
    with report.checking("offload: logits are those of a paged cache"), torch.inference_mode():
        offload(setting, report)
    release(setting)
    dtype = setting.pick(torch.bfloat16, torch.float32)
    model = Decoder.random(setting.pick(QWEN_17B, TINY), dtype=dtype, device=setting.device)
    path = best_path(setting)
    with report.checking("adapters: a pass of an adapted model"), attention_of(path):
        adapters(setting, report, model)
    with report.checking(f"graphs: a pass with and without, {path}"), attention_of(path):
        graphs(setting, report, model)


def release(setting: Setting) -> None:
    """Free memory."""
    gc.collect()
    if not setting.dry:
        torch.cuda.empty_cache()


def walk_through(setting: Setting, name: str) -> int:
    """Read, fork, cut and close sequences in random order. Each key depends on all earlier tokens."""
    shape, count = replace(SHAPE, device=setting.device), setting.pick(20, 2)
    for seed in range(count):
        walk(KINDS[name](shape), random.Random(seed), look=0.3)
    return count


def offload(setting: Setting, report: Report) -> None:
    """Read long prompts in chunks, then single tokens. Both caches use the same attention."""
    context = setting.pick(8192, 90)
    size, length = setting.pick(256, 8), context - 20
    config = replace(setting.pick(QWEN_17B, TINY), layers=setting.pick(LAYERS, 2), context=context, vocab_size=700)
    dtype = setting.pick(torch.bfloat16, torch.float32)
    model = Decoder.random(config, dtype=dtype, device=setting.device)
    blocks = -(-context // size) + 2
    caches: dict[str, Callable[[CacheShape], KVCache]] = {
        "paged": lambda shape: PagedCache(shape, blocks, size),
        "offload, ring of 4": lambda shape: OffloadCache(shape, blocks, 4, size),
        "offload, half on the device": lambda shape: OffloadCache(shape, blocks, 4, size, device_blocks=blocks // 2),
    }
    want: Tensor | None = None
    for name, make in caches.items():
        runner = ModelRunner(model, make(cache_shape(model)), capture=lambda run: run)
        decoding = Decoding(runner, 1)
        with attention_of("one by one"):
            for start in range(0, length, setting.pick(512, 16)):
                decoding.step(min(setting.pick(512, 16), length - start))
            rows = torch.cat([decoding.step(1).float() for _ in range(4)])
            milliseconds = host_time(setting, partial(decoding.step, 1), 5) / 1e3
        report.figure("A token after a long context", f"{length:,} positions", name, milliseconds, "ms")
        want = rows if want is None else want
        error = float((rows - want).norm() / want.norm())
        assert error < 0.05, f"{name}: {error:.2g} of the norm apart"


class Decoding:
    """Let each sequence read one token."""

    def __init__(self, runner: ModelRunner, sequences: int) -> None:
        self._runner = runner
        self._leases = [runner.cache.open([0]) for _ in range(sequences)]

    def step(self, count: int) -> Tensor:
        """The logits of each sequence's last position."""
        for lease in self._leases:
            assert self._runner.cache.reserve(lease, count)
        tokens = [[(7 * i + at) % 600 for i in range(count)] for at in range(len(self._leases))]
        return self._runner.step([Chunk(*pair) for pair in zip(self._leases, tokens, strict=True)])


def runner_of(setting: Setting, model: Model, sequences: int, capture: Capture | None) -> ModelRunner:
    """Caches for a few hundred tokens of each sequence."""
    cache = PagedCache(cache_shape(model), sequences * setting.pick(1, 8), setting.pick(256, 16))
    return ModelRunner(model, cache, capture=capture)


def adapters(setting: Setting, report: Report, model: Decoder) -> None:
    """An adapter of all matrices of all layers."""
    models = {"plain": model} | {f"adapter {number}": adapted(model, number) for number in range(2)}
    for sequences in setting.pick((8, 64), (2,)):
        for name, one in models.items():
            decoding = Decoding(runner_of(setting, one, sequences, capture_of(setting)), sequences)
            milliseconds = host_time(setting, partial(decoding.step, 1)) / 1e3
            report.figure("A pass with adapters", f"{sequences} sequences", name, milliseconds, "ms")
            release(setting)


def adapted(model: Decoder, seed: int) -> Decoder:
    """The model with random adapters of all matrices except the head. It shares the base weights."""
    generator = torch.Generator(model.device).manual_seed(seed)

    def matrix(base: Matrix) -> Matrix:
        assert isinstance(base, Tensor)
        options: dict[str, Any] = {"generator": generator, "device": base.device, "dtype": base.dtype}
        down = torch.randn(RANK, base.shape[1], **options) * base.shape[1] ** -0.5
        up = torch.randn(base.shape[0], RANK, **options) * 0.01
        return AdaptedMatrix(base, down, ((slice(0, RANK), slice(0, base.shape[0]), up),))

    def layer(one: Layer) -> Layer:
        names = ("qkv", "output", "gate_up", "down")
        return replace(one, **{name: matrix(getattr(one, name)) for name in names})

    return Decoder(model.config, model.embedding, [layer(one) for one in model.layers], model.norm, model.head)


def graphs(setting: Setting, report: Report, model: Decoder) -> None:
    """Compare a pass over single tokens, kernel by kernel and as a graph. The logits must be equal."""
    for sequences in setting.pick(SEQUENCES, (2,)):
        logits = list[Tensor]()
        for name, capture in (("graphs", capture_of(setting)), ("no graphs", lambda run: run)):
            decoding = Decoding(runner_of(setting, model, sequences, capture), sequences)
            logits.append(torch.cat([decoding.step(1) for _ in range(3)]))
            milliseconds = host_time(setting, partial(decoding.step, 1)) / 1e3
            report.figure("A pass with one token per sequence", f"{sequences} sequences", name, milliseconds, "ms")
            release(setting)
        error = float((logits[0] - logits[1]).norm() / logits[1].norm())
        assert error < 0.03, f"{sequences} sequences: {error:.2g} of the norm apart"
