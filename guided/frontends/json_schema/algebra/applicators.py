"""Reads the keywords that apply other schemas to the same value. In: a schema with such a keyword. Out: groups of
schemas.

At least one schema of each group must hold. References and `allOf` produce groups of one schema. `anyOf` produces one
group with its branches. Complements (`negation.py`) express "not" and "exactly one".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema.algebra.exactly_one import exactly_one
from guided.frontends.json_schema.algebra.shape import ANYTHING, Shape, listed_scalars
from guided.frontends.json_schema.documents.keywords import REFERENCES
from guided.frontends.json_schema.documents.malformed import malformed_error, refuse_name_with_surrogate
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Json, canonical_key

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.reader import Reader

__all__ = ["APPLICATORS"]

_ENUMERATING_KEYWORDS = frozenset(("type", "enum", "const"))
_MIN_MERGED_BRANCHES = 4  # merging fewer branches does not pay


def _reference(reader: Reader, schema: Schema, keyword: str) -> list[tuple[Schema, ...]]:
    return [(reader.library.resolve(schema, keyword),)]


def _all_of(reader: Reader, schema: Schema) -> list[tuple[Schema, ...]]:
    return [(branch,) for branch in reader.branches(schema, "allOf")]


def _any_of(reader: Reader, schema: Schema) -> list[tuple[Schema, ...]]:
    branches = reader.branches(schema, "anyOf")
    return _merge_enumerations(reader, schema, branches, drops_repeated=False) or [branches]


def _one_of(reader: Reader, schema: Schema) -> list[tuple[Schema, ...]]:
    """A group that expresses "exactly one branch holds": each branch without the others that it may overlap."""
    branches = reader.branches(schema, "oneOf")
    if merged_group := _merge_enumerations(reader, schema, branches, drops_repeated=True):
        return merged_group
    return [exactly_one(reader, branches, reader.siblings[schema])]


def _merge_enumerations(
    reader: Reader, schema: Schema, branches: tuple[Schema, ...], *, drops_repeated: bool
) -> list[tuple[Schema, ...]]:
    """One group with the values of all branches as a single enumeration, if every branch only lists scalars. Otherwise,
    or if there are few branches, empty. With `drops_repeated`, values that several branches list are left out.
    """
    listed_values: dict[tuple[object, ...], Json] = {}
    repeated_keys = set[tuple[object, ...]]()
    for branch in branches:
        if (
            len(branches) < _MIN_MERGED_BRANCHES
            or not _ENUMERATING_KEYWORDS.issuperset(branch.constraints)
            or branch.constraints in ((), ("type",))
        ):
            return []
        try:
            values = listed_scalars(reader.read(branch).shape)
        except (SpecError, UnsupportedError):
            return []  # reported where the branch itself is read
        if values is None:
            return []
        branch_values = {canonical_key(value): value for value in values}
        repeated_keys.update(key for key in branch_values if key in listed_values)
        listed_values |= branch_values
    distinct_values = tuple(
        value for key, value in listed_values.items() if not (drops_repeated and key in repeated_keys)
    )
    return [
        (
            reader.negation.enumeration(schema, distinct_values)
            if distinct_values
            else reader.negation.make_empty_schema(schema),
        )
    ]


def _unevaluated(reader: Reader, schema: Schema, keyword: str) -> list[tuple[Schema, ...]]:
    rest_schema = reader.library.child(schema, keyword)
    if rest_schema.value is True:
        return []
    unevaluated_reader = reader.unevaluated
    return list(
        (unevaluated_reader.items if keyword == "unevaluatedItems" else unevaluated_reader.members)(schema, rest_schema)
    )


def _not(reader: Reader, schema: Schema) -> list[tuple[Schema, ...]]:
    return [(reader.negation.complement_of(reader.library.child(schema, "not")),)]


def _if(reader: Reader, schema: Schema) -> list[tuple[Schema, ...]]:
    """The group that expresses: `if` and `then` hold, or `else` holds and `if` does not."""
    if not (schema.has_keyword("then") or schema.has_keyword("else")):
        return []
    condition = reader.library.child(schema, "if")
    cases = []
    for name, case_condition in (("then", condition), ("else", reader.negation.complement_of(condition))):
        branches = ((reader.library.child(schema, name),),) if schema.has_keyword(name) else ()
        cases.append(reader.negation.derive(schema, ANYTHING, (case_condition,), *branches))
    return [tuple(cases)]


def _dependencies(reader: Reader, schema: Schema, keyword: str) -> list[tuple[Schema, ...]]:
    """For each name, a group: the member is absent, or it is present and its dependency (names or a schema) holds."""
    value = schema.get(keyword)
    if not isinstance(value, dict):
        raise malformed_error(schema, keyword, "an object", value)
    groups: list[tuple[Schema, ...]] = []
    for name, dependency in value.items():
        refuse_name_with_surrogate(name, schema, keyword)
        names: tuple[str, ...] = (name,)
        branches: tuple[tuple[Schema, ...], ...] = ()
        if isinstance(dependency, list) and keyword != "dependentSchemas":
            names = (name, *reader.read_names(dependency, schema, keyword, name))
        elif keyword == "dependentRequired":
            raise malformed_error(schema, keyword, "an object of lists of names", dependency, name)
        else:
            branches = ((reader.library.child(schema, keyword, name),),)
        presence = Shape(types=("object",), required=tuple(dict.fromkeys(names)))
        present_case = reader.negation.derive(schema, presence, *branches)
        groups.append((reader.negation.without_member(schema, name), present_case))
    return groups


APPLICATORS: dict[str, Callable[[Reader, Schema], list[tuple[Schema, ...]]]] = {
    **{keyword: partial(_reference, keyword=keyword) for keyword in REFERENCES},
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "unevaluatedProperties": partial(_unevaluated, keyword="unevaluatedProperties"),
    "unevaluatedItems": partial(_unevaluated, keyword="unevaluatedItems"),
    "if": _if,
    "dependencies": lambda reader, schema: _dependencies(reader, schema, "dependencies"),
    "dependentRequired": lambda reader, schema: _dependencies(reader, schema, "dependentRequired"),
    "dependentSchemas": lambda reader, schema: _dependencies(reader, schema, "dependentSchemas"),
}
