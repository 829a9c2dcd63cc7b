"""Malformed, unsupported and empty schemas: the exact error, location and hint of each."""

import json

import pytest

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema import check_json_schema, json_schema_to_grammar

_TYPES = "one of null, boolean, number, string, array, object, integer"
_PAIR = "write characters above U+FFFF as a pair of escapes"
_SCHEMA = 'write an object, such as {"type": "string"}, or true for any value'
_NONE = "no JSON value satisfies the schema: "
_LOOP = "put the recursive reference into a member or an item: below properties, items, ..."
_NO_VALUE = _NONE + "no value of the enumeration satisfies the other keywords"
_EMPTY_ENUM = _NONE + "an empty enum allows no value"
_ALL = _NONE + "the schema allows every value, so its negation allows none"
_DRAFTS = "one of " + ", ".join(
    f"https://json-schema.org/draft{name}/schema" for name in ("-04", "-06", "-07", "/2019-09", "/2020-12")
)
_DRAFTS += ", or pass draft='2020-12'"

# (schema, error, message or reason, pointer, hint, the text under the carets)
# fmt: off
ROWS = [
    ('{"type": "string"', SpecError, "the schema is not JSON: expecting ',' delimiter", "", "", ""),
    ('{"type": strng}', SpecError, "the schema is not JSON: expecting value", "", "", "s"),
    ('{"minimum": NaN}', SpecError, "NaN is not a JSON number", "/minimum",
     "JSON has no NaN and no infinities: leave the bound out, or write a finite number", "NaN"),
    ('{"maximum": [1, -Infinity]}', SpecError, "-Infinity is not a JSON number", "/maximum/1",
     "JSON has no NaN and no infinities: leave the bound out, or write a finite number", "-Infinity"),
    ('{"type": "string", "type": "number"}', SpecError, "the key 'type' is written twice in one object", "/type",
     "remove one of the two", '"type"'),
    ('{"properties": {"a": {}, "\\u0061": {}}}', SpecError, "the key 'a' is written twice in one object",
     "/properties/a", "remove one of the two", '"\\u0061"'),
    ("", SpecError, "the schema is not JSON: expecting value", "",
     'the text is empty: write a schema, such as {"type": "string"}', ""),
    ("3", SpecError, "a schema must be an object or a boolean, not a number", "", _SCHEMA, "3"),
    ("null", SpecError, "a schema must be an object or a boolean, not null", "", _SCHEMA, "null"),
    ('["string"]', SpecError, "a schema must be an object or a boolean, not an array", "", _SCHEMA, '["string"]'),
    ('{"properties": {"a": "string"}}', SpecError, "a schema must be an object or a boolean, not a string",
     "/properties/a", _SCHEMA, '"a": "string"'),
    ('{"items": null}', SpecError, "a schema must be an object or a boolean, not null", "/items", _SCHEMA,
     '"items": null'),
    ('{"anyOf": [{}, 1]}', SpecError, "a schema must be an object or a boolean, not a number", "/anyOf/1", _SCHEMA,
     "1"),
    ('{"additionalProperties": "no"}', SpecError, "a schema must be an object or a boolean, not a string",
     "/additionalProperties", _SCHEMA, '"additionalProperties": "no"'),
    ('{"type": "strng"}', SpecError, "'strng' is not a type", "/type", _TYPES, '"type": "strng"'),
    ('{"type": ["string", "Integer"]}', SpecError, "'Integer' is not a type", "/type/1", _TYPES, '"Integer"'),
    ('{"type": []}', SpecError, "type must be the name of a type or a list of names, not an empty array", "/type",
     'as in "type": "string"', '"type": []'),
    ('{"type": 3}', SpecError, "3 is not a type", "/type", _TYPES, '"type": 3'),
    ('{"enum": "a"}', SpecError, "enum must be an array, not 'a'", "/enum", 'as in "enum": ["a", "b"]', '"enum": "a"'),
    ('{"const": "\\ud800"}', SpecError, "a lone surrogate cannot be written", "/const", _PAIR, '"const": "\\ud800"'),
    ('{"enum": ["a", {"k": ["\\udfff"]}]}', SpecError, "a lone surrogate cannot be written", "/enum/1", _PAIR,
     '{"k": ["\\udfff"]}'),
    ('{"properties": {"b": {}, "a\\ud800": {}}}', SpecError, r"the name 'a\ud800' contains a lone surrogate",
     "/properties", _PAIR, '"properties": {"b": {}, "a\\ud800": {}}'),
    ('{"dependentRequired": {"\\udfff": []}}', SpecError, r"the name '\udfff' contains a lone surrogate",
     "/dependentRequired", _PAIR, '"dependentRequired": {"\\udfff": []}'),
    ('{"properties": ["a"]}', SpecError, "properties must be an object of schemas, not an array", "/properties",
     'as in "properties": {"name": {"type": "string"}}', '"properties": ["a"]'),
    ('{"required": true}', SpecError, "required must be an array of strings, not true", "/required",
     "list the required names in the schema of the enclosing object", '"required": true'),
    ('{"required": ["a", 1]}', SpecError, "1 is not a property name", "/required/1",
     "the name of a property is a string", "1"),
    ('{"minLength": -1}', SpecError, "minLength must be a non-negative integer, not -1", "/minLength",
     'as in "minLength": 3', '"minLength": -1'),
    ('{"maxLength": "3"}', SpecError, "maxLength must be a non-negative integer, not '3'", "/maxLength",
     'as in "maxLength": 3', '"maxLength": "3"'),
    ('{"minItems": 1.5}', SpecError, "minItems must be a non-negative integer, not 1.5", "/minItems",
     'as in "minItems": 3', '"minItems": 1.5'),
    ('{"maxProperties": null}', SpecError, "maxProperties must be a non-negative integer, not null", "/maxProperties",
     'as in "maxProperties": 3', '"maxProperties": null'),
    ('{"minimum": "3"}', SpecError, "minimum must be a number, not '3'", "/minimum", 'as in "minimum": 0',
     '"minimum": "3"'),
    ('{"minimum": 1, "exclusiveMinimum": true}', SpecError, "exclusiveMinimum must be a number, not true",
     "/exclusiveMinimum", "only draft4 allows a boolean: add $schema or pass draft='draft4'",
     '"exclusiveMinimum": true'),
    ('{"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMaximum": 3}', SpecError,
     "exclusiveMaximum must be a boolean in draft4, not 3", "/exclusiveMaximum",
     'in draft4 write "maximum": 3, "exclusiveMaximum": true', '"exclusiveMaximum": 3'),
    ('{"multipleOf": 0}', SpecError, "multipleOf must be a number above 0, not 0", "/multipleOf",
     'as in "multipleOf": 0.01', '"multipleOf": 0'),
    ('{"pattern": 3}', SpecError, "pattern must be a string, not 3", "/pattern", 'as in "pattern": "^[a-z]+$"',
     '"pattern": 3'),
    ('{"pattern": "a("}', SpecError, "pattern: missing ), unterminated subpattern", "/pattern",
     "close the group, or write \\(", "("),
    ('{"properties": {"a": {"pattern": "(a+)\\\\1"}}}', UnsupportedError,
     "pattern: this back-reference is not supported: its group may match more than 1,024 texts, or very long ones",
     "/properties/a/pattern",
     "list the possible texts in the group, such as (a|b|c), or repeat the group's pattern", "\\1"),
    ('{"format": 1}', SpecError, "format must be a string, not 1", "/format", 'as in "format": "date"', '"format": 1'),
    ('{"items": [{"type": "string"}]}', SpecError, "items must be a schema", "/items",
     "in 2020-12, the list is prefixItems; for an older draft, add $schema or pass draft=",
     '"items": [{"type": "string"}]'),
    ('{"prefixItems": {"type": "string"}}', SpecError, "prefixItems must be an array of schemas, not an object",
     "/prefixItems", 'as in "prefixItems": [{"type": "string"}]', '"prefixItems": {"type": "string"}'),
    ('{"allOf": []}', SpecError, "allOf must be a non-empty array of schemas, not an empty array", "/allOf",
     'as in "allOf": [{"type": "string"}, {"type": "null"}]', '"allOf": []'),
    ('{"anyOf": {}}', SpecError, "anyOf must be a non-empty array of schemas, not an empty object", "/anyOf",
     'as in "anyOf": [{"type": "string"}, {"type": "null"}]', '"anyOf": {}'),
    ('{"$ref": "#"}', SpecError, "the schema refers to itself without end", "", _LOOP, '{"$ref": "#"}'),
    ('{"anyOf": [{"$ref": "#"}, {"type": "null"}]}', SpecError, "the schema refers to itself without end", "", _LOOP,
     '{"anyOf": [{"$ref": "#"}, {"type": "null"}]}'),
    ('{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}', SpecError,
     "the schema refers to itself without end", "/$defs/b", _LOOP, '"b": {"allOf": [{"$ref": "#/$defs/a"}]}'),
    ('{"$ref": "#/$defs/persn", "$defs": {"person": {}}}', SpecError,
     "$ref '#/$defs/persn' points to nothing: there is no '/$defs/persn'", "/$ref", "did you mean 'person'?",
     '"$ref": "#/$defs/persn"'),
    ('{"$ref": "#/$defs/a", "definitions": {"a": {}}}', SpecError,
     "$ref '#/$defs/a' points to nothing: there is no '/$defs'", "/$ref", "existing names: 'definitions'",
     '"$ref": "#/$defs/a"'),
    ('{"$ref": "#/$defs/a"}', SpecError, "$ref '#/$defs/a' points to nothing: there is no '/$defs'", "/$ref", "",
     '"$ref": "#/$defs/a"'),
    ('{"$ref": "#anchor"}', SpecError, "$ref '#anchor': there is no such anchor", "/$ref",
     "refer to a schema by its JSON Pointer, as in #/$defs/name", '"$ref": "#anchor"'),
    ('{"$ref": 3}', SpecError, "$ref must be a string, not 3", "/$ref", 'as in "$ref": "#/$defs/name"', '"$ref": 3'),
    ('{"$ref": "other.json"}', SpecError,
     "$ref 'other.json' refers to 'other.json', which is neither in the document nor in the registry", "/$ref",
     "pass it in registry={uri: schema}; nothing is fetched", '"$ref": "other.json"'),
    ('{"$ref": "https://json-schema.org/draft/2020-12/meta/x"}', SpecError,
     "$ref 'https://json-schema.org/draft/2020-12/meta/x' refers to 'https://json-schema.org/draft/2020-12/meta/x', "
     "which is neither in the document nor in the registry", "/$ref",
     "pass it in registry={uri: schema}; nothing is fetched",
     '"$ref": "https://json-schema.org/draft/2020-12/meta/x"'),
    ('{"$ref": "#/%ff"}', SpecError, "$ref '#/%ff' is not valid UTF-8 after percent-decoding", "/$ref", "",
     '"$ref": "#/%ff"'),
    ('{"$schema": "http://example.com/mine"}', UnsupportedError, "the dialect 'http://example.com/mine' is not known",
     "/$schema", _DRAFTS, '"$schema": "http://example.com/mine"'),
    ('{"$schema": 3}', SpecError, "$schema must be a string", "/$schema",
     "write the URI of a draft, such as https://json-schema.org/draft/2020-12/schema", '"$schema": 3'),
    ('{"oneOf": []}', SpecError, "oneOf must be a non-empty array of schemas, not an empty array", "/oneOf",
     'as in "oneOf": [{"type": "string"}, {"type": "null"}]', '"oneOf": []'),
    ('{"properties": {"a/b": {"not": 3}}}', SpecError, "a schema must be an object or a boolean, not a number",
     "/properties/a~1b/not", _SCHEMA, '"not": 3'),
    ('{"not": {}}', SpecError, _ALL, "/not", "", '"not": {}'),
    ('{"contains": {"const": 1}, "minContains": 2, "maxItems": 5000}', UnsupportedError,
     "counting the items of this array would take too many states: the counts multiply", "/contains",
     "use smaller bounds on the number of items, or fewer contains and prefixes next to uniqueItems",
     '"contains": {"const": 1}'),
    ('{"type": "array", "uniqueItems": "yes"}', SpecError, "uniqueItems must be a boolean, not 'yes'", "/uniqueItems",
     'as in "uniqueItems": true', '"uniqueItems": "yes"'),
    ('{"not": {"uniqueItems": true}}', UnsupportedError,
     "an array that must contain two equal items is not enforced if its items may have many values",
     "/not", "a not, oneOf or if requires it, as the complement of uniqueItems", '"not": {"uniqueItems": true}'),
    ('{"propertyNames": 3}', SpecError, "a schema must be an object or a boolean, not a number", "/propertyNames",
     _SCHEMA, '"propertyNames": 3'),
    ('{"propertyNames": {"maxLength": 3}, "required": ["abcd"], "type": "object"}', SpecError,
     "no JSON value satisfies the schema: the required member 'abcd' has a name that is not allowed", "", "",
     '{"propertyNames": {"maxLength": 3}, "required": ["abcd"], "type": "object"}'),
    ('{"patternProperties": 3}', SpecError, "patternProperties must be an object of schemas, not 3",
     "/patternProperties", 'as in "patternProperties": {"^x-": {"type": "string"}}', '"patternProperties": 3'),
    ('{"patternProperties": {"^a": 3}}', SpecError, "a schema must be an object or a boolean, not a number",
     "/patternProperties/^a", _SCHEMA, '"^a": 3'),
    ('{"dependentRequired": {"a": 3}}', SpecError, "dependentRequired must be an object of lists of names, not 3",
     "/dependentRequired/a", 'as in "dependentRequired": {"card": ["address"]}', '"a": 3'),
    ('{"dependentRequired": 3}', SpecError, "dependentRequired must be an object, not 3", "/dependentRequired",
     'as in "dependentRequired": {"card": ["address"]}', '"dependentRequired": 3'),
    ('{"dependentRequired": {"a": [3]}}', SpecError, "3 is not a property name", "/dependentRequired/a/0",
     "the name of a property is a string", "3"),
    ('{"unevaluatedProperties": 3}', SpecError, "a schema must be an object or a boolean, not a number",
     "/unevaluatedProperties", _SCHEMA, '"unevaluatedProperties": 3'),
    ('{"unevaluatedItems": []}', SpecError,
     "a schema must be an object or a boolean, not an array", "/unevaluatedItems",
     _SCHEMA, '"unevaluatedItems": []'),
    ('{"$dynamicRef": "#a"}', SpecError, "$dynamicRef '#a': there is no such anchor", "/$dynamicRef",
     "refer to a schema by its JSON Pointer, as in #/$defs/name", '"$dynamicRef": "#a"'),
    ('{"$dynamicRef": 3}', SpecError, "$dynamicRef must be a string, not 3", "/$dynamicRef",
     'as in "$dynamicRef": "#name"', '"$dynamicRef": 3'),
    ('{"$defs": {"a": {"$schema": "x:y"}}}', UnsupportedError, "the dialect 'x:y' is not known", "/$defs/a/$schema",
     _DRAFTS, '"$schema": "x:y"'),
    ("false", SpecError, _NONE + "false allows no value", "", "", "false"),
    ('{"not": false, "allOf": [false]}', SpecError, _NONE + "false allows no value", "/allOf/0", "", "false"),
    ('{"not": true}', SpecError, _ALL, "/not", "", '"not": true'),
    ('{"not": {"minLength": 0}}', SpecError, _ALL, "/not", "", '"not": {"minLength": 0}'),
    ('{"not": {"items": true}, "type": "array"}', SpecError, _ALL, "/not", "", '"not": {"items": true}'),
    ('{"not": {"not": {"not": {}}}}', SpecError, _ALL, "/not/not/not", "", '"not": {}'),
    ('{"enum": []}', SpecError, _EMPTY_ENUM, "", "", '{"enum": []}'),
    ('{"enum": [], "minLength": 2}', SpecError, _EMPTY_ENUM, "", "", '{"enum": [], "minLength": 2}'),
    ('{"allOf": [{"minimum": 3}, {"enum": []}]}', SpecError, _EMPTY_ENUM, "/allOf/1", "", '{"enum": []}'),
    ('{"allOf": [{"type": "string"}, {"type": "number"}]}', SpecError,
     _NONE + "no type is allowed by all parts of the schema", "", "",
     '{"allOf": [{"type": "string"}, {"type": "number"}]}'),
    ('{"type": "integer", "minimum": 1.2, "maximum": 1.8}', SpecError, _NONE + "no number lies between the bounds", "",
     "", '{"type": "integer", "minimum": 1.2, "maximum": 1.8}'),
    ('{"type": "string", "minLength": 3, "maxLength": 2}', SpecError,
     _NONE + "the length of a string must be at least 3 and at most 2", "", "",
     '{"type": "string", "minLength": 3, "maxLength": 2}'),
    ('{"type": "array", "minItems": 2, "maxItems": 1}', SpecError,
     _NONE + "the number of items must be at least 2 and at most 1", "", "",
     '{"type": "array", "minItems": 2, "maxItems": 1}'),
    ('{"type": "array", "minItems": 2, "prefixItems": [{}], "items": false}', SpecError,
     _NONE + "2 items are required, but only 1 are allowed", "", "",
     '{"type": "array", "minItems": 2, "prefixItems": [{}], "items": false}'),
    ('{"type": "object", "required": ["a"], "additionalProperties": false}', SpecError,
     _NONE + "the required member 'a' is not allowed", "", "",
     '{"type": "object", "required": ["a"], "additionalProperties": false}'),
    ('{"type": "object", "required": ["a"], "properties": {"a": false}}', SpecError,
     _NONE + "the required member 'a' is not allowed", "", "",
     '{"type": "object", "required": ["a"], "properties": {"a": false}}'),
    ('{"type": "object", "required": ["a", "b"], "maxProperties": 1}', SpecError,
     _NONE + "2 members are required, but at most 1 are allowed", "", "",
     '{"type": "object", "required": ["a", "b"], "maxProperties": 1}'),
    ('{"type": "object", "minProperties": 2, "properties": {"a": {}}, "additionalProperties": false}', SpecError,
     _NONE + "2 members are required, but only 1 are allowed", "", "",
     '{"type": "object", "minProperties": 2, "properties": {"a": {}}, "additionalProperties": false}'),
    ('{"type": "string", "enum": [1, 2]}', SpecError, _NO_VALUE, "", "", '{"type": "string", "enum": [1, 2]}'),
    ('{"type": "string", "enum": ["a"], "minLength": 2}', SpecError, _NO_VALUE, "", "",
     '{"type": "string", "enum": ["a"], "minLength": 2}'),
    ('{"const": {"a": 1}, "required": ["b"]}', SpecError, _NO_VALUE, "", "", '{"const": {"a": 1}, "required": ["b"]}'),
    ('{"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}', SpecError,
     _NONE + "every value would be infinite", "", "",
     '{"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}'),
    ('{"items": {"properties": {"b": {"enum": []}}, "required": ["b"], "type": "object"}, "minItems": 1, '
     '"type": "array"}',
     SpecError, _EMPTY_ENUM, "/items/properties/b", "", '"b": {"enum": []}'),
]
# fmt: on


