"""Imports packages that only parts of this API need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["import_optional"]


def import_optional(name: str) -> Any:
    """Import torch, or a module of this API that needs torch or pydantic. ModuleNotFoundError: the package is not
    installed; the message says how to install it."""
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
