"""Writing values: spelling, numbers, containers, layout. A goal becomes a rule in `lower.py`."""
