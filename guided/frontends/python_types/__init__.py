"""Python types as JSON Schema, and values read back from JSON."""
