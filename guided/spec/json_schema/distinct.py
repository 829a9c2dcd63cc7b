"""`uniqueItems` where few values are left for an item. In: a shape of arrays. Out: shapes that together are it.

While an array is written, an item that was there before is refused (`Distinct` of the IR), and there is always
another, as long as infinitely many values are allowed. Where only finitely many are, two things are settled here:
items after the prefixes cannot outnumber their values; and an item of the prefixes with few values must not find them
taken, so there is a case for each choice of its value, which no other item may then be. Cost: the product of the values
of such items, bounded by MOST_CASES.

Not done: counting the objects and arrays that satisfy a closed schema; they are taken to be without number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from guided.errors import UnsupportedError
from guided.spec.json_schema.negation import Negation
from guided.spec.json_schema.resolve import Schema
from guided.spec.json_schema.shape import ArrayPart, Shape, Window
from guided.spec.json_schema.values import Decimal10, Json, canonical

__all__ = ["MOST_CASES", "MOST_VALUES", "distinct", "values_of"]

MOST_CASES = 64
MOST_VALUES = 1000

_Values = Callable[[tuple[Schema, ...]], "tuple[Json, ...] | None"]
_Item = Callable[[Shape, int], "tuple[Schema, ...]"]


def values_of(shape: Shape) -> tuple[Json, ...] | None:
    """The values of a shape if they are few; None where there may be more than MOST_VALUES."""
    if shape.values is not None:
        return shape.values
    out: list[Json] = []
    for name in shape.types:
        found = _of_type(shape, name)
        if found is None or len(out) + len(found) > MOST_VALUES:
            return None
        out += found
    return tuple(out)


def _of_type(shape: Shape, name: str) -> list[Json] | None:
    if name == "null":
        return [None]
    if name == "boolean":
        return [True, False]
    if name == "number":
        return _integers(shape)
    if name == "string":
        return [""] if shape.length.high == 0 else None
    empty: Json = [] if name == "array" else {}
    return [empty] if (shape.items if name == "array" else shape.members).high == 0 else None


def _integers(shape: Shape) -> list[Json] | None:
    numbers = shape.numbers.closed()
    if numbers.low is None or numbers.high is None:
        return None
    low, high = numbers.low.value.small_int(), numbers.high.value.small_int()
    if numbers.low.value == numbers.high.value:
        return [numbers.low.value]
    if not numbers.integral or low is None or high is None or high - low >= MOST_VALUES:
        return None
    every = (Decimal10.parse(str(value)) for value in range(low, high + 1))
    return [value for value in every if value in numbers]


def distinct(shape: Shape, item: _Item, values: _Values, negation: Negation) -> Iterator[Shape]:
    """The cases of a shape with `unique`. `item`: the schemas of an item; `values`: what they leave, if it is few."""
    at, prefix = shape.unique, shape.prefix_length
    assert at is not None
    rest = values(item(shape, prefix))
    window = shape.items
    if rest is not None:
        window = window.meet(Window(0, prefix + len({canonical(value) for value in rest})))
    if window.is_empty:
        yield shape._replace(items=window)
        return
    few = [values(item(shape, index)) for index in range(prefix)]
    if all(found is None for found in few):
        if rest is not None and prefix and window.low > prefix:
            _refuse(at)  # the first items may take what the others need
        yield shape._replace(items=window)
        return
    last = max(index for index, found in enumerate(few) if found is not None) + 1
    if rest is not None and window.low > prefix:
        _refuse(at)
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


def _taken(chosen: dict[int, Json], length: int, negation: Negation, at: Schema) -> ArrayPart:
    """The chosen items, and no other item equal to one of them."""
    if not chosen:
        return ArrayPart((), None)
    one_of = negation.derived(at, Shape(values=tuple(chosen.values())))
    others = negation.of(one_of)
    prefix = tuple(
        negation.derived(at, Shape(values=(chosen[index],))) if index in chosen else others for index in range(length)
    )
    return ArrayPart(prefix, others)


def _refuse(at: Schema) -> None:
    raise UnsupportedError(
        "uniqueItems next to first items of few values, which others may take, is not enforced yet", pointer=at.where,
        hint="write the allowed arrays out with enum, or give the items values that differ",
    )  # fmt: skip
