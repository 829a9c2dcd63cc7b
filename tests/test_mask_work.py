"""The work of masks and steps, counted in configurations: no single call may cost many times the usual amount."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.matching import GrammarCompiler, GrammarMatcher
from guided.matching.compiled import native_vocabulary
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.json_schema_judge import Judge
from tests.json_schema_support import byte_compiler


def made(schema: dict[str, Any], text: str, **options: Any) -> int:
    """The number of configurations that masks along a text add. The masks equal those of a walk of the vocabulary."""
    matcher = GrammarMatcher(byte_compiler().compile_json_schema(schema, property_order="any", **options))
    masks = []
    for byte in text.encode():
        masks.append(mask_of(matcher))
        assert matcher.accept_token(byte)
    configurations = matcher.configurations
    for mask in reversed(masks):
        matcher.rollback(1)
        assert mask == tuple(matcher._walk_mask())
    return configurations


def test_whether_an_entry_can_end_in_a_new_way_needs_no_shortest_one() -> None:
    """The shortest object is already present. Any visited object shows whether there is another one."""
    names = {"cli": "binary", "dir": "location", "env": "variable", "file": "location"}
    kinds = [
        {
            "type": "object",
            "properties": {"rule": {"enum": [rule]}, "on": {"type": "boolean"}, "line": {"type": ["string", "null"]}},
            "required": ["rule", name],
        }
        for rule, name in names.items()
    ]
    schema = {"type": "array", "uniqueItems": True, "items": {"oneOf": kinds}}
    values = [{"rule": "cli", "binary": 0}, {"rule": "cli", "binary": 1}, {"rule": "dir", "location": 0}]
    assert made(schema, json.dumps(values)) < 5_000


@pytest.mark.parametrize("count", [1, 10, 100, 1000, 3000])
def test_visited_states_are_found_after_tables_grow(count: int) -> None:
    """A second sequence with the same text reaches the same states, and adds none."""
    grammar = byte_compiler().compile_json_schema({"type": "array", "uniqueItems": True})
    text = json.dumps([[str(number), {"a": number}] for number in range(count)]).encode()
    first, second = GrammarMatcher(grammar), GrammarMatcher(grammar)
    states = []
    for byte in text:
        assert first.accept_token(byte)
        states.append(first.state)
    made = first.configurations
    for byte, state in zip(text, states, strict=True):
        assert second.accept_token(byte) and second.state == state
    assert second.configurations == made > len(set(states)) > len(text) // 4
    assert mask_of(first) == mask_of(second) == tuple(second._walk_mask()) == (256,)


def test_objects_that_must_differ_are_found_without_trying_all() -> None:
    """The names within an object must differ as well, so a text that ignores them does not bound the next object."""
    item = {"type": "object", "minProperties": 3}
    grammar = byte_compiler().compile_json_schema({"type": "array", "uniqueItems": True, "minItems": 3, "items": item})
    matcher = GrammarMatcher(grammar)
    assert matcher.min_tokens_to_finish() <= len('[{"":0," ":0,"!":0},{"":1," ":0,"!":0},{"":2," ":0,"!":0}]') + 1
    assert matcher.configurations < 20_000


@pytest.mark.parametrize("escapes", ["json", "minimal"])
def test_names_that_are_left_of_finitely_many_are_counted(escapes: Any) -> None:
    """If some of finitely many names are used, a new one is found without a search, for any spelling of characters."""
    pattern = "^(name|other):[0-9]{2}:(en|nl|é/)$"
    schema = {"type": "object", "propertyNames": {"pattern": pattern}, "additionalProperties": {"type": "boolean"}}
    text = json.dumps(
        {f"name:{number}:{end}": True for number in range(10, 40) for end in ("en", "é/")}, ensure_ascii=False
    )
    assert made(schema, text, escapes=escapes) < 5_000


def test_names_that_were_all_written_are_looked_up_inside_of_another_entry() -> None:
    """A name from a small set that is used up cannot end, whatever is open around it. Nothing is searched for."""
    names = ["partials", "distribution"]
    both = {"propertyNames": {"enum": names}, "minProperties": 2}
    one_of_them = {"oneOf": [{"required": [name]} for name in names]}
    item = {"properties": {"id": {"type": "string"}}, "if": both, "then": False, "else": one_of_them}
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "object"} | item}
    assert made(schema, json.dumps([{"id": "one", "partials": "0.5"}, {"distribution": "1"}])) < 2_000


def test_complements_that_the_alternatives_chosen_imply_add_no_cases() -> None:
    """An object with one name of each pair clearly does not have both: its shapes do not multiply."""
    pairs = [("a", "b"), ("c", "d")]
    both = [{"propertyNames": {"enum": list(pair)}, "minProperties": 2} for pair in pairs]
    one = [{"oneOf": [{"required": [name]} for name in pair]} for pair in pairs]
    parts = [{"if": condition, "then": False, "else": other} for condition, other in zip(both, one, strict=True)]
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "object", "allOf": parts}}
    assert made(schema, json.dumps([{"a": 1, "c": 2}, {"b": 1, "x": 4, "c": 2}])) < 1_500


def test_effects_of_tokens_on_entries_are_shared_by_callers() -> None:
    """Alternatives that begin alike call the same string. Its token data is stored once."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [f'{one}{two}"'.encode() for one in letters for two in letters] + [b" " * size for size in range(2, 200)]
    vocabulary = Vocabulary(tokens, eos_token_ids=[len(tokens)])
    kinds = [
        {"type": "object", "properties": {"type": {"const": f"kind {kind}"}, f"m{kind}": True}, "required": ["type"]}
        for kind in range(20)
    ]
    schema = {"type": "array", "uniqueItems": True, "items": {"oneOf": kinds}}
    matcher = GrammarMatcher(GrammarCompiler(vocabulary).compile_json_schema(schema, property_order="any"))
    kept = []
    for text in ('[{"', 'ab": 1, "', 'type": "kind 1"}, {"ab":', '1, "type"', ':"kind 1', '"'):
        assert matcher.accept_string(text)
        before = matcher.memory_bytes
        mask = mask_of(matcher)
        kept.append(matcher.memory_bytes - before)
        assert mask == tuple(matcher._walk_mask()), text
    assert max(kept) < 200_000


