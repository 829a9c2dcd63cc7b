"""Reports what happens to each keyword of a schema. In: a schema. Out: a `Report`, also for an invalid schema.

`schema_errors` lists only the errors that make a value an invalid JSON Schema, for callers that do not compile it.

A report has one entry for each keyword of each subschema: enforced, refused (with the reason and a hint), an
annotation, or ignored (with the reason and a hint). Further entries are notes on documented limits that apply. `ok`
says whether the schema compiles. A schema may compile although a definition is refused, if nothing refers to that
definition. Likewise, `findings` contains only the ignored keywords that a compilation reaches and warns about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from guided.errors import Finding, GuidedError, LimitExceeded, SpecError, UnsupportedError
from guided.frontends.json_schema.algebra.reader import Problem, Reader
from guided.frontends.json_schema.compile import DEFAULT_LIMITS, json_schema_to_grammar, limit_stack
from guided.frontends.json_schema.documents.keywords import (
    CONSTRAINING_KEYWORDS,
    CONTENT_KEYWORDS,
    DESCRIPTIVE_NAMES,
    KEYWORDS,
)
from guided.frontends.json_schema.documents.resolve import Library, subschemas
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.options import DEFAULTS, JsonSchemaOptions
from guided.frontends.json_schema.text.numbers import REACH
from guided.frontends.json_schema.unenforced import UnenforcedFinder
from guided.frontends.regex import unicode_flag_error
from guided.frontends.regex.doubtful_sets import find_doubtful_sets
from guided.limits import Limits
from guided.meter import limit_compilation

__all__ = ["Entry", "Report", "check_json_schema", "pattern_notes", "schema_errors", "set_notes"]

_NUMBER_NOTE = (
    f"every number can be written, but not in every spelling: with an exponent beyond {REACH}, some spellings are "
    "refused unless the first digit is next to the decimal point"
)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


@dataclass(frozen=True, slots=True)
class Entry:
    """What happens to one keyword. `pointer` is its location in the schema."""

    pointer: str
    keyword: str
    status: Literal["enforced", "refused", "annotation", "ignored", "note"]
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All entries, in the order of the schema.

    `ok`: whether the schema compiles. `error`: why it does not. `findings`: the warnings of a compilation.
    """

    entries: tuple[Entry, ...]
    error: GuidedError | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the schema compiles with these options."""
        return self.error is None

    def with_status(self, status: str) -> tuple[Entry, ...]:
        """The entries with the given status."""
        return tuple(entry for entry in self.entries if entry.status == status)

    def __str__(self) -> str:
        lines = [f"{e.status:10} {e.pointer}" + (f": {e.reason}" if e.reason else "") for e in self.entries]
        return "\n".join([*lines, "compiles" if self.ok else f"does not compile: {self.error}"])


def check_json_schema(
    schema: object,
    options: JsonSchemaOptions = DEFAULTS,
    *,
    registry: Mapping[str, object] | None = None,
    documents: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """What happens to each keyword of the schema. An error of the schema becomes an entry, and is not raised."""
    entries: list[Entry] = []
    error: GuidedError | None = None
    findings: list[Finding] = []
    try:
        with limit_compilation(limits), limit_stack():
            reader = Reader(Library(schema, options, registry or {}, limits, documents), options, limits)
            finder = UnenforcedFinder(reader.library, options)
            for subschema, problems in _problems(reader):
                entries += _entries(subschema, problems, reader, finder)
    except GuidedError as problem:
        error = problem
    try:
        json_schema_to_grammar(
            schema, options, registry=registry, documents=documents, limits=limits, findings=findings
        )
    except GuidedError as problem:
        error = problem
        entry = _refusal(problem)
        if not any(other.status == "refused" and other.pointer == entry.pointer for other in entries):
            entries.append(entry)
    return Report(tuple(entries), error, tuple(findings))


def schema_errors(schema: object) -> list[SpecError]:
    """The errors that make a value an invalid JSON Schema, in the order of the schema: keywords with invalid values.
    References are not followed.

    Raises:
        SpecError: the value is not a JSON object or boolean. LimitExceeded: it is too large.
    """
    try:
        reader = Reader(Library(schema, DEFAULTS, {}, DEFAULT_LIMITS), DEFAULTS, DEFAULT_LIMITS)
    except UnsupportedError:  # an unknown dialect, whose keywords may have other values
        return []
    with limit_stack():
        problems = [problem for _, schema_problems in _problems(reader) for problem in schema_problems]
    return [
        problem
        for problem in problems
        if isinstance(problem, SpecError) and problem.pointer.rpartition("/")[2] not in _REFERENCES
    ]


def _problems(reader: Reader) -> Iterator[tuple[Schema, list[Problem]]]:
    """Each subschema of the main document, with the problems of its keywords."""
    for subschema in _all_schemas(reader.library):
        problems = list[Problem]()
        reader.read(subschema, problems)
        yield subschema, problems


def _all_schemas(library: Library) -> Iterator[Schema]:
    """Every subschema of the main document, in order."""
    stack = [library.root]
    while stack:
        schema = stack.pop()
        yield schema
        if not isinstance(schema.value, dict):
            continue
        children = []
        for keys, value in subschemas(schema.value, schema.document.draft):
            if isinstance(value, dict | bool):
                children.append(library.child(schema, *keys))
        stack.extend(reversed(children))


def _entries(schema: Schema, problems: list[Problem], reader: Reader, finder: UnenforcedFinder) -> Iterator[Entry]:
    if not isinstance(schema.value, dict):
        return
    entry_by_keyword: dict[str, Entry] = {}
    for problem in problems:
        entry = _refusal(problem)
        path_below = (
            entry.pointer[len(schema.location) + 1 :] if entry.pointer.startswith(schema.location + "/") else ""
        )
        entry_by_keyword.setdefault(path_below.split("/")[0].replace("~1", "/").replace("~0", "~"), entry)
    findings = {finding.keyword: finding for finding in finder.findings(schema)}
    for keyword in schema.value:
        pointer = schema.location_of(keyword)
        if keyword in entry_by_keyword:
            yield entry_by_keyword[keyword]
        elif keyword in findings:
            status: Literal["refused", "ignored"] = "refused" if reader.options.strict else "ignored"
            yield Entry(pointer, keyword, status, findings[keyword].reason, findings[keyword].hint)
        else:
            yield _classify_keyword(schema, keyword, reader)
    yield from _notes(schema, reader.options)


def _classify_keyword(schema: Schema, keyword: str, reader: Reader) -> Entry:
    """What happens to a keyword that is neither refused nor reported as ignored."""
    pointer, draft = schema.location_of(keyword), schema.document.draft
    if keyword in DESCRIPTIVE_NAMES:
        return Entry(pointer, keyword, "annotation")
    if keyword not in KEYWORDS:
        return Entry(pointer, keyword, "ignored", "unknown keyword")
    if schema.ignores(keyword):
        return Entry(pointer, keyword, "ignored", f"{draft} ignores keywords next to $ref")
    if not schema.has_keyword(keyword):
        return Entry(pointer, keyword, "ignored", f"not a keyword of {draft}")
    if keyword not in CONSTRAINING_KEYWORDS and not (keyword in CONTENT_KEYWORDS and reader.enforces(schema, keyword)):
        return Entry(pointer, keyword, "annotation")
    if keyword == "format" and not reader.enforces(schema, keyword):
        return Entry(pointer, keyword, "ignored", "not enforced under these options")
    return Entry(pointer, keyword, "enforced")


def _notes(schema: Schema, options: JsonSchemaOptions) -> Iterator[Entry]:
    value = schema.value
    assert isinstance(value, dict)
    types = value.get("type")
    types = types if isinstance(types, list) else [types]
    has_bounds = "integer" in types or any(keyword in value for keyword in _BOUNDS)
    has_bare_integers = schema.document.draft == "draft4" and "integer" in types and "number" not in types
    has_exponents = options.numbers == "json" or (options.numbers == "plain_integers" and "integer" not in types)
    if has_bounds and not has_bare_integers and has_exponents:
        yield Entry(schema.location, "type", "note", _NUMBER_NOTE)
    pattern, patterns = value.get("pattern"), value.get("patternProperties")
    if isinstance(pattern, str):
        yield from pattern_notes(pattern, schema.location_of("pattern"), "pattern")
    for pattern in patterns if isinstance(patterns, dict) else ():
        yield from pattern_notes(pattern, schema.location_of("patternProperties", pattern), "patternProperties")


def pattern_notes(pattern: str, pointer: str, keyword: str) -> Iterator[Entry]:
    """Notes on an ECMA-262 pattern that is valid only without the `u` flag, and on its character sets."""
    problem = unicode_flag_error(pattern)
    if problem is not None:
        reason = f"valid only without ECMA-262's u flag: {problem.message}"
        yield Entry(pointer, keyword, "note", reason, problem.hint)
    yield from set_notes(pattern, pointer, keyword)


def set_notes(pattern: str, pointer: str, keyword: str) -> Iterator[Entry]:
    """Notes on the character sets of a pattern that other engines read differently."""
    for found in find_doubtful_sets(pattern):
        yield Entry(pointer, keyword, "note", found.message, found.hint)


def _refusal(problem: GuidedError) -> Entry:
    pointer = problem.pointer if isinstance(problem, SpecError | UnsupportedError) else ""
    hint = problem.hint if isinstance(problem, SpecError | UnsupportedError | LimitExceeded) else ""
    if isinstance(problem, SpecError):
        reason = problem.message
    else:
        reason = problem.reason if isinstance(problem, UnsupportedError) else str(problem)
    keyword = pointer.rsplit("/", 1)[-1] if pointer else ""
    return Entry(pointer, keyword, "refused", reason, hint)
