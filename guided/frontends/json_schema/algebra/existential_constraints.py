"""Resolves obligations: "some item is in S", "some member is in S". In: a shape with obligations. Out: shapes without
them.

Obligations come from `contains`, and from complements: the complement of "all items are in S" is "some item is not in
S". A shape describes each item by itself, so it cannot express "some". Therefore the result is the union over the ways
to meet an obligation:

- an item at a position of the prefix, or a declared member, meets it: this location also gets the schema
- an item after the prefix, or an additional member, meets it: the obligation joins a *block*, a required item (member)
  that satisfies all schemas of the block. One item may meet several obligations, so the union includes all ways to
  group obligations into blocks

Example: {"prefixItems": [A], "contains": B} is the union of: the first item is in A and B; the first is in A and some
later one in B.

`count_graph.py` handles items that are counted. Cost: the product, over the obligations, of the number of locations;
the caller bounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from guided.frontends.json_schema.algebra.keys import KeySet
from guided.frontends.json_schema.algebra.shape import ArrayPart, ObjectPart, Shape, SomeMember, Window
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Json

__all__ = ["depends_on_spelling", "filter_constants", "item_cases", "member_cases", "split_by_type"]

_Obligation = TypeVar("_Obligation")


def split_by_type(shape: Shape) -> tuple[Shape | None, Shape | None, Shape | None]:
    """The parts of a shape for arrays, for objects, and for all other types."""
    base = shape._replace(some_items=(), some_members=(), item_counts=(), unique=None, repeated=None)
    arrays = base._replace(
        types=("array",), some_items=shape.some_items, item_counts=shape.item_counts, unique=shape.unique,
        repeated=shape.repeated,
    )  # fmt: skip
    objects = base._replace(types=("object",), some_members=shape.some_members)
    other_types = tuple(name for name in shape.types if name not in ("array", "object"))
    return (
        arrays if "array" in shape.types else None,
        objects if "object" in shape.types else None,
        base._replace(types=other_types) if other_types else None,
    )


def filter_constants(shape: Shape, fits: Callable[[Shape, Json], bool]) -> Shape:
    """A shape of constants without its obligations, and without the constants that do not meet them. `fits` decides
    whether a value is in a shape.

    The shape is returned unchanged if the obligations depend on the spelling of the constants.
    """
    if shape.values is None or not (shape.some_items or shape.some_members or shape.item_counts):
        return shape
    schemas = [some_item.schema for some_item in shape.some_items]
    schemas += [some_member.schema for some_member in shape.some_members if some_member.schema is not None]
    if depends_on_spelling(schemas):
        return shape
    any_constant = shape._replace(values=None)
    values = tuple(value for value in shape.values if fits(any_constant, value))
    return shape._replace(values=values, some_items=(), some_members=(), item_counts=())


def depends_on_spelling(schemas: Iterable[Schema]) -> bool:
    """Whether a value may satisfy these schemas in some spellings only, as draft 4's integers do."""
    return any(schema.document.draft == "draft4" for schema in schemas)


def item_cases(shape: Shape) -> Iterator[Shape]:
    """Shapes of arrays without `some_items`, whose union is `shape`."""
    if not shape.some_items:
        yield shape
        return
    obligation, rest = shape.some_items[0], shape._replace(some_items=shape.some_items[1:])
    prefix_length = shape.prefix_length
    # An item of a block comes after the prefix and may meet any obligation, so the prefix must reach every `start`.
    start = max(other.start for other in shape.some_items)
    if start > prefix_length:
        yield from item_cases(shape._replace(arrays=(*shape.arrays, ArrayPart((None,) * start, None))))
        return
    for index in range(obligation.start, prefix_length):
        constraint = ArrayPart((*(None,) * index, obligation.schema), None)
        yield from item_cases(
            rest._replace(item_window=rest.item_window.meet(Window(index + 1)), arrays=(*rest.arrays, constraint))
        )
    for blocks in _add_to_blocks(rest.rest_blocks, obligation.schema):
        yield from item_cases(rest._replace(rest_blocks=blocks))


def member_cases(
    shape: Shape,
    is_closed: Callable[[Shape], bool],
    contains: Callable[[KeySet, str], bool],
    names_if_few: Callable[[Shape, SomeMember], tuple[str, ...] | None],
) -> Iterator[Shape]:
    """Shapes of objects without `some_members`, whose union is `shape`.

    `contains` decides whether a name is in a set of names. `names_if_few` returns the names of additional members, or
    None if they are many.
    """
    if not shape.some_members:
        yield shape
        return
    obligation, rest = shape.some_members[0], shape._replace(some_members=shape.some_members[1:])
    names = [name for name in dict.fromkeys((*shape.properties(), *shape.required)) if contains(obligation.keys, name)]
    extra_names = () if is_closed(shape) else names_if_few(rest, obligation)
    # If names are few, other members may use all names that could meet the obligation. So each name is a separate case.
    for name in (*names, *(extra_names or ())):
        required = tuple(dict.fromkeys((*rest.required, name)))
        objects = (
            rest.objects
            if obligation.schema is None
            else (*rest.objects, ObjectPart({name: obligation.schema}, None, declares=False))
        )
        yield from member_cases(rest._replace(required=required, objects=objects), is_closed, contains, names_if_few)
    if extra_names is None:
        for blocks in _add_to_blocks(rest.extra_blocks, obligation):
            yield from member_cases(rest._replace(extra_blocks=blocks), is_closed, contains, names_if_few)


def _add_to_blocks(
    blocks: tuple[tuple[_Obligation, ...], ...], obligation: _Obligation
) -> Iterator[tuple[tuple[_Obligation, ...], ...]]:
    """Add an obligation: to one of the blocks, or as a new block."""
    for index, block in enumerate(blocks):
        yield (*blocks[:index], (*block, obligation), *blocks[index + 1 :])
    yield (*blocks, (obligation,))
