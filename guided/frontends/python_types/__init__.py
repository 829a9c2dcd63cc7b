"""Converts Python types to JSON Schema, and reads their values back from JSON."""
