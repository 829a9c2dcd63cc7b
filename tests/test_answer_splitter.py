"""An answer in pieces has the same parts as the answer in one piece, for `Engine.chat` and for the server, in every
style.
"""

from __future__ import annotations

import codecs
import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")

import guided
from guided.engine.agent import events
from guided.engine.agent.answer_reader import AnswerReader
from guided.engine.answer_splitter import AnswerSplitter
from guided.engine.result import Result, StreamEvent, Timings
from guided.engine.token_text import AnswerDecoder
from guided.frontends.structural_tag.call_ids import CallIds
from guided.frontends.structural_tag.calls import CallPart
from guided.server.openai import deltas
from guided.server.openai.conversations import _make_answer_splitter as make_splitter
from guided.server.openai.tools import Functions
from guided.vocabulary import Vocabulary
from tests.effort import every
from tests.structural_tag_support import compiler_with, ids_of, walk
from tests.test_structural_tag_styles import CASES, TOOLS

END = "END!"
Parts = tuple[str, str, list[tuple[str, str]]]
"""The reasoning, the text, and the names and arguments of the calls."""


def as_events(
    vocabulary: Vocabulary, reasoning: Sequence[int], answer: Sequence[int], source: random.Random, most: int
) -> list[StreamEvent]:
    """The events of an engine, which withhold incomplete characters."""
    out, decoder = list[StreamEvent](), codecs.getincrementaldecoder("utf-8")("replace")
    for ids, is_reasoning in ((reasoning, True), (answer, False)):
        at = 0
        while at < len(ids):
            piece = ids[at : at + source.randint(1, most)]
            out.append(StreamEvent(tuple(piece), decoder.decode(vocabulary.decode(piece)), reasoning=is_reasoning))
            at += len(piece)
    result = Result("", [], [], "stop", Timings(), [], 0.0, 0, 0)
    return [*out, StreamEvent((), decoder.decode(b"", final=True), result=result)]


def read_by_agent(split: Callable[[], AnswerSplitter], said: Sequence[StreamEvent]) -> Parts:
    reader = AnswerReader(split(), CallIds())
    text, reasoning, calls = "", "", dict[str, list[str]]()
    for event in said:
        for delta in reader.read(event):
            match delta:
                case events.TextDelta(more):
                    text += more
                case events.ReasoningDelta(more):
                    reasoning += more
                case events.CallStarted(id, name):
                    calls[id] = [name, ""]
                case events.CallArguments(id, more):
                    calls[id][1] += more
    assert (reader.text, reader.reasoning) == (text, reasoning)
    for call in reader.calls:
        assert calls[call.id] == [call.name, call.text or calls[call.id][1]]  # a call that is cut off has no text
    return reasoning, text, [(name, arguments) for name, arguments in calls.values()]


def read_by_server(split: Callable[[], AnswerSplitter], said: Sequence[StreamEvent], vocabulary: Vocabulary) -> Parts:
    reading = deltas.SampleReader(deltas.ReadingOptions(make_splitter=split))
    text, reasoning, calls = "", "", list[list[str]]()
    for event in said:
        for delta in reading.read(event):
            match delta:
                case deltas.TextDelta(more):
                    text += more
                case deltas.ReasoningDelta(more):
                    reasoning += more
                case deltas.CallBegin(index, _, name):
                    assert index == len(calls)
                    calls.append([name, ""])
                case deltas.CallArguments(index, more):
                    calls[index][1] += more
    assert (reading.text, reading.reasoning) == (text, reasoning)
    assert [[call.name, call.arguments] for call in reading.calls] == calls
    if split().decoder is not None:
        names = {id: name.encode() for id, name in vocabulary.special_tokens.items()}
        spelled = (names.get(token.id) or vocabulary.decode([token.id]) for token in reading.tokens if token.is_text)
        assert b"".join(spelled).decode("utf-8", "replace") == text
    return reasoning, text, [(name, arguments) for name, arguments in calls]


