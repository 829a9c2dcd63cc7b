"""Chooses the next tokens of a batch in one call: in C++ on a CPU, in torch and Triton on other devices.

In: the requests of some sequences (`Choose`). Out: an `Answer` for each. On a CPU, native/choose_row.cpp reads each row
two to four times, on as many threads as torch uses. choose_device.py chooses on other devices. A chosen token depends
only on the logits of its row and on the parameters in its `Choice`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from time import perf_counter
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from guided.errors import GuidedError
from guided.kernels import _kernels
from guided.kernels.choose_device import DeviceChoices
from guided.sampling.choice import Answer, Changes, Choice, Choose, ChosenToken, all_banned_error
from guided.sampling.logprobs import TokenLogprobs
from guided.sampling.prepared import PreparedChoices, PreparedTokens
from guided.sampling.sampler import refusal, uniform

__all__ = ["LaunchedChoices", "answer", "launch"]

Rows: TypeAlias = list[ChosenToken | GuidedError]
_ALL_BANNED: Final = 2  # as in native/choose_row.hpp


def answer(requests: Sequence[Choose]) -> list[Answer]:
    """Choose a token for each row of each request. Raises like `launch`."""
    return launch(requests).wait()


def launch(requests: Sequence[Choose], prepared: PreparedChoices | None = None) -> LaunchedChoices:
    """Start choosing a token for each row of each request, and for each prepared choice. On a CPU, this call chooses
    the tokens before it returns.

    Raises:
        ValueError: the choices do not fit the rows, or logits have the wrong shape or type.
    """
    begin = perf_counter()
    tensors = {id(logits): logits for logits, _, _ in requests}
    row_counts = {
        key: len(tensor) if tensor.dim() == 2 and tensor.dtype == torch.float32 else -1
        for key, tensor in tensors.items()
    }
    for logits, choices, first in requests:
        max_first = row_counts[id(logits)] - len(choices)
        if not (max_first == 0 if first is None else 0 <= first <= max_first):
            description = f"{len(choices)} choices from {logits.dtype} of shape {tuple(logits.shape)}"
            raise ValueError(f"cannot make {description}" + ("" if first is None else f" from row {first}"))
    on_cpu = all(tensor.is_cpu for tensor in tensors.values()) and (prepared is None or prepared.logits.is_cpu)
    chosen_tokens = _choose_on_cpu(requests, prepared) if on_cpu else DeviceChoices(requests, prepared)
    prepared_count = 0 if prepared is None else len(prepared)
    return LaunchedChoices(requests, prepared_count, chosen_tokens, perf_counter() - begin)


class LaunchedChoices:
    """The tokens of a batch, while a device may still be choosing them.

    Attributes:
        seconds_per_row: after `wait`, the computation time divided by the number of choices.
    """

    seconds_per_row = 0.0

    def __init__(
        self, requests: Sequence[Choose], prepared_count: int, rows: Rows | DeviceChoices, seconds: float
    ) -> None:
        self._requests, self._rows, self._seconds = requests, rows, seconds
        self._first_prepared = sum(len(choices) for _, choices, _ in requests)
        self._count = self._first_prepared + prepared_count

    @property
    def tokens(self) -> Tensor:
        """The token of each row, then of each prepared choice, int64, on the device of the logits. The device may still
        be choosing the tokens.

        The token is arbitrary in rows without a possible token and in `rechosen_rows`.
        """
        if isinstance(self._rows, DeviceChoices):
            return self._rows.tokens
        return torch.tensor([row.token if isinstance(row, ChosenToken) else 0 for row in self._rows])

    @property
    def rechosen_rows(self) -> Collection[int]:
        """After `wait`, the rows whose token may differ from `tokens`."""
        return self._rows.rechosen_rows if isinstance(self._rows, DeviceChoices) else ()

    def wait(self) -> list[Answer]:
        """Wait for the answers, one for each request."""
        begin = perf_counter()
        rows = self._rows.wait() if isinstance(self._rows, DeviceChoices) else self._rows
        self.seconds_per_row = (self._seconds + perf_counter() - begin) / max(1, self._count)
        out, first = list[Answer](), 0
        for _, choices, _ in self._requests:
            out.append(Answer(rows[first : first + len(choices)], self.seconds_per_row * len(choices)))
            first += len(choices)
        return out

    @property
    def prepared_tokens(self) -> PreparedTokens | None:
        """After `wait`, the tokens of the prepared choices, if there are any."""
        if isinstance(self._rows, DeviceChoices):
            return self._rows.prepared_tokens
        rows = self._rows[self._first_prepared :]
        return PreparedTokens.from_rows(rows) if rows else None


def _choose_on_cpu(requests: Sequence[Choose], prepared: PreparedChoices | None = None) -> Rows:
    """The rows of the requests, then those of the prepared choices."""
    if prepared is not None:
        requests = [*requests, *prepared.requests(range(len(prepared)))]
    # id of the logits -> a contiguous tensor, its address, and the stride (in bytes) and width of a row
    tensor_by_id = dict[int, tuple[Tensor, int, int, int]]()
    choices, rows = list[Choice](), list[Any]()
    for logits, request_choices, first in requests:
        if id(logits) not in tensor_by_id:
            contiguous_logits = logits if logits.stride(1) == 1 else logits.contiguous()
            tensor_by_id[id(logits)] = (
                contiguous_logits,
                contiguous_logits.data_ptr(),
                4 * contiguous_logits.stride(0),
                contiguous_logits.shape[1],
            )
        _, address, stride, width = tensor_by_id[id(logits)]
        rows += [
            _make_native_row(address + i * stride, width, choice)
            for i, choice in enumerate(request_choices, first or 0)
        ]
        choices += request_choices
    chosen_rows = _kernels.choose_rows(rows, torch.get_num_threads())
    return [_read_row(row, choice) for row, choice in zip(chosen_rows, choices, strict=True)]


def _make_native_row(address: int, width: int, choice: Choice) -> Any:
    params, ramp = choice.params, choice.ramp
    return (
        address, width, choice.size, choice.allowed, choice.unbudgeted,
        None if ramp is None else ramp.bits, 0.0 if ramp is None else ramp.penalty,
        None if choice.changes is None else _make_native_changes(choice.changes),
        params.temperature, choice.top_k, 1.0 if params.top_p is None else params.top_p,
        params.min_p or 0.0,
        uniform(params.seed, choice.position) if params.temperature else 0.0,
        -1 if choice.logprobs is None else min(choice.logprobs, choice.size), choice.raw,
    )  # fmt: skip


def _make_native_changes(changes: Changes) -> Any:
    return (
        changes.permitted, changes.banned, changes.ends, changes.biased, changes.bias, changes.seen, changes.counts,
        changes.repetition, changes.presence, changes.frequency,
    )  # fmt: skip


def _read_row(row: Any, choice: Choice) -> ChosenToken | GuidedError:
    refusal_code, token, highest, removed_log_mass, budget_mass, score, top, logprob, preferred = row
    if refusal_code:
        return all_banned_error(choice.position) if refusal_code == _ALL_BANNED else refusal(highest)
    allowed_top = tuple(pair for pair in top if pair[1] > -inf)
    scores = None if choice.logprobs is None else TokenLogprobs(token, score, allowed_top)
    return ChosenToken(token, removed_log_mass, budget_mass, scores, logprob, None if preferred < 0 else preferred)
