"""Schemas as sets of values: shapes, their conjunction and negation, conditions, obligations, counts."""
