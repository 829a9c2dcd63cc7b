"""Fills bitmasks of one row from a `Guide`, and applies bitmasks to logits: numpy arrays or torch tensors."""
