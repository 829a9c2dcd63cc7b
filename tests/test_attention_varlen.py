"""The arguments of torch's `varlen_attn`, and when it is used. test_attention_flash.py checks its output."""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import varlen as torchs

from guided.attention import flash, paged_step, segments, varlen
from guided.attention.flash import FlashAttention
from guided.attention.paged_step import PagedStep, Spans, can_read_blocks
from guided.attention.segments import step_attention
from guided.attention.step import StepAttention
from guided.attention.varlen import VarlenAttention, has_varlen_attn
from guided.engine.runner import Chunk, ModelRunner, cache_shape
from guided.kv.cache import CacheShape
from guided.kv.paged import PagedCache
from guided.models.decoder import caps_scores
from guided.models.model import DEFAULT_ATTENTION, AttentionKind
from tests import flash_support
from tests.flash_support import FLASH_ATTN, FLASH_ATTN_3, FakeCapture, Recorder, use_flash
from tests.test_models_forward import MODELS

torch.set_num_threads(1)
BLOCK = 4


def test_the_stand_in_has_the_signature() -> None:
    real, ours = (inspect.signature(module.varlen_attn).parameters for module in (torchs, flash_support))
    assert [(p.name, p.kind, p.default) for p in real.values()] == [(p.name, p.kind, p.default) for p in ours.values()]


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("single", [False, True])
def test_the_real_function_takes_what_it_is_given(
    single: bool, window: int | None, invariant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tensors on CUDA that have no memory: shapes, dtypes and devices fit."""
    monkeypatch.setattr(paged_step, "store_kv", lambda *args: None)  # a Triton kernel
    calls = []
    monkeypatch.setattr(
        varlen, "_import_varlen_attn", lambda: lambda *a, **k: calls.append((a, k)) or torchs.varlen_attn(*a, **k)
    )
    with FakeTensorMode(), torch.inference_mode():
        half = {"dtype": torch.bfloat16, "device": "cuda"}
        numbers = {"dtype": torch.int32, "device": "cuda"}
        k, v = (torch.empty(2, 9, 256, 2, 64, **half) for _ in range(2))
        new = 3 if single else 10
        spans = None if single else Spans(torch.empty(4, **numbers), torch.empty(4, **numbers), 6, 700, False)
        slots = torch.empty(new, dtype=torch.int64, device="cuda")
        step = PagedStep(slots, torch.empty(3, 3, **numbers), torch.empty(3, **numbers), spans)
        q, keys, values = torch.empty(new, 10, 64, **half).split([6, 2, 2], 1)
        attend = VarlenAttention(k, v, step, invariant)
        out = attend(1, q, keys, values, AttentionKind(window))
    assert out.shape == q.shape and out.dtype == q.dtype and out.device.type == "cuda"
    [(args, options)] = calls
    assert all(x.dtype == torch.int32 and x.device.type == "cuda" and x.shape == (4,) for x in args[3:5])
    assert args[5:] == (1 if single else 6, 3 * 256)
    assert options["window_size"] == ((4, 0) if window else (-1, -1) if single and not invariant else (-1, 0))
    assert options["num_splits"] == 1 and options["enable_gqa"]


def test_one_call_for_each_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    def noting(*args, **kwargs):
        calls.append(args[5:])
        return flash_support.varlen_attn(*args, **kwargs)

    use_flash(monkeypatch, "varlen_attn")
    monkeypatch.setattr(varlen, "_import_varlen_attn", lambda: noting)
    model = MODELS["llama"]
    runner = ModelRunner(model, PagedCache(cache_shape(model), 16, BLOCK), capture=lambda run: run)
    one, two = runner.cache.open([0]), runner.cache.open([0])
    monkeypatch.setattr("guided.engine.graphs._CHUNKED_SIZES", (4,))
    graph = -(-model.config.context // BLOCK) * BLOCK
    for pieces, bounds in (
        ([(one, [1, 2, 3, 4, 5])], (5, 8)),  # without a graph
        ([(one, [6]), (two, [1, 2])], (4, graph)),
        ([(one, [7]), (two, [3])], (1, graph)),
    ):
        calls.clear()
        for lease, tokens in pieces:
            assert runner.cache.reserve(lease, len(tokens))
        runner.step([Chunk(lease, tokens) for lease, tokens in pieces])
        assert calls == [bounds] * model.config.layers


@pytest.mark.parametrize("invariant", [False, True])
def test_nothing_is_read_back_before_the_logits(invariant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for prompts and chunks."""
    use_flash(monkeypatch, "varlen_attn")
    model = MODELS["qwen3"]
    cache = PagedCache(cache_shape(model), 16, BLOCK)
    runner = ModelRunner(model, cache, capture=FakeCapture(), invariant=invariant)
    lease, other = cache.open([0]), cache.open([0])
    for pieces in ([(lease, [1, 2, 3]), (other, [4])], [(lease, [1]), (other, [2])], [(lease, [3]), (other, [4, 5])]):
        for one, tokens in pieces:
            assert cache.reserve(one, len(tokens))
        with Recorder() as recorder:
            runner.step([Chunk(one, tokens) for one, tokens in pieces])
        assert recorder.calls


def test_scores_are_not_capped() -> None:
    step = PagedStep(torch.tensor([0]), torch.zeros(1, 1, dtype=torch.int32), torch.ones(1, dtype=torch.int32))
    k, v = torch.zeros(2, 1, 1, BLOCK, 2, 8)
    attend = VarlenAttention(k, v, step)
    with pytest.raises(AssertionError, match="cap"):
        attend(
            0, torch.zeros(1, 2, 8), torch.zeros(1, 2, 8), torch.zeros(1, 2, 8), replace(DEFAULT_ATTENTION, softcap=2.0)
        )


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ({}, True), ({"dtype": torch.float16}, True), ({"dtype": torch.float32}, False), ({"device": "cpu"}, False),
        ({"block": 16}, False), ({"block": 512}, True), ({"head_dim": 20}, False), ({"head_dim": 264}, False),
        ({"head_dim": 256}, True), ({"capability": (7, 5)}, False), ({"capability": (8, 0)}, True),
        ({"capability": (12, 0)}, True),
    ],
)  # fmt: skip
def test_which_blocks_are_read(change: dict, read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = {"dtype": torch.bfloat16, "device": "cuda", "block": 256, "head_dim": 64, "capability": (9, 0)} | change
    device = SimpleNamespace(type=case["device"])
    k = SimpleNamespace(shape=(2, 9, case["block"], 2, case["head_dim"]), dtype=case["dtype"], device=device)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: case["capability"])
    assert can_read_blocks(k) is read


