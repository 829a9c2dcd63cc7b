"""How generation writes: narrower than what a specification accepts, the way small models write best.

The one place that says so. Compiling accepts all that a specification allows; the engine, `guided generate`, `sample`
and `bench` compile with these options where the caller does not say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["JSON", "REGEX"]

REGEX: Final[Mapping[str, Any]] = {"classes": "plain"}
"""Options of `GrammarCompiler.compile_regex`, and of composed parts."""

JSON: Final[Mapping[str, Any]] = {"whitespace": "single_space", "numbers": "plain", "escapes": "minimal", **REGEX}
"""Fields of `JsonSchemaOptions`."""
