"""Readers of grammars on generated texts: a text means what its tree means, and errors in broken texts have a location.

For each notation, a random tree is written as text. The grammar must accept what the tree generates by definition
(`tree_grammars.py`), and walks through its masks must end, within the budget, in such texts. Then pieces of the text
are removed, doubled and exchanged. The result must compile, or be refused with an error of guided that has a location
in the text.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from guided import TOOL_STYLES, tool_style
from guided.errors import SpecError, UnsupportedError
from guided.frontends.structural_tag.tool_styles import ToolStyle
from guided.matching import CompiledGrammar
from tests import gbnf_support, test_structural_tag_language
from tests.effort import examples
from tests.generated_support import (
    COMPILER,
    NAMES,
    RANDOMS,
    agree,
    answered,
    at_pointer,
    broken,
    takes,
    tell,
    walked,
    walked_if_short,
)
from tests.structural_tag_support import byte_compiler, walk
from tests.test_structural_tag_language import reads
from tests.tree_grammars import CONTROL

SEED = os.environ.get("GUIDED_FUZZ_SEED", "0")  # of the slow runs


# --- GBNF, with xgrammar's macros and options

GBNF_PIECES = re.compile(r'"(?:[^"\\\n]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[A-Za-z0-9_.-]+|::=|\s+|.', re.DOTALL)
GBNF_OTHERS = [
    "root", "::=", '"a"', "[a-z]", "(", ")", "|", "*", "{2", "{2,1}", "{1,2}", "{0,99999999}", ",", "}", "\n", "#", "!",
    ".", "=", "TagDispatch(", "Regex(", "Token(", '("t", root)', "excludes=(", "(=", "\\", "é", "[", '"', "1", "true",
    "[max_chars=2]", "[capture]", 'Regex("[a")', 'Regex("(?=a)b")', "<think>", "<[258]>", "!<[65]>", "<other>",
    'TagDispatch(("a", root), ("ab", root))', "loop_after_dispatch=false", "ExcludeToken(3)", "Token(999)", "\x00",
    "TokenTagDispatch((257, root), excludes=(258))", "\ud800",
]  # fmt: skip


def gbnf(text: str) -> CompiledGrammar:
    return COMPILER.compile_gbnf(text, allow_special_tokens=True)


def judge_gbnf(rng: random.Random) -> None:
    with_macros = rng.random() < 0.7
    letters = "abc" if with_macros else "abé"
    drawn = gbnf_support.Drawn(rng, letters, {**NAMES, 97: "a"} if with_macros else None)
    rules = drawn.rules()
    text = drawn.text(rules)
    tell(text)
    grammar = answered(text, gbnf)
    more = "".join(chr(CONTROL + id) for id in NAMES) if with_macros else ""
    agree(grammar, rules, letters + more, rng)
    for _ in range(4):
        changed = broken(text, GBNF_PIECES, GBNF_OTHERS, rng)
        tell(changed)
        walked_if_short(answered(changed, gbnf), rng)


@examples(80)
@given(RANDOMS)
def test_gbnf(rng: random.Random) -> None:
    judge_gbnf(rng)


# --- structural tags

TAG_OTHERS: list[Any] = [
    None, True, 0, -1, 1.5, "", "a", "<|a|>", [], {}, {"type": "tag"}, {"type": "any_text"}, ["a", "a"], [["a", {}]],
    {"type": "grammar", "grammar": "root ::= ("}, {"type": "regex", "pattern": "["}, {"type": "token", "token": 257},
    {"type": "json_schema", "json_schema": {"type": "strin"}}, {"type": "json_schema", "json_schema": False},
    {"type": "const_string", "value": "<think>"}, {"type": "grammar", "grammar": 'root ::= root{2} "a" | "b"'},
]  # fmt: skip


def tag(text: str) -> CompiledGrammar:
    return COMPILER.compile_structural_tag(text, allow_special_tokens=True)


def written_json(value: Any, rng: random.Random) -> str:
    return json.dumps(value, indent=rng.choice([None, None, 1]), ensure_ascii=rng.random() < 0.5)


def judge_tag(rng: random.Random) -> None:
    drawn = test_structural_tag_language.Drawn(rng)
    form = drawn.form(3)
    document = {"type": "structural_tag", "format": form}
    text = written_json(document, rng)
    tell(text)
    samples = {drawn.text(form) for _ in range(30)}
    grammar = answered(text, tag)
    if isinstance(grammar, CompiledGrammar):
        written = [walked(grammar, rng, more) for more in (0, 3, 9)]
        assert all(reads(form, text) for text in written), written
        for sample in samples:
            assert takes(grammar, sample) == reads(form, sample), sample
    else:
        assert "can never be complete" in str(grammar) or not any(reads(form, sample) for sample in samples)
    for _ in range(4):
        changed = written_json(altered(document, TAG_OTHERS, rng), rng)
        tell(changed)
        walked_if_short(answered(changed, tag), rng)


def altered(document: Any, others: list[Any], rng: random.Random) -> Any:
    """The document with a few of its values removed, renamed, or replaced by others or by other values of its own."""
    document = copy.deepcopy(document)
    for _ in range(rng.randint(1, 2)):
        places = list(values_inside(document))
        if not places:
            break
        inside, key = rng.choice(places)
        other, name = rng.choice(places)
        match rng.randrange(4):
            case 0:
                inside[key] = copy.deepcopy(rng.choice(others))
            case 1:
                inside[key] = copy.deepcopy(other[name])
            case 2:
                del inside[key]
            case _ if isinstance(inside, dict):
                inside[rng.choice(["type", "excludes", "tags", "end", "x", str(name)])] = inside.pop(key)
    return document


def values_inside(value: Any) -> Iterator[tuple[Any, Any]]:
    """The containers of a document, each with one of its keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from values_inside(value[key])


