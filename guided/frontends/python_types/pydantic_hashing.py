"""Finds types whose values cannot be items of a set. In: the core schema of an item. Out: the name of such a type.

Pydantic reads the items of a set before it adds them, so their types decide:

    list, dict, set, TypedDict      not hashable
    tuple, NamedTuple, A | B        hashable if all parts are
    models, dataclasses             hashable if they define `__hash__`; if it was generated (`frozen=True`), also all
                                    its fields must be hashable
    results of validators           hashable, since a validator may return any value
    Any                             the caller restricts it to `HASHABLE_VALUES`; inside another type it is not hashable

Cost: linear in the core schema.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["HASHABLE_VALUES", "UNHASHABLE_HINT", "find_unhashable_type"]

HASHABLE_VALUES: Final = {"type": ["null", "boolean", "number", "string"]}
"""The values of JSON that are hashable in Python."""
UNHASHABLE_HINT: Final = "a set can contain tuples, frozensets and frozen dataclasses; otherwise write list[...]"
_UNHASHABLE_KINDS: Final = {
    **{kind: kind for kind in ("list", "deque", "dict", "set")},
    "ordered-dict": "OrderedDict",
    "counter": "Counter",
    "typed-dict": "TypedDict",
    "any": "Any",
}
_INNER_KEYS: Final = ("schema", "lax_schema", "json_schema", "arguments_schema")


def find_unhashable_type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str | None:
    """The name of a type in a core schema whose values are not hashable; None if all values of the schema are.

    Args:
        schema: a core schema, or a field of one.
        definitions: the core schemas to which others refer.
    """
    return _Finder(definitions).find(schema)


class _Finder:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._open: set[str] = set()

    def find(self, schema: Mapping[str, Any]) -> str | None:
        kind = schema.get("type", "")  # an argument of a function has no type
        if kind in _UNHASHABLE_KINDS:
            return _UNHASHABLE_KINDS[kind]
        if kind == "definition-ref":
            return self._find_in_definition(schema["schema_ref"])
        if kind in ("model", "dataclass"):
            return self._find_in_class(schema)
        if kind in ("function-after", "function-wrap"):
            return self._find_in_result(schema)
        return self._first(_parts(schema))

    def _first(self, schemas: Iterable[Mapping[str, Any]]) -> str | None:
        return next(filter(None, map(self.find, schemas)), None)

    def _find_in_definition(self, reference: str) -> str | None:
        if reference in self._open or reference not in self._definitions:
            return None
        self._open.add(reference)
        return self.find(self._definitions[reference])

    def _find_in_class(self, schema: Mapping[str, Any]) -> str | None:
        cls = schema["cls"]
        if cls.__hash__ is None:
            return str(cls.__name__)
        if not _has_generated_hash(cls):
            return None
        if dataclasses.is_dataclass(cls):
            hashed = {field.name for field in dataclasses.fields(cls) if field.compare and field.hash is not False}
            return self._first(field for field in _fields(schema) if field["name"] in hashed)
        return self._first(_fields(schema))

    def _find_in_result(self, schema: Mapping[str, Any]) -> str | None:
        """The result of a validator is the value that it validates, if the validator belongs to pydantic."""
        function = schema["function"]["function"]
        function = getattr(function, "func", function)
        if isinstance(function, type):
            return None if function.__hash__ is not None else function.__name__
        return self.find(schema["schema"]) if str(function.__module__).startswith("pydantic.") else None


def _parts(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The core schemas of the parts that a value contains, or of the types that it may have."""
    kind = schema.get("type")
    if kind == "tuple":
        return list(schema["items_schema"])
    if kind in ("union", "tagged-union"):
        choices = schema["choices"].values() if kind == "tagged-union" else schema["choices"]
        return [choice[0] if isinstance(choice, tuple) else choice for choice in choices]
    if kind == "chain":
        steps = [step for step in schema["steps"] if step["type"] not in ("any", "is-instance")]
        return steps[-1:]
    if kind == "json":
        return [schema.get("schema", {"type": "any"})]
    if kind in ("arguments", "named-tuple"):
        return list(schema["arguments_schema" if kind == "arguments" else "fields"])
    if kind == "frozendict":
        return [schema["values_schema"]] if "values_schema" in schema else [{"type": "any"}]
    return [schema[key] for key in _INNER_KEYS if key in schema]


def _fields(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The fields of a model or a dataclass; of a root model, its value. Validators may enclose them."""
    inner = schema["schema"]
    if schema.get("root_model"):
        return [inner]
    while "fields" not in inner and "schema" in inner:
        inner = inner["schema"]
    fields = inner.get("fields", [])
    return list(fields.values()) if isinstance(fields, dict) else fields


def _has_generated_hash(cls: type) -> bool:
    """Whether pydantic or `dataclasses` generated `__hash__` from the fields."""
    code = getattr(cls.__hash__, "__code__", None)
    module = str(getattr(cls.__hash__, "__module__", ""))
    return code is not None and (code.co_filename == "<string>" or module.startswith("pydantic."))
