"""Measures masks and choices, beside `masked_fill`, xgrammar's kernel, and a copy of the same memory.

Calls alternate between buffers, so the L2 cache does not serve them. The bandwidth is that of a large copy in the same
run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from guided.errors import format_count
from guided.kernels.choice_table import make_choice_table
from guided.kernels.choose_batch import NeededOperations
from guided.kernels.choose_device import DeviceChoices, kernels_for
from guided.sampling.choice import Choice, Choose
from guided.sampling.params import SamplingParams
from guided.sampling.penalties import Penalties
from scripts.gpu.choices import draw_mask
from scripts.gpu.clock import copies_for, device_time, host_time
from scripts.gpu.report import Report, Setting

__all__ = ["measure"]

ROWS: Final = (1, 8, 64, 512)
WIDTHS: Final = (128_256, 151_936)
KINDS: Final[dict[str, dict[str, Any]]] = {
    "greedy": {},
    "temperature": {"temperature": 0.8},
    "top-k 50": {"temperature": 0.8, "top_k": 50},
    "top-p 0.9": {"temperature": 0.8, "top_p": 0.9},
    "penalties": {"temperature": 0.8, "repetition_penalty": 1.1},
    "top-p and penalties": {"temperature": 0.8, "top_p": 0.9, "repetition_penalty": 1.1},
}


def measure(setting: Setting, report: Report) -> None:
    """Measure everything for which there is time."""
    bandwidth = copy_bandwidth(setting)
    report.figure("Device", "a copy on the device", "bandwidth, read and written", bandwidth / 1e9, "GB/s")
    for width in setting.pick(WIDTHS, (300,)):
        for rows in setting.pick(ROWS, (1, 4)):
            if setting.is_over:
                report.note("the rest was left out: the time is over")
                return
            row = f"{format_count(rows, 'row')} of {width:,}"
            for column, microseconds in mask_times(setting, rows, width).items():
                report.figure("Bitmask of float32 logits, us on the device", row, column, microseconds, "us")
            floor = (
                rows * width * (8 + 1 / 8) / bandwidth * 1e6
            )  # memory moves in sectors of 32 bytes, which are read and written
            report.figure("Bitmask of float32 logits, us on the device", row, "floor by bandwidth", floor, "us")
            for kind in KINDS:
                on_device, waited = choice_times(setting, kind, rows, width)
                report.figure("Choice under masks, us on the device", row, kind, on_device, "us")
                report.figure("Choice under masks, us until the host has the tokens", row, kind, waited, "us")
            floor = rows * width * (4 + 1 / 8) / bandwidth * 1e6
            report.figure("Choice under masks, us on the device", row, "floor by bandwidth", floor, "us")


def copy_bandwidth(setting: Setting) -> float:
    """The bytes per second that a large copy reads and writes."""
    size = setting.pick(1 << 30, 1 << 16)
    a, b = (torch.empty(size, dtype=torch.uint8, device=setting.device) for _ in range(2))
    return 2 * size / device_time(setting, [lambda: b.copy_(a)]) * 1e6


def mask_times(setting: Setting, rows: int, width: int) -> dict[str, float]:
    """Microseconds of each way to apply bitmasks that are on the device and allow half of the tokens."""
    rng = np.random.default_rng(1)
    logits = [torch.randn(rows, width, device=setting.device) for _ in range(copies_for(setting, 4 * rows * width))]
    bits = torch.from_numpy(np.stack([draw_mask(rng, width, 0.5) for _ in range(rows)])).to(setting.device)
    shifts = torch.arange(32, dtype=torch.int32, device=setting.device)
    flags = ((bits.unsqueeze(-1) >> shifts) & 1).flatten(1)[:, :width] == 0
    kernel: Callable[..., None] = import_module("guided.logits.apply_triton").mask_triton
    ways: dict[str, Callable[[Tensor], Any]] = {
        "guided": lambda x: kernel(x, bits, None),
        "masked_fill of bools": lambda x: x.masked_fill_(flags, -torch.inf),
    }
    ways |= {f"xgrammar, {backend}": partial(way, bits) for backend, way in xgrammar_kernels().items()}
    return {name: device_time(setting, [partial(way, x) for x in logits]) for name, way in ways.items()}


@cache
def xgrammar_kernels() -> dict[str, Callable[[Tensor, Tensor], Any]]:
    """xgrammar's installed kernels by name. "cuda" is compiled on first use."""

    def way(backend: str, bits: Tensor, logits: Tensor) -> None:
        import_module("xgrammar").apply_token_bitmask_inplace(logits, bits, backend=backend)

    kernels = dict[str, Callable[[Tensor, Tensor], Any]]()
    for backend in ("triton", "cuda"):
        try:
            logits, bits = (
                torch.zeros(1, size, dtype=kind, device="cuda")
                for size, kind in ((32, torch.float32), (1, torch.int32))
            )
            way(backend, bits, logits)
        except Exception:  # not installed, or not built for this torch or device
            continue
        kernels[backend] = partial(way, backend)
    return kernels


def choice_times(setting: Setting, kind: str, rows: int, width: int) -> tuple[float, float]:
    """Microseconds on the device, and until the host has the tokens, including the table of choices."""
    rng = np.random.default_rng(1)
    choices = list[Choice]()
    for row in range(rows):
        params = SamplingParams(**KINDS[kind], seed=row)
        seen = rng.integers(0, width, 300).tolist()
        changes = None if params.keeps_logits else Penalties(params, seen, [0], width).changes(seen[:100])
        choices.append(Choice(params, row, width, draw_mask(rng, width, 0.5), changes=changes))
    count = copies_for(setting, 4 * rows * width)
    logits = [peaked_logits(setting, rows, width) for _ in range(count)]
    table = make_choice_table(choices, range(rows), setting.device)
    (kernel,) = set(kernels_for(choices, setting.device))
    needs = NeededOperations.from_choices(choices)
    with torch.inference_mode():
        on_device = device_time(setting, [partial(kernel, x, table, needs) for x in logits], rounds=2)
    turn = iter(range(10**9))
    waited = host_time(setting, lambda: DeviceChoices([Choose(logits[next(turn) % count], choices)]).wait())
    return on_device, waited


def peaked_logits(setting: Setting, rows: int, width: int) -> Tensor:
    """Realistic logits: a few tokens have most of the probability, so the first look at a row suffices."""
    logits = torch.randn(rows, width, device=setting.device)
    logits[:, torch.arange(0, width, max(1, width // 40), device=setting.device)] += 12
    return logits
