"""Alternatives in the manner of real schemas: none of them may multiply, and jsonschema judges each."""

from __future__ import annotations

import itertools
import json
import random
import re

import pytest

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra.conditions import evaluate, holds_without_members, impossible_members
from guided.frontends.json_schema.algebra.equal_schemas import EqualSchemas
from guided.frontends.json_schema.algebra.name_classes import MAX_CLASSES, divide_names
from guided.frontends.json_schema.compile import json_schema_to_grammar
from guided.frontends.json_schema.documents.resolve import Library
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.regex import parse_regex
from guided.frontends.regex.overlap import Overlap
from guided.ir.conditions import AllOf, AnyOf, NoneOf, Written
from guided.limits import Limits
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.effort import every
from tests.json_schema_judge import Judge
from tests.json_schema_support import byte_compiler, verdicts

KINDS = [f"kind {at}" for at in range(14)]


def copied(at):
    """The same schema in another location."""
    return {
        "type": "array",
        "description": f"copy {at}",
        "items": {"type": "object", "properties": {"x": {"title": f"{at}", "type": "integer"}}},
    }


def of_its_own(at):
    """A schema that overlaps with the schemas of all other numbers, and contains none of them."""
    return {"type": "array", "items": {"properties": {f"p{at}": {"const": at}}}}


UNIQUE_OBJECTS = {"type": "array", "items": {"type": "object"}, "uniqueItems": True}
"""Its complement is not supported, so no alternative may need it."""

SCHEMAS = {
    "a required name that the patterns of a closed object do not allow": {
        "oneOf": [
            {"type": "object", "required": ["type"], "patternProperties": {"^type$": {"type": "string"}}},
            {"properties": {"x": UNIQUE_OBJECTS}, "patternProperties": {"^m": True}, "additionalProperties": False},
        ],
        "type": "object",
    },
    "a required member that other alternatives only allow with another value": {
        "oneOf": [
            {"type": "object", "required": ["type"], "patternProperties": {"^typ": {"type": "string"}}},
            {"additionalProperties": UNIQUE_OBJECTS, "patternProperties": {"^m": True}},
        ],
        "type": "object",
    },
    "branches with many branches": {
        "oneOf": [
            {
                "oneOf": [
                    {
                        "properties": {"type": {"const": kind}, name: UNIQUE_OBJECTS},
                        "required": ["type", name],
                        "additionalProperties": False,
                    }
                    for kind in KINDS
                ]
            }
            for name in ("x", "m1", "m3")
        ],
        "type": "object",
    },
    "a reference next to an object with conditions": {
        "oneOf": [
            {"type": "object", "required": ["type"]},
            {
                "type": "object",
                "properties": {"x": UNIQUE_OBJECTS, **{f"m{at}": True for at in range(10)}},
                "additionalProperties": False,
                "allOf": [
                    {"if": {"required": [f"m{at}"]}, "then": {"required": ["x"]}, "else": {"not": {"required": ["z"]}}}
                    for at in range(10)
                ],
            },
        ]
    },
    "patterns that tell objects apart": {
        "anyOf": [{"type": "null"}, {"$ref": "#/$defs/rule"}],
        "$defs": {
            "rule": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"type": {"type": "string", "pattern": f"^{kind}$"}, "x": {"const": at}},
                        "required": ["type"],
                    }
                    for at, kind in enumerate(KINDS)
                ]
            }
        },
    },
    "patterns within an enumeration": {
        "oneOf": [
            {
                "allOf": [
                    {"properties": {"type": {"enum": KINDS}}, "required": ["type"]},
                    {"properties": {"type": {"pattern": f"{at}$"}}, "required": ["x"]},
                ]
            }
            for at in range(10)
        ]
    },
    "enumerations next to an enumeration": {
        "properties": {"type": {"enum": KINDS}, **{f"m{at}": {"type": "integer"} for at in range(14)}},
        "additionalProperties": False,
        "dependentSchemas": {f"m{at}": {"properties": {"type": {"enum": KINDS[at : at + 3]}}} for at in range(14)},
    },
    "copies of a schema": {
        "oneOf": [
            {"properties": {"type": {"const": kind}, "x": copied(at)}, "required": [f"m{at}"]}
            for at, kind in enumerate(KINDS)
        ]
    },
    "constants one by one": {
        "properties": {"type": {"oneOf": [{"const": kind, "title": kind[-1]} for kind in (*KINDS, KINDS[0])]}},
        "oneOf": [{"properties": {"type": {"pattern": f"^kind {at}$"}}, "required": ["type"]} for at in range(14)],
    },
    "closed alternatives": {
        "oneOf": [
            {"type": "object", "additionalProperties": False, "properties": {name: {"type": "integer"}}}
            for name in ("type", "x", *(f"m{at}" for at in range(10)))
        ]
    },
    "arrays and strings that are apart": {
        "properties": {
            "x": {
                "oneOf": [
                    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}, "minItems": 1}]},
                    {"type": "array", "items": {"type": "object"}, "minItems": 1, "uniqueItems": True},
                    {"type": "null"},
                ]
            }
        },
        "required": ["x"],
    },
    "a complement that only some alternatives ask for": {
        "required": ["m1"],
        "if": {"properties": {"type": {"enum": KINDS[:4]}}},
        "then": {"properties": {"x": {"type": "array", "uniqueItems": True, "items": {"type": "object"}}}},
        "else": {"properties": {f"n{at}": {"type": "array", "items": {"type": "object"}} for at in range(8)}},
        "anyOf": [{"required": [f"m{at}"]} for at in range(40)],
    },
    "branches that leave other types open": {
        "oneOf": [
            {"properties": {"type": {"const": kind}, "x": of_its_own(at)}, "required": ["type"]}
            for at, kind in enumerate(KINDS)
        ]
    },
    "branches told apart by what the parent requires": {
        "type": ["object", "null"],
        "required": ["type"],
        "allOf": [
            {"properties": {"x": {"type": "array"}}},
            {
                "oneOf": [
                    {"type": "object", "properties": {"type": {"enum": [kind]}, "x": of_its_own(at)}}
                    for at, kind in enumerate(KINDS)
                ]
            },
        ],
    },
    "many patterns of names": {
        "type": "object",
        "additionalProperties": False,
        "patternProperties": {f"^m{at}": {"enum": [at, None]} for at in range(20)} | {"^[mt][a-z0-9]*$": True},
    },
}


