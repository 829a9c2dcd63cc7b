"""From a schema to its grammar: the pipeline. In: a schema and options. Out: an IR `Grammar`; errors have a place."""

from __future__ import annotations

from collections.abc import Mapping

from guided.errors import SpecError, UnsupportedError
from guided.grammar.ir import Grammar
from guided.limits import Limits
from guided.spec.json_schema.expand import Expander
from guided.spec.json_schema.lower import Lowering
from guided.spec.json_schema.options import DEFAULTS, JsonSchemaOptions
from guided.spec.json_schema.reader import Reader
from guided.spec.json_schema.resolve import Library
from guided.spec.json_schema.values import locate

__all__ = ["NO_LIMITS_GIVEN", "json_schema_to_grammar"]

NO_LIMITS_GIVEN = Limits()


def json_schema_to_grammar(
    schema: object,
    options: JsonSchemaOptions = DEFAULTS,
    *,
    registry: Mapping[str, object] | None = None,
    limits: Limits = NO_LIMITS_GIVEN,
) -> Grammar:
    """The JSON texts whose values satisfy the schema, as a grammar.

    `schema` is JSON text, or a dict or bool as `json.loads` gives; `registry` maps URIs to schemas of either kind.
    Raises SpecError (invalid, or no value satisfies it), UnsupportedError (a keyword is not enforced) or LimitExceeded.
    """
    try:
        library = Library(schema, options, registry or {}, limits)
        expander = Expander(Reader(library, options, limits), options, limits)
        return Lowering(library, expander, options, limits).grammar()
    except (SpecError, UnsupportedError) as error:
        # A pointer into the main document begins with a slash; a problem inside a pattern shows the pattern itself.
        if isinstance(schema, str) and not error.text and (error.pointer == "" or error.pointer.startswith("/")):
            error.text, error.span = schema, locate(schema, error.pointer)
        raise
