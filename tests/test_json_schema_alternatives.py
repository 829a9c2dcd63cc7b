"""Alternatives as real schemas tell them apart: none of these may multiply, and each is judged by jsonschema."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from guided.errors import UnsupportedError
from guided.limits import Limits
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.spec.json_schema.equal_schemas import EqualSchemas
from guided.spec.json_schema.name_classes import MOST_CLASSES, name_classes
from guided.spec.json_schema.options import JsonSchemaOptions
from guided.spec.json_schema.resolve import Library
from guided.spec.regex import parse_regex
from guided.spec.regex.overlap import Overlap
from guided.vocabulary import Vocabulary
from tests.json_schema_judge import Judge
from tests.json_schema_support import byte_compiler

KINDS = [f"kind {at}" for at in range(14)]


def copied(at):
    """The same schema at another place."""
    return {
        "type": "array",
        "description": f"copy {at}",
        "items": {"type": "object", "properties": {"x": {"title": f"{at}", "type": "integer"}}},
    }


SCHEMAS = {
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
    """Compiled within a twentieth of the default bounds, and right for all small instances."""
    limits = Limits(nodes=100_000, states=25_000)
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    compiler = GrammarCompiler(vocabulary, limits=limits)
    compiled = compiler.compile_json_schema(SCHEMAS[name], property_order="any")
    judge, verdicts = Judge(SCHEMAS[name]), set()
    for value in values():
        text = json.dumps(value)
        valid = judge(text)
        matcher = GrammarMatcher(compiled)
        assert (matcher.accept_string(text) and matcher.is_accepting()) == valid, text
        verdicts.add(valid)
    assert verdicts == {True, False}


PATTERNS = ["^a", "^b", "b$", "aa", "^(ab)*$", "^[^b]*$", "^ab?a$", "^$", "^.{2}$", "^c"]
WORDS = ["".join(word) for size in range(5) for word in itertools.product("abcd", repeat=size)]


@pytest.mark.parametrize("count", range(len(PATTERNS) + 1))
def test_classes_part_all_names(count):
    """Each name is in one class, that of the patterns that match it; and none of the classes is empty."""
    patterns = PATTERNS[:count]
    languages = [parse_regex(pattern, dialect="ecma", search=True) for pattern in patterns]
    classes = name_classes(languages, Overlap())
    assert classes is not None
    inhabited = set()
    for word in WORDS:
        spoken = {at for at, pattern in enumerate(patterns) if re.search(pattern, word)}
        found = [one for one in classes if spoken.issuperset(one.inside) and spoken.isdisjoint(one.outside)]
        assert [set(one.inside) for one in found] == [spoken], word
        inhabited.update(found)
    assert count <= 2 or inhabited == set(classes)


def test_patterns_that_overlap_in_too_many_ways():
    """Refused with the place of a pattern and a hint."""
    schema = {"patternProperties": {f"{letter}": {"type": "null"} for letter in "abcdefghi"}}
    with pytest.raises(UnsupportedError, match=f"more than {MOST_CLASSES} ways") as caught:
        byte_compiler().compile_json_schema(schema)
    assert caught.value.pointer.startswith("/patternProperties/")


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(PATTERNS, 2)))
def test_overlap_is_what_words_say(one, two):
    """For two patterns, together and one without the other."""
    nodes = [parse_regex(pattern, dialect="ecma", search=True) for pattern in (one, two)]
    overlap = Overlap()
    assert overlap.may_hold(nodes) == any(re.search(one, word) and re.search(two, word) for word in WORDS)
    assert overlap.may_hold(nodes[:1], nodes[1:]) == any(
        re.search(one, word) and not re.search(two, word) for word in WORDS
    )
    assert all(overlap.may_be(word, nodes[0]) == bool(re.search(one, word)) for word in WORDS)


def test_a_search_that_is_too_long_says_nothing():
    """What is not decided within the steps may hold a word."""
    long, apart = (parse_regex(f"^{letter}(x|y){{4000}}{letter}$", dialect="ecma", search=True) for letter in "ab")
    other = parse_regex("^a(x|y){4000}b$", dialect="ecma", search=True)
    assert not Overlap().may_hold((long, apart))
    assert Overlap().may_hold((long, other)) and Overlap(steps=10).may_hold((long, apart))


def test_equal_schemas():
    """Annotations do not tell schemas apart; keywords, values, their order and identifiers do."""
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
    assert [equal.first(place) for place in places] == [places[0], places[0], *places[2:]]
