"""Arguments that are literals: Python's own parser judges pythonic ones, a second reader judges Gemma's."""

from __future__ import annotations

import ast
import json
import random
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.errors import SpecError, UnsupportedError
from guided.frontends.structural_tag.argument_forms import argument_form, describe_form
from guided.frontends.structural_tag.element_forms import FORMS
from guided.frontends.structural_tag.literal_arguments import LiteralArguments
from guided.frontends.structural_tag.literal_forms import LITERAL_FORMS
from tests.effort import examples
from tests.structural_tag_support import accepts, byte_compiler, compiler_with, of_format, walk

Schema = dict[str, Any]
PYTHONIC = ["pythonic", "pythonic_json"]
STYLES = sorted(LITERAL_FORMS)
DELIMITER = '<|"|>'
PLACE: Schema = {
    "type": "object",
    "properties": {"lat": {"type": "number"}, "names": {"type": "array", "items": {"type": "string"}, "maxItems": 2}},
    "required": ["lat"],
    "additionalProperties": False,
}
SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 5},
        "word": {"type": "string", "pattern": "^[ab'\"\\\\]{1,3}$"},
        "days": {"type": "integer", "minimum": 0, "maximum": 99},
        "on": {"type": ["boolean", "null"]},
        "unit": {"enum": ["C", "it's", 3, None, True, {"a": ["x", False]}]},
        "at": PLACE,
        "any": {},
        "others": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def compiled(style: Any, schema: Any, compiler: guided.GrammarCompiler | None = None, **options: Any) -> Any:
    tag = of_format({"type": "json_schema", "json_schema": schema, "style": style})
    return (compiler or byte_compiler()).compile_structural_tag(tag, **options)


def takes(grammar: Any, text: str) -> bool:
    return accepts(grammar, list(text.encode()))


def by_python(text: str) -> dict[str, Any]:
    """Keyword arguments as Python reads them. JSON's constants are names, which stand for their values."""
    (call,) = (node for node in ast.walk(ast.parse(f"f({text})")) if isinstance(node, ast.Call))
    assert not call.args
    constants = {"true": True, "false": False, "null": None}

    class Named(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.Constant(constants[node.id])

    return {str(word.arg): ast.literal_eval(Named().visit(word.value)) for word in call.keywords}


def by_gemma(text: str) -> dict[str, Any]:
    """Converts Gemma's notation to JSON: names get quotation marks, and strings are encoded again."""
    out = ""
    for number, piece in enumerate(text.split(DELIMITER)):
        out += json.dumps(piece) if number % 2 else re.sub(r"([A-Za-z0-9_.$-]+)(\s*:)", r'"\1"\2', piece)
    value: dict[str, Any] = json.loads(out)
    return value


def read_back(style: str, text: str, source: random.Random) -> Any:
    """The reader's result for a text in random pieces. Each intermediate state is valid JSON, and the new texts add up
    to the result.
    """
    reader, kept, pieces = LiteralArguments(LITERAL_FORMS[style]), "", ""
    text += ")" if style in PYTHONIC else "<"
    at = 0
    while at < len(text):
        size = source.choice([1, 1, 2, 5, 30])
        kept = reader.read(kept + text[at : at + size])
        at += size
        pieces += reader.new_text(is_complete=False)
        assert isinstance(json.loads(reader.text()), dict)
    assert reader.may_end and kept == text[-1]
    assert pieces + reader.new_text(is_complete=True) == reader.text()
    value = json.loads(pieces)
    judge = by_python if style in PYTHONIC else by_gemma
    for pointer, start, end in reader.spans():
        where = pointer.split("/")[1:]
        inside = value
        for step in where:
            inside = inside[int(step) if isinstance(inside, list) else step.replace("~1", "/").replace("~0", "~")]
        assert judge(f"x={text[start:end]}" if style in PYTHONIC else f"{{x:{text[start:end]}}}") == {"x": inside}
    return value


@pytest.mark.parametrize("style", STYLES)
def test_generated_texts_are_valid_and_read_back(style: str) -> None:
    source, judge = random.Random(style), by_python if style in PYTHONIC else by_gemma
    every: list[dict[str, Any]] = [
        {},
        {"whitespace": "single_space"},
        {"escapes": "minimal"},
        {"property_order": "any"},
    ]
    for options in every:
        grammar = compiled(style, SCHEMA, numbers="plain", max_digits=9, **options)
        for _ in range(12):
            text = "".join(walk(byte_compiler(), grammar, source, 150))
            value = judge(text)
            jsonschema.validate(value, SCHEMA)
            assert read_back(style, text, source) == value, text


names = st.from_regex("[a-z_][a-z0-9_]{0,4}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).filter(lambda text: DELIMITER not in text)
leaves = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9).map(lambda x: x + 0.0) | texts
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))


