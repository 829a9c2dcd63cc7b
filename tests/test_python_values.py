"""Python types: values to JSON and back, for random types. The reader accepts what the schema of the type allows."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import inspect
import ipaddress
import json
import random
import subprocess
import sys
import typing
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided import GrammarCompiler, GrammarMatcher
from guided.errors import SpecError, UnsupportedError
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.python_types.value_readers import MAX_DEPTH, text_reader, value_of, value_reader
from guided.matching.constraint import compile_constraint, value_parser
from guided.matching.sentences import byte_vocabulary, draw_sentence
from tests.effort import examples

COMPILER = GrammarCompiler(byte_vocabulary())


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


class Word(enum.StrEnum):
    A = "a"
    B = "b/~"


class Pair(NamedTuple):
    key: str
    value: dt.date


class Movie(TypedDict, total=False):
    name: typing.Required[str]
    seen: dt.date


@dataclasses.dataclass(frozen=True)
class Leaf:
    at: dt.timedelta


@dataclasses.dataclass
class One:
    more: list["One | Two"]
    tag: int


@dataclasses.dataclass
class Two:
    more: list["One | Two"]
    tag: str


@dataclasses.dataclass
class Tree:
    value: int
    leaf: Leaf | None = None
    children: list["Tree"] = dataclasses.field(default_factory=list)


# --- values and their JSON, computed independently of the code under test

OFFSETS = st.integers(-1439, 1439).map(lambda m: dt.timezone(dt.timedelta(minutes=m)))
DURATIONS = st.timedeltas(-dt.timedelta(days=99_999_999), dt.timedelta(days=99_999_999))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


def written(value: Any) -> Any:
    """The JSON form of a value."""
    match value:
        case enum.Enum():
            return value.value
        case dt.timedelta():
            sign, value = ("-", -value) if value < dt.timedelta(0) else ("", value)
            return f"{sign}P{value.days}DT{value.seconds}.{value.microseconds:06}S"
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case decimal.Decimal():
            return f"{value:f}"
        case uuid.UUID() | ipaddress.IPv4Address() | ipaddress.IPv6Address():
            return str(value)
        case dict():
            return {written(key): written(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [written(item) for item in value]
        case _ if dataclasses.is_dataclass(value):
            return {f.name: written(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


LEAVES = st.timedeltas(dt.timedelta(0), dt.timedelta(days=9)).map(Leaf)
TREES = st.recursive(
    st.builds(Tree, st.integers(), st.none() | LEAVES),
    lambda trees: st.builds(Tree, st.integers(), st.none() | LEAVES, st.lists(trees, max_size=2)),
    max_leaves=4,
)
HASHABLE = {
    int: st.integers(),
    str: TEXT,
    bool: st.booleans(),
    None: st.none(),
    dt.datetime: st.datetimes(timezones=OFFSETS),
    dt.date: st.dates(),
    dt.time: st.times(timezones=OFFSETS),
    dt.timedelta: DURATIONS,
    uuid.UUID: st.uuids(),
    decimal.Decimal: st.decimals(allow_nan=False, allow_infinity=False, places=3) | st.integers().map(decimal.Decimal),
    ipaddress.IPv4Address: st.ip_addresses(v=4),
    ipaddress.IPv6Address: st.ip_addresses(v=6),
    Colour: st.sampled_from(Colour),
    Word: st.sampled_from(Word),
    Literal["x", 1, None]: st.sampled_from(["x", 1, None]),
    Leaf: LEAVES,
    Pair: st.builds(Pair, TEXT, st.dates()),
}
OTHERS = {
    float: st.integers(-(10**6), 10**6).map(lambda n: n / 8),
    Tree: TREES,
    Movie: st.builds(dict, name=TEXT) | st.builds(lambda name, seen: {"name": name, "seen": seen}, TEXT, st.dates()),
}


def _types(draw: st.DrawFn, depth: int, hashable: bool):
    """A type, and a strategy for its values."""
    known = HASHABLE if hashable else HASHABLE | OTHERS
    kind = draw(st.sampled_from(["plain"] * 2 + ["tuple", "tuples", "frozenset", "optional"]))
    if not hashable and kind == "plain":
        kind = draw(st.sampled_from(["plain", "list", "set", "dict", "words", "union"]))
    if depth == 0 or kind == "plain":
        tp = draw(st.sampled_from(list(known)))
        return tp, known[tp]
    if kind == "tuple":
        parts = [_types(draw, depth - 1, hashable) for _ in range(draw(st.integers(0, 2)))]
        return tuple.__class_getitem__(tuple(tp for tp, _ in parts)), st.tuples(*(values for _, values in parts))
    if kind == "union":  # types whose JSON forms differ
        inner, values = _types(draw, depth - 1, False)
        return list[inner] | dict[str, inner] | bool, st.lists(values, max_size=2) | st.booleans()
    inner, values = _types(draw, depth - 1, hashable or kind in ("set", "frozenset"))
    match kind:
        case "tuples":
            return tuple[inner, ...], st.lists(values, max_size=2).map(tuple)
        case "frozenset":
            return frozenset[inner], st.frozensets(values, max_size=2)
        case "set":
            return set[inner], st.sets(values, max_size=2)
        case "dict":
            return dict[str, inner], st.dictionaries(TEXT, values, max_size=2)
        case "words":
            return dict[Word, inner], st.dictionaries(st.sampled_from(Word), values, max_size=2)
        case "list":
            return list[inner], st.lists(values, max_size=2)
    return typing.Optional[inner], st.none() | values  # noqa: UP045


typed_values = st.composite(
    lambda draw: (lambda made: (made[0], draw(made[1])))(_types(draw, draw(st.integers(0, 2)), False))
)


@examples(120)
@given(typed_values(), st.booleans())
def test_values_return(typed, engines):
    tp, value = typed
    options = {"whitespace": "single_space", "numbers": "plain", "escapes": "minimal"} if engines else {}
    text = json.dumps(written(value), ensure_ascii=False)
    matcher = GrammarMatcher(COMPILER.compile_type(tp, **options))
    assert matcher.accept_string(text) and matcher.is_accepting(), text
    found = value_of(tp, json.loads(text))
    assert found == value and type(found) is type(value)


@examples(60)
@given(typed_values(), st.integers(0, 2**32))
def test_generated_texts_can_be_read(typed, seed):
    grammar = compile_constraint(COMPILER, constraint_of(typed[0]))
    read, rng = value_parser(grammar), random.Random(seed)
    for _ in range(3):
        room = GrammarMatcher(grammar).min_tokens_to_finish() + rng.randrange(60)
        read(draw_sentence(grammar, rng, room, rng.random() < 0.3))


def constraint_of(tp: Any) -> Any:
    """As a constraint, None means that there is no constraint."""
    return type(None) if tp is None else tp


# --- the reader is as strict as the schema

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.5, "", "x", "a", "red", "2020-02-29"]),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "value", "children", "name", "at"]), parts, max_size=3)
    ),
    max_leaves=6,
)


@examples(200)
@given(typed_values(), JSON)
def test_reader_agrees_with_the_schema(typed, value):
    tp, _ = typed
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    valid = jsonschema.Draft202012Validator(type_to_schema(tp), format_checker=checker).is_valid(value)
    try:
        value_of(tp, value)
    except SpecError:
        assert not valid
    else:
        assert valid


@pytest.mark.parametrize(
    ("tp", "good", "bad"),
    [
        (dt.date, ["2020-02-29", "0001-01-01"], ["0000-01-01", "2019-02-29", "20200101", "2020-W01-1", "2020-01-01\n"]),
        (dt.datetime, ["2020-01-01t00:00:00.5z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"],
         ["2020-01-01T00:00:00", "2016-12-31T23:59:60Z", "2020-01-01T00:00:00.1234567Z", "2020-01-01 00:00:00Z"]),
        (dt.time, ["00:00:00Z", "23:59:59.000001-00:30"], ["00:00Z", "24:00:00Z", "00:00:00", "23:59:60Z"]),
        (dt.timedelta, ["PT0S", "-P1DT2H", "P2W", "PT1H0.5S"], ["P", "PT", "P1DT", "P1Y", "P1W1D", "PT.5S", "P1.5D"]),
        (uuid.UUID, ["00000000-0000-0000-0000-00000000000A"], ["0" * 32, "{00000000-0000-0000-0000-000000000000}"]),
        (decimal.Decimal, ["0", "-1.50", "1" * 40], ["1e3", ".5", "1.", "01", "NaN", "Infinity", "1_0", "٣"]),
        (ipaddress.IPv4Address, ["127.0.0.1"], ["127.0.0.01", "1.2.3", "256.1.1.1", "1.2.3.4/8"]),
        (ipaddress.IPv6Address, ["::1", "::ffff:1.2.3.4"], ["fe80::1%eth0", ":::", "1.2.3.4"]),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)  # fmt: skip
def test_texts(tp, good, bad):
    grammar = COMPILER.compile_type(tp)
    for text in good + bad:
        matcher = GrammarMatcher(grammar)
        verdict = matcher.accept_string(json.dumps(text, ensure_ascii=False)) and matcher.is_accepting()
        assert verdict == (text in good), text
        if verdict:
            assert isinstance(value_of(tp, text), tp)
        else:
            with pytest.raises(SpecError):
                value_of(tp, text)


def test_numbers():
    assert value_of(int, 1.0) == 1 and type(value_of(int, 1.0)) is int
    assert type(value_of(float, 1)) is float
    assert value_of(float, -(10**400)) == float("-inf")
    assert value_of(Literal[1, True], True) is True and value_of(Literal[True, 1], 1.0) == 1
    for tp, value in [(int, True), (int, 0.5), (float, True), (bool, 1), (Literal[1], True), (int, 1e30), (str, 1)]:
        with pytest.raises(SpecError):
            value_of(tp, value)


def test_unions_take_the_first_that_fits():
    assert value_of(dt.date | str, "2020-01-01") == dt.date(2020, 1, 1)
    assert value_of(str | dt.date, "2020-01-01") == "2020-01-01"
    assert value_of(dt.date | str, "2020-01-32") == "2020-01-32"
    assert value_of(set[int] | list[int], [1, 1]) == [1, 1]


def test_nested_unions_do_not_multiply():
    value: Any = {"more": [], "tag": "x"}
    for _ in range(50):
        value = {"more": [value], "tag": "x"}
    assert isinstance(value_of(One | Two, value), Two)


def test_depth_is_bounded():
    def tree(depth):
        value = {"value": 0, "children": []}
        for _ in range(depth):
            value = {"value": 0, "children": [value]}
        return value

    assert value_of(Tree, tree(MAX_DEPTH // 2 - 1)).children
    with pytest.raises(SpecError, match=f"nests more than {MAX_DEPTH} deep"):
        value_of(Tree, tree(MAX_DEPTH))


def test_annotated_bounds():
    at = pytest.importorskip("annotated_types", reason="annotated-types comes with pydantic")
    short = Annotated[list[Annotated[int, at.Ge(0), at.Ge(2), at.MultipleOf(2)]], at.Len(1, 2)]
    assert value_of(short, [2, 4]) == [2, 4]
    for wrong in ([], [0], [3], [2, 2, 2]):
        with pytest.raises(SpecError):
            value_of(short, wrong)
    for tp in (Annotated[str, at.Ge(1)], Annotated[dt.date, at.MinLen(3)]):
        with pytest.raises(UnsupportedError, match="is not enforced"):
            type_to_schema(tp)


@pytest.mark.parametrize("tp", [int, float])
@pytest.mark.parametrize(("divisor", "factor"), [(3, 1), (Decimal("0.3"), 10), (0.75, 4), (10**400, 1)])
def test_multiples_of_any_size(tp, divisor, factor):
    at = pytest.importorskip("annotated_types", reason="annotated-types comes with pydantic")
    multiples = Annotated[tp, at.MultipleOf(divisor)]
    for value in (0, 3, 10**400, 10**400 + 2, 10**5000 + 5, -(10**400)):
        if value * factor % int(divisor * factor):
            with pytest.raises(SpecError, match="violates multipleOf"):
                value_of(multiples, value)
        else:
            assert value_of(multiples, value) == (value if tp is int else value_of(float, value))


@pytest.mark.parametrize("divisor", [0, -3, float("inf"), float("nan"), Decimal("nan"), Fraction(1, 3), "3"])
def test_divisors_that_are_not_finite_and_positive_are_refused(divisor):
    at = pytest.importorskip("annotated_types", reason="annotated-types comes with pydantic")
    with pytest.raises(SpecError, match="multipleOf must be a finite number above 0"):
        value_reader(Annotated[float, at.MultipleOf(divisor)])


@pytest.mark.parametrize(
    ("tp", "value", "pointer"),
    [
        (Tree, {"value": 1, "children": [{"value": "x"}]}, "/children/0/value"),
        (Tree, {"value": 1, "children": [{"value": 1, "extra": 2}]}, "/children/0"),
        (dict[str, list[int]], {"a/b~": [1, None]}, "/a~1b~0/1"),
        (tuple[int, Pair], [1, ["k", "never"]], "/1/1"),
        (list[Movie], [{"seen": "2020-01-01"}], "/0"),
        (set[int], [1, 1.0], ""),
    ],
)
def test_errors_have_a_place(tp, value, pointer):
    with pytest.raises(SpecError) as caught:
        value_of(tp, value)
    assert caught.value.pointer == pointer


def test_values_that_a_class_refuses():
    @dataclasses.dataclass
    class Positive:
        n: int

        def __post_init__(self):
            if self.n <= 0:
                raise ValueError("too small")

    assert value_of(list[Positive | int], [{"n": 1}, 2]) == [Positive(1), 2]
    with pytest.raises(SpecError, match=r"Positive: too small \(at /0\)"):
        value_of(list[Positive], [{"n": 0}])


# --- functions


def book(day: dt.date, seats: int = 1, /, *, colour: Colour, notes: list[str] | None = None) -> str:
    return f"{day:%d} {seats} {colour.name} {notes}"


def test_functions():
    bound = value_of(book, {"day": "2020-01-02", "colour": "red"})
    assert isinstance(bound, inspect.BoundArguments)
    assert book(*bound.args, **bound.kwargs) == "02 1 RED None"
    partial = functools.partial(book, dt.date(2020, 1, 2), colour=Colour.RED)
    assert type_to_schema(partial)["required"] == []
    assert type_to_schema(partial)["properties"].keys() == {"seats", "notes"}, "what the partial sets is not asked for"
    bound = value_of(partial, {"seats": 3})
    assert partial(*bound.args, **bound.kwargs) == "02 3 RED None"
    with pytest.raises(SpecError, match="has no member 'colour'"):
        value_of(partial, {"seats": 3, "colour": 2})
    schema = type_to_schema(book)
    assert schema["required"] == ["day", "colour"] and schema["additionalProperties"] is False
    for wrong in ({}, {"day": "2020-01-02", "colour": "red", "other": 1}, {"day": 1, "colour": "red"}):
        with pytest.raises(SpecError):
            value_of(book, wrong)


def test_a_function_as_a_constraint():
    grammar = compile_constraint(COMPILER, book)
    read, rng = value_parser(grammar), random.Random(1)
    for _ in range(10):
        bound = read(draw_sentence(grammar, rng, 150, False))
        assert book(*bound.args, **bound.kwargs)


def test_methods_and_calls():
    class Tool:
        def run(self, n: int) -> int:
            return n + 1

        def __call__(self, text: str, times: int = 2) -> str:
            return text * times

    tool = Tool()
    assert tool.run(*value_of(tool.run, {"n": 1}).args) == 2
    assert tool(*value_of(tool, {"text": "a"}).args) == "aa"
    assert value_of(lambda anything: None, {"anything": [None]}).args == ([None],)


@pytest.mark.parametrize(
    ("tp", "message"),
    [
        (lambda *args: None, "variadic parameters such as *args are not supported"),
        (lambda **more: None, "variadic parameters such as **more are not supported"),
        (list[book], "book has no JSON Schema"),
        (set[list[int]], "list is not hashable"),
        (set[Tree], "Tree is not hashable"),
        (frozenset[tuple[Movie, int]], "is not hashable"),
        (set[tuple[Any, ...]], "is not hashable"),
        (dict[int, str], "the keys of a JSON object must be strings"),
        (dict[uuid.UUID, str], "the keys of a JSON object must be strings"),
        (tuple[int, *tuple[str, ...]], "inside has no JSON Schema"),
        (bytearray, "bytearray has no JSON Schema"),
        (typing.Optional, "Optional has no JSON Schema"),
        (dataclasses.make_dataclass("Late", [("x", dataclasses.InitVar[int])]), "x is an InitVar"),
        (collections.deque[int], "deque"),
    ],
)
def test_refusals(tp, message):
    for ask in (type_to_schema, value_reader):
        with pytest.raises(UnsupportedError) as caught:
            ask(tp)
        assert message in caught.value.reason


# --- pydantic


def test_pydantic_dates_match_the_clock():
    pydantic = pytest.importorskip("pydantic", reason="pydantic is optional")

    class Day(pydantic.BaseModel):
        on: dt.date
        format: str = ""

    grammar = COMPILER.compile_type(Day)
    for year, allowed in (("0000", False), ("0001", True), ("2024", True)):
        assert GrammarMatcher(grammar).accept_string(f'{{"on": "{year}-02-03"') is allowed, year


def test_pydantic():
    pydantic = pytest.importorskip("pydantic", reason="pydantic is optional")

    class Model(pydantic.BaseModel):
        n: int = pydantic.Field(alias="number")
        day: dt.date | None = None

    @pydantic.dataclasses.dataclass
    class Data:
        n: int

    assert value_of(Model, {"number": 1}) == Model(number=1)
    assert text_reader(Data)('{"n": 1}') == value_of(Data, {"n": 1}) == Data(1)
    assert value_of(list[Model | Data], [{"n": 1}, {"number": 2, "day": "2020-01-01"}])[1].day == dt.date(2020, 1, 1)
    with pytest.raises(pydantic.ValidationError):
        text_reader(Model)("{}")
    with pytest.raises(SpecError) as caught:
        value_of(list[Model], [{}])
    assert caught.value.pointer == "/0"
    grammar = COMPILER.compile_json_schema(Model)
    assert value_parser(grammar)('{"number":1}') == Model(number=1)


def test_pydantic_is_not_imported():
    code = (
        "import sys, dataclasses\nfrom guided.frontends.python_types.value_readers import value_of\n"
        "A = dataclasses.make_dataclass('A', [('n', int)])\nassert value_of(list[A], [{'n': 1}]) == [A(1)]\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
