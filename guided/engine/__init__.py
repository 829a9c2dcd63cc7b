"""The engine: a model that answers under constraints."""
