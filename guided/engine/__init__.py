"""The engine: a model that answers under constraints."""

from guided.engine.threads import shorten_waiting

shorten_waiting()  # before anything here imports torch

from guided.engine.engine import Engine  # noqa: E402

__all__ = ["Engine"]
