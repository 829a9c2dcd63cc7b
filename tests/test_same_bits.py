"""On a CPU, the bits of a token's keys, values and logits depend only on the tokens before it.

They do not depend on how a prompt is divided into passes, on other sequences in the batch, on the kind of cache, on
cached prefixes, or (except for attention in float64) on the number of threads. The judge is the simplest way to read a
text: alone, one token at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import accumulate

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.attention.slots import SlotAttention
from guided.attention.step import ViewAttention
from guided.engine.runner import Chunk, ModelRunner, cache_shape
from guided.kernels import geglu, gelu, multiply, rms_norm, softcap, swiglu
from guided.kv.cache import KVCache, KVView
from guided.kv.dense import DenseCache
from guided.kv.quantised import PackedKVView, QuantisedCache, pack, packed_shape
from guided.models.architectures.gpt import GPT, GPTConfig
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.models.block_matrix import BlockMatrix
from guided.models.linear import AdaptedMatrix, Matrix, linear
from guided.models.model import DEFAULT_ATTENTION, AttentionKind, Model
from tests.block_support import FORMATS, NUMBERS, random_blocks
from tests.effort import every, examples
from tests.llama_support import build, checkpoint
from tests.test_engine_scheduler import CACHES
from tests.test_models_forward import MODELS

torch.set_num_threads(1)
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
KINDS = st.builds(
    AttentionKind,
    window=st.none() | st.integers(1, 100),
    softcap=st.none() | st.sampled_from([0.5, 20.0]),
    scale=st.none() | st.just(0.3),
)
WIDE = LlamaConfig(layers=2, dim=64, heads=6, kv_heads=2, head_dim=64, hidden=96, vocab_size=50, context=128)


@contextmanager
def threads(count: int) -> Iterator[None]:
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(1)


def noise(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


# ---- parts of a model
def check_rows(function, x: torch.Tensor) -> None:
    """Any rows together, anywhere in the batch, on any number of threads: each equals the row alone."""
    alone = torch.cat([function(x[i : i + 1]) for i in range(len(x))])
    for rows in range(1, len(x) + 1):
        for first in {0, (len(x) - rows) // 2, len(x) - rows}:
            assert torch.equal(function(x[first : first + rows]), alone[first : first + rows])
    for count in (2, 3):
        with threads(count):
            assert torch.equal(function(x), alone)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("outs", "ins"), [(1, 1), (7, 5), (66, 16), (50, 33), (300, 100), (131, 1100)])
def test_products(dtype, outs, ins):
    weights, bias = noise(1, outs, ins, dtype=dtype), noise(2, outs, dtype=dtype)
    check_rows(lambda x: linear(x, weights, bias), noise(3, 41, ins, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [130, 700, 3000])
def test_products_of_more_rows_than_stay_near(dtype, rows):
    weights, x = noise(1, 40, 1000, dtype=dtype), noise(3, rows, 1000, dtype=dtype)
    whole = multiply(x, weights, None)
    for row in [0, rows - 1, *random.Random(1).sample(range(rows), 30)]:
        assert torch.equal(multiply(x[row : row + 1], weights, None), whole[row : row + 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", FORMATS, ids=NUMBERS)
@pytest.mark.parametrize(("outs", "ins"), [(7, 256), (80, 512), (208, 768)])
def test_products_with_quantised_weights(dtype, kind, outs, ins):
    matrix = BlockMatrix([random_blocks(kind, outs, ins, seed=1)], dtype)
    check_rows(matrix, noise(2, 41, ins, dtype=dtype))
    check_rows(lambda x: linear(x, matrix, noise(3, outs, dtype=dtype)), noise(4, 14, ins, dtype=dtype))
    x = noise(5, 700, ins, dtype=dtype)
    whole = matrix(x)
    assert all(torch.equal(matrix(x[i : i + 1]), whole[i : i + 1]) for i in range(0, 700, 23))


@pytest.mark.parametrize(
    ("dtype", "quantised"), [*((dtype, False) for dtype in DTYPES), *((dtype, True) for dtype in DTYPES[:2])]
)
def test_adapters(dtype, quantised):
    ups = ((slice(0, 3), slice(0, 20), noise(1, 20, 3)), (slice(3, 8), slice(20, 48), noise(2, 28, 5)))
    base: Matrix = noise(3, 48, 32, dtype=dtype)
    if quantised:
        base = BlockMatrix([random_blocks(NUMBERS["Q4_0"], 48, 32, seed=3)], dtype)
    check_rows(lambda x: linear(x, AdaptedMatrix(base, noise(4, 8, 32), ups)), noise(5, 41, 32, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 30, 64, 576])
def test_operations_between_products(dtype, size):
    weight = noise(1, size, dtype=dtype)
    for function in (
        lambda x: rms_norm(x, weight, 1e-5),
        lambda x: rms_norm(x, weight, 1e-5, 1.0),
        swiglu,
        geglu,
        lambda x: gelu(x, "tanh"),
        lambda x: gelu(x, "none"),
        lambda x: torch.nn.functional.layer_norm(x, (size,), weight, weight, 1e-5),
    ):
        check_rows(function, noise(2, 23, size, dtype=dtype) * 3)
    check_rows(lambda x: softcap(x.clone(), 2.0), noise(3, 23, size))


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 20, 32, 64, 80, 128, 256])
@examples(12)
@given(
    st.sampled_from([(1, 1), (3, 3), (1, 7), (2, 30)]), st.integers(1, 90), st.integers(1, 90), st.integers(1, 3), KINDS
)
def test_attention(dtype, packed, size, heads, total, new, count, kind):
    (kv, group), new = heads, min(new, total)
    slots = torch.randperm(total + 5, generator=torch.Generator().manual_seed(total))[:total]
    k, v = (noise(seed, 1, total + 5, kv, size, dtype=dtype) for seed in (1, 2))
    q = noise(3, new, kv * group, size, dtype=dtype)

    def read(first: int, last: int) -> torch.Tensor:
        some = slots[: total - new + last]
        view = PackedKVView(pack(k[0])[None], pack(v[0])[None], some, dtype) if packed else KVView(k, v, some)
        return ViewAttention([view], [(0, last - first)])(0, q[first:last], kind)

    alone = torch.cat([read(i, i + 1) for i in range(new)])
    with threads(1 if dtype == torch.float64 else count):
        assert torch.equal(read(0, new), alone)
        cut = new // 2
        assert torch.equal(torch.cat([read(0, cut), read(cut, new)]), alone)


def test_attention_on_threads():
    """Long enough to be divided among threads."""
    k, v, q = (noise(seed, 1, 1200, 2, 64) for seed in (1, 2, 3))
    q = q[0].repeat(1, 3, 1)[:700]
    for kind in (DEFAULT_ATTENTION, AttentionKind(window=130, softcap=3.0)):
        found = []
        for count in (1, 2, 4):
            with threads(count):
                found.append(SlotAttention(6, [KVView(k, v, slice(0, 1200))], [(0, 700)])(0, q, kind))
        assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


@pytest.mark.parametrize("size", [20, 64, 128])
@examples(20)
@given(st.integers(1, 90), st.integers(1, 90), KINDS)
def test_positions_outside_a_window_are_not_read(size, total, new, kind):
    """Neither their values nor whether they are numbers. Inside the window, attention equals the definition."""
    new, window = min(new, total), kind.window or total
    k, v, q = noise(1, 1, total, 2, size), noise(2, 1, total, 2, size), noise(3, new, 6, size)
    got = ViewAttention([KVView(k, v, slice(0, total))], [(0, new)])(0, q, kind)
    for i in range(0, new, 7):
        at = total - new + i
        near = slice(max(0, at + 1 - window), at + 1)
        scores = torch.einsum("hd,shd->hs", q[i].double(), k[0, near].double().repeat_interleave(3, 1))
        scores = scores * (size**-0.5 if kind.scale is None else kind.scale)
        if kind.softcap is not None:
            scores = kind.softcap * torch.tanh(scores / kind.softcap)
        want = torch.einsum("hs,shd->hd", scores.softmax(-1), v[0, near].double().repeat_interleave(3, 1))
        torch.testing.assert_close(got[i], want.float(), atol=1e-5, rtol=1e-4)
    first = max(0, total - new + 1 - window)
    k[0, :first], v[0, :first] = torch.nan, torch.inf
    assert torch.equal(ViewAttention([KVView(k, v, slice(0, total))], [(0, new)])(0, q, kind), got)


# ---- models
def adapted(model: Llama) -> Llama:
    """With small matrices added to all large ones, as models/lora.py adds them."""
    c = model.config
    q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
    for i, layer in enumerate(model.layers):
        layer.qkv = on_top(layer.qkv, 4 * i, q, kv, kv)
        layer.output = on_top(layer.output, 4 * i + 1, c.dim)
        layer.gate_up = on_top(layer.gate_up, 4 * i + 2, c.hidden, c.hidden)
        layer.down = on_top(layer.down, 4 * i + 3, c.dim)
    model.head = on_top(model.head, 99, c.vocab_size)
    return model


def on_top(base: Matrix, seed: int, *parts: int) -> AdaptedMatrix:
    """A pair of rank 4 for each of the parts, which are stacked vertically."""
    rows = [slice(end - part, end) for part, end in zip(parts, accumulate(parts), strict=True)]
    ups = tuple((slice(4 * i, 4 * i + 4), some, noise(seed + i, parts[i], 4) / 8) for i, some in enumerate(rows))
    assert base.shape[0] == sum(parts)
    return AdaptedMatrix(base, noise(seed + 9, 4 * len(parts), base.shape[1]) / 8, ups)


@cache
def model(name: str) -> Model:
    if name.startswith("adapted "):
        return adapted(made(name.removeprefix("adapted ")))
    return made(name)


def made(name: str) -> Model:
    kind, dtype = name.rsplit(" ", 1)
    if kind.startswith("quantised"):
        return quantised_model(kind.split()[1], getattr(torch, dtype))
    if kind == "exact-gelu":
        return GPT.random(GPTConfig(**{**vars_of(MODELS["gpt"].config), "gelu": "none"}), dtype=getattr(torch, dtype))
    some = MODELS.get(kind)
    if some is None:
        return Llama.random(WIDE, seed=1, dtype=getattr(torch, dtype))
    return type(some).random(some.config, seed=1, dtype=getattr(torch, dtype))


def quantised_model(of: str, dtype: torch.dtype) -> Llama:
    """All matrices in one format; "mixed": in two formats as in Q4_K_M files, including Q, K and V."""
    config = replace(WIDE, dim=256, hidden=256, heads=4) if of == "mixed" or of.endswith("_K") else WIDE
    tensors = checkpoint(config, tied=False)
    formats = ("v_proj", "down_proj", "embed_tokens"), ("Q6_K", "Q4_K") if of == "mixed" else (of, of)
    kept = {}
    for seed, (name, tensor) in enumerate(tensors.items()):
        if tensor.ndim == 2:
            kind = NUMBERS[formats[1][not any(part in name for part in formats[0])]]
            kept[name] = random_blocks(kind, *tensor.shape, seed, size=tensor.shape[1] ** -0.5)
    return build(config, tensors, dtype=dtype, blocks=kept)


def vars_of(config) -> dict:
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


NAMES = [f"{kind} {str(dtype)[6:]}" for dtype in DTYPES[:2] for kind in (*MODELS, "wide", "exact-gelu")]
NAMES += [f"{kind} {str(dtype)[6:]}" for dtype in DTYPES[2:] for kind in ("llama", "nanochat", "gpt")]
NAMES += [f"adapted wide {str(dtype)[6:]}" for dtype in DTYPES]
NAMES += [
    f"{kind} {str(dtype)[6:]}"
    for dtype in DTYPES[:2]
    for kind in ("quantised Q4_0", "quantised Q5_1", "quantised Q8_0", "quantised mixed", "adapted quantised Q4_0")
]


class Judge:
    """Logits, keys and values of texts that are read alone, one token at a time."""

    def __init__(self, of: Model, packed: bool) -> None:
        self.model, self.packed = of, packed

    def cache(self) -> KVCache:
        shape = cache_shape(self.model)
        return QuantisedCache(DenseCache(packed_shape(shape), 128), shape) if self.packed else DenseCache(shape, 128)

    def read(self, tokens: list[int]) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """The logits of all texts; keys and values of all layers."""
        runner = ModelRunner(self.model, self.cache())
        lease = runner.cache.open([])
        rows = []
        for token in tokens:
            assert runner.cache.reserve(lease, 1)
            rows.append(runner.step([Chunk(lease, [token])]))
        return torch.cat(rows), stored(runner, lease)


def stored(runner: ModelRunner, lease) -> tuple[torch.Tensor, ...]:
    (view,) = runner.cache.plan([lease], [0]).views
    return tuple(x for layer in range(runner.model.config.layers) for x in view.read(layer))


@pytest.mark.parametrize(
    ("name", "packed"), every(3, [(name, packed) for name in NAMES for packed in (False, True)], unpack=True)
)
@settings(deadline=None, max_examples=max(1, settings.default.max_examples // 50))
@given(st.integers(0, 1 << 30))
def test_however_texts_are_read(name, packed, seed):
    """Eight texts together, in pieces of any length, some of them twice, after cached prefixes."""
    judge, rng = Judge(model(name), packed), random.Random(seed)
    start = [rng.randrange(27) for _ in range(20)]
    texts = [[*start[: rng.randrange(21)], *(rng.randrange(27) for _ in range(rng.randrange(1, 25)))] for _ in range(8)]
    wanted = [judge.read(text) for text in texts]
    for kind in CACHES:
        check_texts(judge, kind, texts, wanted, rng)


def check_texts(judge: Judge, kind: str, texts: list, wanted: list, rng: random.Random) -> None:
    """Over one kind of cache, twice."""
    shape = cache_shape(judge.model)
    inner = CACHES[kind](packed_shape(shape) if judge.packed else shape, 40)
    runner = ModelRunner(judge.model, QuantisedCache(inner, shape) if judge.packed else inner)
    for warm in (False, True):
        leases = [runner.cache.open(text) if warm else runner.cache.open([]) for text in texts]
        while any(lease.length < len(text) for lease, text in zip(leases, texts, strict=True)):
            read_on(runner, leases, texts, wanted, rng)
        for lease, (_, want) in zip(leases, wanted, strict=True):
            if kind != "offload":
                assert all(map(torch.equal, stored(runner, lease), want))
            runner.cache.close(lease)


def read_on(runner: ModelRunner, leases: list, texts: list, wanted: list, rng: random.Random) -> None:
    """One pass over some of the texts. Sometimes the end of it is dropped again, as for drafts."""
    some = [i for i, lease in enumerate(leases) if lease.length < len(texts[i]) and rng.random() < 0.7]
    chunks, ends = [], []
    for i in some:
        at = leases[i].length
        piece = texts[i][at : at + rng.choice([1, 1, 2, 9, 50])]
        assert runner.cache.reserve(leases[i], len(piece))
        chunks.append(Chunk(leases[i], piece, len(piece)))
        ends.append(slice(at, at + len(piece)))
    if not some:
        return
    got = runner.step(chunks).split([end.stop - end.start for end in ends])
    for i, end, rows in zip(some, ends, got, strict=True):
        assert torch.equal(rows, wanted[i][0][end])
        if rng.random() < 0.2:
            runner.cache.truncate(leases[i], rng.randrange(end.start, end.stop + 1))
