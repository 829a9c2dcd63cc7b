"""Narrows the open choices of a specification for generation, as long as it still allows some text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.limits import Limits
from guided.matching.compiled import CompiledGrammar
from guided.meter import compiling

__all__ = ["fallback_options"]


def fallback_options(
    compiled: Callable[[JsonSchemaOptions], CompiledGrammar], options: JsonSchemaOptions, limits: Limits
) -> CompiledGrammar:
    """The grammar with the characters and members of `options`, or with all of them if it would otherwise be empty.

    If the specification itself is wrong, the last attempt raises the error.
    """
    minimal = options.additional_properties == "minimal"
    attempts = product(
        dict.fromkeys((options.additional_properties, None if minimal else options.additional_properties)),
        dict.fromkeys((options.classes, "full") if options.classes == "plain" else (options.classes,)),
    )
    *first, last = [replace(options, additional_properties=others, classes=one) for others, one in attempts]
    with compiling(limits, work=False):  # all attempts together
        for attempt in first:
            try:
                return compiled(attempt)
            except (SpecError, UnsupportedError):
                pass
        return compiled(last)
