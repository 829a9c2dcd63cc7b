"""Dialects and the metaschemas: verdicts equal those of the `jsonschema` library."""

import copy
import json
import subprocess
import sys
from collections import Counter
from functools import cache

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema import check_json_schema, json_schema_to_grammar
from guided.frontends.json_schema.documents import dialects
from guided.frontends.json_schema.documents.keywords import KEYWORDS
from tests.json_schema_support import allows, byte_compiler, verdicts

Y2019 = "https://json-schema.org/draft/2019-09/"
Y2020 = "https://json-schema.org/draft/2020-12/"


# --- dialects


def _metaschema(*vocabularies, **more):
    listed = {f"{Y2020}vocab/{name}": True for name in ("core", *vocabularies)}
    return {"$schema": Y2020 + "schema", "$vocabulary": listed | more}


class _CountingRegistry(dict[str, object]):
    """Counts how often each document is read."""

    def __init__(self, documents: dict[str, object]) -> None:
        super().__init__(documents)
        self.reads = Counter[str]()

    def __getitem__(self, uri: str) -> object:
        self.reads[uri] += 1
        return super().__getitem__(uri)


@pytest.mark.parametrize("end", ["", "#"])
def test_a_document_of_the_registry_is_read_once(end: str) -> None:
    parent = {**_metaschema("applicator", "validation"), "$defs": {f"d{index}": {} for index in range(30)}}
    registry = _CountingRegistry({f"http://t/m{end}": {"$schema": "http://t/p"}, f"http://t/p{end}": parent})
    names = [f"p{index}" for index in range(30)]
    dialects_named = {name: {"$schema": "http://t/m#" if name == "p7" else "http://t/m"} for name in names}
    json_schema_to_grammar({"properties": dialects_named}, registry=registry)
    assert registry.reads == {f"http://t/m{end}": 1, f"http://t/p{end}": 1}
    registry.reads.clear()
    references = {f"p{index}": {"$ref": f"http://t/p#/$defs/d{index}"} for index in range(30)}
    json_schema_to_grammar({"properties": references}, registry=registry, findings=[])
    assert registry.reads[f"http://t/p{end}"] == 1


@pytest.mark.filterwarnings("ignore::guided.GuidedWarning")
def test_keywords_of_a_vocabulary_that_is_not_listed_are_unknown():
    schema = {"$schema": "http://t/meta", "properties": {"a": {"type": "string", "minContains": 3}}}
    registry = {"http://t/meta": _metaschema("applicator", **{"http://t/vocabulary": False})}
    assert verdicts(schema, {"a": 1}, registry=registry) == [True]
    assert [entry.pointer for entry in check_json_schema(schema, registry=registry).with_status("ignored")] == [
        "/properties/a/type", "/properties/a/minContains"]  # fmt: skip
    registry = {"http://t/meta#": json.dumps(_metaschema("validation"))}
    assert verdicts({**schema, "minProperties": 1}, {"a": 1}, {}, registry=registry) == [True, False]
    registry = {"http://t/meta": _metaschema("unevaluated")}
    assert verdicts({**schema, "unevaluatedProperties": False}, {}, {"a": 1}, registry=registry) == [True, False]


