"""Loads models from files: configs, named tensors, adapter configs, and the choice of the architecture."""
