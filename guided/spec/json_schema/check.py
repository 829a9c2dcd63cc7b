"""The report: what happens to each keyword of a schema. In: a schema. Out: a `Report`; raises nothing.

One entry for each keyword of each subschema: enforced, refused (with the reason and a hint), an annotation, ignored
(with the reason); and notes on the stated limits where they apply. `ok` says whether the schema compiles, which it may
even where a definition that nothing refers to is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from guided.errors import GuidedError, LimitExceeded, SpecError, UnsupportedError
from guided.limits import Limits
from guided.spec.json_schema.compile import NO_LIMITS_GIVEN, json_schema_to_grammar
from guided.spec.json_schema.keywords import CONTENT, ENFORCED, KEYWORDS
from guided.spec.json_schema.numbers import REACH
from guided.spec.json_schema.options import DEFAULTS, JsonSchemaOptions
from guided.spec.json_schema.reader import Problem, Reader
from guided.spec.json_schema.resolve import Library, Schema, subschemas

__all__ = ["Entry", "Report", "check_json_schema"]

_NUMBERS = (
    f"every number can be written, but some spellings with an exponent beyond {REACH} whose first digit is not next "
    "to the point are not accepted"
)
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


@dataclass(frozen=True, slots=True)
class Entry:
    """What happens to one keyword. `pointer` is its place in the schema."""

    pointer: str
    keyword: str
    status: Literal["enforced", "refused", "annotation", "ignored", "note"]
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All entries, in the order of the schema. `ok`: the schema compiles. `error`: why not."""

    entries: tuple[Entry, ...]
    error: GuidedError | None = None

    @property
    def ok(self) -> bool:
        """Whether the schema compiles with these options."""
        return self.error is None

    def with_status(self, status: str) -> tuple[Entry, ...]:
        """The entries of one status."""
        return tuple(entry for entry in self.entries if entry.status == status)

    def __str__(self) -> str:
        lines = [f"{e.status:10} {e.pointer}" + (f": {e.reason}" if e.reason else "") for e in self.entries]
        return "\n".join([*lines, "compiles" if self.ok else f"does not compile: {self.error}"])


def check_json_schema(
    schema: object,
    options: JsonSchemaOptions = DEFAULTS,
    *,
    registry: Mapping[str, object] | None = None,
    limits: Limits = NO_LIMITS_GIVEN,
) -> Report:
    """What happens to each keyword of the schema. Raises nothing."""
    entries: list[Entry] = []
    error: GuidedError | None = None
    try:
        library = Library(schema, options, registry or {}, limits)
        reader = Reader(library, options, limits)
        for place in _all_schemas(library, limits):
            entries += _entries(place, reader)
    except GuidedError as problem:
        error = problem
    try:
        json_schema_to_grammar(schema, options, registry=registry, limits=limits)
    except GuidedError as problem:
        error = problem
        entry = _refusal(problem)
        if not any(known.status == "refused" and known.pointer == entry.pointer for known in entries):
            entries.append(entry)
    return Report(tuple(entries), error)


def _all_schemas(library: Library, limits: Limits) -> Iterator[Schema]:
    """Every subschema of the main document, in order."""
    stack = [library.root]
    while stack:
        schema = stack.pop()
        yield schema
        if not isinstance(schema.value, dict):
            continue
        inner = []
        for tokens, value in subschemas(schema.value, schema.document.draft):
            if isinstance(value, dict | bool):
                inner.append(library.child(schema, *tokens))
        stack.extend(reversed(inner))


def _entries(schema: Schema, reader: Reader) -> Iterator[Entry]:
    if not isinstance(schema.value, dict):
        return
    problems: list[Problem] = []
    reader.read(schema, problems)
    refused: dict[str, Entry] = {}
    for problem in problems:
        entry = _refusal(problem)
        below = entry.pointer[len(schema.where) + 1 :] if entry.pointer.startswith(schema.where + "/") else ""
        refused.setdefault(below.split("/")[0].replace("~1", "/").replace("~0", "~"), entry)
    draft = schema.document.draft
    for keyword in schema.value:
        pointer = schema.at(keyword)
        if keyword in refused:
            yield refused[keyword]
        elif keyword not in KEYWORDS:
            yield Entry(pointer, keyword, "ignored", "unknown keyword")
        elif keyword in schema.document.lacks:
            yield Entry(pointer, keyword, "ignored", "not in the vocabularies of the metaschema")
        elif schema.hides(keyword):
            yield Entry(pointer, keyword, "ignored", f"{draft} ignores what stands next to $ref")
        elif not schema.known(keyword):
            yield Entry(pointer, keyword, "ignored", f"not a keyword of {draft}")
        elif keyword not in ENFORCED[draft] or (keyword in CONTENT and not reader.asserts(schema, keyword)):
            yield Entry(pointer, keyword, "annotation")
        elif keyword == "format" and not reader.asserts(schema, keyword):
            yield Entry(pointer, keyword, "ignored", "not enforced, as the options ask")
        else:
            yield Entry(pointer, keyword, "enforced")
    yield from _notes(schema, reader.options)


def _notes(schema: Schema, options: JsonSchemaOptions) -> Iterator[Entry]:
    value = schema.value
    assert isinstance(value, dict)
    types = value.get("type")
    types = types if isinstance(types, list) else [types]
    bounded = "integer" in types or any(keyword in value for keyword in _BOUNDS)
    bare = schema.document.draft == "draft4" and "integer" in types and "number" not in types
    if bounded and not bare and options.numbers == "json":
        yield Entry(schema.where, "type", "note", _NUMBERS)


def _refusal(problem: GuidedError) -> Entry:
    pointer = problem.pointer if isinstance(problem, SpecError | UnsupportedError) else ""
    hint = problem.hint if isinstance(problem, SpecError | UnsupportedError) else ""
    if isinstance(problem, SpecError):
        reason = problem.message
    else:
        reason = problem.reason if isinstance(problem, UnsupportedError) else str(problem)
    keyword = pointer.rsplit("/", 1)[-1] if pointer else ""
    if isinstance(problem, LimitExceeded):
        hint = f"raise Limits({problem.limit}=...)"
    return Entry(pointer, keyword, "refused", reason, hint)
