"""The probabilities that a `Result` reports: the mass that masks removed, and the log probabilities of tokens.

In: rows of logits, and the tokens after them. Out: the figures in a `Result`. This module computes them for prompts and
forced tokens; for chosen tokens they are part of the choice (sampling/choice.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from guided.engine.fields import ChoiceRecord
from guided.engine.result import BudgetBound
from guided.engine.step_requests import Forward, LogitRows, Steps
from guided.matching.matcher import GrammarMatcher
from guided.sampling.choice import ChosenToken, RunTokens
from guided.sampling.logprobs import LogprobParams, TokenLogprobs, token_logprobs
from guided.sampling.sampler import log_mass
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Scores"]

_PROMPT_CHUNK: Final = 128  # positions whose logits are in memory at once while a prompt is scored


class Scores:
    """The scores of one output.

    Attributes:
        removed_log_masses: for each chosen token, -log of the probability of all tokens that its mask allowed.
        logprobs, preferred, budget_masses: for each chosen token, see `ChosenToken`.
        budget_bound: the effect of the budget alone.
        forced_log_mass: -log of the model's probability of all forced tokens together, if they are scored.
    """

    def __init__(self, vocabulary: Vocabulary, logprob_params: LogprobParams) -> None:
        self._vocabulary, self._vocabulary_size, self._eos = (
            vocabulary,
            vocabulary.size,
            sorted(vocabulary.eos_token_ids),
        )
        self._logprob_params = logprob_params
        self.removed_log_masses: list[float] = []
        self.logprobs: list[float] = []
        self.preferred: list[int | None] = []
        self.budget_masses: list[float | None] = []
        self.budget_bound = BudgetBound()
        self.forced_log_mass = 0.0

    def copy_choices(self, earlier: Scores, count: int) -> None:
        """Copy the scores of the first `count` choices of another sequence."""
        self.removed_log_masses += earlier.removed_log_masses[:count]
        self.logprobs += earlier.logprobs[:count]
        self.preferred += earlier.preferred[:count]
        for mass in earlier.budget_masses[:count]:
            self._add_budget_mass(mass)

    def _add_budget_mass(self, budget_mass: float | None) -> None:
        self.budget_masses.append(budget_mass)
        if budget_mass is not None:
            self.budget_bound = self.budget_bound.with_step(budget_mass)

    def add(self, choice: ChosenToken, penalty: float) -> None:
        """Record a choice. `penalty`: the amount that the budget ramp subtracted from the token's logit."""
        self._add_budget_mass(choice.budget_mass)
        self.removed_log_masses.append(choice.removed - penalty)
        self.logprobs.append(choice.logprob)
        self.preferred.append(choice.preferred)

    def add_run(self, run: RunTokens) -> None:
        """Record the choices of a run, which a budget does not affect."""
        self.budget_masses += [None] * len(run.tokens)
        self.removed_log_masses += run.removed
        self.logprobs += run.logprobs
        self.preferred += run.preferred

    def record(self, starts: Sequence[int], regions: GrammarMatcher | None) -> ChoiceRecord:
        """The recorded choices. `starts`: the offset at which the text of each token begins; `regions`: the matcher
        with the captures, if any.
        """
        captures = None if regions is None else regions.captures_with_offsets()
        return ChoiceRecord(self._vocabulary, starts, self.logprobs, self.preferred, captures)

    def logprobs_of(self, logits: Tensor, token: int, k: int | None) -> TokenLogprobs | None:
        """The log probabilities of a token and of the k most likely tokens; None if k is None."""
        return None if k is None else token_logprobs(logits, token, k, self._vocabulary_size)

    def score_prompt(self, tokens: list[int], out: list[TokenLogprobs | None]) -> Steps:
        """Read the prompt without its last token, and append the log probabilities of each next token to `out`."""
        for start in range(0, len(tokens) - 1, _PROMPT_CHUNK):
            chunk = tokens[start : min(start + _PROMPT_CHUNK, len(tokens) - 1)]
            logits = yield Forward(chunk, len(chunk))
            assert isinstance(logits, LogitRows)
            next_tokens, k = tokens[start + 1 : start + 1 + len(chunk)], self._logprob_params.prompt
            out += [self.logprobs_of(row, token, k) for row, token in zip(logits.tensor, next_tokens, strict=True)]

    @torch.inference_mode()
    def score_forced_tokens(
        self, logits: Tensor, tokens: Sequence[int], *, is_counted: Sequence[bool], is_ended: bool
    ) -> list[TokenLogprobs | None]:
        """Add the model's probabilities of forced tokens, and of a forced end token, to `forced_log_mass`.

        Args:
            logits: the logits before each of the tokens, and after the last one.
            tokens: the forced tokens.
            is_counted: for each token, whether it counts. The tokens of a tool's result do not.
            is_ended: whether the output ends after these tokens.

        Returns:
            The log probabilities of the tokens if they were requested, otherwise an empty list.
        """
        for row, token, is_token_counted in zip(logits, tokens, is_counted, strict=False):
            if is_token_counted:
                self.forced_log_mass += log_mass(row) - float(row[token])
        if is_ended:
            self.forced_log_mass += log_mass(logits[-1]) - log_mass(logits[-1, self._eos])
        if (k := self._logprob_params.output) is None:
            return []
        is_certain = self._logprob_params.mode == "masked"  # a forced token has probability 1
        return [
            TokenLogprobs(token, 0.0, ((token, 0.0),)[:k]) if is_certain else self.logprobs_of(row, token, k)
            for row, token in zip(logits, tokens, strict=False)
        ]
