"""Bias, bans and penalties of one output, applied to masked logits before the temperature.

In: masked logits, float32 (vocab,), and the output so far. Out: the same logits, changed in place. -inf stays
-inf, whatever is added to it or multiplied with it, so nothing here allows what the mask forbids.

Cost: only logits of tokens that the request names or that were written are changed; `allowed_token_ids` alone changes
the complete row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

import torch
from torch import Tensor

from guided.errors import GuidedError, OptionError
from guided.sampling.params import SamplingParams
from guided.sampling.sampler import argmax

__all__ = ["Penalties"]

_NOTHING = -float("inf")


class Penalties:
    """The bias, bans and penalties of one output.

    Args:
        params: the numbers.
        prompt: ids before the output.
        ends: ids that would end it.
        size: of the vocabulary.

    Raises:
        OptionError: an id of `params` is not below `size`.
    """

    def __init__(self, params: SamplingParams, prompt: Iterable[int], ends: Collection[int], size: int) -> None:
        for name, ids in params.ids().items():
            if wrong := [id for id in ids if id >= size]:
                raise OptionError(f"token {min(wrong)} is named by {name}; there are {size} tokens", option=name)
        self.params, self.ends = params, list(ends)
        self.allowed = None if params.allowed_token_ids is None else frozenset(params.allowed_token_ids)
        self.bad_words = defaultdict[int, list[tuple[int, ...]]](list)
        for word in params.bad_words:
            self.bad_words[word[-1]].append(tuple(word[:-1]))
        self.prompt = frozenset(prompt) if params.repetition_penalty != 1 else frozenset[int]()
        self.counts = Counter[int]()  # of the first `counted` tokens of the output
        self.counted = 0

    def forbids(self, token: int, output: Sequence[int]) -> bool:
        """Whether `token` must not follow `output`, by allowed_token_ids and bad_words."""
        if self.allowed is not None and token not in self.allowed:
            return True
        return any(_ends_with(output, before) for before in self.bad_words.get(token, ()))

    def apply(self, logits: Tensor, output: Sequence[int]) -> None:
        """Change the logits of the token after `output`, which has only grown since the last call.

        Raises:
            GuidedError: something was allowed before, and nothing is any more.
        """
        if _is_empty(logits):
            return  # whoever chooses says what that means
        self._forbid(logits, output)
        if self.params.logit_bias:
            biased, bias = self._once("logit_bias", logits), self._once("bias", logits)
            logits[biased] += bias.to(logits.dtype)
        self._penalise(logits, output)

    def _once(self, name: str, logits: Tensor) -> Tensor:
        """A tensor of the request's numbers, made once for all of its samples and steps."""
        shared, key = self.params.shared, (name, logits.device)
        if key not in shared:
            biases = self.params.logit_bias
            made = {"allowed": lambda: sorted(self.allowed or ()), "logit_bias": lambda: biases, "bias": biases.values}
            shared[key] = _tensor(made[name](), logits, torch.float32 if name == "bias" else torch.int64)
        found: Tensor = shared[key]
        return found

    def _forbid(self, logits: Tensor, output: Sequence[int]) -> None:
        if self.allowed is not None:
            ids = self._once("allowed", logits)
            kept = logits[ids]
            logits.fill_(_NOTHING)
            logits[ids] = kept
        banned = [id for id in self.bad_words if any(_ends_with(output, before) for before in self.bad_words[id])]
        if banned:
            logits[_tensor(banned, logits)] = _NOTHING
        if (self.allowed is not None or banned) and _is_empty(logits):
            raise GuidedError(
                "allowed_token_ids and bad_words forbid each token that could come here"
                f" (after {len(output)} tokens of output)"
            )
        if len(output) < self.params.min_tokens and self.ends:
            ids = _tensor(self.ends, logits)
            kept = logits[ids]
            logits[ids] = _NOTHING
            if _is_empty(logits):
                logits[ids] = kept

    def _penalise(self, logits: Tensor, output: Sequence[int]) -> None:
        params = self.params
        if params.repetition_penalty == 1 and params.presence_penalty == params.frequency_penalty == 0:
            return
        self.counts.update(output[self.counted :])
        self.counted = len(output)
        if params.repetition_penalty != 1 and (seen := self.prompt.union(self.counts)):
            ids = _tensor(seen, logits)
            values = logits[ids]
            penalty = params.repetition_penalty
            logits[ids] = torch.where(values > 0, values / penalty, values * penalty)
        if self.counts and (params.presence_penalty or params.frequency_penalty):
            ids = _tensor(self.counts, logits)
            counts = _tensor(self.counts.values(), logits, logits.dtype)
            logits[ids] -= params.frequency_penalty * counts + params.presence_penalty


def _is_empty(logits: Tensor) -> bool:
    return float(logits[argmax(logits)]) == _NOTHING


def _tensor(values: Collection[float], logits: Tensor, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.tensor(list(values), dtype=dtype, device=logits.device)


def _ends_with(output: Sequence[int], before: Sequence[int]) -> bool:
    return len(before) <= len(output) and tuple(output[len(output) - len(before) :]) == before
