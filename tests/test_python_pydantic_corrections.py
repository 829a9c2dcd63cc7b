"""Types for which pydantic describes JSON that it does not read. guided corrects the description, refuses the type, or
warns.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import random
import re
import uuid
from collections.abc import Hashable
from typing import Annotated, Any, Literal

import pydantic
import pytest
import typing_extensions
from pydantic import Field, TypeAdapter

from guided import GrammarCompiler, GrammarMatcher, GuidedWarning, JsonSchemaOptions
from guided.errors import UnsupportedError
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.python_types.value_readers import value_of
from guided.matching.sentences import byte_vocabulary, draw_sentence

COMPILER = GrammarCompiler(byte_vocabulary())
PLAIN = JsonSchemaOptions.for_generation().non_defaults()


def field(tp: Any, **options: Any) -> Any:
    """A model with a field of this type."""
    return pydantic.create_model("M", x=(tp, Field(**options)))


def is_allowed(grammar: Any, value: Any) -> bool:
    matcher = GrammarMatcher(grammar)
    return matcher.accept_string(json.dumps(value)) and matcher.is_accepting()


def is_read(tp: Any, value: Any) -> bool:
    try:
        TypeAdapter(tp).validate_json(json.dumps(value))
    except (pydantic.ValidationError, TypeError):  # TypeError: pydantic cannot apply the constraint
        return False
    return True


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


class Word(enum.StrEnum):
    A = "a"


class Number(enum.IntEnum):
    ONE = 1


class Ratio(float, enum.Enum):
    HALF = 0.5


# --- refused


REFUSED: list[tuple[Any, Any, str]] = [
    (field(int, validation_alias=pydantic.AliasPath("a", "b")), {"x": 1}, "from the path a.b (AliasPath)"),
    (field(int, validation_alias=pydantic.AliasPath("a", 1)), {"x": 1}, "from the path a.1 (AliasPath)"),
    (field(int, validation_alias=pydantic.AliasPath("a")), {"x": 1}, "from the path a (AliasPath)"),
    (field(Literal[Colour.RED]), {"x": "red"}, "pydantic does not read JSON as Colour.RED"),
    (field(Literal[Colour.TWO, "red"]), {"x": 2}, "pydantic does not read JSON as Colour.TWO"),
    (field(dict[Literal[Colour.RED], int]), {"x": {"red": 1}}, "reads none of them as a key of this type"),
    (field(Annotated[Colour, Field(max_length=9)]), {"x": "red"}, "the value has no length"),
    (field(Annotated[pydantic.HttpUrl, Field(pattern="a")]), {"x": "http://a"}, "is not a string"),
    (field(Annotated[pydantic.SecretStr, Field(pattern="a")]), {"x": "a"}, "is not a string"),
    *[
        (field(Annotated[tp, Field(**bound)]), {"x": text}, message)
        for bound, message in (({"max_length": 50}, "the value has no length"), ({"pattern": "."}, "is not a string"))
        for tp, text in (
            (pathlib.Path, "a"),
            (pathlib.Path | str, "a"),
            (uuid.UUID | None, "c56a4180-65aa-42ec-a945-5fd21dec0538"),
            (datetime.date, "2020-01-01"),
            (ipaddress.IPv4Address, "1.2.3.4"),
            (decimal.Decimal, "1.5"),
        )
    ],
]


@pytest.mark.parametrize(("tp", "value", "reason"), REFUSED, ids=lambda part: part if isinstance(part, str) else "")
def test_what_pydantic_never_reads_is_refused(tp: Any, value: Any, reason: str) -> None:
    assert not is_read(tp, value)
    with pytest.raises(UnsupportedError, match=re.escape(reason)) as caught:
        type_to_schema(tp)
    assert str(caught.value.pointer).startswith("/$defs/M/properties/x") and caught.value.hint


class Inside(typing_extensions.TypedDict):
    x: Annotated[int, Field(validation_alias=pydantic.AliasPath("a", "b"))]


def test_a_typed_dict_with_a_path_as_alias_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="AliasPath"):
        type_to_schema(pydantic.create_model("Outer", name=(Inside, ...)))


def test_an_import_causes_a_warning() -> None:
    for tp in (pydantic.ImportString, pydantic.ImportString[int], list[pydantic.ImportString]):
        with pytest.warns(GuidedWarning, match="whether an object can be imported is not enforced"):
            COMPILER.compile_type(field(tp))


# --- corrected


@pydantic.dataclasses.dataclass(config=pydantic.ConfigDict(extra="forbid"))
class Closed:
    a: int
    hidden: int = dataclasses.field(default=3, init=False)


class Short(typing_extensions.TypedDict):
    __pydantic_config__ = pydantic.ConfigDict(str_max_length=2, extra="forbid")  # type: ignore[misc]
    a: str


class Shorter(Short):
    b: str


@pydantic.with_config(pydantic.ConfigDict(str_max_length=2))
@dataclasses.dataclass
class ShortData:
    a: str


ByName = pydantic.create_model(
    "ByName",
    __config__=pydantic.ConfigDict(populate_by_name=True),
    x=(int, Field(validation_alias=pydantic.AliasPath("a", "b"))),
)
CORRECTED: list[tuple[Any, list[Any], list[Any]]] = [
    (field(Hashable), [{"x": 1}, {"x": "a"}, {"x": None}, {"x": 1.5}, {"x": False}], [{"x": []}, {"x": {}}, {}]),
    (field(Annotated[Hashable, Field(max_length=2)]), [{"x": "ab"}], [{"x": "abc"}, {"x": [1]}]),
    (Closed, [{"a": 1}], [{"a": 1, "hidden": 4}, {}]),
    (Short, [{"a": "ab"}], [{"a": "abc"}, {"a": "a", "b": "b"}]),
    (list[Short], [[{"a": "ab"}]], [[{"a": "abc"}]]),
    (Shorter, [{"a": "ab", "b": ""}], [{"a": "", "b": "abc"}]),
    (ShortData, [{"a": "ab"}], [{"a": "abc"}]),
    (ByName, [{"x": 1}], [{"x": "a"}, {}]),
    (field(int, validation_alias=pydantic.AliasChoices(pydantic.AliasPath("a", "b"), "c")), [{"c": 1}], [{"x": 1}]),
    (field(Literal[Word.A]), [{"x": "a"}], [{"x": "A"}]),
    (field(Literal[Number.ONE]), [{"x": 1}], [{"x": 2}]),
    (field(dict[Literal[Word.A, Colour.RED], int]), [{"x": {"a": 1}}], [{"x": {"red": 1}}]),
    (field(Literal[Ratio.HALF]), [{"x": 0.5}], [{"x": 0.25}]),
    (field(Literal[Colour.RED, "red"]), [{"x": "red"}], [{"x": "blue"}]),
    (field(Annotated[Colour, Field(pattern="^[rb]")]), [{"x": "red"}], [{"x": "blue"}, {"x": 2}]),
    (
        field(Annotated[decimal.Decimal, pydantic.AfterValidator(str), Field(max_length=9)]),
        [{"x": "1.5"}],
        [{"x": "a"}],
    ),
    (field(Annotated[Word | str, Field(pattern="^a")]), [{"x": "a"}, {"x": "ab"}], [{"x": "b"}]),
    (field(Annotated[Word, Field(max_length=2)]), [{"x": "a"}], [{"x": "aaa"}]),
    (field(Annotated[pydantic.SecretStr, Field(max_length=2)]), [{"x": "ab"}], [{"x": "abc"}]),
    (field(Annotated[list[int] | int, Field(max_length=1)]), [{"x": [1]}], [{"x": [1, 2]}, {"x": 1}]),
]


@pytest.mark.parametrize(("tp", "good", "bad"), CORRECTED, ids=lambda part: getattr(part, "__name__", ""))
def test_allowed_texts_are_those_that_pydantic_reads(tp: Any, good: list[Any], bad: list[Any]) -> None:
    grammar = COMPILER.compile_type(tp)
    for value in good:
        assert is_allowed(grammar, value) and is_read(tp, value), value
        assert value_of(tp, value) == TypeAdapter(tp).validate_json(json.dumps(value))
    for value in bad:
        assert not is_allowed(grammar, value) and not is_read(tp, value), value
    plain = COMPILER.compile_type(tp, **PLAIN)
    for seed in range(20):
        TypeAdapter(tp).validate_json(draw_sentence(plain, random.Random(seed), 60, any_character=False))
