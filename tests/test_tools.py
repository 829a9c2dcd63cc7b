"""Tools in an engine: calls, forced results, and tools that misbehave."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import wait
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.engine.engine import Engine
from guided.engine.request import Request
from guided.engine.result import ToolCall
from guided.engine.runner import cache_shape
from guided.errors import BudgetError, GuidedError, SpecError, ToolError, VocabularyError
from guided.kv.dense import DenseCache
from guided.kv.paged import PagedCache
from guided.kv.radix import RadixCache
from guided.tools import CALCULATOR, Tool, ToolTokens
from guided.tools.tool import _MAX_RUNNING
from guided.vocabulary import Vocabulary
from tests.effort import examples
from tests.test_tools_calculator import answers, calculator_says
from tests.tool_support import (
    ASKING,
    BEGIN_CALL,
    BEGIN_RESULT,
    CONFIG,
    EAGER,
    END_CALL,
    END_RESULT,
    ENGINE,
    MODEL,
    VOCABULARY,
    engine,
    segments,
)  # fmt: skip

ASK = ToolTokens("<ask>", "</ask>", "<told>", "</told>")
CAPITALS = {"France": "Paris", "Peru": "Lima"}


def look_up(text: str) -> str:
    city = CAPITALS.get(json.loads(text)["country"])
    if city is None:
        raise ToolError("not known")
    return city


SCHEMA = {
    "type": "object",
    "properties": {"country": {"enum": ["France", "Peru", "Atlantis"]}},
    "required": ["country"],
    "additionalProperties": False,
}
LOOK_UP = Tool("capital", guided.json_schema(SCHEMA, whitespace="compact", numbers="plain"), look_up, ASK)


def says(text: str, **options) -> Tool:
    """A tool with a fixed call and a fixed result."""
    return Tool("fixed", "go", lambda _: text, ASK, **options)


def once(tool: Tool, constraint=None, max_tokens=100, **options):
    """An output in which everything except the end is forced: a call, its result, and a mark."""
    constraint = tool.segment + ";" if constraint is None else constraint
    return ENGINE.generate("x", constraint, tools=[tool], max_tokens=max_tokens, **options)


def test_tools_may_come_from_an_iterator():
    listed, iterated = (
        ENGINE.generate("What is 2+2?", tools=tools, seed=1, max_tokens=90, **EAGER)
        for tools in ([CALCULATOR], iter([CALCULATOR]))
    )
    assert listed.tool_calls and (iterated.text, iterated.tool_calls) == (listed.text, listed.tool_calls)


@examples(40)
@given(st.integers(0, 10**6), st.integers(1, 90))
def test_results_are_forced_and_the_model_continues(seed, max_tokens):
    result = ENGINE.generate("What is 2+2?", tools=[CALCULATOR], seed=seed, max_tokens=max_tokens, **EAGER)
    assert len(result.tokens) <= max_tokens
    found = segments(result)
    assert [(call.text, call.result) for call in result.tool_calls] == [(text, said) for text, said, _ in found]
    for text, said, masks in found:
        assert set(masks) == {0}
        answers(text)
        assert said in (CALCULATOR.answer(text), "")
    results = sum(len(masks) for *_, masks in found)
    assert result.token_masks.count(0) >= results  # more if the grammar of a call leaves no choice
    assert VOCABULARY.decode(result.tokens).decode() == result.text
    assert (result.finish_reason == "stop") == (len(result.tokens) < max_tokens - 1)


def test_it_happens_often_enough_to_be_tested():
    results = ENGINE.generate("x", n=20, tools=[CALCULATOR], seed=1, max_tokens=120, **EAGER)
    calls = [call for result in results for call in result.tool_calls]
    assert len(calls) > 20
    assert sum(not call.result.startswith("error") for call in calls) > 10
    after = [result.tokens[result.tokens.index(END_RESULT) + 1 :] for result in results if result.tool_calls]
    assert sum(map(bool, after)) > 5


def test_a_result_enters_in_the_forward_pass_of_the_token_before_it():
    passes = []
    other = engine()
    step = other.scheduler.runner.step
    other.scheduler.runner.step = lambda chunks: passes.append([len(c.tokens) for c in chunks]) or step(chunks)
    constraint = guided.regex("[ab]") + CALCULATOR.segment + guided.regex("[ab]{2}")
    result = other.generate("x", constraint, tools=[CALCULATOR], max_tokens=60, **EAGER, seed=4)
    ((text, said, masks),) = segments(result)
    call = result.tokens.index(END_CALL)
    assert result.token_masks[call] == 1
    assert [1 + len(masks)] in passes
    assert sum(n for (n,) in passes) <= 1 + len(result.tokens)
    assert result.tool_calls == [ToolCall("calculator", text, said)]


def beside_each_other(other, prompts, **options):
    """The results of requests that all take part in the first step. Else one may end before another is compiled."""
    groups = [other.tasks(Request(prompt, options=options)) for prompt in prompts]
    wait([task.future for (task,) in groups])
    done = {task: event.result for task, event in other.driver.events(groups) if event.result is not None}
    return [done[task] for (task,) in groups]


@pytest.mark.parametrize("cache", [DenseCache, PagedCache, RadixCache])
def test_batch_composition_samples_and_preemption_change_nothing(cache):
    tools = [CALCULATOR, replace(LOOK_UP, seconds=None)]  # a deadline may pass if other programs keep the machine busy
    options = {**EAGER, "tools": tools, "max_tokens": 60}
    prompts = ["x", "What is 1+2?", "x", "capital?"]
    alone = [ENGINE.generate(prompt, seed=7, **options) for prompt in prompts]
    assert sum(len(result.tool_calls) for result in alone) > 3
    shape = cache_shape(MODEL)
    if cache is DenseCache:
        small = engine(cache=DenseCache(shape, 160), token_budget=7)
    else:
        small = engine(cache=cache(shape, 7, 16) if cache is PagedCache else cache(shape, 100), token_budget=7)
    together = beside_each_other(small, prompts, seed=7, **options)
    assert [(r.tokens, r.token_masks, r.tool_calls) for r in together] == [
        (r.tokens, r.token_masks, r.tool_calls) for r in alone
    ]
    assert cache is DenseCache or small.scheduler.preemptions > 0
    samples = ENGINE.generate("x", n=5, seed=20, **options)
    for sample in samples:
        assert ENGINE.generate("x", seed=sample.seed, **options).tokens == sample.tokens
    events = list(ENGINE.stream("x", seed=21, **options))
    assert [t for e in events for t in e.tokens] == samples[1].tokens
    assert [int(not e.forced) for e in events for _ in e.tokens] == samples[1].token_masks


def test_other_tools_register_the_same_way():
    calls = set()
    for seed in range(6):
        result = ENGINE.generate("x", tools=[CALCULATOR, LOOK_UP], seed=seed, max_tokens=120, **EAGER)
        asked = segments(result, tokens=ASKING)
        assert len(asked) + len(segments(result)) == len(result.tool_calls)
        for text, said, _ in asked:
            country = json.loads(text)["country"]
            assert said in (CAPITALS.get(country, "error: not known"), "")
            calls.add(country)
    assert len(calls) > 1


def test_tools_inside_of_a_constraint():
    constraint = "[" + guided.choice(*(LOOK_UP.segment + f" {i}" for i in range(2))) + "] " + guided.regex("[0-9]{2}")
    result = ENGINE.generate("x", constraint, tools=[LOOK_UP], max_tokens=60, seed=3, temperature=1.0)
    (call,) = result.tool_calls
    assert result.text.startswith(f"[{call.text}{call.result} ")
    assert result.text[-2:].isdigit()
    compiled = ENGINE.compiler.compile(constraint, **guided.JsonSchemaOptions.for_generation().non_defaults())
    assert ENGINE.generate("x", compiled, tools=[LOOK_UP], max_tokens=60, seed=3, temperature=1.0).text == result.text


def test_a_call_that_is_forced_is_run_at_once():
    result = once(says("the 12 "))
    assert result.text == "gothe 12 ;"
    assert set(result.token_masks) == {0}
    assert result.timings.forward == []  # the model was never asked
    twice = once(says("a"), says("a").segment + says("a").segment)
    assert [call.result for call in twice.tool_calls] == ["a", "a"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda text: text + "!", "go!"),
        (lambda text: 1 / 0, "error: division by zero"),
        (lambda text: int(text), "error: invalid literal for int() with base 10: 'go"),
        (lambda text: [][0], "error: list index out of range"),
        (lambda text: exec_exit(), "error: SystemExit"),
        (lambda text: raise_(Unspeakable()), "error: Unspeakable"),
        (lambda text: 4, "error: the tool returned a int, not text"),
        (lambda text: "a" * 51, "error: the result has 51 characters, more than 50"),
        (lambda text: "a" * 50, "a" * 50),
        (lambda text: raise_(ToolError("b" * 200)), "error: " + "b" * 43),
        (lambda text: "\ud800", "?"),
        (lambda text: "", ""),
        (lambda text: "<|python_end|><told></told>", "<|python_end|><told></told>"),
        (lambda text: recurse(text), "error: maximum recursion depth exceeded"),
    ],
)
@pytest.mark.parametrize("seconds", [None, 5.0])
def test_every_outcome_of_a_tool_is_a_result(call, said, seconds):
    result = once(Tool("t", "go", call, ASK, seconds=seconds, max_characters=50))
    assert result.text.startswith(f"go{said}")
    assert result.text.endswith(";")
    assert result.tool_calls[0].result.startswith(said)
    (segment,) = segments(result, tokens=ASKING)  # it has no control tokens inside
    assert segment[1] == result.tool_calls[0].result


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no")


def raise_(error):
    raise error


def exec_exit():
    raise SystemExit


def recurse(text):
    return recurse(text)


def test_deadlines_hold_on_any_thread():
    go_on = threading.Event()
    slow = Tool("slow", "go", lambda _: (go_on.wait(20) and "late") or "", ASK, seconds=0.05)
    results = []

    def run():
        results.append(once(slow).text)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    run()
    assert results == ["goerror: no result within 0.05 s;"] * 2
    go_on.set()


def test_calls_that_nobody_waits_for_are_bounded():
    go_on = threading.Event()
    stuck = Tool("stuck", "go", lambda _: str(go_on.wait(30)), ASK, seconds=0.001)
    said = [stuck.answer("go") for _ in range(_MAX_RUNNING + 1)]
    assert said[-1] == f"error: {_MAX_RUNNING} calls are still running"
    go_on.set()
    patient, end = replace(stuck, seconds=60.0), time.monotonic() + 60
    while (answer := patient.answer("go")) != "True":
        assert time.monotonic() < end and answer == said[-1]
        time.sleep(0.01)


def test_without_room_the_result_is_empty():
    tool = says("the answer", seconds=None)
    long = once(tool)
    assert long.tool_calls[0].result == "the answer"
    needed = len(long.tokens)
    assert once(tool, max_tokens=needed).text == long.text
    short = once(tool, max_tokens=needed - 1)
    assert short.text == "go;"
    assert short.tool_calls == [ToolCall("fixed", "go", "")]
    assert [t for t in short.tokens if t in ASKING] == ASKING
    least = 2 + len(ASKING) + 1
    assert once(tool, max_tokens=least).text == "go;"
    with pytest.raises(BudgetError, match=f"has {least} tokens"):
        once(tool, max_tokens=least - 1)


@examples(40)
@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(0, 60))
def test_a_call_leaves_room_for_its_result(seed, room, more):
    """A model that never ends a call by itself is led to its end while there is space for a result."""
    tool = replace(CALCULATOR, reserved_tokens=room)
    options = {"temperature": 1.0, "logit_bias": {END_CALL: -50.0}, "seed": seed}
    least = 1 + 1 + 4 + 1  # a letter, the call of one digit, a letter
    constraint = "x" + tool.segment + "y"
    result = ENGINE.generate("x", constraint, tools=[tool], max_tokens=least + more, **options)
    (call,) = result.tool_calls
    kept = len(result.tokens) - result.tokens.index(END_CALL) - 1
    left = least + more - result.tokens.index(END_CALL) - 1
    assert left >= 2 + 1 + min(room, more)
    said = CALCULATOR.answer(call.text)
    assert call.result == (said if len(VOCABULARY.encode(said)) + 3 <= left else "")
    assert kept <= left


def test_results_that_the_vocabulary_cannot_spell():
    letters = [bytes([b]) for b in b"goaernt: hvcbuylspi"]
    names = {len(letters) + 1 + i: name for i, name in enumerate(ASK)}
    small = Vocabulary(letters, eos_token_ids=[len(letters)], special_tokens=names)
    other = Engine(MODEL, small)
    tool = says("12")
    result = other.generate("go", tool.segment, tools=[tool])
    assert result.text == "goerror: the vocabulary cannot spell the result"
    poor = Engine(MODEL, Vocabulary([b"g", b"o"], eos_token_ids=[2], special_tokens=dict(enumerate(ASK, 3))))
    assert poor.generate("go", tool.segment, tools=[tool]).text == "go"


def test_weights_leave_results_out():
    tool = says("12the", seconds=None)
    result = once(tool, "ab" + tool.segment + "cd", score_forced=True)
    ids = ENGINE.encode_prompt("x")
    logits = ENGINE.logits([*ids, *result.tokens], keep=len(result.tokens) + 1).double().log_softmax(-1)
    given = range(result.tokens.index(ASKING[2]), result.tokens.index(ASKING[3]) + 1)
    ends = sorted(VOCABULARY.eos_token_ids)
    expected = -sum(
        float(row[t]) for at, (row, t) in enumerate(zip(logits, result.tokens, strict=False)) if at not in given
    )
    assert result.removed_log_mass == pytest.approx(expected - float(logits[-1, ends].logsumexp(0)), abs=1e-3)


def test_bans_are_about_what_the_model_chooses():
    tool = says("ab", seconds=None)
    allowed = [*range(256), *ASKING[:2], 256]
    result = once(tool, bad_words=[[ord("a"), ord("b")]], allowed_token_ids=allowed)
    assert result.text == "goab;"


def test_a_grammar_without_a_place_for_the_result_fails_closed():
    open_end = guided.special("<ask>") + "go" + guided.special("</ask>") + guided.regex("[xy]")
    with pytest.raises(GuidedError, match="does not allow the result of 'fixed' after its call"):
        once(says("a"), open_end)
    digits = guided.special("<told>") + guided.regex("[0-9]") + guided.special("</told>")
    with pytest.raises(GuidedError, match="does not allow the result"):
        once(says("a"), guided.special("<ask>") + "go" + guided.special("</ask>") + digits)


def test_a_model_never_writes_a_result():
    forged = guided.regex("[xy]") + guided.special("<told>") + guided.regex("[xy]") + guided.special("</told>")
    with pytest.raises(GuidedError, match="lets the model write the result of a tool"):
        once(says("a"), forged)
    nested = Tool("outer", says("a").segment, lambda text: text)
    with pytest.raises(GuidedError, match="lets the model write the result of a tool"):
        ENGINE.generate("x", nested.segment, tools=[nested, says("a")], max_tokens=60)


@pytest.mark.parametrize(
    ("tools", "constraint", "error", "message"),
    [
        ([CALCULATOR], {"type": "object"}, GuidedError, "a constraint of type dict cannot contain tool calls"),
        ([CALCULATOR], "[0-9]+", GuidedError, "a constraint of type str cannot contain"),
        ([CALCULATOR], int, GuidedError, "cannot contain tool calls"),
        ([CALCULATOR, CALCULATOR], None, GuidedError, "two tools have the name 'calculator'"),
        (
            [CALCULATOR, replace(CALCULATOR, name="b")],
            None,
            GuidedError,
            "'calculator' and 'b' begin with the same token",
        ),
        (["calculator"], None, GuidedError, "'calculator' is not a tool"),
        ([replace(LOOK_UP, tokens=ToolTokens("<a>", "b", "c", "d"))], None, VocabularyError, "no control token '<a>'"),
        ([replace(LOOK_UP, tokens=ToolTokens(7, 8, 9, 10))], None, VocabularyError, "no control token 7"),
        ([replace(LOOK_UP, tokens=ToolTokens(261, 262, 263, 256))], None, VocabularyError, "token 256 ends the output"),
        ([replace(LOOK_UP, arguments=guided.rule("a"))], None, SpecError, "rule 'a' is not defined"),
    ],
)
def test_refusals_come_before_anything_runs(monkeypatch, tools, constraint, error, message):
    monkeypatch.setattr("guided.engine.runner.ModelRunner.step", lambda *_: pytest.fail("ran the model"))
    with pytest.raises(error, match=message):
        ENGINE.generate("x", constraint, tools=tools)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"seconds": 0}, "seconds is 0, but must be greater than 0"),
        ({"seconds": -1.0}, "greater than 0 and less than"),
        ({"seconds": float("inf")}, "seconds is inf, but must be greater than 0 and less than [0-9]+, or None"),
        ({"max_characters": 0}, "max_characters is 0, but must be finite and at least 1"),
        ({"max_characters": float("inf")}, "max_characters is inf, but must be finite"),
        ({"reserved_tokens": -1}, "must not be negative"),
    ],
)
def test_numbers_of_a_tool(options, problem):
    with pytest.raises(ValueError, match=problem):
        says("a", **options)


def test_ids_may_stand_for_names():
    tool = replace(says("a"), tokens=ToolTokens(*ASKING))
    assert once(tool).text == "goa;"


class Wider:
    """The character-level model with more logits than characters: the model reads new tokens as line ends."""

    def __init__(self, model, size: int, likely: int) -> None:
        self.inner, self.likely = model, likely
        self.config = replace(model.config, vocab_size=size)
        self.dtype, self.device = model.dtype, model.device

    def forward(self, tokens, positions, attend):
        return self.inner.forward(torch.where(tokens < 65, tokens, 0), positions, attend)

    def logits(self, hidden):
        known = self.inner.logits(hidden)[:, :65]
        new = torch.full((len(known), self.config.vocab_size - 65), -20.0)
        new[:, self.likely - 65] = known.max(-1).values - 1
        return torch.cat([known, new], 1)


def test_a_model_that_has_learned_its_text_calls():
    pytest.importorskip("safetensors")
    learned = Engine.from_pretrained("shakespeare", dtype="float32")
    tokens = [learned.vocabulary.token_bytes(id) for id in range(65)]
    vocabulary = Vocabulary(tokens, eos_token_ids=[65], special_tokens=dict(enumerate(ASK, 66)))
    wide = Engine(Wider(learned.model, 70, likely=66), vocabulary)
    speaker = Tool("born", guided.regex("(?:ROMEO|JULIET)"), lambda name: f"in Verona, {name}", ASK)
    results = wide.generate("ROMEO:\n", n=4, tools=[speaker], temperature=0.8, seed=1, max_tokens=120)
    calls = [call for result in results for call in result.tool_calls]
    assert len(calls) > 3
    assert all(call.result in (f"in Verona, {call.text}", "") for call in calls)
    for result in results:
        assert [(text, said) for text, said, _ in segments(result, vocabulary, (66, 67, 68, 69))] == [
            (call.text, call.result) for call in result.tool_calls
        ]


def test_context_is_never_exceeded():
    prompt = "x" * (CONFIG.context - 30)
    for seed in range(5):
        result = ENGINE.generate(prompt, tools=[CALCULATOR], seed=seed, max_tokens=500, **EAGER)
        assert len(result.tokens) <= 30
        for call in result.tool_calls:
            assert call.result in (CALCULATOR.answer(call.text), "")


def test_the_calculators_result_is_forced():
    constraint = CALCULATOR.segment
    result = ENGINE.generate("x", constraint, tools=[CALCULATOR], seed=2, max_tokens=200, temperature=1.0)
    (call,) = result.tool_calls
    assert call.result == (calculator_says(call.text) or CALCULATOR.answer(call.text))
    assert [t for t in result.tokens if t > 256 and t < 261] == [BEGIN_CALL, END_CALL, BEGIN_RESULT, END_RESULT]
