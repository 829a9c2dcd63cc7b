"""Every decoder of the registry with adapters, split into parts, compiled, and with other kinds of attention."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.attention.sdpa import causal_mask, sdpa
from guided.attention.step import ViewAttention
from guided.engine.tensor_parallel.group import RankPosition, connect
from guided.errors import UnsupportedError
from guided.kv.cache import KVView
from guided.models.loading.huggingface_loader import load_huggingface
from guided.models.lora import with_adapter
from guided.models.model import AttentionKind
from tests.engine_support import Reader

pytest.importorskip("transformers", reason="transformers writes the checkpoints")
from tests.effort import every, examples
from tests.test_models_architectures import FIRST, TOKENS, load, logits_of, make, saved  # noqa: F401 (a fixture)

torch.set_num_threads(1)
CPU = torch.device("cpu")
close = {"atol": 4e-5, "rtol": 2e-5}


@pytest.mark.parametrize("case", [*FIRST, "phi3 longrope"])
def test_adapters_match_peft(case, saved, tmp_path):  # noqa: F811
    if find_spec("peft") is None:
        pytest.skip("peft is the judge of its adapters")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peft = import_module("peft")
        config = peft.LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", r=3, lora_alpha=5)
        other = peft.get_peft_model(make(case), config).eval()
        generator = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for name, weight in other.named_parameters():
                if "lora_" in name:
                    weight.copy_(torch.randn(weight.shape, generator=generator) * weight.shape[1] ** -0.5)
        other.save_pretrained(tmp_path)
    plain = load(saved(case))
    want, got = logits_of(other, TOKENS), Reader(with_adapter(plain, tmp_path), 40).forward(TOKENS, 40)
    torch.testing.assert_close(got, want, atol=3e-4, rtol=1e-4)  # logits are large, and sums have another order
    assert (Reader(plain, 40).forward(TOKENS, 40) - want).abs().max() > 0.05


@pytest.mark.parametrize(
    ("case", "cut"),
    every(
        2,
        [
            (case, cut)
            for case in (*FIRST, "smollm3 windows", "phi3 window, a part")
            for cut in ((2, 1), (1, 3), (2, 2))
        ],
        unpack=True,
    ),
)
def test_parts_compute_what_the_whole_does(case, cut, saved, tmp_path):  # noqa: F811
    tensor, pipeline = cut
    path = saved(case)
    want = Reader(load(path), 40).forward(TOKENS, 40)

    def rank(number: int) -> torch.Tensor:
        _, parallel = connect(tmp_path / "store", RankPosition(number, tensor, pipeline), CPU)
        model = load_huggingface(path, dtype=torch.float32, device=CPU, parallel=parallel)
        reader = Reader(model, 40)
        return torch.cat([reader.forward(TOKENS[at : at + 8], 8) for at in range(0, 40, 8)])

    with ThreadPoolExecutor(tensor * pipeline) as pool:
        if case.startswith("olmo2") and tensor > 1:
            with pytest.raises(UnsupportedError, match="norms over all heads cannot be split across ranks"):
                list(pool.map(rank, range(tensor * pipeline)))
            return
        first = next(iter(pool.map(rank, range(tensor * pipeline))))
    if tensor == 1:
        assert torch.equal(first, want)
    torch.testing.assert_close(first, want, **close)


@pytest.mark.parametrize("case", every(3, ["gemma3_text", "phi3 window, a part", "olmo2", "granite", "smollm3"]))
def test_torch_compile_computes_the_same(case, saved):  # noqa: F811
    """With the backend that only traces, since others need a compiler. Each form becomes one graph."""
    model = load(saved(case))
    compiled = model.compile(backend="eager", fullgraph=True, dynamic=True)
    reader = Reader(compiled, 40)
    rows = [reader.forward(TOKENS[:17], 17), *(reader.forward([token]) for token in TOKENS[17:])]
    torch.testing.assert_close(torch.cat(rows), Reader(model, 40).forward(TOKENS, 40), **close)
    torch.compiler.reset()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@examples(60)
@given(
    st.integers(1, 40), st.integers(1, 40),
    st.builds(
        AttentionKind, window=st.none() | st.integers(1, 50), softcap=st.none() | st.just(2.0),
        scale=st.none() | st.just(0.4),
    ),
)  # fmt: skip
def test_attention_of_other_devices_matches_the_kernel(dtype, total, new, kind):
    """Torch's function for a whole sequence, which gets no keys before all windows."""
    new, generator = min(new, total), torch.Generator().manual_seed(total)
    k, v, q = (torch.randn(1, total, heads, 16, generator=generator) for heads in (2, 2, 6))
    q = q[0, :new]
    attention = ViewAttention([KVView(k, v, slice(0, total))], [(0, new)])
    want, out = attention(0, q, kind), torch.empty(new, 6, 16, dtype=dtype)
    attention._attend_all_queries(q.to(dtype), k[0].to(dtype), v[0].to(dtype), out, kind)
    torch.testing.assert_close(out.float(), want, atol=1e-5, rtol=1e-5)
    mask = causal_mask(new, total, window=kind.window)
    torch.testing.assert_close(sdpa(q, k[0], v[0], mask, kind), want, atol=1e-5, rtol=1e-5)
