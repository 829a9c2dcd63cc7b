"""guided's version, which `pyproject.toml` repeats. Data only."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
