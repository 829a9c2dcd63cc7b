"""Measures guided, xgrammar and llguidance side by side in one run. See `python -m benchmarks --help`."""