def values():
    yield from (None, 1, {}, [])
    members = {
        "type": ["kind 1", "kind 3", "kind 13", "x"],
        "x": [1, [], [{"x": 1}], [{"x": "y"}]],
        "m1": [1, None],
        "m3": [3, "y"],
    }
    for size in range(1, 4):
        for names in itertools.combinations(members, size):
            for found in itertools.product(*(members[name] for name in names)):
                yield dict(zip(names, found, strict=True))


@pytest.mark.parametrize("name", SCHEMAS)
def test_alternatives_do_not_multiply(name):
    """Compiled within a twentieth of the default limits, and right for all small instances."""
    limits = Limits(nodes=100_000, states=25_000)
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    compiler = GrammarCompiler(vocabulary, limits=limits)
    compiled = compiler.compile_json_schema(SCHEMAS[name], property_order="any")
    judge, seen = Judge(SCHEMAS[name]), set()
    for value in values():
        text = json.dumps(value)
        valid = judge(text)
        matcher = GrammarMatcher(compiled)
        assert (matcher.accept_string(text) and matcher.is_accepting()) == valid, text
        seen.add(valid)
    assert seen == {True, False}


def parts(rng):
    """Some keywords that distinguish alternatives: for all types, for one type, and for members."""
    members = rng.choice([{"a": {"const": 1}}, {"a": {"const": 2}}, {"a": False}, {"b": {"type": ["null", "array"]}}])
    choices = [
        {"type": rng.sample(["object", "string", "array", "null"], rng.randint(1, 3))},
        {"properties": members},
        {"required": [rng.choice("ab")]},
        {"pattern": rng.choice(["^x", "y$", ""])},
        {"minItems": rng.randint(0, 2)},
        {"items": {"type": rng.choice(["null", "string"])}, "maxItems": 1},
        {"minProperties": rng.randint(0, 1)},
    ]
    found = rng.sample(choices, rng.choice([0, 1, 1, 2, 2, 3]))
    return {name: told for part in found for name, told in part.items()}


