"""Bitmasks of one row, for numpy arrays and torch tensors. In: a guide and a mask. Out: masked logits."""
