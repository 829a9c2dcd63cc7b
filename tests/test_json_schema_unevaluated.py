"""`unevaluated*`: many branches need no product, and each verdict equals that of jsonschema."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from guided.errors import LimitExceeded
from guided.frontends.json_schema.compile import json_schema_to_grammar
from guided.limits import Limits
from tests.effort import every
from tests.json_schema_judge import Judge
from tests.json_schema_support import verdicts

MANY = range(20)
CLOSED, ENDED = {"unevaluatedProperties": False}, {"unevaluatedItems": False}

MANY_BRANCHES = {
    "members": {"anyOf": [{"properties": {f"p{at}": {"type": "integer"}}} for at in MANY], **CLOSED},
    "required members": {"anyOf": [{"properties": {f"p{at}": True}, "required": [f"p{at}"]} for at in MANY], **CLOSED},
    "branches of branches": {
        "anyOf": [{"anyOf": [{"properties": {f"p{at}{of}": True}} for of in range(6)]} for at in range(6)], **CLOSED
    },
    "kinds": {
        "oneOf": [{"properties": {"kind": {"const": at}, f"p{at}": True}, "required": ["kind"]} for at in MANY],
        **CLOSED,
    },
    "names that depend": {"dependentSchemas": {f"a{at}": {"properties": {f"b{at}": True}} for at in MANY}, **CLOSED},
    "conditions": {
        "allOf": [{"if": {"required": [f"a{at}"]}, "then": {"properties": {f"a{at}": True}}} for at in MANY], **CLOSED
    },
    "patterns": {"anyOf": [{"patternProperties": {f"^p{at}$": {"type": "integer"}}} for at in MANY], **CLOSED},
    "prefixes with contains": {
        "anyOf": [{"prefixItems": [{"const": at}] * (at % 5 + 1), "contains": {"type": "string"}} for at in MANY],
        **ENDED,
    },
    "prefixes beside contains": {
        "contains": {"type": "string"},
        "anyOf": [{"prefixItems": [{"type": "integer"}] * (at + 1)} for at in MANY],
        **ENDED,
    },
    "prefixes, each with its own contains": {
        "type": "array",
        "anyOf": [{"prefixItems": [{"const": at}], "contains": {"const": f"c{at}"}} for at in range(12)],
        **ENDED,
    },
}  # fmt: skip


def instances():
    names = ["p1", "p3", "p19", "p12", "a1", "b1", "a3", "b3", "x"]
    for size in range(4):
        yield from (dict.fromkeys(chosen, 1) for chosen in itertools.combinations(names, size))
    yield from ({"p1": "x"}, {"kind": 1, "p1": 1}, {"kind": 1, "p3": 1}, {"kind": 99}, 1, "x")
    for size in range(4):
        yield from map(list, itertools.product((1, 3, "s", "c1"), repeat=size))
    yield from ([4] * 5 + ["s"], [4] * 6 + ["s"], [*range(20), "s"], [*range(21), "s"])


VALUES = [*instances()]


@pytest.mark.parametrize("name", MANY_BRANCHES)
def test_many_branches(name):
    schema = MANY_BRANCHES[name]
    judge = Judge(schema)
    assert verdicts(schema, *VALUES) == [judge(json.dumps(value)) for value in VALUES]
    assert len(json_schema_to_grammar(schema, findings=[]).rules) < 200


ENDLESS = {
    "contains that overlap": {"anyOf": [{"contains": {"properties": {f"p{at}": {"type": "integer"}}}} for at in MANY]},
    "contains that are independent": {
        "anyOf": [{"prefixItems": [True] * (at + 1), "contains": {"const": at}} for at in MANY]
    },
}


@pytest.mark.parametrize("name", ENDLESS)
def test_multiplying_cases_are_counted(name):
    schema = {**ENDLESS[name], **ENDED}
    with pytest.raises(LimitExceeded) as caught:
        json_schema_to_grammar(schema, limits=Limits(work=10_000_000))
    assert caught.value.limit == "work" and caught.value.given < 11_000_000
    with pytest.raises(LimitExceeded) as caught:
        json_schema_to_grammar(schema, limits=Limits(seconds=0.0))
    assert caught.value.limit == "seconds"


# --- random schemas

NAMES = ["a", "b", "ab", "c"]


def drawn_members(rng):
    out = {}
    if rng.random() < 0.8:
        out["properties"] = {
            name: rng.choice([True, {"type": "integer"}]) for name in rng.sample(NAMES, rng.randint(1, 2))
        }
    if rng.random() < 0.25:
        out["patternProperties"] = {rng.choice(["a", "b$", "^c"]): rng.choice([True, {"type": "integer"}])}
    if rng.random() < 0.3:
        out["required"] = [rng.choice(NAMES)]
    if rng.random() < 0.07:
        out["additionalProperties"] = rng.choice([True, {"type": "integer"}])
    return out


def drawn_items(rng):
    out = {}
    if rng.random() < 0.8:
        out["prefixItems"] = [rng.choice([True, {"type": "integer"}, {"const": 1}]) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.5:
        out["contains"] = rng.choice([{"const": 1}, {"type": "string"}, {"type": "integer"}, {"minimum": 2}])
    if rng.random() < 0.07:
        out["items"] = rng.choice([True, {"type": "integer"}])
    return out


def drawn_schema(rng, drawn, depth=2):
    out = drawn(rng) if rng.random() < 0.5 or depth == 0 else {}
    if depth == 0:
        return out
    for keyword in rng.sample(["allOf", "anyOf", "oneOf", "if", "dependentSchemas", "not"], rng.randint(1, 2)):
        if keyword in ("allOf", "anyOf", "oneOf"):
            out[keyword] = [drawn_schema(rng, drawn, depth - 1) for _ in range(rng.randint(1, 3))]
        elif keyword == "if":
            out |= {part: drawn_schema(rng, drawn, depth - 1) for part in ("if", *rng.sample(["then", "else"], 2)[:2])}
        elif keyword == "not":
            out["not"] = drawn(rng)
        else:
            out[keyword] = {rng.choice(NAMES): drawn_schema(rng, drawn, depth - 1)}
    return out


def members(rng):
    return {name: rng.choice([1, 1, "x"]) for name in rng.sample([*NAMES, "d"], rng.randint(0, 4))}


def items(rng):
    return [rng.choice([1, 2, "x", None]) for _ in range(rng.randint(0, 4))]


MULTIPLYING = (4, 25)
"""Seeds of schemas whose conditions on items are independent, so that these reach a limit."""
KINDS = {
    "unevaluatedProperties": (drawn_members, members),
    "unevaluatedItems": (drawn_items, items),
}


@pytest.mark.parametrize("keyword", KINDS)
@pytest.mark.parametrize("seed", every(2, [seed for seed in range(42) if seed not in MULTIPLYING]))
def test_random_branches(keyword, seed):
    rng = random.Random(seed)
    drawn, value = KINDS[keyword]
    inner = drawn_schema(rng, drawn)
    schema = {**inner, keyword: rng.choice([False, False, {"type": "integer"}, {"type": "string"}])}
    if rng.random() < 0.15:
        schema = {"not": schema}
    values = [1, "x", *(value(rng) for _ in range(80))]
    judge = Judge(schema)
    assert verdicts(schema, *values) == [judge(json.dumps(one)) for one in values], json.dumps(schema)