def exactly_one(rng, depth):
    """`oneOf` with a few branches: alone, with other keywords, or with constraints of its parent."""
    branches = [parts(rng) for _ in range(rng.randint(1, 3))]
    if depth and rng.random() < 0.4:
        branches[0] = exactly_one(rng, depth - 1)
    if rng.random() < 0.2:
        branches[-1] = rng.choice([True, False, {"allOf": [parts(rng), {}]}, {"anyOf": [parts(rng), parts(rng)]}])
    schema = {"oneOf": branches}
    how = rng.randrange(4)
    return schema if how == 0 else parts(rng) | (schema if how == 1 else {"allOf": [parts(rng), schema]})


@pytest.mark.parametrize("seed", every(3, range(100)))
def test_exactly_one_of_random_branches(seed):
    """Every small value of every type has the same verdict as in jsonschema."""
    schema = exactly_one(random.Random(f"exactly one {seed}"), 2)
    members = [{}, *({name: one} for name in "ab" for one in (1, 2, None, []))]
    members += [a | b for a, b in itertools.product(members, repeat=2) if len(a) == len(b) == 1]
    small = [None, True, 3, "", "x", "y", "xy", [], [None], ["x"], [None, "x"], *members]
    judge = Judge(schema)
    assert verdicts(schema, *small) == [judge(json.dumps(value)) for value in small]


@pytest.mark.parametrize("order", ["any", "declared"])
def test_an_order_of_schemas_is_not_another_goal(order):
    """More and more schemas constrain the members, in different orders: there is at most one rule for each set of
    schemas.
    """
    count = 7
    schema = {
        "$ref": "#/$defs/0",
        "$defs": {
            str(at): {
                "type": "object",
                "properties": {
                    name: {"allOf": [{"$ref": f"#/$defs/{(at + step) % count}"} for step in steps]}
                    for name, steps in {"x": (1, 2), "y": (3, 1), "z": (0, 4)}.items()
                },
            }
            for at in range(count)
        },
    }
    grammar = json_schema_to_grammar(schema, JsonSchemaOptions(property_order=order))
    assert len(grammar.rules) < 3 * 2**count


def test_copies_of_a_schema_are_one_rule():
    """Members with the same large schema, each with its own annotations."""
    copies = {f"m{at}": {"description": f"{at}", "$ref": "#"} for at in range(400)}
    schema = {"type": "object", "properties": copies | {"type": {"type": "string"}}, "additionalProperties": False}
    grammar = json_schema_to_grammar(schema, JsonSchemaOptions(property_order="any"))
    assert len(grammar.rules) < 100


def conditions(rng, depth):
    kind = rng.randrange(4 if depth else 1)
    if kind == 0:
        return Written(tuple(rng.sample(range(6), rng.randrange(4))))
    return (AllOf, AnyOf, NoneOf)[kind - 1](tuple(conditions(rng, depth - 1) for _ in range(rng.randrange(4))))


def holds(condition, written):
    if isinstance(condition, Written):
        return not written.isdisjoint(condition.members)
    parts = [holds(item, written) for item in condition.items]
    return all(parts) if isinstance(condition, AllOf) else any(parts) == isinstance(condition, AnyOf)


@pytest.mark.parametrize("seed", every(3, range(200)))
def test_facts_about_a_condition(seed):
    """A partly known condition, compared with all ways to complete it; and the members that a text can have."""
    rng = random.Random(seed)
    condition = conditions(rng, 3)
    known = {at: rng.random() < 0.5 for at in rng.sample(range(6), rng.randrange(7))}
    every = [set(found) for size in range(7) for found in itertools.combinations(range(6), size)]
    agreeing = [one for one in every if all((at in one) == known[at] for at in known)]
    told = evaluate(condition, known, None)
    assert told is None or {holds(condition, one) for one in agreeing} == {told}
    assert evaluate(condition, {at: at in agreeing[0] for at in range(6)}, None) == holds(condition, agreeing[0])
    assert holds_without_members(condition) == holds(condition, set())
    slots, free = ((0, 1), (2, 3, 4)), (5,)
    texts = [one for one in every if all(len(one & set(slot)) < 2 for slot in slots) and holds(condition, one)]
    assert impossible_members(condition, slots, free).isdisjoint(set().union(*texts))
    one_member = AllOf((condition, NoneOf((Written((3,)),))))
    assert 3 in impossible_members(one_member, slots, free)


PATTERNS = ["^a", "^b", "b$", "aa", "^(ab)*$", "^[^b]*$", "^ab?a$", "^$", "^.{2}$", "^c"]
WORDS = ["".join(word) for size in range(5) for word in itertools.product("abcd", repeat=size)]


