"""Generic classes and aliases with arguments. pydantic is the judge of the values, except where it does not bind a type
parameter of a base class.
"""

from __future__ import annotations

import dataclasses
import json
import random
import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import pytest

from guided import GrammarCompiler, GrammarMatcher, JsonSchemaOptions, to_openai_schema
from guided.errors import SpecError, UnsupportedError
from guided.frontends.python_types.partial_values import partial_value
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.python_types.value_readers import text_reader, value_of
from guided.matching.sentences import byte_vocabulary, draw_sentence

pydantic = pytest.importorskip("pydantic", reason="pydantic is optional")
typing_extensions = pytest.importorskip("typing_extensions", reason="typing_extensions comes with pydantic")

PLAIN = JsonSchemaOptions.for_generation().non_defaults()
COMPILER = GrammarCompiler(byte_vocabulary())
T = TypeVar("T")
U = TypeVar("U")
Ts = typing_extensions.TypeVarTuple("Ts")


@dataclasses.dataclass
class Box(Generic[T]):
    item: T
    more: list[T] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen(Generic[T]):
    item: T


@dataclasses.dataclass
class Pair(Box[list[T]], Generic[T, U]):
    """It uses the type parameter of its base class for something else."""

    second: U | None = None


@dataclasses.dataclass
class Numbers(Box[int]):
    name: str = ""


@dataclasses.dataclass
class Further(Numbers):
    box: Box[str] | None = None


@dataclasses.dataclass
class Tree(Generic[T]):
    value: T
    children: list[Tree[T]] = dataclasses.field(default_factory=list)


class Entry(typing_extensions.TypedDict, Generic[T]):
    value: T
    others: typing_extensions.NotRequired[list[T]]


class Named(Entry[list[U]], Generic[U]):
    key: U


class Row(NamedTuple, Generic[T]):
    value: T
    count: int = 0


@dataclasses.dataclass
class Many(Generic[typing_extensions.Unpack[Ts]]):
    items: tuple[typing_extensions.Unpack[Ts]]


alias = typing_extensions.TypeAliasType
Items = alias("Items", list[T], type_params=(T,))
Maybe = alias("Maybe", "T | None", type_params=(T,))
Nest = alias("Nest", "T | list[Nest[T]]", type_params=(T,))
Digit = Annotated[int, pydantic.Field(ge=0, le=9)]
Unhashable = Annotated[int, pydantic.Field(ge=0, le=9), ["metadata that is not hashable"]]

CASES: list[tuple[Any, list[Any], list[Any]]] = [
    (Box[int], [{"item": 1}, {"item": 1, "more": [2]}], [{"item": "a"}, {"item": 1, "more": ["a"]}, {}]),
    (Box[Box[str]], [{"item": {"item": "a"}}], [{"item": "a"}, {"item": {"item": 1}}]),
    (tuple[Box[int], Box[str]], [[{"item": 1}, {"item": "a"}]], [[{"item": "a"}, {"item": 1}]]),
    (Numbers, [{"item": 1, "name": "a"}], [{"item": "a"}]),
    (Further, [{"item": 1, "box": {"item": "a"}}], [{"item": "a"}, {"item": 1, "box": {"item": 1}}]),
    (Tree[int], [{"value": 1, "children": [{"value": 2}]}], [{"value": 1, "children": [{"value": "a"}]}]),
    (set[Frozen[int]], [[{"item": 1}, {"item": 2}]], [[{"item": 1}, {"item": 1}], [{"item": "a"}]]),
    (Entry[int], [{"value": 1}, {"value": 1, "others": [2]}], [{"value": "a"}, {"others": []}]),
    (Named[str], [{"value": ["a"], "key": "b"}], [{"value": "a", "key": "b"}, {"value": [1], "key": "b"}]),
    (Row[str], [["a", 1]], [[1, 1], ["a"]]),
    (list[Row[bool]], [[[True, 1]]], [[[1, 1]]]),
    (Items[int], [[], [1]], [["a"]]),
    (Maybe[Box[int]], [None, {"item": 1}], [{"item": "a"}]),
    (Nest[str], ["a", [["a"], "b"]], [1, [1]]),
    (dict[str, Items[Maybe[int]]], [{"a": [1, None]}], [{"a": ["b"]}]),
    (Box[Digit], [{"item": 9}], [{"item": 10}]),
    (Items[Digit], [[9]], [[10]]),
    (Items[Unhashable], [[9]], [[10]]),
    (Box[Unhashable], [{"item": 9}], [{"item": 10}]),
    (dict[str, Row[Unhashable]], [{"a": [9, 1]}], [{"a": [10, 1]}]),
    (Box[Digit] | Box[str], [{"item": 7}, {"item": "7"}], [{"item": []}]),
]