@pytest.mark.parametrize(
    ("change", "there"),
    [
        ({}, True), ({"version": "2.14.1+cu130"}, True), ({"version": "2.12.1"}, False), ({"hip": "7.0"}, False),
        ({"built": False}, False), ({"active": "FA4"}, False),
    ],
)  # fmt: skip
def test_which_torch_reads_blocks(change: dict, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = {"version": "2.13.0", "hip": None, "built": True, "active": None} | change
    monkeypatch.setattr("torch.__version__", type(torch.__version__)(case["version"]))
    monkeypatch.setattr("torch.version.hip", case["hip"])
    monkeypatch.setattr("torch.backends.cuda.is_flash_attention_available", lambda: case["built"])
    monkeypatch.setattr("torch.nn.attention.current_flash_attention_impl", lambda: case["active"])
    assert has_varlen_attn() is there


@pytest.mark.parametrize(
    ("two", "three", "device", "there"),
    [
        (False, False, (9, 0), False), (True, False, (8, 0), True), (True, False, (9, 0), True),
        (False, True, (9, 0), True), (False, True, (8, 0), False), (False, True, (10, 0), False),
    ],
)  # fmt: skip
def test_where_flash_attn_is_there(
    two: bool, three: bool, device: tuple[int, int], there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flash, "_import_flash_attn", lambda: FLASH_ATTN if two else None)
    monkeypatch.setattr(flash, "_import_or_none", lambda package: FLASH_ATTN_3 if three else None)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda of: device)
    assert flash.has_flash_attn(SimpleNamespace(type="cuda")) is there


@pytest.mark.parametrize(
    ("blocks", "package", "torchs", "capped", "invariant", "chosen"),
    [
        (True, True, True, False, False, FlashAttention),
        (True, False, True, False, False, VarlenAttention),
        (True, True, True, False, True, VarlenAttention),  # the package splits the past by the batch size
        (True, True, True, True, False, FlashAttention),  # it has a softcap
        (True, False, True, True, False, StepAttention),
        (True, True, True, True, True, StepAttention),
        (True, False, False, False, False, StepAttention),
        (True, True, False, False, True, StepAttention),
        (False, True, True, False, False, StepAttention),
    ],
)
def test_which_attention_is_chosen(
    blocks: bool, package: bool, torchs: bool, capped: bool, invariant: bool, chosen: type, monkeypatch
) -> None:
    monkeypatch.setattr(segments, "can_read_blocks", lambda k: blocks)
    monkeypatch.setattr(segments, "has_flash_attn", lambda device: package)
    monkeypatch.setattr(segments, "has_varlen_attn", lambda: torchs)
    cache = PagedCache(CacheShape(2, 2, 8), 4, BLOCK)
    lease = cache.open([0])
    assert cache.reserve(lease, 3)
    attend = step_attention(cache.plan([lease], [3]), [3], has_softcap=capped, invariant=invariant)
    assert type(attend) is chosen
    assert not isinstance(attend, VarlenAttention) or attend.invariant is invariant


def test_the_cpu_has_its_own_attention() -> None:
    cache = PagedCache(CacheShape(2, 2, 8), 4, 256)
    lease = cache.open([0])
    assert cache.reserve(lease, 3)
    assert isinstance(step_attention(cache.plan([lease], [3]), [3], has_softcap=False), StepAttention)


def test_which_models_cap_scores() -> None:
    """Capping logits does not count as capping the scores of attention."""
    assert {name for name, model in MODELS.items() if caps_scores(model.config)} == {"windows"}
