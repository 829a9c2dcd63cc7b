"""210 varied specifications in a fixed order, which the tests on the vocabularies of real models compile.

Out: `SPECIFICATIONS`, each with a name and `compile(compiler)`. They cover regular expressions of both dialects, JSON
Schemas, choices, pattern tuples, and grammars in IR and in GBNF. None is empty, and none takes more than a second to
compile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from guided.ir import (
    ANY_CHAR,
    EPSILON,
    UTF8,
    Alt,
    And,
    Chars,
    Encoded,
    Encoding,
    Form,
    Grammar,
    Length,
    Member,
    Node,
    Not,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Span,
    Special,
    Text,
    charset,
    complement,
)
from guided.matching import CompiledGrammar, GrammarCompiler
from tests.gbnf_grammars import GRAMMARS

__all__ = ["SPECIFICATIONS", "Specification"]


@dataclass(frozen=True)
class Specification:
    """A specification, to be compiled for any vocabulary."""

    name: str
    compile: Callable[[GrammarCompiler], CompiledGrammar]


# ---- regular expressions

_PYTHON = [
    *(r"", r"(ab|cd)*", r"[a-z]+@[a-z]+\.(com|org)", r"\d{4}-\d\d-\d\dT\d\d:\d\dZ", r".*", r".+"),
    *(r"(?s:.{0,1000})", r"\w{1,200}", r"[a-f0-9]{32}", r"(\d{1,3}\.){3}\d{1,3}", r"\+?\d[\d -]{7,14}\d", r"\s*\S+\s*"),
    *(r"[^\"\\]{3,40}", r"(?i:hello|world)+", r"(?i:straße)", r"é+", r"[à-ü]{2,9}", r"[\u4e00-\u9fff]{1,20}", r"😀|😁{1,3}"),
    *(r"[^a]*", r"[^\x00-\x7f]+", r"\W{2,}", r"(?a:\w+)", r"(foo|bar){2,5}baz", r"a{0,60}b{0,60}c", r"(a?){20}a{20}"),
    *(r"(a|ab|abc)*d", r"x{3}y{4,}z{5,6}", r"(?=.*\d)(?=.*[a-z]).{8,16}", r"(?!0)\d{1,9}", r"(?!.*bad).{1,30}"),
    *(r".*(?<=end)", r"(?<!un)happy|unhappy", r"\bword\b.*", r"\w+\b \b\w+", r"(?m:^a\n^b$)"),
    *(r"(\w+ ){0,30}\w+\.", r"\((\d+, )*\d+\)", r"<(b|i|u)>[^<>]*</(b|i|u)>", r"(?x)a  b # c"),
    *(r"The answer is (yes|no)\.", r"\{\"k\": \"[^\"]*\"\}", r"\n{1,3}[-*] .*", r"[\U00010000-\U0010ffff]{1,3}", r".{5000}"),
    *(r"(?>a+)b", r"[ -~]{10,20}", r"(\t| {4})*return \w+", r"\$\d{1,3}(,\d{3})*(\.\d\d)?", r"ſ|K", r"(?i:k)+"),
]  # fmt: skip
_ECMA = [
    *(r"^\d+$", r"\p{L}+", r"\p{Lu}\p{Ll}*", r"\p{Script=Greek}{1,8}", r"[^\p{L}]{1,9}", r"\u{1F600}+", r"[\p{Nd}_]{2,}"),
    *(r"\P{ASCII}+", r"(?<year>\d{4})", r"(?=a)\w+", r"(?<=\$)\d+|\$\d+", r"[^]{0,20}", r"\cJ|\t", r"(?i:σ)+"),
]  # fmt: skip
_SEARCHES = [r"^a|b$", r"\d{3}", r"[aeiou]{2}.*[aeiou]{2}", r'(?<!\\)"', r"^$"]


def _regex(pattern: str, dialect: Any, search: bool = False) -> Specification:
    name = f"{dialect}{' search' if search else ''} {pattern[:40]!a}"
    return Specification(name, lambda compiler: compiler.compile_regex(pattern, dialect=dialect, search=search))


# ---- JSON Schemas

_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}


def _object(properties: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **others,
    }


_PERSON = _object({"name": _STRING, "age": {"type": "integer", "minimum": 0, "maximum": 130}, "email": _STRING})
_LIST = {"type": "object", "properties": {"value": _INTEGER, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}
_TREE = {
    "$ref": "#/$defs/node",
    "$defs": {"node": _object({"v": {}, "l": {"$ref": "#/$defs/child"}, "r": {"$ref": "#/$defs/child"}}),
              "child": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
}  # fmt: skip
_EXPRESSION = {
    "$ref": "#/$defs/e",
    "$defs": {"e": {"anyOf": [{"type": "number"}, _object({"op": {"enum": ["+", "-", "*"]}, "of": {"$ref": "#/$defs/l"}})]},
              "l": {"type": "array", "items": {"$ref": "#/$defs/e"}, "minItems": 2, "maxItems": 3}},
}  # fmt: skip
_DEEP: dict[str, Any] = {"const": 1}
for _level in range(30):
    _DEEP = _object({f"k{_level}": _DEEP})

_SCHEMAS: list[Any] = [
    *({"type": kind} for kind in ("string", "integer", "number", "boolean", "null", "array", "object")),
    {}, True, {"type": ["string", "null"]}, _PERSON, _LIST, _TREE, _EXPRESSION, _DEEP,
    *({"type": "string", "minLength": low, "maxLength": high} for low, high in ((0, 0), (3, 3), (1, 20), (0, 5000))),
    *({"type": "string", "pattern": p} for p in ("^[a-z]+$", "^\\d{3}-\\d{4}$", "a", "\\p{L}", "^(?!x).*$", '"')),
    *({"type": "string", "pattern": p, "minLength": 5, "maxLength": 12} for p in ("^[a-z]+$", "ab", "^\\p{L}*$")),
    *({"type": "integer", "minimum": low, "maximum": high} for low, high in ((0, 9), (-5, 5), (17, 1234), (-10**9, 10**9))),
    *({"type": "number", "minimum": low, "exclusiveMaximum": high} for low, high in ((0, 1), (-1.5, 2.25), (1e-3, 1e6))),
    {"type": "integer", "minimum": 3}, {"type": "integer", "exclusiveMaximum": -3}, {"type": "number", "exclusiveMinimum": 0},
    *({"enum": values} for values in (["red", "green", "blue"], [1, 2, 3.5], [None, True, "x"], ["é", "\n", '"', "😀"])),
    {"enum": [f"country {i:03}" for i in range(250)]}, {"const": {"a": [1, {"b": "c"}]}}, {"enum": [[], {}, [[]], ""]},
    *({"type": "array", "items": _INTEGER, "minItems": low, "maxItems": high} for low, high in ((0, 3), (2, 2), (5, 10000))),
    {"type": "array", "items": _PERSON, "minItems": 1}, {"type": "array", "prefixItems": [_STRING, _INTEGER], "items": False},
    {"type": "array", "prefixItems": [_STRING, {"type": "boolean"}], "minItems": 2}, {"items": {"type": "array", "items": _STRING}},
    {"type": "object", "additionalProperties": _INTEGER}, {"type": "object", "additionalProperties": _INTEGER, "minProperties": 2},
    {"type": "object", "properties": dict.fromkeys("abcdef", _INTEGER), "additionalProperties": False},
    {"type": "object", "properties": dict.fromkeys("abcd", _STRING), "required": ["b", "d"]},
    {"type": "object", "properties": {"a": {}, "b": _STRING}, "maxProperties": 3}, {"type": "object", "required": ["x", "y"]},
    _object({"user": _PERSON, "tags": {"type": "array", "items": _STRING, "maxItems": 5}, "meta": {"type": "object"}}),
    _object({"kind": {"enum": ["a", "b"]}, "n": {"anyOf": [_INTEGER, _STRING, {"type": "null"}]}}),
    {"anyOf": [_object({"type": {"const": "circle"}, "r": {"type": "number"}}), _object({"type": {"const": "box"}, "w": _INTEGER})]},
    {"allOf": [{"type": "object", "properties": {"a": _INTEGER}, "required": ["a"]}, {"properties": {"b": _STRING}, "required": ["b"]}]},
    {"allOf": [{"minLength": 2}, {"maxLength": 6}, {"pattern": "^[ab]*$"}], "type": "string"},
    _object({"naïve": _STRING, "日本": _INTEGER, 'quo"te': {"type": "null"}, "": {"type": "boolean"}}),
]  # fmt: skip
_OPTIONS: list[tuple[Any, dict[str, Any]]] = [
    (_PERSON, {"whitespace": "compact"}), (_PERSON, {"whitespace": "single_space"}), (_PERSON, {"indent": 2}),
    (_PERSON, {"property_order": "any"}), (_PERSON, {"property_order": "any", "whitespace": "compact"}),
    ({"type": "object", "properties": dict.fromkeys("abcdef", _INTEGER), "required": ["b"]}, {"property_order": "any"}),
    ({"const": {"x": 1, "y": [2], "z": "3"}}, {"property_order": "any"}),
    ({}, {"whitespace": "single_space", "numbers": "plain"}), (_TREE, {"whitespace": "compact", "numbers": "plain"}),
    ({"type": "number"}, {"numbers": "plain", "max_digits": 6}), ({"type": "string"}, {"max_string": 48}),
    ({"items": {"type": "string"}}, {"max_items": 4, "max_string": 9}), (_PERSON, {"surrounding_whitespace": True}),
    ({"items": _INTEGER, "type": "array"}, {"separators": (" , ", " : ")}), (_LIST, {"whitespace": " ?"}),
]  # fmt: skip


def _schema(at: int, schema: Any, options: dict[str, Any]) -> Specification:
    name = f"schema {at} {str(schema)[:40]!a}"
    return Specification(name, lambda compiler: compiler.compile_json_schema(schema, **options))


# ---- choices and pattern tuples

_CHOICES = [
    *(["yes", "no"], [""], ["", "a"], ["a", "ab", "abc", "abcd"], ["\n", "\n\n", "\t"], ["é", "e\u0301"], ["😀😀", "😀"]),
    *([str(i) for i in range(1000)], ["x" * 3000, "x" * 2999 + "y"], [" a", "a ", " "]),
    *(["{", "}", "{}", "}{"], [chr(c) for c in range(0x4E00, 0x4F00)]),
]  # fmt: skip
_PATTERNS = [
    *([("UPPER", "+"), (":", "1"), (" ", "1"), ("LOWER", "+"), ("\n", "1")], [("DIGIT", "+")], [("ANY", "+"), (".", "1")]),
    *([("LETTER", "1"), ("LETTER", "+"), ("SPACE", "1"), ("DIGIT", "1")], [("PUNCT", "+"), ("NEWLINE", "1")]),
    *([("UPPER", "+"), ("A", "1")], [("é", "1"), ("NEWLINE", "+")]),
]  # fmt: skip


def _choice(choices: list[str]) -> Specification:
    return Specification(f"choice {str(choices)[:40]!a}", lambda compiler: compiler.compile_choice(choices))


def _pattern(elements: list[tuple[str, str]]) -> Specification:
    return Specification(f"pattern {elements!a}", lambda compiler: compiler.compile_pattern(elements))


# ---- grammars as IR

_DIGITS = Repeat(Chars(charset([(48, 57)])), 1, None)
_LETTERS = Repeat(Chars(charset([(97, 122)])), 1, None)
_COMMA = Text(", ")
_HEX = Encoding(
    "hex",
    (
        Form(
            ((0x20, 0x7E),), tuple((Span(0x30, 0x39, 0, step), Span(0x61, 0x66, 10 * step, step)) for step in (16, 1))
        ),
        *UTF8.forms[1:],
    ),
)


def _seq(*items: Node) -> Node:
    return Seq(items)


def _alt(*items: Node) -> Node:
    return Alt(items)


def _members(*texts: str, **options: bool) -> tuple[Member, ...]:
    return tuple(Member(_seq(Text(text + "="), _DIGITS), **options) for text in texts)


def _control(vocabulary: Any) -> int:
    """A control token of the vocabulary, or an id with text if it has no control tokens."""
    return min(set(vocabulary.special_tokens) - vocabulary.eos_token_ids, default=7)


_E, _T, _S = Ref("E"), Ref("T"), Ref("start")
_RULES: dict[str, dict[str, Node]] = {
    "left recursion": {"start": _alt(_seq(_S, Text("+"), _DIGITS), _DIGITS)},
    "expressions": {
        "start": _E,
        "E": _alt(_seq(_E, Text(" + "), _T), _seq(_E, Text(" - "), _T), _T),
        "T": _alt(_seq(_T, Text(" * "), Ref("F")), Ref("F")),
        "F": _alt(_DIGITS, _seq(Text("("), _E, Text(")")), _LETTERS),
    },
    "mutual left recursion": {"start": _alt(_seq(_E, Text("a")), Text("b")), "E": _alt(_seq(_S, Text("c")), Text("d"), _E)},
    "hidden left recursion": {"start": _alt(_seq(_E, _S, Text("x")), Text("y")), "E": _alt(EPSILON, Text("z"))},
    "ambiguous": {"start": _alt(_seq(_S, _S), Text("a"), Text("aa"), EPSILON)},
    "parentheses": {"start": _alt(EPSILON, _seq(Text("("), _S, Text(")"), _S))},
    "three brackets": {"start": Repeat(_alt(*(_seq(Text(p[0]), _S, Text(p[1])) for p in ("()", "[]", "{}"))), 0, None)},
    "palindromes": {"start": _alt(*(_seq(Text(c), _S, Text(c)) for c in "abc"), Text("|"))},
    "counted recursion": {"start": _alt(Text("."), _seq(Text("["), Repeat(_S, 2, 30), Text("]")))},
    "counts in counts": {"start": Repeat(_seq(Repeat(_LETTERS, 1, 1), Text(";"), Repeat(Text("ab"), 30, 90)), 20, 60)},
    "right recursion": {"start": _alt(Text("end"), _seq(Text("item "), _S))},
    "arithmetic lines": {"start": Repeat(_seq(_E, Text("\n")), 1, 50), "E": _alt(_DIGITS, _seq(_E, Text("/"), _E))},
    "permutation": {"start": Permutation(_members("a", "bc", "d"), _COMMA)},
    "required permutation": {"start": Permutation(_members("x", "y", "z", required=True), _COMMA)},
    "repeatable permutation": {"start": Permutation((*_members("k"), *_members("m", repeatable=True)), _COMMA, 1, 9)},
    "permutation of twenty": {"start": Permutation(_members(*(f"n{i:02}" for i in range(20))), _COMMA, 3, 12)},
    "recursive permutation": {
        "start": _seq(Text("{"), Permutation((Member(_seq(Text("a:"), _S)), Member(_seq(Text("b:"), _S))), Text(",")), Text("}"))
    },
    "and": {"start": And((Repeat(ANY_CHAR, 5, 20), Not(_seq(Repeat(ANY_CHAR, 0, None), Text("the"), Repeat(ANY_CHAR, 0, None)))))},
    "not": {"start": Not(Repeat(Chars(charset([(97, 122)])), 0, None))},
    "length": {"start": Length(Repeat(_alt(Text("ab"), Text("é"), Text("漢字")), 0, None), 10, 300)},
    "length over words": {"start": Length(_seq(_LETTERS, Repeat(_seq(Text(" "), _LETTERS), 0, None)), 40, 1000)},
    "hexadecimal spelling": {"start": Encoded(_seq(_LETTERS, Text("ü€"), Repeat(ANY_CHAR, 0, 50)), _HEX)},
    "any text": {"start": Repeat(ANY_CHAR, 0, None)},
    "no ASCII": {"start": Repeat(Chars(complement(charset([(0, 127)]))), 1, 400)},
    "one text": {"start": Text("The quick brown fox jumps over the lazy dog.\n")},
    "empty text": {"start": EPSILON},
    "unused rules": {"start": Text("a"), "E": _seq(_E, Text("x")), "T": _alt()},
    "unproductive alternative": {"start": _alt(_seq(Text("a"), _E), Text("ab")), "E": _seq(_E, Text("x"))},
}  # fmt: skip


def _rules(name: str) -> Specification:
    return Specification(f"ir {name}", lambda compiler: compiler.compile_grammar(Grammar(_RULES[name])))


def _with_control(name: str, make: Callable[[Node], dict[str, Node]]) -> Specification:
    def compile(compiler: GrammarCompiler) -> CompiledGrammar:
        return compiler.compile_grammar(Grammar(make(Special(_control(compiler.vocabulary)))))

    return Specification(f"ir {name}", compile)


_WITH_CONTROL = [
    _with_control("control token", lambda s: {"start": _seq(Text("<"), s, _DIGITS, s)}),
    _with_control("control token or text", lambda s: {"start": Repeat(_alt(s, Chars(charset([(97, 99)]))), 0, 9)}),
    _with_control("control tokens in recursion", lambda s: {"start": _alt(_LETTERS, _seq(s, _S, s))}),
    _with_control(
        "control token first in a permutation", lambda s: {"start": Permutation((Member(s), *_members("a")), _COMMA)}
    ),
]

_GBNF = [
    *GRAMMARS.values(),
    'root ::= TagDispatch(("<tool>", c), ("<code>", d), excludes=("</s>",)) "</s>"\nc ::= [a-z]+ "</tool>"\nd ::= "x"?',
    'root ::= e\ne ::= e [-+*/] t | t\nt ::= [0-9]{1,9} | "(" e ")" | t "!"',
    'root ::= !<[17]> ([a-c] | !<[18]>{0,3}) "z"',
]


def _gbnf(at: int, text: str) -> Specification:
    return Specification(f"gbnf {at}", lambda compiler: compiler.compile_gbnf(text))


SPECIFICATIONS: tuple[Specification, ...] = (
    *(_regex(pattern, "python") for pattern in _PYTHON),
    *(_regex(pattern, "ecma") for pattern in _ECMA),
    *(_regex(pattern, "ecma", True) for pattern in _SEARCHES),
    *(_schema(at, schema, {}) for at, schema in enumerate(_SCHEMAS)),
    *(_schema(at + len(_SCHEMAS), *pair) for at, pair in enumerate(_OPTIONS)),
    *map(_choice, _CHOICES),
    *map(_pattern, _PATTERNS),
    *map(_rules, _RULES),
    *_WITH_CONTROL,
    *starmap(_gbnf, enumerate(_GBNF)),
)
