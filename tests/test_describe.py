"""Descriptions of specifications: their text, that any schema has one, and where they are put in a conversation."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.chat import Conversation
from guided.chat.template import CHATML, ChatTemplate
from guided.describe import Description, describe
from guided.describe.schema import MAX_LENGTH, schema_form
from guided.engine.engine import Engine
from guided.engine.instructions import describes_by_default
from guided.matching.constraint import compile_constraint
from guided.matching.sentences import byte_vocabulary
from guided.models.architectures.llama import Llama, LlamaConfig

COMPILER = guided.GrammarCompiler(byte_vocabulary(), warn=False)
ORDER = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "maxLength": 40, "description": "who pays"},
        "status": {"enum": ["open", "closed"]},
        "due": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "price": {"type": "number", "minimum": 0}},
                "required": ["name", "price"],
            },
            "minItems": 1,
            "maxItems": 5,
        },
    },
    "required": ["customer", "status", "items"],
}


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Node:
    value: int
    color: Color
    next: Node | None = None


def test_quotations_in_words():
    quote = guided.Quote("The cat sat.")
    assert described(quote) == "Answer with a passage that is copied verbatim from the given text."
    schema = {"type": "string", **quote.keywords()}
    assert described(schema) == "Answer with JSON of this form:\nstring  // copied verbatim from the given text"
    quote = guided.Quote("The cat sat.", min_words=2)
    assert described(quote) == "Answer with a passage of at least 2 words that is copied verbatim from the given text."
    schema = {"type": "string", **quote.keywords()}
    assert str(described(schema)).endswith("string  // copied verbatim from the given text; at least 2 words")


def described(constraint: object) -> str | None:
    grammar = compile_constraint(COMPILER, constraint)
    assert grammar is not None
    description = describe(grammar)
    return None if description is None else description.text


def test_a_schema_is_shown_as_its_form() -> None:
    assert described(ORDER) == (
        "Answer with JSON of this form:\n"
        "{\n"
        '  "customer": string,  // who pays\n'
        '  "status": "open" | "closed",\n'
        '  "due"?: string | null,  // date: YYYY-MM-DD\n'
        '  "items": [{\n'
        '    "name": string,\n'
        '    "price": number\n'
        "  }, ...]\n"
        "}"
    )
    assert described(json.loads(json.dumps(ORDER))) == described(ORDER)
    description = describe(COMPILER.compile_json_schema(json.dumps(ORDER)))
    assert description is not None and description.text == described(ORDER)


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        (True, "any value"),
        ({"type": "integer", "minimum": 1, "maximum": 5}, "integer"),
        ({"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}, "number"),
        ({"type": ["string", "null"], "minLength": 3}, "string | null"),
        ({"type": "string", "pattern": "^a+$"}, "string  // matches ^a+$"),
        ({"const": {"a": 1}}, '{"a": 1}'),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}], "items": False},
            "[string, boolean]",
        ),
        ({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True}, "[(1 | 2), ...]  // all different"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{\n  [name: string]: integer\n}"),
        ({"type": "object", "additionalProperties": False}, "{}"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, "null"),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, "integer"),
        ({"$ref": "https://example.org/a"}, "any value"),
    ],
)
def test_forms(schema: object, form: str) -> None:
    assert schema_form(schema) == form


def test_recursive_definitions_have_different_names() -> None:
    def node(reference: str, member: str) -> dict[str, Any]:
        return {"type": "object", "properties": {member: {"type": "string"}, "next": {"$ref": reference}}}

    references = ("#/$defs/a/Node", "#/$defs/b/Node", "#/$defs/Node_2")
    first, second, third = (node(reference, name) for reference, name in zip(references, "xyz", strict=True))
    schema = {
        "properties": {name: {"$ref": reference} for name, reference in zip("lmr", references, strict=True)},
        "$defs": {"a": {"Node": first}, "b": {"Node": second}, "Node_2": third},
    }
    form = schema_form(schema)
    assert '"l"?: Node,\n  "m"?: Node_2,\n  "r"?: Node_2_2' in form
    for name, member in (("Node", "x"), ("Node_2", "y"), ("Node_2_2", "z")):
        assert f'\n{name} = {{\n  "{member}"?: string,\n  "next"?: {name}\n}}' in form


def test_recursive_definitions_are_named_once() -> None:
    text = described(Node)
    assert text is not None and text.count("Node =") == 1 and '"red" | "blue"' in text and "Node | null" in text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([
        "type", "properties", "items", "anyOf", "allOf", "$ref", "enum", "required", "prefixItems", "minimum",
        "maxLength", "pattern", "format", "description", "additionalProperties", "patternProperties", "const",
    ]), inner, max_size=4),
    max_leaves=25,
)  # fmt: skip


@given(json_values)
def test_any_value_has_a_form(schema: object) -> None:
    assert len(schema_form(schema)) <= MAX_LENGTH + 20


def test_large_documents_have_short_forms() -> None:
    wide = {"type": "object", "properties": {f"member_{n}": {"type": "string"} for n in range(50_000)}}
    deep: dict[str, object] = {"type": "string"}
    for _ in range(400):
        deep = {"type": "array", "items": deep}
    bomb = {
        "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(30)},
        "$ref": "#/$defs/d0",
    }
    own_part = {"allOf": [{"$ref": "#"}]}
    for schema in (wide, deep, bomb, own_part):
        assert len(schema_form(schema)) <= MAX_LENGTH + 20


def test_numbers_of_type_decimal() -> None:
    schema = {"enum": [Decimal("1.5"), 2], "minimum": Decimal("0.5"), "type": "number"}
    description = describe(COMPILER.compile_json_schema(schema))
    assert description is not None and description.text.endswith("\n1.5 | 2")
    assert not description.is_in("one")
    assert described({"type": "number", "minimum": Decimal("0.5")}) == "Answer with JSON of this form:\nnumber"


def test_other_specifications() -> None:
    assert described(["yes", "no"]) == "Answer with exactly one of these: yes, no"
    text = described("[A-Z]{2}-[0-9]{2}")
    assert text is not None and text.startswith(
        "Answer with text that matches the regular expression [A-Z]{2}-[0-9]{2}, "
    )
    tag = {"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}
    assert describe(COMPILER.compile_structural_tag(tag)) is None


def test_descriptions_that_the_prompt_already_contains() -> None:
    schema = describe(compile_constraint(COMPILER, ORDER))  # type: ignore[arg-type]
    assert schema is not None and schema.is_in(f"Write:\n{schema.text}\nNow.")
    for written in (json.dumps(ORDER), json.dumps(ORDER, indent=2), json.dumps(ORDER, separators=(",", ":"))):
        assert schema.is_in(f"Follow this schema: {written}")
    assert not schema.is_in("customer status due items")
    choices = Description("One of: yes, no", words=("yes", "no"))
    assert choices.is_in("Answer yes or no.") and not choices.is_in("Answer yes or nothing.")
    assert not Description("As JSON.").is_in("")


VOCABULARY = guided.Vocabulary(
    [*(bytes([byte]) for byte in range(256)), None, None],
    eos_token_ids=[257],
    special_tokens={256: "<|im_start|>", 257: "<|im_end|>"},
)
CONFIG = LlamaConfig(layers=1, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=258, context=2048)
WITHOUT_SYSTEM = CHATML.replace(
    "{% for", "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{% for", 1
)
WITH_DEFAULT = (
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}" + CHATML
)


def shown(template: str, prompt: Any, constraint: object, *, by_default: bool | None = True, **options: Any) -> str:
    """The conversation that an engine shows to its model. `by_default`: the default of `Options.describe`."""
    template_of_engine = ChatTemplate(VOCABULARY, template)
    engine = Engine(Llama.random(CONFIG, seed=1), VOCABULARY, chat=template_of_engine, describe=by_default)
    tasks = engine.tasks(guided.Request(prompt, constraint, options=options))
    sequence = tasks[0].future.result()[0].sequence if tasks[0].future is not None else tasks[0].sequence
    names = {256: "<|im_start|>", 257: "<|im_end|>"}
    return "".join(names.get(id) or chr(id) for id in sequence.prompt)


YES = "Answer with exactly one of these: yes, no"


@pytest.mark.parametrize(
    ("template", "prompt", "text"),
    [
        (CHATML, "Who?", f"<|im_start|>system\n{YES}<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n"),
        (WITH_DEFAULT, "Who?", f"<|im_start|>system\nYou help.\n\n{YES}<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n"),
        (WITHOUT_SYSTEM, "Who?", f"<|im_start|>user\nWho?\n\n{YES}<|im_end|>\n"),
        (CHATML, "Yes: yes or no?", "<|im_start|>user\nYes: yes or no?<|im_end|>\n"),
        (
            CHATML,
            [{"role": "system", "content": "Hi."}, {"role": "user", "content": "Who?"}],
            f"<|im_start|>system\nHi.\n\n{YES}<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n",
        ),
    ],
)
def test_where_the_description_stands(template: str, prompt: Any, text: str) -> None:
    for options in ({}, {"describe": True}, {"describe": True, "by_default": False}):
        assert shown(template, prompt, ["yes", "no"], **options) == f"{text}<|im_start|>assistant\n"
    for options in ({"describe": False}, {"by_default": False}, {"by_default": None}):
        assert YES not in shown(template, prompt, ["yes", "no"], **options)


@pytest.mark.parametrize("constraint", [guided.regex("a{3}"), guided.lark('start: "aaa"')])
def test_samples_are_shown_only_on_request(constraint: object) -> None:
    assert "such as aaa" in shown(CHATML, "Who?", constraint, describe=True)
    plain = shown(CHATML, "Who?", constraint, describe=False)
    assert shown(CHATML, "Who?", constraint) == plain == "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("layers", "dim", "is_described"), [(30, 576, False), (24, 896, True), (28, 1024, True), (32, 4096, True)]
)
def test_large_models_get_descriptions_by_default(layers: int, dim: int, is_described: bool) -> None:
    """SmolLM2-135M, Qwen2.5-0.5B, Qwen3-0.6B, Llama-3-8B."""
    assert describes_by_default(replace(CONFIG, layers=layers, dim=dim)) is is_described


@pytest.mark.parametrize("options", [{"raw": True}, {}])
def test_text_that_the_model_continues_has_no_description(options: dict[str, Any]) -> None:
    engine = Engine(
        Llama.random(CONFIG, seed=1), VOCABULARY, chat=ChatTemplate(VOCABULARY) if options else None, describe=True
    )
    assert engine.generate("Who?", ["yes", "no"], max_tokens=4, **options).prompt_tokens == 4


MARKERS = ["<|channel|>", "<|constrain|>", "<|message|>", "<|call|>", "<|end|>"]
CALLS = guided.GrammarCompiler(
    guided.Vocabulary(
        [*(bytes([byte]) for byte in range(256)), *[None] * 6],
        eos_token_ids=[256],
        special_tokens=dict(enumerate(MARKERS, 257)),
    ),
    warn=False,
)


@pytest.mark.parametrize("style", ["qwen_3", "llama", "pythonic", "harmony", "deepseek_v3_2"])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_several_calls_are_described_where_they_are_possible(style: str, choice: str) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"type": {"const": 1}}}}}]
    for parallel in (True, False):
        for reasoning in ("disabled", "enabled") if style == "harmony" else ("disabled",):
            tag = guided.tool_style(style).structural_tag(
                tools, tool_choice=choice, parallel_tool_calls=parallel, reasoning=reasoning
            )
            grammar = CALLS.compile_structural_tag(tag, allow_special_tokens=True)
            assert (describe(grammar, has_tools=True) is not None) is parallel
            assert describe(grammar) is None


def test_several_calls_are_described_in_the_system_message() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    tag = guided.tool_style("qwen_3").structural_tag(tools)
    prompt = Conversation([{"role": "user", "content": "Who?"}], tools)
    said = "call the function once for each of them, in several <tool_call> blocks."
    assert said in shown(CHATML, prompt, guided.structural_tag(tag), describe=True)
    assert said in shown(CHATML, prompt, guided.structural_tag(tag))
    assert said not in shown(CHATML, prompt, guided.structural_tag(tag), describe=False)


@pytest.mark.parametrize(("parallel", "max_rounds"), [(True, 1), (False, 1), (True, 0)])
def test_turns_with_tools_can_be_described(parallel: bool, max_rounds: int) -> None:
    """Also the message after the last calls, and one that may contain a single call: they need no description."""

    def look(place: bool) -> str:
        """Look somewhere."""
        return "nothing"

    engine = Engine(Llama.random(CONFIG, seed=1), VOCABULARY, chat=ChatTemplate(VOCABULARY))
    options = {"max_tokens": 120, "parallel": parallel, "max_rounds": max_rounds}
    for choice in ("required", "auto") if max_rounds else ("auto",):
        plain, described = (
            engine.chat("Who?", [look], tool_choice=choice, describe=describe, **options) for describe in (False, True)
        )
        first, described_first = plain.results[0].prompt_tokens, described.results[0].prompt_tokens
        assert (described_first > first) is (parallel and max_rounds > 0)


@pytest.mark.parametrize("constraint", [None, ["yes", "no"], {"enum": ["yes", "no"]}])
@pytest.mark.parametrize("describe", [None, True])
def test_tools_that_must_not_be_called_are_not_shown(constraint: Any, describe: bool | None) -> None:
    """The turn is the same as without tools."""

    def look(place: bool) -> str:
        """Look somewhere."""
        return "nothing"

    engine = Engine(Llama.random(CONFIG, seed=1), VOCABULARY, chat=ChatTemplate(VOCABULARY))
    options = {"constraint": constraint, "describe": describe, "max_tokens": 9}
    with_tools = engine.chat("Who?", [look], tool_choice="none", **options)
    alone = engine.chat("Who?", **options if constraint else {"max_tokens": 9})
    assert with_tools.results[0].prompt_tokens == alone.results[0].prompt_tokens
    assert with_tools.value == alone.value and not with_tools.tool_calls


def test_free_text_after_reasoning_is_not_described() -> None:
    engine = Engine(Llama.random(CONFIG, seed=1), VOCABULARY, chat=ChatTemplate(VOCABULARY), describe=True)
    free = engine.generate("Who?", reasoning_end="a", max_tokens=5)
    assert free.prompt_tokens == len(engine.encode_prompt("Who?"))
    for options in ({}, {"reasoning_end": "a"}):
        with pytest.raises(guided.OptionError, match="to the conversation, but there is no constraint"):
            engine.generate("Who?", max_tokens=5, describe=True, **options)


def test_the_engine_has_a_default() -> None:
    engine = Engine(Llama.random(CONFIG, seed=1), VOCABULARY, chat=ChatTemplate(VOCABULARY), describe=True)
    with_it = engine.generate("Who?", ["yes", "no"], max_tokens=5)
    without = engine.generate("Who?", ["yes", "no"], max_tokens=5, describe=False)
    assert with_it.prompt_tokens - without.prompt_tokens > len(YES)
    assert engine.generate([1, 2], ["yes", "no"], max_tokens=5).prompt_tokens == 2
    assert engine.generate("Who?", max_tokens=2).prompt_tokens == without.prompt_tokens


def test_undescribable_specifications_are_errors() -> None:
    engine = Engine(Llama.random(CONFIG, seed=1), VOCABULARY, chat=ChatTemplate(VOCABULARY))
    for prompt, constraint, options in (("Who?", None, {}), ([1, 2], "a", {}), ("Who?", "a", {"raw": True})):
        with pytest.raises(guided.OptionError, match="describe=True adds") as caught:
            engine.generate(prompt, constraint, max_tokens=5, describe=True, **options)
        assert caught.value.option == "describe"
