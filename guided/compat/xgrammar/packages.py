"""Packages that parts of the facade need, imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["imported"]


def imported(name: str) -> Any:
    """A module: torch, or one of the facade that needs pydantic. ModuleNotFoundError, with what to install, if not."""
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
