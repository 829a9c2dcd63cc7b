"""Writing values: spelling, numbers, containers, layout. `lower.py` turns goals into rules."""
