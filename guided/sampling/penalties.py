"""The bias, bans and penalties of one output.

In: the parameters of a request, and the output so far. Out: `Changes` to the logits of the next token. `apply_changes`
applies them to masked logits in torch; the kernel has its own version (guided/kernels/choose.py). Additions and
multiplications leave -inf unchanged, so no change allows a token that the mask forbids.

Cost: O(1) per token of the output, and a comparison for each bad word; with drafts, also a copy of the output and its
counts. Only the logits of tokens in the request, the prompt or the output change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.errors import OptionError
from guided.matching.bitmask import bits_of, row_of
from guided.sampling.choice import Changes, all_banned_error
from guided.sampling.params import SamplingParams
from guided.sampling.sampler import argmax

__all__ = ["Penalties", "apply_changes"]

_FORBIDDEN = -float("inf")


class Penalties:
    """The bias, bans and penalties of one output.

    Args:
        params: the request's parameters.
        prompt: the ids before the output.
        ends: the ids that would end the output.
        size: the size of the vocabulary.

    Raises:
        OptionError: an id of `params` is not below `size`.
    """

    def __init__(self, params: SamplingParams, prompt: Iterable[int], ends: Collection[int], size: int) -> None:
        for name, ids in params.ids().items():
            if invalid_ids := [id for id in ids if id >= size]:
                raise OptionError(f"{name} contains token {min(invalid_ids)}, but there are {size} tokens", option=name)
        self.params, self.end_ids = params, list(dict.fromkeys(ends))
        self.allowed = None if params.allowed_token_ids is None else frozenset(params.allowed_token_ids)
        self.bad_words = defaultdict[int, list[tuple[int, ...]]](list)
        for word in params.bad_words:
            self.bad_words[word[-1]].append(tuple(word[:-1]))
        ids = sorted(self.allowed or ())
        self._permitted = None if self.allowed is None else self._compute_once("permitted", lambda: row_of(size, ids))
        biases = params.logit_bias
        self._biased = self._compute_once("biased", lambda: np.array(list(biases), np.int32))
        self._bias = self._compute_once("bias", lambda: np.array(list(biases.values()), np.float32))
        self._token_counts = _TokenCounts(prompt if params.repetition_penalty != 1 else ())
        penalties = params.repetition_penalty, params.presence_penalty, params.frequency_penalty
        self._has_penalties = penalties != (1, 0, 0)

    def forbids(self, token: int, output: Sequence[int]) -> bool:
        """Whether allowed_token_ids or bad_words forbid `token` after `output`."""
        if self.allowed is not None and token not in self.allowed:
            return True
        return any(_ends_with(output, word_start) for word_start in self.bad_words.get(token, ()))

    def changes(self, output: Sequence[int], drafts: Sequence[int] = ()) -> Changes:
        """The changes for the token after `output` and `drafts`. Since the last call, `output` must only have grown."""
        output_and_drafts, params = [*output, *drafts] if drafts else output, self.params
        if self._has_penalties:
            self._token_counts.extend(output)
        seen, counts = self._token_counts.ids_and_counts(drafts if self._has_penalties else ())
        return Changes(
            permitted=self._permitted,
            banned=[
                id
                for id in self.bad_words
                if any(_ends_with(output_and_drafts, word_start) for word_start in self.bad_words[id])
            ],
            ends=self.end_ids if len(output_and_drafts) < params.min_tokens else [],
            biased=self._biased,
            bias=self._bias,
            seen=seen,
            counts=counts,
            repetition=params.repetition_penalty,
            presence=params.presence_penalty,
            frequency=params.frequency_penalty,
        )

    def _compute_once(self, name: str, make: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """An array from the request's parameters, which is computed once for all samples."""
        shared_arrays = self.params.shared
        if name not in shared_arrays:
            shared_arrays[name] = make()
        array: npt.NDArray[Any] = shared_arrays[name]
        return array


class _TokenCounts:
    """The tokens of a prompt and of a growing output, and how often each occurs in the output."""

    def __init__(self, prompt: Iterable[int]) -> None:
        ids = list(dict.fromkeys(prompt))
        self._index_by_id = {id: index for index, id in enumerate(ids)}
        self._ids, self._counts = np.array(ids, np.int32), np.zeros(len(ids), np.float32)
        self._counted_length = 0  # the number of output tokens that have been counted

    def extend(self, output: Sequence[int]) -> None:
        """Count the new tokens of the output."""
        for id in output[self._counted_length :]:
            self._count(id)
        self._counted_length = len(output)

    def ids_and_counts(self, drafts: Sequence[int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """The ids and their counts, including the drafts."""
        size = len(self._index_by_id)
        if not drafts:
            return self._ids[:size], self._counts[:size]
        counts_with_drafts = _TokenCounts(())
        counts_with_drafts._index_by_id, counts_with_drafts._ids, counts_with_drafts._counts = (
            dict(self._index_by_id),
            self._ids.copy(),
            self._counts.copy(),
        )
        counts_with_drafts.extend(drafts)
        return counts_with_drafts.ids_and_counts(())

    def _count(self, id: int) -> None:
        index = self._index_by_id.setdefault(id, len(self._index_by_id))
        if index == len(self._ids):
            new_space = np.zeros(max(16, index), np.int32)
            self._ids = np.concatenate((self._ids, new_space))
            self._counts = np.concatenate((self._counts, new_space.astype(np.float32)))
        self._ids[index] = id
        self._counts[index] += 1


def apply_changes(changes: Changes, logits: Tensor, position: int) -> None:
    """Change masked logits, float32 (size,), in place, for the token at `position` of the output.

    Raises:
        GuidedError: the changes forbid every token that the mask allows.
    """
    if _allows_nothing(logits):
        return  # the sampler raises the error
    _forbid(changes, logits, position)
    if len(changes.biased):
        logits[_to_tensor(changes.biased, logits).long()] += _to_tensor(changes.bias, logits)
    if len(changes.seen):
        ids, counts = _to_tensor(changes.seen, logits).long(), _to_tensor(changes.counts, logits)
        values = logits[ids]
        values = torch.where(values > 0, values / changes.repetition, values * changes.repetition)
        logits[ids] = values - (changes.frequency * counts + changes.presence * (counts > 0))


def _forbid(changes: Changes, logits: Tensor, position: int) -> None:
    if changes.permitted is not None:
        forbidden = bits_of(changes.permitted)[: len(logits)] == 0
        logits[_to_tensor(forbidden, logits)] = _FORBIDDEN
    if changes.banned:
        logits[changes.banned] = _FORBIDDEN
    if (changes.permitted is not None or changes.banned) and _allows_nothing(logits):
        raise all_banned_error(position)
    if changes.ends:
        end_logits = logits[changes.ends]
        logits[changes.ends] = _FORBIDDEN
        if _allows_nothing(logits):
            logits[changes.ends] = end_logits


def _allows_nothing(logits: Tensor) -> bool:
    return float(logits[argmax(logits)]) == _FORBIDDEN


def _to_tensor(values: npt.NDArray[Any], logits: Tensor) -> Tensor:
    return torch.from_numpy(values).to(logits.device)


def _ends_with(output: Sequence[int], word_start: Sequence[int]) -> bool:
    return len(word_start) <= len(output) and tuple(output[len(output) - len(word_start) :]) == word_start
