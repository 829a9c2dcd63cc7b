"""Constraints of requests in the notations of OpenAI, vLLM and SGLang: written-out fields, and generated texts."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

import guided
from guided.errors import GuidedError

torch = pytest.importorskip("torch", reason="torch is not installed")

from guided.matching.constraint import compile_constraint  # noqa: E402 - needs torch
from guided.server.http.errors import RequestError, find_status, make_error_body  # noqa: E402
from guided.server.openai.requests import ConstraintFields  # noqa: E402
from guided.server.openai.structured import read_structured_output  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

POINT = {"type": "object", "properties": {"x": {"enum": [1]}}, "required": ["x"]}
TAG = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<a>", "content": {"type": "regex", "pattern": "[0-9]{2}"}, "end": "</a>"},
}
OLD_TAG = {"structures": [{"begin": "<f>", "schema": POINT, "end": "</f>"}], "triggers": ["<f>"]}
engine = cache(small_engine)


def named(schema):
    return {"type": "json_schema", "json_schema": {"name": "p", "schema": schema, "strict": True}}


def written(fields, **options):
    asked = read_structured_output(fields)
    return (
        engine()
        .generate("a", asked.constraint, max_tokens=60, seed=3, temperature=1.0, **asked.options, **options)
        .text
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"response_format": named(POINT)}, '{"x": 1}'),
        ({"structured_outputs": {"json": POINT}}, '{"x": 1}'),
        ({"structured_outputs": {"json": json.dumps(POINT)}}, '{"x": 1}'),
        ({"structured_outputs": {"json": POINT, "disable_any_whitespace": True}}, '{"x":1}'),
        ({"structured_outputs": {"json": POINT, "whitespace_pattern": "[ ]{2}"}}, '{  "x"  :  1  }'),
        ({"structured_outputs": {"json": POINT, "disable_additional_properties": True}}, '{"x": 1}'),
        ({"structured_outputs": {"choice": ["yes"]}}, "yes"),
        ({"structured_outputs": {"regex": "a{3}"}}, "aaa"),
        ({"structured_outputs": {"grammar": 'root ::= "gbnf"'}}, "gbnf"),
        ({"structured_outputs": {"grammar": 'start: "lark"'}}, "lark"),
        ({"structured_outputs": {"structural_tag": TAG}}, re.compile("<a>[0-9]{2}</a>")),
        ({"guided_json": POINT}, '{"x": 1}'),
        ({"guided_json": POINT, "guided_whitespace_pattern": ""}, '{"x":1}'),
        ({"guided_regex": "b"}, "b"),
        ({"guided_choice": ["c"]}, "c"),
        ({"guided_grammar": 'root ::= "d"', "guided_decoding_backend": "xgrammar"}, "d"),
        ({"json_schema": json.dumps(POINT)}, '{"x": 1}'),
        ({"regex": "[e]"}, "e"),
        ({"ebnf": 'root ::= "f"'}, "f"),
        ({"structural_tag": json.dumps(TAG)}, re.compile("<a>[0-9]{2}</a>")),
        ({"lark": 'start: "g"'}, "g"),
        ({"gbnf": 'root ::= "h"'}, "h"),
        ({"response_format": {"type": "lark", "lark": 'start: "i"'}}, "i"),
        ({"response_format": {"type": "regex", "pattern": "j"}}, "j"),
        ({"response_format": {"type": "grammar", "grammar": 'start: "k"'}}, "k"),
        ({"response_format": {"type": "json_object", "schema": POINT}}, '{"x": 1}'),
        ({"response_format": {"type": "json_schema", "schema": POINT}}, '{"x": 1}'),
        ({"response_format": {"type": "text"}, "regex": "l"}, "l"),
        ({"response_format": None, "regex": "m", "json_schema": None}, "m"),
        ({"response_format": TAG}, re.compile("<a>[0-9]{2}</a>")),
    ],
)
def test_outputs_of_structured_fields(fields, text):
    found = written(fields)
    assert text.fullmatch(found) if isinstance(text, re.Pattern) else found == text


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_object"}},
        {"structured_outputs": {"json_object": True}},
        {"guided_json_object": True},
    ],
)
def test_any_object(fields):
    assert isinstance(json.loads(written(fields)), dict)
    compiler = guided.GrammarCompiler(engine().vocabulary)
    asked = read_structured_output(fields)
    grammar = compiler.compile_json_schema(asked.constraint, **asked.options)
    matcher = guided.GrammarMatcher(grammar)
    assert asked.is_json and matcher.accept_string('{"any": [1, {"member": null}]}') and matcher.is_accepting()


def test_the_older_structural_tag():
    asked = read_structured_output({"response_format": {"type": "structural_tag", **OLD_TAG}})
    matcher = guided.GrammarMatcher(compile_constraint(engine().compiler, asked.constraint))
    assert matcher.accept_string('free <f>{"x": 1}</f> text')
    assert not matcher.accept_string('<f>{"y')


def test_old_names_are_warned_of():
    assert read_structured_output({"guided_regex": "a"}).warnings == {
        "guided_regex": "guided_regex is deprecated: write structured_outputs={'regex': ...}"
    }
    assert read_structured_output({"regex": "a"}).warnings == {}


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"response_format": "json"}, "response_format", "must be an object"),
        ({"response_format": {"type": "yaml"}}, "response_format.type", "one of text, json_object"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "must be an object"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema", "has no schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": 3}}},
            "response_format.json_schema.schema", "must be a JSON Schema, not 3"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "stict": True}}},
            "response_format.json_schema.stict", "known members are name, schema"),
        ({"response_format": {"type": "json_object", "json_schema": {}}},
            "response_format.json_schema", "known members are type, schema"),
        ({"structured_outputs": {}}, "structured_outputs", "none of them is given"),
        ({"structured_outputs": {"json": {}, "regex": "a"}}, "structured_outputs", "json and regex"),
        ({"structured_outputs": {"yaml": 1}}, "structured_outputs.yaml", "known members are json"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice", "a list of strings"),
        ({"structured_outputs": {"regex": 3}}, "structured_outputs.regex", "must be a string, not 3"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json", "is not JSON"),
        ({"structured_outputs": {"regex": "a", "whitespace_pattern": " "}},
            "structured_outputs.whitespace_pattern", "requires json"),
        ({"structured_outputs": {"json": {}, "whitespace_pattern": 3}},
            "structured_outputs.whitespace_pattern", "is not a string"),
        ({"guided_json": {}, "guided_whitespace_pattern": "single"}, "guided_whitespace_pattern", "is unknown"),
        ({"guided_json": {}, "guided_regex": "a"}, "guided_json", "json and regex"),
        ({"regex": "a", "ebnf": 'root ::= "a"'}, "ebnf", "regex and ebnf cannot be combined"),
        ({"response_format": named({}), "lark": 'start: "a"'}, "lark", "cannot be combined"),
        ({"structural_tag": "{"}, "structural_tag", "is not JSON"),
        ({"structured_outputs": {"json_object": "yes"}}, "structured_outputs.json_object", "must be true, not 'yes'"),
        ({"structured_outputs": {"json_object": 1}}, "structured_outputs.json_object", "must be true, not 1"),
    ],
)  # fmt: skip
def test_refusals(fields, param, message):
    with pytest.raises(RequestError) as caught:
        read_structured_output(fields)
    assert (caught.value.status, caught.value.param) == (400, param)
    assert message in caught.value.message
    assert make_error_body(caught.value)["error"]["type"] == "BadRequestError"


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"grammar": "sqll"}, "invalid_specification", "did you mean 'sql'"),
        ({"regex": "(a"}, "invalid_specification", "^"),
        ({"lark": "start: b"}, "invalid_specification", "define it"),
        ({"json_schema": {"minimum": "x"}}, "invalid_specification", "/minimum"),
        ({"json_schema": False}, "invalid_specification", ""),
        ({"lark": "start: <[5]>"}, "invalid_specification", "--allow-special-tokens"),
        ({"gbnf": "root ::= <|im_end|>"}, "invalid_specification", ""),
        ({"regex": "a{80}"}, "max_tokens_too_small", "set max_tokens to 80 or more"),
        ({"lark": 'start: "a"~20000'}, "limit_exceeded", "10,000"),
    ],
)
def test_specifications_that_are_refused(fields, code, message):
    with pytest.raises(GuidedError) as caught:
        written(fields)
    error = make_error_body(caught.value, "regex")["error"]
    assert find_status(caught.value) == 400
    assert error["code"] == code and message in error["message"]


def test_every_field_is_read():
    """No field is silently ignored: an impossible value is refused, or causes a warning."""
    for name in ConstraintFields.model_fields:
        try:
            asked = read_structured_output({name: 3.5})
        except (RequestError, GuidedError):
            continue
        assert asked.warnings, name


@pytest.mark.parametrize(
    "fields",
    [
        {"regex": "[a-z]+"},
        {"lark": 'start: "a" /[0-9]+/'},
        {"gbnf": 'root ::= "a" [0-9]+'},
        {"grammar": "json"},
        {"structured_outputs": {"choice": ["a", "b"]}},
        {"json_schema": {"type": "integer"}},
        {"structural_tag": {"type": "structural_tag", "format": {"type": "const_string", "value": "x"}}},
    ],
)
def test_the_second_request_finds_what_the_first_one_has_compiled(fields):
    compiler = guided.GrammarCompiler(engine().vocabulary)
    first, second = (read_structured_output(json.loads(json.dumps(fields))) for _ in range(2))
    grammars = [compile_constraint(compiler, each.constraint, each.options) for each in (first, second)]
    assert grammars[0] is grammars[1] is not None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "text", "regex": "a"}}, "response_format.regex"),
        ({"response_format": {"type": "regex", "regex": "a", "pattern": "b"}}, "response_format.pattern"),
        ({"response_format": {**named(POINT), "schema": POINT}}, "response_format.schema"),
        ({"structured_outputs": {"regex": "a", "disable_any_whitespace": True}},
         "structured_outputs.disable_any_whitespace"),
        ({"structured_outputs": {"choice": ["a"], "disable_additional_properties": True}},
         "structured_outputs.disable_additional_properties"),
        ({"structured_outputs": {"json": POINT, "disable_any_whitespace": "no"}},
         "structured_outputs.disable_any_whitespace"),
    ],
)  # fmt: skip
def test_no_field_is_ignored(fields, param):
    with pytest.raises(RequestError) as caught:
        read_structured_output(fields)
    assert caught.value.param == param


def test_malformed_fields_count_as_present():
    """0 equals False in Python, which stands for an absent field."""
    with pytest.raises(RequestError, match="json and regex"):
        read_structured_output({"structured_outputs": {"json": 0, "regex": "x"}})


@pytest.mark.parametrize("constraint", [{}, {"guided_regex": "[a-z]{3}"}])
def test_canonical_tokens_reach_the_engine(constraint):
    """The vocabulary of the small engine is a list of tokens, whose encoding is unknown."""
    pytest.importorskip("pydantic", reason="pydantic is not installed")
    from guided.server.openai.completion_request import CompletionRequest

    asked = CompletionRequest.model_validate({"prompt": "a", "canonical": True, **constraint})
    (request,) = asked.requests(asked.structured_output(allow_special_tokens=False), 5)
    with pytest.raises(GuidedError, match="canonical tokens of this tokenizer are unknown") as caught:
        engine().generate(request.prompt, request.constraint, n=1, **request.options)
    assert find_status(caught.value) == 400
    plain = CompletionRequest.model_validate({"prompt": "a", **constraint})
    (request,) = plain.requests(plain.structured_output(allow_special_tokens=False), 5)
    assert "canonical" not in request.options