@pytest.mark.parametrize(
    ("uri", "draft", "validator"),
    [
        ("http://json-schema.org/schema#", None, jsonschema.Draft202012Validator),
        ("https://json-schema.org/schema", "draft7", jsonschema.Draft202012Validator),
        ("https://spec.openapis.org/oas/3.1/dialect/base", None, jsonschema.Draft202012Validator),
        ("http://json-schema.org/draft-04/hyper-schema#", None, jsonschema.Draft4Validator),
        ("http://json-schema.org/draft-06/hyper-schema#", None, jsonschema.Draft6Validator),
        ("http://json-schema.org/draft-07/hyper-schema#", None, jsonschema.Draft7Validator),
        (Y2019 + "hyper-schema", None, jsonschema.Draft201909Validator),
        (Y2020 + "hyper-schema", "draft7", jsonschema.Draft202012Validator),
        ("http://t/unknown", "draft7", jsonschema.Draft7Validator),
        ("http://t/unknown", "2020-12", jsonschema.Draft202012Validator),
    ],
)
@pytest.mark.filterwarnings("ignore")  # keywords of other drafts
def test_other_uris_of_dialects(uri, draft, validator):
    schemas = (
        {"const": 1},  # from draft 6
        {"exclusiveMinimum": True, "minimum": 1},  # draft 4
        {"type": "array", "items": [{"type": "integer"}], "minItems": 1},  # before 2020-12
        {"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 1},  # from 2020-12
        {"type": "object", "dependentRequired": {"a": ["b"]}},  # from 2019-09
    )
    for schema in schemas:
        if not validator(validator.META_SCHEMA).is_valid(schema):
            continue
        compiled = byte_compiler().compile_json_schema({"$schema": uri} | schema, draft=draft)
        for value in (1, 2, [1], ["a"], {"a": 1}, {"a": 1, "b": 2}):
            assert allows(compiled, value) == validator(schema).is_valid(value), (schema, value)


@pytest.mark.parametrize(
    ("metaschema", "reason"),
    [
        (_metaschema(**{"http://t/vocabulary": True}), "requires the vocabulary 'http://t/vocabulary'"),
        ({"$vocabulary": {}}, "does not list the core vocabulary"),
        ({"$schema": "http://t/meta"}, "is not known"),
        ({}, "is not known"),
        (True, "is not known"),
    ],
)
def test_dialects_that_are_refused(metaschema, reason):
    with pytest.raises(UnsupportedError, match=reason) as caught:
        json_schema_to_grammar({"$schema": "http://t/meta"}, registry={"http://t/meta": metaschema})
    assert caught.value.pointer == "/$schema"


@pytest.mark.filterwarnings("ignore::guided.GuidedWarning")
def test_a_metaschema_without_vocabularies_stands_for_its_own_dialect():
    registry = {"http://t/meta": {"$schema": "http://json-schema.org/draft-04/schema#"}}
    assert verdicts({"$schema": "http://t/meta", "const": 1}, 2, registry=registry) == [True]


@pytest.mark.filterwarnings("ignore::guided.GuidedWarning")
@pytest.mark.parametrize("own", [{}, {"id": "http://t/old"}], ids=["plain", "resource"])
def test_a_subschema_in_another_dialect(own):
    old = {"$schema": "http://json-schema.org/draft-04/schema#", **own, "minimum": 1, "exclusiveMinimum": True,
           "definitions": {"below": {"type": "null", "const": 1}}}  # fmt: skip
    reference = {"$ref": own.get("id", "#/$defs/old")}
    schema = {"$id": "http://t/", "items": reference, "$defs": {"old": old}}
    assert verdicts(schema, [2], [1]) == [True, False]
    assert verdicts({"$ref": "#/$defs/old/definitions/below", "$defs": {"old": old}}, None, 1) == [True, False]
    old["type"] = 3
    with pytest.raises(SpecError) as caught:
        json_schema_to_grammar(schema)
    assert caught.value.pointer == "/$defs/old/type"


@pytest.mark.filterwarnings("ignore::guided.GuidedWarning")
def test_a_pointer_from_a_schema_with_an_ineffective_dialect():
    """2020-12 gives such a `$schema` no meaning. jsonschema and ajv resolve from the surrounding document."""
    old = {
        "$schema": "http://json-schema.org/draft-04/schema",
        "id": "schemata/app",
        "definitions": {"a": {"minimum": 2}},
    }
    around = {"definitions": {"app": old, "b": {"maximum": 4}}, "$ref": "#/definitions/app"}
    for pointer, expected in (("app/definitions/a", [False, True, True]), ("b", [True, True, False])):
        schema = copy.deepcopy(around)
        schema["definitions"]["app"]["properties"] = {"x": {"$ref": f"#/definitions/{pointer}"}}
        values = [{"x": 1}, {"x": 3}, {"x": 5}]
        assert [jsonschema.Draft202012Validator(schema).is_valid(value) for value in values] == expected
        assert verdicts(schema, *values) == expected
    schema["definitions"]["app"]["properties"]["x"]["$ref"] = "#/definitions/c"
    with pytest.raises(SpecError, match="points to nothing") as caught:
        json_schema_to_grammar(schema)
    assert caught.value.pointer == "/definitions/app/properties/x/$ref"


# --- metaschemas

VALIDATORS = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    Y2019 + "schema": jsonschema.Draft201909Validator,
    Y2020 + "schema": jsonschema.Draft202012Validator,
}
WHOLE = [*VALIDATORS, "https://json-schema.org/draft-07/schema"]
PARTS = [year + "meta/" + name for year in (Y2019, Y2020) for name in ("core", "applicator", "meta-data", "content")]


