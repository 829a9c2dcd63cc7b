"""Contents of strings: base64 and JSON texts in draft 7, judged by `base64` and `json`; annotations in other drafts."""

import base64
import json
import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions, check_json_schema, json_schema_to_grammar
from tests.json_schema_judge import Judge
from tests.json_schema_support import QUIET, accepts, compiled, matches, sample, spellings, values

DRAFT7 = "http://json-schema.org/draft-07/schema#"
JSON = {"contentMediaType": "application/json"}
BASE64 = {"contentEncoding": "base64"}
BOTH = {**JSON, **BASE64}


def grammar(schema, **options):
    options = {"draft": "draft7", "property_order": "any", **options}
    return json_schema_to_grammar(schema, JsonSchemaOptions(**options))


def verdicts(schema, *values, **options):
    native = compiled(grammar(schema, **options))
    return [matches(native, json.dumps(value)) for value in values]


@st.composite
def _texts(draw):
    """The text of a JSON value, or a text with one character changed."""
    text = draw(spellings(draw(values), numbers=True))
    text = draw(st.sampled_from(["", "", " ", "\n\t"])) + text + draw(st.sampled_from(["", "", "\r "]))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        other = draw(
            st.sampled_from(['"', "\\", "{", "}", "[", "]", ",", ":", "0", "-", "e", ".", "u", " ", "\n", "\x00"])
        )
        text = text[:at] + other * draw(st.integers(0, 1)) + text[at + draw(st.integers(0, 1)) :]
    return text


JUDGE = Judge({"$schema": DRAFT7, **JSON})


@QUIET
@given(_texts(), st.data())
def test_json_in_a_string(text, data):
    """In every spelling of the surrounding string."""
    native = compiled(grammar(JSON))
    for written in (json.dumps(text), data.draw(spellings(text))):
        assert matches(native, written) == JUDGE(written), written


@st.composite
def _encoded(draw):
    """Bytes near a JSON text in base64, with letters changed, or with nonzero padding bits."""
    data = draw(_texts()).encode("utf-8", "replace")
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=2)) + data[at + draw(st.integers(0, 1)) :]
    text = base64.b64encode(data).decode()
    kind = draw(st.sampled_from(["as it is", "as it is", "bits", "letter", "padding"]))
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    if kind == "bits" and text.endswith("="):
        at = len(text.rstrip("=")) - 1
        free = 4 if text.endswith("==") else 2
        value = letters.index(text[at]) | draw(st.integers(0, 2**free - 1))
        text = text[:at] + letters[value] + text[at + 1 :]
    elif kind == "letter" and text:
        at = draw(st.integers(0, len(text) - 1))
        text = text[:at] + draw(st.sampled_from([*letters, "=", "-", ""])) + text[at + 1 :]
    elif kind == "padding":
        text = text.rstrip("=") + "=" * draw(st.integers(0, 3))
    return text


@QUIET
@given(_encoded(), st.data())
def test_json_in_base64(text, data):
    """The verdict is that on the decoded bytes, in every spelling of the surrounding string."""
    judge = Judge({"$schema": DRAFT7, **BOTH})
    for options, written in (
        ({}, json.dumps(text)),
        ({}, data.draw(spellings(text))),
        ({"escapes": "minimal"}, json.dumps(text)),
    ):
        assert matches(_base64_json(**options), written) == judge(written), written


@cache
def _base64_json(**options):
    return compiled(grammar(BOTH, **options))


PHASES = ["1", " -0.5e+10 ", "[]", '{"a":[1,{"b":"\u00e9\U0001f600\\n\\u00e9"}],"c":{}}', "[[[[]]],{}]", "nul", "[1,]"]
PHASES += ['{"a" 1}', "]", '"\udfff"', "", "[}", '{"a":1,"a":2}', "\ufeff1"]


@pytest.mark.parametrize("text", PHASES, ids=range(len(PHASES)))
def test_json_in_base64_at_every_phase(text):
    for spaces in range(3):
        written = json.dumps(base64.b64encode((" " * spaces + text).encode("utf-8", "surrogatepass")).decode())
        assert matches(_base64_json(), written) == Judge({"$schema": DRAFT7, **BOTH})(written)


