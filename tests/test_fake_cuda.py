"""The stand-in for CUDA (tests/fake_cuda.py) refuses operations for which the CPU would wait, and counts the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from guided.kernels import transfer
from tests.fake_cuda import CUDA, DeviceReadError, fake_cuda
from tests.triton_support import REASON

torch.set_num_threads(1)
WIDTH = 50
WRONG: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: [x[at, 0].item() for at in range(len(x))],
    "tolist": lambda x: x[:, 0].tolist(),
    "float": lambda x: float(x[0, 0]),
    "a condition": lambda x: bool((x > 0).any()),
    "cpu": lambda x: x.cpu(),
    "a copy that does not wait, to memory that is not pinned": lambda x: x.to("cpu", non_blocking=True),
    "nonzero": lambda x: x.nonzero(),
    "a boolean index": lambda x: x[x > 0],
    "a boolean index that is written to": lambda x: x.index_put_([x > 0], x),
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "repeat_interleave": lambda x: x[0].repeat_interleave(x[0].long()),
    "equal": lambda x: torch.equal(x, x),
    "an index on the CPU": lambda x: x[torch.tensor([0])],
    "a number on the CPU": lambda x: x * torch.tensor(2.0),
    "a row on the CPU": lambda x: x + torch.zeros(WIDTH),
    "a constant that is written by index": lambda x: x.__setitem__((x[0].long(), x[0].long()), -torch.inf),
    "a tensor of numbers": lambda x: torch.tensor([1.0], device=CUDA),
    "a blocking copy": lambda x: torch.from_numpy(np.zeros(3)).to(CUDA),
    "a copy from memory that is not pinned": lambda x: torch.from_numpy(np.zeros(3)).to(CUDA, non_blocking=True),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_the_counter_refuses_what_waits(wrong: Callable[[Tensor], Any]) -> None:
    with fake_cuda(triton=False) as counter, torch.inference_mode():
        x = torch.zeros(3, WIDTH, device=CUDA)
        with counter, pytest.raises(DeviceReadError):
            wrong(x)


def test_the_counter_sees_a_loop_over_rows() -> None:
    counts = []
    for rows in (2, 3):
        with fake_cuda(triton=False) as counter, torch.inference_mode():
            x = torch.zeros(rows, WIDTH, device=CUDA)
            with counter:
                for at in range(rows):
                    x[at].mul_(2.0)
        counts.append(counter.launches.total())
    assert counts == [2, 3]


def test_the_counter_sees_a_second_wait() -> None:
    with fake_cuda(triton=False) as counter, torch.inference_mode():
        x = torch.zeros(3, WIDTH, device=CUDA)
        with counter:
            for at in range(3):
                transfer.Fetch(x[at]).wait()
    assert (counter.fetched, counter.waits) == (3, 3)


def test_a_kernel_is_not_given_tensors_of_the_cpu() -> None:
    pytest.importorskip("triton", reason=REASON)
    from guided.logits import apply_triton

    with fake_cuda() as counter, torch.inference_mode():
        logits, masks = torch.zeros(3, 64, device=CUDA), torch.zeros(3, 2, dtype=torch.int32)
        with counter, pytest.raises(DeviceReadError, match="argument 2 of mask_kernel is on cpu"):
            apply_triton.mask_triton(logits, masks, None)
        with counter:
            apply_triton.mask_triton(logits, torch.zeros(3, 2, dtype=torch.int32, device=CUDA), None)
    assert counter.operations["triton mask_kernel"] == 1
