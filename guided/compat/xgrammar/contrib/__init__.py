"""xgrammar's integrations: `hf` needs transformers, and `mlxlm` needs MLX. Each is imported on first access."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("hf", "mlxlm"):
        return import_module(f"guided.compat.xgrammar.contrib.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
