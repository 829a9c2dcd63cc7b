"""Attention kernels behind one call."""
