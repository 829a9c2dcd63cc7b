"""Calls as the published chat templates write them: the style's grammar accepts them, and its reader returns them."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any, ClassVar

import pytest
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

import guided
from tests.derived_support import OF_STYLE, PUBLISHED
from tests.structural_tag_support import accepts, byte_compiler

STYLE_OF = {template: style for style, template in OF_STYLE.items()} | {
    "gpt-oss": "harmony", "granite-4": "qwen_3", "hermes-3-tool-use": "qwen_3", "kimi-k2": "kimi", "llama-3.1": "llama",
    "mistral-small-3.2": "mistral", "qwen-2.5": "qwen_3",
}  # fmt: skip
NO_CALLS = {
    "deepseek-r1-distill": "omits the end of a group with one call",
    "command-r7b-tool-use": "its calls are JSON objects between other markers; no style has this form",
    "gemma-2": "has no calls", "gemma-3": "has no calls", "phi-3.5": "has no calls",
    "granite-3.3": "omits calls", "smollm-3": "omits calls", "hunyuan-3": "its style is derived",
}  # fmt: skip
ONE_CALL = {"gpt-oss": "omits later calls", "llama-3.1": "refuses several calls", "llama-3.2": "refuses several calls"}
OTHER_VALUES = {
    "lfm-2.5": "writes strings without escapes, and null, true and false as in JSON in an object",
    "gemma-4": "writes null as None",
}
"""Templates that write some values in a form that the models' parsers do not read."""

USER, SENTINEL = "How is the day?", "Well."
HEADERS = {"gemma-4": "<|turn>model\n", "gpt-oss": "<|start|>assistant", "nemotron-nano-2": "<SPECIAL_11>Assistant\n"}
"""The last text before the message with the calls, if the content is in another message or follows the calls."""
OTHER_ENDS = {
    "gemma-4": f"{SENTINEL}<|tool_response>",
    "kimi-k3": "<|end_of_msg|>",
    "nemotron-nano-2": "<SPECIAL_12>\n\n",
}
"""The text after a message with calls, if it is not the text after other messages."""
PYTHON_BOOLEANS = ("nemotron-3-nano", "qwen-3-coder", "qwen-3.5", "step-3.5")
"""Templates that write true as True. `guided.derive_tool_style` notes this, too."""

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "at": {"type": "object"},
        "tags": {"type": "array"},
        "hourly": {"type": "boolean"},
    },
}
WORDS = {"type": "array", "items": {"type": "string"}}
NESTED_SCHEMA = {
    **SCHEMA,
    "properties": {
        **SCHEMA["properties"],
        "at": {"type": "object", "properties": {"lat": {"type": "number"}, "names": WORDS}},
        "tags": WORDS,
    },
}
"""For styles in which elements are nested, which need the types of all values."""
PLAIN: list[dict[str, Any]] = [
    {},
    {"city": "Oslo"},
    {"city": "New York", "days": 3},
    {"days": -1, "hourly": True},
    {"city": ""},
    {"at": {"lat": 1.5, "names": ["a", "b c"]}, "tags": ["x", "y"]},
]
STRINGS = [
    "a\nb",
    "\n",
    "a\n",
    "\n\na ",
    'say "no"',
    "it's",
    "\\",
    "\\n",
    "<b>&amp;</b>",
    "{}[]",
    "é😀",
    "\t",
    "12",
    "true",
]


class Generation(Extension):
    """The statement `generation` of transformers, which marks the text of the assistant."""

    tags: ClassVar[set[str]] = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def fail(message: str) -> None:
    raise ValueError(message)


@cache
def compiled_template(name: str) -> Any:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(
        value, ensure_ascii=False, indent=options.get("indent")
    )
    environment.globals |= {"raise_exception": fail, "strftime_now": lambda form: "2026-01-01"}
    return environment.from_string(PUBLISHED[name])


