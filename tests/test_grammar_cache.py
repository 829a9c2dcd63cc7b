"""A compiler's cache: entries are found by content, and bounded in size, even if matching makes them larger later."""

from __future__ import annotations

import random

import pytest

import guided
from guided.frontends.composition import content_of_parts

VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])


def lark(number: int) -> str:
    return f'start: "a{number}" item+\nitem: NAME "=" NUMBER ";"\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/\n%ignore " "'


def schema(number: int) -> dict:
    return {"type": "object", "properties": {f"x{number}": {"type": "string"}, "y": {"type": "array"}}}


def walk(grammar: guided.CompiledGrammar, rng: random.Random) -> None:
    matcher, bitmask = guided.GrammarMatcher(grammar), guided.allocate_token_bitmask(1, VOCABULARY.size)
    for _ in range(60):
        matcher.fill_next_token_bitmask(bitmask, max_tokens=100)
        matcher.accept_token(rng.choice(guided.allowed_tokens(bitmask)))


@pytest.mark.parametrize("kind", ["lark", "json_schema"])
def test_grammars_that_become_heavy_after_they_are_kept_are_dropped(kind):
    compiler, rng = guided.GrammarCompiler(VOCABULARY, cache_bytes=2 << 20), random.Random(1)
    for number in range(120):
        walk(
            compiler.compile_lark(lark(number)) if kind == "lark" else compiler.compile_json_schema(schema(number)), rng
        )
    entries = [entry.grammar.native for entry in compiler.cache._entries.values()]
    assert 0 < len(entries) < 120
    assert sum(native.memory_bytes for native in entries) < 2 * compiler.cache.bytes
    assert compiler.cache._weight == sum(entry.weight for entry in compiler.cache._entries.values())


def test_cached_grammars_are_found_by_content():
    compiler = guided.GrammarCompiler(VOCABULARY)
    assert compiler.compile_lark(lark(1)) is compiler.compile_lark(lark(1))
    assert compiler.compile_json_schema(schema(1)) is compiler.compile_json_schema(dict(schema(1)))
    assert compiler.cache.hits == 2


def composition(number: int, least: int = 1, name: str = "x", root: str = "root") -> guided.Expr:
    item = guided.regex(f"[a-{'bcd'[number]}]+") | guided.gbnf('root ::= "1"\na ::= "1"', root=root)
    twice = guided.capture(name, guided.repeat(item, least) + item)
    return guided.rules("(" + guided.rule("r") + ")", r=twice + guided.lark(lark(number), semantics="scannerless"))


def test_compositions_are_found_by_content():
    compiler = guided.GrammarCompiler(VOCABULARY)
    first = compiler.compile(composition(1))
    assert compiler.compile(composition(1)) is first and compiler.cache.hits == 1
    others = [composition(2), composition(1, 2), composition(1, name="y"), composition(1, root="a")]
    others += [composition(1) | "", guided.sequence("(", composition(1)), guided.sequence(composition(1), "(")]
    assert len({id(compiler.compile(each)) for each in others} | {id(first)}) == len(others) + 1


def test_a_composition_of_equal_parts_has_a_short_key():
    part = guided.regex("a")
    for _ in range(60):
        part = guided.sequence(part, part)
    assert len(content_of_parts(part)) == 62
    assert content_of_parts(guided.json_schema(schema(1))) != content_of_parts(guided.json_schema(schema(1)))


def test_one_that_is_too_heavy_alone_replaces_no_others():
    compiler = guided.GrammarCompiler(VOCABULARY, cache_bytes=1 << 20)
    kept = compiler.compile_json_schema(schema(1))
    documents = {"long": " ".join(str(number * 7919 % 10_007) for number in range(1_000))}
    quote = {"type": "string", "x-guided-quote": "long"}
    first = compiler.compile_json_schema(quote, documents=documents, escapes="minimal")
    assert compiler.compile_json_schema(quote, documents=documents, escapes="minimal") is not first
    assert compiler.compile_json_schema(schema(1)) is kept
    assert compiler.cache._weight == sum(entry.weight for entry in compiler.cache._entries.values())


def test_one_that_is_found_again_and_again_does_not_grow_for_ever():
    """Brackets that nest deeper and deeper create new states."""
    compiler, grammars = guided.GrammarCompiler(VOCABULARY, cache_bytes=100_000), list[guided.CompiledGrammar]()
    bitmask = guided.allocate_token_bitmask(1, VOCABULARY.size)
    for depth in range(0, 3000, 30):
        grammar = compiler.compile_gbnf('root ::= "(" root ")" | "x"')
        if not grammars or grammar is not grammars[-1]:
            grammars.append(grammar)
        matcher = guided.GrammarMatcher(grammar)
        for _ in range(depth):
            matcher.fill_next_token_bitmask(bitmask)
            matcher.accept_token(ord("("))
    assert len(grammars) > 1 and compiler.cache.hits > 0
    assert compiler.cache._weight <= 100_000
