"""Part `models`: compares each architecture, cache and attention implementation on the device with the CPU.

Weights are small and random. Sequences read prompts, chunks and single tokens, and one of them is forked. Logits must
be close to those of the CPU in float32 with the same weights. Unless two tokens are close, the most likely token must
be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import torch
from torch import Tensor

from guided.attention.paged_step import PagedAttention, can_read_blocks
from guided.engine.engine import Engine
from guided.engine.graphs import Capture
from guided.engine.runner import Chunk, ModelRunner, cache_shape
from guided.kv.cache import CacheShape, KVCache
from guided.kv.dense import DenseCache
from guided.kv.offload.cache import OffloadCache
from guided.kv.paged import PagedCache
from guided.kv.quantised import QuantisedCache, packed_shape
from guided.kv.radix import RadixCache
from guided.models.decoder import caps_scores
from guided.models.model import Model
from scripts.gpu.attention import attention_of, paths_here
from scripts.gpu.inputs import copied
from scripts.gpu.report import Report, Setting
from tests.flash_support import FakeCapture
from tests.small_models import small_models
from tests.weights import SMOLLM2, find_weights

__all__ = ["run"]

CACHES: Final[dict[str, Callable[[CacheShape], KVCache]]] = {
    "dense": lambda shape: DenseCache(shape, 4096),
    "paged, blocks of 16": lambda shape: PagedCache(shape, 64, 16),
    "paged, blocks of 256": lambda shape: PagedCache(shape, 12, 256),
    "radix": lambda shape: RadixCache(shape, 1024),
    "offload": lambda shape: OffloadCache(shape, 64, 3, 8),
    "offload, some blocks stay": lambda shape: OffloadCache(shape, 64, 3, 8, device_blocks=4),
    "quantised paged": lambda shape: QuantisedCache(PagedCache(packed_shape(shape), 64, 16), shape),
    "quantised offload": lambda shape: QuantisedCache(OffloadCache(packed_shape(shape), 64, 3, 8), shape),
}
TOLERANCES: Final = {torch.float32: 2e-3, torch.bfloat16: 0.06, torch.float16: 0.02}
QUANTISED: Final = 0.06  # a number that is rounded in the other direction differs by one step


def run(setting: Setting, report: Report) -> None:
    """See the module."""
    models = small_models()
    for name, model in models.items():
        for dtype in (torch.float32, torch.bfloat16):
            with report.checking(f"{name}, {dtype}, dense cache") as note:
                note(compare(setting, Case(model, dtype, "dense")))
    for cache in CACHES:
        for name in setting.pick(("llama", "windows", "gemma-3-1b-it"), ("windows",)):
            with report.checking(f"{name}, {cache}") as note:
                note(compare(setting, Case(models[name], torch.float32, cache)))
    for path in paths_here(setting):
        for name in setting.pick(tuple(models), ("llama", "windows", "gpt")):
            check_path(setting, report, path, name, models[name])
    check_file(setting, report)


@dataclass(frozen=True)
class Case:
    """A configuration that is compared with the CPU.

    Attributes:
        cache: its name.
        path: the attention implementation, see `attention_of`.
        graphs: whether steps of single tokens are CUDA graphs.
        invariant: see `ModelRunner`.
    """

    model: Model
    dtype: torch.dtype
    cache: str
    path: str = "one by one"
    graphs: bool = True
    invariant: bool = False


def check_path(setting: Setting, report: Report, path: str, name: str, model: Model) -> None:
    """An attention implementation over blocks of 256, with and without graphs, in both half-precision types."""
    if path == "one by one" or (path == "varlen_attn" and caps_scores(model.config)):
        return
    for dtype in (torch.bfloat16, torch.float16):
        for graphs in (True, False):
            for invariant in (False, True) if path == "varlen_attn" else (False,):
                case = Case(model, dtype, "paged, blocks of 256", path, graphs, invariant)
                what = f"{'graphs' if graphs else 'no graphs'}{', invariant' if invariant else ''}"
                with report.checking(f"{name}, {dtype}, {path}, {what}") as note:
                    note(compare(setting, case))


def compare(setting: Setting, case: Case) -> str:
    """How far the logits are from those of the CPU. Raises AssertionError if they are too far."""
    rounded = copied(case.model, torch.device("cpu"), case.dtype)
    want = passes(ModelRunner(copied(rounded, torch.device("cpu"), torch.float32), reference(case)))
    there = copied(rounded, setting.device, case.dtype)
    attends = list[Any]()
    with attention_of(case.path), captured(setting, graphs=case.graphs) as capture:
        cache = CACHES[case.cache](cache_shape(there))
        actual = passes(ModelRunner(there, cache, capture=capture, invariant=case.invariant), attends)
    if case.path in ("flash-attn", "varlen_attn"):
        assert can_read_blocks(cache._pool.k_blocks) and attends and isinstance(attends[0], PagedAttention)
    error, tolerance = distance(actual, want), TOLERANCES[case.dtype]
    if case.cache.startswith("quantised"):
        tolerance = QUANTISED
    assert error < tolerance, f"the logits are {error:.2g} of their norm apart, more than {tolerance}"
    top, second = want.topk(2).values.unbind(1)
    sure = top - second > 4 * (actual - want).abs().max()
    assert torch.equal(actual.argmax(1)[sure], want.argmax(1)[sure]), "another token is the most likely one"
    return f"{error:.2g} of the norm apart; {int(sure.sum())} of {len(sure)} tokens compared"


@contextmanager
def captured(setting: Setting, *, graphs: bool) -> Iterator[Capture | None]:
    """The function that captures graphs: CUDA's, or in a dry run a stand-in that sees only torch operations."""
    if not graphs:
        yield lambda run: run
    elif setting.dry:
        checks = (f"{module}.is_supported" for module in ("guided.kernels", "guided.models.linear"))
        with ExitStack() as stack:
            for name in checks:
                stack.enter_context(mock.patch(name, lambda x: False))
            yield FakeCapture()
    else:
        yield None


