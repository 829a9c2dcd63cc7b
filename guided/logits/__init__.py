"""Applies token bitmasks to logits before sampling."""

from guided.logits.apply import apply_token_bitmask_inplace

__all__ = ["apply_token_bitmask_inplace"]
