"""Conversations in which the model calls Python functions."""