def reference(case: Case) -> KVCache:
    """A cache on the CPU, quantised if the other one is."""
    shape = cache_shape(copied(case.model, torch.device("cpu"), torch.float32))
    dense = DenseCache(packed_shape(shape) if case.cache.startswith("quantised") else shape, 4096)
    return QuantisedCache(dense, shape) if case.cache.startswith("quantised") else dense


def distance(actual: Tensor, want: Tensor) -> float:
    """The norm of the difference, relative to the norm of the expected logits."""
    assert actual.shape == want.shape, (actual.shape, want.shape)
    assert actual.isfinite().all(), f"{int((~actual.isfinite()).sum())} logits are not finite"
    return float((actual - want).norm() / want.norm())


def passes(runner: ModelRunner, attends: list[Any] | None = None) -> Tensor:
    """The logits of all passes: prompts, mixed chunks, single tokens, a fork, and single tokens of fewer sequences."""
    cache = runner.cache
    leases = [cache.open([0]) for _ in range(3)]

    def step(pieces: list[tuple[int, int]], keep: int | None = None) -> Tensor:
        chunks = []
        for at, count in pieces:
            assert cache.reserve(leases[at], count)
            start = leases[at].length
            tokens = [(7 * i * i + i + at) % 50 for i in range(start, start + count)]
            chunks.append(Chunk(leases[at], tokens, count if keep is None else keep))
        return runner.step(chunks).float().cpu()

    logits = [step([(0, 3), (1, 11), (2, 30)]), step([(0, 1), (1, 4), (2, 1)])]
    logits += [step([(0, 1), (1, 1), (2, 1)], 1) for _ in range(5)]
    leases.append(cache.fork(leases[1]))
    logits += [step([(at, 1) for at in range(4)], 1) for _ in range(3)]
    cache.close(leases[0])
    logits += [step([(3, 1), (1, 1)], 1), step([(3, 5), (1, 1)], 1), step([(3, 1), (1, 1), (2, 1)], 1)]
    if attends is not None and runner._graphs is not None:
        attends.append(runner._graphs._attention)
    return torch.cat(logits)


def check_file(setting: Setting, report: Report) -> None:
    """Compare greedy texts of SmolLM2 on the device and on the CPU, if its file is available."""
    path = find_weights(SMOLLM2)
    if path is None or setting.dry:
        message = "part `models`: SmolLM2 on the device was not compared with the CPU in this run"
        report.note(message if setting.dry else f"{message}, because its file was missing")
        return
    with report.checking("SmolLM2: greedy texts in float32") as note:
        texts = []
        for device in ("cpu", setting.device):
            with Engine.from_pretrained(path, device=device, dtype="float32") as engine:
                texts.append(engine.generate("Name three rivers.", max_tokens=24).text)
        note(repr(texts[1]))
        assert texts[0] == texts[1], texts
