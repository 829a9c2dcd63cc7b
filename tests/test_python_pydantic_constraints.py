"""Constraints that pydantic checks after reading: a value is allowed if and only if pydantic reads it."""

from __future__ import annotations

import datetime
import enum
import itertools
import json
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import Field, TypeAdapter

from guided import GrammarCompiler, GrammarMatcher, GuidedWarning
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
