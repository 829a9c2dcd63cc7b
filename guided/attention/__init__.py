"""Attention over caches: the choice of the kernel, and its call."""
