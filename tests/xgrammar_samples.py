"""Specifications from xgrammar's documentation, with texts that match and texts that do not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

__all__ = ["SAMPLES", "Sample", "grammar_of"]


class Sample(NamedTuple):
    """`kind`: the constructor of Grammar. `masks_differ`: the reason why a mask of xgrammar differs, if it does."""

    kind: str
    specification: Any
    accepted: tuple[str, ...]
    refused: tuple[str, ...]
    options: Mapping[str, Any] = MappingProxyType({})
    masks_differ: str = ""


BYTES: Final = "in xgrammar free text may hold bytes that are no UTF-8"
NAMES: Final = "in xgrammar a name that the schema does not give may be there twice"
PERSON = {
    "title": "Person", "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"],
}  # fmt: skip
ORDERED = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tag(form: dict[str, Any]) -> dict[str, Any]:
    return {"type": "structural_tag", "format": form}


def argument(name: str, is_string: str, text: str) -> str:
    return f'<｜DSML｜parameter name="{name}" string="{is_string}">{text}</｜DSML｜parameter>'


def value(name: str, kind: str, text: str) -> str:
    return f'<cofl:value name="{name}" type="{kind}">{text}</cofl:value>'


def ebnf(text: str, accepted: str, refused: str, **more: Any) -> Sample:
    """Texts are separated by spaces; "''" is the empty text."""
    return Sample("from_ebnf", text, *(tuple(one.replace("''", "") for one in some.split(" ")) for some in (accepted, refused)), **more)  # fmt: skip


SAMPLES = (
    # docs: EBNF
    ebnf(
        'root ::= expr ("=" expr)*\nexpr ::= term ([-+*/] term)*\nterm ::= num | "(" expr ")"\nnum  ::= [0-9]+',
        "1+2 (3*4)-5=7 2=2=2", "'' 1+ (3 =2",
    ),
    ebnf('root ::= "a" | "b"', "a b", "'' ab c"),
    ebnf('root ::= "a" |\n         "b" |\n         "c"', "a b c", "'' d"),
    ebnf('root ::= root "a" | "a"     # left recursion', "a aa aaaa", "'' b ab"),
    ebnf('root ::= sign [0-9]\nsign ::= "" | "+" | "-"', "1 +2 -3", "+ *4 '' 12"),
    ebnf('root ::= "\\x41\\u0062\\U00000063\\e"', "Abc\x1b", "Abc ABC"),
    ebnf('root ::= [a-zA-Z0-9] [^0-9] [\\u4e00-\\u9fff] [^]', "zz中é 9-文\n", "z9中a zzza zz中"),
    ebnf('root  ::= value ("," value)*\nvalue ::= [0-9]+', "1 1,22,333", "'' , 1,"),
    ebnf('root ::= ("a" | "b") "c" ( )', "ac bc", "c abc"),
    ebnf('root ::= "a"? "b"* "c"+ "d"{3} "e"{2,4} "f"{2,} "g"{0}', "cdddeeff abbccdddeeeefff", "dddeeff cdddeff cdddeef"),
    ebnf('root ::= ("a"+)+ "b"', "ab aaab", "b a"),
    ebnf(
        'root       ::= identifier ("," identifier){0,4}\nidentifier ::= [a-zA-Z_] [a-zA-Z0-9_]*',
        "x x,y_1,_z a,b,c,d,e", "'' 1x a, a,b,c,d,e,f",
    ),
    ebnf(
        'root   ::= "\\"" char* "\\""\nchar   ::= [^"\\\\\\x00-\\x1f] | "\\\\" escape\n'
        'escape ::= ["\\\\/bfnrt] | "u" [0-9A-Fa-f]{4}',
        '"hello" "line1\\nline2" "\\u00e9" ""', '"open "\\x" "\\u12" hello',
    ),
    ebnf('root ::= "<think>" reasoning "</think>"\nreasoning[max_chars=4] ::= [a-zé中]*',
         "<think></think> <think>aé中b</think>", "<think>abcde</think> <think>"),
    ebnf('root ::= Regex("[0-9]{5}", json_string=false)', "01234", "0123 012345 ''"),
    ebnf('root ::= "ID-" Regex("[0-9]{5}")', "ID-12345", "ID-1 12345"),
    ebnf('root ::= Regex("\\\\S+", json_string=true)', "abc é", '"a a"b \\n',
         masks_differ="in xgrammar only whitespace in ASCII is whitespace"),
    ebnf('root ::= Substring("abc", "de", "fg")', "'' abc de abcde defg abcdefg", "ab cde fga"),
    ebnf('root ::= TagDispatch(("<tool>", tool), loop_after_dispatch=false)\ntool ::= "get_weather"',
         "'' free <too <tool>get_weather free<tool>get_weather", "<tool> <tool>get_weather,",
         masks_differ=BYTES),
    ebnf(
        'root ::= TagDispatch(("<tool_call>", tool_call_body), ("<code>", code_body), loop_after_dispatch=true, '
        'excludes=())\ntool_call_body ::= "{" [^}]* "}"\ncode_body ::= "```" [^`]* "```"',
        'I <tool_call>{"name"}</tool_call>. none <code>```print(1)```<tool_call>{}', "<tool_call> <code>```", masks_differ=BYTES,
    ),
    ebnf('root ::= body "</answer>"\nbody ::= TagDispatch(("<t>", call), excludes=("</answer>",))\ncall ::= "{" [^}]* "}"',
         "</answer> x<t>{a}y</answer>", "x </answer>y <t></answer>", masks_differ=BYTES),
    # docs: regular expressions and JSON
    Sample("from_regex", r"\d{3}-[a-z]+", ("123-abc",), ("12-a", "123-", "x123-a")),
    Sample("from_regex", r"(a|b)*c?.", ("ab\n", "c", "abcx"), ("", "abcxy")),
    Sample("from_json_schema", PERSON, ('{"name": "A", "age": 3}', '{ "name" :"\\u0041","age":\n-12}'),
           ('{"age": 3, "name": "A"}', '{"name": "A"}', '{"name": "A", "age": 3, "x": 1}', '{"name": "A", "age": 3.0}'),
           masks_differ="lone surrogates are refused"),
    Sample("from_json_schema", PERSON, ('{"name": "A", "age": 3}',), ('{"name":"A", "age": 3}', '{ "name": "A", "age": 3}'),
           {"any_whitespace": False}, "lone surrogates are refused"),
    Sample("from_json_schema", ORDERED, ('{\n  "a": 1,\n  "b": 2\n}',), ('{"a": 1, "b": 2}',),
           {"any_whitespace": False, "indent": 2}),
    Sample("from_json_schema", ORDERED, ('{"a":1,"b":2}',), ('{"a": 1,"b":2}',),
           {"any_whitespace": False, "separators": (",", ":")}),
    Sample("from_json_schema", ORDERED, ('{"a":1,"b":2}', '{  "a": 1 , "b":2}'), ('{   "a":1,"b":2}',),
           {"max_whitespace_cnt": 2}),
    Sample("from_json_schema", ORDERED, ('{"a":1,"b":2,"c":[3]}',), ('{"a":1,"c":[3]}',), {"strict_mode": False},
           "a name is not written twice, and lone surrogates are refused"),
    Sample("from_json_schema", ORDERED, ('{"a":1,"b":2}', '{"b":2,"a":1}'), ('{"c":1,"a":1,"b":2}',), {"any_order": True},
           "required names are there, and no name is there twice"),
    Sample("from_json_schema", {"type": "object"}, ("{}", '{"a": [1, {"b": null}]}'), ("[]", '{"a"}'), {},
           "a name is not written twice, and lone surrogates are refused"),
    Sample("from_json_schema", {"enum": ["red", 3, None, {"a": [1]}]}, ('"red"', "3", "null", '{"a":[1]}'),
           ('"r\\u0065d"', "3.0", "{}"), {}, "whitespace may stand in constants, too"),
    Sample("from_json_schema", {"type": "array", "prefixItems": [{"type": "boolean"}]}, ("[]", "[true]"), ("[true,1]",)),
    Sample("from_json_schema", {"type": "object", "patternProperties": {"^a": {"type": "integer"}}}, ("{}", '{"a": 1}'),
           ('{"b":1}', '{"a":"1"}'), {}, "a name is not written twice, and lone surrogates are refused"),
    Sample("from_json_schema", {"anyOf": [{"type": "array", "prefixItems": [{"type": "null"}]}, {"type": "null"}]},
           ("[]", "[null]", "null"), ("[null,1]", "1")),
    Sample("from_json_schema", {"type": "number"}, ("0", "-0.5", "1e5", "12.50E-3"), ("01", "1.", ".5", "+1")),
    Sample("from_json_schema", {"type": "integer", "minimum": 3, "maximum": 12}, ("3", "12", "7"), ("2", "13", "3.0")),
    # docs: structural tags
    Sample("from_structural_tag", tag({"type": "const_string", "value": "Let's think."}), ("Let's think.",), ("Let's",)),
    Sample("from_structural_tag", tag({"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "</think>"}),
           ("<think>a < b</think>", "<think></think>"), ("<think>a", "a</think>", "<think></think>x"), masks_differ=BYTES),
    Sample("from_structural_tag", tag({"type": "triggered_tags", "triggers": ["<function="], "tags": [
        {"type": "tag", "begin": "<function=weather>", "content": {"type": "json_schema", "json_schema": CITY},
         "end": "</function>"}]}),
           ("", "I will. <function=weather>{\"city\": \"Oslo\"}</function> Done."), ("<function=x>", "<function=weather>{}"),
           masks_differ="lone surrogates are refused"),
    Sample("from_structural_tag", tag({"type": "sequence", "elements": [
        {"type": "const_string", "value": "Answer: "}, {"type": "regex", "pattern": "[A-Z]{3}-[0-9]{4}"},
        {"type": "optional", "content": {"type": "const_string", "value": "!"}}]}),
           ("Answer: ABC-1234", "Answer: ABC-1234!"), ("ABC-1234", "Answer: AB-1234")),
    Sample("from_structural_tag", tag({"type": "or", "elements": [
        {"type": "const_string", "value": "yes"}, {"type": "grammar", "grammar": 'root ::= ("no" | "never")'}]}),
           ("yes", "no", "never"), ("", "yesno")),
    Sample("from_structural_tag", tag({"type": "repeat", "min": 1, "max": 3, "content": {"type": "const_string", "value": "ab"}}),
           ("ab", "ababab"), ("", "abababab", "aba")),
    Sample("from_structural_tag", tag({"type": "tags_with_separator", "separator": ",", "at_least_one": True, "tags": [
        {"type": "tag", "begin": "<a>", "content": {"type": "plus", "content": {"type": "const_string", "value": "x"}},
         "end": ["</a>", "</b>"]}]}),
           ("<a>x</a>", "<a>xx</b>,<a>x</a>"), ("", "<a></a>", "<a>x</a>,")),
    Sample("from_structural_tag", tag({"type": "json_schema", "json_schema": CITY, "style": "qwen_xml"}),
           ("<parameter=city>Oslo</parameter>",), ("", '{"city": "Oslo"}', "<parameter=x>Oslo</parameter>"),
           masks_differ="a string that begins with a line end stands between line ends"),
    Sample("from_structural_tag", tag({"type": "json_schema", "style": "deepseek_xml", "json_schema": {
        "type": "object", "patternProperties": {"^n_[a-z]+$": {"type": "integer"}}, "additionalProperties": False}}),
           ("", argument("n_a", "false", "3"), argument("n_a", "false", "3") + argument("n_b", "false", "4")),
           (argument("a", "false", "3"), argument("n_a", "true", "3"), argument("n_a", "false", "x")), masks_differ=NAMES),
    Sample("from_structural_tag", tag({"type": "json_schema", "style": "deepseek_xml", "json_schema": {
        "type": "object", "propertyNames": {"pattern": "^[a-z_]+$"}, "additionalProperties": {"type": ["string", "null"]}}}),
           ("", argument("a_b", "true", "x"), argument("a", "true", "") + argument("b", "false", "null")),
           (argument("A", "true", "x"), argument("a", "false", "x"), argument("a", "false", "3")), masks_differ=NAMES),
    Sample("from_structural_tag", tag({"type": "json_schema", "style": "cohere_xml", "json_schema": {
        "type": "object", "properties": {"a": True}, "required": ["a"], "additionalProperties": False}}),
           tuple(value("a", *one) for one in (("raw", "x"), ("json", "null"), ("dict", value("&amp;", "json", "1")),
                                              ("list", '<cofl:value type="raw">x</cofl:value>'))),
           ("", value("b", "raw", "x"), value("a", "json", "x"), value("a", "dict", value("&", "json", "1")),
            value("a", "list", value("b", "raw", "x"))), masks_differ=NAMES),
    # docs: Lark
    Sample("from_lark", 'start: item ("," item)*\nitem: /[0-9]+/ | "x"\n%ignore " "', ("1,2", "x , 33 "), ("", ",", " 1")),
    Sample("from_lark", 'start: "<" name ">" rest\nname[lazy]: /[a-z]+/\nrest: /[a-z]+/', ("<a>bc",), ("<ab>c", "<>c")),
)  # fmt: skip


def grammar_of(library: Any, sample: Sample) -> Any:
    """The sample's Grammar in xgrammar or in the facade."""
    specification = sample.specification
    if sample.kind == "from_json_schema":
        specification = json.dumps(specification)
    return getattr(library.Grammar, sample.kind)(specification, **sample.options)
