"""Specifications as OpenAI's interface has them, see response_format.py."""
