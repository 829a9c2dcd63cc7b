"""Mutually exclusive conditions: n cases and not 2^n, and each verdict equals that of jsonschema."""

from __future__ import annotations

import json
import random

import pytest

from guided.errors import UnsupportedError
from guided.frontends.json_schema.compile import json_schema_to_grammar
from guided.limits import Limits
from tests.effort import every
from tests.json_schema_judge import Judge
from tests.json_schema_support import verdicts

OVERLAPPING = 7  # overlapping schemas, which divide the values of a member into too many parts


def arguments(at):
    """Arguments that overlap with the arguments of all other numbers, and contain none of them."""
    return {"type": "object", "properties": {f"a{at}": {"type": "integer"}}, "required": [f"a{at}"]}


def call(condition, many, **more):
    """If the condition of a number holds, the arguments are those of the number."""
    rules = [{"if": condition(at), "then": {"properties": {"arguments": arguments(at)}}} for at in range(many)]
    return {"type": "object", "properties": {"name": {"type": "string"}}, "allOf": rules, **more}


def named(at):
    return {"properties": {"name": {"const": f"tool {at}"}}}


def named_and_there(at):
    return {**named(at), "required": ["name"]}


def inside(at):
    return {"properties": {"function": named_and_there(at)}, "required": ["function"]}


CALLS = {
    "name": call(named, 10, required=["name", "arguments"]),
    "optional name": call(named, 10),
    "name that is required by the condition": call(named_and_there, 10),
    "several names": call(lambda at: {"properties": {"name": {"enum": [f"tool {at}", f"tool {at + 20}"]}}}, 10),
    "member of a member": call(inside, 10),
}


@pytest.mark.parametrize("name", CALLS)
def test_conditions_that_exclude_each_other(name):
    schema, judge = CALLS[name], Judge(CALLS[name])
    values = [
        {**({"name": tool, "function": {"name": tool}} if tool else {}), "arguments": given}
        for tool in (None, "tool 1", "tool 9", "tool 21", "x")
        for given in ({"a1": 1}, {"a9": 1}, {"a1": "x", "a9": 1}, {f"a{at}": 1 for at in range(10)}, 3)
    ]
    values += [{}, {"name": "tool 1"}, {"name": 1, "arguments": {"a1": 1}}, {"function": 1, "arguments": 2}]
    assert verdicts(schema, *values) == [judge(json.dumps(value)) for value in values]


def test_many_conditions_take_linear_work():
    """300 conditions. A product, or comparing all pairs, would take more work."""
    schema = call(named, 300, required=["name"])
    grammar = json_schema_to_grammar(schema, findings=[], limits=Limits(work=30_000_000))
    assert len(grammar.rules) < 1000


def test_conditions_that_do_not_exclude_each_other_are_refused():
    """Each condition is about another member, so none of them distinguishes the cases: the reason in the error is
    right.
    """
    schema = call(lambda at: {"properties": {f"flag {at}": {"const": 1}}}, 12)
    with pytest.raises(UnsupportedError, match="the values of the member 'arguments' into more than 48 parts"):
        json_schema_to_grammar(schema)


def drawn_condition(rng, at):
    names = [f"tool {at}"] if rng.random() < 0.7 else [f"tool {at}", f"tool {rng.randrange(9)}", None]
    out = {"properties": {"name": {"enum": names}}}
    if rng.random() < 0.3:
        out["properties"]["mode"] = {"const": rng.choice("xy")}
    if rng.random() < 0.5:
        out["required"] = rng.choice([["name"], ["name", "mode"]])
    return {"not": out} if rng.random() < 0.15 else out


def drawn_schema(rng):
    rules = []
    for at in range(OVERLAPPING):
        rule = {"if": drawn_condition(rng, at), "then": {"properties": {"arguments": arguments(at)}}}
        if rng.random() < 0.2:
            rule["then"] = {
                "anyOf": [rule["then"], {"patternProperties": {"^m": {"const": "x"}}, "required": ["mode"]}]
            }
        if rng.random() < 0.2:
            rule["else"] = {"properties": {"arguments": {"maxProperties": 2}}}
        rules.append(rule)
    out = {"type": "object", rng.choice(["allOf", "allOf", "anyOf"]): rules}
    if rng.random() < 0.3:
        out["additionalProperties"] = False
        out["properties"] = {"name": True, "arguments": True, "mode": True}
    if rng.random() < 0.5:
        out["required"] = ["name"]
    return out


def drawn_value(rng):
    out = {}
    if rng.random() < 0.8:
        out["name"] = rng.choice([*(f"tool {at}" for at in range(8)), None, 1])
    if rng.random() < 0.8:
        out["arguments"] = {f"a{at}": rng.choice([1, 1, "x"]) for at in rng.sample(range(8), rng.randrange(8))}
    if rng.random() < 0.4:
        out["mode"] = rng.choice(["x", "y"])
    if rng.random() < 0.1:
        out["other"] = 1
    return out


@pytest.mark.parametrize("seed", every(3, range(30)))
def test_random_conditions(seed):
    rng = random.Random(seed)
    schema = drawn_schema(rng)
    values = [drawn_value(rng) for _ in range(150)]
    judge = Judge(schema)
    try:
        found = verdicts(schema, *values)
    except UnsupportedError:
        assert "not" in json.dumps(schema) or "else" in json.dumps(schema)  # several conditions hold at once
        return
    assert found == [judge(json.dumps(value)) for value in values]
