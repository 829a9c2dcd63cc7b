"""Keys of dicts in pydantic models: every name that guided allows is one that pydantic reads. Pydantic is the judge."""

from __future__ import annotations

import collections
import datetime
import enum
import json
import uuid
import warnings
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import AfterValidator, ConfigDict, Field

from guided import GrammarCompiler, GrammarMatcher, GuidedWarning
from guided.errors import UnsupportedError
from guided.matching.sentences import byte_vocabulary


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


class Mixed(enum.Enum):
    A = "a"
    ONE = 1
    NOTHING = None
    TRUE = True


class PlainNumber(enum.Enum):
    ONE = 1


class Point(pydantic.BaseModel):
    model_config = ConfigDict(frozen=True)
    x: int


class Name(pydantic.RootModel[str]):
    model_config = ConfigDict(frozen=True)


NAMES = [
    "1", "-1", "0", "-0", "01", "+1", " 1 ", "1.0", "1.5", "-0.5", "1e3", "1_0", "2", "3", "18", "21", "true", "false",
    "True", "null", "None", "a", "A", "", "b", "ab", " a", "NaN", "inf", "2020-01-01", "1" * 4_300, "1" * 4_301,
    "12345678-1234-1234-1234-123456789abc",
]  # fmt: skip
ANY_SPELLING = [" 1 ", "+1", "-0", "01", "1.0", "1_0", "1e3", "NaN", "inf", "True", "1" * 4_300, "1" * 4_301]
"""Names that pydantic reads as numbers or booleans, but does not write."""
KEYS: list[tuple[Any, list[str]]] = [
    (int, ["1", "-1", "0", "18"]), (float, ["1", "-0.5", "1.5"]), (bool, ["true", "false"]), (Number, ["1", "2"]),
    (Mixed, ["a"]), (Literal["a", 1], ["a"]), (Literal[True, "b"], ["true", "b"]), (int | None, ["1"]),
    (int | str, ["1", "a", ""]), (int | tuple[int, ...], ["1"]), (Name, ["a", ""]), (Any, ["a", ""]),
    (Annotated[int, Field(ge=0, lt=3)], ["0", "1", "2"]), (Annotated[int, Field(ge=0)], ["0", "1"]),
    (Annotated[int, Field(gt=0)], ["1", "18"]), (Annotated[int, Field(ge=0, le=20, multiple_of=3)], ["0", "3", "18"]),
    (Annotated[int, AfterValidator(abs)], ["1", "-1"]), (Annotated[str, Field(pattern="^a")], ["a", "ab"]),
    (Annotated[str, Field(min_length=2)], ["ab"]), (datetime.date, ["2020-01-01"]), (uuid.UUID, [NAMES[-1]]),
    (Decimal, ["1", "-0.5"]),
]  # fmt: skip
COMPILER = GrammarCompiler(byte_vocabulary())


def verdicts(tp: Any, name: str, grammar: Any) -> tuple[bool, bool]:
    """Whether guided and pydantic accept a dict with this name."""
    text = json.dumps({"d": {name: 1}}, separators=(",", ":"))
    matcher = GrammarMatcher(grammar)
    allowed = matcher.accept_string(text) and matcher.is_accepting()
    try:
        tp.model_validate_json(text)
    except pydantic.ValidationError:
        return allowed, False
    return allowed, True


def model_of(tp: Any) -> Any:
    return pydantic.create_model("Model", d=(tp, ...))


@pytest.mark.parametrize(("key", "names"), KEYS)
def test_names_match_pydantic(key, names):
    model = model_of(dict[key, int])
    grammar = COMPILER.compile_type(model, whitespace="compact")
    for name in NAMES:
        allowed, reads = verdicts(model, name, grammar)
        assert allowed <= reads, name
        assert allowed or not reads or name in ANY_SPELLING or (key in (bool, datetime.date, Literal[True, "b"])
                                                                and name in ("0", "1")), name  # fmt: skip
    for name in names:
        assert verdicts(model, name, grammar) == (True, True), name


@pytest.mark.parametrize("tp", [Mapping[int, int], collections.defaultdict[int, int], collections.Counter[int]])
def test_other_mappings(tp):
    model = model_of(tp)
    grammar = COMPILER.compile_type(model, whitespace="compact")
    assert verdicts(model, "12", grammar) == (True, True)
    assert verdicts(model, "a", grammar) == (False, False)


@pytest.mark.parametrize("key", [tuple[int, str], frozenset[int], None, Point, PlainNumber, Literal[1, 2]])
def test_keys_that_cannot_be_read_are_refused(key):
    with pytest.raises(UnsupportedError, match="the keys of a JSON object must be strings") as found:
        COMPILER.compile_type(model_of(dict[key, int]))
    assert found.value.pointer == "/$defs/Model/properties/d" and found.value.hint


@pytest.mark.parametrize("key", [Annotated[int, Field(ge=5)], Annotated[int, Field(le=0)],
                                 Annotated[float, Field(gt=0)]])  # fmt: skip
def test_bounds_that_are_not_enforced_cause_a_warning(key):
    with pytest.warns(GuidedWarning, match="a bound on numbers that are keys is not enforced"):
        grammar = COMPILER.compile_type(model_of(dict[key, int]), whitespace="compact")
    assert verdicts(model_of(dict[key, int]), "a", grammar) == (False, False)


def test_the_number_of_members_counts_keys():
    """No two names that guided allows become one key, so a minimum length holds for the dict as well."""
    model = model_of(Annotated[dict[float, int], Field(min_length=2)])
    grammar = COMPILER.compile_type(model, whitespace="compact")
    for first, second in [("1", "1.0"), ("0", "-0"), ("0.5", "0.50"), ("1", "1.5")]:
        text = json.dumps({"d": {first: 1, second: 1}}, separators=(",", ":"))
        matcher = GrammarMatcher(grammar)
        assert (matcher.accept_string(text) and matcher.is_accepting()) == (second == "1.5")


def test_classes_as_values_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UnsupportedError, match="pydantic cannot describe it"):
            COMPILER.compile_type(model_of(type[int]))
