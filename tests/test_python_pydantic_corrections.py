"""Types for which pydantic describes JSON that it does not read. guided corrects the description, refuses the type, or
warns.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import ipaddress
import itertools
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
from guided.errors import SpecError, UnsupportedError
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.python_types.value_readers import text_reader, value_of
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
    (field(Literal["a", b"x"]), {"x": "x"}, "pydantic does not read JSON as b'x'"),
    (field(Literal[b"x"] | None), {"x": "x"}, "pydantic does not read JSON as b'x'"),
    (field(Literal[b"\xff"]), {"x": "\xff"}, "pydantic does not read JSON as b'\\xff'"),
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


@pytest.mark.parametrize(("value", "json_value"), [
    (b"x", "x"), ((1, 2), [1, 2]), (decimal.Decimal("1.5"), "1.5"), (datetime.date(2020, 1, 1), "2020-01-01"),
    (uuid.UUID(int=0), str(uuid.UUID(int=0))),
])  # fmt: skip
def test_an_enum_with_a_value_that_json_lacks_is_refused(value: Any, json_value: Any) -> None:
    tp = field(enum.Enum("E", {"FIRST": "a", "OTHER": value}))
    assert is_read(tp, {"x": "a"}) and not is_read(tp, {"x": json_value})
    with pytest.raises(UnsupportedError, match="is not a JSON scalar") as caught:
        type_to_schema(tp)
    assert caught.value.pointer == "/$defs/M/$defs/E" and caught.value.hint


class Lenient(enum.Enum):
    PAIR = (1, 2)

    @classmethod
    def _missing_(cls, value: object) -> Lenient:
        return cls.PAIR


def test_constants_that_pydantic_reads_in_spite_of_their_type() -> None:
    for tp, value in ((field(Lenient), [1, 2]), (field(Literal["x", b"x"]), "x")):
        assert is_read(tp, {"x": value})
        assert is_allowed(COMPILER.compile_type(tp), {"x": value})


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
def test_allowed_texts_match_pydantic(tp: Any, good: list[Any], bad: list[Any]) -> None:
    grammar = COMPILER.compile_type(tp)
    for value in good:
        assert is_allowed(grammar, value) and is_read(tp, value), value
        assert value_of(tp, value) == TypeAdapter(tp).validate_json(json.dumps(value))
    for value in bad:
        assert not is_allowed(grammar, value) and not is_read(tp, value), value
    plain = COMPILER.compile_type(tp, **PLAIN)
    for seed in range(20):
        TypeAdapter(tp).validate_json(draw_sentence(plain, random.Random(seed), 60, any_character=False))


# --- flags


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2
    RUN = 4


class Gap(enum.Flag):
    A = 1
    D = 16


class Overlap(enum.Flag):
    A = 1
    B = 8
    BOTH = 9


class Multiple(enum.Flag):
    NONE = 0
    A = 1
    BOTH = 3
    B = 2


class Kept(enum.Flag, boundary=enum.KEEP):
    A = 1
    B = 2


class Ejected(enum.IntFlag, boundary=enum.EJECT):
    A = 1
    B = 4


class Conforming(enum.IntFlag, boundary=enum.CONFORM):
    A = 2
    B = 8


Long = enum.IntFlag("Long", [f"BIT_{bit}" for bit in range(40)])
FLAGS = [Access, Gap, Overlap, Multiple, Kept, Ejected, Conforming, Long]


def combinations(flag: Any) -> set[int]:
    members = list(flag.__members__.values())
    if flag is Long:
        return {0, 1, 3, 5, 2**39, 2**40 - 1, *random.Random(1).choices(range(2**40), k=9)}
    groups = itertools.chain.from_iterable(itertools.combinations(members, size) for size in range(len(members) + 1))
    values = set()
    for group in groups:
        value = flag(0)
        for member in group:
            value |= member
        values.add(value.value)
    return values


@pytest.mark.parametrize("flag", FLAGS)
def test_the_values_of_a_flag_are_the_combinations_of_its_members(flag: Any) -> None:
    wanted = combinations(flag)
    model = pydantic.create_model("M", x=(flag, ...))
    plain, in_model = COMPILER.compile_type(flag), COMPILER.compile_type(model)
    for value in (*range(-2, 70), *wanted, 2**40, 2**41 + 1):
        is_combination = value in wanted or (flag is Long and 0 <= value < 2**40)
        assert is_allowed(plain, value) == is_allowed(in_model, {"x": value}) == is_combination
        if is_combination:
            assert value_of(flag, value) is flag(value)
            read = text_reader(model)(json.dumps({"x": value}))
            assert read.x is flag(value) and json.loads(read.model_dump_json()) == {"x": value}
        else:
            with pytest.raises(SpecError):
                value_of(flag, value)
    for value in (True, "1", None, 1.5):
        assert not is_allowed(plain, value)
        with pytest.raises(SpecError):
            value_of(flag, value)


def test_flags_with_too_many_values_are_refused() -> None:
    sparse: Any = enum.IntFlag("Sparse", {f"BIT_{bit}": 1 << 2 * bit for bit in range(9)})
    for tp, pointer in ((sparse, None), (field(sparse), "/$defs/Sparse")):
        with pytest.raises(UnsupportedError, match="more than 256 combinations") as caught:
            type_to_schema(tp)
        assert (caught.value.pointer or "").endswith(pointer or "")
    few: Any = enum.IntFlag("Few", {f"BIT_{bit}": 1 << 2 * bit for bit in range(8)})
    assert len(type_to_schema(few)["$defs"]["Few"]["enum"]) == 256
