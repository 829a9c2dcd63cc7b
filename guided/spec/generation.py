"""How generation writes: narrower than what a specification accepts, the way small models write best.

The one place that says so. Compiling accepts all that a specification allows; the engine, `guided generate`, `sample`
and `bench` compile with these options where the caller does not say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["JSON", "REGEX", "with_defaults"]

REGEX: Final[Mapping[str, Any]] = {"classes": "plain"}
"""Options of `GrammarCompiler.compile_regex`, and of composed parts."""

JSON: Final[Mapping[str, Any]] = {"whitespace": "single_space", "numbers": "plain", "escapes": "minimal", **REGEX}
"""Fields of `JsonSchemaOptions`."""


def with_defaults(given: Mapping[str, Any], defaults: Mapping[str, Any] = JSON) -> dict[str, Any]:
    """Fields of `JsonSchemaOptions`, as given and else as by default; separators and indent fix every gap, so they take
    the place of a default of whitespace."""
    gaps = {"whitespace"} if {"separators", "indent"} & given.keys() else set()
    return {**{name: value for name, value in defaults.items() if name not in gaps}, **given}
