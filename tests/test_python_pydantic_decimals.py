"""Decimals with limits: guided allows a number exactly if pydantic reads it, and no text or key that pydantic refuses.
Pydantic is the judge.
"""

from __future__ import annotations

import decimal
import itertools
import json
import random
import re
import warnings
from typing import Annotated, Any

import pydantic
import pytest
from pydantic import Field, TypeAdapter

from guided import CompiledGrammar, GrammarCompiler, GrammarMatcher, GuidedWarning
from guided.errors import SpecError
from guided.matching.sentences import byte_vocabulary
from tests.effort import every

COMPILER = GrammarCompiler(byte_vocabulary())
DIGIT_LIMITS: list[dict[str, Any]] = [
    {key: value for key, value in (("max_digits", digits), ("decimal_places", places)) if value is not None}
    for digits, places in itertools.product((None, 0, 1, 2, 3, 5), (None, 0, 1, 2, 3, 4))
]
BOUNDS: list[dict[str, Any]] = [
    {"ge": 0},
    {"gt": 0, "lt": 1},
    {"gt": decimal.Decimal("-0.05"), "le": 10},
    {"multiple_of": decimal.Decimal("0.5")},
    {"multiple_of": 2, "lt": 100},
]
_DIGITS = ["", "0", "00", "5", "1", "10", "12", "100", "105", "500", "999", "1000", "9995", "12345", "123456"]
NUMBERS = [
    f"{sign}{integer}{fraction}{exponent}"
    for integer in _DIGITS
    if re.fullmatch("0|[1-9].*", integer)
    for fraction in ["", *(f".{digits}" for digits in ("0", "00", "5", "05", "050", "125", "0005", "00005"))]
    for sign in ("", "-")
    for exponent in ("", "e0", "e1", "E-1", "e+3", "e-4")
]
PLAIN = [number for number in NUMBERS if not re.search("[eE]", number)]


def compile_field(tp: Any) -> CompiledGrammar:
    """The grammar of a model with a field `f`. Bounds of keys cause a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuidedWarning)
        return COMPILER.compile_type(pydantic.create_model("M", f=(tp, ...)))


def compare(tp: Any, texts: list[str], frame: str) -> list[tuple[str, bool, bool]]:
    """Texts; whether guided allows them in this frame; whether pydantic reads them."""
    start, adapter, out = GrammarMatcher(compile_field(tp)), TypeAdapter(tp), []
    for text in texts:
        matcher = start.fork()
        is_allowed = matcher.accept_string(f'{{"f":{frame % text}}}') and matcher.is_accepting()
        try:
            adapter.validate_json(frame % text)
        except pydantic.ValidationError:
            out.append((text, is_allowed, False))
        else:
            out.append((text, is_allowed, True))
    return out


@pytest.mark.parametrize("limits", every(2, [limits | bounds for bounds in ({}, *BOUNDS) for limits in DIGIT_LIMITS]))
def test_numbers_are_allowed_if_pydantic_reads_them(limits: dict[str, Any]) -> None:
    texts = random.Random(repr(limits)).sample(NUMBERS, 400)
    try:
        results = compare(Annotated[decimal.Decimal, Field(**limits)], [*texts, "0", "0.5", "-0.0"], "%s")
    except SpecError as error:
        assert "no JSON value" in str(error) or "no output at all" in str(error)
        results = compare(Annotated[decimal.Decimal, Field(**limits)] | None, texts, "%s")
    assert [result for result in results if result[1] != result[2]] == []


@pytest.mark.parametrize("limits", [limits for limits in DIGIT_LIMITS if limits.get("max_digits") != 0])
def test_texts_and_keys_are_those_that_pydantic_reads(limits: dict[str, Any]) -> None:
    tp = Annotated[decimal.Decimal, Field(**limits)]
    texts = compare(tp, PLAIN, '"%s"')
    assert [text for text, is_allowed, is_read in texts if is_allowed and not is_read] == []
    keys = compare(dict[tp, int], PLAIN, '{"%s":1}')  # type: ignore[valid-type]
    assert [text for text, is_allowed, is_read in keys if is_allowed and not is_read] == []
    shortest = {format(decimal.Decimal(text).normalize(), "f") for text, _, is_read in texts if is_read} - {"-0", "0"}
    for results in (texts, keys):
        assert [text for text, is_allowed, _ in results if text in shortest and not is_allowed] == []
        zeros = [(is_allowed, is_read) for text, is_allowed, is_read in results if text in ("0", "0.0")]
        assert any(is_allowed for is_allowed, _ in zeros) == any(is_read for _, is_read in zeros)


def test_no_two_names_are_the_same_decimal() -> None:
    for limits in DIGIT_LIMITS:
        allowed = [text for text, is_allowed, _ in _keys(limits) if is_allowed]
        assert len(set(map(decimal.Decimal, allowed))) == len(allowed)


def _keys(limits: dict[str, Any]) -> list[tuple[str, bool, bool]]:
    return compare(dict[Annotated[decimal.Decimal, Field(**limits)], int], PLAIN, '{"%s":1}')


@pytest.mark.parametrize("limits", [{"max_digits": 2, **bounds} for bounds in BOUNDS])
def test_bounds_of_keys_cause_a_warning(limits: dict[str, Any]) -> None:
    key = Annotated[decimal.Decimal, Field(**limits)]
    with pytest.warns(GuidedWarning, match="limited-key"):
        COMPILER.compile_type(pydantic.create_model("M", f=(dict[key, int], ...)))  # type: ignore[valid-type]
    assert not any(is_allowed for text, is_allowed, _ in _keys(limits) if text in ("123456", "0.125"))


@pytest.mark.parametrize(("digits", "text", "is_allowed"), [
    (60, "9" * 60, True), (60, "9" * 61, False), (60, f"{'9' * 30}.5", True), (60, f"0.{1:060}", True),
    (60, f"0.{1:061}", False),
    (1_000, "9" * 1_000, True), (1_000, "9" * 1_001, False), (1_000, "0.125", True), (1_000, f"0.{1:0300}", True),
])  # fmt: skip
def test_many_digits(digits: int, text: str, is_allowed: bool) -> None:
    matcher = GrammarMatcher(compile_field(Annotated[decimal.Decimal, Field(max_digits=digits, ge=-1)]))
    assert (matcher.accept_string(json.dumps({"f": 0})[:-2] + text + "}") and matcher.is_accepting()) == is_allowed
