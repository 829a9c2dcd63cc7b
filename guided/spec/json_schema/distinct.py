"""`uniqueItems` where few values are left for an item. In: a shape of arrays. Out: shapes that together are it.

While an array is written, an item that was there before is refused (`Distinct` of the IR), and there is always
another, as long as infinitely many values are allowed. Where only finitely many are, two things are settled here:
items after the prefixes cannot outnumber their values; and an item of the prefixes that has fewer values than there are
others must not find them taken, so there is a case for each choice of its value, which no other item may then be. Cost:
the product of the values of such items, bounded by MOST_CASES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from guided.errors import UnsupportedError
from guided.spec.json_schema.negation import Negation
from guided.spec.json_schema.resolve import Schema
from guided.spec.json_schema.shape import ArrayPart, Shape, Window
from guided.spec.json_schema.values import Json, canonical

__all__ = ["MOST_CASES", "distinct"]

MOST_CASES = 64

_Few = Callable[[Shape, int], "tuple[Json, ...] | None"]


def distinct(shape: Shape, few_items: _Few, negation: Negation) -> Iterator[Shape]:
    """The cases of a shape with `unique`. `few_items`: the values of an item, if they are few."""
    at, prefix = shape.unique, shape.prefix_length
    assert at is not None
    rest = few_items(shape, prefix)
    window = shape.items
    if rest is not None:
        window = window.meet(Window(0, prefix + len(rest)))
    if window.is_empty:
        yield shape._replace(items=window)
        return
    # An item finds a value as long as there are more values than items before it, and, where there are cases, items
    # whose values are chosen.
    few = [_at_most(few_items(shape, index), prefix - 1) for index in range(prefix)]
    if prefix and window.low > prefix and _at_most(rest, window.low - 1) is not None:
        _refuse(at)  # the first items may take what the others need
    if all(found is None for found in few):
        yield shape._replace(items=window)
        return
    last = max(index for index, found in enumerate(few) if found is not None) + 1
    made = 0
    for length in range(last + 1):
        lengths = window.meet(Window(length, length) if length < last else Window(last))
        if lengths.is_empty:
            continue
        places = [index for index in range(length) if few[index] is not None]
        for chosen in product(*(few[index] or () for index in places)):
            if len({canonical(value) for value in chosen}) < len(chosen):
                continue
            made += 1
            if made > MOST_CASES:
                _refuse(at)
            taken = _taken(dict(zip(places, chosen, strict=True)), length, negation, at)
            yield shape._replace(items=lengths, arrays=(*shape.arrays, taken))


def _at_most(values: tuple[Json, ...] | None, count: int) -> tuple[Json, ...] | None:
    return values if values is None or len(values) <= count else None


def _taken(chosen: dict[int, Json], length: int, negation: Negation, at: Schema) -> ArrayPart:
    """The chosen items, and no other item equal to one of them."""
    if not chosen:
        return ArrayPart((), None)
    others = negation.of(negation.one_of(at, tuple(chosen.values())))
    prefix = tuple(negation.one_of(at, (chosen[index],)) if index in chosen else others for index in range(length))
    return ArrayPart(prefix, others)


def _refuse(at: Schema) -> None:
    raise UnsupportedError(
        "uniqueItems next to first items of few values, which others may take, is not enforced yet", pointer=at.where,
        hint="write the allowed arrays out with enum, or give the items values that differ",
    )  # fmt: skip
