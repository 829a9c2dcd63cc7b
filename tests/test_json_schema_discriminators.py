"""Alternatives with a discriminator: few pairs are compared, and overlapping alternatives never count as disjoint."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from guided.errors import LimitExceeded
from guided.frontends.json_schema.algebra.discriminators import pairs_that_may_overlap
from guided.frontends.json_schema.algebra.disjoint import DisjointnessTest
from guided.frontends.json_schema.algebra.reader import Reader
from guided.frontends.json_schema.algebra.shape import ANYTHING
from guided.frontends.json_schema.compile import json_schema_to_grammar
from guided.frontends.json_schema.documents.resolve import Library
from guided.frontends.json_schema.options import DEFAULTS
from guided.limits import Limits
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.matching.compiled import native_vocabulary
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.effort import every
from tests.json_schema_judge import Judge
from tests.json_schema_support import byte_compiler, matches, verdicts

MANY = 1000


def kind(at):
    """An object of one kind, without constraints on other members."""
    return {
        "type": "object",
        "properties": {"kind": {"const": f"kind {at}"}, "value": {"properties": {f"p{at}": {"type": "integer"}}}},
        "required": ["kind"],
    }


def inside(at):
    """An object whose kind is in a member of a member."""
    return {"properties": {"resource": {"type": "object", **kind(at)}}, "required": ["resource"]}


def optional(at):
    return {"type": "object", "properties": kind(at)["properties"]}


def two_kinds(at):
    return {"anyOf": [kind(2 * at), kind(2 * at + 1)]}


def open_type(at):
    """As in FHIR: all alternatives allow types other than objects, so exactly one alternative never does."""
    return {name: value for name, value in kind(at).items() if name != "type"}


MANY_ALTERNATIVES = {
    "a required constant": {"oneOf": [kind(at) for at in range(MANY)]},
    "a required constant, types left open": {"oneOf": [open_type(at) for at in range(MANY)]},
    "a constant that the parent requires": {"required": ["kind"], "oneOf": [optional(at) for at in range(MANY)]},
    "a member of a member": {"oneOf": [{"type": "object", **inside(at)} for at in range(MANY)]},
    "the first item": {
        "items": True,
        "minItems": 2,
        "oneOf": [{"type": "array", "prefixItems": [{"const": at}, True]} for at in range(MANY)],
    },
    "alternatives of alternatives": {"oneOf": [two_kinds(at) for at in range(MANY // 2)]},
    "references": {
        "oneOf": [{"$ref": f"#/$defs/{at}"} for at in range(MANY)],
        "$defs": {f"{at}": {"allOf": [{"$ref": f"#/$defs/of {at}"}]} for at in range(MANY)}
        | {f"of {at}": kind(at) for at in range(MANY)},
    },
    "several members": {
        "properties": {f"m{of}": {"oneOf": [kind(at) for at in range(60)]} for of in range(8)},
    },
}


@pytest.mark.parametrize("name", MANY_ALTERNATIVES)
def test_alternatives_with_a_discriminator_are_not_compared(name, monkeypatch):
    """Linear work suffices. Comparing all pairs would take half a million comparisons."""
    compared = []
    monkeypatch.setattr(DisjointnessTest, "common_types", lambda self, *given: compared.append(given) or set())
    grammar = json_schema_to_grammar(MANY_ALTERNATIVES[name], findings=[], limits=Limits(work=60_000_000))
    assert len(grammar.rules) > 70 and not compared


def test_many_alternatives_compile():
    schema = {"oneOf": [kind(at) for at in range(MANY)]}
    grammar = byte_compiler().compile_json_schema(schema)
    for at, value, expected in ((7, {"p7": 1}, True), (7, {"p7": "x"}, False), (999, {"p7": "x"}, True)):
        assert matches(grammar, json.dumps({"kind": f"kind {at}", "value": value})) is expected
    assert not matches(grammar, '{"kind": "kind 1000"}') and not matches(grammar, "1")


def test_comparisons_are_counted():
    """Nothing distinguishes these alternatives. They are refused for the work, not silently assumed to overlap."""
    schema = {"oneOf": [{"properties": {f"p{at}": {"type": "integer"}}} for at in range(200)]}
    with pytest.raises(LimitExceeded) as caught:
        json_schema_to_grammar(schema, limits=Limits(work=1_000_000))
    assert caught.value.limit == "work"


# --- against the library jsonschema

CONSTANTS = ["a", "b", 1, 1.0, True, None, [1], {"k": "a"}]


def drawn_value(rng):
    kinds = rng.choice([CONSTANTS[:2], CONSTANTS])
    return rng.choice(
        [
            {"const": rng.choice(kinds)},
            {"enum": rng.sample(kinds, 2)},
            {"type": rng.choice(["string", "object", "array"])},
        ]
    )


def drawn_alternative(rng, depth=2):
    name = rng.choice(["k", "k", "k", "m"])
    inner = drawn_value(rng) if depth == 0 or rng.random() < 0.6 else drawn_alternative(rng, depth - 1)
    out = {"properties": {name: inner}}
    if rng.random() < 0.8:
        out["required"] = [name]
    if rng.random() < 0.6:
        out["type"] = rng.choice(["object", ["object", "string"]])
    if rng.random() < 0.3:
        out["patternProperties"] = {rng.choice(["^k", "^m$", "^z"]): drawn_value(rng)}
    if rng.random() < 0.3:
        out["additionalProperties"] = rng.choice([False, drawn_value(rng)])
    if rng.random() < 0.2:
        out = {"type": "array", "prefixItems": [inner], "minItems": rng.choice([0, 1])}
    if rng.random() < 0.5:
        out = {rng.choice(["anyOf", "anyOf", "allOf"]): [out, drawn_alternative(rng, 0)]}
    return drawn_value(rng) if rng.random() < 0.1 else out


def instances():
    yield from (*CONSTANTS, [], "x", ["a", 1])
    inner = [*CONSTANTS, {}, {"m": 1}, {"k": {"k": "a"}}, ["a"]]
    for one in inner:
        yield from ({"k": one}, {"m": one}, [one])
    yield from ({"k": one, "m": other} for one, other in itertools.product(inner, ("a", 1, {"k": "a"})))


VALUES = [{}, *instances()]


@pytest.mark.parametrize("seed", every(3, range(40)))
def test_pairs_that_are_left_out_share_no_value(seed):
    rng = random.Random(seed)
    branches = [drawn_alternative(rng) for _ in range(16)]
    library = Library({"oneOf": branches}, DEFAULTS, {}, Limits())
    reader = Reader(library, DEFAULTS, Limits())
    schemas = dict(enumerate(reader.branches(library.root, "oneOf")))
    pairs = pairs_that_may_overlap(reader.disjointness, schemas, ANYTHING)
    hold = [{at for at, value in enumerate(VALUES) if Judge(branch)(json.dumps(value))} for branch in branches]
    for a, b in itertools.combinations(range(len(branches)), 2):
        assert (a, b) in pairs or not hold[a] & hold[b], (branches[a], branches[b])


@pytest.mark.parametrize("seed", every(3, range(30)))
def test_exactly_one_of_many_alternatives(seed):
    rng = random.Random(1000 + seed)
    schema = {"oneOf": [drawn_alternative(rng, 1) for _ in range(rng.choice([6, 14]))]}
    if rng.random() < 0.3:
        schema["required"] = ["k"]
    judge = Judge(schema)
    assert verdicts(schema, *VALUES) == [judge(json.dumps(value)) for value in VALUES]


def test_one_thread_for_all_constants():
    """After a key that all alternatives have, there is one token table, not one per alternative."""
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    compiler = GrammarCompiler(vocabulary, cache_bytes=0)
    alternatives = [
        {
            "properties": {"kind": {"const": f"kind {at}"}, f"v{at}": {"type": "integer"}},
            "required": ["kind", f"v{at}"],
            "type": "object",
            "additionalProperties": False,
        }
        for at in range(MANY)
    ]
    matcher = GrammarMatcher(compiler.compile_json_schema({"anyOf": alternatives}))
    assert matcher.accept_string('{"kind" : ')
    before = native_vocabulary(vocabulary).cached_tables
    assert set(mask_of(matcher)) == set(b' \n\r\t"')
    assert native_vocabulary(vocabulary).cached_tables == before + 1