def tools_of(style: str) -> list[dict[str, Any]]:
    nested = style in ("minimax_m3", "cohere")
    parameters = NESTED_SCHEMA if nested else SCHEMA
    function = {"name": "weather", "description": "The weather", "parameters": parameters}
    return [{"type": "function", "function": function}]


def render(name: str, calls: list[dict[str, Any]], as_text: bool) -> str | None:
    """The assistant's message: the sentinel if the template writes it, and the calls. None: the template fails."""
    ids = ["functions.weather:%d" if STYLE_OF[name] == "kimi" else "abcdefgh%d"][0]
    tool_calls = [
        {"id": ids % number, "type": "function",
         "function": {"name": "weather", "arguments": json.dumps(call, ensure_ascii=False) if as_text else call}}
        for number, call in enumerate(calls)
    ]  # fmt: skip
    user, plain = {"role": "user", "content": USER}, {"role": "assistant", "content": SENTINEL}
    variables = {"tools": tools_of(STYLE_OF[name]), "bos_token": "<s>", "eos_token": "</s>"}
    write = compiled_template(name).render
    try:
        prompt = write(messages=[user], add_generation_prompt=True, **variables)
        message = write(messages=[user, {**plain, "tool_calls": tool_calls}], **variables)
        end = write(messages=[user, plain], **variables)
    except (TypeError, ValueError, guided.GuidedError) as error:
        if "Undefined" in type(error).__name__:
            raise
        return None
    answer = message.rpartition(USER)[2].removesuffix(end.rpartition(SENTINEL)[2])
    answer = answer.removesuffix(OTHER_ENDS.get(name, ""))
    if name in HEADERS:
        return answer.rpartition(HEADERS[name])[2]
    _, found, calls_after = answer.rpartition(SENTINEL)
    if found and "weather" in calls_after:
        return found + calls_after
    return answer.removeprefix(prompt.rpartition(USER)[2])


def check(name: str, calls: list[dict[str, Any]]) -> None:
    style, tools = guided.tool_style(STYLE_OF[name]), tools_of(STYLE_OF[name])
    text = render(name, calls, False) or render(name, calls, True)
    assert text is not None, "the template fails"
    prefix = style.data.get("reasoning", {}).get("disabled", "")
    grammar = grammar_of(style.name)
    assert accepts(grammar, list((prefix + text).encode())), (calls, text)
    source = random.Random(text)
    for most in (1, 9, 10_000):
        reader, rest = style.reader(tools), text
        while rest:
            size = source.randint(1, most)
            reader.parts(rest[:size])
            rest = rest[size:]
        reader.finish()
        assert [json.loads(call.arguments) for call in reader.calls] == calls, text
        assert all(call.name == "weather" and call.complete for call in reader.calls)
        assert reader.text.strip() in ("", SENTINEL)


@cache
def grammar_of(style: str) -> guided.CompiledGrammar:
    tag = guided.tool_style(style).structural_tag(tools_of(style))
    return byte_compiler().compile_structural_tag(tag)


def test_each_template_has_a_style_or_a_reason() -> None:
    assert set(STYLE_OF) | set(NO_CALLS) == set(PUBLISHED)
    assert not set(STYLE_OF) & set(NO_CALLS)


@pytest.mark.parametrize("name", sorted(STYLE_OF))
def test_calls_of_the_template(name: str) -> None:
    for arguments in PLAIN:
        if "hourly" not in arguments or name not in PYTHON_BOOLEANS:
            check(name, [arguments])
    for text in STRINGS if name != "lfm-2.5" else ():
        check(name, [{"city": text}])
    if name not in ONE_CALL:
        check(name, [{"city": "Oslo"}, {}, {"city": "New York", "days": 3}])
        check(name, [{}, {}])
    if name not in (*OTHER_VALUES, *PYTHON_BOOLEANS) and STYLE_OF[name] != "minimax_m3":
        check(name, [{"at": {"k": [1, None, True, {"a": "b\n"}]}, "tags": [[], {}, "é"]}])
