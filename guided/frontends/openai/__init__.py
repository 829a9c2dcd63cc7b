"""Converts specifications to OpenAI's `response_format` and back; see response_format.py."""
