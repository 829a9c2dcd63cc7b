"""Explains why a text or a token is allowed or not, in terms of the specification."""
