"""A compiler's cache: entries are found by content, and bounded in size, even if matching makes them larger later."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import guided
from guided.frontends.common.plain_values import content_of, to_plain
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


class Opaque(Mapping[str, Any]):
    """A mapping whose `repr` does not show its members."""

    def __init__(self, members: dict[str, Any]) -> None:
        self.members = members

    def __getitem__(self, name: str) -> Any:
        return self.members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        return "Opaque"


class Name(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "Name"


class Count(int):
    def __repr__(self) -> str:
        return "Count"


def accepts(grammar: guided.CompiledGrammar, text: str) -> bool:
    matcher = guided.GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()


def tagged(schema: Any) -> dict[str, Any]:
    """A structural tag with many parts, which are compiled later if they are equal to no other part."""
    content = {"type": "json_schema", "json_schema": schema}
    tags = [{"begin": f"<{number}>", "content": content, "end": ""} for number in range(10)]
    return {"type": "structural_tag", "format": {"type": "or", "elements": [{"type": "tag", **tag} for tag in tags]}}


COMPILE_BY_PLACE: dict[str, Callable[[guided.GrammarCompiler, Any], guided.CompiledGrammar]] = {
    "schema": lambda compiler, schema: compiler.compile_json_schema(schema),
    "any": lambda compiler, schema: compiler.compile(schema),
    "nested": lambda compiler, schema: compiler.compile_json_schema({"allOf": [schema]}),
    "registry": lambda compiler, schema: compiler.compile_json_schema({"$ref": "x:/a"}, registry={"x:/a": schema}),
    "lark": lambda compiler, schema: compiler.compile_lark("start: @x", grammars={"x": schema}),
    "tag": lambda compiler, schema: compiler.compile_structural_tag(Opaque(tagged(schema))),
    "part": lambda compiler, schema: compiler.compile(guided.structural_tag(Opaque(tagged(schema)))),
}


@pytest.mark.parametrize("place", COMPILE_BY_PLACE)
def test_the_members_of_other_mappings_count(place: str) -> None:
    compiler, begin = guided.GrammarCompiler(VOCABULARY), "<3>" if place in ("tag", "part") else ""
    schema = Opaque({"const": "a"})
    for text in ("a", "b", "c"):
        schema.members["const"] = text
        grammar = COMPILE_BY_PLACE[place](compiler, schema)
        for other in ("a", "b", "c"):
            assert accepts(grammar, f'{begin}"{other}"') == (other == text)
    first = COMPILE_BY_PLACE[place](compiler, Opaque({"const": Name("b")}))
    if place != "part":  # a part is equal only to itself
        assert first is COMPILE_BY_PLACE[place](compiler, {"const": "b"})


def test_the_content_of_strings_and_numbers_of_other_classes_counts() -> None:
    compiler = guided.GrammarCompiler(VOCABULARY)
    for text in ("a", "b"):
        assert accepts(compiler.compile_json_schema({"enum": [Name(text)]}), f'"{text}"')
        schema = {"properties": {Name(text): {"const": 1}}, "required": [text], "additionalProperties": False}
        assert accepts(compiler.compile_json_schema({"type": "object", **schema}), f'{{"{text}":1}}')
    for count in (1, 2):
        assert accepts(compiler.compile_json_schema({"const": Count(count)}), str(count))
        assert accepts(compiler.compile_json_schema({"const": (Count(count),)}), f"[{count}]")


DISTINCT = [True, 1, 1.0, -0.0, 0, 0.0, False, None, "1", "True", "\udc80", "\\udc80", [1], [[1]], {}, [],
            {"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": "1"}, Decimal("1"), Decimal("1.0"), 10**4000,
            10**4000 + 1]  # fmt: skip


def test_different_values_have_different_keys() -> None:
    keys = [content_of(value) for value in DISTINCT]
    assert len(set(keys)) == len(DISTINCT)
    assert keys == [content_of(deepcopy(value)) for value in DISTINCT]


@pytest.mark.parametrize("value", [{1}, {1: 2}, b"a", object(), 10**5000, Opaque({"a": {1}}), [range(3)]], ids=type)
def test_a_value_that_is_not_json_has_no_key(value: Any) -> None:
    assert content_of(to_plain({"const": value})) == []
    with pytest.raises(guided.SpecError):
        guided.GrammarCompiler(VOCABULARY).compile_json_schema({"const": value})


def test_a_value_that_contains_itself_is_refused() -> None:
    cyclic: list[Any] = []
    cyclic += [cyclic, cyclic]
    for value in (cyclic, Opaque({"a": cyclic})):
        with pytest.raises(guided.LimitExceeded, match="depth"):
            guided.GrammarCompiler(VOCABULARY).compile_json_schema({"const": value})


def test_a_part_does_not_follow_later_changes() -> None:
    compiler, spec = guided.GrammarCompiler(VOCABULARY, cache_bytes=0), tagged({"const": "a"})
    part = guided.structural_tag(spec)
    spec["format"]["elements"].clear()
    assert accepts(compiler.compile(part), '<0>"a"')


def test_changed_imported_files_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lark", reason="lark is not installed")
    compiler, text = guided.GrammarCompiler(VOCABULARY), "start: WORD\n%import .words.WORD"
    (tmp_path / "below").mkdir()
    (tmp_path / "words.lark").write_text('WORD: "one"')
    first = compiler.compile_lark(text, import_paths=[tmp_path])
    assert compiler.compile_lark(text, import_paths=[tmp_path]).native is first.native
    (tmp_path / "words.lark").write_text('WORD: "other"')
    assert accepts(compiler.compile_lark(text, import_paths=[tmp_path]), "other")
    monkeypatch.setattr("guided.frontends.lark.imported_files._MAX_ENTRIES", 1)  # too many files: nothing is cached
    second = compiler.compile_lark(text, import_paths=[tmp_path])
    assert accepts(second, "other")
    assert compiler.compile_lark(text, import_paths=[tmp_path]).native is not second.native
