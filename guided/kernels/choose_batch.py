"""Chooses the next tokens of a batch in torch, on any device, without waiting for values from the device.

In: logits, the `ChoiceTable` of a batch, and its `NeededOperations`. Out: a tensor with a row of `Column`s for each
choice, and the most likely tokens if requested. Every operation processes all rows, so the number of operations depends
on `NeededOperations`, not on the number of rows, and the host reads the result once.

The order of the steps is the same as in `SamplingParams`: mask, ramp, bans, bias, penalties, temperature, min-p, top-k,
top-p. Sums are computed in float64 if the device supports it. A choice with top-k or top-p draws from its `first_look`
most likely tokens. If top-p needs more, the row is marked `UNRESOLVED`, and the caller repeats it with all tokens.

Cost: about a dozen passes over (choices, vocabulary), memory for a few such tensors, and a partial sort. On CUDA
choose_triton.py makes most choices, in a few passes. This module is tested against sampling/reference_choice.py, which
does the same for a single row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import torch
from torch import Tensor

from guided.kernels.choice_table import ChoiceTable, Pairs
from guided.sampling.choice import Choice
from guided.sampling.prepared import PreparedChoices

__all__ = ["FIRST_LOOK", "Column", "NeededOperations", "choose_batch"]

FIRST_LOOK: Final = 256  # the number of most likely tokens to sort first; top-p rarely needs more
_ALIGNMENT: Final = 16  # Triton recompiles a kernel for numbers that are not multiples of 16
_FORBIDDEN: Final = -torch.inf


class Column(IntEnum):
    """The first columns of the result. After them come the ids of the most likely tokens, then the logits of these
    ids."""

    TOKEN = 0
    HIGHEST = 1
    """The greatest logit after all changes. If it is not finite, no token can be chosen."""
    ALL_MASS = 2
    """Log of the sum of exponentials of the model's logits."""
    SPECIFIED_MASS = 3
    """Like `ALL_MASS`, for the tokens that the mask without a budget allows."""
    ALLOWED_MASS = 4
    """Like `ALL_MASS`, after mask and ramp."""
    LOGIT = 5
    """The logit from which the token's log probability is computed: the model's logit, or the logit after all
    changes."""
    MASS = 6
    """Log of the sum of exponentials of the logits to which `LOGIT` belongs."""
    ALL_BANNED = 7
    """1 if the mask allows tokens but the request bans all of them."""
    UNRESOLVED = 8
    """1 if top-p needs more tokens than the first look."""
    MODEL_LOGIT = 9
    """The model's logit of the token."""
    PREFERRED = 10
    """The model's most likely token, allowed or not."""


