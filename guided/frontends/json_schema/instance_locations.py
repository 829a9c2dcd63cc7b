"""Finds the schemas that apply where an unfinished JSON text ends. In: a schema, a text, and a function that compiles a
grammar to a *judge*, which decides whether the grammar accepts a text or a beginning of one. Out: JSON Pointers.

    {"properties": {"age": {"type": "integer", "minimum": 1}}}      after  {"age":    /properties/age

`refusing.py` finds the keywords that refuse a continuation.

How: the text shows which values are open (`unfinished_json.py`). The root schema applies to the outermost value. Every
other schema is reached through a keyword: `properties`, `items` or a similar keyword in a schema of the enclosing
value, or `$ref`, `allOf` or a similar keyword in another schema of the same value. A branch of `anyOf` or `oneOf`, a
`then` or an `else` is left out if the written part of the value can no longer satisfy it together with the schema that
contains it. Schemas below `not` are not reported.

Why the automaton does not record locations: equal schemas share one rule, small schemas are inlined, and alternatives
are merged. A rule for each location would undo this and slow down each compilation, although only explanations need the
locations.

Cost: each applicable branch is compiled separately. At most `MAX_JUDGED` branches are compiled for a text, and only
while the surrounding meter allows it (`guided/meter.py`). Further branches count as open, and `is_partial` is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from guided.errors import GuidedError
from guided.frontends.json_schema.algebra.expand import Expander
from guided.frontends.json_schema.algebra.reader import Reader
from guided.frontends.json_schema.documents.keywords import ENFORCED_KEYWORDS, REFERENCES
from guided.frontends.json_schema.documents.resolve import Library
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Json
from guided.frontends.json_schema.options import JsonSchemaKeywords
from guided.frontends.json_schema.text.lower import Lowering
from guided.frontends.json_schema.unfinished_json import OpenValue, open_values
from guided.ir.embedded import EmbeddedSchema
from guided.ir.nodes import Grammar
from guided.limits import Limits
from guided.meter import is_temporary, limit_compilation, spend

__all__ = ["MAX_JUDGED", "UNEVALUATED", "InstanceLocations", "Judge", "Level"]

MAX_JUDGED: Final = 300

Text: TypeAlias = bytes | memoryview
"""The written part of a value. A view does not copy the text, which many open values share."""
Judge: TypeAlias = Callable[[bytes, bool], bool]
"""(text, is_whole) -> whether one grammar accepts the text or, unless `is_whole`, a text that begins with it."""

UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_LOOSE_OPTIONS: Final[JsonSchemaKeywords] = {
    "whitespace": "json", "surrounding_whitespace": False, "property_order": "any", "additional_properties": None,
    "unknown_format": "ignore", "strict": False,
}  # fmt: skip
"""Options that replace the caller's when texts are judged. The caller's options for numbers and characters remain:
otherwise, `10` could be the beginning of `10e-1`.
"""


@dataclass(frozen=True, slots=True)
class Level:
    """An open value, and the written part of it.

    Attributes:
        asserted_schemas: the schemas that it must satisfy.
        schemas: all schemas that apply, including the schemas of `contains`, which an item need not satisfy.
    """

    value: OpenValue
    text: Text
    asserted_schemas: tuple[Schema, ...]
    schemas: tuple[Schema, ...]


class InstanceLocations:
    """Finds the schemas that apply in texts of one schema. `compile_judge` creates the judge for a grammar. Not
    thread-safe.

    Attributes:
        is_partial: whether the last result may be inexact, because a bound was reached.
    """

    def __init__(self, source: EmbeddedSchema, limits: Limits, compile_judge: Callable[[Grammar], Judge]) -> None:
        self._options = source.options.with_changes(**_LOOSE_OPTIONS)
        self._limits, self._compile_judge, self._prefix = limits, compile_judge, source.prefix
        self.library = Library(source.schema, self._options, source.registry, limits, source.documents)
        self.reader = Reader(self.library, self._options, limits)
        self._expander = Expander(self.reader, self._options, limits)
        self._judges: dict[tuple[Schema, ...], Judge | None] = {}
        self._variants: dict[tuple[Schema, tuple[str, ...]], Schema] = {}
        self._judgements_left = MAX_JUDGED
        self.is_partial = False

    def begin(self) -> None:
        """Start a new text, and reset the bounds, which apply to one text."""
        self.is_partial, self._judgements_left = False, MAX_JUDGED
        if len(self._judges) >= MAX_JUDGED:
            self._judges.clear()

    def pointers(self, text: bytes) -> tuple[str, ...]:
        """Pointers to the schemas of the innermost open value to which any apply; to the root if there is none."""
        levels = self._levels(text)
        schemas = next((level.schemas for level in reversed(levels) if level.schemas), (self.library.root,))
        return self.full_pointers(schema.location for schema in schemas)

    def full_pointers(self, pointers: Iterable[str]) -> tuple[str, ...]:
        """Pointers into the whole specification, without duplicates."""
        return tuple(dict.fromkeys(self._prefix + pointer for pointer in pointers))

    # --- the schemas of a value

    def _levels(self, text: bytes) -> list[Level]:
        out: list[Level] = []
        roots: tuple[Schema, ...] = (self.library.root,)
        all_roots = roots
        for value in open_values(text):
            value_text = memoryview(text)[value.start :]
            if out:
                enclosing_level = out[-1]
                roots = self.children(
                    enclosing_level.asserted_schemas,
                    enclosing_level.text,
                    enclosing_level.value.keys,
                    value.name_or_index,
                )
                others = self.children(
                    enclosing_level.schemas, enclosing_level.text, enclosing_level.value.keys, value.name_or_index
                )
                all_roots = (*others, *self._contains_schemas(enclosing_level, value, value_text))
            asserted_schemas = self._closure(roots, value_text, value.keys)
            schemas = asserted_schemas if all_roots == roots else self._closure(all_roots, value_text, value.keys)
            out.append(Level(value, value_text, asserted_schemas, schemas))
        return out

    def _closure(self, roots: Iterable[Schema], text: Text, keys: Sequence[str]) -> tuple[Schema, ...]:
        """The schemas `roots`, and all schemas that they apply to the same value."""
        out: dict[Schema, None] = {}
        work = list(reversed(tuple(roots)))
        while work:
            schema = work.pop()
            if schema not in out:
                spend()
                out[schema] = None
                for keyword in reversed(self.keywords(schema)):
                    work += reversed(self._branches(schema, keyword, text, keys))
        return tuple(out)

    @staticmethod
    def keywords(schema: Schema) -> list[str]:
        """The keywords of a schema that constrain values."""
        return [keyword for keyword in schema.constraints if schema.has_keyword(keyword)]

    def _branches(self, schema: Schema, keyword: str, text: Text, keys: Sequence[str]) -> list[Schema]:
        """The schemas that a keyword applies to the same value, without branches that the text rules out."""
        if keyword in REFERENCES:
            return [self.library.resolve(schema, keyword)]
        if keyword == "allOf":
            return list(self.reader.branches(schema, keyword))
        if keyword in ("anyOf", "oneOf"):
            return self.open_branches(schema, keyword, text)
        if keyword == "if":
            cases = self.open_cases(schema, text)
            return [self.library.child(schema, name) for name, _ in cases if schema.has_keyword(name)]
        if keyword in ("dependentSchemas", "dependencies"):
            return self.dependent_schemas(schema, keyword, keys)
        return []

    def open_branches(self, schema: Schema, keyword: str, text: Text) -> list[Schema]:
        """The branches of `anyOf` or `oneOf` that the text does not rule out."""
        siblings = schema
        if keyword == "anyOf" and not any(map(schema.has_keyword, UNEVALUATED)):
            siblings = self.without_keywords(schema, keyword)  # equivalent here, but smaller
        return [branch for branch in self.reader.branches(schema, keyword) if self.is_open((siblings, branch), text)]

    def open_cases(self, schema: Schema, text: Text) -> list[tuple[str, Schema]]:
        """The cases of an `if` that the text allows: "then", "else" or both, each with the schema of its condition."""
        condition = self.library.child(schema, "if")
        out = []
        for name, case_condition in (("then", condition), ("else", self.reader.negation.complement_of(condition))):
            branch = (self.library.child(schema, name),) if schema.has_keyword(name) else ()
            if self.is_open((schema, case_condition, *branch), text):
                out.append((name, case_condition))
        return out

    def dependent_schemas(self, schema: Schema, keyword: str, keys: Sequence[str]) -> list[Schema]:
        """The schemas of `dependentSchemas` or `dependencies` that the written members require."""
        schema_by_name = schema.get(keyword)
        assert isinstance(schema_by_name, dict)
        return [
            self.library.child(schema, keyword, key) for key in keys if isinstance(schema_by_name.get(key), dict | bool)
        ]

    def children(
        self, schemas: Iterable[Schema], text: Text, keys: Sequence[str], name_or_index: str | int | None
    ) -> tuple[Schema, ...]:
        """The schemas for one member or item of a value to which `schemas` apply.

        `text`, `keys`: the written part of the enclosing value, and the keys in it.
        """
        return tuple(
            dict.fromkeys(
                inner for schema in schemas for inner in self._inner_schemas(schema, text, keys, name_or_index)
            )
        )

    def _contains_schemas(self, level: Level, value: OpenValue, text: Text) -> list[Schema]:
        """The schemas of `contains` that an item may still satisfy."""
        if not isinstance(value.name_or_index, int):
            return []
        contains_schemas = [
            self.library.child(schema, "contains") for schema in level.schemas if schema.has_keyword("contains")
        ]
        return [schema for schema in contains_schemas if self.is_open((schema,), text)]

    def _inner_schemas(
        self, schema: Schema, text: Text, keys: Sequence[str], name_or_index: str | int | None
    ) -> Iterator[Schema]:
        """The schemas that one schema applies to the member or item."""
        if isinstance(schema.value, bool):
            return
        yield from (
            self._member_schemas(schema, name_or_index)
            if isinstance(name_or_index, str)
            else self._item_schemas(schema, name_or_index or 0)
        )
        name = UNEVALUATED[isinstance(name_or_index, int)]
        if schema.has_keyword(name):
            others = self._closure((schema,), text, keys)
            if not any(self._evaluates(other, name_or_index, other is schema) for other in others):
                yield self.library.child(schema, name)

    def _evaluates(self, schema: Schema, name_or_index: str | int | None, is_own: bool) -> bool:
        """Whether a schema constrains the member or item, so that `unevaluated...` does not apply to it."""
        if isinstance(schema.value, bool):
            return False
        if not is_own and schema.has_keyword(UNEVALUATED[isinstance(name_or_index, int)]):
            return True
        return bool(
            self._member_schemas(schema, name_or_index)
            if isinstance(name_or_index, str)
            else self._item_schemas(schema, name_or_index or 0)
        )

    def _member_schemas(self, schema: Schema, key: str) -> list[Schema]:
        return self.reader.own_members(schema).member_schemas(key, self._expander.keys.contains)

    def _item_schemas(self, schema: Schema, index: int) -> list[Schema]:
        if not any(schema.has_keyword(name) for name in ("items", "prefixItems")):
            return []
        part = self.reader.own_items(schema)
        inner = part.prefix[index] if index < len(part.prefix) else part.rest
        return [] if inner is None else [inner]

    # --- modified schemas

    def without_keywords(self, schema: Schema, *keywords: str) -> Schema:
        """A schema without some keywords."""
        assert isinstance(schema.value, dict)
        members = {name: value for name, value in schema.value.items() if name not in keywords}
        return self.with_keywords(schema, ("not", *keywords), members)

    def with_keywords(self, schema: Schema, key: tuple[str, ...], value: dict[str, Json]) -> Schema:
        """A schema with other keywords at the same location. It gets a copy of the document, because caches identify
        a schema by document and pointer. `key` must differ for different `value`s.
        """
        if (schema, key) not in self._variants:
            document = replace(schema.document)
            constraints = tuple(filter(ENFORCED_KEYWORDS[document.draft].__contains__, value))
            self._variants[schema, key] = Schema(
                document, schema.pointer, value, schema.base, scope=schema.scope, constraints=constraints
            )
        return self._variants[schema, key]

    # --- the judge

    def is_open(self, schemas: tuple[Schema, ...], text: Text) -> bool:
        """Whether a text may be the beginning of a value that satisfies all of the schemas. True if unknown."""
        return self.judge(schemas, text, False) is not False

    def judge(self, schemas: tuple[Schema, ...], text: Text, is_whole: bool) -> bool | None:
        """Whether a text is a value that satisfies all of the schemas or, unless `is_whole`, the beginning of one.
        None if unknown.
        """
        if schemas not in self._judges:
            if self._judgements_left <= 0:
                self.is_partial = True
                return None
            self._judgements_left -= 1
            try:
                self._judges[schemas] = self._make_judge(schemas)
            except (GuidedError, RecursionError) as error:  # the schemas cannot be compiled by themselves
                if is_temporary(error):
                    self.is_partial = True
                    return None
                self._judges[schemas] = None
        judge = self._judges[schemas]
        if judge is None:
            return None
        spend(1 + len(text))
        return judge(bytes(text), is_whole)

    def _make_judge(self, schemas: tuple[Schema, ...]) -> Judge:
        with limit_compilation(self._limits):
            expander = Expander(self.reader, self._options, self._limits)
            lowering = Lowering(self.library, expander, self._options, self._limits)
            return self._compile_judge(lowering.grammar(require_values=False, schemas=schemas))
