"""The engine: a model that answers under constraints."""

from guided.engine.threads import shorten_waiting
from guided.packages import importing

shorten_waiting()  # before anything here imports torch

with importing("guided.engine"):
    from guided.engine.engine import Engine

__all__ = ["Engine"]
