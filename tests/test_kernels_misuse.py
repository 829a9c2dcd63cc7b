"""No misuse of the kernels ends the process. The kernels get addresses, so errors must be detected before.

Arguments are random, most of them nearly right, in memory whose last byte is followed by a page that must not be read.
A call raises an error or returns what torch's operations return.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are protected by Linux's libc")

CALLS = '''
import ctypes, mmap, random, sys
import numpy as np
import torch
import torch.nn.functional as F
from guided import kernels
from guided.attention.sdpa import causal_mask, sdpa
from guided.attention.slots import SlotAttention
from guided.kv.cache import KVView
from guided.kv.quantised import PackedKVView, pack, unpack
from guided.models.model import AttentionKind
from tests.block_support import FORMATS, random_blocks

torch.set_num_threads(1)
rng = random.Random(int(sys.argv[1]))
LIBC, PAGE = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
LIBC.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
KINDS = torch.float32, torch.bfloat16
OTHERS = torch.float64, torch.float16, torch.int64, torch.int8, torch.uint8

def guarded(x):
    """A copy whose memory ends where a page begins that cannot be read."""
    if x.numel() == 0:
        return x
    size = x.numel() * x.element_size()
    pages = -(-size // PAGE)
    memory = mmap.mmap(-1, (pages + 1) * PAGE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert LIBC.mprotect(first + pages * PAGE, PAGE, 0) == 0
    copy = torch.frombuffer(memory, dtype=torch.uint8, count=size, offset=pages * PAGE - size)
    return copy.view(x.dtype).reshape(x.shape).copy_(x)

def numbers(*shape, dtype=torch.float32):
    """Nearly always what is asked for."""
    shape, turn = list(shape), rng.random()
    if turn < 0.06 and shape:
        shape[rng.randrange(len(shape))] += rng.choice([-1, 1, 16])
    elif turn < 0.08:
        shape = shape[1:] if rng.random() < 0.5 else [2, *shape]
    if rng.random() < 0.05:
        dtype = rng.choice([*KINDS, *OTHERS])
    generator = torch.Generator().manual_seed(rng.randrange(99))
    x = guarded(torch.randn([max(0, n) for n in shape], generator=generator).to(dtype))
    turn = rng.random()
    if turn < 0.03 and x.dim() > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if turn < 0.05 and x.dim():
        return x[:1].expand(x.shape) if len(x) else x
    if turn < 0.06:
        return x.to("meta")
    if turn < 0.07:
        return rng.choice([None, 3, "x", x.tolist()])
    if turn < 0.08 and x.is_floating_point():
        return x.requires_grad_()
    return x

def some(*values):
    return rng.choice(values)

def close(got, want):
    if got.is_floating_point():  # whole numbers are cut off, by torch's own operations
        torch.testing.assert_close(got.double(), want, rtol=0.05, atol=0.1, equal_nan=True)

def multiply():
    dtype, rows, outs, ins = some(*KINDS), some(0, 1, 3, 14), some(0, 1, 7, 64), some(0, 1, 5, 16, 33, 64)
    x, weights = numbers(rows, ins, dtype=dtype), numbers(outs, ins, dtype=dtype)
    bias = numbers(outs, dtype=dtype) if rng.random() < 0.5 else None
    got = kernels.multiply(x, weights, bias)
    want = x.double() @ weights.double().T
    close(got, want if bias is None else want + bias.double())

def blocks(columns):
    """A part, and its values; None: it may be wrong."""
    kind, rows = some(*FORMATS), some(1, 5, 16, 33)
    part = random_blocks(kind, rows, columns, rng.randrange(99))
    raw = guarded(torch.from_numpy(part.raw)).numpy()
    order = np.random.default_rng(rng.randrange(99)).integers(0, rows, some(1, 20)) if rng.random() < 0.5 else None
    values, turn = (part if order is None else part.rows(order)).values(), rng.random()
    if turn < 0.06:
        odd = raw[:, 1:], raw[:, :-1], raw[0], raw[None], raw.view(np.int8), raw.astype(np.int64), raw[::2], raw[:0]
        raw, values = some(*odd), None
    elif turn < 0.09:
        kind, values = some(*range(-1, 45), 1 << 20), None
    elif turn < 0.15:
        order, values = some(*(np.array(rows_, np.int64) for rows_ in ([-1], [rows], [1 << 62], []))), None
    return (kind, raw, order), values

def block_tiles():
    columns = some(256, 512)
    parts, values = zip(*(blocks(columns) for _ in range(some(1, 1, 2))))
    right = rng.random() > 0.04 and all(each is not None for each in values)
    tiles = kernels.BlockTiles(parts, columns if right else columns + some(-256, -32, 1, 32, 256, 1 << 60))
    x, bias = numbers(some(0, 1, 3, 14), columns), numbers(tiles.outs) if rng.random() < 0.5 else None
    if rng.random() < 0.5 and isinstance(x, torch.Tensor):
        x, bias = x.bfloat16(), None
    got = tiles.multiply(x, bias)
    assert got.shape == (len(x), tiles.outs)
    least, end = -(rng.random() < 0.05), tiles.outs + (rng.random() < 0.05)
    which = guarded(torch.tensor([rng.randrange(least, end) for _ in range(5)]))
    which = some(which, which, which, which[::2], which.int(), which.float(), which[None])
    rows = tiles.rows(which)
    if right:
        want = torch.from_numpy(np.concatenate(values)).double()
        product = x.double() @ want.T + (0 if bias is None else bias.double())
        assert (got.double() - product).norm() <= 0.01 * x.double().norm() * want.norm() + 1
        close(rows, want[which])

def rms_norm():
    dtype, rows, size = some(*KINDS), some(0, 1, 5), some(0, 1, 7, 32)
    x, weight = numbers(rows, size, dtype=dtype), numbers(size, dtype=dtype) if rng.random() < 0.7 else None
    offset = some(0.0, 1.0)
    got = kernels.rms_norm(x, weight, 1e-5, offset)
    close(got, F.rms_norm(x.double(), x.shape[-1:], None if weight is None else offset + weight.double(), 1e-5))

def swiglu():
    x = numbers(some(0, 1, 5), some(0, 1, 2, 14, 64), dtype=some(*KINDS))
    got, (gate, up) = kernels.swiglu(x), x.double().chunk(2, dim=-1)
    close(got, F.silu(gate) * up)

def geglu():
    x = numbers(some(0, 1, 5), some(0, 1, 2, 14, 64), dtype=some(*KINDS))
    got, (gate, up) = kernels.geglu(x), x.double().chunk(2, dim=-1)
    close(got, F.gelu(gate, approximate="tanh") * up)

def softcap():
    x = numbers(some(0, 1, 5), some(0, 1, 14, 64))
    want = 3 * torch.tanh(x.double() / 3)
    close(kernels.softcap(x, 3.0), want)

def gelu():
    x, how = numbers(some(0, 1, 5), some(0, 1, 14, 64), dtype=some(*KINDS)), some("tanh", "none")
    close(kernels.gelu(x, how), F.gelu(x.double(), approximate=how))

def rotate():
    dtype, rows, heads, size = some(*KINDS), some(0, 1, 5), some(0, 1, 3), some(0, 1, 2, 32, 33)
    x, cos, sin = numbers(rows, heads, size, dtype=dtype), *(numbers(rows, 1, size, dtype=dtype) for _ in "cs")
    turned = rng.choice([cos.shape[-1], cos.shape[-1], max(0, cos.shape[-1] - 2)])
    cos, sin, part = cos[..., :turned].contiguous(), sin[..., :turned].contiguous(), x.double()[..., :turned]
    want = torch.addcmul(part * cos.double(), part.roll(turned // 2, -1), sin.double())
    want = torch.cat([want, x.double()[..., turned:]], -1)
    close(kernels.rotate(x, guarded(cos), guarded(sin)), want)

def pack_rows():
    x = numbers(some(0, 1, 5), some(0, 1, 3), some(0, 1, 7, 64), dtype=some(*KINDS))
    close(unpack(kernels.pack(x), torch.float64), x.double())

def attention():
    dtype, (heads, kv), size = some(*KINDS), some((1, 1), (2, 1), (6, 2), (6, 3)), some(1, 20, 64, 128)
    if rng.random() < 0.1:
        (heads, kv), size = some((5, 2), (0, 0), (2, 0)), some(0, 20)
    views, spans, end, packed = [], [], 0, rng.random() < 0.3
    for _ in range(some(0, 1, 1, 2, 3)):
        slots, total = some(20, 40), some(0, 1, 18, 18)
        new = rng.randrange(total + 1) + (rng.random() < 0.03)
        k, v = (numbers(2, slots, kv, size, dtype=dtype) for _ in "kv")
        which = slice(0, total) if rng.random() < 0.5 else torch.tensor(
            [rng.randrange(max(1, slots)) for _ in range(total)], dtype=torch.int64)
        if rng.random() < 0.1:
            odd = [slice(3, 1 << 62), slice(-1, 3), slice(None, 3), torch.tensor([1.0]), torch.tensor(3)]
            odd += map(torch.tensor, ([0, slots], [-1], [[0, 1]]))
            which = some(which, torch.tensor([0, 1, 2, 3])[::2], *odd)
        if packed or rng.random() < 0.03:
            views.append(PackedKVView(*(guarded(torch.stack([pack(x) for x in kv_])) for kv_ in (k, v)), which, dtype))
        else:
            views.append(KVView(k, v, which))
        spans.append((end, end + new))
        end += new
    if rng.random() < 0.05:
        spans = some(spans[:-1], [*spans, (0, 1)], [(b, a) for a, b in spans], [(a + 1, b + 1) for a, b in spans],
                     [(a - 1, b) for a, b in spans], [(1 << 62, (1 << 62) + 1)] * len(spans))
    q = numbers(end, heads, size, dtype=dtype)
    layer = some(0, 1, 1, 1, 2, -1, 1 << 40) if rng.random() < 0.2 else 1
    kernel = SlotAttention(heads, views, spans)
    kept = [view.read(layer) for view in views] if 0 <= layer < 2 else []
    if rng.random() < 0.1:
        for view in views:
            if isinstance(view.slots, torch.Tensor):
                view.slots.fill_(1 << 40)
        views.clear()
    window = some(0, -3, 1 << 62, 1 << 70, "x") if rng.random() < 0.1 else some(None, None, 1, 5, 99)
    kind = AttentionKind(window, some(None, 2.0), some(None, 0.3))
    out = kernel(layer, q, kind)
    for (keys, values), (first, last) in zip(kept, spans, strict=True):
        if last > first:
            mask = causal_mask(last - first, len(keys), window=window)
            close(out[first:last], sdpa(*(t.double() for t in (q[first:last], keys, values)), mask, kind))

CALLS = multiply, block_tiles, rms_norm, swiglu, geglu, softcap, gelu, rotate, pack_rows, attention
for call in CALLS:
    fine = wrong = 0
    for _ in range(int(sys.argv[2])):
        try:
            call()
            fine += 1
        except AssertionError:
            raise
        except Exception:
            wrong += 1
    print(call.__name__, fine, wrong)
    assert fine > 20 and wrong > 20
'''


def run(seed: int, rounds: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CALLS, str(seed), str(rounds)],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stdout[-500:], done.stderr[-3000:])


def test_calls_at_random() -> None:
    run(1, 300)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_calls_at_random(seed: int) -> None:
    run(seed, 3000)
