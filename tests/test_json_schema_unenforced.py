"""Keywords that are read but not enforced: a warning, a row of the report, a line on standard error, and an error in
strict mode.
"""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

import guided
from guided import GrammarMatcher, GuidedWarning, JsonSchemaOptions, UnsupportedError, check_json_schema
from guided.frontends.json_schema import json_schema_to_grammar
from guided.frontends.json_schema.documents.keywords import DESCRIPTIVE_NAMES, KEYWORDS
from guided.frontends.json_schema.documents.resolve import Library
from guided.frontends.json_schema.options import DRAFTS
from guided.frontends.json_schema.unenforced import UnenforcedFinder
from tests.json_schema_support import byte_compiler
from tests.test_cli import run, run_json

DRAFT = {name: f"http://json-schema.org/draft-0{name[-1]}/schema#" for name in ("draft4", "draft6", "draft7")}

# (schema, pointer, reason, part of the hint)
FOUND = [
    ({"requierd": ["a"]}, "/requierd", "unknown keyword", "did you mean 'required'?"),
    ({"additionalPropertys": False}, "/additionalPropertys", "unknown keyword", "did you mean 'additionalProperties'?"),
    ({"min_length": 3}, "/min_length", "unknown keyword", "did you mean 'minLength'?"),
    ({"MaxItems": 3}, "/MaxItems", "unknown keyword", "did you mean 'maxItems'?"),
    ({"any_of": [{}]}, "/any_of", "unknown keyword", "did you mean 'anyOf'?"),
    ({"divisibleBy": 2}, "/divisibleBy", "unknown keyword", "did you mean multipleOf?"),
    ({"nullabel": True}, "/nullabel", "unknown keyword", "did you mean 'nullable'?"),
    ({"frobnicate": True}, "/frobnicate", "unknown keyword", "leave it out, or begin its name with x-"),
    ({"a/b~": True}, "/a~1b~0", "unknown keyword", "leave it out"),
    ({"type": "integer", "nullable": True}, "/nullable", "a keyword of OpenAPI 3.0, not of JSON Schema",
     'write "type": ["integer", "null"]'),
    ({"nullable": True}, "/nullable", "a keyword of OpenAPI 3.0, not of JSON Schema", '["string", "null"]'),
    ({"type": "string", "nullable": False}, "/nullable", "a keyword of OpenAPI 3.0, not of JSON Schema",
     "leave it out: null is allowed only if type lists it"),
    ({"format": "url"}, "/format", "the format 'url' is not known", "did you mean 'uri'?"),
    ({"format": "URI"}, "/format", "the format 'URI' is not known", "did you mean 'uri'?"),
    ({"format": "date_time"}, "/format", "the format 'date_time' is not known", "did you mean 'date-time'?"),
    ({"format": "path"}, "/format", "the format 'path' is not known", "use pattern instead"),
    ({"then": {"type": "null"}}, "/then", "no effect without if", "add if, or leave it out"),
    ({"else": False}, "/else", "no effect without if", "add if"),
    ({"minContains": 2}, "/minContains", "no effect without contains", "add contains"),
    ({"additionalItems": False}, "/additionalItems", "no effect unless items is a list", "leave it out"),
    ({"$schema": DRAFT["draft7"], "items": {}, "additionalItems": False}, "/additionalItems",
     "no effect unless items is a list", "leave it out"),
    ({"$schema": DRAFT["draft4"], "exclusiveMinimum": True}, "/exclusiveMinimum", "no effect without minimum", ""),
    ({"$schema": DRAFT["draft4"], "const": 1}, "/const", "not a keyword of draft4",
     "in draft4, write enum; to use const, select draft6"),
    ({"$schema": DRAFT["draft7"], "dependentRequired": {"a": ["b"]}}, "/dependentRequired", "not a keyword of draft7",
     "in draft7, write dependencies; to use dependentRequired, select 2019-09 or later"),
    ({"$schema": DRAFT["draft7"], "prefixItems": [{}]}, "/prefixItems", "not a keyword of draft7",
     "in draft7, write items with a list; to use prefixItems"),
    ({"$schema": DRAFT["draft6"], "if": {}, "then": False}, "/if", "not a keyword of draft6",
     "to use if, select draft7 or later"),
    ({"$schema": DRAFT["draft7"], "$ref": "#/definitions/a", "definitions": {"a": {}}, "minLength": 3}, "/minLength",
     "draft7 ignores keywords next to $ref", "put both into an allOf"),
    ({"properties": {"requierd": {"items": {"anyOf": [{"maxLenght": 3}]}}}},
     "/properties/requierd/items/anyOf/0/maxLenght", "unknown keyword", "did you mean 'maxLength'?"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "pointer", "reason", "hint"), FOUND, ids=[json.dumps(row[0])[:60] for row in FOUND])
