"""The calls of flash-attn and of torch's `varlen_attn` against the attention of the CPU, over the same paged caches."""

from __future__ import annotations

import inspect
import random
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.attention import flash
from guided.attention.paged_step import PagedAttention
from guided.attention.segments import step_attention
from guided.attention.step import StepAttention
from guided.engine.runner import Chunk, ModelRunner, cache_shape
from guided.kv.cache import CacheShape
from guided.kv.paged import PagedCache
from guided.models.model import AttentionKind
from tests import flash_support
from tests.effort import examples
from tests.flash_support import FLASH_ATTN, KERNELS, FakeCapture, Recorder, use_flash
from tests.test_models_forward import MODELS, each_model

torch.set_num_threads(1)
HEADS, BLOCK = 6, 4


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@examples(40)
@given(st.randoms(use_true_random=False), st.sampled_from([1, 3, 9]), st.booleans())
def test_outputs_match_the_cpu(kv_heads: int, kernel: str, rng: random.Random, longest: int, invariant: bool) -> None:
    """Prompts, forced text and single tokens in one batch, over shared or separate blocks in any order."""
    shape = CacheShape(layers=2, kv_heads=kv_heads, head_dim=8)
    caches = PagedCache(shape, 40, BLOCK), PagedCache(shape, 40, BLOCK)
    make = torch.Generator().manual_seed(rng.randrange(1 << 30))
    leases: list[tuple] = []
    caps, invariant = kernel != "varlen_attn", invariant and kernel == "varlen_attn"
    with pytest.MonkeyPatch.context() as patch:
        use_flash(patch, kernel)
        for _ in range(8):
            if len(leases) < 4 and rng.random() < 0.6:
                old = rng.choice(leases) if leases and rng.random() < 0.3 else None
                leases.append(tuple(c.fork(old[i]) if old else c.open([0]) for i, c in enumerate(caches)))
            some = rng.sample(leases, rng.randrange(1, len(leases) + 1)) if leases else []
            counts = [rng.randrange(1, longest + 1) for _ in some]
            if not some or not all(
                c.reserve(pair[i], n) for i, c in enumerate(caches) for pair, n in zip(some, counts, strict=True)
            ):
                continue
            ours, theirs = (c.plan([pair[i] for pair in some], counts) for i, c in enumerate(caches))
            attend = step_attention(ours, counts, has_softcap=caps, invariant=invariant)
            assert isinstance(attend, PagedAttention)
            expected = StepAttention(theirs, counts)
            for layer in range(shape.layers):
                turned = torch.randn(sum(counts), HEADS + 2 * kv_heads, 8, generator=make)  # strided, as in models
                q, k, v = turned.split([HEADS, kv_heads, kv_heads], 1)
                kind = AttentionKind(
                    rng.choice([None, 1, 5]), rng.choice([None, 1.5]) if caps else None, rng.choice([None, 0.7])
                )
                got, want = attend(layer, q, k, v, kind), expected(layer, q, k, v, kind)
                torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
            for i, c in enumerate(caches):
                for pair, n in zip(some, counts, strict=True):
                    c.advance(pair[i], [rng.randrange(9) for _ in range(n)])
            if rng.random() < 0.2:
                for i, c in enumerate(caches):
                    c.close(leases[0][i])
                leases.pop(0)


def test_which_function_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, bool]] = []

    def noting(name):
        def call(*args, **kwargs):
            calls.append((name, kwargs["block_table"] is not None))
            return getattr(FLASH_ATTN, name)(*args, **kwargs)

        return call

    names = "flash_attn_with_kvcache", "flash_attn_varlen_func"
    use_flash(monkeypatch)
    monkeypatch.setattr(flash, "_import_flash_attn", lambda: SimpleNamespace(**{name: noting(name) for name in names}))
    model = MODELS["llama"]
    runner = ModelRunner(
        model, PagedCache(cache_shape(model), 16, BLOCK), capture=lambda run: run
    )  # each call is recorded
    one, two = runner.cache.open([0]), runner.cache.open([0])
    monkeypatch.setattr("guided.engine.graphs._CHUNKED_SIZES", (4,))  # the first prompt has no graph

    def step(*pieces):
        calls.clear()
        for lease, tokens in pieces:
            assert runner.cache.reserve(lease, len(tokens))
        runner.step([Chunk(lease, tokens) for lease, tokens in pieces])
        assert len(calls) == model.config.layers and len(set(calls)) == 1, "one call for each layer"
        return calls[0]

    assert step((one, [1, 2, 3, 4, 5])) == ("flash_attn_varlen_func", False), "a prompt reads what was just made"
    assert step((one, [6]), (two, [1, 2])) == ("flash_attn_varlen_func", True), "what is stored is read by tables"
    assert step((one, [7]), (two, [3])) == ("flash_attn_with_kvcache", True)


