"""Checks the size limits of OpenAI's strict mode. In: a schema. Out: a remark for each exceeded limit.

Source of the limits: https://platform.openai.com/docs/guides/structured-outputs ("Supported schemas"). That page does
not define how levels are counted. Here each object is one level, those behind a reference included. A reference
inside its own target adds no levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from guided.errors import LimitExceeded
from guided.frontends.json_schema.check import Entry
from guided.frontends.json_schema.documents.source_spans import reference_target
from guided.frontends.openai.parts import schemas_in

__all__ = ["limit_remarks"]

_JsonObject: TypeAlias = dict[str, Any]

_MAX_LEVELS: Final = 10
_MAX_MEMBERS: Final = 5000
_MAX_REFERENCES: Final = 100  # references in a row, as the error says; the true limit is Python's stack
_MAX_CHARACTERS: Final = 120_000
_MAX_VALUES: Final = 1000
_LARGE_ENUMERATION: Final = 250  # values of one enumeration
_MAX_LARGE_ENUMERATION_CHARACTERS: Final = 15_000  # characters of the values of such an enumeration


def limit_remarks(schema: _JsonObject) -> Iterator[Entry]:
    """A remark for each exceeded limit.

    Raises:
        LimitExceeded: references lead to references, too many times for Python's stack.
    """
    members = values = characters = 0
    for pointer, subschema in _all_schemas(schema):
        for keyword in ("properties", "$defs", "definitions"):
            names = subschema.get(keyword, ())
            characters += sum(map(len, names))
            members += len(names) if keyword == "properties" else 0
        enum_values = subschema.get("enum", ()) if isinstance(subschema.get("enum"), list) else ()
        constants = [subschema["const"]] if "const" in subschema else []
        strings = [string for string in (*enum_values, *constants) if isinstance(string, str)]
        length = sum(map(len, strings))
        characters, values = characters + length, values + len(enum_values)
        if (
            len(enum_values) > _LARGE_ENUMERATION
            and len(strings) == len(enum_values)
            and length > _MAX_LARGE_ENUMERATION_CHARACTERS
        ):
            yield _limit_remark(
                f"{pointer}/enum",
                f"characters in more than {_LARGE_ENUMERATION} values",
                length,
                _MAX_LARGE_ENUMERATION_CHARACTERS,
            )
    if members > _MAX_MEMBERS:
        yield _limit_remark("", "properties", members, _MAX_MEMBERS)
    if values > _MAX_VALUES:
        yield _limit_remark("", "values of enumerations", values, _MAX_VALUES)
    if characters > _MAX_CHARACTERS:
        yield _limit_remark("", "characters of names and values", characters, _MAX_CHARACTERS)
    try:
        levels = _Levels(schema).depth(schema)
    except RecursionError:
        raise LimitExceeded("depth", _MAX_REFERENCES + 1, _MAX_REFERENCES, fixed=True) from None
    if levels > _MAX_LEVELS:
        yield _limit_remark("", "levels of objects", levels, _MAX_LEVELS)


def _limit_remark(pointer: str, what: str, count: int, limit: int) -> Entry:
    reason = f"it has {count} {what}, but at most {limit} are allowed"
    hint = "make the schema smaller, or split the request"
    return Entry(pointer, pointer.rpartition("/")[2], "refused", reason, hint)


def _all_schemas(schema: _JsonObject) -> Iterator[tuple[str, _JsonObject]]:
    work: list[tuple[str, Any]] = [("", schema)]
    while work:
        pointer, value = work.pop()
        if isinstance(value, dict):
            yield pointer, value
            work += [(pointer + relative_pointer, subschema) for relative_pointer, subschema in schemas_in(value)]


class _Levels:
    """Measures how deeply schemas with "type": "object" nest."""

    def __init__(self, root: _JsonObject) -> None:
        self._root, self._depths = root, dict[str, int]()

    def depth(self, schema: Any) -> int:
        """The nesting depth of a schema, including itself."""
        if not isinstance(schema, dict):
            return 0
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in self._depths:
            self._depths[reference] = 0
            self._depths[reference] = self.depth(reference_target(self._root, reference))
        inner = [
            subschema
            for pointer, subschema in schemas_in(schema)
            if not pointer.startswith(("/$defs/", "/definitions/"))
        ]
        target_depth = [self._depths[reference]] if isinstance(reference, str) else []
        return max([*target_depth, *map(self.depth, inner)], default=0) + (schema.get("type") == "object")
