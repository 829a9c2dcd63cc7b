"""gpt-oss: calls that end with an end token of the vocabulary, and the messages of OpenAI's guide to the format."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import product
from typing import Any

import jsonschema
import pytest

import guided
from guided.frontends.structural_tag.calls import CallPart
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.vocabulary import Vocabulary
from tests.structural_tag_support import ids_of

NAMES = (
    "<|endoftext|>", "<|return|>", "<|call|>", "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>",
)  # fmt: skip
IDS = {name: 256 + number for number, name in enumerate(NAMES)}
END_SETS = (("<|endoftext|>",), ("<|return|>",), ("<|call|>",), ("<|return|>", "<|endoftext|>", "<|call|>"))
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 4}}, "required": ["city"]}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "now"}},
]
SCHEMAS = {"weather": WEATHER, "now": {"type": "object", "maxProperties": 0}}
NAMED = {"type": "function", "function": {"name": "weather"}}
STYLE = guided.tool_style("harmony")


@cache
def compiler(ends: tuple[str, ...]) -> GrammarCompiler:
    tokens = [bytes([byte]) for byte in range(256)]
    special = {number: name for name, number in IDS.items()}
    end_ids = [IDS[name] for name in ends]
    return GrammarCompiler(Vocabulary(tokens, eos_token_ids=end_ids, special_tokens=special, size=256 + len(NAMES)))


def compile_tag(ends: tuple[str, ...], **options: Any) -> CompiledGrammar:
    tag = STYLE.structural_tag(TOOLS, **options)
    return compiler(ends).compile_structural_tag(tag, allow_special_tokens=True)


def draw(grammar: CompiledGrammar, source: random.Random) -> list[int]:
    """The tokens of a random complete output, without the end token."""
    matcher, ids = GrammarMatcher(grammar), list[int]()
    ends, mask = grammar.vocabulary.eos_token_ids, allocate_token_bitmask(1, grammar.vocabulary.size)
    for left in range(source.choice([100, 300]) + matcher.min_tokens_to_finish(), 0, -1):
        matcher.fill_next_token_bitmask(mask, max_tokens=left)
        allowed = allowed_tokens(mask)
        assert (ends <= set(allowed)) == matcher.is_accepting() == bool(ends & set(allowed))
        rare = [token for token in allowed if token >= 256]
        printable = [token for token in allowed if 32 <= token < 127]
        token = source.choice(rare if rare and source.random() < 0.4 else printable or allowed)
        if token in ends:
            break
        assert matcher.accept_token(token)
        ids.append(token)
    return ids


def accepts(grammar: CompiledGrammar, ids: list[int]) -> bool:
    matcher = GrammarMatcher(grammar)
    return all(map(matcher.accept_token, ids)) and matcher.is_accepting()


def text_of(ids: list[int]) -> str:
    names = {number: name for name, number in IDS.items()}
    return b"".join(names[token].encode() if token >= 256 else bytes([token]) for token in ids).decode()


CASES = list(product(END_SETS, ("auto", "required", "named"), (True, False), ("disabled", "enabled")))


@pytest.mark.parametrize(("ends", "choice", "parallel", "reasoning"), CASES)
def test_calls_that_end_with_an_end_token(ends: tuple[str, ...], choice: str, parallel: bool, reasoning: str) -> None:
    options = {
        "tool_choice": NAMED if choice == "named" else choice, "parallel_tool_calls": parallel, "reasoning": reasoning,
    }  # fmt: skip
    grammar, source = compile_tag(ends, **options), random.Random(f"{ends} {choice} {parallel} {reasoning}")
    whole, end_ids = compile_tag(("<|endoftext|>",), **options), [IDS[name] for name in ends]
    for _ in range(8):
        ids = draw(grammar, source)
        assert accepts(whole, ids) or any(accepts(whole, [*ids, end]) for end in end_ids)
        text, reader, written = (
            text_of(ids),
            STYLE.reader(TOOLS, reasoning=reasoning, end_tokens=ends),
            dict[int, str](),
        )
        while text:
            size = source.choice([1, 3, 40])
            for part in reader.parts(text[:size]):
                if isinstance(part, CallPart):
                    written[part.index] = written.get(part.index, "") + part.arguments
            text = text[size:]
        for part in reader.finish():
            if isinstance(part, CallPart):
                written[part.index] = written.get(part.index, "") + part.arguments
        assert all(call.complete for call in reader.calls)
        assert written == {call.index: call.arguments for call in reader.calls}
        for call in reader.calls:
            jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])
        assert choice == "auto" or reader.calls
        if not parallel or choice == "named" or "<|call|>" in ends:
            assert len(reader.calls) <= 1
        # conversely: whatever the format allows ends at its first end token, if nothing follows it
        ids = draw(whole, source)
        first = next((at for at, token in enumerate(ids) if token in end_ids), len(ids))
        if first >= len(ids) - 1:
            assert accepts(grammar, ids[:first])


def test_a_call_whose_name_begins_another_ends_with_its_end_token() -> None:
    """It is known only at the end that the name is complete, so the call begins and ends there."""
    functions = [{"type": "function", "function": {"name": name}} for name in ("f", "f2")]
    reader = guided.tool_style("glm_4_7").reader(functions, end_tokens=["</tool_call>"])
    reader.parts("<tool_call>f")
    reader.finish()
    assert [(call.name, call.complete) for call in reader.calls] == [("f", True)]


def test_only_a_call_without_its_end_token_is_complete() -> None:
    begin = '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Os'
    for text, ends, complete in (
        (begin + 'lo"}', ("<|return|>", "<|call|>"), True),
        (begin + 'lo"}', ("<|return|>",), False),
        (begin + 'lo"}', (), False),
        (begin, ("<|call|>",), False),
        (begin + 'lo"', ("<|call|>",), False),
        (begin + 'lo"}<|call|>', (), True),
    ):
        reader = STYLE.reader(TOOLS, end_tokens=ends)
        reader.parts(text)
        reader.finish()
        assert [call.complete for call in reader.calls] == [complete], (text, ends)


def test_any_marker_may_end_with_an_end_token() -> None:
    reader = guided.tool_style("qwen_3").reader(TOOLS, end_tokens=["</tool_call>"])
    reader.parts('<tool_call>\n{"name": "now", "arguments": {}}\n')
    reader.finish()
    assert reader.calls[0].complete
    reader = guided.tool_style("qwen_3").reader(TOOLS, end_tokens=["</tool_call>"])
    reader.parts('<tool_call>\n{"name": "now", "arguments": {}')
    reader.finish()
    assert not reader.calls[0].complete


def test_preambles_are_text_and_analysis_is_not() -> None:
    text = (
        "<|channel|>analysis<|message|>Need to look.<|end|><|start|>assistant<|channel|>commentary<|message|>"
        "Let me check.<|end|><|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
        '{"city": "Oslo"}'
    )
    ends = END_SETS[-1]
    grammar = compile_tag(ends, reasoning="enabled")
    assert accepts(grammar, ids_of(compiler(ends), text))
    for size in (1, 7, 500):
        reader = STYLE.reader(TOOLS, reasoning="enabled", end_tokens=ends)
        for start in range(0, len(text), size):
            reader.parts(text[start : start + size])
        reader.finish()
        assert (reader.text, reader.reasoning) == ("Let me check.", "Need to look.")
        assert [(call.name, call.arguments, call.complete) for call in reader.calls] == [
            ("weather", '{"city": "Oslo"}', True)
        ]