def test_alternatives_of_the_same_patterns_are_read_by_one_automaton() -> None:
    """Exactly one of five words in a string: at each position, a mask needs one table, not five."""
    words = ["customer", "maker", "operator", "admin", "designer"]
    schema = {"type": "string", "oneOf": [{"pattern": word} for word in words]}
    compiler, judge, text = byte_compiler(), Judge(schema), "a customer, adm"
    native = native_vocabulary(compiler.vocabulary)
    native.clear_cache()
    matcher = GrammarMatcher(compiler.compile_json_schema(schema))
    for byte in ('"' + text).encode():
        assert matcher.accept_token(byte)
        assert mask_of(matcher) == tuple(matcher._walk_mask())
    assert native.cached_tables <= len(text) + 1
    for value in (text, "admi", "an admin", "a maker and a designer", "makermaker"):
        taken = GrammarMatcher(compiler.compile_json_schema(schema))
        assert (taken.accept_string(json.dumps(value)) and taken.is_accepting()) == judge(json.dumps(value))


def test_names_of_members_have_one_table_whatever_was_written() -> None:
    """A register stores which members are present. Inside a name, no token depends on it."""
    names = [f"member {letter}" for letter in "abcdefghijklmnop"]
    properties = {name: {"type": "boolean"} for name in names}
    schema = {"properties": properties, "required": names, "additionalProperties": False}
    compiler = byte_compiler()
    native = native_vocabulary(compiler.vocabulary)
    native.clear_cache()
    matcher = GrammarMatcher(compiler.compile_json_schema(schema | {"type": "object"}, property_order="any"))
    for byte in json.dumps(dict.fromkeys(names, True)).encode():
        assert mask_of(matcher) == tuple(matcher._walk_mask())
        assert matcher.accept_token(byte)
    assert matcher.is_accepting() and native.cached_tables < 500


def test_no_states_are_added_to_decide_whether_entries_can_end() -> None:
    """Inside a name, tokens affect no entry: the position that they lead to shows whether all entries can continue."""
    names = [f"{one}{two}member" for one in "abcdefghijklmnop" for two in "qrst"]
    parts = {name[:size].encode() for name in names for size in range(2, len(name) + 1)}
    tokens = [bytes([byte]) for byte in range(256)] + sorted(parts)
    compiler = GrammarCompiler(Vocabulary(tokens, eos_token_ids=[len(tokens)]))
    few = {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "b"]}}
    schema = {"type": "object", "properties": dict.fromkeys(names, few), "required": names[:20]}
    matcher = GrammarMatcher(compiler.compile_json_schema(schema, property_order="any"))
    assert matcher.accept_string('{"')
    before = matcher.configurations
    mask = mask_of(matcher)
    assert matcher.configurations - before < 300
    assert mask == tuple(matcher._walk_mask())


def levels(count: int) -> str:
    """A number of levels of expressions, and brackets of five kinds, each of which begins with an expression of some
    level.
    """
    rules = [f'e{n}: e{n + 1} ("{"<" * (n + 1)}" e{n + 1})*' for n in range(count)]
    kinds = [f'k{n}: "(" (e{n} "{mark}" | "[" e{n + 1} "]") e0? ")"' for n, mark in enumerate(",=:;")]
    return "\n".join(["start: e0", *rules, f'e{count}: NAME | "(" e0 ")" | k0 | k1 | k2 | k3', *kinds, "NAME: /[a-z]/"])


def test_a_rule_is_entered_once_for_all_of_its_callers() -> None:
    """The stack after a bracket grows with the levels, not with the product of the levels and everything that may be
    inside.
    """
    counts = []
    for count in (10, 20, 40):
        matcher = GrammarMatcher(byte_compiler().compile_lark(levels(count), semantics="scannerless"))
        before = matcher.configurations
        assert matcher.accept_string("((((((((")
        counts.append(matcher.configurations - before)
    assert counts[2] < 2.5 * counts[1] < 6.25 * counts[0]
    assert counts[0] < 8 * 3 * 10
