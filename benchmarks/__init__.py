"""Side-by-side measurements: guided, xgrammar and llguidance in one run. `python -m benchmarks --help`."""
