"""The probabilities that a `Result` reports: what masks removed, and the log probabilities of tokens.

In: rows of logits, and the tokens that came. Out: the numbers of a `Result`. Those of tokens that were chosen come with
the choice (sampling/choice.py); here are those of a prompt and of forced tokens.
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
    """Of one output.

    Attributes:
        removed: for each token that was chosen, -log of the probability that its mask left.
        forced_log_mass: -log of the model's probability of all forced tokens, if they are scored.
    """

    def __init__(self, vocabulary: Vocabulary, wanted: LogprobParams) -> None:
        self._size, self._eos = vocabulary.size, sorted(vocabulary.eos_token_ids)
        self._wanted = wanted
        self.removed: list[float] = []
        self.forced_log_mass = 0.0

    def of(self, logits: Tensor, token: int, k: int | None) -> TokenLogprobs | None:
        """A token's log probabilities, if they are asked for."""
        return None if k is None else token_logprobs(logits, token, k, self._size)

    @torch.inference_mode()
    def forced(
        self, logits: Tensor, tokens: Sequence[int], *, counted: Sequence[bool], ended: bool
    ) -> list[TokenLogprobs | None]:
        """Count what the model would have given for tokens that the grammar did not leave to it, and for an end.

        Args:
            logits: before each of the tokens, and after the last one.
            tokens: forced ones.
            counted: which of them count; those of a tool's result do not.
            ended: an end came after them.

        Returns:
            Their log probabilities, if they are asked for, else nothing.
        """
        for row, token, counts in zip(logits, tokens, counted, strict=False):
            if counts:
                self.forced_log_mass += log_mass(row) - float(row[token])
        if ended:
            self.forced_log_mass += log_mass(logits[-1]) - log_mass(logits[-1, self._eos])
        if (k := self._wanted.output) is None:
            return []
        certain = self._wanted.mode == "masked"  # nothing else could come
        return [
            TokenLogprobs(token, 0.0, ((token, 0.0),)[:k]) if certain else self.of(row, token, k)
            for row, token in zip(logits, tokens, strict=False)
        ]
