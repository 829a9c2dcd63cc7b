"""Draft 4: an integer is a number *written* without fraction and exponent, so 1.0 is not an integer. In all other
drafts it is.

The judge is jsonschema's Draft4Validator after `json.loads`, which represents the two as int and decimal.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.frontends.json_schema import JsonSchemaOptions, check_json_schema, json_schema_to_grammar
from tests.json_schema_judge import Judge
from tests.json_schema_support import NUMBERS, QUIET, compiled, grammar_of, matches, sample, spellings

DRAFT4 = "http://json-schema.org/draft-04/schema#"
ANY_ORDER = JsonSchemaOptions(property_order="any")
WRITTEN = ("1", "-1", "0", "-0", "10", "1.0", "-0.0", "1e0", "10e-1", "0.1E1", "1.5", '"1"', "null", "[1]", "[1.0]")


def verdicts(schema, texts=WRITTEN, **options):
    native = compiled(grammar_of({"$schema": DRAFT4, **schema}, JsonSchemaOptions(**options)))
    return [text for text in texts if matches(native, text)]


def test_an_integer_is_written_as_one():
    integers, others = ["1", "-1", "0", "-0", "10"], ["1.0", "-0.0", "1e0", "10e-1", "0.1E1", "1.5"]
    rest = ['"1"', "null", "[1]", "[1.0]"]
    assert verdicts({"type": "integer"}) == integers
    assert verdicts({"type": "number"}) == integers + others
    assert verdicts({"type": ["null", "integer"]}) == [*integers, "null"]
    assert verdicts({"not": {"type": "integer"}}) == others + rest
    assert verdicts({"not": {"not": {"type": "integer"}}}) == integers
    assert verdicts({"multipleOf": 1}) == [text for text in WRITTEN if text != "1.5"]  # has no keyword about integers
    assert verdicts({"type": "integer"}, numbers="plain") == ["1", "-1", "0", "10"]
    assert verdicts({"multipleOf": 1, "type": "number", "not": {"type": "integer"}}, numbers="plain") == ["1.0"]


def test_constants_are_compared_by_value():
    ones = ["1", "1.0", "1e0", "10e-1", "0.1E1"]
    for one in (1, 1.0):
        assert verdicts({"enum": [one]}) == ones
        assert verdicts({"enum": [one], "type": "integer"}) == ["1"]
        assert verdicts({"enum": [one], "not": {"type": "integer"}}) == ones[1:]
        assert verdicts({"enum": [one], "not": {"type": "integer"}}, numbers="plain") == ["1.0"]
        assert verdicts({"enum": [[one]], "items": {"type": "integer"}}) == ["[1]"]
        assert verdicts({"type": "integer", "not": {"enum": [one]}}) == ["-1", "0", "-0", "10"]
    for texts, valid in ((["[1,1.0]", "[1.0,10e-1]"], False), (["[1,1.5]", "[1.0,2.0]"], True)):
        assert verdicts({"uniqueItems": True}, texts) == (texts if valid else [])


@pytest.mark.parametrize("draft", ["06", "07", ""])
def test_other_drafts_look_at_the_value(draft):
    named = {"$schema": f"http://json-schema.org/draft-{draft}/schema#"} if draft else {}
    native = compiled(grammar_of({**named, "type": "integer"}, ANY_ORDER))
    texts = ("1", "1.0", "1e0", "-0.0", "1.5")
    assert [text for text in texts if matches(native, text)] == list(texts[:4])


def test_a_schema_of_another_draft_inside():
    """Each of the two has its own integers, even if nothing else distinguishes them."""
    old, new = {"$schema": DRAFT4, "type": "integer"}, {"type": "integer"}
    schema = {"prefixItems": [{"$ref": "http://t/old"}, new], "minItems": 2, "items": False, "type": "array"}
    grammar = compiled(json_schema_to_grammar(schema, ANY_ORDER, registry={"http://t/old": old}))
    assert [matches(grammar, text) for text in ("[1,1.0]", "[1.0,1]", "[1,1]")] == [True, False, True]


def test_the_report_has_no_note_on_spellings():
    """Without exponents, no spellings are omitted."""
    schema = {"$schema": DRAFT4, "type": "integer", "minimum": 3}
    assert not check_json_schema(schema).with_status("note")
    assert check_json_schema({**schema, "type": "number"}).with_status("note")


# ---- random schemas

_values = st.recursive(
    st.sampled_from((*NUMBERS, 1.0, 2.0, -0.0, "a", None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
_parts = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["integer", "integer", "number", ["integer", "array"], ["string", "integer", "object"]]
        ),
        "minimum": st.sampled_from(NUMBERS),
        "maximum": st.sampled_from(NUMBERS),
        "multipleOf": st.sampled_from((1, 2, 0.5, 5)),
        "uniqueItems": st.just(True),
    },
)


@st.composite
def _combined(draw, inner):
    kind = draw(st.sampled_from(["not", "anyOf", "allOf", "oneOf", "items", "additionalProperties", "properties"]))
    schema = dict(draw(inner))
    if kind in ("not", "items", "additionalProperties"):
        schema[kind] = draw(inner)
    elif kind == "properties":
        schema |= {kind: {"a": draw(inner)}, "required": ["a"]}
    else:
        schema[kind] = draw(st.lists(inner, min_size=1, max_size=2))
    return schema


_schemas = st.recursive(
    _parts
    | st.builds(lambda some, values: {**some, "enum": values}, _parts, st.lists(_values, min_size=1, max_size=3)),
    _combined,
    max_leaves=4,
)


@QUIET
@given(_schemas, st.data())
def test_random_schemas(schema, data):
    schema = {"$schema": DRAFT4, **schema}
    native, judge = compiled(grammar_of(schema, ANY_ORDER)), Judge(schema)
    for _ in range(6):
        text = data.draw(spellings(data.draw(_values), numbers=True))
        assert matches(native, text) == judge(text), (schema, text)
    plain = compiled(grammar_of(schema, JsonSchemaOptions(property_order="any", numbers="plain")))
    assert (native is None) == (plain is None)
    for written in (native, plain) if native else ():
        text = sample(written, random.Random(str(schema)), 20)
        assert judge(text) and matches(native, text), (schema, text)
