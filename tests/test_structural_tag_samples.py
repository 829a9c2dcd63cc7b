"""Texts that each format accepts and refuses. If xgrammar is installed, it judges the same texts.

`DIFFERENT` lists the texts on which xgrammar disagrees, with the reason.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest

from guided.frontends.structural_tag.argument_forms import ARGUMENT_STYLES
from guided.frontends.structural_tag.formats import FORMATS
from tests.structural_tag_support import accepts, byte_compiler, of_format
from tests.xgrammar_version import XGRAMMAR

Form = dict[str, Any]
ANY: Form = {"type": "any_text"}
X: Form = {"type": "const_string", "value": "x"}
BOOLEAN: Form = {"type": "json_schema", "json_schema": {"type": "boolean"}}
PERSON: Form = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "e": {"enum": ["a", "b"]},
        "o": {
            "type": "object",
            "properties": {"k": {"type": "boolean"}},
            "required": ["k"],
            "additionalProperties": False,
        },
        "l": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["s"],
    "additionalProperties": False,
}


def tag(begin: str, content: Form, end: str | list[str]) -> Form:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def triggered(**more: Any) -> Form:
    tags = [tag("<a1>", X, "</a>"), tag("<a2>", ANY, "</a>")]
    return {"type": "triggered_tags", "triggers": ["<a"], "tags": tags, **more}


def separated(**more: Any) -> Form:
    return {"type": "tags_with_separator", "tags": [tag("(", X, ")"), tag("[", ANY, "]")], "separator": ",", **more}


def dispatch(**more: Any) -> Form:
    return {"type": "dispatch", "rules": [["<x>", X], ["<b>", BOOLEAN]], **more}


def xml(style: str) -> Form:
    return {"type": "json_schema", "json_schema": PERSON, "style": style}


DEEPSEEK = '<｜DSML｜parameter name="{}" string="{}">{}</｜DSML｜parameter>'
COHERE = '<cofl:value name="{}" type="{}">{}</cofl:value>'
ITEM = '<cofl:value type="{}">{}</cofl:value>'
MARK = "]<]minimax[>["
KIMI = '<|open|>argument key="{}" type="{}"<|sep|>{}<|close|>argument<|sep|>'
SAMPLES: dict[str, tuple[Form, list[str], list[str]]] = {
    "const_string": ({"type": "const_string", "value": "aé\n"}, ["aé\n"], ["", "a", "aé", "aé\n\n"]),
    "const_string, empty": ({"type": "const_string", "value": ""}, [""], ["a"]),
    "json_schema": (
        {"type": "json_schema", "json_schema": PERSON},
        ['{"s": "x"}', '{"s":"x","i":3}', '{ "s" : "x" , "e":"b" }', '{"s": "\\u00e9", "l": [1, 2]}'],
        ["", "{}", '{"i": 3}', '{"s": 3}', '{"s": "x", "e": "c"}', '{"i": 3, "s": "x"}', '{"s": "x"'],
    ),
    "json_schema, any order": (
        {"type": "json_schema", "json_schema": PERSON, "any_order": True},
        ['{"s": "x", "i": 3}', '{"i": 3, "s": "x"}'],
        ['{"i": 3}', '{"s": "x", "s": "y"}'],
    ),
    "json_schema, whitespace": (
        {
            "type": "json_schema",
            "json_schema": {"type": "array", "items": {"type": "boolean"}},
            "max_whitespace_cnt": 1,
        },
        ["[true]", "[ true , false]", "[]"],
        ["[  true]", "[true,\n\nfalse]"],
    ),
    "any_text": (ANY, ["", "a", "<é>\n\x00"], []),
    "any_text, excludes": ({**ANY, "excludes": ["ab", "c"]}, ["", "a", "b", "ba", "aa b"], ["ab", "c", "xaby", "aab"]),
    "any_text, max_chars": ({**ANY, "max_chars": 2}, ["", "a", "éé"], ["abc", "ééé"]),
    "any_text, both": ({**ANY, "max_chars": 3, "excludes": ["b"]}, ["", "aaa", "cé"], ["b", "aab", "aaaa"]),
    "grammar": (
        {"type": "grammar", "grammar": 'root ::= "a" b*\nb ::= "(" b ")" | "x"'},
        ["a", "ax", "a(x)", "a((x))x"],
        ["", "b", "a(", "a()"],
    ),
    "grammar in Lark": (
        {"type": "grammar", "syntax": "lark", "grammar": 'start: A* "!"\nA: /[a-z]+/\n%ignore " "'},
        ["!", "ab!", "ab cd !"],
        ["", "ab", "a!!"],
    ),
    "regex": ({"type": "regex", "pattern": "a+|b{2}"}, ["a", "aaa", "bb"], ["", "b", "ab", "abb"]),
    "regex, anchors": ({"type": "regex", "pattern": "^a+$"}, ["a", "aa"], ["", "ab"]),
    "sequence": ({"type": "sequence", "elements": [X, BOOLEAN, X]}, ["xtruex", "xfalsex"], ["", "x", "xtrue", "xx"]),
    "sequence after text": ({"type": "sequence", "elements": [ANY, X]}, ["x", "ax", "axx"], ["", "a", "xa"]),
    "or": ({"type": "or", "elements": [X, BOOLEAN]}, ["x", "true"], ["", "xtrue", "xx"]),
    "tag": (tag("<t>", BOOLEAN, "</t>"), ["<t>true</t>"], ["", "<t>", "<t></t>", "<t>true", "true"]),
    "tag around text": (tag("<", ANY, ">"), ["<>", "<a>", "<<>"], ["", "<", "<a>>", "<a>b"]),
    "tag, end overlaps": (tag("<", ANY, "aa"), ["<aa", "<aaa", "<baa"], ["<", "<a", "<baaaa"]),
    "tag, several ends": (tag("<", ANY, ["!", "?"]), ["<!", "<?", "<a!"], ["<", "<a!?", "<?a"]),
    "tag, text in the middle": (
        tag("<", {"type": "sequence", "elements": [ANY, X]}, ">"),
        ["<x>", "<ax>"],
        ["<>x>", "<>"],
    ),
    "tag in a tag": (tag("<", tag("(", ANY, ")"), ">"), ["<()>", "<(>)>", "<(a)>"], ["<>", "<(>", "<())>"]),
    "tag, choice of text": (tag("<", {"type": "or", "elements": [X, ANY]}, ">"), ["<x>", "<>", "<a>"], ["<a>>"]),
    "tag, optional text": (tag("<", {"type": "optional", "content": ANY}, ">"), ["<>", "<a>"], ["<a>>"]),
    "tag, empty end": (tag("<", X, ""), ["<x"], ["<", "<x>"]),
    "triggered_tags": (
        triggered(),
        ["", "text", "<b", "<a1>x</a>", "a<a1>x</a>b", "<a2>any<a1>b</a>c<a1>x</a>"],
        ["<a", "a<a3>", "<a1>y</a>", "<a1>x</a><a", "<a1>x"],
    ),
    "triggered_tags, at_least_one": (
        triggered(at_least_one=True),
        ["<a1>x</a>", "<a1>x</a>b", "<a1>x</a>b<a2></a>"],
        ["", "b", "b<a1>x</a>"],
    ),
    "triggered_tags, stop_after_first": (
        triggered(stop_after_first=True),
        ["", "b", "b<a1>x</a>"],
        ["<a1>x</a>b", "<a1>x</a><a2></a>"],
    ),
    "triggered_tags, exactly one": (
        triggered(at_least_one=True, stop_after_first=True),
        ["<a1>x</a>", "<a2></a>"],
        ["", "b", "b<a1>x</a>", "<a1>x</a>b"],
    ),
    "triggered_tags, excludes": (triggered(excludes=["z"]), ["", "a", "<a2>z</a>"], ["z", "<a1>x</a>z", "az"]),
    "triggered_tags in a tag": (tag("[", triggered(), "]"), ["[]", "[b]", "[<a2>]</a>c]"], ["[b]]", "["]),
    "triggered_tags, two triggers": (
        {"type": "triggered_tags", "triggers": ["<a", "!"], "tags": [tag("<a>", X, ";"), tag("!", BOOLEAN, ";")]},
        ["", "<a>x;!true;", "b!false;c"],
        ["!", "!x;", "<a", "<a>true;"],
    ),
    "tags_with_separator": (
        separated(),
        ["", "(x)", "(x),[a,b]", "(x),(x),(x)"],
        ["(x),", ",(x)", "(x)(x)", "a(x)", "(y)"],
    ),
    "tags_with_separator, at_least_one": (separated(at_least_one=True), ["(x)", "[]"], ["", "a"]),
    "tags_with_separator, stop_after_first": (separated(stop_after_first=True), ["", "(x)"], ["(x),(x)"]),
    "tags_with_separator, exactly one": (separated(stop_after_first=True, at_least_one=True), ["(x)"], ["", "(x),(x)"]),
    "tags_with_separator, no separator": ({**separated(), "separator": ""}, ["", "(x)(x)", "(x)[]"], ["(x),(x)"]),
    "optional": ({"type": "optional", "content": X}, ["", "x"], ["xx"]),
    "plus": ({"type": "plus", "content": X}, ["x", "xxx"], ["", "xa"]),
    "star": ({"type": "star", "content": X}, ["", "x", "xxx"], ["xa"]),
    "repeat": ({"type": "repeat", "min": 1, "max": 2, "content": X}, ["x", "xx"], ["", "xxx"]),
    "repeat, unbounded": ({"type": "repeat", "min": 2, "max": -1, "content": X}, ["xx", "xxxx"], ["", "x"]),
    "dispatch": (dispatch(), ["", "a", "<x>x", "a<x>xb<b>truec"], ["<x>", "<x>a", "<b>x"]),
    "dispatch, once": (dispatch(loop=False), ["", "a", "a<x>x"], ["<x>xb", "<x>x<x>x"]),
    "dispatch, excludes": (dispatch(excludes=["q"]), ["", "a<x>x"], ["q", "q<x>x", "<x>xq"]),
    "dispatch in a tag": (tag("[", dispatch(), "]"), ["[]", "[a]", "[<x>x]", "[a]]"], ["[", "[<x>]"]),
    "qwen_xml_parameter": (
        {"type": "qwen_xml_parameter", "json_schema": PERSON},
        ["<parameter=s>a</parameter>"],
        ["", "<parameter=i>3</parameter>"],
    ),
    "qwen_xml": (
        xml("qwen_xml"),
        [
            "<parameter=s>a</parameter>",
            "<parameter=s>\na\n</parameter>\n<parameter=i>\n3\n</parameter>\n",
            '<parameter=s>"</b></parameter><parameter=o>{"k": true}</parameter>',
            "<parameter=s></parameter><parameter=e>b</parameter>",
        ],
        [
            "",
            "<parameter=i>3</parameter>",
            "<parameter=s>a</parameter><parameter=i>x</parameter>",
            "<parameter=s>a</parameter><parameter=e>c</parameter>",
            "<parameter=i>3</parameter><parameter=s>a</parameter>",
            "<parameter=s>a</parameter><parameter=s>a</parameter>",
            "<parameter=z>a</parameter>",
        ],
    ),
    "minimax_xml": (
        xml("minimax_xml"),
        [
            '<parameter name="s">a</parameter>',
            '<parameter name="s">a</parameter>\n<parameter name="l">[1, 2]</parameter>\n',
        ],
        [
            "",
            "<parameter=s>a</parameter>",
            '<parameter name="l">[1]</parameter>',
            '<parameter name="s">a</parameter><parameter name="l">[x]</parameter>',
        ],
    ),
    "deepseek_xml": (
        xml("deepseek_xml"),
        [
            DEEPSEEK.format("s", "true", "a"),
            DEEPSEEK.format("s", "true", "3") + "\n" + DEEPSEEK.format("i", "false", "3"),
        ],
        [
            "",
            DEEPSEEK.format("s", "false", '"a"'),
            DEEPSEEK.format("s", "true", "a") + DEEPSEEK.format("i", "true", "3"),
        ],
    ),
    "deepseek_v4_1_xml": (
        xml("deepseek_v4_1_xml"),
        [DEEPSEEK.format("s", "true", "a").replace("parameter", " parameter")],
        ["", DEEPSEEK.format("s", "true", "a")],
    ),
    "glm_xml": (
        xml("glm_xml"),
        [
            "<arg_key>s</arg_key><arg_value>a</arg_value>",
            "<arg_key>s</arg_key>\n<arg_value>a</arg_value>\n<arg_key>i</arg_key>\n<arg_value>3</arg_value>",
        ],
        [
            "",
            "<arg_key>i</arg_key><arg_value>3</arg_value>",
            "<arg_key>s</arg_key>",
            "<arg_key>s</arg_key><arg_value>a",
        ],
    ),
    "kimi_k3_xml": (
        xml("kimi_k3_xml"),
        [
            KIMI.format("s", "string", "a"),
            KIMI.format("s", "string", "a")
            + KIMI.format("i", "number", "3")
            + KIMI.format("o", "object", '{"k": true}'),
        ],
        ["", KIMI.format("s", "number", "3"), KIMI.format("s", "string", "a") + KIMI.format("i", "string", "3")],
    ),
    "kimi_k3_xml, excludes": (
        {**xml("kimi_k3_xml"), "excludes": ["<|sep|>", "bad"]},
        [
            KIMI.format("s", "string", "ba<|sep"),
            KIMI.format("s", "string", "") + KIMI.format("e", "string", "b"),
        ],
        [KIMI.format("s", "string", "a<|sep|>"), KIMI.format("s", "string", "abadb")],
    ),
    "json_schema, excludes": (
        {
            "type": "json_schema",
            "json_schema": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"enum": ["ab", "ax", 1, True]}]}},
            "excludes": ["b", "tru"],
        },
        ['["a", "ax", "tr"]', "[true, 1]", '["a\\u0061"]'],
        ['["ab"]', '["b"]', '["xxb"]', '["true"]', '["\\u0062"]'],
    ),
    "cohere_xml": (
        xml("cohere_xml"),
        [
            COHERE.format("s", "raw", "a"),
            COHERE.format("s", "raw", "3") + "\n" + COHERE.format("i", "json", " 3 ") + "\n",
            COHERE.format("s", "raw", '<b>"\n') + COHERE.format("e", "raw", "b"),
            COHERE.format("s", "raw", "") + COHERE.format("o", "dict", COHERE.format("k", "json", "true")),
            COHERE.format("s", "raw", "") + COHERE.format("l", "list", ITEM.format("json", "1") * 2),
            COHERE.format("s", "raw", "") + COHERE.format("l", "list", ""),
        ],
        [
            "",
            COHERE.format("s", "json", '"a"'),
            COHERE.format("s", "raw", "a") + COHERE.format("i", "raw", "3"),
            COHERE.format("i", "json", "3") + COHERE.format("s", "raw", "a"),
            COHERE.format("s", "raw", "a") + COHERE.format("o", "json", '{"k": true}'),
            COHERE.format("s", "raw", "a") + COHERE.format("o", "dict", ""),
            COHERE.format("s", "raw", "") + COHERE.format("l", "list", ITEM.format("raw", "1")),
            COHERE.format("s", "raw", "") + COHERE.format("l", "list", COHERE.format("item", "json", "1")),
            COHERE.format("s", "raw", "a") + COHERE.format("z", "raw", "a"),
        ],
    ),
    "cohere_xml, names": (
        {
            "type": "json_schema",
            "json_schema": {
                "type": "object",
                "properties": {'a"<&> é': {"type": "null"}},
                "additionalProperties": False,
            },
            "style": "cohere_xml",
        },
        [COHERE.format("a&quot;&lt;&amp;&gt; é", "json", "null")],
        [COHERE.format('a"<&> é', "json", "null")],
    ),
    "minimax_m3_xml": (
        xml("minimax_m3_xml"),
        [
            f"{MARK}<s>a{MARK}</s>",
            f"{MARK}<s>3{MARK}</s>\n{MARK}<i>3{MARK}</i>\n",
            f"{MARK}<s>]<]minimax[{MARK}</s>{MARK}<e>b{MARK}</e>",
            f"{MARK}<s>{MARK}</s>{MARK}<o> {MARK}<k>true{MARK}</k>{MARK}</o>",
            f"{MARK}<s>{MARK}</s>{MARK}<l>{MARK}<item>1{MARK}</item>\n{MARK}<item>-2{MARK}</item>{MARK}</l>",
            f"{MARK}<s>{MARK}</s>{MARK}<l>{MARK}</l>",
        ],
        [
            "",
            "<s>a</s>",
            f"{MARK}<s>a{MARK}b{MARK}</s>",
            f"{MARK}<s>a{MARK}</s>{MARK}<i> 3{MARK}</i>",
            f"{MARK}<i>3{MARK}</i>{MARK}<s>a{MARK}</s>",
            f"{MARK}<s>a{MARK}</s>{MARK}<o>{MARK}</o>",
            f'{MARK}<s>a{MARK}</s>{MARK}<o>{{"k": true}}{MARK}</o>',
            f"{MARK}<s>a{MARK}</s>{MARK}<l>{MARK}<k>1{MARK}</k>{MARK}</l>",
            f"{MARK}<s>a{MARK}</t>",
        ],
    ),
}
DIFFERENT: dict[tuple[str, str], str] = {
    ("json_schema, excludes", '["\\u0062"]'): "xgrammar looks for excluded strings before escapes are read",
    ("json_schema, any order", '{"i": 3}'): "xgrammar does not check with any_order that required members are there",
    ("json_schema, any order", '{"s": "x", "s": "y"}'): "xgrammar does not check with any_order that members differ",
}
LEGACY = {
    "structures": [
        {"begin": "<f=a>", "schema": {"type": "boolean"}, "end": "</f>"},
        {"begin": "<f=b>", "schema": '{"type": "null"}', "end": "</f>"},
    ],
    "triggers": ["<f="],
}


def test_the_table_is_large() -> None:
    assert sum(len(yes) + len(no) for _, yes, no in SAMPLES.values()) >= 150


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str) -> None:
    form, yes, no = SAMPLES[name]
    grammar = byte_compiler().compile_structural_tag(of_format(form))
    for text in yes:
        assert accepts(grammar, list(text.encode())), text
    for text in no:
        assert not accepts(grammar, list(text.encode())), text


@pytest.mark.parametrize("name", SAMPLES)
def test_verdicts_match_xgrammar(name: str) -> None:
    xgrammar = pytest.importorskip("xgrammar", reason="xgrammar is not installed")
    testing = pytest.importorskip("xgrammar.testing", reason="xgrammar is not installed")
    form, yes, no = SAMPLES[name]
    if "syntax" in form and XGRAMMAR < (0, 2, 9):
        pytest.skip("new in xgrammar 0.2.9")
    grammar = xgrammar.Grammar.from_structural_tag(of_format(form))
    for text, accepted in [*((text, True) for text in yes), *((text, False) for text in no)]:
        same = testing._is_grammar_accept_string(grammar, text) == accepted
        assert same != ((name, text) in DIFFERENT), text


def test_the_older_form() -> None:
    grammar = byte_compiler().compile_structural_tag(LEGACY)
    for text in ("", "a", "<f=a>true</f>", "a<f=b>null</f>b<f=a>false</f>"):
        assert accepts(grammar, list(text.encode())), text
    for text in ("<f=", "<f=c>", "<f=a>null</f>", "<f=a>true"):
        assert not accepts(grammar, list(text.encode())), text


def test_every_format_and_option_of_xgrammar_is_read() -> None:
    pytest.importorskip("xgrammar", reason="xgrammar is not installed")
    import xgrammar.structural_tag as theirs

    models = [it for it in vars(theirs).values() if isinstance(it, type) and hasattr(it, "model_fields")]
    formats = {it.model_fields["type"].default: it.model_fields for it in models if "type" in it.model_fields}
    del formats["structural_tag"]
    assert formats.keys() == FORMATS.keys()
    for name, fields in formats.items():
        added = {"syntax"} if XGRAMMAR < (0, 2, 9) else set()
        assert fields.keys() - {"type"} == FORMATS[name].keys() - added, name
    assert set(get_args(formats["json_schema"]["style"].annotation)) < set(ARGUMENT_STYLES)
