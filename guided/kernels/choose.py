"""Choose the next tokens of a batch in one call: on a CPU natively, on other devices in torch and Triton.

In: the requests of some sequences (`Choose`). Out: an `Answer` for each. On a CPU each row is read two to four times in
C++ (native/choose_row.cpp), on as many threads as torch has; choose_device.py chooses on other devices. A choice
depends on nothing but its row and its `Choice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from time import perf_counter
from typing import Any, Final

import torch

from guided.errors import GuidedError
from guided.kernels import _kernels
from guided.kernels.choose_device import DeviceChoices
from guided.sampling.choice import Answer, Changes, Choice, Choose, Chosen, all_banned
from guided.sampling.logprobs import TokenLogprobs
from guided.sampling.sampler import refusal, uniform

__all__ = ["answer"]

_ALL_BANNED: Final = 2  # as in native/choose_row.hpp


def answer(requests: Sequence[Choose]) -> list[Answer]:
    """Choose a token for each row of each request.

    Raises:
        ValueError: a request has not as many choices as rows, or its logits are of another shape or type.
    """
    begin = perf_counter()
    for logits, choices in requests:
        if logits.dim() != 2 or len(logits) != len(choices) or logits.dtype != torch.float32:
            raise ValueError(f"{len(choices)} choices from {logits.dtype} of shape {tuple(logits.shape)}")
    on_cpu = all(logits.is_cpu for logits, _ in requests)
    rows = _choose_natively(requests) if on_cpu else DeviceChoices(requests).wait()
    each = (perf_counter() - begin) / max(1, len(rows))
    out, first = list[Answer](), 0
    for _, choices in requests:
        out.append(Answer(rows[first : first + len(choices)], each * len(choices)))
        first += len(choices)
    return out


def _choose_natively(requests: Sequence[Choose]) -> list[Chosen | GuidedError]:
    kept = [(logits if logits.stride(1) == 1 else logits.contiguous(), choices) for logits, choices in requests]
    choices, rows = list[Choice](), list[Any]()
    for logits, some in kept:
        address, stride, width = logits.data_ptr(), 4 * logits.stride(0), logits.shape[1]
        rows += [_native_row(address + i * stride, width, choice) for i, choice in enumerate(some)]
        choices += some
    found = _kernels.choose_rows(rows, torch.get_num_threads())
    return [_chosen(row, choice) for row, choice in zip(found, choices, strict=True)]


def _native_row(address: int, width: int, choice: Choice) -> Any:
    params, ramp = choice.params, choice.ramp
    top_k = min(max(params.top_k or 0, 0), choice.size)  # any number may be asked for
    return (
        address, width, choice.size, choice.allowed, choice.unbudgeted,
        None if ramp is None else ramp.bits, 0.0 if ramp is None else ramp.penalty,
        None if choice.changes is None else _native_changes(choice.changes),
        params.temperature, top_k, 1.0 if params.top_p is None else params.top_p,
        params.min_p or 0.0,
        uniform(params.seed, choice.position) if params.temperature else 0.0,
        -1 if choice.logprobs is None else min(choice.logprobs, choice.size), choice.raw,
    )  # fmt: skip


def _native_changes(changes: Changes) -> Any:
    return (
        changes.permitted, changes.banned, changes.ends, changes.biased, changes.bias, changes.seen, changes.counts,
        changes.repetition, changes.presence, changes.frequency,
    )  # fmt: skip


def _chosen(row: Any, choice: Choice) -> Chosen | GuidedError:
    refused, token, highest, removed, by_budget, logprob, top = row
    if refused:
        return all_banned(choice.position) if refused == _ALL_BANNED else refusal(highest)
    possible = tuple(pair for pair in top if pair[1] > -inf)
    scores = None if choice.logprobs is None else TokenLogprobs(token, logprob, possible)
    return Chosen(token, removed, by_budget, scores)