@pytest.mark.parametrize("count", range(len(PATTERNS) + 1))
def test_classes_part_all_names(count):
    """Each name is in exactly one class, given by the patterns that match it, and no class is empty."""
    patterns = PATTERNS[:count]
    languages = [parse_regex(pattern, dialect="ecma", search=True) for pattern in patterns]
    classes = divide_names(languages, Overlap())
    assert classes is not None
    inhabited = set()
    for word in WORDS:
        spoken = {at for at, pattern in enumerate(patterns) if re.search(pattern, word)}
        found = [one for one in classes if spoken.issuperset(one.inside) and spoken.isdisjoint(one.outside)]
        assert [set(one.inside) for one in found] == [spoken], word
        inhabited.update(found)
    assert count <= 2 or inhabited == set(classes)


def test_patterns_that_overlap_in_too_many_ways():
    """They are refused with the location of a pattern and a hint."""
    schema = {"patternProperties": {f"{letter}": {"type": "null"} for letter in "abcdefghi"}}
    with pytest.raises(UnsupportedError, match=f"more than {MAX_CLASSES} ways") as caught:
        byte_compiler().compile_json_schema(schema)
    assert caught.value.pointer.startswith("/patternProperties/")


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(PATTERNS, 2)))
def test_overlap_matches_enumerated_words(one, two):
    """For two patterns: their intersection, and their differences."""
    nodes = [parse_regex(pattern, dialect="ecma", search=True) for pattern in (one, two)]
    overlap = Overlap()
    assert overlap.may_have_word(nodes) == any(re.search(one, word) and re.search(two, word) for word in WORDS)
    assert overlap.may_have_word(nodes[:1], nodes[1:]) == any(
        re.search(one, word) and not re.search(two, word) for word in WORDS
    )
    assert overlap.possible_words(WORDS, nodes[0]) == [word for word in WORDS if re.search(one, word)]


def test_a_search_that_is_too_long_has_no_result():
    """A language that cannot be decided within the steps counts as possibly nonempty."""
    long, apart = (parse_regex(f"^{letter}(x|y){{4000}}{letter}$", dialect="ecma", search=True) for letter in "ab")
    other = parse_regex("^a(x|y){4000}b$", dialect="ecma", search=True)
    assert not Overlap().may_have_word((long, apart))
    assert Overlap().may_have_word((long, other)) and Overlap(steps=10).may_have_word((long, apart))


def test_equal_schemas():
    """Annotations do not distinguish schemas. Keywords, values, their order and identifiers do."""
    same = [{"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]} for _ in range(2)]
    same[0]["title"], same[1]["properties"]["a"]["description"] = "one", "two"
    others = [
        {"type": "object", "properties": {"a": {"enum": [True]}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"enum": ["1"]}}, "required": ["a"]},
        {"type": "object", "properties": {"title": {"enum": [1]}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"enum": [1], "$anchor": "a"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"], "$id": "http://x.y/z"},
        {"type": "object", "properties": {"a": {"const": [1]}}, "required": ["a"]},
        {"const": {"title": 1}}, {"const": {"title": 2}}, {"const": {}}, {"const": []}, {"properties": {"title": True}},
        {"enum": ["title"]}, {"properties": {}}, {"required": []}, {"$ref": "#/anyOf/0"}, {"$ref": "#/anyOf/1"},
    ]  # fmt: skip
    schema = {"anyOf": [*same, *others]}
    library = Library(schema, JsonSchemaOptions(), {}, Limits())
    places = [library.child(library.root, "anyOf", at) for at in range(len(schema["anyOf"]))]
    equal = EqualSchemas()
    assert [equal.representative(place) for place in places] == [places[0], places[0], *places[2:]]


@pytest.mark.parametrize("constant", [{"b": 1}, {"b": 1, "c": None}, {}])
def test_a_count_with_a_constant(constant):
    """Alternatives with a count are multiplied out, and the rest of one may be a constant."""
    few = {"type": "object", "properties": {"c": {"type": "null"}}, "additionalProperties": False, "minProperties": 2}
    judged = {"oneOf": [few, {"not": {"const": constant}}]}
    values = [{}, {"b": 1}, {"b": 2}, {"c": None}, {"b": 1, "c": None}, 1]
    for schema in (judged, {"not": judged}):
        judge = Judge(schema)
        assert verdicts(schema, *values) == [judge(json.dumps(value)) for value in values]