@pytest.mark.parametrize(("tp", "good", "bad"), CASES, ids=lambda part: str(part)[:40])
def test_values_of_generic_types(tp: Any, good: list[Any], bad: list[Any]) -> None:
    adapter, read = pydantic.TypeAdapter(tp), text_reader(tp)
    grammar = COMPILER.compile_type(tp, **PLAIN)
    texts = [draw_sentence(grammar, random.Random(seed), 60, any_character=False) for seed in range(20)]
    for text in [*map(json.dumps, good), *texts]:
        value, wanted = read(text), adapter.validate_json(text)
        assert (repr(value), value) == (repr(wanted), wanted)
    for value in bad:
        matcher = GrammarMatcher(grammar)
        assert not (matcher.accept_string(json.dumps(value)) and matcher.is_accepting())
        with pytest.raises(SpecError):
            value_of(tp, value)


def test_a_base_class_has_its_own_arguments() -> None:
    assert value_of(Pair[int, str], {"item": [1], "more": [[2]], "second": "a"}) == Pair([1], [[2]], "a")
    for value in ({"item": 1}, {"item": ["a"]}, {"item": [1], "second": 2}):
        with pytest.raises(SpecError):
            value_of(Pair[int, str], value)


def test_generic_types_in_other_uses() -> None:
    assert vars(value_of(Box[int], {"item": 1})) == {"item": 1, "more": []}
    assert partial_value(Entry[int], {"value": 1, "others": [1]}) == {"value": 1, "others": [1]}
    assert to_openai_schema(Box[int])["json_schema"]["name"] == "Box"

    def store(box: Box[int], rows: Items[Row[str]]) -> None: ...

    arguments = text_reader(store)('{"box": {"item": 1}, "rows": [["a", 1]]}').arguments
    assert arguments == {"box": Box(1), "rows": [Row("a", 1)]}


@pytest.mark.parametrize(
    ("tp", "message"),
    [
        (Box, "T has no JSON Schema"),
        (list[Entry], "T has no JSON Schema"),
        (Items, "T has no JSON Schema"),
        (Row[T], "T has no JSON Schema"),
        (set[Frozen[list[int]]], "Frozen is not hashable"),
        (Many[int, str], r"type parameters such as \*Ts and \*\*P are not supported"),
    ],
)
def test_refusals(tp: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        type_to_schema(tp)


NEW_SYNTAX = """
import dataclasses, typing

@dataclasses.dataclass
class Box[T]:
    item: T
    next: "Box[T] | None" = None

class Entry[T](typing.TypedDict):
    value: T

class Row[T](typing.NamedTuple):
    value: T

type Items[T] = list[T]
type Nest[T] = T | list[Nest[T]]
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax for type parameters needs Python 3.12")
@pytest.mark.parametrize(
    ("make", "good", "bad"),
    [
        (lambda module: module.Box[int], {"item": 1, "next": {"item": 2}}, {"item": 1, "next": {"item": "a"}}),
        (lambda module: module.Entry[int], {"value": 1}, {"value": "a"}),
        (lambda module: module.Row[str], ["a"], [1]),
        (lambda module: module.Items[int], [1], ["a"]),
        (lambda module: module.Nest[int], [1, [2]], ["a"]),
        (lambda module: module.Items[module.Box[str]], [{"item": "a"}], [{"item": 1}]),
    ],
)
def test_type_parameters_of_python_3_12(make: Callable[[Any], Any], good: Any, bad: Any) -> None:
    module = types.ModuleType("new_syntax")
    sys.modules[module.__name__] = module
    exec(NEW_SYNTAX, vars(module))
    try:
        tp = make(module)
        assert value_of(tp, good) == pydantic.TypeAdapter(tp).validate_json(json.dumps(good))
        with pytest.raises(SpecError):
            value_of(tp, bad)
    finally:
        del sys.modules[module.__name__]
