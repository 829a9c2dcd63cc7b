"""Unions that pydantic reads. Each allowed text has the value that pydantic reads from it."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import pathlib
import random
import typing
import uuid
from typing import Annotated, Any, Literal

import pydantic
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter

from guided import GrammarCompiler, GrammarMatcher, GuidedWarning, JsonSchemaOptions
from guided.errors import UnsupportedError
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.python_types.value_readers import text_reader
from guided.matching.sentences import byte_vocabulary, draw_sentence
from tests.effort import examples

COMPILER = GrammarCompiler(byte_vocabulary())
PLAIN = JsonSchemaOptions.for_generation().non_defaults()


def is_allowed(grammar: Any, text: str) -> bool:
    matcher = GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()


# --- tagged unions


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = Field(default=9, ge=1, le=9)


class Dog(pydantic.BaseModel):
    kind: Literal["dog", "wolf"] = "dog"


class CatByAlias(pydantic.BaseModel):
    kind: Literal["cat"] = Field(default="cat", alias="petKind")
    lives: int = 9


class DogByAlias(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(validate_by_name=True)
    kind: Literal["dog"] = Field(default="dog", alias="petKind")


@dataclasses.dataclass
class Square:
    shape: Literal["square"] = "square"
    side: int = 1


@dataclasses.dataclass
class Circle:
    shape: Literal["circle"] = "circle"


class Open(typing_extensions.TypedDict, total=False):
    state: Literal["open"]


class Shut(typing_extensions.TypedDict, total=False):
    state: Literal["shut"]
    lock: int


class Small(pydantic.BaseModel):
    kind: Literal["bird"] = "bird"
    size: Literal[1] = 1


class Large(pydantic.BaseModel):
    kind: Literal["bird"] = "bird"
    size: Literal[2] = 2


class Box(pydantic.BaseModel):
    kind: Literal["box"] = "box"
    content: list[Annotated[Box | Cat, Field(discriminator="kind")]] = []


class Level(enum.StrEnum):
    LOW = "low"
    HIGH = "high"


class Low(pydantic.BaseModel):
    level: Literal[Level.LOW] = Level.LOW


class High(pydantic.BaseModel):
    level: Literal[Level.HIGH] = Level.HIGH


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
TAGGED: list[Any] = [
    Pet,
    list[Pet],
    dict[str, Pet | None],
    Annotated[CatByAlias | DogByAlias, Field(discriminator="kind")],
    Annotated[Square | Circle, Field(discriminator="shape")],
    Annotated[Open | Shut | None, Field(discriminator="state")],
    Annotated[Annotated[Small | Large, Field(discriminator="size")] | Cat, Field(discriminator="kind")],
    Annotated[Low | High, Field(discriminator="level")],
    Box,
    pydantic.create_model("Home", pet=(Pet, ...), favourite=(Cat | None, None)),
    dataclasses.make_dataclass("Flat", [("pet", Pet), ("cat", Cat)]),
]
MEMBERS = ["kind", "petKind", "shape", "state", "size", "level", "lives", "side", "lock", "content", "pet", "cat"]
CONSTANTS: list[Any] = ["cat", "dog", "wolf", "bird", "box", "square", "circle", "open", "shut", "low", "high", 1, 2]
OBJECTS = st.dictionaries(st.sampled_from(MEMBERS), st.sampled_from(CONSTANTS), max_size=2)
PETS = st.dictionaries(
    st.sampled_from(["pet", "cat", "content", "a"]), OBJECTS | st.lists(OBJECTS, max_size=2), max_size=2
)


@pytest.mark.parametrize("tp", TAGGED, ids=lambda tp: str(tp)[:40])
def test_generated_texts_of_tagged_unions_are_read(tp: Any) -> None:
    adapter, read = TypeAdapter(tp), text_reader(tp)
    for options in ({"numbers": "plain"}, PLAIN):
        grammar = COMPILER.compile_type(tp, **options)
        for seed in range(20):
            text = draw_sentence(grammar, random.Random(seed), 90, any_character=False)
            assert read(text) == adapter.validate_json(text), text


@given(st.sampled_from(range(len(TAGGED))), OBJECTS | st.lists(OBJECTS, max_size=2) | PETS)
@examples(500)
def test_allowed_texts_of_tagged_unions_are_read(index: int, value: Any) -> None:
    tp, text = TAGGED[index], json.dumps(value)
    if is_allowed(compiled(index), text):
        assert text_reader(tp)(text) == TypeAdapter(tp).validate_json(text)


GRAMMARS: dict[int, Any] = {}


def compiled(index: int) -> Any:
    if index not in GRAMMARS:
        GRAMMARS[index] = COMPILER.compile_type(TAGGED[index])
    return GRAMMARS[index]


@pytest.mark.parametrize(
    ("tp", "text", "allowed"),
    [
        (Pet, "{}", False),
        (Pet, '{"lives":3}', False),
        (Pet, '{"kind":"wolf"}', True),
        (Pet, '{"kind":"cat","lives":3}', True),
        (Cat, "{}", True),
        (TAGGED[3], "{}", False),
        (TAGGED[3], '{"petKind":"dog"}', True),
        (TAGGED[3], '{"petKind":"dog","kind":"cow"}', False),
        (TAGGED[5], '{"state":"open"}', True),
        (TAGGED[5], '{"lock":3}', False),
        (TAGGED[5], "null", True),
        (TAGGED[6], '{"kind":"bird"}', False),
        (TAGGED[6], '{"kind":"bird","size":2}', True),
        (Box, "{}", True),
        (Box, '{"content":[{}]}', False),
        (TAGGED[9], '{"pet":{"kind":"cat"},"favourite":{}}', True),
        (TAGGED[9], '{"pet":{}}', False),
        (TAGGED[10], '{"pet":{"kind":"cat"},"cat":{}}', True),
    ],
)
def test_a_tag_is_required_only_in_the_tagged_union(tp: Any, text: str, allowed: bool) -> None:
    assert is_allowed(COMPILER.compile_type(tp), text) == allowed
    try:
        TypeAdapter(tp).validate_json(text)
    except pydantic.ValidationError:
        assert not allowed
    else:
        assert allowed


def test_a_function_that_chooses_an_alternative_causes_a_warning() -> None:
    cases = Annotated[Cat, pydantic.Tag("c")] | Annotated[Dog, pydantic.Tag("d")]
    tp = Annotated[cases, pydantic.Discriminator(lambda value: "c")]
    with pytest.warns(GuidedWarning, match="the choice of an alternative by a function is not enforced"):
        COMPILER.compile_type(tp)
    with pytest.raises(UnsupportedError, match="callable-discriminator"):
        COMPILER.compile_type(tp, strict=True)


# --- unions with alternatives of pydantic and others


class One(pydantic.BaseModel):
    x: int = 0


class Two(pydantic.BaseModel):
    x: int = 0
    y: int = 0


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    x: int


@dataclasses.dataclass
class Point:
    x: int = 0
    y: int = 0


@dataclasses.dataclass
class Natural:
    x: Annotated[int, Field(ge=0)] = 0


@dataclasses.dataclass
class Word:
    x: str = ""


class Named(typing_extensions.TypedDict, total=False):
    x: int
    z: str


class Letter(enum.Enum):
    A = "a"
    ONE = 1


Count = Annotated[int, Field(ge=0)]
ALTERNATIVES: list[Any] = [
    int, str, bool, float, None, list[int], list[str], dict[str, int], dict[str, str], set[int], tuple[int, str],
    Count, Annotated[bool, Field()], Annotated[str, Field(max_length=3)], Annotated[float, Field(ge=0)],
    Annotated[list[int], Field(max_length=2)], list[Count], dict[str, Count], tuple[Count, ...],
    One, Two, Strict, Point, Natural, Word, Named, Letter, Literal["a", 1], Literal["007"], bytes, pathlib.Path,
    datetime.date, Annotated[datetime.date, Field(ge=datetime.date(2000, 1, 1))], datetime.timedelta,
    uuid.UUID, pydantic.UUID4, pydantic.HttpUrl, Annotated[str, pydantic.AfterValidator(str.upper)],
]  # fmt: skip
OF_PYDANTIC = [*ALTERNATIVES[11:24], *ALTERNATIVES[-3:]]
VALUES: list[Any] = [
    "007", "7", "true", "a", "abcd", "", "2020-01-01", "P1D", "http://a", "c56a4180-65aa-42ec-a945-5fd21dec0538",
    7, 0, 1, -1, 1.5, 2.0, True, False, None, [], ["7"], [7], [7, "7"], [1, 2, 3],
    {}, {"x": 1}, {"x": "1"}, {"x": 1, "y": 2}, {"x": 1, "z": "b"}, {"y": 3}, {"x": -1},
]  # fmt: skip
UNIONS = st.tuples(st.sampled_from(ALTERNATIVES), st.sampled_from(OF_PYDANTIC), st.sampled_from(ALTERNATIVES)).flatmap(
    lambda parts: st.permutations(parts).map(tuple)
)


@given(UNIONS)
@examples(100)
def test_a_union_takes_the_alternative_that_pydantic_takes(alternatives: tuple[Any, ...]) -> None:
    tp = typing.Union[alternatives]  # noqa: UP007
    grammar, read, adapter = COMPILER.compile_type(tp), text_reader(tp), TypeAdapter(tp)
    for text in map(json.dumps, VALUES):
        if is_allowed(grammar, text):
            value, wanted = read(text), adapter.validate_json(text)
            assert (type(value), value) == (type(wanted), wanted), text


class Old(typing.TypedDict):
    """Before Python 3.12, pydantic does not read the TypedDict of `typing`."""

    x: int


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (Count | Old | str, '"007"', "007"),
        (Count | Old | str, "7", 7),
        (Count | Old | str, '{"x": 1}', {"x": 1}),
        (list[Count | Old | str], '["7", {"x": 2}, 3]', ["7", {"x": 2}, 3]),
        (list[Count] | list[Old | str], '["7"]', ["7"]),
        (Natural | Word, '{"x": "7"}', Word("7")),
        (dict[str, Natural | Word], '{"a": {"x": "7"}}', {"a": Word("7")}),
    ],
)
def test_unions_that_pydantic_does_not_read_as_a_whole(tp: Any, text: str, value: Any) -> None:
    assert text_reader(tp)(text) == value


def test_unions_in_the_arguments_of_a_function() -> None:
    def find(code: Count | str, flag: Annotated[bool, Field()] | Literal["true"] = "true") -> None: ...

    assert text_reader(find)('{"code": "007", "flag": "true"}').arguments == {"code": "007", "flag": "true"}
    assert type_to_schema(find)["properties"]["code"]["anyOf"][1] == {"type": "string"}
