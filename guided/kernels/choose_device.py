"""Chooses the next tokens of a batch on the device of their logits, and waits once.

In: the requests of some sequences (`Choose`). Out: a `ChosenToken` or an error for each row. Choices use Triton kernels
if Triton is installed (choose_triton.py). Choices that return a list of the most likely tokens, or have a large top-k,
use torch (choose_batch.py). Both results are joined into one tensor, which is copied to the host.

Cost: one copy to the device for each of the two kinds, a number of launches that does not depend on the number of
choices, and one synchronisation. A second one follows only if the nucleus of a top-p has more than 256 tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import exp, inf, isfinite
from typing import Final, NamedTuple, TypeAlias

import torch
from torch import Tensor

from guided.errors import GuidedError
from guided.kernels.choice_table import ChoiceTable, make_choice_table
from guided.kernels.choose_batch import Column, NeededOperations, choose_batch
from guided.kernels.transfer import Fetch, send
from guided.matching.bitmask import is_allowed
from guided.packages import triton_function
from guided.sampling.choice import Choice, Choose, ChosenToken, all_banned
from guided.sampling.logprobs import TokenLogprobs
from guided.sampling.sampler import refusal

__all__ = ["DeviceChoices", "Kernel", "kernels_for"]

Kernel: TypeAlias = Callable[[Tensor, ChoiceTable, NeededOperations], Tensor]
_MAX_TOP_K: Final = 1024  # the greatest top-k of the Triton kernels


class _LaunchedBatch(NamedTuple):
    """Choices that the same kernels make.

    Attributes:
        indices: their indices among all choices.
        rows: a row for each, see `Column`.
    """

    indices: list[int]
    rows: Tensor


class _Group(NamedTuple):
    """Choices from logits of one model.

    Attributes:
        logits: (rows, width).
        rows: index of a choice among all choices -> its row.
    """

    logits: Tensor
    rows: dict[int, int]


class DeviceChoices:
    """The choices of a batch, while the device of their logits computes them.

    Attributes:
        repeated_rows: after `wait`, the indices of choices whose first look was too small.
    """

    @torch.inference_mode()
    def __init__(self, requests: Sequence[Choose]) -> None:
        self.repeated_rows = set[int]()
        self._choices = [choice for _, choices, _ in requests for choice in choices]
        self._launched = list[tuple[_Group, _LaunchedBatch]]()
        for group in _groups(requests):
            indices = dict[Kernel, list[int]]()
            kernels = kernels_for([self._choices[at] for at in group.rows], group.logits.device)
            for at, kernel in zip(group.rows, kernels, strict=True):
                indices.setdefault(kernel, []).append(at)
            self._launched += [
                (group, self._launch(group, group_indices, kernel)) for kernel, group_indices in indices.items()
            ]
        self._fetch = _start_fetch(launched for _, launched in self._launched) if self._launched else None

    @property
    @torch.inference_mode()
    def tokens(self) -> Tensor:
        """The token of each choice, int64 (choices,), on the device. Arbitrary for choices in `repeated_rows`."""
        tokens = torch.cat([launched.rows[:, Column.TOKEN] for _, launched in self._launched]).long()
        indices = [at for _, launched in self._launched for at in launched.indices]
        if indices == sorted(indices):
            return tokens
        order = sorted(range(len(indices)), key=indices.__getitem__)
        return tokens[send(order, torch.int64, tokens.device)]

    def wait(self) -> list[ChosenToken | GuidedError]:
        """Wait for the results."""
        if self._fetch is None:
            return []
        choices, unresolved_batches = dict[int, ChosenToken | GuidedError](), list[_LaunchedBatch]()
        fetched = _wait_for_rows(self._fetch, [launched for _, launched in self._launched])
        for (group, launched), rows in zip(self._launched, fetched, strict=True):
            if unresolved := self._read(launched, rows, choices):
                self.repeated_rows.update(unresolved)
                unresolved_batches.append(self._launch(group, unresolved, choose_batch, sort_all=True))
        if unresolved_batches:
            fetched = _wait_for_rows(_start_fetch(unresolved_batches), unresolved_batches)
            for launched, rows in zip(unresolved_batches, fetched, strict=True):
                self._read(launched, rows, choices)
        return [choices[at] for at in range(len(self._choices))]

    @torch.inference_mode()
    def _launch(self, group: _Group, indices: list[int], kernel: Kernel, *, sort_all: bool = False) -> _LaunchedBatch:
        choices = [self._choices[at] for at in indices]
        table = make_choice_table(choices, [group.rows[at] for at in indices], group.logits.device)
        return _LaunchedBatch(indices, kernel(group.logits, table, NeededOperations.of(choices, sort_all=sort_all)))

    def _read(
        self, launched: _LaunchedBatch, rows: Sequence[Sequence[float]], results: dict[int, ChosenToken | GuidedError]
    ) -> list[int]:
        """Read the results of some choices. Return the indices of the choices that need all tokens."""
        unresolved = list[int]()
        for at, row in zip(launched.indices, rows, strict=True):
            if row[Column.UNRESOLVED]:
                unresolved.append(at)
            else:
                results[at] = _read_row(row, self._choices[at])
        return unresolved


def _start_fetch(launched: Iterable[_LaunchedBatch]) -> Fetch:
    return Fetch(torch.cat([rows.flatten() for _, rows in launched]))


def _wait_for_rows(fetch: Fetch, launched: Sequence[_LaunchedBatch]) -> list[list[list[float]]]:
    """The values of all `rows`, on the host."""
    parts = torch.split(fetch.wait(), [rows.numel() for _, rows in launched])
    return [part.view(tensor.shape).tolist() for part, (_, tensor) in zip(parts, launched, strict=True)]


def _kernel(device: torch.device) -> Kernel | None:
    """The Triton kernels; None without Triton or CUDA."""
    if device.type != "cuda":
        return None
    kernel: Kernel | None = triton_function("guided.kernels.choose_triton", "choose_triton")
    return kernel


def kernels_for(choices: Sequence[Choice], device: torch.device) -> list[Kernel]:
    """The function that makes each choice on a device."""
    kernel = _kernel(device) or choose_batch
    return [choose_batch if choice.logprobs or choice.top_k > _MAX_TOP_K else kernel for choice in choices]


def _groups(requests: Sequence[Choose]) -> list[_Group]:
    """The choices by model: logits of the same width, and vocabularies of the same size."""
    by_model, index = dict[tuple[int, int], list[tuple[int, Choose]]](), 0
    for request in requests:
        if request.choices:
            by_model.setdefault((request.logits.size(1), request.choices[0].size), []).append((index, request))
        index += len(request.choices)
    groups = []
    for parts in by_model.values():
        logits, rows = _join_rows([request for _, request in parts])
        indices = [index + at for index, request in parts for at in range(len(request.choices))]
        groups.append(_Group(logits, dict(zip(indices, rows, strict=True))))
    return groups


def _join_rows(requests: Sequence[Choose]) -> tuple[Tensor, list[int]]:
    """A tensor with all rows of some requests, and the index of each row. If the requests share a tensor, no copy."""
    logits = requests[0].logits
    if logits.stride(1) == 1 and all(request.logits is logits for request in requests):
        return logits, [(first or 0) + at for _, choices, first in requests for at in range(len(choices))]
    parts = [logits[first or 0 :][: len(choices)] for logits, choices, first in requests]
    return torch.cat(parts), list(range(sum(map(len, parts))))


def _read_row(row: Sequence[float], choice: Choice) -> ChosenToken | GuidedError:
    """The token or error in a row of the result."""
    highest = row[Column.HIGHEST]
    if row[Column.ALL_BANNED]:
        return all_banned(choice.position)
    if not isfinite(highest):
        return refusal(highest)
    token, everything, after = int(row[Column.TOKEN]), row[Column.ALL_MASS], row[Column.ALLOWED_MASS]
    removed, budget_mass, scores, logprob, preferred = 0.0, None, None, 0.0, None
    if choice.allowed is not None:
        removed, logprob, preferred = (
            max(0.0, everything - after),
            row[Column.MODEL_LOGIT] - everything,
            int(row[Column.PREFERRED]),
        )
        preferred = None if is_allowed(choice.allowed, preferred) else preferred
        if choice.unbudgeted is not None or choice.ramp is not None:
            budget_mass = max(0.0, exp(row[Column.SPECIFIED_MASS] - everything) - exp(after - everything))
    if choice.logprobs is not None:
        mass, top = row[Column.MASS], row[len(Column) :]
        pairs = zip(top[: len(top) // 2], top[len(top) // 2 :], strict=True)
        best = sorted(((int(id), value - mass) for id, value in pairs), key=lambda pair: (-pair[1], pair[0]))
        allowed_top = [pair for pair in best[: choice.logprobs] if pair[1] > -inf]
        scores = TokenLogprobs(token, row[Column.LOGIT] - mass, tuple(allowed_top))
    return ChosenToken(token, removed, budget_mass, scores, logprob, preferred)
