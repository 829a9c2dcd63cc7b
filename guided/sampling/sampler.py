"""The sampler: one row of logits in, one token out.

In: float32 logits, (vocab,), after mask and penalties (-inf is never chosen; see penalties.py), `SamplingParams`,
and the position of the token. Out: the id. Temperature 0 means argmax. Otherwise the steps are top-k (exactly k),
softmax at the temperature, min-p (which commutes with top-k, since both keep the most likely tokens), top-p, and the
inverse of the cumulative distribution at a uniform number that is a hash of (seed, position). There is no generator
state, so the same request gets the same tokens in any batch and order.

Sums are computed in float64. Cost: one pass over the vocabulary. Top-p without top-k examines the 256 most likely
tokens first, and more tokens only if these have too little probability. Each row of a batch is a separate call.
"""

from __future__ import annotations

import hashlib
import math
import struct

import torch
from torch import Tensor

from guided.errors import GuidedError
from guided.sampling.params import SamplingParams

__all__ = [
    "MAX_TEMPERATURE",
    "MIN_TEMPERATURE",
    "argmax",
    "choose",
    "inverse_temperature",
    "log_mass",
    "refusal",
    "uniform",
]

_PACK = struct.Struct("<QQ")
MIN_TEMPERATURE = torch.finfo(torch.float32).tiny  # a lower temperature could round to 0
MAX_TEMPERATURE = torch.finfo(torch.float32).max  # a higher temperature could round to infinity


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends only on the arguments: 53 bits of BLAKE2b."""
    digest = hashlib.blake2b(_PACK.pack(seed, position), digest_size=8, person=b"guided").digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def inverse_temperature(temperature: float) -> float:
    """1 / temperature, with the temperature limited to its range; 0 for 0, which chooses the greatest logit."""
    if not temperature:
        return 0.0
    return max(MIN_TEMPERATURE, 1 / min(max(temperature, MIN_TEMPERATURE), MAX_TEMPERATURE))


def log_mass(logits: Tensor) -> float:
    """The logarithm of the sum of exponentials (logsumexp). A logit minus this number is a log probability.

    On a CPU, this uses softmax, since `logsumexp` and `exp` take ten times as long if many values are -inf. On other
    devices, it uses `logsumexp`, so that the host waits for one number, not three.
    """
    if logits.device.type != "cpu":
        return float(logits.logsumexp(-1))
    best = argmax(logits)
    return float(logits[best]) - math.log(float(torch.softmax(logits, -1)[best]))


def choose(logits: Tensor, params: SamplingParams, position: int) -> int:
    """Choose the token at `position` of the output.

    Raises:
        GuidedError: no token is allowed, or the logits contain NaN or +inf.
    """
    best = argmax(logits)
    highest = float(logits[best])
    if not math.isfinite(highest):
        raise refusal(highest)
    if params.temperature == 0:
        return best
    size, k = logits.shape[0], params.top_k
    values, ids = torch.topk(logits, k) if k is not None and 0 < k < size else (logits, None)
    weights = torch.softmax((values - highest) / min(max(params.temperature, MIN_TEMPERATURE), MAX_TEMPERATURE), 0)
    if params.min_p:
        weights = torch.where(weights >= params.min_p * weights.max(), weights, 0)
    if params.top_p is not None and params.top_p < 1:
        weights, order = _nucleus(weights, params.top_p)
        ids = order if ids is None else ids[order]
    cumulative = weights.cumsum(0, dtype=torch.float64)
    index = int(torch.searchsorted(cumulative, uniform(params.seed, position) * cumulative[-1], right=True))
    return int(ids[index]) if ids is not None else index


def argmax(logits: Tensor) -> int:
    """The index of the first maximum. NaN counts as the maximum. On a CPU, numpy is 20 times as fast as torch."""
    return int(logits.numpy().argmax()) if logits.device.type == "cpu" else int(logits.argmax())


def refusal(highest: float) -> GuidedError:
    """The error for logits from which no token can be chosen. `highest`: their maximum."""
    if highest == -math.inf:
        return GuidedError("no token is allowed here: the mask is empty (has the output already ended?)")
    return GuidedError(
        f"the model's logits are not finite (their maximum is {highest}): the weights or the input are corrupt"
    )


def _nucleus(weights: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The fewest weights whose sum is at least `share` of the total, in descending order, and their indices."""
    size, needed_weight = weights.shape[0], share * weights.sum(dtype=torch.float64)
    count = min(256, size)
    while True:
        greatest, order = torch.topk(weights, count)
        cumulative = greatest.cumsum(0, dtype=torch.float64)
        if count == size or cumulative[-1] >= needed_weight:
            count = int(torch.searchsorted(cumulative, needed_weight)) + 1
            return greatest[:count], order[:count]
        count = min(16 * count, size)