def python(value: Any) -> str:
    """Python's notation: `repr` chooses quotation marks and escapes. Names that the schema does not define are JSON
    strings.
    """
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(name)}: {python(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(python, value)) + "]"
    return repr(value)


@given(st.dictionaries(names, values, max_size=3), st.randoms(use_true_random=False))
@examples(60)
def test_literals_of_python_are_accepted_and_read_back(given_arguments: dict[str, Any], source: random.Random) -> None:
    text = ", ".join(f"{name}={python(value)}" for name, value in given_arguments.items())
    assert read_back("pythonic", text, source) == given_arguments
    assert takes(compiled("pythonic", {"type": "object", "additionalProperties": {}}), text)


def gemma(value: Any) -> str:
    match value:
        case str():
            return f"{DELIMITER}{value}{DELIMITER}"
        case dict():
            return "{" + ",".join(f"{name}:{gemma(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + ",".join(map(gemma, value)) + "]"
    return json.dumps(value)


@given(st.dictionaries(names, values, max_size=3), st.randoms(use_true_random=False))
@examples(60)
def test_calls_of_gemmas_template_are_accepted_and_read_back(given_arguments: Any, source: random.Random) -> None:
    text = gemma(given_arguments)
    assert read_back("gemma", text, source) == given_arguments
    assert takes(compiled("gemma", {"type": "object", "additionalProperties": {}}), text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"city='\x4f\u0073\U0000006co'", "Oslo"),
        (r"""city='"\'\"'""", '"\'"'),
        (r'city="a\n\t\\b"', "a\n\t\\b"),
        (r"city = '' ", ""),
        (r'city="\x7f"', "\x7f"),
    ],
)
def test_spellings_of_python_strings(text: str, value: str) -> None:
    schema = {"type": "object", "properties": {"city": {"const": value}}, "required": ["city"]}
    assert by_python(text) == {"city": value}
    assert takes(compiled("pythonic", schema), text)
    assert read_back("pythonic", text, random.Random(0)) == {"city": value}


@pytest.mark.parametrize(
    "text",
    [
        "city='Oslo\"", "city=Oslo", "city='Os\nlo'", "city:'Oslo'", "city='Oslo',", "'city'='Oslo'", "city=b'Oslo'",
        "city='Oslo' days=3", "days=3", "city='a', city='b'", r"city='\ud800'", r"city='\q'", r"city='\400'",
        "city='Osloooo'",
        "city='x', on=true", "city='x', on='True'", "city='x', at={lat: 1}", "city='x', at={'lat': 1,}",
        "city='x', other=1", "city='x', days=01", "city='x', days=1_0", "city='x', at=(1)",
    ],
)  # fmt: skip
def test_invalid_calls_are_refused(text: str) -> None:
    assert takes(compiled("pythonic", SCHEMA), "city='Oslo', days=3")
    assert not takes(compiled("pythonic", SCHEMA), text)


def test_constants_of_a_style() -> None:
    schema = {"type": "object", "properties": {"on": {"type": ["boolean", "null"]}}, "required": ["on"]}
    for style, accepted in (
        ("pythonic", "on=True on=False on=None"),
        ("pythonic_json", "on=True on=False on=None on=true on=false on=null"),
        ("gemma", "{on:true} {on:false} {on:null}"),
    ):
        every = [f"on{mark}{word}" for mark in "=:" for word in ("True", "False", "None", "true", "false", "null")]
        assert [text for text in every if takes(compiled(style, schema), text)] == [
            text for text in every if text in accepted.split()
        ]


def test_a_string_of_gemma_ends_at_its_delimiter() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    for text in ("", "<", '<|"', '"', "}", '<|"|', "a:b,c"):
        assert takes(compiled("gemma", schema), f"{{a:{DELIMITER}{text}{DELIMITER}}}")
    assert not takes(compiled("gemma", schema), f"{{a:{DELIMITER}x{DELIMITER}y{DELIMITER}}}")
    compiler = compiler_with(DELIMITER)
    with pytest.raises(SpecError, match="control token"):
        compiled("gemma", schema, compiler)
    matcher = guided.GrammarMatcher(compiled("gemma", schema, compiler, allow_special_tokens=True))
    assert matcher.accept_string("{a:") and not matcher.accept_string(DELIMITER)
    assert matcher.accept_token(257) and matcher.accept_string("x") and matcher.accept_token(257)
    assert matcher.accept_string("}") and matcher.is_accepting()


@pytest.mark.parametrize("style", STYLES)
def test_values_that_a_literal_cannot_express_are_refused(style: str) -> None:
    def schema(**more: Any) -> Schema:
        return {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}} | more, "required": ["a"]}

    with pytest.raises(UnsupportedError, match="uniqueItems") as caught:
        compiled(style, schema())
    assert caught.value.pointer == "/format/json_schema/properties/a/uniqueItems" and caught.value.hint
    with pytest.raises(UnsupportedError, match="cannot be written in this style") as caught:
        compiled(style, {"type": "object", "properties": {"a b": {}}})
    assert caught.value.pointer == "/format/json_schema/properties/a b"
    with pytest.raises(UnsupportedError, match="may occur twice"):
        compiled(style, {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2})