def test_unenforced_keywords_cause_a_warning(schema, pointer, reason, hint):
    for given in (schema, json.dumps(schema)):
        with pytest.warns(GuidedWarning) as caught:
            compiled = byte_compiler().compile_json_schema(given)
        assert len(caught) == 1 and caught[0].filename == __file__
        first = caught[0].message.findings[0]
        assert (first.pointer, first.reason) == (pointer, reason) and hint in first.hint
        assert pointer in str(caught[0].message) and hint in str(caught[0].message)
        assert compiled.findings == caught[0].message.findings
        with pytest.raises(UnsupportedError) as error:
            byte_compiler().compile_json_schema(given, strict=True)
        assert (error.value.pointer, error.value.reason, error.value.hint) == (pointer, reason, first.hint)
    report = check_json_schema(schema)
    assert report.ok and report.findings[0] == first
    row = next(entry for entry in report.entries if entry.pointer == pointer)
    assert (row.status, row.keyword, row.reason, row.hint) == ("ignored", first.keyword, reason, first.hint)
    strict = check_json_schema(schema, JsonSchemaOptions(strict=True))
    assert not strict.ok and strict.with_status("refused")[0].pointer == pointer


UNREPORTED_NAMES = [
    {"title": "t", "description": "d", "default": 1, "examples": [1], "deprecated": True, "readOnly": True},
    {"$comment": "c", "x-order": 1, "X-Y": 2, "_format": "url", "//": "a remark", "@id": 1, "$defs": {}},
    {name: {} for name in sorted(DESCRIPTIVE_NAMES)},
    {"properties": {"requierd": {}, "nullable": {}}, "required": ["requierd"], "enum": [{"requierd": 1}]},
    {"const": {"requierd": 1}, "default": {"nullable": True}, "examples": [{"format": "url"}]},
    {"definitions": {"requierd": {}}, "patternProperties": {"nullable": {}}, "dependentSchemas": {"format": {}}},
    {"$schema": DRAFT["draft7"], "$ref": "#/definitions/a", "definitions": {"a": {}}, "title": "t", "$id": "http://t"},
    {"$ref": "#/components/schemas/a", "components": {"schemas": {"a": {"type": "string"}}}},
    {"if": {}, "then": {}, "else": {}, "contains": {}, "minContains": 1, "maxContains": 2},
    {"$schema": DRAFT["draft4"], "id": "http://t", "minimum": 1, "exclusiveMinimum": True, "items": [],
     "additionalItems": False},
    {"$defs": {"unused": {"requierd": 1}}},  # since refused keywords may be in unreachable schemas
    {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    {"$ref": "http://json-schema.org/draft-04/schema#"},
    {"$ref": "http://json-schema.org/draft-07/schema#"},
]  # fmt: skip


@pytest.mark.parametrize("schema", UNREPORTED_NAMES, ids=[json.dumps(schema)[:60] for schema in UNREPORTED_NAMES])
def test_keywords_without_a_warning(schema):
    json_schema_to_grammar(schema, JsonSchemaOptions(strict=True))
    assert not check_json_schema(schema).findings


@pytest.mark.parametrize("draft", DRAFTS)
def test_the_quick_look_passes_over_nothing(draft):
    """The quick check of a schema's names never skips a keyword that the full check reports by itself."""
    options = JsonSchemaOptions(draft=draft)
    for name in (*(KEYWORDS.keys() - {"$schema"}), *DESCRIPTIVE_NAMES, "requierd", "x-a"):
        library = Library({name: True}, options, {}, guided.Limits())
        assert library.schemas_to_report or not list(UnenforcedFinder(library, options).findings(library.root)), name


def test_one_warning_names_all_and_each_compilation_warns():
    schema = {"properties": {f"p{number}": {"typ": "string"} for number in range(12)}}
    compiler = guided.GrammarCompiler(byte_compiler().vocabulary)
    for _ in range(2):  # the second time, it is in the compiler's cache
        with pytest.warns(GuidedWarning) as caught:
            compiler.compile_json_schema(schema)
        assert len(caught) == 1 and len(caught[0].message.findings) == 12
        lines = str(caught[0].message).splitlines()
        assert lines[0] == "not enforced: unknown keyword (at /properties/p0/typ); did you mean 'type'?"
        assert len(lines) == 11 and lines[-1] == "and 2 more; `guided check` lists them all"


def test_shared_locations_are_reported_once():
    schema = {"$defs": {"s": {"typ": 1}}, "items": {"$ref": "#/$defs/s"}, "contains": {"$ref": "#/$defs/s"}}
    with pytest.warns(GuidedWarning) as caught:
        byte_compiler().compile_json_schema(schema)
    assert [finding.pointer for finding in caught[0].message.findings] == ["/$defs/s/typ"]


def test_documents_of_the_registry_are_named():
    with pytest.warns(GuidedWarning, match="http://t/a#/requierd"):
        byte_compiler().compile_json_schema({"$ref": "http://t/a"}, registry={"http://t/a": {"requierd": []}})


def test_parts_and_engine_constraints_warn():
    schema = {"type": "integer", "nullable": True}
    with pytest.warns(GuidedWarning, match="OpenAPI") as caught:
        byte_compiler().compile(guided.json_schema(schema) + "." + guided.regex("a"))
    assert caught[0].filename == __file__
    with pytest.raises(UnsupportedError, match="OpenAPI"):
        byte_compiler().compile(guided.json_schema(schema, strict=True) + "")


def test_unknown_formats_by_option():
    with pytest.raises(UnsupportedError, match="'url' is not known"):
        json_schema_to_grammar({"format": "url"}, JsonSchemaOptions(unknown_format="refuse"))
    for options in ({"unknown_format": "ignore"}, {"format": "annotate"}, {"unknown_format": "ignore", "strict": True}):
        json_schema_to_grammar({"format": "url"}, JsonSchemaOptions(**options))
    with pytest.raises(guided.OptionError, match="strict=1 is not True or False"):
        JsonSchemaOptions(strict=1)


def test_types_do_not_warn():
    @dataclass
    class Point:
        x: int
        kind: Literal["a", "b"] = "a"

    assert GrammarMatcher(byte_compiler().compile_type(Point, strict=True)).accept_string('{"x": 1, "kind": "b"}')
    pydantic = pytest.importorskip("pydantic")

    class Cat(pydantic.BaseModel):
        kind: Literal["cat"]

    class Dog(pydantic.BaseModel):
        kind: Literal["dog"] = pydantic.Field(description="a dog", examples=["dog"], deprecated=True)

    class Owner(pydantic.BaseModel):
        """Someone with a pet."""

        pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]
        home: Path
        mark: pydantic.SecretStr | None = None

    owner = '{"pet": {"kind": "cat"}, "home": "/a", "mark": null}'
    assert GrammarMatcher(byte_compiler().compile_type(Owner, strict=True)).accept_string(owner)


