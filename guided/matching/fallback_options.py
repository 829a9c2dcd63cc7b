"""Narrows a specification for generation as far as the options say, unless it would then allow no text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.limits import Limits
from guided.matching.compiled import CompiledGrammar
from guided.meter import compiling

__all__ = ["compile_with_fallback"]


def compile_with_fallback(
    compile_with: Callable[[JsonSchemaOptions], CompiledGrammar], options: JsonSchemaOptions, limits: Limits
) -> CompiledGrammar:
    """Compile with `options`. If the grammar is then empty, allow all members, or all characters of `\\w` and its kin.

    If the specification itself is wrong, the last attempt raises the error.
    """
    attempts = [options]
    if options.classes == "plain":
        attempts.append(replace(options, classes="full"))
    if options.additional_properties == "minimal":
        attempts += [replace(attempt, additional_properties=None) for attempt in attempts]
    *first, last = attempts
    with compiling(limits, work=False):  # all attempts together
        for attempt in first:
            try:
                return compile_with(attempt)
            except (SpecError, UnsupportedError):
                pass
        return compile_with(last)