@examples(60)
@given(RANDOMS)
def test_structural_tags(rng: random.Random) -> None:
    judge_tag(rng)


# --- lists of tools, and which tools may be called

LEAVES: list[Any] = [
    {"type": "boolean"}, {"enum": ["x", 1, None]}, {"type": "integer", "minimum": 0, "maximum": 12}, {"const": "é<"},
    {"type": "string", "maxLength": 3}, {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    {"type": "object", "properties": {"in": {"type": "null"}}, "additionalProperties": False},
]  # fmt: skip


def drawn_tools(rng: random.Random) -> list[Any]:
    names = {"".join(rng.choice("ab.-_") for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 4))}
    tools = []
    for name in sorted(names):
        tool: Any = {"type": "function", "function": {"name": name}}
        if rng.random() < 0.8:
            properties = {key: rng.choice(LEAVES) for key in rng.sample(["p", "pq", "é", "q"], rng.randint(0, 3))}
            required = rng.sample([*properties], rng.randint(0, len(properties)))
            schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
            tool["function"]["parameters"] = schema
        tools.append(tool)
    return tools


def drawn_choice(tools: list[Any], rng: random.Random) -> tuple[Any, set[str], int, float]:
    """A tool_choice, and its meaning: the tools that may be called, and the minimum and maximum number of calls."""
    named = [{"type": "function", "function": {"name": tool["function"]["name"]}} for tool in tools]
    names = {one["function"]["name"] for one in named}
    match rng.randrange(5):
        case 0:
            return rng.choice([None, "auto"]), names, 0, math.inf
        case 1:
            return "required", names, 1, math.inf
        case 2:
            return "none", set(), 0, 0
        case 3:
            one = rng.choice(named)
            return one, {one["function"]["name"]}, 1, 1
    mode, some = rng.choice(["auto", "required"]), rng.sample(named, rng.randint(1, len(named)))
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": some}}
    return allowed, {one["function"]["name"] for one in some}, int(mode == "required"), math.inf


def judge_tools(rng: random.Random) -> None:
    tools = drawn_tools(rng)
    choice, names, least, most = drawn_choice(tools, rng)
    style = tool_style(rng.choice(TOOL_STYLES))
    parallel = rng.random() < 0.5
    tell(f"{style.name}, parallel {parallel}: {json.dumps([tools, choice])}")
    document = style.structural_tag(tools, tool_choice=choice, parallel_tool_calls=parallel)
    try:
        grammar = byte_compiler().compile_structural_tag(document, numbers="plain", max_digits=20)
    except UnsupportedError as error:  # a name that is not an identifier, in a style of Python calls
        assert "cannot be written in this style" in error.reason
        return
    for _ in range(2):
        text = "".join(walk(byte_compiler(), grammar, rng, 120))
        reader = style.reader(tools)
        reader.read(text)
        assert least <= len(reader.calls) <= (most if parallel else 1), text
        for call in reader.calls:
            assert call.complete and call.name in names, text
            schema = next(tool["function"] for tool in tools if tool["function"]["name"] == call.name).get("parameters")
            jsonschema.validate(json.loads(call.arguments), {"maxProperties": 0} if schema is None else schema)
    for _ in range(4):
        changed = altered({"tools": tools, "tool_choice": choice}, TOOL_OTHERS, rng)
        tell(json.dumps(changed))
        is_placed(changed, style, rng)


TOOL_OTHERS: list[Any] = [
    None, True, 0, -1.5, "", "a", "auto", "required", "<|im_start|>", "a b", [], {}, {"type": "function"}, {"type": []},
    {"type": "function", "function": {"name": "a"}}, {"type": "objct"}, "x" * 65, False, {"type": "array"},
]  # fmt: skip


def is_placed(document: dict[str, Any], style: ToolStyle, rng: random.Random) -> None:
    """Changed tools are read, or refused at a location in them or, for their schemas, in the structural tag."""
    if not {"tools", "tool_choice"} <= document.keys():
        return
    try:
        found = style.structural_tag(document["tools"], tool_choice=document["tool_choice"])
    except (SpecError, UnsupportedError) as error:
        assert error.pointer.startswith("/"), str(error)
        at_pointer(document, error.pointer)
        return
    text = written_json(found, rng)
    grammar = answered(text, lambda text: byte_compiler().compile_structural_tag(text, max_digits=20))
    if isinstance(grammar, CompiledGrammar):
        walk(byte_compiler(), grammar, rng, 60)


@examples(50)
@given(RANDOMS)
def test_tools(rng: random.Random) -> None:
    judge_tools(rng)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("judge", [judge_gbnf, judge_tag, judge_tools])
def test_many(judge: Callable[[random.Random], None], part: int) -> None:
    for number in range(1500):
        judge(random.Random(f"{SEED} {part} {number}"))
