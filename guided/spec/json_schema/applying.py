"""Which schemas apply where an unfinished JSON text ends, and which of their keywords refuse what would follow.

In: a schema, a text, and a judge: a function that says whether a text can be the beginning of one of a grammar. Out:
JSON Pointers.

    {"properties": {"age": {"type": "integer", "minimum": 1}}}      after  {"age":    /properties/age
                                                                    and -  is refused by  /properties/age/minimum

How: the text says which values are open (`written.py`). From the root on, a schema applies to a value through
`properties`, `items` and the like of the schemas that apply to the value around it, and through `$ref`, `allOf` and
the like of those that apply to the value itself. A branch of `anyOf` or `oneOf`, a `then` or an `else` is left out if
what was written of the value can no longer satisfy it together with the schema that it is a branch of. `not` names
no schema.

A keyword refuses what follows if by itself, without the keywords beside it, it allows what was written and not what
follows. Keywords of the innermost value are asked first, then those of the values around it. So where only several
keywords together refuse something, none is named; neither where the layout does: white space, the order of members.

Why places are not carried in the automaton: there equal schemas are one rule, small ones stand in place, and
alternatives are merged. A rule for each place would undo that, at a cost in each compilation, for what only
explanations need.

Cost: that of compiling the branches that apply and the keywords, alone; at most `MOST_JUDGED` of them for a schema.
Beyond these, branches count as open, and keywords are not named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from guided.errors import GuidedError
from guided.ir.embedded import Embedded
from guided.ir.nodes import Grammar
from guided.limits import Limits
from guided.spec.json_schema.algebra.expand import Expander
from guided.spec.json_schema.algebra.reader import Reader
from guided.spec.json_schema.documents.keywords import ENFORCED, REFERENCES
from guided.spec.json_schema.documents.resolve import Library, Schema
from guided.spec.json_schema.documents.values import Json
from guided.spec.json_schema.options import JsonSchemaKeywords
from guided.spec.json_schema.text.lower import Lowering
from guided.spec.json_schema.written import OpenValue, open_values

__all__ = ["MOST_JUDGED", "Applying", "Judge"]

MOST_JUDGED: Final = 300

Judge: TypeAlias = Callable[[bytes, bool], bool]
"""Of a text of one grammar: whether it is the beginning of one; with True: whether it is a whole one."""

_BESIDE: Final = {
    "additionalProperties": ("properties", "patternProperties"),
    "items": ("prefixItems",),
    "additionalItems": ("items",),
    "contains": ("minContains", "maxContains"),
    "if": ("then", "else"),
    "minimum": ("exclusiveMinimum",),
    "maximum": ("exclusiveMaximum",),
}
"""Keyword -> those that say what it applies to, or how. Of these the schemas do not count."""
_AS_LOOSE: Final[JsonSchemaKeywords] = {
    "whitespace": "json", "surrounding_whitespace": False, "property_order": "any", "additional_properties": None,
    "unknown_format": "ignore", "strict": False,
}  # fmt: skip
"""How texts are judged. Digits and characters are as the options say: else `10` could be the beginning of `10e-1`."""
_ENDS: Final = (b",", b"}", b"]", b" ", b"\n", b"\r", b"\t")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")


@dataclass(frozen=True, slots=True)
class _Level:
    """An open value, and what was written of it.

    Attributes:
        roots: the schemas that it must satisfy by way of the value around it.
        asserted: these, and those that it must satisfy by way of them.
        schemas: all that apply. An item need not satisfy those of `contains`.
    """

    value: OpenValue
    text: bytes
    roots: tuple[Schema, ...]
    asserted: tuple[Schema, ...]
    schemas: tuple[Schema, ...]


class Applying:
    """Explains texts of one schema. `compiled`: makes the judge of a grammar. Not thread-safe."""

    def __init__(self, source: Embedded, limits: Limits, compiled: Callable[[Grammar], Judge]) -> None:
        self._options = source.options.changed(**_AS_LOOSE)
        self._limits, self._compiled, self._prefix = limits, compiled, source.prefix
        self._library = Library(source.schema, self._options, source.registry, limits)
        self._reader = Reader(self._library, self._options, limits)
        self._expander = Expander(self._reader, self._options, limits)
        self._judges: dict[tuple[Schema, ...], Judge | None] = {}
        self._parts: dict[tuple[Schema, tuple[str, ...]], Schema] = {}

    def pointers(self, text: bytes) -> tuple[str, ...]:
        """The schemas that apply to the innermost open value to which some do; the root where the text is whole."""
        levels = self._levels(text)
        found = next((level.schemas for level in reversed(levels) if level.schemas), (self._library.root,))
        return self._named(schema.where for schema in found)

    def refusing(self, text: bytes, following: bytes) -> tuple[str, ...]:
        """The keywords that refuse a character after the text by themselves; empty if none is known."""
        levels = self._levels(text)
        for number, level in reversed(list(enumerate(levels))):
            if not self._asked((), level.text + following, False):
                # A number ends where something else follows that the value around it can have there.
                ends = number > 0 and following in _ENDS and self._asked((), level.text, True)
                if not ends or not self._asked((), levels[number - 1].text + following, False):
                    continue
                longer = None
            else:
                longer = level.text + following
            found = [pointer for root in level.roots for pointer in self._blamed(root, level, longer)]
            if found:
                return self._named(found)
        return ()

    def _named(self, pointers: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._prefix + pointer for pointer in pointers))

    # --- the schemas of a value

    def _levels(self, text: bytes) -> list[_Level]:
        out: list[_Level] = []
        roots: tuple[Schema, ...] = (self._library.root,)
        all_roots = roots
        for value in open_values(text):
            written = text[value.start :]
            if out:
                around = out[-1]
                roots = self._children(around.asserted, around, value)
                contained = self._contained(around, value, written)
                all_roots = (*self._children(around.schemas, around, value), *contained)
            asserted = self._closure(roots, written, value.keys)
            schemas = asserted if all_roots == roots else self._closure(all_roots, written, value.keys)
            out.append(_Level(value, written, roots, asserted, schemas))
        return out

    def _closure(self, roots: Iterable[Schema], text: bytes, keys: Sequence[str]) -> tuple[Schema, ...]:
        """These schemas, and those that apply to the same value by way of them."""
        out: dict[Schema, None] = {}
        work = list(reversed(tuple(roots)))
        while work:
            schema = work.pop()
            if schema not in out:
                out[schema] = None
                for keyword in reversed(self._keywords(schema)):
                    work += reversed(self._branches(schema, keyword, text, keys))
        return tuple(out)

    @staticmethod
    def _keywords(schema: Schema) -> list[str]:
        return [keyword for keyword in schema.constraints if schema.known(keyword)]

    def _branches(self, schema: Schema, keyword: str, text: bytes, keys: Sequence[str]) -> list[Schema]:
        """The schemas that a keyword applies to the same value, without those that the text has left."""
        if keyword in REFERENCES:
            return [self._library.resolve(schema, keyword)]
        if keyword == "allOf":
            return list(self._reader.branches(schema, keyword))
        if keyword in ("anyOf", "oneOf"):
            beside = schema
            if keyword == "anyOf" and not any(map(schema.known, _UNEVALUATED)):
                beside = self._without(schema, keyword)  # the same, and smaller
            return [one for one in self._reader.branches(schema, keyword) if self._is_open((beside, one), text)]
        if keyword == "if":
            return list(self._of_condition(schema, text))
        if keyword in ("dependentSchemas", "dependencies"):
            named = schema.get(keyword)
            assert isinstance(named, dict)
            return [
                self._library.child(schema, keyword, key) for key in keys if isinstance(named.get(key), dict | bool)
            ]
        return []

    def _of_condition(self, schema: Schema, text: bytes) -> Iterator[Schema]:
        condition = self._library.child(schema, "if")
        for name, holds in (("then", condition), ("else", self._reader.negation.of(condition))):
            if schema.known(name):
                branch = self._library.child(schema, name)
                if self._is_open((schema, holds, branch), text):
                    yield branch

    def _children(self, schemas: Sequence[Schema], level: _Level, value: OpenValue) -> tuple[Schema, ...]:
        """The schemas that these, which apply to a value, apply to its member or item."""
        return tuple(dict.fromkeys(one for schema in schemas for one in self._inner(schema, level, value)))

    def _contained(self, level: _Level, value: OpenValue, text: bytes) -> list[Schema]:
        """The schemas of `contains` that an item may still satisfy."""
        if not isinstance(value.token, int):
            return []
        found = [self._library.child(schema, "contains") for schema in level.schemas if schema.known("contains")]
        return [schema for schema in found if self._is_open((schema,), text)]

    def _inner(self, schema: Schema, level: _Level, value: OpenValue) -> Iterator[Schema]:
        """Those of one schema."""
        if isinstance(schema.value, bool):
            return
        token = value.token
        yield from self._member(schema, token) if isinstance(token, str) else self._item(schema, token or 0)
        name = _UNEVALUATED[isinstance(token, int)]
        if schema.known(name):
            others = self._closure((schema,), level.text, level.value.keys)
            if not any(self._evaluates(one, token, one is schema) for one in others):
                yield self._library.child(schema, name)

    def _evaluates(self, schema: Schema, token: str | int | None, is_own: bool) -> bool:
        """Whether a schema says something of the member or item, so that it is not left to `unevaluated...`."""
        if isinstance(schema.value, bool):
            return False
        if not is_own and schema.known(_UNEVALUATED[isinstance(token, int)]):
            return True
        return bool(self._member(schema, token) if isinstance(token, str) else self._item(schema, token or 0))

    def _member(self, schema: Schema, key: str) -> list[Schema]:
        return self._reader.own_members(schema).member(key, self._expander.keys.has)

    def _item(self, schema: Schema, index: int) -> list[Schema]:
        if not any(schema.known(name) for name in ("items", "prefixItems")):
            return []
        part = self._reader.own_items(schema)
        inner = part.prefix[index] if index < len(part.prefix) else part.rest
        return [] if inner is None else [inner]

    # --- what refuses

    def _blamed(self, schema: Schema, level: _Level, longer: bytes | None) -> Iterator[str]:
        """The pointers of the keywords of a schema, and of what it applies to the same value, that refuse.

        `longer`: the text of the value that is asked about; None: that it ends.
        """
        for keyword in self._keywords(schema):
            if self._refuses(self._part(schema, keyword), level.text, longer):
                if keyword in _UNEVALUATED and self._refuses(self._without(schema, *_UNEVALUATED), level.text, longer):
                    continue
                inner = [
                    pointer
                    for branch in self._branches(schema, keyword, level.text, level.value.keys)
                    for pointer in self._blamed(branch, level, longer)
                ]
                yield from inner or [schema.at(keyword)]

    def _part(self, schema: Schema, keyword: str) -> Schema:
        """A schema with this keyword alone; with all of them if it is `unevaluated...`, of what the others leave."""
        if keyword in _UNEVALUATED:
            return schema
        assert isinstance(schema.value, dict)
        beside = {name: schema.value[name] for name in _BESIDE.get(keyword, ()) if name in schema.value}
        value = {keyword: schema.get(keyword), **{name: _open(name, beside[name]) for name in beside}}
        return self._changed(schema, (keyword,), value)

    def _without(self, schema: Schema, *keywords: str) -> Schema:
        """A schema without some keywords."""
        assert isinstance(schema.value, dict)
        left = {name: value for name, value in schema.value.items() if name not in keywords}
        return self._changed(schema, ("not", *keywords), left)

    def _changed(self, schema: Schema, key: tuple[str, ...], value: dict[str, Json]) -> Schema:
        """A schema with other keywords at the same place, in a document of its own: what stands in them differs."""
        if (schema, key) not in self._parts:
            document = replace(schema.document)
            constraints = tuple(filter(ENFORCED[document.draft].__contains__, value))
            self._parts[schema, key] = Schema(
                document, schema.pointer, value, schema.base, scope=schema.scope, constraints=constraints
            )
        return self._parts[schema, key]

    def _refuses(self, schema: Schema, text: bytes, longer: bytes | None) -> bool:
        """Whether it allows the text, and not the longer one."""
        after = self._asked((schema,), text if longer is None else longer, longer is None)
        return after is False and self._asked((schema,), text, False) is True

    # --- the judge

    def _is_open(self, schemas: tuple[Schema, ...], text: bytes) -> bool:
        return self._asked(schemas, text, False) is not False

    def _asked(self, schemas: tuple[Schema, ...], text: bytes, is_whole: bool) -> bool | None:
        """Whether a text is one of the values that satisfy all of the schemas, or its beginning; None: not known."""
        if schemas not in self._judges:
            self._judges[schemas] = None if len(self._judges) >= MOST_JUDGED else self._judge(schemas)
        judge = self._judges[schemas]
        return None if judge is None else judge(text, is_whole)

    def _judge(self, schemas: tuple[Schema, ...]) -> Judge | None:
        try:
            expander = Expander(self._reader, self._options, self._limits)
            lowering = Lowering(self._library, expander, self._options, self._limits)
            return self._compiled(lowering.grammar(asked=False, of=schemas))
        except (GuidedError, RecursionError):  # it is not enforced alone, or too large
            return None


def _open(keyword: str, value: Json) -> Json:
    """The value of a keyword with schemas that allow anything."""
    if keyword in ("properties", "patternProperties") and isinstance(value, dict):
        return dict.fromkeys(value, True)
    return [True] * len(value) if keyword in ("prefixItems", "items") and isinstance(value, list) else value