def test_names_of_pythonic_objects_differ() -> None:
    grammar = compiled("pythonic", {"type": "object", "properties": {"at": {"type": "object", "minProperties": 2}}})
    assert takes(grammar, 'at={"a": 1, "b": 2}')
    assert not takes(grammar, 'at={"a": 1, "a": 2}')


def test_many_optional_arguments() -> None:
    """More than 64: the names form a trie. In Python dicts they are in double quotation marks."""
    many = {f"n{number}": {"type": "integer"} for number in range(100)}
    schema = {"type": "object", "properties": {**many, "at": {"type": "object", "properties": many}}}
    for style, text in (("pythonic", 'n1=1, n12=2, at={"n1": 1, "n99": 3}'), ("gemma", "{n1:1,n12:2,at:{n1:1,n99:3}}")):
        grammar = compiled(style, schema)
        assert takes(grammar, text)
        assert not takes(grammar, text.replace("n12", "n1"))
        assert read_back(style, text, random.Random(0)) == {"n1": 1, "n12": 2, "at": {"n1": 1, "n99": 3}}


@pytest.mark.parametrize("style", STYLES)
def test_a_reader_of_any_text_does_no_harm(style: str) -> None:
    source = random.Random(style)
    pieces = ["a", "=", ":", ",", "'", '"', "\\", "{", "}", "[", "]", "(", " ", "1", "True", DELIMITER]
    for _ in range(300):
        text = "".join(source.choice(pieces) for _ in range(source.randint(0, 30)))
        reader, kept = LiteralArguments(LITERAL_FORMS[style]), ""
        for char in text:
            kept = reader.read(kept + char)
            assert isinstance(json.loads(reader.text()), dict)
        assert all(0 <= start <= end <= len(text) for _, start, end in reader.spans())


# --- forms that a structural tag describes


def test_forms_by_name_and_by_description_are_the_same() -> None:
    for style in (*FORMS, *LITERAL_FORMS):
        form = argument_form(style)
        assert form is not None
        described = json.loads(json.dumps(describe_form(form)))
        assert argument_form(described) == form
        schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
        texts = [compiled(kind, schema) for kind in (style, described)]
        walks = ["".join(walk(byte_compiler(), grammar, random.Random(1), 60)) for grammar in texts]
        assert walks[0] == walks[1]


def elements(**more: Any) -> dict[str, Any]:
    return {"type": "elements", "begin": "<a ", "after": ">", "string": "", "other": "", "end": "</a>"} | more


@pytest.mark.parametrize(
    ("form", "pointer", "message"),
    [
        ({"type": "lines"}, "/type", "there is no form of arguments"),
        ({}, "/type", "there is no form of arguments"),
        ({"type": "elements", "begin": "<a "}, "", '"after" is missing'),
        ({"type": "elements", "begn": "<a "}, "/begn", "has no field"),
        ({"type": "literals", "quotes": []}, "/quotes", "not a list of one to four strings"),
        ({"type": "literals", "quotes": ["«"]}, "/quotes", "Python's escapes"),
        ({"type": "literals", "quotes": [""], "escapes": False}, "/quotes", "need a delimiter"),
        ({"type": "literals", "assign": " is "}, "/assign", "separated by"),
        ({"type": "literals", "comma": ";"}, "/comma", "separated by a comma"),
        ({"type": "literals", "bare": True}, "/bare", "names without delimiters"),
        ({"type": "literals", "bare": 1}, "/bare", "not a boolean"),
        ({"type": "literals", "quotes": ["x" * 300], "escapes": False}, "/quotes/0", "at most 200"),
        (elements(begin=" "), "/begin", "before"),
        (elements(end="</{name}>"), "/never", "repeats"),
        (elements(last="x"), "/last", "whitespace"),
        (elements(item="<i>"), "/item", "both"),
        (elements(types={"number": 3}), "/types/number", "not a string"),
    ],
)  # fmt: skip
def test_malformed_descriptions_are_refused_with_their_place(form: Any, pointer: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        compiled(form, {"type": "object"})
    assert caught.value.pointer == f"/format/style{pointer}" and caught.value.hint


def test_a_schema_without_objects_describes_one_value_of_gemma() -> None:
    text = f"{DELIMITER}x{DELIMITER}"
    for schema, accepted, refused in (
        ({"type": "string"}, [text], ["x", '"x"', f"{{a:{text}}}"]),
        ({"type": "array", "items": {"type": "boolean"}}, ["[]", "[true, false]"], ["true", "{}"]),
        (True, ["{}", f"{{a:{text}}}"], ["1", text]),  # the arguments are an object if the schema allows one
    ):
        grammar = compiled("gemma", schema)
        assert [one for one in (*accepted, *refused) if takes(grammar, one)] == accepted
