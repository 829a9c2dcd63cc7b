"""The pipeline from a schema to its grammar. In: a schema and options. Out: an IR `Grammar`. Errors include their
location.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from guided.errors import Finding, LimitExceeded, SpecError, UnsupportedError, warn_about
from guided.frontends.json_schema.algebra.expand import Expander
from guided.frontends.json_schema.algebra.reader import Reader
from guided.frontends.json_schema.documents.resolve import Library
from guided.frontends.json_schema.documents.source_spans import locate
from guided.frontends.json_schema.options import DEFAULTS, JsonSchemaOptions
from guided.frontends.json_schema.text.lower import Lowering
from guided.frontends.json_schema.text.notation import Notation
from guided.frontends.json_schema.unenforced import UnenforcedFinder
from guided.ir.embedded import EmbeddedSchema
from guided.ir.nodes import Grammar
from guided.ir.release import dismantle
from guided.limits import Limits
from guided.meter import limit_compilation

__all__ = ["DEFAULT_LIMITS", "json_schema_to_grammar", "limit_stack"]

DEFAULT_LIMITS = Limits()


def json_schema_to_grammar(
    schema: object,
    options: JsonSchemaOptions = DEFAULTS,
    *,
    registry: Mapping[str, object] | None = None,
    documents: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    findings: list[Finding] | None = None,
    require_values: bool = True,
    notation: Callable[[Lowering], Notation] = Notation,
) -> Grammar:
    """The JSON texts whose values satisfy the schema, as a grammar.

    `schema` is JSON text, or a dict or bool as returned by `json.loads`; `registry` maps URIs to such schemas, and
    `documents` maps names to the texts from which `x-guided-quote` quotes. With `require_values=False`, an
    unsatisfiable schema is not an error here: `GrammarCompiler` detects it later, and calls this function again with
    `require_values=True` to get the reason. `notation` defines how values are written, if not as JSON. Keywords that
    are read but not enforced are appended to `findings`; without this list, they cause a `GuidedWarning`. Raises
    SpecError (the schema is invalid, or no value satisfies it), UnsupportedError (a keyword cannot be enforced) or
    LimitExceeded.
    """
    cyclic_objects: list[object] = []
    try:
        with limit_compilation(limits), limit_stack():
            library = Library(schema, options, registry or {}, limits, documents)
            cyclic_objects.append(reader := Reader(library, options, limits))
            cyclic_objects.append(expander := Expander(reader, options, limits))
            cyclic_objects.append(lowering := Lowering(library, expander, options, limits, notation))
            grammar = lowering.grammar(require_values=require_values)
            unenforced_keywords = _find_unenforced(library, options) if library.schemas_to_report else []
    except (SpecError, UnsupportedError) as error:
        # Only pointers into the main document are empty or begin with a slash. An error in a pattern already shows the
        # pattern.
        if isinstance(schema, str) and not error.text and (error.pointer == "" or error.pointer.startswith("/")):
            error.text, error.span = schema, locate(schema, error.pointer)
        raise
    finally:
        for cyclic_object in cyclic_objects:
            dismantle(cyclic_object)
    if findings is None:
        warn_about(unenforced_keywords)
    else:
        findings += unenforced_keywords
    schemas = {grammar.start: EmbeddedSchema(schema, options, registry or {}, documents or {})}
    return Grammar(grammar.rules, grammar.start, grammar.origins, schemas=schemas)


@contextmanager
def limit_stack() -> Iterator[None]:
    """Raise LimitExceeded if a block exceeds Python's recursion limit.

    Few functions are recursive. They are bounded by `Limits.depth`, or by the length of a chain of references, but each
    level may take several frames, and the caller may have used most of the stack.
    """
    try:
        yield
    except RecursionError:
        recursion_limit = sys.getrecursionlimit()
        hint = "reduce the nesting of schemas and the length of chains of references, or call sys.setrecursionlimit"
        raise LimitExceeded("depth", recursion_limit + 1, recursion_limit, fixed=True, hint=hint) from None


def _find_unenforced(library: Library, options: JsonSchemaOptions) -> list[Finding]:
    """The unenforced keywords of all schemas that the compilation reached, each once. With `strict`, the first one is
    raised as an error.
    """
    findings: dict[str, Finding] = {}
    finder = UnenforcedFinder(library, options)
    for schema in library.schemas_to_report:
        for finding in finder.findings(schema):
            findings.setdefault(finding.pointer, finding)
    if findings and options.strict:
        first = next(iter(findings.values()))
        raise UnsupportedError(first.reason, pointer=first.pointer, hint=first.hint)
    return list(findings.values())
