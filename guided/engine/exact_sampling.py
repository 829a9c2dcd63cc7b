"""Samples outputs from the model's distribution, conditioned on the specification.

Problem. A masked step chooses among the allowed tokens without regard to what follows. So outputs with a likely
beginning and an unlikely rest are sampled too often, and the distribution of outputs may have almost nothing in common
with the model's own (Park et al., 2024, arXiv 2405.21047).

In: a matcher, a budget, and logits, which an `ExactSequence` requests like any `Sequence`. Out: an output, sampled with
probability p(output) / Z. p is the model's probability, including the end token. Z is the sum of p over all outputs
that fit the specification and the budget.

How: rejection sampling on a tree of prefixes. For each prefix, the tree stores an upper bound on the probability that
the model completes it to an allowed output: 1 before the model has read it, then the sum over the allowed tokens t of
p(t) times the bound after t. A trial walks down from the root, and takes t with probability p(t) * bound(t) / bound.
When the model reads a new prefix, the prefix's bound falls from 1 to b. The trial continues with probability b;
otherwise it is rejected, and the next one begins at the root with the new bounds. So no trial is rejected twice for the
same reason. As in masked sampling, forced text is always tokenized as `forced_tokens` returns it; other tokenizations
are never sampled.

Why it is exact: along an accepted output, the probabilities of its choices and of not being rejected multiply to
p(output) / bound(root). The bound of the root does not depend on the output.

Source: constrained adaptive rejection sampling (CARS, arXiv 2510.01902).
Cost: one forward pass for each new prefix, with the forced tokens after it; 12 bytes or more for each of its allowed
tokens. If more than 4,096 tokens are allowed, those less than 1e-11 times as likely as the most likely one are dropped.
Not supported: output without a constraint, parameters that change the model's distribution (except the temperature),
tools, `reasoning_end`, drafts, `score_forced` and log probabilities.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from math import exp, inf, log
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.engine.masks import Masks
from guided.engine.result import Result
from guided.engine.sequence import Sequence
from guided.engine.staged_output import forward_to
from guided.engine.step_requests import LogitRows, Steps
from guided.errors import GuidedError, LimitExceeded, OptionError, brief
from guided.matching.bitmask import bits_of
from guided.sampling.choice import ChosenToken
from guided.sampling.params import SamplingParams
from guided.sampling.sampler import refusal, uniform

__all__ = ["ExactSequence", "Sampling", "check_sampling"]

Sampling: TypeAlias = Literal["masked", "exact"]
# If more tokens than this are allowed, those that are much less likely than the most likely one are dropped.
_MIN_KEPT_TOKENS: Final = 4096
_LOG_NEGLIGIBLE_RATIO: Final = log(1e-11)
# A lower temperature chooses the same outputs: models cannot resolve smaller differences of logits. The scaled log
# probabilities of long outputs must fit into float32.
_MIN_TEMPERATURE: Final = 1e-25
Floats: TypeAlias = npt.NDArray[np.float32]


@dataclass(slots=True)
class _Prefix:
    """A prefix that the model has read. The arrays have one item for each of its n allowed tokens.

    Attributes:
        tokens: int32 (n,).
        logprobs: float32 (n,): the log probabilities at temperature 1.
        scaled_logprobs: float32 (n,): the log probabilities at the request's temperature.
        log_masses: float32 (n,): `scaled_logprobs` plus the log bound after each token, which is 0 until the model has
            read it.
        log_bound: log of an upper bound on the probability that the model completes the prefix to an allowed output.
        removed_log_mass: -log of the total probability of the allowed tokens, at temperature 1.
        preferred: the most likely token if it is not allowed, otherwise None.
        children: the child prefixes that the model has read, by the index of the token that leads to them.
    """

    tokens: npt.NDArray[np.int32]
    logprobs: Floats
    scaled_logprobs: Floats
    log_masses: Floats
    log_bound: float
    removed_log_mass: float
    preferred: int | None
    children: dict[int, _Prefix] = field(default_factory=dict)

    @property
    def is_choice(self) -> bool:
        """Whether several tokens are allowed."""
        return len(self.tokens) > 1

    def choose(self, u: float) -> int:
        """Choose a token, and return its index. `u`: a uniform variate in [0, 1)."""
        sums = np.exp(self.log_masses.astype(np.float64) - self.log_masses.max()).cumsum()
        return int(np.searchsorted(sums, u * sums[-1], side="right").clip(max=len(sums) - 1))

    def reduce_bound(self, index: int, log_bound: float) -> None:
        """Lower the bound of the child at `index`, and with it the bound of this prefix."""
        if self.log_masses is self.scaled_logprobs:
            self.log_masses = self.scaled_logprobs.copy()
        self.log_masses[index] = self.scaled_logprobs[index] + log_bound
        self.log_bound = _logsumexp(self.log_masses)


def _logsumexp(logs: Floats) -> float:
    """The logsumexp of `logs`, clamped to at most 0."""
    largest = float(logs.max())
    return -inf if largest == -inf else min(0.0, largest + log(float(np.exp(logs.astype(np.float64) - largest).sum())))


class ExactSequence(Sequence):
    """One output, sampled exactly.

    `max_passes`: the maximum number of forward passes. See `Sequence` for the other parameters.
    """

    def __init__(self, *args: Any, max_passes: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self.can_run_ahead = False
        self._max_passes, self._pass_count = max_passes, 0
        self._root: _Prefix | None = None
        self._cached_tokens: list[int] = []  # the tokens whose keys and values are in the cache
        self._draws = count()

    def steps(self) -> Steps:
        """Run trials until one is accepted.

        Raises:
            LimitExceeded: there were too many forward passes. GuidedError: the model assigns zero probability to
                every allowed output, or the largest logit is not finite.
        """
        assert self.masks is not None
        while (path := (yield from self._run_trial(self.masks))) is None:
            pass
        for prefix, index in path:
            token = int(prefix.tokens[index])
            if prefix.is_choice:
                logprob = float(prefix.logprobs[index])
                self.scores.add(ChosenToken(token, prefix.removed_log_mass, None, None, logprob, prefix.preferred), 0.0)
            if token not in self.ends:
                self.transcript.append([token], sampled=prefix.is_choice)
                yield self.event()
        self.finish_reason = "stop"
        yield from self.end()

    def _run_trial(self, masks: Masks) -> Generator[Any, Any, list[tuple[_Prefix, int]] | None]:
        """Run a trial. Return the prefixes of the accepted output, each with the index of its next token.

        Afterwards the matcher is at the end of this output. If the trial is rejected, return None, with the matcher
        back at its initial state.
        """
        path, tokens, prefix = list[tuple[_Prefix, int]](), list[int](), self._root
        while True:
            if prefix is None:
                prefix = yield from self._read_prefix(masks, tokens)
                is_accepted = self._draw() < exp(prefix.log_bound)
                self._add_to_tree(path, prefix)
                if not is_accepted:
                    masks.matcher.rollback(len(tokens))
                    return None
            index = prefix.choose(self._draw())
            path.append((prefix, index))
            token = int(prefix.tokens[index])
            if token in self.ends:
                return path
            if not masks.matcher.accept_token(token):
                raise GuidedError(f"the matcher rejects token {token}, although the mask allowed it")
            tokens.append(token)
            prefix = prefix.children.get(index)

    def _add_to_tree(self, path: list[tuple[_Prefix, int]], prefix: _Prefix) -> None:
        """Add a new prefix to the tree, and lower the bounds of its ancestors."""
        if path:
            path[-1][0].children[path[-1][1]] = prefix
        else:
            self._root = prefix
        for parent, index in reversed(path):
            parent.reduce_bound(index, prefix.log_bound)
            prefix = parent
        if prefix.log_bound == -inf:
            raise GuidedError("the model assigns zero probability to every output that the specification allows")

    def _read_prefix(self, masks: Masks, tokens: list[int]) -> Generator[Any, Any, _Prefix]:
        """Let the model read tokens and the forced tokens after them.

        Return the prefix that ends with `tokens`; the prefixes for the forced tokens are linked below it.
        """
        if self._pass_count >= self._max_passes:
            hint = "raise max_passes, or sample with the masks alone: sampling='masked'"
            raise LimitExceeded("max_passes", self._pass_count + 1, self._max_passes, hint=hint)
        self._pass_count += 1
        forced_tokens, temperatures = list[int](), [self.current_params().temperature]
        for token in masks.matcher.forced_tokens():
            masks.invalidate()
            masks.fill(self.budget(len(tokens) + len(forced_tokens)), measure_time=False)
            if token in self.ends or not masks.allows(token) or not masks.matcher.accept_token(token):
                break
            forced_tokens.append(token)
            temperatures.append(self.current_params().temperature)
        masks.invalidate()
        masks.fill(self.budget(len(tokens) + len(forced_tokens)))
        bits = masks.row().allowed
        assert bits is not None
        allowed_by_prefix = [np.array([token]) for token in forced_tokens]
        allowed_by_prefix.append(bits_of(bits)[: self.vocabulary.size].nonzero()[0])
        masks.matcher.rollback(len(forced_tokens))
        ids = [*self.prompt, *tokens, *forced_tokens]
        logits = yield forward_to(ids, len(forced_tokens) + 1, self._cached_tokens)
        assert isinstance(logits, LogitRows)
        self._cached_tokens, self.prompt_is_read = ids, True
        rows = logits.tensor[:, : self.vocabulary.size]
        prefixes = [_make_prefix(*row) for row in zip(rows, allowed_by_prefix, temperatures, strict=True)]
        for parent, child in zip(prefixes[-2::-1], prefixes[:0:-1], strict=True):
            parent.children[0] = child
            parent.reduce_bound(0, child.log_bound)
        return prefixes[0]

    def result(self) -> Result:
        """The result of the finished output."""
        return replace(super().result(), is_exact=True)

    def _draw(self) -> float:
        return uniform(self.params.seed, next(self._draws))


@torch.inference_mode()
def _make_prefix(logits: Tensor, allowed: npt.NDArray[np.int64], temperature: float) -> _Prefix:
    """Make a prefix from the logits after it (size,), and the ids of its allowed tokens."""
    logits = logits.double().cpu()
    best = int(logits.argmax())
    if not abs(float(logits[best])) < inf:
        raise refusal(float(logits[best]))
    logprobs = torch.log_softmax(logits, 0).numpy()[allowed]
    if temperature == 0:
        scaled_logprobs = np.where(allowed == best, 0.0, -inf)
    else:
        temperature = max(temperature, _MIN_TEMPERATURE)
        scaled_logprobs = logprobs if temperature == 1 else torch.log_softmax(logits / temperature, 0).numpy()[allowed]
    is_kept = scaled_logprobs >= scaled_logprobs.max() + _LOG_NEGLIGIBLE_RATIO
    is_kept[np.argpartition(-scaled_logprobs, min(_MIN_KEPT_TOKENS, len(allowed)) - 1)[:_MIN_KEPT_TOKENS]] = True
    tokens, logprobs, scaled_logprobs = (
        allowed[is_kept].astype(np.int32),
        logprobs[is_kept],
        scaled_logprobs[is_kept].astype(np.float32),
    )
    removed_log_mass = max(0.0, -_logsumexp(logprobs.astype(np.float32)))
    preferred = None if best in allowed else best
    return _Prefix(
        tokens,
        logprobs.astype(np.float32),
        scaled_logprobs,
        scaled_logprobs,
        _logsumexp(scaled_logprobs),
        removed_log_mass,
        preferred,
    )


def check_sampling(sampling: object, params: SamplingParams, max_passes: object, features: Mapping[str, bool]) -> None:
    """Check the options of a request for `sampling`.

    Args:
        sampling, params, max_passes: see `Options`.
        features: the names of features that exact sampling does not support -> whether the request uses them.

    Raises:
        OptionError: an option is invalid, or cannot be combined with `sampling="exact"`.
    """
    if sampling not in ("masked", "exact"):
        raise OptionError(f'sampling is {brief(sampling)}, but must be "masked" or "exact"', option="sampling")
    if not isinstance(max_passes, int) or isinstance(max_passes, bool) or max_passes < 1:
        raise OptionError(f"max_passes is {brief(max_passes)}, but must be a positive integer", option="max_passes")
    if sampling == "masked":
        return
    if params.temperature == 0:
        raise OptionError('sampling="exact" needs a temperature above 0', option="temperature")
    changes_distribution = not params.keeps_logits or any(
        value is not None for value in (params.top_k, params.top_p, params.min_p)
    )
    for name, is_used in {**features, "parameters that change the model's distribution": changes_distribution}.items():
        if is_used:
            raise OptionError(f'sampling="exact" cannot be combined with {name}', option="sampling")