@pytest.mark.parametrize("kernel", KERNELS)
@each_model
def test_models_compute_the_same(model, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    runners = [ModelRunner(model, PagedCache(cache_shape(model), 40, BLOCK), capture=FakeCapture()) for _ in range(2)]
    leases = [[runner.cache.open([0]) for _ in range(3)] for runner in runners]
    for at in range(6):
        pieces = [[rng.randrange(50) for _ in range(rng.choice([1, 1, 5]) if at else 3)] for _ in range(3)]
        rows = []
        for runner, mine in zip(runners, leases, strict=True):
            for lease, tokens in zip(mine, pieces, strict=True):
                assert runner.cache.reserve(lease, len(tokens))
            chunks = [Chunk(lease, tokens) for lease, tokens in zip(mine, pieces, strict=True)]
            with monkeypatch.context() as patch:
                if runner is runners[1]:
                    use_flash(patch, kernel)
                rows.append(runner.step(chunks))
        torch.testing.assert_close(rows[1], rows[0], atol=2e-5, rtol=1e-5)


def test_nothing_is_read_back_before_the_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step only launches kernels. (The stand-in for prompts reads its lengths; it does not run here.)"""
    use_flash(monkeypatch)
    blind = SimpleNamespace(
        flash_attn_with_kvcache=flash_support.flash_attn_with_kvcache,
        flash_attn_varlen_func=lambda q, k, v, **_: torch.empty_like(q),
    )
    monkeypatch.setattr(flash, "_import_flash_attn", lambda: blind)
    model = MODELS["qwen3"]
    runner = ModelRunner(model, PagedCache(cache_shape(model), 16, BLOCK), capture=FakeCapture())
    lease, other = runner.cache.open([0]), runner.cache.open([0])
    for pieces in ([(lease, [1, 2, 3]), (other, [4])], [(lease, [1]), (other, [2])], [(lease, [3]), (other, [4, 5])]):
        for one, tokens in pieces:
            assert runner.cache.reserve(one, len(tokens))
        with Recorder() as recorder:
            runner.step([Chunk(one, tokens) for one, tokens in pieces])
        assert recorder.calls


def test_on_hopper_one_function_reads_all(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, bool]] = []

    def noting(q, *args, **kwargs):
        calls.append((q.dim(), kwargs.get("cu_seqlens_q") is not None))
        return flash_support.flash_attn_3_with_kvcache(q, *args, **kwargs)

    use_flash(monkeypatch, "flash-attn 3")
    package = SimpleNamespace(flash_attn_with_kvcache=noting)
    monkeypatch.setattr(flash, "_import_flash_attn_3", lambda device: package)
    model = MODELS["llama"]
    runner = ModelRunner(model, PagedCache(cache_shape(model), 16, BLOCK), capture=lambda run: run)
    one, two = runner.cache.open([0]), runner.cache.open([0])
    for pieces, call in (
        ([(one, [1, 2, 3, 4, 5])], (3, True)),
        ([(one, [6]), (two, [1, 2])], (3, True)),
        ([(one, [7]), (two, [3])], (4, False)),
    ):
        calls.clear()
        for lease, tokens in pieces:
            assert runner.cache.reserve(lease, len(tokens))
        runner.step([Chunk(lease, tokens) for lease, tokens in pieces])
        assert calls == [call] * model.config.layers, "one call for each layer"


def test_the_stand_in_has_the_signatures() -> None:
    """Compares with flash-attn of that version, if it is installed."""
    real = pytest.importorskip("flash_attn", reason="flash-attn needs CUDA to be built", exc_type=ImportError)
    for name in ("flash_attn_with_kvcache", "flash_attn_varlen_func"):
        assert list(inspect.signature(getattr(real, name)).parameters) == list(
            inspect.signature(getattr(flash_support, name)).parameters
        )


def test_the_stand_in_has_the_signature_of_flash_attn_3() -> None:
    """Compares with it if it is installed. Newer versions may have more parameters at the end."""
    real = pytest.importorskip("flash_attn_interface", reason="flash-attn 3 needs Hopper", exc_type=ImportError)
    names = list(inspect.signature(flash_support.flash_attn_3_with_kvcache).parameters)
    assert list(inspect.signature(real.flash_attn_with_kvcache).parameters)[: len(names)] == names
