"""The advice in errors is right: raising the named limit changes the outcome, and the named options and extras
exist.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import guided
from guided.automaton import build
from guided.errors import GuidedError, LimitExceeded, SpecError, UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions, check_json_schema
from guided.ir import Alt, Chars, Grammar, Repeat, Seq, Text
from guided.limits import Limits

ROOT = Path(__file__).resolve().parent.parent
VOCABULARY = guided.Vocabulary([bytes((byte,)) for byte in range(256)], eos_token_ids=[256])


def _schema(value: Any, **options: Any) -> Callable[[guided.GrammarCompiler], Any]:
    return lambda compiler: compiler.compile_json_schema(value, **options)


def _regex(pattern: str, dialect: Any = "python") -> Callable[[guided.GrammarCompiler], Any]:
    return lambda compiler: compiler.compile_regex(pattern, dialect=dialect)


def _grammar(node: Any) -> Callable[[guided.GrammarCompiler], Any]:
    return lambda compiler: compiler.compile_grammar(Grammar({"start": node}))


def _least(value: Any) -> Callable[[guided.GrammarCompiler], Any]:
    return lambda compiler: guided.GrammarMatcher(compiler.compile_json_schema(value)).min_tokens_to_finish()


def _read(pattern: str, text: str) -> Callable[[guided.GrammarCompiler], Any]:
    return lambda compiler: guided.GrammarMatcher(compiler.compile_regex(pattern)).accept_string(text)


def _nested(depth: int) -> Any:
    out: Any = {"type": "null"}
    for _ in range(depth):
        out = {"type": "array", "items": out, "minItems": 1}
    return out


def _members(count: int) -> Any:
    return {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(count)}}


UNEVALUATED = {"anyOf": [{"properties": {f"p{i}": {}}} for i in range(5)], "unevaluatedProperties": False}
RING = {
    "$id": "http://t/",
    "$ref": "r0",
    "$defs": {
        f"r{i}": {
            "$id": f"r{i}",
            "$dynamicAnchor": "a",
            "properties": {"n": {"$ref": f"r{(i + 1) % 6}"}, "d": {"$dynamicRef": "#a"}},
        }
        for i in range(6)
    },
}  # fmt: skip

# (specification, the limit that is exceeded, a value that is too small)
RAISED: list[tuple[Callable[[guided.GrammarCompiler], Any], str, float]] = [
    (_regex("a" * 50), "spec_length", 10),
    (_schema('{"type": "string"}'), "spec_length", 10),
    (_schema({"type": "string"}), "spec_length", 10),
    (lambda compiler: compiler.compile_choice(["abc", "def"]), "spec_length", 3),
    (_regex("(" * 50 + "a" + ")" * 50), "depth", 10),
    (_regex("(?:(?=a|b)" * 30 + "." + ")*" * 30), "depth", 3),
    (_schema(_nested(50)), "depth", 10),
    (_schema('{"items":' * 50 + "{}" + "}" * 50), "depth", 10),
    (_schema('{"items":' * 700 + "{}" + "}" * 700), "depth", 500),
    (lambda compiler: compiler.compile(guided.regex("a") + guided.repeat("c" + guided.optional("d"))), "depth", 1),
    (_regex("a|" * 30 + "[bc]"), "nodes", 10),
    (_regex(r"(?=a*b)(?!a*c)[abc]*"), "nodes", 10),
    (_schema({"enum": list(range(50))}), "nodes", 10),
    (_schema(_members(50)), "nodes", 150),
    (_schema(UNEVALUATED), "nodes", 20),
    (_schema({"allOf": [{"anyOf": [{"required": [f"{c}{i}"]} for c in "ab"]} for i in range(4)]}), "nodes", 80),
    (_schema(RING), "nodes", 200),
    (lambda compiler: compiler.compile_choice(list("abcdefghijk")), "nodes", 5),
    (lambda compiler: compiler.compile_pattern([("a", "+")] * 11), "nodes", 5),
    (_grammar(Alt(tuple(map(Text, "abcdefghijk")))), "nodes", 5),
    (_regex("abcdefghijklmnop"), "states", 10),
    (_schema({"type": "integer"}), "states", 100),
    (_schema({"type": "integer", "multipleOf": 1999}), "states", 1000),
    (_schema({"enum": ["x" * 500]}), "states", 100),
    (_grammar(Repeat(Seq((Text("ab"), Chars(((97, 98),)))), 0, 20)), "states", 5),
    (_read("[ab]{1,400000}", "ab" * 60_000), "memory", 1),
    (_least({"type": "array", "minItems": 200_000}), "call_work", 10),
    (_regex("abc"), "seconds", 0),
    (_schema({}), "seconds", 0),
    (_regex("(?:a|b)*a(?:a|b){10}"), "work", 5_000),
    (_schema({"allOf": [{"anyOf": [{"minimum": i}, {"type": "null"}]} for i in range(40)]}), "work", 150_000),
]  # fmt: skip


@pytest.mark.parametrize("row", RAISED, ids=lambda row: f"{row[1]}-{row[2]}")
def test_raising_the_limit_that_is_named_helps(row: tuple[Callable[..., Any], str, float]) -> None:
    act, name, little = row
    with pytest.raises(LimitExceeded) as caught:
        act(guided.GrammarCompiler(VOCABULARY, limits=Limits(**{name: little})))  # type: ignore[arg-type]
    error = caught.value
    assert error.limit == name and not error.fixed and error.given > error.allowed
    assert error.hint == f"raise guided.Limits({name}=...) to allow it" and error.hint in str(error)
    act(
        guided.GrammarCompiler(VOCABULARY, limits=Limits(**{name: {"seconds": 600.0, "depth": 3_000}.get(name, 2**33)}))
    )  # type: ignore[arg-type]


def test_every_limit_is_raised_in_a_row() -> None:
    assert {row[1] for row in RAISED} == set(Limits.__dataclass_fields__)


def _deep_node(depth: int) -> Any:
    out: Any = Text("a")
    for _ in range(depth):
        out = Seq((Text("("), out, Text(")")))
    return out


BEYOND = Limits(2**33, 2**33, 2**33, 2**33, 2**33, 600.0, 2**40)
# Specifications for which no limit helps -> a part of the advice.
FIXED: dict[str, tuple[Callable[[guided.GrammarCompiler], Any], str]] = {
    "nodes, deep": (_grammar(_deep_node(2_001)), "move a part into another rule"),
    "a count": (_grammar(Repeat(Text("a"), 2**30, None)), "repeat a longer part less often"),
    "text, deep": (_schema('{"a":' * 100_000 + "{}" + "}" * 100_000), "pass the value as a dict"),
}


@pytest.mark.parametrize("name", FIXED)
def test_errors_of_fixed_bounds_have_advice(name: str) -> None:
    act, hint = FIXED[name]
    with pytest.raises(LimitExceeded) as caught:
        act(guided.GrammarCompiler(VOCABULARY, limits=BEYOND))
    assert caught.value.fixed and hint in caught.value.hint and caught.value.hint in str(caught.value)
    assert "raise guided.Limits" not in str(caught.value)


# (specification that is refused with any limits, a part of the reason, a part of the hint, a specification that follows
# the hint)
INSTEAD = [
    (
        {"type": "integer", "multipleOf": 1234567},
        "the multiples of 1234567 need more than 25,000 states",
        "give a minimum and a maximum with at most 1,000 multiples between them",
        {"type": "integer", "multipleOf": 1234567, "minimum": -(10**8), "maximum": 10**8},
    ),
    (
        {"type": "integer", "multipleOf": 0.123456789},
        "the multiples of 123456789 need more than 25,000 states",
        "or a divisor with fewer digits",
        {"type": "integer", "multipleOf": 0.00012345},
    ),
    ('{"maximum": 1e5000}', "5001 digits on one side of the point", "leave it out", {"type": "number"}),
    (
        f'{{"minimum": {"7" * 1001}, "type": "integer"}}',
        "a number has 1001 digits, but at most 1,000 are supported",
        "round it",
        f'{{"minimum": {"7" * 3}{"0" * 998}, "type": "integer"}}',
    ),
]


@pytest.mark.parametrize("row", INSTEAD, ids=lambda row: row[1][:40])
def test_errors_that_no_limit_helps_against_have_advice(row: tuple[Any, str, str, Any]) -> None:
    schema, reason, hint, other = row
    compiler = guided.GrammarCompiler(VOCABULARY, limits=BEYOND)
    with pytest.raises(UnsupportedError) as caught:
        compiler.compile_json_schema(schema)
    assert reason in caught.value.reason and hint in caught.value.hint
    compiler.compile_json_schema(other)


def test_the_report_advises_the_same() -> None:
    schema = {"type": "object", "properties": {"a": {"multipleOf": 1234567}}}
    [row] = check_json_schema(schema).with_status("refused")
    assert row.pointer == "/properties/a" and "give a minimum and a maximum" in row.hint
    [row] = check_json_schema({"enum": list(range(50))}, limits=Limits(nodes=10)).with_status("refused")
    assert row.hint == "raise guided.Limits(nodes=...) to allow it"


# --- names in hints


def _texts() -> list[tuple[str, str]]:
    """Pairs of a file and a string literal in it, for all sources, without docstrings."""
    found = []
    for path in sorted((ROOT / "guided").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                found.append((path.name, node.value))
    return found


def test_options_that_hints_name_are_options() -> None:
    found = set()
    for file, text in _texts():
        for name, value in re.findall(r"(?<![\w.(])([a-z_]+)='([\w.-]+)'", text):
            if name in JsonSchemaOptions.__dataclass_fields__ or file in ("content.py", "lower.py", "resolve.py"):
                JsonSchemaOptions(**{name: value})
                found.add(name)
    assert {"unknown_format", "format", "whitespace", "draft"} <= found


def test_limits_and_extras_that_hints_name_are_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = 0
    for _, text in _texts():
        for name in re.findall(r"guided-decoding\[([\w-]+)\]", text):
            assert name in extras
            named += 1
        for name in re.findall(r"Limits\((\w+)=", text):
            assert name in Limits.__dataclass_fields__
    assert named > 2


def test_the_core_refuses_nothing_without_a_hint() -> None:
    sources = (ROOT / "guided" / "automaton" / "native").rglob("*.cpp")
    reasons = [
        text for path in sources for text in re.findall(r'Unsupported\([^;]*?"([^"]+)"', path.read_text("utf-8"))
    ]
    assert len(reasons) > 5
    for reason in reasons:
        assert any(words in reason for words in build._HINTS), reason


def test_errors_are_guided_errors() -> None:
    assert issubclass(LimitExceeded, GuidedError) and not issubclass(SpecError, LimitExceeded)
