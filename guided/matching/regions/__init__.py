"""Captures and temperatures: the marked regions of an output."""
