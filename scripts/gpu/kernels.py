"""Part `kernels`: compares each kernel on the device with the CPU, and measures it.

It covers the bitmask kernel, the choice of tokens, the store of keys and values, and copies between host and device.
Each runs in Triton and in torch, and is compared with numpy or the native kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final
from unittest import mock

import numpy as np
import torch

from guided.errors import GuidedError
from guided.kernels import choose_device
from guided.kernels.choose import answer
from guided.kernels.choose_device import DeviceChoices
from guided.kernels.store_kv import store_kv_torch
from guided.kernels.transfer import Fetch, send, send_arrays
from guided.logits import apply
from guided.sampling.choice import Choice, Choose, ChosenToken
from scripts.gpu.choices import can_be_prepared, draw_choice, draw_logits, draw_mask, prepare
from scripts.gpu.kernel_times import measure
from scripts.gpu.report import Report, Setting
from tests.choice_support import close, is_neighbour

__all__ = ["run"]

FORMS: Final = ("Triton", "torch")
DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)
WIDTHS: Final = (1, 31, 32, 33, 1000, 4096, 4097, 50_257, 128_256, 151_936)
SIZES: Final = (1, 2, 33, 2047, 2048, 2049, 5000, 32_000, 128_256, 151_936)


def run(setting: Setting, report: Report) -> None:
    """See the module."""
    rng = np.random.default_rng(0)
    for form in FORMS:
        for dtype in DTYPES:
            with report.checking(f"bitmask, {form}, {dtype}") as note, kernels_of(form, setting):
                note(f"{check_bitmasks(setting, rng, dtype)} batches")
        with report.checking(f"choices, {form}") as note, kernels_of(form, setting):
            note(check_choices(setting, rng))
    for name, store in stores(setting).items():
        with report.checking(f"store of keys and values, {name}") as note:
            note(f"{check_stores(setting, rng, store)} batches")
    with report.checking("numbers come back as they were sent, many copies under way") as note:
        note(f"{check_transfers(setting, rng)} copies")
    measure(setting, report)


@contextmanager
def kernels_of(form: str, setting: Setting) -> Iterator[None]:
    """Let guided use one implementation of its kernels. In a dry run, Triton's interpreter runs the Triton kernels."""
    choose, mask = None, None
    if form == "Triton":
        choose = import_module("guided.kernels.choose_triton").choose_triton
        mask = import_module("guided.logits.apply_triton").mask_triton
    with (
        mock.patch.object(choose_device, "_triton_kernel", lambda device: choose),
        mock.patch.object(apply, "_find_kernel", lambda logits: mask),
        np.errstate(all="ignore"),
    ):
        yield


def check_bitmasks(setting: Setting, rng: np.random.Generator, dtype: torch.dtype) -> int:
    """Check that masked logits have the same bits as on the CPU, and that no other logits change."""
    widths = [width for width in WIDTHS if width <= setting.pick(10**6, 1000)]
    for width in widths:
        for rows in setting.pick((1, 3, 17), (1, 3)):
            size = max(1, width - int(rng.integers(0, 70)))  # a head with padding
            mask = np.stack([draw_mask(rng, size, share) for share in rng.choice([0.0, 0.02, 0.5, 1.0], rows)])
            named = None if rng.random() < 0.5 else rng.choice(rows, rng.integers(0, rows + 1), replace=False).tolist()
            logits = torch.from_numpy(draw_logits(rng, rows, width)).to(dtype)
            logits[rng.integers(rows), rng.integers(width)] = torch.nan
            there = logits.to(setting.device)
            there = there.clone() if there is logits else there
            apply.apply_token_bitmask_inplace(there, mask, named)
            with mock.patch.object(apply, "_find_kernel", lambda logits: None):
                apply.apply_token_bitmask_inplace(logits, mask, named)
            same = (there.cpu() == logits) | (there.cpu().isnan() & logits.isnan())
            assert same.all(), f"width {width}, rows {rows}, indices {named}: {int((~same).sum())} logits differ"
    return len(widths) * len(setting.pick((1, 3, 17), (1, 3)))


def check_choices(setting: Setting, rng: np.random.Generator) -> str:
    """Check that tokens are those of the native kernel, unless the last bit of a sum or threshold decides."""
    batches, rows, neighbours, wrong = setting.pick(8, 1), setting.pick(40, 6), 0, list[str]()
    sizes = [size for size in SIZES if size <= setting.pick(10**6, 3000)]
    for size in sizes:
        for _ in range(batches):
            width = size + int(rng.choice([0, 0, 1, 60]))
            logits = torch.from_numpy(draw_logits(rng, rows, width))
            choices = [draw_choice(rng, size) for _ in range(rows)]
            expected = answer([Choose(logits, choices)])[0].rows
            there = logits.to(setting.device)
            before = there.clone()
            actual = DeviceChoices([Choose(there, choices[:1], 0), Choose(there, choices[1:], 1)]).wait()
            actual += choose_prepared(there, choices)
            assert torch.equal(before, there), "the logits were changed"
            for at, token in enumerate(actual):
                try:
                    neighbours += compare(logits[at % rows], choices[at % rows], expected[at % rows], token)
                except AssertionError as error:
                    wrong.append(str(error))
    count = 2 * batches * rows * len(sizes)
    assert not wrong, f"{len(wrong)} of {count} differ; the first: {wrong[0]}"
    assert 50 * neighbours <= count, f"{neighbours} of {count} are decided by a last bit, too many for rounding"
    return f"{count} choices, {neighbours} decided by a last bit"


