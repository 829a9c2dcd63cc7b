"""The engine: a model that answers under constraints."""

from guided.engine.engine import Engine

__all__ = ["Engine"]
