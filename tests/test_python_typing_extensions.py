"""Types of typing_extensions: TypedDicts, and recursive aliases. jsonschema and pydantic judge them."""

from __future__ import annotations

import json
import typing
from typing import Annotated, Any

import jsonschema
import pytest

from guided.automaton.reference.token_masks import accepts
from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema import json_schema_to_grammar
from guided.frontends.python_types.partial_values import partial_value
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.python_types.value_readers import value_of

pydantic = pytest.importorskip("pydantic", reason="pydantic is optional")
typing_extensions = pytest.importorskip("typing_extensions", reason="typing_extensions comes with pydantic")
alias = typing_extensions.TypeAliasType


class Member(typing_extensions.TypedDict):
    a: typing_extensions.NotRequired[int]
    b: typing_extensions.ReadOnly[str]
    c: typing_extensions.ReadOnly[typing_extensions.NotRequired[list[Nested]]]


class Partial(typing_extensions.TypedDict, total=False):
    a: typing_extensions.Required[Annotated[int, "a number"]]
    b: str


Nested = alias("Nested", "list[Nested] | int")
Outer = alias("Outer", "dict[str, Inner] | None")
Inner = alias("Inner", list[Outer])
Tuples = alias("Tuples", "tuple[Tuples, ...] | int")
Number = alias("Number", "int")
NewMember = typing.NewType("NewMember", Member)
CASES: list[tuple[Any, list[Any], list[Any]]] = [
    (Member, [{"b": "x"}, {"a": 1, "b": "", "c": [1, [2]]}], [{}, {"b": 1}, {"b": "", "c": ["a"]}]),
    (Partial, [{"a": 1}, {"a": 1, "b": ""}], [{}, {"b": ""}, {"a": "1"}]),
    (NewMember, [{"b": "x"}], [{}]),
    (list[Member], [[{"b": "x"}], []], [[{}]]),
    (Nested, [1, [], [[1], 2, [[]]]], ["a", [["a"]], None]),
    (Outer, [None, {}, {"a": [None, {"b": []}]}], [[], {"a": None}, {"a": [[]]}]),
    (Inner, [[], [None, {"a": [None]}]], [None, [[]]]),
    (list[Nested], [[], [1, [1]]], [1, ["a"]]),
    (dict[str, Nested], [{"a": [1]}], [{"a": "b"}]),
    (tuple[Nested, Nested], [[1, [1]]], [[1], ["a", 1]]),
    (Number, [1], ["a"]),
]


@pytest.mark.filterwarnings("ignore:Items 'b', 'c' on TypedDict class:UserWarning")  # ReadOnly is not enforced
@pytest.mark.parametrize(("tp", "good", "bad"), CASES, ids=lambda v: getattr(v, "__name__", str(v))[:30])
def test_schemas_grammars_and_values(tp, good, bad):
    schema = type_to_schema(tp)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator, grammar = jsonschema.Draft202012Validator(schema), json_schema_to_grammar(schema)
    adapter = pydantic.TypeAdapter(tp)
    for value in good:
        assert validator.is_valid(value) and accepts(grammar, json.dumps(value).encode())
        assert value_of(tp, value) == adapter.validate_python(value, strict=False)
    for value in bad:
        assert not validator.is_valid(value) and not accepts(grammar, json.dumps(value).encode())
        with pytest.raises(SpecError):
            value_of(tp, value)


def test_recursive_aliases_in_sets():
    schema = type_to_schema(set[Tuples])
    grammar = json_schema_to_grammar(schema)
    for value, verdict in [([1, [2, []]], True), ([1, 1], False), (["a"], False)]:
        assert jsonschema.Draft202012Validator(schema).is_valid(value) == verdict
        assert accepts(grammar, json.dumps(value).encode()) == verdict
    assert value_of(set[Tuples], [1, [2, []]]) == {1, (2, ())}
    with pytest.raises(UnsupportedError, match="is not hashable"):
        type_to_schema(set[Nested])


def test_only_recursive_aliases_become_definitions():
    same = alias("Member", Member)
    assert type_to_schema(tuple[Number, Number])["prefixItems"] == [{"type": "integer"}] * 2
    assert list(type_to_schema(tuple[same, Member])["$defs"]) == ["Member", "Nested"]


@pytest.mark.parametrize(
    ("tp", "message"),
    [(alias("Lost", "list[Nowhere]"), "Lost: an annotation cannot be resolved"),
     (alias("Open", "list[int"), "Open: an annotation cannot be resolved")],
)  # fmt: skip
def test_errors_name_the_alias(tp, message):
    with pytest.raises(SpecError, match=message):
        type_to_schema(tp)


def test_an_alias_of_itself_is_refused():
    with pytest.raises(SpecError, match="refers to itself"):
        json_schema_to_grammar(type_to_schema(alias("Itself", "Itself")))


def test_a_typed_dict_that_is_still_being_written():
    assert partial_value(Member, {"a": 1}) == {"a": 1}
    assert partial_value(Member, {"a": 1, "b": "x", "c": [1]}) == {"a": 1, "b": "x", "c": [1]}