def check(
    split: Callable[[], AnswerSplitter],
    vocabulary: Vocabulary,
    answer: Sequence[int],
    source: random.Random,
    reasoning: Sequence[int] = (),
) -> Parts:
    """Check that the parts of an answer are the same for both users, in one piece and in several."""
    whole = read_by_agent(split, as_events(vocabulary, reasoning, answer, source, 100_000))
    for most in (100_000, 1, 3, 20):
        said = as_events(vocabulary, reasoning, answer, source, most)
        assert read_by_agent(split, said) == read_by_server(split, said, vocabulary) == whole
    return whole


@pytest.mark.parametrize(
    ("name", "special", "reasoning"),
    every(3, [(*case, reasoning) for case in CASES for reasoning in ("disabled", "enabled")], unpack=True),
)
def test_answers_with_calls(name: str, special: tuple[str, ...], reasoning: Any) -> None:
    style, compiler = guided.tool_style(name), compiler_with(*special)
    source = random.Random(f"{name} {reasoning} {len(special)}")

    def split() -> AnswerSplitter:
        return AnswerSplitter(
            AnswerDecoder(compiler.vocabulary), style.reader(TOOLS, reasoning=reasoning), has_stops=True
        )

    for choice in ("auto", "required", "auto"):
        tag = style.structural_tag(TOOLS, tool_choice=choice, reasoning=reasoning)
        grammar = compiler.compile_structural_tag(tag, allow_special_tokens=True, numbers="plain", max_digits=20)
        answer = [id for piece in walk(compiler, grammar, source, 300) for id in ids_of(compiler, piece)]
        parts = check(split, compiler.vocabulary, answer, source)
        assert parts[2] or choice == "auto"
        check(split, compiler.vocabulary, answer[: source.randint(0, len(answer))], source)  # cut off by the budget


def test_answers_that_are_either_text_or_calls() -> None:
    style, compiler, source = (
        guided.tool_style("qwen_3"),
        compiler_with("<tool_call>", "</tool_call>"),
        random.Random(1),
    )

    def split() -> AnswerSplitter:
        return AnswerSplitter(AnswerDecoder(compiler.vocabulary), style.reader(TOOLS, mixed=False), has_stops=True)

    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    for text, calls in (
        ('{"a": "é"} ', 0),
        (call, 1),
        (f"{call}\n{call}", 2),
        (f"x {call}", 0),
        ("<tool_", 0),
        ("", 0),
    ):
        _, found, made = check(split, compiler.vocabulary, ids_of(compiler, text), source)
        assert (found, made) == ("" if calls else text, [("now", "{}")] * calls)


@pytest.mark.parametrize("thought", ["", "a", "EN ENEND", "E", "END", "ENDEND", "é END"])
def test_reasoning_before_the_answer(thought: str) -> None:
    compiler, source = compiler_with(), random.Random(thought)
    said = ids_of(compiler, thought + END)
    split = partial(AnswerSplitter, reasoning_end=END)
    assert check(split, compiler.vocabulary, ids_of(compiler, "\n Yes. "), source, said) == (thought, "\n Yes. ", [])


def test_a_call_that_ends_with_an_end_token() -> None:
    """The engine's events do not contain end tokens."""
    names = ("<|call|>", "<|channel|>", "<|message|>", "<|constrain|>")
    special = {256 + number: name for number, name in enumerate(names)}
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256], special_tokens=special)
    text = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}"
    ids = [256 + names.index(piece) if piece in names else ord(piece)
           for piece in re.split(f"({'|'.join(map(re.escape, names))}|.)", text) if piece]  # fmt: skip

    def split() -> AnswerSplitter:
        functions: Any = Functions(guided.tool_style("harmony"), TOOLS, None, False, False)  # type: ignore[arg-type]
        return make_splitter(vocabulary, functions, (), AnswerSplitter)

    for most in (1, 5, 100):
        said = as_events(vocabulary, [], ids, random.Random(most), most)
        splitter = split()
        last_part = [part for event in said for part in splitter.read(event)][-1]
        assert isinstance(last_part, CallPart) and last_part.ends
        assert read_by_agent(split, said) == ("", "", [("now", "{}")])
        assert read_by_server(split, said, vocabulary) == ("", "", [("now", "{}")])
