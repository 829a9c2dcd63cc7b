"""Chooses the next tokens of a batch on the device of their logits, with one wait for the results.

In: the requests of some sequences (`Choose`). Out: a `ChosenToken` or an error for each row. Choices use Triton kernels
if Triton is installed (choose_triton.py). Choices that return a list of the most likely tokens or have a large top-k
use torch (choose_batch.py). Both results are joined into one tensor, which is copied to the host.

Cost: one copy to the device for each of the two kinds of choices, a number of launches that does not depend on the
number of choices, and one synchronisation. A second synchronisation follows only if the nucleus of a top-p has more
than 256 tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import exp, inf, isfinite
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.errors import GuidedError
from guided.kernels.choice_table import ChoiceTable, make_choice_table
from guided.kernels.choose_batch import Column, NeededOperations, choose_batch
from guided.kernels.transfer import Fetch, send
from guided.matching.bitmask import is_allowed
from guided.packages import triton_function
from guided.sampling.choice import Choice, Choose, ChosenToken, all_banned_error
from guided.sampling.logprobs import TokenLogprobs
from guided.sampling.prepared import PreparedChoices, PreparedTokens
from guided.sampling.sampler import refusal

__all__ = ["MAX_TOP_K", "DeviceChoices", "Kernel", "kernels_for"]

Kernel: TypeAlias = Callable[[Tensor, ChoiceTable, NeededOperations], Tensor]
MAX_TOP_K: Final = 1024
"""The largest top-k that the Triton kernels support."""


class _LaunchedBatch(NamedTuple):
    """The choices that one launch makes.

    Attributes:
        indices: the indices of these choices among all choices. Prepared choices come after those of requests.
        rows: a row of `Column`s for each choice.
        prepared: the last of these choices, if they are prepared.
    """

    indices: list[int]
    rows: Tensor
    prepared: PreparedChoices | None = None


class _Group(NamedTuple):
    """The choices from one model's logits.

    Attributes:
        logits: (rows, width).
        rows: the index of a choice among all choices -> its row.
    """

    logits: Tensor
    rows: dict[int, int]


class DeviceChoices:
    """The choices of a batch, while the device of their logits computes them.

    Attributes:
        rechosen_rows: after `wait`, the indices of choices whose first look was too small.
        prepared_tokens: after `wait`, the tokens of the prepared choices.
    """

    @torch.inference_mode()
    def __init__(self, requests: Sequence[Choose], prepared: PreparedChoices | None = None) -> None:
        self.rechosen_rows = set[int]()
        self.prepared_tokens: PreparedTokens | None = None
        self._choices = [choice for _, choices, _ in requests for choice in choices]
        self._launched_batches = list[tuple[_Group, _LaunchedBatch]]()
        for group in _group_by_model(requests):
            indices = dict[Kernel, list[int]]()
            kernels = kernels_for([self._choices[index] for index in group.rows], group.logits.device)
            for index, kernel in zip(group.rows, kernels, strict=True):
                indices.setdefault(kernel, []).append(index)
            for kernel, group_indices in indices.items():
                joined = prepared if prepared is not None and _fits(prepared, group, kernel) else None
                prepared = None if joined is not None else prepared
                self._launched_batches.append((group, self._launch(group, group_indices, kernel, joined)))
        if prepared is not None:
            group = _Group(prepared.logits, {})
            kernel = _default_kernel(prepared.logits.device)
            self._launched_batches.append((group, self._launch(group, [], kernel, prepared)))
        self._fetch = _start_fetch(batch for _, batch in self._launched_batches) if self._launched_batches else None

    @property
    @torch.inference_mode()
    def tokens(self) -> Tensor:
        """The token of each choice, int64 (choices,), on the device. Arbitrary for choices in `rechosen_rows`."""
        tokens = torch.cat([batch.rows[:, Column.TOKEN] for _, batch in self._launched_batches]).long()
        indices = [index for _, batch in self._launched_batches for index in batch.indices]
        if indices == sorted(indices):
            return tokens
        order = sorted(range(len(indices)), key=indices.__getitem__)
        return tokens[send(order, torch.int64, tokens.device)]

    def wait(self) -> list[ChosenToken | GuidedError]:
        """Wait for the token or error of each choice."""
        if self._fetch is None:
            return []
        choices, unresolved_batches = dict[int, ChosenToken | GuidedError](), list[_LaunchedBatch]()
        rows_by_batch = _wait_for_rows(self._fetch, [batch for _, batch in self._launched_batches])
        for (group, batch), rows in zip(self._launched_batches, rows_by_batch, strict=True):
            if batch.prepared is not None:
                self.prepared_tokens = _read_prepared(rows[-len(batch.prepared) :], batch.prepared)
            if unresolved_indices := self._read(batch, rows, choices):
                self.rechosen_rows.update(unresolved_indices)
                unresolved_batches.append(self._launch(group, unresolved_indices, choose_batch, sort_all=True))
        if unresolved_batches:
            rows_by_batch = _wait_for_rows(_start_fetch(unresolved_batches), unresolved_batches)
            for batch, rows in zip(unresolved_batches, rows_by_batch, strict=True):
                self._read(batch, rows, choices)
        return [choices[index] for index in range(len(self._choices))]

    @torch.inference_mode()
    def _launch(
        self,
        group: _Group,
        indices: list[int],
        kernel: Kernel,
        prepared: PreparedChoices | None = None,
        *,
        sort_all: bool = False,
    ) -> _LaunchedBatch:
        choices = [self._choices[index] for index in indices]
        table = make_choice_table(choices, [group.rows[index] for index in indices], group.logits.device, prepared)
        rows = kernel(group.logits, table, NeededOperations.from_choices(choices, prepared, sort_all=sort_all))
        first = len(self._choices)
        prepared_indices = [] if prepared is None else range(first, first + len(prepared))
        return _LaunchedBatch([*indices, *prepared_indices], rows, prepared)

    def _read(
        self, batch: _LaunchedBatch, rows: npt.NDArray[Any], results: dict[int, ChosenToken | GuidedError]
    ) -> list[int]:
        """Read the results of a launch. Return the indices of the choices that must be repeated with all tokens."""
        unresolved_indices = list[int]()
        count = len(rows) - (0 if batch.prepared is None else len(batch.prepared))
        for index, row in zip(batch.indices, rows[:count].tolist(), strict=False):
            if row[Column.UNRESOLVED]:
                unresolved_indices.append(index)
            else:
                results[index] = _read_row(row, self._choices[index])
        return unresolved_indices


def _start_fetch(batches: Iterable[_LaunchedBatch]) -> Fetch:
    return Fetch(torch.cat([batch.rows.flatten() for batch in batches]))


def _wait_for_rows(fetch: Fetch, batches: Sequence[_LaunchedBatch]) -> list[npt.NDArray[Any]]:
    """Wait for the values of all `rows` on the host."""
    flat_rows = torch.split(fetch.wait(), [batch.rows.numel() for batch in batches])
    return [values.view(batch.rows.shape).numpy() for values, batch in zip(flat_rows, batches, strict=True)]


def _fits(prepared: PreparedChoices, group: _Group, kernel: Kernel) -> bool:
    """Whether prepared choices can be part of the launch for a group."""
    return group.logits is prepared.logits and kernel is _default_kernel(group.logits.device)


def _default_kernel(device: torch.device) -> Kernel:
    return _triton_kernel(device) or choose_batch


def _triton_kernel(device: torch.device) -> Kernel | None:
    """The function that uses Triton kernels; None without Triton or CUDA."""
    if device.type != "cuda":
        return None
    kernel: Kernel | None = triton_function("guided.kernels.choose_triton", "choose_triton")
    return kernel


def kernels_for(choices: Sequence[Choice], device: torch.device) -> list[Kernel]:
    """The function that makes each choice on this device."""
    kernel = _default_kernel(device)
    return [choose_batch if choice.logprobs or choice.top_k > MAX_TOP_K else kernel for choice in choices]


def _group_by_model(requests: Sequence[Choose]) -> list[_Group]:
    """Group the choices by model: by the width of the logits and the size of the vocabulary."""
    by_model, index = dict[tuple[int, int], list[tuple[int, Choose]]](), 0
    for request in requests:
        if request.choices:
            by_model.setdefault((request.logits.size(1), request.choices[0].size), []).append((index, request))
        index += len(request.choices)
    groups = []
    for indexed_requests in by_model.values():
        logits, rows = _join_rows([request for _, request in indexed_requests])
        indices = [first + i for first, request in indexed_requests for i in range(len(request.choices))]
        groups.append(_Group(logits, dict(zip(indices, rows, strict=True))))
    return groups


def _join_rows(requests: Sequence[Choose]) -> tuple[Tensor, list[int]]:
    """A tensor with all rows of some requests, and the index of each row. Requests that share a tensor are not
    copied."""
    logits = requests[0].logits
    if logits.stride(1) == 1 and all(request.logits is logits for request in requests):
        return logits, [(first or 0) + i for _, choices, first in requests for i in range(len(choices))]
    row_tensors = [logits[first or 0 :][: len(choices)] for logits, choices, first in requests]
    return torch.cat(row_tensors), list(range(sum(map(len, row_tensors))))


def _read_row(row: Sequence[float], choice: Choice) -> ChosenToken | GuidedError:
    """Read the token or error from a row of the result."""
    highest = row[Column.HIGHEST]
    if row[Column.ALL_BANNED]:
        return all_banned_error(choice.position)
    if not isfinite(highest):
        return refusal(highest)
    token, all_mass, allowed_mass = int(row[Column.TOKEN]), row[Column.ALL_MASS], row[Column.ALLOWED_MASS]
    removed_log_mass, budget_mass, scores, logprob, preferred = 0.0, None, None, 0.0, None
    if choice.allowed is not None:
        removed_log_mass, logprob, preferred = (
            max(0.0, all_mass - allowed_mass),
            row[Column.MODEL_LOGIT] - all_mass,
            int(row[Column.PREFERRED]),
        )
        preferred = None if is_allowed(choice.allowed, preferred) else preferred
        if choice.unbudgeted is not None or choice.ramp is not None:
            budget_mass = max(0.0, exp(row[Column.SPECIFIED_MASS] - all_mass) - exp(allowed_mass - all_mass))
    if choice.logprobs is not None:
        mass, top = row[Column.MASS], row[len(Column) :]
        pairs = zip(top[: len(top) // 2], top[len(top) // 2 :], strict=True)
        best = sorted(((int(id), value - mass) for id, value in pairs), key=lambda pair: (-pair[1], pair[0]))
        allowed_top = [pair for pair in best[: choice.logprobs] if pair[1] > -inf]
        scores = TokenLogprobs(token, row[Column.LOGIT] - mass, tuple(allowed_top))
    return ChosenToken(token, removed_log_mass, budget_mass, scores, logprob, preferred)


def _read_prepared(rows: npt.NDArray[Any], prepared: PreparedChoices) -> PreparedTokens:
    """Read the tokens of prepared choices, as `_read_row` does."""
    tokens, preferred = rows[:, Column.TOKEN].astype(np.int64), rows[:, Column.PREFERRED].astype(np.int64)
    all_mass, is_masked = rows[:, Column.ALL_MASS], prepared.mask >= 0
    with np.errstate(invalid="ignore"):  # infinite minus infinite logits, which are not chosen
        removed = np.maximum(0.0, all_mass - rows[:, Column.ALLOWED_MASS])
        logprob = rows[:, Column.MODEL_LOGIT] - all_mass
    return PreparedTokens(
        np.isfinite(rows[:, Column.HIGHEST]) & (rows[:, Column.UNRESOLVED] == 0),
        tokens,
        np.where(is_masked, removed, 0.0),
        np.where(is_masked, logprob, 0.0),
        np.where(prepared.is_allowed(preferred), -1, preferred),
    )
