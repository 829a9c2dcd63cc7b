"""Graphs of passes: outputs equal those without graphs, for any sequence of batch sizes."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.attention.paged_step import PagedAttention
from guided.attention.segments import step_attention
from guided.engine import graphs
from guided.engine.forward_batch import ForwardBatch
from guided.engine.graphs import StepGraphs
from guided.engine.runner import Chunk, ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.task import Task
from guided.kv.dense import DenseCache
from guided.kv.paged import PagedCache
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.models.decoder import LayerKind, caps_scores
from guided.models.model import AttentionKind
from tests.effort import every, examples
from tests.flash_support import KERNELS, FakeCapture, use_flash
from tests.test_engine_scheduler import MODEL, alone, assert_alike, sequence, twin
from tests.test_models_forward import GROUPED, MODELS

torch.set_num_threads(1)
BLOCK = 4
NEAR = Llama.random(LlamaConfig(**GROUPED, kinds=(LayerKind(AttentionKind(window=5)), LayerKind())), seed=6)
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


class NoGraphs:
    def fits(self, batch: ForwardBatch) -> bool:
        return False


class Decoder:
    """Sequences of a model with a paged cache and a stand-in kernel."""

    def __init__(self, model, capture) -> None:
        self.runner = ModelRunner(model, PagedCache(cache_shape(model), 120, BLOCK), capture=capture)
        self.leases: list = []

    def start(self, prompts: list[list[int]]) -> None:
        self.leases = [self.runner.cache.open([0]) for _ in prompts]
        self.step(list(enumerate(prompts)))

    def step(self, pieces: list[tuple[int, list[int]]]) -> torch.Tensor:
        for at, tokens in pieces:
            assert self.runner.cache.reserve(self.leases[at], len(tokens))
        return self.runner.step([Chunk(self.leases[at], tokens) for at, tokens in pieces])


@each_kernel
@pytest.mark.parametrize("model", every(3, [*MODELS.values(), NEAR]), ids=[*MODELS, "near"])
def test_any_batches_in_any_order(model, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_flash(monkeypatch, kernel)
    rng, capture = random.Random(3), FakeCapture()
    ours, plain = Decoder(model, capture), Decoder(model, None)
    plain.runner._graphs = NoGraphs()
    prompts = [[rng.randrange(50) for _ in range(rng.randrange(1, 12))] for _ in range(11)]
    ours.start(prompts)
    plain.start(prompts)
    sizes = [3, 1, 11, 2, 5, 4, 9, 3, 1, 11]
    for n in sizes:
        pieces = [(at, [rng.randrange(50)]) for at in rng.sample(range(11), n)]
        torch.testing.assert_close(ours.step(pieces), plain.step(pieces), atol=2e-5, rtol=1e-5)
        mixed = [(at, [1, 2][: rng.randrange(1, 3)]) for at in (0, 1)] + [(2, [3, 4])]
        torch.testing.assert_close(ours.step(mixed), plain.step(mixed), atol=2e-5, rtol=1e-5)
    if kernel == "varlen_attn" and caps_scores(model.config):
        assert not capture.captured, "torch's own attention reads one sequence after the other"
    else:
        prompt = next(size for size in graphs._CHUNKED_SIZES if size >= sum(map(len, prompts)))
        assert capture.captured == [prompt, 4, 8, 1, 16, 2, 8], "each size once, when it is first met; 8 of both kinds"
        assert capture.replays == 1 + 2 * len(sizes), "all steps"
    for mine, theirs in zip(ours.leases, plain.leases, strict=True):
        assert mine.tokens == theirs.tokens


@each_kernel
def test_padding_stores_nothing(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds for the graph's first runs: all slots except the new ones are unchanged."""
    use_flash(monkeypatch, kernel)
    decoder = Decoder(MODELS["llama"], FakeCapture())
    pool = decoder.runner.cache._pool
    for memory in (pool.k, pool.v):
        memory.fill_(torch.nan)  # it may be the graph of the last test, with the same numbers
    decoder.start([[1, 2, 3]] * 4)
    decoder.step([(at, [5]) for at in range(4)])
    fourth = decoder.leases.pop()
    for _ in range(3):
        for lease in decoder.leases:
            assert decoder.runner.cache.reserve(lease, 1)
        new = decoder.runner.cache.plan(decoder.leases, [1, 1, 1]).slots
        before = pool.k.clone(), pool.v.clone()
        decoder.step([(at, [7]) for at in range(3)])
        others = [slot for slot in range(pool.slots) if slot not in new]
        for old, now in zip(before, (pool.k, pool.v), strict=True):
            assert torch.equal(old[:, others].nan_to_num(), now[:, others].nan_to_num())
            assert (old[:, new] != now[:, new]).flatten(2).any(2).all()
        lengths = decoder.runner._graphs._graphs[4, 1].inputs["lengths"]
        assert lengths.tolist() == [*(lease.length for lease in decoder.leases), 0]
    assert fourth.length == 4


