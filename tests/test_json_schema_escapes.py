"""escapes="minimal": strings have the spelling of json.dumps(ensure_ascii=False), and keys are forced."""

import json
import re

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from guided.automaton.reference.token_masks import accepts
from guided.errors import OptionError, SpecError, UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions, json_schema_to_grammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import compile_constraint
from guided.matching.matcher import GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.json_schema_support import near, schemas, spellings

SLOW = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
BYTES = Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_token_ids=[256])
COMPILER = GrammarCompiler(BYTES, cache_bytes=0)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
RECORD = {
    "type": "object",
    "properties": {"née": {"type": "string"}, 'a"/\x7f\x01': {"const": "\n\x1f\U0001f600"}},
    "required": ["née", 'a"/\x7f\x01'],
    "additionalProperties": False,
}


def _matches(compiled, text):
    matcher = GrammarMatcher(compiled)
    return matcher.accept_string(text) and matcher.is_accepting()


def _is_minimal(text):
    return all(json.dumps(json.loads(s), ensure_ascii=False) == s for s in STRING.findall(text))


@SLOW
@given(st.data())
def test_of_all_spellings_the_minimal_ones(data):
    schema = data.draw(schemas())
    try:
        every = COMPILER.compile_json_schema(schema, property_order="any")
    except (SpecError, UnsupportedError):  # there is no language to compare with
        assume(False)
    minimal = COMPILER.compile_json_schema(schema, property_order="any", escapes="minimal")
    for _ in range(3):
        value = data.draw(near(schema))
        for text in (data.draw(spellings(value)), json.dumps(value, ensure_ascii=False)):
            assert _matches(minimal, text) == (_matches(every, text) and _is_minimal(text)), (schema, text)


@pytest.mark.parametrize("schema", [{"type": "string", "maxLength": 1}, {"type": "string", "pattern": "^[^]$"}])
def test_one_spelling_of_each_character(schema):
    native = COMPILER.compile_json_schema(schema, escapes="minimal")
    grammar = json_schema_to_grammar(schema, JsonSchemaOptions(escapes="minimal"))
    for code in [*range(0x180), 0x2028, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF]:
        char = chr(code)
        units = char.encode("utf-16-be").hex()
        escaped = "".join("\\u" + units[at : at + 4] for at in range(0, len(units), 4))
        ways = {f'"{inside}"' for inside in (char, "\\" + char, escaped, escaped.upper().replace("\\U", "\\u"))}
        ways |= {f'"\\{letter}"' for letter in "bfnrt"}
        expected = {json.dumps(char, ensure_ascii=False)}
        for text in ways | expected:
            # "\b" and similar escapes spell other characters, which then count
            right = text in expected or (_is_json(text) and json.dumps(json.loads(text), ensure_ascii=False) == text)
            assert _matches(native, text) == right, text
            if code < 0x30:
                assert accepts(grammar, text.encode()) == right, text


def _is_json(text):
    try:
        return len(json.loads(text)) == 1
    except ValueError:
        return False


def test_keys_and_constants_are_forced():
    grammar = COMPILER.compile_json_schema(RECORD, whitespace="single_space", escapes="minimal")
    matcher = GrammarMatcher(grammar)
    assert BYTES.decode(matcher.forced_tokens()).decode() == '{"née": "'
    assert matcher.accept_string('{"née": "x"')
    rest = json.dumps(dict.fromkeys(RECORD["required"], "\n\x1f\U0001f600"), ensure_ascii=False).split('", ')[-1]
    assert BYTES.decode(matcher.forced_tokens()).decode() == ", " + rest
    every = GrammarMatcher(COMPILER.compile_json_schema(RECORD, whitespace="single_space"))
    assert BYTES.decode(every.forced_tokens()).decode() == '{"'


def test_generation_writes_minimal_escapes():
    matcher = GrammarMatcher(compile_constraint(COMPILER, RECORD))
    assert BYTES.decode(matcher.forced_tokens()).decode() == '{"née": "'


def test_unknown_choice_is_refused():
    with pytest.raises(OptionError, match="option escapes='none' is unknown"):
        JsonSchemaOptions(escapes="none")


@pytest.mark.parametrize(("schema", "text", "plain"), [
    ({"const": "a"}, '"\\u0061"', '"a"'), ({"enum": [1, 2.5]}, "1.0", "1"), ({"enum": [1, 2.5]}, "25e-1", "2.5"),
    ({"const": {"a": [1]}}, '{"\\u0061":[1]}', '{"a":[1]}'), ({"const": {"a": [1]}}, '{"a":[1e0]}', '{"a":[1]}'),
    ({"properties": {"é": True}, "required": ["é"]}, '{"\\u00e9":1}', '{"é":1}'),
    ({"enum": ["ab", "ac"], "pattern": "b"}, '"a\\u0062"', '"ab"'),
])  # fmt: skip
def test_names_and_constants_have_one_spelling(schema, text, plain):
    every, one = (COMPILER.compile_json_schema(schema, constants=option) for option in ("json", "plain"))
    assert _matches(every, text) and _matches(every, plain)
    assert not _matches(one, text) and _matches(one, plain)


@pytest.mark.parametrize(
    "schema", [{}, {"type": "string"}, {"type": "number"}, {"additionalProperties": {"type": "string"}}]
)
def test_values_have_all_spellings_except_plain_constants(schema):
    grammar = COMPILER.compile_json_schema(schema, constants="plain")
    texts = ('"\\u0061"', "1.50e+2", '{"\\u0061":"\\u0062"}')
    assert [_matches(grammar, text) for text in texts] == [
        _matches(COMPILER.compile_json_schema(schema), text) for text in texts
    ]


def test_plain_integers_and_numbers_of_any_spelling():
    for schema, expected in (
        ({"type": "integer"}, [True, False, False, True]),
        ({"type": "integer", "minimum": 0}, [True, False, False, True]),
        ({"type": "number"}, [True, True, True, True]),
        ({"type": "number", "minimum": 0}, [True, True, True, True]),
    ):
        grammar = COMPILER.compile_json_schema(schema, numbers="plain_integers")
        assert [_matches(grammar, text) for text in ("12", "12.0", "12e0", "-0")] == expected, schema
