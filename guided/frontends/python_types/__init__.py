"""Python types as JSON Schema, and the values that are read back."""
