"""Captures and temperatures: what the marked regions of an output are."""
