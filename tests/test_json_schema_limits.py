"""Options, limits, the report, and texts that are not schemas: only clear errors."""

import gc
import json
from traceback import clear_frames
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.errors import GuidedError, LimitExceeded, OptionError, SpecError, UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions, check_json_schema, json_schema_to_grammar
from guided.frontends.json_schema.text.lower import Lowering
from guided.ir import Node
from guided.limits import Limits
from tests.json_schema_support import schemas

OPTIONS = [
    ({"whitespace": 3}, "option whitespace=3 is not a string", ""),
    ({"whitespace": "single-space"}, "option whitespace='single-space' is unknown",
     "one of json, single_space, compact, or a regular expression that matches whitespace"),
    ({"property_order": "sorted"}, "option property_order='sorted' is unknown", "one of declared, any"),
    ({"numbers": "float"}, "option numbers='float' is unknown", "one of json, plain, plain_integers"),
    ({"format": "check"}, "option format='check' is unknown", "one of assert, annotate"),
    ({"unknown_format": "tell"}, "option unknown_format='tell' is unknown", "one of warn, refuse, ignore"),
    ({"draft": "draft5"}, "option draft='draft5' is unknown", "one of draft4, draft6, draft7, 2019-09, 2020-12"),
    ({"max_string": -1}, "option max_string=-1 is not an integer of at least 0", ""),
    ({"max_items": True}, "option max_items=True is not an integer of at least 0", ""),
    ({"max_digits": 0}, "option max_digits=0 is not an integer of at least 1", ""),
    ({"separators": ","}, "option separators=',' is not a pair of strings", "such as (', ', ': ')"),
    ({"separators": (";", ":")}, "separator ';' is not ',' with JSON whitespace around it", ""),
    ({"indent": "x"}, "option indent='x' is not JSON whitespace", ""),
    ({"indent": 1.5}, "option indent=1.5 is not an integer or a string of whitespace", ""),
    ({"indent": 2, "whitespace": "compact"},
     "options separators and indent determine every gap, so whitespace cannot be set as well",
     "leave whitespace at its default"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message", "hint"), OPTIONS)
def test_options_are_checked(options, message, hint):
    with pytest.raises(OptionError) as caught:
        JsonSchemaOptions(**options)
    assert (caught.value.args[0], caught.value.hint) == (message, hint)
    assert caught.value.option in (*options, None)


def test_whitespace_regex_errors_show_the_regex():
    with pytest.raises(SpecError) as caught:
        json_schema_to_grammar(True, JsonSchemaOptions(whitespace="[ "))
    assert caught.value.message.startswith("option whitespace: ") and caught.value.text == "[ "


def test_indent_needs_a_bounded_depth():
    for schema, pointer in (({"type": "array"}, ""), ({"type": "array", "items": {"$ref": "#"}}, "")):
        with pytest.raises(UnsupportedError) as caught:
            json_schema_to_grammar(schema, JsonSchemaOptions(indent=2))
        assert caught.value.pointer == pointer and "bounded depth" in caught.value.reason


@pytest.mark.parametrize(
    ("value", "message", "pointer"),
    [
        ({"const": float("nan")}, "nan is not a JSON number", "/const"),
        ({"enum": [1, {2: 3}]}, "the key 2 is not a string", "/enum/1"),
        ({"default": {"a": {1, 2}}}, "a set is not a JSON value", "/default/a"),
        ({"const": 10**5000}, "an integer has more than 4,000 digits", "/const"),
        ({"const": b"a"}, "a bytes is not a JSON value", "/const"),
    ],
)
def test_python_values_that_are_not_json(value, message, pointer):
    with pytest.raises(SpecError) as caught:
        json_schema_to_grammar(value)
    assert (caught.value.message, caught.value.pointer) == (message, pointer)
    assert not check_json_schema(value).ok


def _nested(depth):
    schema = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


LIMITS = [
    ("depth", _nested(600), Limits()),
    ("depth", _nested(20), Limits(depth=10)),
    ("depth", '{"items":' * 5000 + "{}" + "}" * 5000, Limits()),
    ("spec_length", '{"description": "' + "x" * 100 + '"}', Limits(spec_length=100)),
    ("nodes", {"enum": list(range(200))}, Limits(nodes=100)),
    (
        "nodes",
        {"allOf": [{"anyOf": [{"contains": {"const": i}}, {"items": {"minimum": i}}]} for i in range(40)]},
        Limits(nodes=100_000),
    ),
    ("nodes", {"properties": {f"p{i}": {} for i in range(1000)}, "minProperties": 900}, Limits(nodes=100_000)),
    ("seconds", {"properties": {f"p{i}": {} for i in range(100)}}, Limits(seconds=0.0)),
]


@pytest.mark.parametrize(("limit", "schema", "limits"), LIMITS, ids=range(len(LIMITS)))
def test_limits(limit, schema, limits):
    with pytest.raises(LimitExceeded) as caught:
        json_schema_to_grammar(schema, limits=limits)
    assert caught.value.limit == limit and caught.value.given > caught.value.allowed
    report = check_json_schema(schema, limits=limits)
    assert isinstance(report.error, LimitExceeded)


LONG_NUMBERS = ['{"const": 1e999999}', '{"minimum": -1e-999999}', '{"minimum": 0.' + "7" * 3000 + "}"]


@pytest.mark.parametrize("keyword", LONG_NUMBERS, ids=range(3))
def test_long_numbers(keyword):
    """Beyond a size, numbers are refused, whatever the limits are."""
    schema = f'{{"type": "object", "properties": {{"a": {keyword}}}, "required": ["a"]}}'
    with pytest.raises(UnsupportedError) as caught:
        json_schema_to_grammar(schema, limits=Limits(nodes=2**40, states=2**40, seconds=600))
    assert caught.value.pointer == "/properties/a" and "leave it out" in caught.value.hint
    assert len(str(caught.value)) < 500


def test_a_self_containing_dict_is_refused():
    loop = {}
    loop["items"] = loop
    with pytest.raises(LimitExceeded):
        json_schema_to_grammar(loop)


REPORT = """{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "title": "T",
  "x-order": 1,
  "type": "object",
  "properties": {
    "a": {"type": "integer", "format": "unix-time"},
    "b": {"$ref": "#/definitions/d", "minLength": 3},
    "c": {"prefixItems": []}
  },
  "definitions": {"d": {"type": "string"}, "unused": {"pattern": "(a+)\\\\1"}}
}"""


def test_report():
    report = check_json_schema(REPORT, JsonSchemaOptions(unknown_format="ignore"))
    found = {(entry.pointer, entry.status): entry.reason for entry in report.entries}
    assert report.ok
    assert found["/type", "enforced"] == ""
    assert found["/title", "annotation"] == ""
    assert found["/x-order", "ignored"] == "unknown keyword"
    assert found["/properties/a/format", "ignored"] == "not enforced under these options"
    assert found["/properties/b/minLength", "ignored"] == "draft7 ignores keywords next to $ref"
    assert found["/properties/c/prefixItems", "ignored"] == "not a keyword of draft7"
    assert "back-reference" in found["/definitions/unused/pattern", "refused"]
    assert "exponent" in found["/properties/a", "note"]
    assert str(report).endswith("compiles")
    assert {entry.pointer for entry in report.with_status("refused")} == {"/definitions/unused/pattern"}


@given(schemas())
def test_a_report_agrees_with_compiling(schema):
    report = check_json_schema(schema)
    try:
        json_schema_to_grammar(schema)
    except GuidedError as error:
        assert str(report.error) == str(error)
    else:
        assert report.ok and not report.with_status("refused")


_PIECES = st.sampled_from([*'{}[],:"-1', "\\", "type", '"string"', '"$ref"', '"#"', "e9", "null", "NaN", "\ud800"])


@given(st.lists(_PIECES | st.characters(), max_size=40).map("".join))
def test_any_text_compiles_or_is_refused(text):
    report = check_json_schema(text)
    assert report.ok or isinstance(report.error, GuidedError)
    str(report)


@given(schemas(), st.data())
def test_damaged_schemas_compile_or_are_refused(schema, data):
    text = json.dumps(schema)
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + data.draw(_PIECES) + text[at + data.draw(st.integers(0, 3)) :]
    error = check_json_schema(text).error
    begin, end, size = (*error.span, len(error.text)) if isinstance(error, SpecError | UnsupportedError) else (0, 0, 0)
    assert 0 <= begin <= end <= size + 1


def test_rules_of_one_place_are_named_without_trying_all_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    class Rules(dict[str, Node]):
        def __contains__(self, name: object) -> bool:
            tried.append(name)
            return super().__contains__(name)

    made = Lowering.__init__

    def with_rules(self: Lowering, *arguments: Any) -> None:
        made(self, *arguments)
        self._rules = Rules()

    monkeypatch.setattr(Lowering, "__init__", with_rules)
    schema = {"anyOf": [{"pattern": f"^{n}x"} for n in range(200)], "type": "string"}
    grammar = json_schema_to_grammar(schema)
    assert len(grammar.rules) > 200
    assert len(tried) < 4 * len(grammar.rules)


@pytest.mark.parametrize("bounds", [{}, {"work": 2_000_000}, {"states": 2_000}, {"nodes": 5_000}], ids=str)
def test_a_compilation_leaves_no_cycles_for_the_garbage_collector(bounds: dict[str, int]) -> None:
    """A server's threads would stop while the collector visits a million objects."""
    schema = {"properties": {f"p{number}": {"type": "integer"} for number in range(3_000)}}
    vocabulary = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])

    def objects_left(schema: dict[str, Any]) -> int:
        compiler = guided.GrammarCompiler(vocabulary, limits=Limits(**bounds), cache_bytes=0)
        gc.collect()
        before = len(gc.get_objects())
        try:
            compiler.compile_json_schema(schema)
        except LimitExceeded as error:
            clear_frames(error.__traceback__)
        return len(gc.get_objects()) - before

    was_on = gc.isenabled()
    gc.disable()
    try:
        objects_left({"properties": {"a": {"type": "integer"}}})  # one-time initialisation
        assert objects_left(schema) < 5 * 3_000  # texts of names are cached
    finally:
        if was_on:
            gc.enable()