@dataclass(frozen=True, slots=True)
class NeededOperations:
    """The operations that the choices of a batch need, known on the host.

    Attributes:
        has_changes: whether some choices have bans, bias or penalties.
        first_look: the number of most likely tokens to sort; 0: no choice has top-k or top-p.
        draws_from_all: whether some choices draw at a temperature above 0 without top-k and top-p.
        has_min_p: whether some choices have min-p.
        top: the number of most likely tokens to return.
        has_masked_scores: whether some log probabilities are computed from the changed logits, not from the model's.
    """

    has_changes: bool
    first_look: int
    draws_from_all: bool
    has_min_p: bool
    top: int
    has_masked_scores: bool

    @classmethod
    def from_choices(
        cls, choices: Sequence[Choice], prepared: PreparedChoices | None = None, *, sort_all: bool = False
    ) -> NeededOperations:
        """The operations that these choices need. `sort_all`: sort all tokens."""
        size = prepared.size if prepared is not None else choices[0].size
        sampled_choices = [choice for choice in choices if choice.params.temperature]
        sorted_top_ks = [choice.top_k for choice in sampled_choices if choice.needs_sorting]
        draws_from_all = any(not choice.needs_sorting for choice in sampled_choices)
        has_min_p = any(choice.params.min_p for choice in sampled_choices)
        if prepared is not None:
            sorts = prepared.sorts
            sorted_top_ks += prepared.top_k[sorts].tolist()
            draws_from_all |= int(np.count_nonzero(prepared.scale)) > len(sorts)
            has_min_p |= len(prepared.min_p_rows) > 0
        max_top_k = max(sorted_top_ks, default=None)
        first_look = 0 if max_top_k is None else max(FIRST_LOOK, -(-max_top_k // _ALIGNMENT) * _ALIGNMENT)
        return cls(
            has_changes=any(choice.changes is not None for choice in choices),
            first_look=size if sort_all else min(size, first_look),
            draws_from_all=draws_from_all,
            has_min_p=has_min_p,
            top=max((min(choice.logprobs or 0, size) for choice in choices), default=0),
            has_masked_scores=any(not choice.raw and choice.logprobs is not None for choice in choices),
        )


def choose_batch(logits: Tensor, table: ChoiceTable, needs: NeededOperations) -> Tensor:
    """Choose a token for each choice of a table.

    Args:
        logits: float32 (rows, width). They are not changed.

    Returns:
        (choices, len(Column) + 2 * needs.top): float64, or float32 on devices without float64.
    """
    precise_dtype = torch.float32 if logits.device.type == "mps" else torch.float64
    model_logits = logits.index_select(0, table.row)
    all_mass = model_logits.logsumexp(1)
    work, specified_mass, allowed_mass = _apply_masks(model_logits, table)
    highest_before = work.amax(1)
    all_banned = torch.zeros_like(highest_before)
    if needs.has_changes:
        work, all_banned = _change_logits(work, highest_before, table)
    best = work.argmax(1)
    highest = work.gather(1, best[:, None])[:, 0]
    scored_logits, mass = model_logits[:, : table.size], all_mass
    if needs.has_masked_scores:
        raw = table.raw > 0
        scored_logits = torch.where(raw[:, None], scored_logits, work)
        mass = torch.where(
            raw, all_mass, torch.maximum(work.logsumexp(1), highest)
        )  # with the maximum, no probability is above 1
    token, unresolved = best, torch.zeros_like(highest)
    if needs.draws_from_all or needs.first_look:
        exponents = (work - highest[:, None]) * table.scale[:, None]
        if needs.has_min_p:
            exponents = torch.where(exponents >= table.min_p.log()[:, None], exponents, _FORBIDDEN)
        drawn_ids = best
        if needs.draws_from_all:
            drawn_ids = _draw(exponents.exp().to(precise_dtype), table.uniform.to(precise_dtype))
        if needs.first_look:
            is_restricted = (table.top_k > 0) | (table.top_p < 1)
            drawn_among_few, unresolved = _draw_among_few(exponents, needs.first_look, table, precise_dtype)
            drawn_ids = torch.where(is_restricted, drawn_among_few, drawn_ids)
        token = torch.where(table.scale > 0, drawn_ids, best)
    logit, model_logit = (x.gather(1, token[:, None])[:, 0] for x in (scored_logits, model_logits))
    preferred = model_logits[:, : table.size].argmax(1)
    columns = [
        token,
        highest,
        all_mass,
        specified_mass,
        allowed_mass,
        logit,
        mass,
        all_banned,
        unresolved,
        model_logit,
        preferred,
    ]
    values_by_row = torch.stack([column.to(precise_dtype) for column in columns], 1)
    if not needs.top:
        return values_by_row
    values, ids = _greatest_numbers(scored_logits, needs.top)
    return torch.cat([values_by_row, ids.to(precise_dtype), values.to(precise_dtype)], 1)


def _unpack_bits(table: ChoiceTable, rows: Tensor) -> Tensor:
    """Unpack one bitmask per choice, into bool (choices, size)."""
    shifts = torch.arange(32, dtype=torch.int32, device=rows.device)
    words = table.masks.index_select(0, rows)
    return ((words[:, :, None] >> shifts) & 1).flatten(1)[:, : table.size].bool()


def _apply_masks(model_logits: Tensor, table: ChoiceTable) -> tuple[Tensor, Tensor, Tensor]:
    """Apply mask and ramp. Return the logits of the vocabulary, and the columns `SPECIFIED_MASS` and `ALLOWED_MASS`."""
    model_logits = model_logits[:, : table.size]
    specified_mass = torch.where(_unpack_bits(table, table.specified), model_logits, _FORBIDDEN).logsumexp(1)
    work = torch.where(_unpack_bits(table, table.allowed), model_logits, _FORBIDDEN)
    work = work - table.ramp[:, None] * _unpack_bits(table, table.ramped)
    return work, specified_mass, work.logsumexp(1)


def _change_logits(work: Tensor, highest_before: Tensor, table: ChoiceTable) -> tuple[Tensor, Tensor]:
    """Apply bans, bias and penalties. Return the logits, and for each row 1.0 if the bans forbid all tokens."""
    is_allowed = highest_before > _FORBIDDEN
    is_allowed |= highest_before.isnan()
    work = torch.where(_unpack_bits(table, table.permitted), work, _FORBIDDEN)
    forbidden = work.new_full((), _FORBIDDEN)  # storing a Python number by index would wait for a copy to CUDA
    work[_index_pairs(table.banned)] = forbidden
    all_banned = is_allowed & (work.amax(1) == _FORBIDDEN)
    end_indices = _index_pairs(table.ends)
    values = work[end_indices]
    work[end_indices] = forbidden
    only_ends = work.amax(1) == _FORBIDDEN
    work[end_indices] = torch.where(only_ends[end_indices[0]], values, _FORBIDDEN)
    bias_indices = _index_pairs(table.biased)
    work[bias_indices] = work[bias_indices] + table.biased.number
    rows, ids = _index_pairs(table.seen)
    values, counts = work[rows, ids], table.seen.number
    repetition, frequency, presence = (x[rows] for x in (table.repetition, table.frequency, table.presence))
    values = torch.where(values > 0, values / repetition, values * repetition)
    work[rows, ids] = values - (frequency * counts + presence * (counts > 0))
    return work, all_banned.float()


def _index_pairs(pairs: Pairs) -> tuple[Tensor, Tensor]:
    return pairs.choice.long(), pairs.id.long()


def _greatest_numbers(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` greatest numbers of each float32 row, in descending order, and their ids; among equals, the lower id
    first.

    torch.topk does not define the order of equal numbers, which may depend on the number of rows. So a key consists of
    the float's bits, mapped to an integer with the same order, and the id.
    """
    bits = (x + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    ordered_bits = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long() << 32
    reversed_ids = torch.arange(x.shape[1] - 1, -1, -1, device=x.device)
    keys = (ordered_bits | reversed_ids).topk(count)[0]
    ids = x.shape[1] - 1 - (keys & 0xFFFFFFFF)
    return x.gather(1, ids), ids


def _draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """For each row, the first index with nonzero weight at which the cumulative weight exceeds `uniform` times the sum.

    On some devices cumulative sums are not quite monotone, so indices with weight zero are excluded explicitly.
    """
    cumulative = weights.cumsum(1)
    target = uniform[:, None] * cumulative[:, -1:]
    has_weight = weights > 0
    is_reached = (cumulative > target) & has_weight
    last = weights.shape[1] - 1 - has_weight.flip(1).int().argmax(1)  # used if rounding misses the target
    return torch.where(is_reached.any(1), is_reached.int().argmax(1), last)


def _draw_among_few(
    exponents: Tensor, count: int, table: ChoiceTable, precise_dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Draw a token by top-k and top-p. Also return whether the `count` most likely tokens were too few."""
    greatest, ids = _greatest_numbers(exponents, count)
    weights = greatest.exp().to(precise_dtype)
    ranks = torch.arange(count, device=weights.device)
    weights = weights * ((table.top_k == 0)[:, None] | (ranks < table.top_k[:, None]))
    cumulative = weights.cumsum(1)
    total_weight = exponents.exp().sum(1, dtype=precise_dtype)[:, None]
    total_mass = torch.where((table.top_k > 0)[:, None], cumulative[:, -1:], total_weight)
    target_mass = table.top_p.to(precise_dtype)[:, None] * total_mass
    has_top_p = (table.top_p < 1)[:, None]
    unresolved = has_top_p & (cumulative[:, -1:] < target_mass) & (count < exponents.shape[1])
    last = torch.where(has_top_p, torch.searchsorted(cumulative, target_mass), count)
    drawn_ranks = _draw(weights * (ranks <= last), table.uniform.to(precise_dtype))
    return ids.gather(1, drawn_ranks[:, None])[:, 0], (unresolved[:, 0] & (table.scale > 0)).float()
