"""`GrammarCompiler.compile` accepts what `Engine.generate` accepts, with the same meaning."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import pytest

import guided
from guided.frontends.regex import parse_regex
from guided.ir import Grammar

VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
COMPILER = guided.GrammarCompiler(VOCABULARY)
GENERATION = guided.JsonSchemaOptions.for_generation().non_defaults()


@dataclass
class Point:
    x: int
    y: int


def act(place: Point, fast: bool = False) -> None: ...


def texts_of(grammar: guided.CompiledGrammar, texts: list[str]) -> list[bool]:
    return [(m := guided.GrammarMatcher(grammar)).accept_string(text) and m.is_accepting() for text in texts]


TEXTS = [
    "1", "null", '{"x":1,"y":2}', '{"x": 1, "y": 2}', '{"x": 1e0, "y": 2}', '{"place": {"x": 1, "y": 2}}', "yes", "no",
    "ab", "AB", "a", '"a"', "[1]", "[ 1 ]", '"\\u0061"',
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "direct", "has_options"),
    [
        ({"type": "object", "properties": {"x": {}}}, "compile_json_schema", True),
        (True, "compile_json_schema", True),
        (Point, "compile_type", True),
        (list[int], "compile_type", True),
        (Literal["a"], "compile_type", True),
        (int | None, "compile_type", True),
        (act, "compile_type", True),
        (["yes", "no"], "compile_choice", False),
        (("a", "ab"), "compile_choice", False),
        (guided.json_schema({"type": "integer"}), "compile_expr", True),
        (guided.regex("a+") + "b", "compile_expr", False),
    ],
)
def test_the_type_alone_determines_the_meaning(given: Any, direct: str, has_options: bool):
    method = getattr(COMPILER, direct)
    assert texts_of(COMPILER.compile(given), TEXTS) == texts_of(method(given), TEXTS)
    options = GENERATION if has_options else {}
    assert texts_of(COMPILER.compile(given, style="generation"), TEXTS) == texts_of(method(given, **options), TEXTS)


@pytest.mark.parametrize(
    "pattern",
    [
        re.compile("ab"),
        re.compile("ab", re.IGNORECASE),
        re.compile("a . b", re.X | re.S),
        re.compile(r"\w", re.ASCII),
        re.compile("(?i:a)b"),
    ],
)
def test_compiled_regular_expressions_keep_their_flags(pattern: re.Pattern[str]):
    texts = ["ab", "AB", "Ab", "a\nb", "aab", "a b", "é", "x"]
    assert texts_of(COMPILER.compile(pattern), texts) == [pattern.fullmatch(text) is not None for text in texts]


def test_grammars_and_text():
    tree = parse_regex("ab|a")
    assert texts_of(COMPILER.compile("ab|a"), TEXTS) == [text in ("ab", "a") for text in TEXTS]
    assert isinstance(Grammar, type) and tree is not None
    assert texts_of(COMPILER.compile(guided.grammar("json")), ["[1]", "x"]) == [True, False]


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ('{"type": "integer"}', {}, "pass json.loads"),
        ([1, 2], {}, "a choice of strings"),
        ({"type": "structural_tag"}, {}, "pass guided.structural_tag"),
        ("a", {"max_items": 3}, "has no effect here: the constraint is a regular expression"),
        (["a"], {"whitespace": "json"}, "written literally"),
        (int, {"search": True}, "a schema or a type"),
        (int, {"style": "compact"}, "style is 'compact'"),
        (re.compile(b"a"), {}, "matches bytes"),
        (object(), {}, "has no JSON Schema"),
    ],
)
def test_refusals(given: Any, options: dict[str, Any], message: str):
    with pytest.raises(guided.GuidedError, match=message):
        COMPILER.compile(given, **options)
    with pytest.raises(TypeError, match="did you mean 'whitespace'"):
        COMPILER.compile(int, white_space="json")


def test_names_of_the_package():
    assert set(dir(guided)) <= set(guided.__all__)
    assert {"Engine", "GrammarCompiler", "ChatResult"} <= set(guided.__all__)


def test_a_composed_specification_refuses_options_that_no_part_reads():
    for options in ({"documents": {"x": "y"}}, {"dialect": "ecma"}, {"registry": {}}):
        with pytest.raises(guided.GuidedError, match="pass the option to one of its parts"):
            COMPILER.compile(guided.regex("a"), **options)
    assert COMPILER.compile(guided.json_schema({"type": "array"}) + "!", whitespace="compact")


def test_names_and_the_size_of_documents():
    with pytest.raises(guided.SpecError, match="the name of a document is 1, not a string"):
        COMPILER.compile({"type": "string", "x-guided-quote": "x"}, documents={1: "abc"})
    small = guided.GrammarCompiler(VOCABULARY, limits=guided.Limits(states=3000))
    names = {f"d{number}": f"{number}" + "ab" * 500 for number in range(4)}
    fields = {name: {"type": "string", "x-guided-quote": name} for name in names}
    schema = {"type": "object", "properties": fields, "required": list(names)}
    with pytest.raises(guided.LimitExceeded) as caught:
        small.compile(schema, documents=names, style="generation")
    assert caught.value.given <= 4004  # before the automata of all documents exist
