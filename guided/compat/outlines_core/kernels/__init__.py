"""Bitmasks of one row, for arrays of numpy and tensors. In: a guide and a mask. Out: masked logits."""
