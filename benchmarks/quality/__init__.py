"""Quality of constrained answers: tasks whose right answers are known, and how answers are scored."""
