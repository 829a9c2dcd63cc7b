"""The engine: a model that answers under constraints."""

from guided.engine.threads import limit_spinning
from guided.packages import importing

limit_spinning()  # before anything here imports torch

with importing("guided.engine"):
    from guided.engine.engine import Engine

__all__ = ["Engine"]
