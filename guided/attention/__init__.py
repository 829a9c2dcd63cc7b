"""Attention over caches: choosing the kernel and calling it."""
