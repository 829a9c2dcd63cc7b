"""The sampler: one row of logits in, one token out.

In: float logits, (vocab,), masked already (-inf is never chosen), `SamplingParams`, and the position of the token.
Out: the id. Temperature 0 is argmax; else top-k (exactly k), softmax at the temperature, top-p, and the inverse of the
cumulative distribution at a uniform number that is a hash of (seed, position). There is no generator state: the same
request gives the same tokens in whatever batch or order it runs.

Sums are taken in float64. Cost: a pass over the vocabulary; top-p alone looks at the 256 best first and at more
only while they do not hold the mass. Rows of a batch are separate calls.
"""

from __future__ import annotations

import hashlib
import struct

import torch
from torch import Tensor

from guided.errors import GuidedError
from guided.sampling.params import SamplingParams

__all__ = ["choose", "log_mass", "uniform"]

_PACK = struct.Struct("<QQ")


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1), a function of its arguments: 53 bits of BLAKE2b."""
    digest = hashlib.blake2b(_PACK.pack(seed, position), digest_size=8, person=b"guided").digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def log_mass(logits: Tensor) -> float:
    """The logarithm of the sum of exponentials: of two such numbers the difference is a log probability."""
    return float(logits.logsumexp(-1))


def choose(logits: Tensor, params: SamplingParams, position: int) -> int:
    """The token at `position` of the output.

    Raises:
        GuidedError: no token is allowed, or the logits hold NaN or +inf: never a token out of nothing.
    """
    top, best = logits.max(dim=-1)
    highest = float(top)
    if not -float("inf") < highest < float("inf"):
        raise GuidedError(_refusal(highest))
    if params.temperature == 0:
        return int(best)
    values, ids = _candidates(logits, params, highest)
    weights = ((values.double() - highest) / params.temperature).exp()
    cumulative = weights.cumsum(0)
    if params.top_p is not None and params.top_p < 1:
        below = cumulative - weights < params.top_p * _total(logits, cumulative, params, highest)
        cumulative = cumulative[: max(1, int(below.sum()))]
    index = int(torch.searchsorted(cumulative, uniform(params.seed, position) * cumulative[-1], right=True))
    return int(ids[index]) if ids is not None else index


def _refusal(highest: float) -> str:
    if highest == -float("inf"):
        return "no token is allowed here: the mask is empty (has the output already ended?)"
    return f"the model's logits are not numbers (their maximum is {highest}): the weights or the input are broken"


def _candidates(logits: Tensor, params: SamplingParams, highest: float) -> tuple[Tensor, Tensor | None]:
    """Logits that may be chosen and their ids (None: the whole row, in order); the most likely first under top-k/p."""
    size = logits.shape[0]
    limit = min(params.top_k, size) if params.top_k is not None and params.top_k > 0 else size
    if params.top_p is None or params.top_p == 1:
        return torch.topk(logits, limit) if limit < size else (logits, None)
    if limit < size:
        return torch.topk(logits, limit)
    mass = params.top_p * _mass(logits, params.temperature, highest)
    count = min(256, size)
    while True:
        values, ids = torch.topk(logits, count)
        if count == size or _mass(values, params.temperature, highest) >= mass:
            return values, ids
        count = min(16 * count, size)


def _mass(values: Tensor, temperature: float, highest: float) -> float:
    return float(((values.double() - highest) / temperature).exp().sum())


def _total(logits: Tensor, cumulative: Tensor, params: SamplingParams, highest: float) -> float:
    """The mass that top_p is a share of: that of the k most likely, or of all."""
    if params.top_k is not None and params.top_k > 0:
        return float(cumulative[-1])
    return _mass(logits, params.temperature, highest)