# --- the command line

TYPO = json.dumps({"type": "object", "requierd": ["a"], "properties": {"a": {"format": "url"}}})


def test_a_line_on_standard_error():
    for command in (("check",), ("sample", "--seed", "1"), ("explain",)):
        code, _, err = run(*command, "--schema", TYPO)
        assert code == 0
        told = [line for line in err.splitlines() if line.startswith("warning: ")]
        assert told == [
            "warning: not enforced: unknown keyword (at /requierd); did you mean 'required'?",
            "warning: not enforced: the format 'url' is not known (at /properties/a/format); did you mean 'uri'? if "
            "not, use pattern instead, or pass --unknown-format ignore",
        ]
        assert run(*command, "--schema", TYPO, "--unknown-format", "ignore")[2].count("warning: ") == 1
        code, out, err = run(*command, "--schema", TYPO, "--strict")
        assert code == (1 if command == ("check",) else 2) and "did you mean 'required'?" in out + err
        assert "warning: " not in err


def test_rows_of_check():
    code, out, _ = run("check", "--schema", TYPO)
    assert code == 0
    assert "ignored     /requierd  unknown keyword\n            hint: did you mean 'required'?\n" in out
    found = run_json("check", "--schema", TYPO)
    assert [finding["pointer"] for finding in found["findings"]] == ["/requierd", "/properties/a/format"]
    assert found["findings"][0]["hint"] == "did you mean 'required'?"
    rows = {entry["pointer"]: entry["status"] for entry in found["entries"]}
    assert rows["/requierd"] == rows["/properties/a/format"] == "ignored"
    refused = run_json("check", "--schema", TYPO, "--strict", code=1)
    assert refused["error"]["pointer"] == "/requierd"
    assert {entry["pointer"]: entry["status"] for entry in refused["entries"]}["/requierd"] == "refused"


def test_other_warnings_are_unchanged():
    """The command line changes filters only for its own warnings, and restores them."""
    before = list(warnings.filters)
    run("check", "--schema", TYPO)
    assert warnings.filters == before
