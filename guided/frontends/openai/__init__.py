"""Specifications in the form of OpenAI's interface, see response_format.py."""