def test_passes_without_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    use_flash(monkeypatch)
    monkeypatch.setattr(graphs, "_SIZES", (1, 2))
    monkeypatch.setattr(graphs, "_CHUNKED_SIZES", (8,))
    model = MODELS["llama"]
    cache = PagedCache(cache_shape(model), 40, BLOCK)
    leases = [cache.open([0]) for _ in range(3)]
    for lease in leases:
        assert cache.reserve(lease, 8)

    def batch(counts: list[int], lengths: list[int] | None = None) -> ForwardBatch:
        plan = cache.plan(leases[: len(counts)], counts)
        return ForwardBatch([1] * sum(counts), counts, lengths or counts, [], plan)

    attention = step_attention(cache.plan(leases, [1, 1, 1]), [1, 1, 1], has_softcap=False)
    assert isinstance(attention, PagedAttention)
    some = StepGraphs(model, attention, FakeCapture())
    assert some.fits(batch([1, 1])) and some.fits(batch([1, 2, 5]))
    assert not some.fits(batch([1, 1, 1])) and not some.fits(batch([1, 2, 6])) and not some.fits(batch([]))
    assert some.fits(batch([1], [model.config.context])) and not some.fits(batch([1], [model.config.context + 4]))
    other = DenseCache(cache_shape(model), 40)
    lease = other.open([0])
    assert other.reserve(lease, 1) and not some.fits(ForwardBatch([1], [1], [1], [], other.plan([lease], [1])))


@each_kernel
def test_the_longest_chunks_have_a_graph_of_their_own(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel receives the maximum number of tokens of a sequence, and a graph keeps this number."""
    use_flash(monkeypatch, kernel)
    monkeypatch.setattr(graphs, "_FEW_TOKENS", 3)
    capture = FakeCapture()
    ours, plain = Decoder(MODELS["llama"], capture), Decoder(MODELS["llama"], None)
    plain.runner._graphs = NoGraphs()
    for decoder in (ours, plain):
        decoder.start([[1, 2, 3, 4], [5]])
    for counts in ([2, 3], [5, 1], [1, 1], [3, 1], [4, 4]):
        pieces = [(at, list(range(7, 7 + count))) for at, count in enumerate(counts)]
        torch.testing.assert_close(ours.step(pieces), plain.step(pieces), atol=2e-5, rtol=1e-5)
    assert list(ours.runner._graphs._graphs) == [(8, 8), (8, 3), (2, 1)]


def test_passes_that_cannot_be_captured_run_without_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each size is tried once."""
    use_flash(monkeypatch)
    tried = list[int]()

    def capture(run):
        tried.append(len(run()))
        if tried[-1] == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return run

    ours, plain = Decoder(MODELS["llama"], capture), Decoder(MODELS["llama"], None)
    plain.runner._graphs = NoGraphs()
    for decoder in (ours, plain):
        decoder.start([[1, 2, 3], [4]])
    for number in range(3):
        pieces = [(at, [7 + number]) for at in (0, 1)]
        with pytest.warns(UserWarning, match="without a CUDA graph") if number == 0 else nullcontext():
            found = ours.step(pieces)
        torch.testing.assert_close(found, plain.step(pieces), atol=2e-5, rtol=1e-5)
    assert tried == [8, 2]


def test_a_capture_sees_the_tensors_that_are_filled_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in is as strict as the device: values that Python had at capture are not used again."""
    use_flash(monkeypatch)
    buffer, number = torch.zeros(2), [1.0]
    replay = FakeCapture()(lambda: buffer * 2 + number[0])
    buffer.fill_(3)
    number[0] = 100.0
    out = replay()
    assert out.tolist() == [7.0, 7.0] and replay() is out


class NotingRunner(ModelRunner):
    """Counts the passes."""

    passes = 0

    def run(self, batch: ForwardBatch) -> torch.Tensor:
        self.passes += 1
        return super().run(batch)


@examples(15)
@given(st.randoms(use_true_random=False), st.sampled_from(KERNELS))
def test_outputs_of_the_engine_match_a_run_without_graphs(rng: random.Random, kernel: str) -> None:
    start = [rng.randrange(12) for _ in range(10)]
    requests = [sequence(rng, start) for _ in range(rng.randrange(1, 7))]
    want = [alone(one) for one in requests]
    capture = FakeCapture()
    with pytest.MonkeyPatch.context() as patch:
        use_flash(patch, kernel)
        runner = NotingRunner(MODEL, PagedCache(cache_shape(MODEL), 60, 16), capture=capture)
        batch = Scheduler(runner, token_budget=20)
        tasks, got = [Task(twin(one)) for one in requests], {}
        for task in tasks:
            batch.add([task])
        while batch:
            for task, outcome in batch.step():
                assert not isinstance(outcome, Exception), outcome
                got[task] = outcome.result
    for task, result in zip(tasks, want, strict=True):
        assert_alike(got[task], result)
    assert capture.replays == runner.passes >= len(capture.captured)
