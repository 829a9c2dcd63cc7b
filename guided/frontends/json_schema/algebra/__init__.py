"""Understanding schemas: the sets of values that they mean, their conjunctions, complements, conditions and counts."""
