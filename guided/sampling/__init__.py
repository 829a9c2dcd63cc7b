"""From logits to a token."""

from guided.sampling.params import SamplingParams

__all__ = ["SamplingParams"]
