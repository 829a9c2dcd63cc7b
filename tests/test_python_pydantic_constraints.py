"""Constraints that pydantic checks after reading: a value is allowed if and only if pydantic reads it."""

from __future__ import annotations

import datetime
import enum
import itertools
import json
from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import Field, TypeAdapter

from guided import GrammarCompiler, GrammarMatcher, GuidedWarning
from guided.errors import SpecError, UnsupportedError
from guided.frontends.python_types.type_schema import type_to_schema
from guided.matching.sentences import byte_vocabulary


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"
    THREE = 3


BASES: list[Any] = [
    int | str,
    int | bool,
    float | str | None,
    str | None,
    list[int] | str,
    dict[str, int] | list[str] | int,
    Literal["none"] | str,
    Literal[1, 2, 3, "four"],
    Colour,
    bool | str,
]
CONSTRAINTS = [
    {"ge": 2},
    {"gt": 0, "le": 3},
    {"lt": 2.5},
    {"multiple_of": 2},
    {"min_length": 2},
    {"min_length": 1, "max_length": 3},
    {"pattern": "^[a-z]+$"},
    {"pattern": "n", "max_length": 4},
]
VALUES = ["", "a", "no", "none", "four", "Four!", "red", "blue", "long text", 0, 1, 2, 3, 4, 2.5, -1, True, False,
          None, [], [1], [1, 2], [1, 2, 3, 4], ["a", "b"], {}, {"a": 1}, {"a": 1, "b": 2},
          {"a": 1, "b": 2, "c": 3, "d": 4}]  # fmt: skip


def accepts(tp: Any, text: str) -> bool:
    try:
        TypeAdapter(tp).validate_json(text, strict=True)
    except (pydantic.ValidationError, TypeError):  # TypeError: the value has no such constraint
        return False
    return True


@pytest.mark.parametrize(
    ("base", "constraint"), [*itertools.product(BASES, CONSTRAINTS)], ids=lambda part: str(part).replace("typing.", "")
)
def test_a_value_is_allowed_if_pydantic_reads_it(base: Any, constraint: dict[str, Any]):
    tp = Annotated[base, Field(**constraint)]
    wanted = {text for text in map(json.dumps, VALUES) if accepts(tp, text)}
    if base == BASES[7]:
        wanted.discard("true")  # pydantic treats it as 1, as Python does; the schema requires 1
    if not wanted:
        return
    grammar = GrammarCompiler(byte_vocabulary()).compile_type(tp)
    allowed = set()
    for text in map(json.dumps, VALUES):
        matcher = GrammarMatcher(grammar)
        if matcher.accept_string(text) and matcher.is_accepting():
            allowed.add(text)
    assert allowed == wanted


def test_a_constraint_that_is_not_known_is_warned_of():
    tp = Annotated[datetime.date | int, Field(ge=datetime.date(2025, 1, 1))]
    with pytest.warns(GuidedWarning, match="limited-by-ge"):
        GrammarCompiler(byte_vocabulary()).compile_type(tp)


@pytest.mark.parametrize(
    ("bound", "days"),
    [
        ({"gt": datetime.date.max}, []),
        ({"lt": datetime.date.min}, []),
        ({"gt": datetime.date(9999, 12, 30)}, ["9999-12-31"]),
        ({"lt": datetime.date(1, 1, 2)}, ["0001-01-01"]),
    ],
)
def test_bounds_at_the_first_and_the_last_date(bound: dict[str, datetime.date], days: list[str]) -> None:
    grammar = GrammarCompiler(byte_vocabulary()).compile_type(Annotated[datetime.date, Field(**bound)] | None)
    for text in ("9999-12-31", "9999-12-30", "0001-01-01", "0001-01-02"):
        assert GrammarMatcher(grammar).accept_string(f'"{text}"') == (text in days)
    assert GrammarMatcher(grammar).accept_string("null")


@pytest.mark.parametrize("text", ["1e400", "-1e400", "0.1", "12345678901234567890", "2.50", "1e-323"])
def test_bounds_that_are_decimals_are_exact_numbers_of_json(text: str) -> None:
    schema = type_to_schema(Annotated[Decimal, Field(le=Decimal(text), gt=Decimal(text) * 2 - 10000)])
    written = json.loads(json.dumps(schema), parse_int=Decimal, parse_float=Decimal)["$defs"]["Annotated"]
    assert (written["maximum"], written["exclusiveMinimum"]) == (Decimal(text), Decimal(text) * 2 - 10000)


@pytest.mark.parametrize(
    ("constraint", "error"),
    [
        ({"le": Decimal("Infinity")}, SpecError),
        ({"ge": Decimal("NaN")}, SpecError),
        ({"lt": Decimal("1e999999")}, SpecError),
        ({"gt": Decimal("0.1234567890123456789")}, UnsupportedError),
        ({"multiple_of": Decimal("1e-400")}, UnsupportedError),
        ({"multiple_of": Decimal(-1)}, UnsupportedError),
        ({"decimal_places": 400}, UnsupportedError),
    ],
)
def test_decimals_that_json_cannot_write_are_refused(constraint: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        type_to_schema(Annotated[Decimal, Field(**constraint)])


def test_an_infinite_bound_causes_a_warning() -> None:
    with pytest.warns(GuidedWarning, match="limited-by-le"):
        GrammarCompiler(byte_vocabulary()).compile_type(Annotated[int | str, Field(le=float("inf"))])
