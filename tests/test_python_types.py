"""Python types: their schemas. jsonschema judges them on values of the types."""

import collections.abc
import dataclasses
import enum
import json
import typing
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict

import jsonschema
import pytest

from guided.automaton.reference.token_masks import accepts
from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.json_schema import json_schema_to_grammar
from guided.frontends.python_types.type_schema import type_to_schema
from guided.limits import Limits
from guided.matching import GrammarCompiler
from guided.matching.sentences import byte_vocabulary


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = dataclasses.field(default_factory=list)
    hidden: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass
class Tree:
    value: int
    children: list["Tree"]


class Movie(TypedDict, total=False):
    name: typing.Required[str]
    year: int


class Later(TypedDict, total=False):
    """Its annotations are strings, as with `from __future__ import annotations`."""

    name: "typing.Required[Annotated[str, 'a title']]"
    year: "int"


class Pair(NamedTuple):
    key: str
    value: int


Id = typing.NewType("Id", int)

CASES = [
    (str, ["", "a"], [1, None]),
    (int, [1, -2, 10**30], [1.5, "1", True]),
    (float, [1, 1.5], ["1", False]),
    (bool, [True, False], [0, 1, None]),
    (None, [None], [0, False, ""]),
    (type(None), [None], [0]),
    (Any, [None, {"a": [1]}], []),
    (Literal["a", 1, None], ["a", 1, None], ["b", 2, True]),
    (Literal["only"], ["only"], ["other"]),
    (Colour, ["red", 2], ["RED", 1]),
    (Literal[Colour.RED], ["red"], [2]),
    (list, [[], [1, "a"]], [{}, None]),
    (list[int], [[], [1, 2]], [["a"], 1]),
    (collections.abc.Sequence[str], [["a"]], [[1]]),
    (dict, [{}, {"a": None}], [[]]),
    (dict[str, bool], [{}, {"a": True}], [{"a": 1}]),
    (tuple[int, str], [[1, "a"]], [[1], [1, "a", 2], ["a", 1]]),
    (tuple[int, ...], [[], [1, 2, 3]], [["a"]]),
    (tuple[()], [[]], [[1]]),
    (Optional[int], [1, None], ["a"]),  # noqa: UP045
    (int | list[str], [1, ["a"]], ["a", [1]]),
    (Point, [{"x": 1}, {"x": 1.5, "y": 2, "tags": ["a"]}], [{}, {"x": "1"}, {"x": 1, "hidden": 2}, {"x": 1, "z": 1}]),
    (Tree, [{"value": 1, "children": [{"value": 2, "children": []}]}], [{"value": 1}, {"value": 1, "children": [2]}]),
    (Movie, [{"name": "M"}, {"name": "M", "year": 1931}], [{"year": 1931}, {"name": "M", "other": 1}]),
    (Later, [{"name": "M"}, {"name": "M", "year": 1931}], [{"year": 1931}, {"name": "M", "other": 1}]),
    (Pair, [["a", 1]], [["a"], ["a", "b"], {"key": "a", "value": 1}]),
    (Id, [1], ["a"]),
    (list[Point], [[{"x": 1}]], [[{}]]),
    (Annotated[int, "years"], [1], ["a"]),
]


@pytest.mark.parametrize(("tp", "good", "bad"), CASES, ids=lambda v: getattr(v, "__name__", str(v))[:30])
def test_schema_and_grammar(tp, good, bad):
    schema = type_to_schema(tp)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    grammar = json_schema_to_grammar(schema)
    for value, verdict in [(value, True) for value in good] + [(value, False) for value in bad]:
        assert validator.is_valid(value) == verdict
        assert accepts(grammar, json.dumps(value).encode()) == verdict


def test_annotated_bounds():
    at = pytest.importorskip("annotated_types", reason="annotated-types comes with pydantic")
    schema = type_to_schema(Annotated[int, at.Ge(1), at.Lt(5)])
    assert schema == {"type": "integer", "minimum": 1, "exclusiveMaximum": 5}
    assert type_to_schema(Annotated[str, at.Len(1, 3)]) == {"type": "string", "minLength": 1, "maxLength": 3}
    assert type_to_schema(Annotated[list[int], at.MaxLen(3)])["maxItems"] == 3
    assert type_to_schema(Annotated[float, at.Interval(ge=0, le=1)]) == {"type": "number", "minimum": 0, "maximum": 1}


def test_pydantic_models():
    pydantic = pytest.importorskip("pydantic", reason="pydantic is optional")

    class Inner(pydantic.BaseModel):
        n: Annotated[int, pydantic.Field(ge=0)]
        more: Optional["Inner"] = None

    class Outer(pydantic.BaseModel):
        inner: Inner
        names: list[str] = pydantic.Field(default_factory=list)

    schema = type_to_schema(list[Outer])
    validator = jsonschema.Draft202012Validator(schema)
    grammar = json_schema_to_grammar(schema)
    for value in ([], [{"inner": {"n": 1}}], [{"inner": {"n": -1}}], [{"inner": {"n": 1, "more": {"n": 2}}}], [{}]):
        assert accepts(grammar, json.dumps(value).encode()) == validator.is_valid(value)


def test_two_classes_of_one_name():
    def make(tp):
        return dataclasses.make_dataclass("Same", [("v", tp)])

    schema = type_to_schema(tuple[make(int), make(str)])
    assert list(schema["$defs"]) == ["Same", "Same_2"]
    assert jsonschema.Draft202012Validator(schema).is_valid([{"v": 1}, {"v": "a"}])


@pytest.mark.parametrize(
    ("tp", "error", "message"),
    [
        (bytearray, UnsupportedError, "bytearray has no JSON Schema"),
        (complex, UnsupportedError, "complex has no JSON Schema"),
        ("int", UnsupportedError, "int has no JSON Schema"),
        (dict[int, str], UnsupportedError, "dict: the keys of a JSON object must be strings"),
        (Literal[b"a"], UnsupportedError, "Literal: the value b'a' is not a JSON scalar"),
        (Annotated[int, 5], UnsupportedError, "Annotated[int, 5] is not supported"),
        (collections.abc.Callable[[], int], UnsupportedError, "Callable has no JSON Schema"),
        (dataclasses.make_dataclass("Lost", [("v", "Nowhere")]), SpecError,
         "Lost: an annotation cannot be resolved: name 'Nowhere' is not defined"),
    ],
)  # fmt: skip
def test_refusals(tp, error, message):
    with pytest.raises(error) as caught:
        type_to_schema(tp)
    assert (getattr(caught.value, "reason", "") or getattr(caught.value, "message", "")) == message


def test_a_type_that_is_doubled_again_and_again_is_refused_in_time():
    tp: Any = int
    for _ in range(24):
        tp = tuple[tp, tp]
    with pytest.raises(LimitExceeded, match="seconds"):
        GrammarCompiler(byte_vocabulary(), limits=Limits(seconds=0.2)).compile_type(tp)
