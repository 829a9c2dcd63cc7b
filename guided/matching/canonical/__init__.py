"""Canonical tokenisation: masks that admit only what the tokenizer itself would write."""