def test_samples_in_base64_hold_json():
    native = compiled(grammar({"type": "string", **BOTH}, escapes="minimal"))
    for seed in range(20):
        text = json.loads(sample(native, random.Random(seed), 60))
        json.loads(base64.b64decode(text, validate=True).decode())


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '"\\u00e9\\/"', "1e999", "[[],{}]", "0" * 2, "-", "", "NaN", '{"a":1,"a":2}']
)
def test_which_texts_are_json(text):
    """Everything in RFC 8259's grammar, which does not forbid lone surrogates, large numbers and repeated names."""
    written = json.dumps(text)
    assert verdicts(JSON, text) == [JUDGE(written)]


@pytest.mark.parametrize("options", [{}, {"escapes": "minimal", "whitespace": "compact", "numbers": "plain"}])
def test_samples_hold_json(options):
    native = compiled(grammar({"type": "object", "additionalProperties": {"type": "string", **JSON}}, **options))
    for seed in range(20):
        for text in json.loads(sample(native, random.Random(seed), 80)).values():
            json.loads(text)


@QUIET
@given(st.text("AQgB=/+-_ 9", max_size=9) | st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode()))
def test_base64(text):
    judge = Judge({"$schema": DRAFT7, **BASE64})
    native, other = (compiled(grammar(schema)) for schema in (BASE64, {"not": BASE64}))
    assert matches(native, json.dumps(text)) == judge(json.dumps(text)) != matches(other, json.dumps(text))


def test_only_strings_are_touched():
    for schema in (JSON, BASE64):
        assert verdicts(schema, 1, None, [], {}) == [True] * 4
    assert verdicts({**JSON, "type": ["string", "null"], "minLength": 1}, None, "1", "x", 1) == [
        True,
        True,
        False,
        False,
    ]
    assert verdicts({**BASE64, "pattern": "^Y", "maxLength": 4}, "YQ==", "aa==", "YWJjYWJj", "") == [
        True,
        False,
        False,
        False,
    ]
    assert verdicts({"anyOf": [JSON, {"maxLength": 1}]}, "{", "{}", "{{") == [True, True, False]


def test_constants():
    """Each constant is checked by itself, so a complement is no problem."""
    texts = ("[]", "[", "W10=", "WzA=", 1)
    assert verdicts({**JSON, "enum": list(texts)}, *texts) == [True, False, False, False, True]
    assert verdicts({"not": JSON, "enum": list(texts)}, *texts) == [False, True, True, True, False]
    assert verdicts({"oneOf": [JSON, BASE64], "enum": list(texts)}, *texts) == [True, False, True, True, False]
    assert verdicts({**BASE64, "enum": list(texts)}, *texts) == [False, False, True, True, True]
    encoded = ("W10=", "W10", "bnVsbA==", "bnVsbA==="[:7], "W1==", "gA==", "MQ==", "[]", 1)
    held = [True, False, True, False, False, False, True, False, True]
    assert verdicts({**BOTH, "enum": list(encoded)}, *encoded) == held
    assert verdicts({"not": {"type": "string", **BOTH}, "enum": list(encoded)}, *encoded) == [
        *(not one for one in held[:-1]), True]  # fmt: skip
    assert verdicts({"allOf": [JSON, {"not": BOTH}], "enum": ["1111", "12"]}, "1111", "12") == [True, True]
    with pytest.raises(SpecError, match="no JSON value"):  # each satisfies only one of the two
        grammar({"allOf": [JSON, BOTH], "enum": ["1111", "MTEx", "12"]})
    assert verdicts({"propertyNames": {**JSON, "enum": ["1", "x"]}}, {"1": 1}, {"x": 1}) == [True, False]


def test_strings_that_differ():
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string", **JSON}}
    native = compiled(grammar(schema))
    texts = ('["1","1 "]', '["1","\\u0031"]', '["[]","{}"]', '["[]","["]')
    assert [matches(native, text) for text in texts] == [True, False, True, False]
    for seed in range(5):
        assert Judge({"$schema": DRAFT7, **schema})(sample(native, random.Random(seed), 40))