@cache
def _of_metaschema(uri):
    """The grammar of a metaschema, to which one's own document refers."""
    return byte_compiler().compile_json_schema({"$ref": uri}, property_order="any", format="annotate")


ATOMS = st.sampled_from([0, 1, -1, 2.5, "a", "", "#/x", "string", "array", True, False, None, [], ["a"], ["a", "a"]])
NAMES_OF_KEYWORDS = [*KEYWORDS, "a"]
SCHEMAS = st.recursive(
    ATOMS,
    lambda inner: st.dictionaries(st.sampled_from(NAMES_OF_KEYWORDS), inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=10,
)


@pytest.mark.parametrize("uri", WHOLE + PARTS)
@given(schema=SCHEMAS)
def test_schemas_judged_by_the_metaschemas(uri, schema):
    grammar = _of_metaschema(uri)
    validator = next((v for known, v in VALIDATORS.items() if known.split("://")[1].rstrip("#") in uri), None)
    if validator is None:  # only a vocabulary: the dynamic scope begins there
        validator = VALIDATORS[uri.partition("meta/")[0] + "schema"]
        expected = validator({"$ref": uri}).is_valid(schema)
    else:
        expected = validator(validator.META_SCHEMA).is_valid(schema)
    assert allows(grammar, schema) == expected


@pytest.mark.parametrize("uri", WHOLE + PARTS)
def test_a_good_and_a_bad_schema(uri):
    grammar = _of_metaschema(uri)
    inner = "items" if uri in WHOLE else "$defs" if "core" in uri else "not"
    if "meta-data" in uri or "content" in uri:
        good, bad = {"title": "t", "contentEncoding": "x"}, {"title": 3, "contentEncoding": 3}
    elif "core" in uri:
        good, bad = ({"$defs": {"a": {"$defs": {"b": {"$anchor": anchor}}}}} for anchor in ("ok", "not ok"))
    else:
        good, bad = ({"properties": {"a": {inner: {"anyOf": branches}}}} for branches in ([{}], []))
    assert allows(grammar, good)
    assert not allows(grammar, bad)


def test_a_metaschema_extended():
    """An extension applies its constraints to the schemas inside a schema, too."""
    mine = {"$id": "http://t/mine", "$dynamicAnchor": "meta", "$ref": Y2020 + "meta/applicator",
            "properties": {"x-note": {"type": "string"}}}  # fmt: skip
    good, bad = ({"not": {"items": {"x-note": note}}} for note in ("a", 1))
    assert verdicts(mine, good, bad, format="annotate") == [True, False]


def test_the_registry_comes_before_the_metaschemas_at_hand():
    registry = {Y2020 + "schema": {"type": "null"}}
    assert verdicts({"$ref": Y2020 + "schema"}, None, {}, registry=registry) == [True, False]


def test_every_metaschema_is_at_hand_under_its_own_name():
    for uri in [
        *VALIDATORS,
        *PARTS,
        Y2019 + "meta/format",
        Y2020 + "meta/format-assertion",
        Y2020 + "meta/unevaluated",
    ]:
        name, text = dialects.find_metaschema(uri)
        document = json.loads(text)
        assert name == uri.rstrip("#") == (document.get("$id") or document["id"]).rstrip("#")
    for uri in ("https://json-schema.org/", "draft-07/schema", "http://json-schema.org/../draft-07/schema", Y2020):
        assert dialects.find_metaschema(uri) is None


def test_metaschemas_are_read_only_where_a_reference_asks():
    script = (
        "import sys; opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "import guided.frontends.json_schema as module\n"
        f"module.json_schema_to_grammar({{'$schema': '{Y2020}schema', 'type': 'null'}})\n"
        "assert opened and not any('metaschemas' in name for name in opened), 'too early'\n"
        f"module.json_schema_to_grammar({{'$ref': '{Y2020}meta/core'}}, module.JsonSchemaOptions(format='annotate'))\n"
        "assert any('metaschemas' in name for name in opened)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
