"""Structural tags and tools from clients: huge ones exceed a limit, noise is refused, and control tokens cannot be
named, whatever the entry point is.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.cli.main import main
from tests.effort import every
from tests.structural_tag_support import accepts, byte_compiler, compiler_with, of_format

ANY = {"type": "any_text"}
X = {"type": "const_string", "value": "x"}
LONG = "<" + "a" * 1_000_000


def tool(number: int) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {f"p{number}": {"type": "string"}}, "additionalProperties": False}
    return {"type": "function", "function": {"name": f"tool_{number}", "parameters": parameters}}


def nested(depth: int) -> Any:
    form: Any = ANY
    for _ in range(depth):
        form = {"type": "optional", "content": form}
    return of_format(form)


def triggered(begins: list[str]) -> Any:
    tags = [{"begin": begin, "content": ANY, "end": "</a>"} for begin in begins]
    return of_format({"type": "triggered_tags", "triggers": begins, "tags": tags})


NESTED_TEXT = '{"type": "structural_tag", "format": ' + '{"type": "optional", "content": ' * 10_000 + "{" + "}" * 10_002
HUGE = 2**31 - 1
TWICE: Any = X
for _ in range(17):
    TWICE = {"type": "sequence", "elements": [TWICE, TWICE]}
REFUSED: dict[str, tuple[Any, str]] = {
    "nesting": (nested(10_000), "depth"),
    "nesting in a text": (NESTED_TEXT, "depth"),
    "a trigger of a megabyte": (triggered([LONG]), "nodes"),
    "an end of a megabyte": (of_format({"type": "tag", "begin": "<a>", "content": ANY, "end": LONG}), "nodes"),
    "a string of two megabytes": (of_format({"type": "const_string", "value": 2 * LONG}), "states"),
    "many excluded strings": (
        of_format({"type": "any_text", "excludes": [f"e{n}clude" for n in range(100_000)]}),
        "nodes",
    ),
    "many triggers": (triggered([f"<{n}>" for n in range(100_000)]), "spec_length"),
    "many rules": (of_format({"type": "dispatch", "rules": [[f"<{n}>", ANY] for n in range(20_000)]}), "states"),
    "repetition": (of_format({"type": "repeat", "min": HUGE, "max": HUGE, "content": X}), "states"),
    "many formats": (of_format({"type": "or", "elements": [X] * 200_000}), "spec_length"),
    "one format in many places": (of_format(TWICE), "spec_length"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_huge_specifications_exceed_a_limit(name: str) -> None:
    spec, limit = REFUSED[name]
    with pytest.raises(guided.LimitExceeded) as caught:
        byte_compiler().compile_structural_tag(spec)
    assert caught.value.limit == limit


def test_many_formats_are_a_limit_of_their_own() -> None:
    compiler = guided.GrammarCompiler(byte_compiler().vocabulary, limits=guided.Limits(nodes=1000))
    with pytest.raises(guided.LimitExceeded, match="nodes"):
        compiler.compile_structural_tag(of_format({"type": "or", "elements": [X] * 101}))


@pytest.mark.parametrize("style", ["qwen_3", "glm_4_7"])
def test_ten_thousand_tools(style: str) -> None:
    tag = guided.tool_style(style).structural_tag([tool(number) for number in range(10_000)])
    grammar = guided.GrammarCompiler(byte_compiler().vocabulary, cache_bytes=0).compile_structural_tag(tag)
    for number in (0, 9_999):
        matcher = guided.GrammarMatcher(grammar)
        begin = {
            "qwen_3": '<tool_call>\n{"name": "tool_%d", "arguments": {"p%d": "',
            "glm_4_7": "<tool_call>tool_%d<arg_key>p%d<",
        }
        assert matcher.accept_string(begin[style] % (number, number))


def test_thousands_of_excluded_strings() -> None:
    grammar = byte_compiler().compile_structural_tag(
        of_format({"type": "any_text", "excludes": [f"ex{number}clude" for number in range(5000)]})
    )
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.accept_string("ex4999clud")
    assert not matcher.accept_string("e")


def test_alternatives_that_double_are_looked_at_once() -> None:
    def defined(number: int) -> dict[str, Any]:
        after = f"#/$defs/d{number + 1}"
        return {"anyOf": [{"$ref": after}, {"$ref": after}]}

    last = {"type": "object", "properties": {"a": {"type": "null"}}}
    definitions: dict[str, Any] = {f"d{number}": defined(number) for number in range(60)}
    schema = {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**definitions, "d60": last}}
    for style, text in (
        (
            "cohere_xml",
            '<cofl:value name="x" type="dict"><cofl:value name="a" type="json">null</cofl:value></cofl:value>',
        ),
        ("minimax_m3_xml", "]<]minimax[>[<x>]<]minimax[>[<a>null]<]minimax[>[</a>]<]minimax[>[</x>"),
    ):
        form = {"type": "json_schema", "json_schema": schema, "style": style}
        assert accepts(byte_compiler().compile_structural_tag(of_format(form)), list(text.encode()))


def test_objects_that_may_stand_at_one_place_are_limited() -> None:
    members = {f"m{number}": {"type": "string"} for number in range(100)}
    ways = [{"type": "object", "properties": members, "title": str(number)} for number in range(100)]
    form = {"type": "json_schema", "json_schema": {"properties": {"x": {"anyOf": ways}}}, "style": "minimax_m3_xml"}
    compiler = guided.GrammarCompiler(byte_compiler().vocabulary, limits=guided.Limits(nodes=100_000))
    with pytest.raises(guided.LimitExceeded, match="nodes"):
        compiler.compile_structural_tag(of_format(form))


# --- noise

NESTING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"anyOf": [{"$ref": "#/$defs/d"}, {"type": ["string", "null"]}]},
        "l": {
            "type": "array",
            "prefixItems": [{"enum": ["x", {"y": [1]}]}],
            "items": {"type": "boolean"},
            "maxItems": 3,
        },
    },
    "required": ["a"],
    "$defs": {"d": {"type": "object", "properties": {"l": {"type": "array", "items": {"$ref": "#/$defs/d"}}}}},
}

DOCUMENTS: list[Any] = [
    guided.tool_style("qwen_3").structural_tag([tool(1), tool(2)]),
    guided.tool_style("harmony").structural_tag([tool(1)], reasoning="auto", tool_choice="required"),
    guided.tool_style("glm_4_7").structural_tag([tool(1)], reasoning="enabled"),
    guided.tool_style("kimi").structural_tag([tool(1), tool(2)], parallel_tool_calls=False),
    guided.tool_style("cohere").structural_tag([tool(1), tool(2)]),
    guided.tool_style("kimi_k3").structural_tag([tool(1)], reasoning="enabled"),
    *[
        of_format({"type": "json_schema", "style": style, "excludes": ["b"], "json_schema": NESTING})
        for style in ("minimax_m3_xml", "cohere_xml", "json")
    ],
    {"structures": [{"begin": "<f=a>", "schema": {"type": "boolean"}, "end": "</f>"}], "triggers": ["<f="]},
    of_format(
        {"type": "dispatch", "rules": [["<x>", X], ["<b>", {"type": "regex", "pattern": "a+"}]], "excludes": ["q"]}
    ),
    of_format({"type": "token_dispatch", "rules": [[3, X]], "exclude_tokens": [4, "<|a|>"], "loop": False}),
    of_format({"type": "repeat", "min": 1, "max": 2, "content": {"type": "grammar", "grammar": 'root ::= "a"'}}),
]
ODD: list[Any] = [
    None, True, 0, -1, 1.5, 2**70, float("nan"), "", "a", "\ud800", "<|a|>", [], {}, [[]], [None], {"type": "tag"},
    b"a", {"type": "object"}, {"": {}}, ["a", "a"], {1: 2}, (), "(", "root ::=",
]  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Containers, and the keys of their members."""
    out, work = [], [value]
    while work:
        item = work.pop()
        keys = list(item) if isinstance(item, dict) else list(range(len(item))) if isinstance(item, list) else []
        out += [(item, key) for key in keys]
        work += [item[key] for key in keys]
    return out


