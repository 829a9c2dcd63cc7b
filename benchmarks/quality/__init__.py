"""The quality of constrained answers: tasks whose right answers are known, and functions that score answers."""
