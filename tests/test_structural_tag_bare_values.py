"""XML styles with a schema that allows no object: one value, written like the value of an element."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

import guided
from guided.frontends.structural_tag.element_forms import FORMS
from tests.structural_tag_support import accepts, byte_compiler, compiler_with, ids_of, of_format

NESTED = ("cohere_xml", "minimax_m3_xml")
SCALARS: dict[str, list[Any]] = {  # by the types other than strings that they allow
    "": [
        {"type": "string"},
        {"type": "string", "pattern": "^a"},
        {"type": "string", "maxLength": 3},
        {"const": "hello world"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string", "minLength": 2}}},
    ],
    "number": [{"type": "integer"}, {"type": "number", "maximum": 12}, {"type": ["string", "integer"]}],
    "boolean": [{"type": "boolean"}],
    "null": [{"type": "null"}, {"type": ["string", "null"]}],
    "number null": [{"enum": ["a", 12, None, "\nfoo"]}],
}
ARRAYS: dict[str, list[Any]] = {
    "array": [
        {"type": "array", "items": {"type": "integer"}},
        {"type": ["string", "array"], "items": {"type": "integer"}},
    ],
}
TEXTS = ["hello world", "", "\n", "\nfoo", "\nfoo\n", " 12", "12", "-3", "1.5", "true", "null", '"a"', "a", "é",
         "[1, 2]", "[]", '["</arg', "{}", *(form.end for form in FORMS.values())]  # fmt: skip
JSON_TEXTS = {
    "number": r"\s*-?[0-9]+(\.[0-9]+)?\s*",
    "null": r"\s*null\s*",
    "boolean": r"\s*(true|false)\s*",
    "array": r"(?s)\s*\[.*",
}


def cases(*groups: dict[str, list[Any]]) -> list[Any]:
    """Pairs of types and a schema."""
    return [
        pytest.param(types, schema, id=str(schema)) for group in groups for types in group for schema in group[types]
    ]


def one_value(style: Any, schema: Any, **more: Any) -> Any:
    return of_format({"type": "json_schema", "style": style, "json_schema": schema, **more})


def is_one_of(schema: Any, text: str, types: str, *, nests: bool) -> bool:
    """Whether a text is a value of the schema. It is JSON if it looks like one of these types."""
    value: Any = text
    for kind in types.split():
        if re.fullmatch(JSON_TEXTS[kind].replace(r"\s*", "" if nests else r"\s*"), text):
            try:
                value = json.loads(text)
            except ValueError:
                return False
            if text != text.strip():
                return False
    return jsonschema.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(("types", "schema"), cases(SCALARS, ARRAYS))
@pytest.mark.parametrize("style", FORMS)
def test_a_schema_without_objects_describes_one_value(style: str, types: str, schema: Any) -> None:
    if style in NESTED and types == "array":
        pytest.skip("the items are elements; see below")
    grammar = byte_compiler().compile_structural_tag(one_value(style, schema))
    (forbidden,) = FORMS[style].forbidden_texts
    for text in TEXTS:
        expected = forbidden not in text and is_one_of(schema, text, types, nests=style in NESTED)
        assert accepts(grammar, list(text.encode())) == expected, text


@pytest.mark.parametrize("style", NESTED)
def test_items_are_elements_in_styles_that_nest(style: str) -> None:
    schema = {"type": "array", "items": {"type": ["string", "array"], "items": {"$ref": "#"}}}
    form = FORMS[style]
    string, array = form.item + form.string, form.item + form.value_prefix("array")
    grammar = byte_compiler().compile_structural_tag(one_value(style, schema))
    for text in (
        "",
        f"{string}a{form.item_end}",
        f"{array}{array}{string}a{form.item_end}{form.item_end}{form.item_end}",
    ):
        assert accepts(grammar, list(text.encode())), text
    for text in ("a", "[]", f"{string}a", f"{string}{form.item_end}a"):
        assert not accepts(grammar, list(text.encode())), text


def test_a_strict_string_argument_of_kimi_k3_in_sglang() -> None:
    argument = '<|open|>argument key="city" type="string"<|sep|>'
    end = "<|close|>argument<|sep|>"
    tag = {"type": "tag", "begin": argument, "content": one_value("qwen_xml", {"type": "string"})["format"], "end": end}
    compiler = compiler_with("<|open|>", "<|close|>", "<|sep|>")
    grammar = compiler.compile_structural_tag(of_format(tag), allow_special_tokens=True)
    for city in ("Oslo", "\nOslo", '"Oslo"', "", " [1"):
        assert accepts(grammar, ids_of(compiler, argument + city + end)), city
    assert not accepts(grammar, ids_of(compiler, argument + "Os</parameter>lo" + end))


def test_excludes_and_empty_schemas() -> None:
    grammar = byte_compiler().compile_structural_tag(one_value("glm_xml", {"type": "string"}, excludes=["BAD"]))
    assert accepts(grammar, list(b"BA D")) and not accepts(grammar, list(b"xBADy"))
    with pytest.raises(guided.SpecError, match="no JSON value satisfies the schema"):
        byte_compiler().compile_structural_tag(one_value("glm_xml", False))
    for schema in (True, {}, {"type": ["string", "object"]}):  # the arguments are an object if the schema allows one
        grammar = byte_compiler().compile_structural_tag(one_value("glm_xml", schema))
        assert accepts(grammar, list(b"<arg_key>a</arg_key><arg_value>1</arg_value>"))
        assert not accepts(grammar, list(b"a"))


@pytest.mark.parametrize(("types", "schema"), cases(SCALARS, ARRAYS))
@pytest.mark.parametrize("style", [style for style in FORMS if style != "step_xml"])
def test_all_texts_of_xgrammar_are_allowed(style: str, types: str, schema: Any) -> None:
    xgrammar = pytest.importorskip("xgrammar", reason="the oracle is the installed xgrammar")
    try:
        theirs = xgrammar.Grammar.from_structural_tag(one_value(style, schema))
    except RuntimeError:
        assert style == "minimax_m3_xml" and schema.get("type", "string") == "string"  # with conditions
        return
    ours = byte_compiler().compile_structural_tag(one_value(style, schema))
    for text in TEXTS:
        looks_like_json = any(re.fullmatch(JSON_TEXTS[kind], text) for kind in types.split())
        ends_early = FORMS[style].forbidden_texts[0] in text
        if xgrammar.testing._is_grammar_accept_string(theirs, text) and not (looks_like_json or ends_early):
            assert accepts(ours, list(text.encode())), text
