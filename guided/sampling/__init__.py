"""Chooses tokens from logits."""

from guided.sampling.params import SamplingParams

__all__ = ["SamplingParams"]