@pytest.mark.filterwarnings("ignore::guided.GuidedWarning")
@pytest.mark.parametrize(
    ("schema", "pointer", "reason"),
    [
        ({**BOTH, "pattern": "a"}, "/contentMediaType", "contentMediaType cannot be combined"),
        ({**BOTH, "maxLength": 9}, "/contentMediaType", "contentMediaType cannot be combined"),
        (
            {"items": {"allOf": [JSON, BOTH]}},
            "/items/allOf/0/contentMediaType",
            "contentMediaType cannot be combined",
        ),
        ({"not": {"type": "string", **BOTH}}, "/not/contentMediaType", "the negation of contentMediaType"),
        (
            {"propertyNames": BOTH},
            "/propertyNames/contentMediaType",
            "contentMediaType is not enforced for member names",
        ),
        ({**JSON, "pattern": "a"}, "/contentMediaType", "contentMediaType cannot be combined"),
        ({**JSON, "minLength": 2}, "/contentMediaType", "contentMediaType cannot be combined"),
        (
            {"items": {"allOf": [JSON, BASE64]}},
            "/items/allOf/0/contentMediaType",
            "contentMediaType cannot be combined",
        ),
        ({"not": {"type": "string", **JSON}}, "/not/contentMediaType", "the negation of contentMediaType"),
        ({"if": JSON, "else": {"type": "string"}}, "/if/contentMediaType", "the negation of contentMediaType"),
        (
            {"propertyNames": JSON},
            "/propertyNames/contentMediaType",
            "contentMediaType is not enforced for member names",
        ),
        ({**JSON, "enum": ["[" * 100_000]}, "/contentMediaType", "a string in enum or const nests too deeply"),
    ],
)
def test_refusals(schema, pointer, reason):
    with pytest.raises(UnsupportedError) as caught:
        grammar(schema)
    assert caught.value.pointer == pointer and caught.value.reason.startswith(reason)
    assert caught.value.hint.endswith("or pass format='annotate'")
    grammar(schema, format="annotate")
    for draft in ("draft4", "draft6", "2019-09", "2020-12"):
        grammar(schema, draft=draft)


def test_a_cap_on_strings_is_a_constraint():
    with pytest.raises(UnsupportedError, match="cannot be combined with another constraint"):
        grammar(JSON, max_string=9)


@pytest.mark.parametrize(
    "options", [{"draft": draft} for draft in ("draft4", "draft6", "2019-09", "2020-12")] + [{"format": "annotate"}]
)
def test_annotations(options):
    for schema in (JSON, BASE64, BOTH, {"not": {"type": "null", **BOTH}}):
        assert verdicts(schema, "%", 1, **options) == [True, True]


def test_other_contents_are_annotations():
    for schema in (
        {"contentMediaType": "text/html"},
        {"contentEncoding": "7bit", **JSON},
        {"contentEncoding": "base32"},
    ):
        assert verdicts(schema, "{", "%") == [True, True]
    assert verdicts({"contentEncoding": "BASE64", "contentMediaType": "image/png"}, "YQ==", "%") == [True, False]


def test_a_reference_hides_it():
    assert verdicts({"$ref": "#/definitions/a", **JSON, "definitions": {"a": {"type": "string"}}}, "{") == [True]


def test_bad_values():
    for name in BOTH:
        with pytest.raises(SpecError, match=f"{name} must be a string, not 3") as caught:
            grammar({"items": {name: 3}})
        assert caught.value.pointer == f"/items/{name}"
        assert accepts(grammar({name: 3}, draft="2019-09"), b"1")


def test_the_report():
    parts = {"a": JSON, "b": BASE64, "c": {"contentEncoding": "7bit", **JSON}, "d": BOTH}
    for options, status in (({}, "enforced"), ({"format": "annotate"}, "annotation")):
        report = check_json_schema({"$schema": DRAFT7, "properties": parts}, JsonSchemaOptions(**options))
        found = {entry.pointer.removeprefix("/properties/"): entry.status for entry in report.entries}
        assert report.ok and found["a/contentMediaType"] == found["b/contentEncoding"] == status
        assert found["d/contentMediaType"] == found["d/contentEncoding"] == status
        assert found["c/contentEncoding"] == found["c/contentMediaType"] == "annotation"
