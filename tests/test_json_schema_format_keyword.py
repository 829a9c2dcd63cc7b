"""The keyword `format`: the types that it applies to, with other keywords, negated, unknown; and the public suite."""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions, check_json_schema, json_schema_to_grammar
from guided.frontends.json_schema.formats import FORMATS, format_shape
from guided.matching.matcher import GrammarMatcher
from tests.format_support import ADDRESSES, MAILS, TIMES, URIS, conforms, near, takes
from tests.json_schema_support import byte_compiler


@pytest.mark.parametrize("name", FORMATS)
def test_only_one_type_is_touched(name):
    shape = format_shape(name)
    assert shape is format_shape(name)  # the node is shared
    others = [None, True, [], {}, *([1, 1.5] if shape.patterns else ["text", ""])]
    for value in others:
        assert takes(f'{{"format": "{name}"}}', value)
        if name not in ("idn-hostname", "idn-email", "float", "double", "binary", "password"):
            assert not takes(f'{{"not": {{"format": "{name}"}}}}', value)


@given(
    st.sampled_from(("date-time", "ipv6", "uri", "email", "uuid")), near([*URIS, *MAILS, *ADDRESSES, *TIMES], "a1:.@-")
)
def test_negation(name, text):
    assert takes(f'{{"not": {{"format": "{name}"}}}}', text) != conforms(name, text)


def test_names_of_members():
    schema = '{"type": "object", "propertyNames": {"format": "hostname"}, "additionalProperties": {"format": "ipv4"}}'
    assert takes(schema, {"a.b": "1.2.3.4", "b": 1})
    assert not takes(schema, {"a.": "1.2.3.4"})
    assert not takes(schema, {"a": "1.2.3"})
    assert not takes(schema, {".".join(["b" * 63] * 4): 1})


def test_format_with_other_keywords():
    both = '{"type": "string", "format": "date", "pattern": "^2024-02-2", "maxLength": 10}'
    assert takes(both, "2024-02-29")
    assert not takes(both, "2023-02-28")
    assert takes('{"enum": ["1.2.3.4", "a", 3], "format": "ipv4"}', "1.2.3.4")
    assert not takes('{"enum": ["1.2.3.4", "a", 3], "format": "ipv4"}', "a")
    assert takes('{"enum": ["1.2.3.4", "a", 3], "format": "ipv4"}', 3)
    short = '{"format": "hostname", "maxLength": 4, "minLength": 3}'
    assert [takes(short, text) for text in ("ab", "a.b", "a.bc", "a.bcd")] == [False, True, True, False]


@pytest.mark.parametrize(
    ("name", "reason", "hint"),
    [
        ("datetime", "the format 'datetime' is not known", "did you mean 'date-time'? if not, use pattern instead"),
        ("UUID", "the format 'UUID' is not known", "did you mean 'uuid'?"),
        ("color", "the format 'color' is not known", "use pattern instead, or pass unknown_format='ignore'"),
        ("regexp", "the format 'regexp' is not known", "did you mean 'regex'?"),
    ],
)
def test_names_that_are_not_enforced(name, reason, hint):
    schema = {"properties": {"a": {"format": name}}}
    with pytest.raises(UnsupportedError) as caught:
        json_schema_to_grammar(schema, JsonSchemaOptions(unknown_format="refuse"))
    assert caught.value.pointer == "/properties/a/format"
    assert caught.value.reason.startswith(reason)
    assert caught.value.hint.startswith(hint)
    report = check_json_schema(schema, JsonSchemaOptions(unknown_format="ignore"))
    assert report.ok
    assert ("/properties/a/format", "ignored") in {(entry.pointer, entry.status) for entry in report.entries}
    json_schema_to_grammar(schema, JsonSchemaOptions(format="annotate"))


# --- the public suite

_DRAFTS = {"draft4": 6, "draft6": 9, "draft7": 25, "draft2019-09": 27, "draft2020-12": 27}
"""Draft -> the least number of groups that must compile."""


@pytest.mark.parametrize("draft", _DRAFTS)
def test_format_suite(draft):
    """No wrong verdicts, except for names in Punycode and expressions with names, which are all refused."""
    roots = [Path(os.environ["GUIDED_ASSETS"])] if "GUIDED_ASSETS" in os.environ else []
    roots.append(Path(__file__).resolve().parents[2] / "shared")
    found = [
        folder
        for root in roots
        for part in ("", "data")
        if (folder := root / part / "json-schema-test-suite" / draft).is_dir()
    ]
    if not found:
        pytest.skip(
            "json-schema-test-suite is neither below $GUIDED_ASSETS nor in a folder `shared` beside the repository"
        )
    compiled, wrong = 0, []
    for path in sorted((found[0] / "optional" / "format").glob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            try:
                grammar = byte_compiler().compile_json_schema(
                    group["schema"], draft=draft.replace("draft2", "2"), unknown_format="refuse"
                )
            except UnsupportedError:
                continue
            compiled += 1
            for test in group["tests"]:
                matcher, text = GrammarMatcher(grammar), json.dumps(test["data"])
                verdict = matcher.accept_string(text) and matcher.is_accepting()
                if verdict != test["valid"] and (verdict or not re.search(r"xn--|\(\?<n", text)):
                    wrong.append((path.name, test["description"], text))
    assert not wrong
    assert compiled >= _DRAFTS[draft]
