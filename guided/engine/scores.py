"""The probabilities that a `Result` reports: what masks removed, and the log probabilities of tokens.

In: rows of logits, and the tokens after them. Out: the numbers of a `Result`. This module computes those of prompts and
of forced tokens; those of chosen tokens come with the choice (sampling/choice.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from guided.sampling.logprobs import LogprobParams, TokenLogprobs, token_logprobs
from guided.sampling.sampler import log_mass
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Scores"]


class Scores:
    """The scores of one output.

    Attributes:
        removed: for each chosen token, -log of the probability that its mask left.
        forced_log_mass: -log of the model's probability of all forced tokens, if they are scored.
    """

    def __init__(self, vocabulary: Vocabulary, wanted: LogprobParams) -> None:
        self._size, self._eos = vocabulary.size, sorted(vocabulary.eos_token_ids)
        self._logprob_params = wanted
        self.removed: list[float] = []
        self.forced_log_mass = 0.0

    def of(self, logits: Tensor, token: int, k: int | None) -> TokenLogprobs | None:
        """A token's log probabilities, if they were requested."""
        return None if k is None else token_logprobs(logits, token, k, self._size)

    @torch.inference_mode()
    def forced(
        self, logits: Tensor, tokens: Sequence[int], *, counted: Sequence[bool], ended: bool
    ) -> list[TokenLogprobs | None]:
        """Add the model's probabilities of forced tokens, and of a forced end.

        Args:
            logits: before each of the tokens, and after the last one.
            tokens: the forced tokens.
            counted: which of them count; those of a tool's result do not.
            ended: whether the output ends after them.

        Returns:
            Their log probabilities, if they were requested, else nothing.
        """
        for row, token, counts in zip(logits, tokens, counted, strict=False):
            if counts:
                self.forced_log_mass += log_mass(row) - float(row[token])
        if ended:
            self.forced_log_mass += log_mass(logits[-1]) - log_mass(logits[-1, self._eos])
        if (k := self._logprob_params.output) is None:
            return []
        certain = self._logprob_params.mode == "masked"  # a forced token has probability 1
        return [
            TokenLogprobs(token, 0.0, ((token, 0.0),)[:k]) if certain else self.of(row, token, k)
            for row, token in zip(logits, tokens, strict=False)
        ]
