"""xgrammar inside other systems. `hf` is imported when it is asked for: it needs transformers."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "hf":
        return import_module("guided.compat.xgrammar.contrib.hf")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