def mutated(document: Any, source: random.Random) -> Any:
    document = copy.deepcopy(document)
    for _ in range(source.randint(1, 3)):
        found = places(document)
        if not found:
            break
        inside, key = source.choice(found)
        match source.randrange(4):
            case 0:
                inside[key] = copy.deepcopy(source.choice(ODD))
            case 1:
                other, name = source.choice(found)
                with contextlib.suppress(LookupError):
                    inside[key] = copy.deepcopy(other[name])
            case 2:
                del inside[key]
            case _ if isinstance(inside, dict):
                inside[source.choice(["type", "excludes", "style", "tags", "end", "x", 7])] = inside.pop(key)
    return document


def is_answered(spec: Any) -> None:
    """Check that it compiles, or that an error of guided says why not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", guided.GuidedWarning)
        try:
            byte_compiler().compile_structural_tag(spec, allow_special_tokens=True)
        except guided.GuidedError as error:
            assert str(error)


@pytest.mark.parametrize("seed", every(2, range(8)))
def test_changed_documents_raise_nothing_else(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(120):
        is_answered(mutated(source.choice(DOCUMENTS), source))
    for _ in range(60):  # and changed texts
        text = list(json.dumps(source.choice(DOCUMENTS)))
        for _ in range(source.randint(1, 3)):
            text[source.randrange(len(text))] = source.choice('{}[]",:\\ \0a1-')
        is_answered("".join(text))


NAMES = ["type", "format", "content", "begin", "end", "tags", "elements", "value", "json_schema", "triggers"]
JSON: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "<a>", "object", "json_schema"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)


@given(JSON)
def test_any_json_raises_nothing_else(value: Any) -> None:
    is_answered(value)
    is_answered(json.dumps(value))
    is_answered({"type": "structural_tag", "format": value})
    is_answered({"structures": value, "triggers": ["a"]})


@given(JSON, JSON)
def test_any_tools_raise_nothing_else(tools: Any, choice: Any) -> None:
    for given_tools, given_choice in ((tools, choice), ([tool(1)], choice), ([tools], "auto"), ([{"type": "function", "function": tools}], "required")):  # fmt: skip  # noqa: E501
        with contextlib.suppress(guided.GuidedError):
            is_answered(guided.tool_style("qwen_3").structural_tag(given_tools, tool_choice=given_choice))


@pytest.mark.parametrize("seed", every(2, range(6)))
def test_changed_tools_raise_nothing_else(seed: int) -> None:
    source = random.Random(seed)
    documents = [
        {"tools": [tool(1), tool(2)], "choice": {"type": "function", "function": {"name": "tool_1"}}},
        {
            "tools": [tool(1)],
            "choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "tool_1"}}]},
            },
        },
    ]
    for _ in range(150):
        changed = mutated(source.choice(documents), source)
        with contextlib.suppress(guided.GuidedError, KeyError):
            tag = guided.tool_style(source.choice(["llama", "minimax"])).structural_tag(
                changed["tools"], tool_choice=changed["choice"]
            )
            is_answered(tag)


# --- control tokens

CALL = "<|call|>"
NAMING: dict[str, Any] = {
    "a string of a structural tag": lambda compiler, **more: compiler.compile_structural_tag(
        of_format({"type": "const_string", "value": f"a{CALL}"}), **more
    ),
    "the begin of a tag": lambda compiler, **more: compiler.compile_structural_tag(
        of_format({"type": "tag", "begin": CALL, "content": X, "end": "b"}), **more
    ),
    "an end": lambda compiler, **more: compiler.compile_structural_tag(
        of_format({"type": "tag", "begin": "a", "content": X, "end": ["b", CALL]}), **more
    ),
    "a separator": lambda compiler, **more: compiler.compile_structural_tag(
        of_format(
            {"type": "tags_with_separator", "tags": [{"begin": "a", "content": X, "end": "b"}], "separator": CALL}
        ),
        **more,
    ),
    "a trigger": lambda compiler, **more: compiler.compile_structural_tag(triggered([f"{CALL}a"]), **more),
    "a rule": lambda compiler, **more: compiler.compile_structural_tag(
        of_format({"type": "dispatch", "rules": [[CALL, X]]}), **more
    ),
    "a token": lambda compiler, **more: compiler.compile_structural_tag(
        of_format({"type": "token", "token": CALL}), **more
    ),
    "a token by its id": lambda compiler, **more: compiler.compile_structural_tag(
        of_format({"type": "token", "token": 257}), **more
    ),
    "a token that triggers": lambda compiler, **more: compiler.compile_structural_tag(
        of_format({"type": "token_dispatch", "rules": [[CALL, X]]}), **more
    ),
    "a grammar in a structural tag": lambda compiler, **more: compiler.compile_structural_tag(
        of_format({"type": "grammar", "grammar": f"root ::= {CALL}"}), **more
    ),
    "GBNF": lambda compiler, **more: compiler.compile_gbnf(f"root ::= {CALL}", **more),
    "GBNF, by id": lambda compiler, **more: compiler.compile_gbnf("root ::= <[257]>", **more),
    "Lark": lambda compiler, **more: compiler.compile_lark(f"start: {CALL}", **more),
    "Lark, by id": lambda compiler, **more: compiler.compile_lark("start: <[257]>", **more),
    "the part structural_tag": lambda compiler, **more: compiler.compile(
        guided.structural_tag(of_format({"type": "token", "token": CALL}), **more)
    ),
    "the part gbnf": lambda compiler, **more: compiler.compile(guided.gbnf(f"root ::= {CALL}", **more)),
    "the part lark": lambda compiler, **more: compiler.compile(
        guided.lark(f"start: {CALL}", semantics="scannerless", **more)
    ),
}


@pytest.mark.parametrize("name", NAMING)
def test_nothing_names_control_tokens_without_permission(name: str) -> None:
    compiler, compiled = compiler_with(CALL), NAMING[name]
    with pytest.raises(guided.SpecError, match=r"does not allow|allow_special_tokens"):
        compiled(compiler)
    grammar = compiled(compiler, allow_special_tokens=True)
    mask, met = guided.allocate_token_bitmask(1, compiler.vocabulary.size), set[int]()
    matcher = guided.GrammarMatcher(grammar)
    for _ in range(8):
        matcher.fill_next_token_bitmask(mask)
        allowed = guided.allowed_tokens(mask)
        met |= set(allowed)
        if not any(map(matcher.accept_token, (257, 97, 120, 98))):
            break
    assert 257 in met


@pytest.mark.parametrize("style", guided.TOOL_STYLES)
def test_tools_cannot_name_control_tokens(style: str) -> None:
    """Neither by their names nor in words of their schemas: these are text, whatever the style may name."""
    with pytest.raises(guided.SpecError, match="not a valid function name"):
        guided.tool_style(style).structural_tag([{"type": "function", "function": {"name": CALL}}])
    schema = {
        "type": "object",
        "properties": {"word": {"enum": [CALL]}},
        "required": ["word"],
        "additionalProperties": False,
    }
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    compiler = compiler_with(CALL)
    tag = guided.tool_style(style).structural_tag(tools, tool_choice="required")
    if style != "harmony":  # calls end with this token
        grammar = compiler.compile_structural_tag(tag)
        assert guided.GrammarMatcher(grammar).min_tokens_to_finish() > len(CALL)


def test_the_command_line_and_batches_do_not_allow_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tag = json.dumps(of_format({"type": "token", "token": 3}))
    for arguments in (["--structural-tag", tag], ["--gbnf", "root ::= <[3]>"], ["--lark", "start: <[3]>"]):
        assert main(["check", *arguments]) == 2
        assert "not allow" in capsys.readouterr().err
