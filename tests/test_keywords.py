"""Wrong keywords: every public call lists the valid ones, and suggests the intended one."""

from __future__ import annotations

import re

import pytest

import guided
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.keywords import check_keywords

VOCABULARY = guided.Vocabulary([b"a", b"b"], eos_token_ids=[2])
COMPILER = guided.GrammarCompiler(VOCABULARY)


@pytest.mark.parametrize(
    ("call", "name", "options"),
    [
        (lambda **k: COMPILER.compile_json_schema(True, **k), "compile_json_schema", "whitespace"),
        (lambda **k: COMPILER.compile_type(int, **k), "compile_type", "registry"),
        (lambda **k: COMPILER.compile_regex("a", **k), "compile_regex", "classes, dialect, search"),
        (lambda **k: COMPILER.compile(guided.text("a"), **k), "compile", "whitespace"),
        (lambda **k: guided.json_schema(True, **k), "json_schema", "registry"),
        (lambda **k: guided.python_type(int, **k), "python_type", "registry"),
        (lambda **k: guided.regex("a", **k), "regex", "classes, dialect, search"),
        (lambda **k: guided.JsonSchemaOptions(**k), "JsonSchemaOptions", "whitespace"),
        (lambda **k: guided.JsonSchemaOptions.for_generation(**k), "JsonSchemaOptions", "whitespace"),
    ],
)
def test_a_wrong_keyword_is_refused_with_the_known_ones(call, name, options):
    with pytest.raises(TypeError, match=rf"^{name}\(\) has no option 'zzz': the options are .*{options}") as caught:
        call(zzz=1)
    assert "\n" not in str(caught.value)


def test_errors_suggest_the_intended_name():
    known = ("max_tokens", "stop")
    with pytest.raises(TypeError, match=r"^f\(\) has no option 'max_token': did you mean 'max_tokens'\?"):
        check_keywords("f", ["stop", "max_token"], known)
    with pytest.raises(TypeError, match="has no option 'limit': did you mean 'stop'"):
        check_keywords("f", ["limit"], known, {"limit": "stop"})
    with pytest.raises(TypeError, match=re.escape("has no option 'schema': give it second. The options are")):
        check_keywords("f", ["schema"], known, {"schema": "give it second"})
    with pytest.raises(TypeError, match="it takes no options"):
        check_keywords("f", ["x"], ())
    check_keywords("f", ["stop"], known)


def test_the_preset_and_changes_of_options():
    preset = JsonSchemaOptions.for_generation()
    assert preset.non_defaults() == {
        "whitespace": "single_space",
        "additional_properties": "minimal",
        "numbers": "plain",
        "escapes": "minimal",
        "classes": "plain",
    }
    assert JsonSchemaOptions(**preset.non_defaults()) == preset
    assert preset.with_changes(indent=2).whitespace == "json"
    assert preset.with_changes(separators=(",", ":")).with_changes(indent=1).separators == (",", ":")
    assert preset.with_changes(indent=2).with_changes(whitespace="compact").indent is None
    assert JsonSchemaOptions.for_generation(numbers="json", additional_properties=None).non_defaults() == {
        "whitespace": "single_space",
        "escapes": "minimal",
        "classes": "plain",
    }
    with pytest.raises(guided.OptionError, match="whitespace cannot be set as well"):
        preset.with_changes(indent=2, whitespace="compact")
    assert repr(JsonSchemaOptions()) == "JsonSchemaOptions()"
    assert repr(preset.with_changes(numbers="json", escapes="json", classes="full", whitespace="json")) == (
        "JsonSchemaOptions(additional_properties='minimal')"
    )


def test_deprecated_names_of_methods_of_options():
    preset = JsonSchemaOptions.for_generation()
    with pytest.warns(DeprecationWarning, match="with_changes"):
        assert preset.changed(indent=2) == preset.with_changes(indent=2)
    with pytest.warns(DeprecationWarning, match="non_defaults"):
        assert preset.given() == preset.non_defaults()


COLOR = {"type": "object", "properties": {"x": {"pattern": r"^\d$", "type": "string"}, "n": {"type": "number"}}}


@pytest.mark.parametrize(
    ("part", "written", "not_written"),
    [
        (guided.json_schema(COLOR), '{"x": "1", "n": 1}', ['{"x":"1"}', '{"n": 1e0}', '{"b": 1}']),
        (guided.json_schema(COLOR, whitespace="compact"), '{"x":"1","n":1}', ['{"x": "1"}', '{"n":1e0}']),
        (guided.json_schema(COLOR, indent=0), '{\n"x": "1"\n}', ['{"x": "1"}']),
        (guided.json_schema(COLOR, additional_properties=None), '{"b": 1}', ['{"b":1}']),
        (guided.python_type(dict[str, float]), '{"b": 1.5}', ['{"b":1.5}', '{"b": 15e-1}']),
        (guided.regex(r"\d"), "1", ["\u0663"]),
        (guided.regex(r"\d", classes="full"), "\u0663", ["x"]),
    ],
)
def test_the_preset_holds_for_parts_without_their_own_option(part, written, not_written):
    words = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    grammar = guided.GrammarCompiler(words).compile(part + "", **JsonSchemaOptions.for_generation().non_defaults())

    def accepts(text: str) -> bool:
        matcher = guided.GrammarMatcher(grammar)
        return matcher.accept_string(text) and matcher.is_accepting()

    assert accepts(written)
    assert not any(map(accepts, not_written))