def choose_prepared(logits: torch.Tensor, choices: list[Choice]) -> list[ChosenToken | GuidedError]:
    """Choose from rows of a device, with as many choices as possible in arrays. Those without a token are repeated."""
    indices = [index for index, choice in enumerate(choices) if can_be_prepared(choice)]
    requests = [Choose(logits, [choice], index) for index, choice in enumerate(choices) if index not in indices]
    prepared = prepare([choices[index] for index in indices], indices, logits) if indices else None
    launched = DeviceChoices(requests, prepared)
    rows = {request.first_row: row for request, row in zip(requests, launched.wait(), strict=True)}
    if prepared is not None and (tokens := launched.prepared_tokens) is not None:
        for at, index in enumerate(indices):
            if tokens.is_chosen[at]:
                token, removed, logprob = int(tokens.token[at]), float(tokens.removed[at]), float(tokens.logprob[at])
                rows[index] = ChosenToken(token, removed, logprob=logprob)
            else:
                rows[index] = DeviceChoices(prepared.requests([at])).wait()[0]
    return [rows[index] for index in range(len(choices))]


def compare(
    logits: torch.Tensor, choice: Choice, expected: ChosenToken | GuidedError, actual: ChosenToken | GuidedError
) -> bool:
    """Whether another token was chosen because of a last bit. Raises AssertionError if nothing explains the
    difference.
    """
    what = f"{choice.params}, size {choice.size}: wanted {expected}, found {actual}"
    if isinstance(expected, GuidedError) or isinstance(actual, GuidedError):
        assert str(expected) == str(actual), what
        return False
    assert close(actual.removed, expected.removed) and close(actual.budget_mass, expected.budget_mass), what
    if actual.token != expected.token:
        assert is_neighbour(logits, choice, actual.token), what
        return True
    if expected.scores is not None:
        assert actual.scores is not None and close(actual.scores.logprob, expected.scores.logprob), what
        assert len(actual.scores.top) == len(expected.scores.top), what
        for (_, a), (_, b) in zip(actual.scores.top, expected.scores.top, strict=True):
            assert close(a, b), what
    return False


def stores(setting: Setting) -> dict[str, Callable[..., None]]:
    """The implementations of `store_kv`."""
    kernel: Any = import_module("guided.kernels.store_kv_triton").store_kv_triton
    return {"Triton": kernel, "torch": store_kv_torch}


def check_stores(setting: Setting, rng: np.random.Generator, store: Callable[..., None]) -> int:
    """Check that the rows are in their slots, and that all other slots are unchanged."""
    shapes = setting.pick([(1, 1, 8), (3, 2, 64), (64, 8, 128), (256, 8, 128), (512, 5, 96)], [(1, 1, 8), (5, 2, 8)])
    for rows, heads, head_dim in shapes:
        for dtype in DTYPES:
            slot_count = rows + 40
            slots = np.where(rng.random(rows) < 0.8, rng.permutation(slot_count)[:rows], -1)
            qkv = torch.randn(rows, 3 * heads, head_dim).to(dtype)
            caches = [torch.randn(slot_count, heads, head_dim).to(dtype) for _ in range(2)]
            there = [cache.to(setting.device, copy=True) for cache in caches]
            k, v = qkv.to(setting.device).split([2 * heads, heads], 1)
            store(k[:, heads:], v, *there, torch.from_numpy(slots).to(setting.device))
            is_stored = slots >= 0
            caches[0][slots[is_stored]], caches[1][slots[is_stored]] = (
                qkv[is_stored, heads : 2 * heads],
                qkv[is_stored, 2 * heads :],
            )
            for want, actual in zip(caches, there, strict=True):
                assert torch.equal(want, actual.cpu()), (rows, heads, head_dim, dtype)
    return len(shapes) * len(DTYPES)


def check_transfers(setting: Setting, rng: np.random.Generator) -> int:
    """Check that pinned memory is not overwritten before the copy from it ends."""
    copies, count = list[tuple[list[int], np.ndarray, torch.Tensor, Fetch]](), setting.pick(400, 5)
    busy = torch.randn(setting.pick(4096, 8), setting.pick(4096, 8), device=setting.device)
    for _ in range(count):
        busy = busy @ busy * 1e-3  # makes the device lag behind
        numbers = rng.integers(-(2**31), 2**31, rng.integers(1, 3000)).tolist()
        floats = rng.normal(size=rng.integers(1, 3000))
        ints, there = send(numbers, torch.int64, setting.device), send_arrays({"floats": floats}, setting.device)
        copies.append((numbers, floats, ints, Fetch(there["floats"])))
    for numbers, floats, ints, fetch in copies:
        assert ints.tolist() == numbers and np.array_equal(fetch.wait().numpy(), floats)
    return 3 * count
