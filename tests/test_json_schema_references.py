"""References, identifiers and drafts: which schema applies where."""

import json

import pytest

from guided.automaton.reference.token_masks import accepts
from guided.errors import GuidedWarning, SpecError, UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions, json_schema_to_grammar

TEXT, NULL = '"a"', "null"


def test_an_index_in_a_pointer_has_no_leading_zeros() -> None:
    schema = {"prefixItems": [{"type": "null"}, {"type": "string"}], "items": {"$ref": "#/prefixItems/1"}}
    assert _verdicts(schema, '[null,"a","b"]', '[null,"a",null]') == [True, False]
    for token in ("01", "00", "-1", "+1", "1 ", "\u0661", "2", "1" * 30, ""):
        with pytest.raises(SpecError, match="points to nothing"):
            json_schema_to_grammar({**schema, "items": {"$ref": f"#/prefixItems/{token}"}})


def test_identifiers_that_are_not_strings_are_ignored() -> None:
    for keyword in ("id", "$id", "$anchor", "$dynamicAnchor"):
        assert _verdicts({keyword: 3, "type": "integer"}, "1", '"a"') == [True, False]


def _verdicts(schema, *texts, registry=None, **options):
    grammar = json_schema_to_grammar(schema, JsonSchemaOptions(numbers="plain", **options), registry=registry)
    return [accepts(grammar, text.encode()) for text in texts]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}},
        {"$ref": "#/$defs/a~1b~0c%25", "$defs": {"a/b~c%": {"type": "string"}}},
        {"$ref": "#s", "$defs": {"x": {"$anchor": "s", "type": "string"}}},
        {"$id": "http://x/root", "$ref": "http://x/root#/$defs/s", "$defs": {"s": {"type": "string"}}},
        {"$id": "http://x/root", "$ref": "inner", "$defs": {"x": {"$id": "inner", "type": "string"}}},
        {"$id": "http://x/root", "$ref": "inner#/$defs/s",
         "$defs": {"x": {"$id": "inner", "$defs": {"s": {"type": "string"}}}, "s": {"type": "null"}}},
        {"$ref": "#/$defs/x", "$defs": {
            "x": {"$id": "http://y/", "$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}}, "s": {"type": "null"}}},
        {"$ref": "#/components/0/s", "components": [{"s": {"type": "string"}}]},
        {"$ref": "http://other/doc#/$defs/s"},
        {"$ref": "http://other/text"},
        {"$id": "http://other/", "$ref": "text"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#s",
         "definitions": {"x": {"$id": "#s", "type": "string"}}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://x/r", "$ref": "i",
         "definitions": {"x": {"id": "i", "type": "string"}}},
    ],
    ids=range(13),
)  # fmt: skip
def test_references_find_the_string_schema(schema):
    registry = {
        "http://other/doc": {"$defs": {"s": {"$ref": "text"}}},
        "http://other/text": '{"$ref": "#/definitions/t", "definitions": {"t": {"type": "string"}}}',
    }
    assert _verdicts(schema, TEXT, NULL, registry=registry) == [True, False]
    assert _verdicts(json.dumps(schema), TEXT, NULL, registry=registry) == [True, False]


def test_an_identifier_in_data_is_data():
    schema = {"enum": [{"$id": "http://x/s"}], "$defs": {"s": {"$ref": "http://x/s"}}, "properties": {}}
    assert _verdicts(schema, '{"$id": "http://x/s"}') == [True]
    with pytest.raises(SpecError) as caught:
        json_schema_to_grammar({"anyOf": [schema, {"$ref": "#/$defs/s"}], "$defs": schema["$defs"]})
    assert caught.value.pointer == "/$defs/s/$ref"


def test_errors_in_a_registry_document_name_it():
    with pytest.raises(UnsupportedError) as caught:
        json_schema_to_grammar(
            {"items": {"$ref": "http://o/d"}}, registry={"http://o/d": {"items": {"pattern": r"(a+)\1"}}}
        )
    assert caught.value.pointer == "http://o/d#/items/pattern"


DRAFT7, Y2020 = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"


def test_a_remote_document_is_in_the_draft_of_what_refers_to_it():
    registry = {
        "http://t/a": {"type": "array", "items": [{"type": "null"}], "additionalItems": False},
        "http://t/b": {"$ref": "a"},
        "http://t/new": {"type": "array", "prefixItems": [{"type": "null"}], "items": False},
        "http://t/own": {"$schema": Y2020, "$ref": "new"},
    }
    for reference in ("http://t/a", "http://t/b", "http://t/a#"):
        schema = {"$schema": DRAFT7, "$ref": reference}
        assert _verdicts(schema, "[null]", "[]", "[null, 1]", "[1]", registry=registry) == [True, True, False, False]
        assert _verdicts(schema, "[1]", draft="2020-12", registry=registry) == [False]
        assert _verdicts({"$ref": reference}, "[null, 1]", draft="draft6", registry=registry) == [False]
        with pytest.raises(SpecError, match="in 2020-12, the list is prefixItems"):
            _verdicts({"$ref": reference}, registry=registry)
    old = {"$schema": DRAFT7, "$ref": "http://t/own"}
    assert _verdicts(old, "[null]", "[1]", registry=registry) == [True, False]


def test_the_draft_of_a_remote_document_without_schema():
    registry = {"http://t/a": {"type": "null"}, "http://t/b": {"$schema": Y2020, "items": {"$ref": "a"}}}
    schema = {"$schema": DRAFT7, "items": {"$ref": "http://t/a"}, "properties": {"b": {"$ref": "http://t/b"}}}
    with pytest.raises(UnsupportedError, match=r"has no .schema, but schemas of both") as caught:
        json_schema_to_grammar(schema, registry=registry)
    assert caught.value.hint == "add a $schema to it"
    registry["http://t/a"]["$schema"] = Y2020
    json_schema_to_grammar(schema, registry=registry)


def test_siblings_of_a_reference_by_draft():
    schema = {"$ref": "#/definitions/s", "maxLength": 1, "definitions": {"s": {"type": "string"}}}
    assert _verdicts(schema, '"a"', '"ab"') == [True, False]
    with pytest.warns(GuidedWarning, match="draft7 ignores keywords next to \\$ref \\(at /maxLength\\)"):
        assert _verdicts(schema, '"a"', '"ab"', draft="draft7") == [True, True]


def test_items_by_draft():
    listed = {"type": "array", "items": [{"const": 1}], "additionalItems": {"const": 2}}
    texts = ["[]", "[1]", "[1, 2, 2]", "[2]", "[1, 1]"]
    assert _verdicts(listed, *texts, draft="2019-09") == [True, True, True, False, False]
    prefixed = {"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}}
    assert _verdicts(prefixed, *texts) == [True, True, True, False, False]
    whole = {"type": "array", "items": {"const": 1}, "additionalItems": False}
    with pytest.warns(GuidedWarning, match="no effect unless items is a list \\(at /additionalItems\\)"):
        assert _verdicts(whole, "[1, 1]", draft="draft6") == [True]


def test_exclusive_bounds_by_draft():
    old = {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 3, "exclusiveMaximum": False}
    assert _verdicts(old, "1", "2", "3", "4", draft="draft4") == [False, True, True, False]
    new = {"type": "integer", "exclusiveMinimum": 1, "maximum": 3}
    assert _verdicts(new, "1", "2", "3", "4") == [False, True, True, False]


def test_newer_keywords_are_ignored_where_the_draft_is_named():
    schema = {"const": 1}
    with pytest.warns(GuidedWarning, match="not a keyword of draft4 \\(at /const\\); in draft4, write enum"):
        assert _verdicts(schema, "1", "2", draft="draft4") == [True, True]
    assert _verdicts(schema, "1", "2") == [True, False]


def test_all_of_keeps_the_order_of_its_branches():
    schema = {"$defs": {"c": {"properties": {"c": {}}}}, "properties": {"a": {"const": 1}}, "type": "object",
              "allOf": [{"properties": {"b": {"const": 2}}}, {"$ref": "#/$defs/c"}],
              "required": ["z", "c"]}  # fmt: skip
    good = ['{"a":1,"b":2,"c":0,"z":0}', '{"c":0,"z":0,"y":0}', '{"b":2,"c":0,"z":0}']
    bad = ['{"b":2,"a":1,"c":0,"z":0}', '{"z":0,"c":0}', '{"c":0,"y":0,"z":0}', '{"a":2,"c":0,"z":0}']
    assert _verdicts(schema, *good, *bad, whitespace="compact") == [True] * 3 + [False] * 4


def test_conjunctions_of_recursive_references_end():
    tree = {"type": "object", "properties": {"k": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    named = {"properties": {"k": {"items": {"$ref": "#/$defs/named"}}}, "required": ["n"]}
    schema = {"allOf": [{"$ref": "#/$defs/tree"}, {"$ref": "#/$defs/named"}], "$defs": {"tree": tree, "named": named}}
    texts = ['{"k":[{"n":1}],"n":1}', '{"n":1}', '{"k":[{}],"n":1}', '{"k":[{"k":[{"k":[]}],"n":1}],"n":1}']
    assert _verdicts(schema, *texts, whitespace="compact") == [True, True, False, False]
