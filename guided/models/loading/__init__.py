"""Loads models from files: reads configs, tensors and adapter configs, and chooses the architecture."""