NAMES = [row[0][:60] for row in ROWS]
DICTS = [row for row in ROWS if "JSON" not in row[2].removeprefix(_NONE) and "twice" not in row[2]]
"""The rows whose schema can be given as a Python value, too."""


@pytest.mark.parametrize(("schema", "error", "message", "pointer", "hint", "shown"), ROWS, ids=NAMES)
def test_the_error_and_its_place(schema, error, message, pointer, hint, shown):
    with pytest.raises(error) as caught:
        json_schema_to_grammar(schema)
    found = caught.value
    said = found.message if isinstance(found, SpecError) else found.reason
    assert (said, found.pointer, found.hint) == (message, pointer, hint)
    assert found.text[slice(*found.span)] == shown
    assert message in str(found)


@pytest.mark.parametrize("row", DICTS, ids=lambda row: row[0][:60])
def test_a_dict_has_the_same_pointer_and_the_report_the_same_entry(row):
    schema, error, message, pointer, hint, _ = row
    value = json.loads(schema)
    with pytest.raises(error) as caught:
        json_schema_to_grammar(value)
    assert caught.value.pointer == pointer
    report = check_json_schema(value)
    assert not report.ok
    entry = next(entry for entry in report.with_status("refused") if entry.pointer == pointer)
    assert (entry.reason, entry.hint) == (message, hint)


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ("{'type': 'string'}", "double quotes"),
        ('{"uniqueItems": True}', "true, false and null"),
        ('{"enum": [1, 2,]}', "remove the comma"),
        ('{"type": "string",}', "remove the comma"),
        ('{"type": "string"} // a name', "no comments"),
        ('{ // a name\n"type": "string"}', "no comments"),
        (" ", "the text is empty"),
        ('\ufeff{"type": "string"}', "a byte order mark"),
        ('{"type" "string"}', ""),
    ],
)
def test_usual_mistakes_in_json_have_a_hint(schema: str, hint: str) -> None:
    with pytest.raises(SpecError, match="the schema is not JSON") as caught:
        json_schema_to_grammar(schema)
    assert hint in caught.value.hint
    assert bool(hint) is bool(caught.value.hint)
