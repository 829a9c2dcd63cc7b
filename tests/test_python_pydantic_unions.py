"""Unions that pydantic reads. Each allowed text has the value that pydantic reads from it."""

from __future__ import annotations

import dataclasses
import enum
import json
import random
from typing import Annotated, Any, Literal

import pydantic
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter

from guided import GrammarCompiler, GrammarMatcher, GuidedWarning, JsonSchemaOptions
from guided.errors import UnsupportedError
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
