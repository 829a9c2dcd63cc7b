"""Checks the size limits of OpenAI's strict mode. In: a schema. Out: a remark for each exceeded limit.

The limits are those of https://platform.openai.com/docs/guides/structured-outputs ("Supported schemas"). That page does
not define how levels are counted. Here each object is one level, even if a reference leads to it, and a recursive
reference counts once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from guided.frontends.json_schema.check import Entry
from guided.frontends.openai.parts import schemas_in, target

__all__ = ["limit_remarks"]

_Json: TypeAlias = dict[str, Any]

_MAX_LEVELS: Final = 10
_MAX_MEMBERS: Final = 5000
_MAX_CHARACTERS: Final = 120_000
_MAX_VALUES: Final = 1000
_LARGE_ENUMERATION: Final = 250  # values of one enumeration
_MAX_LARGE_CHARACTERS: Final = 15_000  # characters of the values of such an enumeration


def limit_remarks(schema: _Json) -> Iterator[Entry]:
    """A remark for each exceeded limit."""
    members = values = characters = 0
    for at, each in _schemas(schema):
        for keyword in ("properties", "$defs", "definitions"):
            names = each.get(keyword, ())
            characters += sum(map(len, names))
            members += len(names) if keyword == "properties" else 0
        enum_values = each.get("enum", ()) if isinstance(each.get("enum"), list) else ()
        constants = [each["const"]] if "const" in each else []
        texts = [text for text in (*enum_values, *constants) if isinstance(text, str)]
        length = sum(map(len, texts))
        characters, values = characters + length, values + len(enum_values)
        if len(enum_values) > _LARGE_ENUMERATION and len(texts) == len(enum_values) and length > _MAX_LARGE_CHARACTERS:
            yield _exceeded_limit(
                f"{at}/enum", f"characters in more than {_LARGE_ENUMERATION} values", length, _MAX_LARGE_CHARACTERS
            )
    if members > _MAX_MEMBERS:
        yield _exceeded_limit("", "properties", members, _MAX_MEMBERS)
    if values > _MAX_VALUES:
        yield _exceeded_limit("", "values of enumerations", values, _MAX_VALUES)
    if characters > _MAX_CHARACTERS:
        yield _exceeded_limit("", "characters of names and values", characters, _MAX_CHARACTERS)
    if (levels := _Levels(schema).depth(schema)) > _MAX_LEVELS:
        yield _exceeded_limit("", "levels of objects", levels, _MAX_LEVELS)


def _exceeded_limit(pointer: str, what: str, count: int, limit: int) -> Entry:
    reason = f"it has {count} {what}, but at most {limit} are allowed"
    hint = "make the schema smaller, or split the request"
    return Entry(pointer, pointer.rpartition("/")[2], "refused", reason, hint)


def _schemas(schema: _Json) -> Iterator[tuple[str, _Json]]:
    work: list[tuple[str, Any]] = [("", schema)]
    while work:
        at, value = work.pop()
        if isinstance(value, dict):
            yield at, value
            work += [(at + below, each) for below, each in schemas_in(value)]


class _Levels:
    """Measures how deeply objects nest."""

    def __init__(self, root: _Json) -> None:
        self._root, self._depths = root, dict[str, int]()

    def depth(self, schema: Any) -> int:
        """The nesting depth of a schema, including itself."""
        if not isinstance(schema, dict):
            return 0
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in self._depths:
            self._depths[reference] = 0
            self._depths[reference] = self.depth(target(self._root, reference))
        inner = [each for at, each in schemas_in(schema) if not at.startswith(("/$defs/", "/definitions/"))]
        below = [self._depths[reference]] if isinstance(reference, str) else []
        return max([*below, *map(self.depth, inner)], default=0) + (schema.get("type") == "object")
