"""Tags with several begins, and tags with equal contents."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

import guided
from guided.frontends.structural_tag import lower
from tests.structural_tag_support import accepts, byte_compiler, compiler_with, of_format

DIGIT = {"type": "regex", "pattern": "[0-9]"}
CALL = "<|call|>"


def separate(form: dict[str, Any]) -> dict[str, Any]:
    """The same format with one tag for each begin."""
    tags = [{**tag, "begin": begin} for tag in form["tags"] for begin in tag["begin"]]
    return {**form, "tags": tags}


FORMS: list[dict[str, Any]] = [
    {
        "type": "triggered_tags",
        "triggers": ["a", "bb"],
        "tags": [
            {"begin": ["a", "ac", "bb"], "content": DIGIT, "end": ";"},
            {"begin": ["bbc"], "content": DIGIT, "end": ["", "c"]},
        ],
        "stop_after_first": True,
    },
    {
        "type": "tags_with_separator",
        "separator": ",",
        "tags": [
            {"begin": ["a", "ac", "a"], "content": DIGIT, "end": ";"},
            {"begin": ["", "b"], "content": DIGIT, "end": ";"},
        ],
        "stop_after_first": False,
        "at_least_one": True,
    },
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["type"])
def test_a_tag_with_several_begins_equals_a_tag_for_each_begin(form: dict[str, Any]) -> None:
    joined = byte_compiler().compile_structural_tag(of_format(form))
    apart = byte_compiler().compile_structural_tag(of_format(separate(form)))
    accepted = 0
    for size in range(6):
        for letters in product("abc1;,", repeat=size):
            ids = list("".join(letters).encode())
            assert accepts(joined, ids) == accepts(apart, ids), letters
            accepted += accepts(joined, ids)
    assert 4 < accepted < 6**5


def test_a_single_tag_may_have_several_begins() -> None:
    form = {"type": "tag", "begin": ["<a>", CALL, "<b>"], "content": DIGIT, "end": "x"}
    compiler = compiler_with(CALL)
    with pytest.raises(guided.SpecError) as caught:
        compiler.compile_structural_tag(of_format(form))
    assert caught.value.pointer == "/format/begin"
    grammar = compiler.compile_structural_tag(of_format(form), allow_special_tokens=True)
    assert accepts(grammar, [*b"<a>1x"])
    assert accepts(grammar, [*b"<b>1x"])
    assert accepts(grammar, [257, *b"1x"])
    assert not accepts(grammar, [*b"<c>1x"])
    assert not accepts(grammar, [*b"1x"])


TRIGGERED = {"type": "triggered_tags", "triggers": ["<a"]}
TAG = {"content": DIGIT, "end": "x"}


@pytest.mark.parametrize(
    ("form", "pointer", "message"),
    [
        ({"type": "tag", "begin": [], **TAG}, "/format/begin", "is empty"),
        ({"type": "tag", "begin": ["a", 3], **TAG}, "/format/begin/1", "not a string"),
        ({**TRIGGERED, "tags": [{"begin": ["<a", "b"], **TAG}]}, "/format/tags/0/begin", "no trigger is a prefix"),
        (
            {"type": "token_triggered_tags", "trigger_tokens": [CALL], "tags": [{"begin": ["a", "b"], **TAG}]},
            "/format/tags/0/begin",
            "must begin with a token",
        ),
    ],
)
def test_bad_begins_are_refused_with_their_location(form: dict[str, Any], pointer: str, message: str) -> None:
    with pytest.raises(guided.SpecError, match=message) as caught:
        compiler_with(CALL).compile_structural_tag(of_format(form), allow_special_tokens=True)
    assert caught.value.pointer == pointer


def test_tags_with_equal_contents_read_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[object]()
    original = lower.json_schema_to_grammar

    def counted(schema: Any, *args: Any, **options: Any) -> Any:
        read.append(schema)
        return original(schema, *args, **options)

    monkeypatch.setattr(lower, "json_schema_to_grammar", counted)
    schemas = [{"type": "string", "format": "unknown-format", "maxLength": size} for size in (2, 3)]
    contents = [{"type": "json_schema", "json_schema": schema} for schema in schemas]
    tags = [
        {"begin": f"<{name}>", "content": contents[index], "end": end}
        for name, index, end in [("a", 0, ";"), ("b", 0, ";"), ("c", 1, ";"), ("d", 0, "!"), ("e", 1, [";"])]
    ]
    form = {"type": "or", "elements": [{"type": "tag", **tag} for tag in tags]}
    with pytest.warns(guided.GuidedWarning, match="unknown-format"):
        grammar = compiler_with().compile_structural_tag(of_format(form))
    assert read == [schemas[0], schemas[1], schemas[0]]  # the third one: strings may not contain another end
    assert [finding.pointer.split("/")[3] for finding in grammar.findings] == ["0", "2", "3"]
    for name, longest, end in [("a", 2, ";"), ("b", 2, ";"), ("c", 3, ";"), ("d", 2, "!"), ("e", 3, ";")]:
        for size in (longest, longest + 1):
            text = f'<{name}>"{"x" * size}"{end}'
            assert accepts(grammar, [*text.encode()]) == (size <= longest), text


def test_many_tools_whose_calls_may_lack_their_marker_compile() -> None:
    """The structural tag names each schema once, so it does not exceed the limit on the length of a specification."""
    properties = {f"a_long_name_of_an_argument_{number}": {"type": "string"} for number in range(40)}
    tools = [
        {"type": "function", "function": {"name": f"tool_{number}", "parameters": {"properties": properties}}}
        for number in range(200)
    ]
    style = guided.tool_style("qwen_3").with_bare_calls()
    tag = style.structural_tag(tools)
    assert len(json.dumps(tag)) < 2 * len(json.dumps(tools))
    grammar = compiler_with().compile_structural_tag(tag)
    for text in (
        'text <tool_call>\n{"name": "tool_7", "arguments": {"a_long_name_of_an_argument_1": "x"}}\n</tool_call>',
        '```json\n{\n  "name": "tool_199",\n  "arguments": {}}\n</tool_call>',
    ):
        assert accepts(grammar, [*text.encode()]), text
        assert not accepts(grammar, [*text.replace("}}", "}").encode()]), text
