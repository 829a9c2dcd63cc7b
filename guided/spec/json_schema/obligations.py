"""Obligations: "some item is in S", "some member is in S". In: a shape that holds them. Out: shapes that do not.

Whoever meets an obligation is an item of the prefixes, or a declared member: then that place has one more schema. Or
it is an item after the prefixes, or a member that no part declares: these are left to the text as *blocks*, each an
item (member) that must be there and satisfies all of the block; several obligations may be met by one, so the union
is over the ways to put them into blocks. Cost: the product of the places over the obligations; bounded by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import TypeVar

from guided.errors import UnsupportedError
from guided.spec.json_schema.keys import KeySet
from guided.spec.json_schema.shape import ArrayPart, ObjectPart, Shape, Window

__all__ = ["MOST_COUNTED", "counted_out", "obliged"]

MOST_COUNTED = 8

_Asked = TypeVar("_Asked")


def obliged(shape: Shape, is_closed: Callable[[Shape], bool], has: Callable[[KeySet, str], bool]) -> Iterator[Shape]:
    """The shapes that together are `shape`; `has` says whether a set of names has a name."""
    rest = tuple(name for name in shape.types if name not in ("array", "object"))
    plain = shape._replace(some_items=(), some_members=(), item_counts=())
    counted = shape.some_items or shape.item_counts
    others = rest + tuple(
        name
        for name, obligations in (("array", counted), ("object", shape.some_members))
        if name in shape.types and not obligations
    )
    if others:
        yield plain._replace(types=others)
    if "array" in shape.types and counted:
        arrays = plain._replace(types=("array",), some_items=shape.some_items, item_counts=shape.item_counts)
        for settled in _arrays(arrays):
            yield from _counts(settled)
    if "object" in shape.types and shape.some_members:
        yield from _objects(plain._replace(types=("object",), some_members=shape.some_members), is_closed, has)


def _arrays(shape: Shape) -> Iterator[Shape]:
    if not shape.some_items:
        yield shape
        return
    some, left = shape.some_items[0], shape._replace(some_items=shape.some_items[1:])
    longest = shape.prefix_length
    # Later obligations may begin after items that this one may use: the prefixes are made long enough for all of them.
    start = max(later.start for later in shape.some_items)
    if start > longest:
        yield from _arrays(shape._replace(arrays=(*shape.arrays, ArrayPart((None,) * start, None))))
        return
    for at in range(some.start, longest):
        here = ArrayPart((*(None,) * at, some.schema), None)
        yield from _arrays(left._replace(items=left.items.meet(Window(at + 1)), arrays=(*left.arrays, here)))
    for blocks in _with(left.rest_blocks, some.schema):
        yield from _arrays(left._replace(rest_blocks=blocks))


def counted_out(shape: Shape, length: int) -> Iterator[Shape]:
    """For an array of so many items: each of them counts or not, and nothing is left to count.

    Raises:
        UnsupportedError: the items and the counts multiply beyond MOST_COUNTED.
    """
    if length * len(shape.item_counts) > MOST_COUNTED:
        raise UnsupportedError(
            f"an array of {length} items in enum or const next to minContains or maxContains is not enforced yet",
            pointer=shape.item_counts[0].schema.where,
            hint="keep the values that have the right number of such items, and drop contains",
        )
    yield from _counted(shape, length, length + 1)


def _counts(shape: Shape) -> Iterator[Shape]:
    """Each item of the prefixes counts or not; what is left to count is left to the items after them."""
    prefix = shape.prefix_length
    if not shape.item_counts or prefix == 0 or prefix * len(shape.item_counts) > MOST_COUNTED:
        yield shape
        return
    for length in range(prefix + 1):
        window = Window(length, None if length == prefix else length)
        yield from _counted(shape._replace(items=shape.items.meet(window)), length, prefix)


def _counted(shape: Shape, length: int, prefix: int) -> Iterator[Shape]:
    for choices in product(product((True, False), repeat=length), repeat=len(shape.item_counts)):
        arrays, left = list(shape.arrays), []
        for counted, chosen in zip(shape.item_counts, choices, strict=True):
            arrays.append(ArrayPart(tuple(counted.schema if yes else counted.others for yes in chosen), None))
            low, high = counted.count.low - sum(chosen), counted.count.high
            left.append(replace(counted, count=Window(max(low, 0), None if high is None else high - sum(chosen))))
        if any(one.count.is_empty for one in left) or (length < prefix and any(one.count.low > 0 for one in left)):
            continue
        kept = tuple(one for one in left if one.count != Window() and length == prefix)
        yield shape._replace(arrays=tuple(arrays), item_counts=kept)


def _objects(shape: Shape, is_closed: Callable[[Shape], bool], has: Callable[[KeySet, str], bool]) -> Iterator[Shape]:
    if not shape.some_members:
        yield shape
        return
    some, left = shape.some_members[0], shape._replace(some_members=shape.some_members[1:])
    for name in dict.fromkeys((*shape.properties(), *shape.required)):
        if has(some.keys, name):
            required = tuple(dict.fromkeys((*left.required, name)))
            objects = left.objects if some.schema is None else (*left.objects, ObjectPart({name: some.schema}, None))
            yield from _objects(left._replace(required=required, objects=objects), is_closed, has)
    if not is_closed(shape):
        for blocks in _with(left.extra_blocks, some):
            yield from _objects(left._replace(extra_blocks=blocks), is_closed, has)


def _with(blocks: tuple[tuple[_Asked, ...], ...], schema: _Asked) -> Iterator[tuple[tuple[_Asked, ...], ...]]:
    """One more obligation: in one of the blocks, or in a block of its own."""
    for at, block in enumerate(blocks):
        yield (*blocks[:at], (*block, schema), *blocks[at + 1 :])
    yield (*blocks, (schema,))
