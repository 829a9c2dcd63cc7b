"""Constructs of structural tags, lists of tools, Python types, composed specifications and vocabularies.

Out: `OTHERS`. A specification of the kind "call" is a function of the compiler. It returns the compiled grammar, or
None if the call itself is measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import make_dataclass
from enum import Enum
from functools import reduce
from operator import or_
from typing import Any, Final, Literal, NamedTuple, TypedDict

import guided
from benchmarks.bad_inputs.construct import Construct, largest

__all__ = ["OTHERS"]

_Build = Callable[[int], Any]
_ANY: Final = {"type": "any_text"}
_COUNT: Final = 1 << 30


def _tag(form: Any) -> dict[str, Any]:
    return {"type": "structural_tag", "format": form}


def _literal(text: str) -> dict[str, Any]:
    return {"type": "const_string", "value": text}


def _one(i: int, content: Any = _ANY) -> dict[str, Any]:
    return {"type": "tag", "begin": f"<t{i}>", "content": content, "end": f"</t{i}>"}


def _nested(n: int, around: Callable[[Any], Any], inner: Any) -> Any:
    for _ in range(n):
        inner = around(inner)
    return inner


def _triggered(n: int, **fields: Any) -> dict[str, Any]:
    return {"type": "triggered_tags", "triggers": ["<"], "tags": [_one(i) for i in range(n)], **fields}


_TAGS: Final[Mapping[str, _Build]] = {
    "const_string": lambda n: _literal("x" * n),
    "or": lambda n: {"type": "or", "elements": [_literal(f"w{i}") for i in range(n)]},
    "or of any_text": lambda n: {
        "type": "or",
        "elements": [{"type": "any_text", "excludes": [f"x{i}"]} for i in range(n)],
    },
    "sequence": lambda n: {"type": "sequence", "elements": [_literal("a")] * n},
    "sequence of any_text": lambda n: {"type": "sequence", "elements": [_ANY] * n},
    "any_text excludes": lambda n: {"type": "any_text", "excludes": [f"<x{i}>" for i in range(n)]},
    "any_text excludes one": lambda n: {"type": "any_text", "excludes": ["x" * n]},
    "any_text max_chars": lambda n: {"type": "any_text", "max_chars": n},
    "any_text max_tokens": lambda n: {"type": "any_text", "max_tokens": n},
    "any_tokens max_tokens": lambda n: {"type": "any_tokens", "max_tokens": n},
    "repeat": lambda n: {"type": "repeat", "min": 0, "max": n, "content": _literal("ab")},
    "repeat nested": lambda n: _nested(
        n, lambda it: {"type": "repeat", "min": 1, "max": 99, "content": it}, _literal("a")
    ),
    "star nested": lambda n: _nested(n, lambda it: {"type": "star", "content": it}, _literal("a")),
    "plus nested": lambda n: _nested(n, lambda it: {"type": "plus", "content": it}, _literal("a")),
    "token": lambda n: {"type": "sequence", "elements": [{"type": "token", "token": i} for i in range(n)]},
    "exclude_token": lambda n: {"type": "exclude_token", "exclude_tokens": list(range(n))},
    "token_triggered_tags": lambda n: {
        "type": "token_triggered_tags",
        "trigger_tokens": list(range(n)),
        "tags": [{**_one(i), "begin": {"type": "token", "token": i}} for i in range(n)],
    },
    "token_dispatch": lambda n: {"type": "token_dispatch", "rules": [[i, _literal("a")] for i in range(n)]},
    "qwen_xml_parameter": lambda n: {
        "type": "qwen_xml_parameter",
        "json_schema": {"properties": {f"p{i}": {"type": "integer"} for i in range(n)}},
    },
    "optional nested": lambda n: _nested(n, lambda it: {"type": "optional", "content": it}, _literal("a")),
    "tags nested": lambda n: _nested(n, lambda it: _one(0, it), _ANY),
    "triggered_tags": _triggered,
    "triggered_tags, at least one": lambda n: _triggered(n, at_least_one=True, stop_after_first=True),
    "triggered_tags triggers": lambda n: {
        "type": "triggered_tags",
        "triggers": [f"<t{i}>" for i in range(n)],
        "tags": [_one(i) for i in range(n)],
    },
    "triggered_tags excludes": lambda n: _triggered(1, excludes=[f"[x{i}]" for i in range(n)]),
    "triggered_tags of schemas": lambda n: {
        "type": "triggered_tags",
        "triggers": ["<"],
        "tags": [
            _one(i, {"type": "json_schema", "json_schema": {"properties": {f"p{i}": {"type": "integer"}}}})
            for i in range(n)
        ],
    },
    "tags_with_separator": lambda n: {
        "type": "tags_with_separator",
        "separator": ",",
        "tags": [_one(i) for i in range(n)],
    },
    "tag with ends": lambda n: {"type": "tag", "begin": "<t>", "content": _ANY, "end": [f"</{i}>" for i in range(n)]},
    "dispatch": lambda n: {"type": "dispatch", "rules": [[f"<t{i}>", _literal("a")] for i in range(n)]},
    "dispatch excludes": lambda n: {
        "type": "dispatch",
        "rules": [["<t>", _literal("a")]],
        "excludes": [f"[x{i}]" for i in range(n)],
    },
    "regex": lambda n: {"type": "regex", "pattern": f"[a-z]{{{n}}}"},
    "grammar": lambda n: {"type": "grammar", "grammar": f'root ::= "a"{{{n}}}'},
    "json_schema excludes": lambda n: {
        "type": "json_schema",
        "json_schema": {"type": "string"},
        "excludes": [f"<x{i}>" for i in range(n)],
    },
    "json_schema whitespace": lambda n: {
        "type": "json_schema",
        "json_schema": {"type": "array"},
        "max_whitespace_cnt": n,
    },
    **{
        f"arguments in {style}": lambda n, style=style: {  # type: ignore[misc]
            "type": "json_schema",
            "style": style,
            "json_schema": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(n)}},
        }
        for style in ("qwen_xml", "minimax_m3_xml", "deepseek_xml", "glm_xml", "cohere_xml", "kimi_k3_xml")
    },
    "arguments that are required, in qwen_xml": lambda n: {
        "type": "json_schema",
        "style": "qwen_xml",
        "json_schema": {
            "type": "object",
            "properties": {f"p{i}": {"type": "integer"} for i in range(n)},
            "required": [f"p{i}" for i in range(n)],
            "additionalProperties": False,
        },
    },
    "minProperties in deepseek_xml": lambda n: {
        "type": "json_schema",
        "style": "deepseek_xml",
        "json_schema": {"type": "object", "minProperties": n},
    },
    "patternProperties in deepseek_xml": lambda n: {
        "type": "json_schema",
        "style": "deepseek_xml",
        "json_schema": {"type": "object", "patternProperties": {f"^p{i}": {"type": "integer"} for i in range(n)}},
    },
}


def _tools(n: int, parameters: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": f"f{i}", "parameters": parameters(i)}} for i in range(n)]


def _styled(style: str, n: int) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["a"],
    }
    return guided.tool_style(style).structural_tag(_tools(n, lambda _: parameters), tool_choice="auto")  # type: ignore[no-any-return]


# ---- Python types
def _recursive(make: Callable[[Any], Any], n: int) -> Any:
    return _nested(n, make, int)


def _tuple_type(name: str, n: int) -> Any:
    return NamedTuple(name, [(f"p{i}", int) for i in range(n)])  # type: ignore[misc]


_TYPES: Final[Mapping[str, _Build]] = {
    "dataclass": lambda n: make_dataclass("D", [(f"p{i}", int) for i in range(n)]),
    "dataclass with defaults": lambda n: make_dataclass("D", [(f"p{i}", int, 0) for i in range(n)]),
    "dataclasses in a chain": lambda n: _recursive(lambda it: make_dataclass("D", [("a", it)]), n),
    "dataclasses doubled": lambda n: _recursive(lambda it: make_dataclass("D", [("a", it), ("b", it)]), n),
    "TypedDict": lambda n: TypedDict("D", {f"p{i}": int for i in range(n)}),  # type: ignore[misc]
    "NamedTuple": lambda n: _tuple_type("N", n),
    "Literal": lambda n: Literal[tuple(f"w{i}" for i in range(n))],
    "Enum": lambda n: Enum("E", {f"w{i}": i for i in range(n)}),  # type: ignore[misc]
    "Union": lambda n: reduce(or_, (make_dataclass(f"D{i}", [(f"p{i}", int)]) for i in range(n))),
    "tuple": lambda n: tuple[(int,) * n],  # type: ignore[misc]
    "list nested": lambda n: _recursive(lambda it: list[it], n),  # type: ignore[valid-type]
    "dict nested": lambda n: _recursive(lambda it: dict[str, it], n),  # type: ignore[valid-type]
    "set nested": lambda n: _recursive(lambda it: frozenset[it], n),  # type: ignore[valid-type]
    "tuple doubled": lambda n: _recursive(lambda it: tuple[it, it], min(n, 24)),  # type: ignore[valid-type]
}


# ---- compositions, and calls that are measured separately
_EXPRESSIONS: Final[Mapping[str, _Build]] = {
    "sequence": lambda n: guided.sequence(*["a"] * n),
    "choice": lambda n: guided.choice(*[f"w{i}" for i in range(n)]),
    "added one by one": lambda n: sum((guided.text("a") for _ in range(n)), guided.text("a")),
    "repeat": lambda n: guided.repeat("ab", 0, n),
    "repeat nested": lambda n: _nested(n, lambda it: guided.repeat(it, 1, 99), guided.text("a")),
    "rules": lambda n: guided.rules(
        guided.rule("r0"), **{**{f"r{i}": guided.rule(f"r{i + 1}") + "a" for i in range(n)}, f"r{n}": guided.text("b")}
    ),
    "captures": lambda n: guided.sequence(*[guided.capture(f"c{i}", guided.regex("[a-z]*")) for i in range(n)]),
    "captures in a repetition": lambda n: guided.repeat(guided.capture("c", guided.regex("[a-z]*")), 0, n),
    "shared part": lambda n: _nested(n, lambda it: it + it, guided.regex("[a-z]")),
    "shared schema": lambda n: guided.sequence(*[guided.json_schema({"type": "object"})] * n),
}


def _vocabulary(tokens: list[bytes]) -> _Build:
    vocabulary = guided.Vocabulary([*(bytes([b]) for b in range(256)), *tokens], eos_token_ids=[256 + len(tokens)])
    return lambda _: guided.GrammarCompiler(vocabulary, warn=False).compile_regex("[a-z]*")


_CALLS: Final[Mapping[str, _Build]] = {
    "vocabulary: one long token": lambda n: lambda _: _vocabulary([b"x" * n])(0),
    "vocabulary: many tokens": lambda n: lambda _: _vocabulary([f"w{i}".encode() for i in range(n)])(0),
    "vocabulary: tokens that begin alike": lambda n: (
        lambda _: _vocabulary([b"x" * i for i in range(2, 2 + int(n**0.5))])(0)
    ),
    "choice: an iterator without an end": lambda n: (
        lambda compiler: compiler.compile_choice(map(str, itertools.count()))
    ),
    "pattern: pairs": lambda n: lambda compiler: compiler.compile_pattern([("LOWER", "+")] * n),
    "pattern: literals": lambda n: lambda compiler: compiler.compile_pattern([("ab", "1")] * n),
    "tools: calls read": lambda n: (
        lambda _: (
            list(
                guided.tool_style("qwen_3")
                .reader(_tools(1, lambda _: {}))
                .read('<tool_call>\n{"name": "f0", "arguments": {"a": "' + "x" * n + '"}}\n</tool_call>')
            )
            and None
        )
    ),
}


def _all() -> Iterator[Construct]:
    for name, build in _TAGS.items():

        def tag(n: int, build: _Build = build) -> Any:
            return _tag(build(n))

        allowed = {"allow_special_tokens": "token" in name}
        yield Construct(f"tag: {name}", "structural_tag", tag, allowed, most=largest(build, 1 << 14))
    for style in guided.TOOL_STYLES:
        yield Construct(
            f"tools in style {style}",
            "structural_tag",
            lambda n, style=style: _styled(style, n),  # type: ignore[misc]
            {"allow_special_tokens": True},
            most=1 << 10,
        )
    for name, build in _TYPES.items():
        yield Construct(f"type: {name}", "type", build, most=1 << 12)
    for name, build in _EXPRESSIONS.items():
        most = _COUNT if name in ("repeat", "captures in a repetition") else 1 << 12
        yield Construct(f"expression: {name}", "expr", build, most=256 if name == "shared part" else most)
    for name, build in _CALLS.items():
        yield Construct(name, "call", build, most=1 << 24 if "long" in name or "read" in name else 1 << 17)


OTHERS: Final = tuple(_all())
