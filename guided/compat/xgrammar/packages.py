"""Packages that parts of the facade need, imported only on request."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["imported"]


def imported(name: str) -> Any:
    """Import torch, or a module of the facade that needs pydantic. ModuleNotFoundError: it says what to install."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "pydantic"):
            raise
        raise ModuleNotFoundError(
            f"this part of guided.compat.xgrammar needs the package {error.name}: "
            "pip install 'guided-decoding[xgrammar]'",
            name=error.name,
        ) from error
