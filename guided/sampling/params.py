"""How a token is chosen: the request's numbers, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

__all__ = ["SamplingParams"]

_SEEDS = 1 << 64


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Numbers of one request. Order of application: mask, top-k, temperature, top-p.

    Attributes:
        temperature: 0 takes the most likely token (the lowest id among equals).
        top_k: only the k most likely; None or 0 or less: all.
        top_p: of those, the fewest whose probabilities (after the temperature) sum to at least this; None: all.
        seed: the choice at a position is a function of (seed, position, logits) alone, whatever else runs beside it.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature is {self.temperature!r}, it must be a finite number of at least 0")
        if self.top_k is not None and (isinstance(self.top_k, bool) or not isinstance(self.top_k, int)):
            raise ValueError(f"top_k is {self.top_k!r}, it must be an integer or None")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p!r}, it must lie in (0, 1]")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < _SEEDS:
            raise ValueError(f"seed is {self.seed!r}, it must be an integer in [0, 2**64)")

    def sample(self, index: int) -> SamplingParams:
        """The numbers of the sample `index` of the same request: the seeds are seed, seed + 1, ... modulo 2**64."""
        return replace(self, seed=(self.seed + index) % _SEEDS)
