"""`StreamEvent.partial`: the value so far is a prefix of the value, and has its type."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PrivateAttr

from guided.frontends.python_types.partial_values import partial_value
from guided.matching.constraint import JSON_VALUE, ValueParser
from tests.effort import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)


def is_prefix(partial: Any, whole: Any, *, strings: bool) -> bool:
    """Whether a value can grow into another one."""
    if isinstance(partial, dict) and isinstance(whole, dict):
        names = list(partial)
        return names == list(whole)[: len(names)] and all(
            is_prefix(partial[name], whole[name], strings=strings) for name in names
        )
    if isinstance(partial, list) and isinstance(whole, list):
        return len(partial) <= len(whole) and all(
            is_prefix(one, other, strings=strings) for one, other in zip(partial, whole, strict=False)
        )
    if strings and isinstance(partial, str) and isinstance(whole, str):
        return whole.startswith(partial)
    return type(partial) is type(whole) and partial == whole


@examples(200)
@given(JSON, st.booleans())
def test_json_grows(value: Any, ascii_only: bool):
    text = json.dumps(value, ensure_ascii=ascii_only)
    for end in range(len(text)):
        partial = JSON_VALUE.partial(text[:end])
        assert partial is None or is_prefix(partial, value, strings=True), (text[:end], partial)
    whole = JSON_VALUE.partial(text + " ")
    assert whole == value


@dataclass
class Point:
    x: int
    y: int


class Item(BaseModel):
    name: str
    price: Annotated[int, Field(ge=0)] = 7


class Order(BaseModel):
    number: str
    items: list[Item]
    at: Point | None = None


class Row(TypedDict):
    a: int
    b: str


def test_a_model_has_its_complete_fields():
    parse = ValueParser(Order.model_validate_json, True, Order)
    text = '{"number": "A-1", "items": [{"name": "tea", "price": 3}, {"name": "cof'
    partial = parse.partial(text)
    assert isinstance(partial, Order) and partial.number == "A-1" and partial.at is None
    assert partial.model_fields_set == {"number", "items"}
    assert partial.items[0] == Item(name="tea", price=3) and isinstance(partial.items[1], Item)
    assert partial.items[1].model_fields_set == set() and partial.items[1].price == 7
    assert parse.partial('{"number": "A-') == Order.model_construct(_fields_set=set())
    whole = text + 'fee", "price": 0}], "at": {"x": 1, "y": 2}}'
    assert parse.partial(whole) == Order.model_validate_json(whole)


def test_other_types():
    assert partial_value(list[Point], [{"x": 1, "y": 2}, {"x": 3}]) == [Point(1, 2)]
    assert partial_value(Point, {"x": 1}) == {"x": 1}
    assert partial_value(dict[str, Point], {"a": {"x": 1, "y": 2}, "b": {}}) == {"a": Point(1, 2)}
    assert partial_value(Row, {"a": 1}) == {"a": 1}
    assert partial_value(int | str, 3) == 3
    assert ValueParser().partial("ab") == "ab"


def test_events_have_the_value_so_far():
    pytest.importorskip("torch", reason="torch is not installed")
    from tests.server_support import small_engine

    engine = small_engine()
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}, "required": ["a"]}
    for seed in range(5):
        events = list(engine.stream("x", schema, max_tokens=60, temperature=1.5, seed=seed))
        value = events[-1].partial
        assert value == events[-1].result.value == json.loads(events[-1].result.text)
        for event in events:
            assert event.partial is None or is_prefix(event.partial, value, strings=True)
    typed = list(engine.stream("x", list[Point], max_tokens=120, temperature=1.5, seed=1))
    assert typed[-1].partial == typed[-1].result.value
    assert all(isinstance(point, Point) for event in typed for point in event.partial or [])
    assert {event.partial for event in engine.stream("x", max_tokens=3)} == {None}
    pattern = list(engine.stream("x", "[ab]{4}", max_tokens=9))
    assert [event.partial for event in pattern] == [pattern[-1].result.text[:end] for end in (1, 2, 3, 4, 4)]


def test_lists_grow_below_their_least_length():
    class Pair(BaseModel):
        both: Annotated[list[int], Field(min_length=2)]

    parse = ValueParser(Pair.model_validate_json, True, Pair)
    assert parse.partial('{"both": [1, ').both == [1]
    assert partial_value(Annotated[list[Point], Field(min_length=2)], [{"x": 1, "y": 2}, {}]) == [Point(1, 2)]


def test_models_with_aliases_factories_and_hooks():
    class Odd(BaseModel):
        first: int = Field(validation_alias=AliasChoices("x", "y"))
        second: str = Field(alias="third")
        third: str = Field(alias="second")
        late: list[int] = Field(default_factory=list)

        def model_post_init(self, context: Any) -> None:
            assert self.first and self.second and self.third

    partial = partial_value(Odd, {"x": 3, "third": "a"})
    assert (partial.first, partial.second, partial.late) == (3, "a", []) and not hasattr(partial, "third")
    assert partial_value(Odd, {}).model_fields_set == set()
    whole = {"x": 3, "third": "a", "second": "b"}
    assert partial_value(Odd, whole).model_dump() == Odd.model_validate(whole).model_dump()


def test_models_with_private_attributes_and_extra_members():
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        x: int = 0
        _factor: int = 2
        _seen: list[int] = PrivateAttr(default_factory=lambda: [7])
        _unset: int

        @property
        def scaled(self) -> int:
            return self.x * self._factor

    partial = partial_value(Open, {"x": 3, "note": "a"})
    assert partial == Open(x=3, note="a") and partial.model_fields_set == {"x", "note"}
    assert (partial.scaled, partial._seen, partial.note) == (6, [7], "a") and not hasattr(partial, "_unset")

    class Closed(BaseModel):
        x: int = 0

    assert partial_value(Closed, {"x": 3, "note": "a"}) == Closed(x=3)
