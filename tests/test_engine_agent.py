"""`Engine.chat`: functions are called with typed arguments, in every style, until the model answers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("docstring_parser", reason="docstring_parser is not installed")

import guided  # noqa: E402
from guided.chat import ChatTemplate, Conversation  # noqa: E402
from guided.chat.template import CHATML  # noqa: E402
from guided.engine.agent.chat_methods import ChatMethods  # noqa: E402
from guided.engine.result import Result, StreamEvent, Timings  # noqa: E402
from guided.matching.constraint import compile_constraint  # noqa: E402
from tests.effort import draws, examples  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

NAMES = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
VOCABULARY = guided.Vocabulary(
    [*(bytes([byte]) for byte in range(256)), *[None] * len(NAMES)],
    eos_token_ids=[257],
    special_tokens=dict(enumerate(NAMES, 256)),
)


class Scripted(ChatMethods):
    """An engine whose model writes given messages. Each must satisfy the constraint of its request."""

    def __init__(self, *messages: str, size: int = 3) -> None:
        self.vocabulary, self.chat_template = VOCABULARY, ChatTemplate(VOCABULARY, CHATML)
        self.compiler = guided.GrammarCompiler(VOCABULARY)
        self.messages, self.size, self.prompts, self.open = list(messages), size, [], 0

    def stream(self, prompt: Any, constraint: Any = None, **options: Any) -> Iterator[StreamEvent]:
        self.prompts.append(VOCABULARY.decode(self.chat_template.render(prompt)).decode())
        text = self.messages.pop(0)
        ids = VOCABULARY.encode_with_special(text)
        grammar = compile_constraint(self.compiler, constraint)
        if grammar is not None:
            matcher = guided.GrammarMatcher(grammar)
            assert matcher.validate_tokens(ids) == len(ids), VOCABULARY.decode(ids[: matcher.validate_tokens(ids)])
            for id in ids:
                matcher.accept_token(id)
            assert matcher.is_accepting(), text
        self.open += 1
        try:
            for at in range(0, len(ids), self.size):
                piece = ids[at : at + self.size]
                yield StreamEvent(tuple(piece), VOCABULARY.decode(piece).decode())
            result = Result(VOCABULARY.decode(ids).decode(), ids, [1] * len(ids), "stop", Timings(), [], 0.0, 0, 1)
            yield StreamEvent((), "", result=result)
        finally:
            self.open -= 1

    async def astream(self, prompt: Any, constraint: Any = None, **options: Any) -> AsyncGenerator[StreamEvent, None]:
        for event in self.stream(prompt, constraint, **options):
            yield event


class Place(BaseModel):
    city: str
    days: int = 1


@dataclass
class Range:
    low: int
    high: int


SEEN: list[Any] = []


def forecast(place: Place, unit: Literal["C", "F"] = "C") -> str:
    """The weather of the next days.

    Args:
        place: where, and
            for how long
        unit: of the temperature
    """
    SEEN.append((place, unit))
    return f"{place.days} days of rain in {place.city}"


def between(limits: Range, /, *, even: bool) -> list[int]:
    """Numbers in a range.

    :param limits: the range
    """
    SEEN.append((limits, even))
    return [number for number in range(limits.low, min(limits.high, limits.low + 9)) if number % 2 == (not even)]


def fail(why: str) -> str:
    SEEN.append(why)
    raise ValueError(why)


def call(name: str, arguments: Any, marked: bool = True) -> str:
    text = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{text}\n</tool_call>" if marked else f"{text}\n</tool_call>"


@pytest.fixture(autouse=True)
def forget() -> None:
    SEEN.clear()


RAIN = call("forecast", {"place": {"city": "Oslo", "days": 2}, "unit": "F"})


def test_a_function_is_called_and_the_model_reads_its_result():
    engine = Scripted(f"Let me see.\n{RAIN}", "It rains.")
    result = engine.chat("Weather?", tools=[forecast, between])
    assert [(Place(city="Oslo", days=2), "F")] == SEEN
    assert result.text == "It rains." and result.value is None and result.finish_reason == "stop"
    question, asked, returned, answer = result.messages
    assert question == {"role": "user", "content": "Weather?"}
    assert asked["content"] == "Let me see." and answer == {"role": "assistant", "content": "It rains."}
    [written] = asked["tool_calls"]
    assert written["function"]["name"] == "forecast" and json.loads(written["function"]["arguments"])["unit"] == "F"
    assert returned == {
        "role": "tool", "tool_call_id": written["id"], "name": "forecast", "content": "2 days of rain in Oslo",
    }  # fmt: skip
    assert result.tool_calls[0].value == returned["content"] and len(result.results) == 2
    assert "for how long" in engine.prompts[0] and "of the temperature" in engine.prompts[0]
    assert "2 days of rain in Oslo" in engine.prompts[1]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_together_are_the_result(size: int):
    engine = Scripted(
        f"Both.\n{RAIN}\n{call('between', {'limits': {'low': 1, 'high': 5}, 'even': True})}", "ok", size=size
    )
    events = list(engine.stream_chat("?", tools=[forecast, between]))
    done = events[-1]
    assert isinstance(done, guided.ChatDone) and not engine.open
    texts = [event.text for event in events if isinstance(event, guided.TextDelta)]
    assert "".join(texts) == "Both.ok"
    for made in done.result.tool_calls:
        parts = [event for event in events if isinstance(event, guided.CallArguments) and event.id == made.id]
        assert "".join(part.text for part in parts) == made.text and parts[-1].partial == json.loads(made.text)
        assert sum(isinstance(event, guided.CallStarted) and event.id == made.id for event in events) == 1
        assert [
            event.call for event in events if isinstance(event, guided.CallResult) and event.call.id == made.id
        ] == [made]
    assert [made.result for made in done.result.tool_calls] == ["2 days of rain in Oslo", "[1, 3]"] or SEEN[1][1]
    assert SEEN[1] == (Range(1, 5), True)


def test_calls_have_the_ids_that_the_model_writes():
    arguments = '{"place": {"city": "Oslo", "days": 2}, "unit": "F"}'

    def kimi(*numbers: int) -> str:
        begin, middle = "<|tool_call_begin|>functions.forecast:", "<|tool_call_argument_begin|>"
        calls = "".join(f"{begin}{number}{middle}{arguments}<|tool_call_end|>" for number in numbers)
        return f"<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>"

    engine = Scripted(kimi(0, 7), kimi(0), "It rains.")
    result = engine.chat("?", tools=[forecast], tool_style="kimi", repeats=True)
    ids = [f"functions.forecast:{number}" for number in (0, 7, 2)]  # the repeated 0 becomes the number of the call
    assert [made.id for made in result.tool_calls] == ids
    assert [message["tool_call_id"] for message in result.messages if message["role"] == "tool"] == ids


def test_the_model_reads_an_exception():
    engine = Scripted(call("fail", {"why": "no such city"}), "Sorry.")
    result = engine.chat("?", tools=[fail])
    assert result.tool_calls[0].result == "error: ValueError: no such city" and isinstance(
        result.tool_calls[0].error, ValueError
    )
    assert "error: ValueError: no such city" in engine.prompts[1]


def test_calls_without_their_marker_are_calls():
    for text in (
        call("forecast", {"place": {"city": "Oslo"}}, marked=False),
        '```json\n{\n  "name": "forecast",\n  "arguments": {"place": {"city": "Oslo"}}}\n</tool_call>',
    ):
        SEEN.clear()
        result = Scripted(text, "Rain.").chat("?", tools=[forecast])
        assert [(Place(city="Oslo"), "C")] == SEEN and result.messages[1]["content"] == ""


def test_repeated_calls_run_once_and_end_the_calls():
    engine = Scripted(RAIN, RAIN, "It rains.")
    result = engine.chat([{"role": "user", "content": "Weather?"}], tools=[forecast])
    assert len(SEEN) == 1 and len(result.tool_calls) == 2 and result.text == "It rains."
    assert {made.result for made in result.tool_calls} == {"2 days of rain in Oslo"}
    last = engine.prompts[-1]
    assert "2 days of rain in Oslo" in last and "<tools>" not in last and last.count("im_start") <= 3
    SEEN.clear()
    both = Scripted(f"{RAIN}\n{call('fail', {'why': 'x'})}\n{RAIN}", "It rains.").chat(
        "Weather?", tools=[forecast, fail]
    )
    assert len(SEEN) == 2 and [made.result for made in both.tool_calls[::2]] == ["2 days of rain in Oslo"] * 2
    assert sorted(message["tool_call_id"] for message in both.messages if message["role"] == "tool") == sorted(
        made.id for made in both.tool_calls
    )
    SEEN.clear()
    engine = Scripted(RAIN, RAIN, RAIN, "It rains.")
    engine.chat("Weather?", tools=[forecast], repeats=True)
    assert len(SEEN) == 3


def test_rounds_are_limited():
    cities = [call("forecast", {"place": {"city": city}}) for city in ("Oslo", "Lima", "Rome")]
    engine = Scripted(*cities[:2], "Done.")
    result = engine.chat("?", tools=[forecast], max_rounds=2)
    assert len(result.tool_calls) == 2 and result.text == "Done." and "<tools>" not in engine.prompts[2]
    engine, plain = Scripted("Hi."), Scripted("Hi.")
    assert engine.chat("?", tools=[forecast], max_rounds=0).text == plain.chat("?").text == "Hi."
    assert engine.prompts == plain.prompts


def test_the_answer_has_a_value_of_its_type():
    engine = Scripted(RAIN, '{"city": "Oslo", "days": 3}')
    result = engine.chat("?", tools=[forecast], constraint=Place)
    assert result.value == Place(city="Oslo", days=3)
    assert Scripted('{"a": 1}').chat("?", tools=[forecast], constraint={"properties": {"a": {}}}).value == {"a": 1}
    with pytest.raises(guided.SpecError, match="JSON Schema or a type"):
        Scripted().chat("?", tools=[forecast], constraint="[a-z]+")


def test_coroutines_run_at_once_and_functions_on_threads():
    both = asyncio.Event()
    names = list[str]()

    async def first(a: int) -> int:
        """Wait for the second."""
        await both.wait()
        return a + 1

    async def second(a: int) -> int:
        """Let the first function continue."""
        both.set()
        return a + 2

    def third(a: int) -> int:
        """Run on a thread."""
        names.append(threading.current_thread().name)
        return a + 3

    script = "\n".join(call(name, {"a": 1}) for name in ("first", "second", "third"))

    async def body() -> guided.ChatResult:
        return await Scripted(script, "ok").achat("?", tools=[first, second, third])

    result = asyncio.run(asyncio.wait_for(body(), 30))
    assert [made.value for made in result.tool_calls] == [2, 3, 4] and names != [threading.main_thread().name]
    with pytest.raises(guided.OptionError, match="first is a coroutine function: call achat"):
        Scripted("x").chat("?", tools=[first])


@pytest.mark.parametrize(
    ("tools", "options", "message"),
    [
        ([3], {}, "is not a function that a model can call"),
        ([lambda a: a], {}, "has no valid tool name"),
        ([forecast, forecast], {}, "is taken by an earlier tool"),
        ([forecast], {"tool_choice": "maybe"}, "there is no tool_choice 'maybe'"),
        ([forecast], {"max_rounds": -1}, "max_rounds is -1"),
        ([forecast], {"parallel": 1}, "parallel is 1"),
        ([forecast], {"tool_style": "qwen3"}, "there is no tool style"),
        ([forecast], {"tool_style": ""}, "there is no tool style"),
        ([forecast], {"tool_style": 3}, "tool_style is 3, but must be a name in guided.TOOL_STYLES"),
        ([forecast], {"tool_style": "harmony", "constraint": Place}, "consist of several messages"),
        ([forecast, guided.CALCULATOR], {}, "cannot be combined with functions"),
    ],
)
def test_refusals(tools: Sequence[Any], options: dict[str, Any], message: str):
    with pytest.raises(guided.GuidedError, match=message):
        Scripted("x").chat("?", tools=tools, **options)
    with pytest.raises(TypeError, match="did you mean 'max_rounds'"):
        Scripted("x").chat("?", max_round=3)
    with pytest.raises(TypeError, match=r"tools is <function forecast at .*>, but must be a list"):
        Scripted("x").chat("?", tools=forecast)


@pytest.mark.parametrize("style", ["qwen_3", "llama", "qwen_3_coder", "glm_4_7", "minimax", "kimi"])
def test_real_engines_call_in_every_style(style: str):
    """With random weights, everything that the constraint does not force is noise, and functions are called anyway."""
    engine = small_engine(6000, more=("<tool_call>", "</tool_call>"))
    for seed in range(draws(3)):
        result = engine.chat(
            "Go.", tools=[forecast, between], tool_choice="required", tool_style=style, max_rounds=1, seed=seed,
            temperature=1.0, max_tokens=400, max_string=20,
        )  # fmt: skip
        assert (
            result.tool_calls
            and len(SEEN) == len(result.tool_calls)
            and not any(made.error for made in result.tool_calls)
        )
        SEEN.clear()


@examples(60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5
    )
)
def test_results_are_text(value: Any):
    def give() -> Any:
        """Give something."""
        return value

    result = Scripted(call("give", {}), "ok").chat("?", tools=[give])
    text = result.tool_calls[0].result
    expected = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    assert text == expected.encode("utf-8", "replace").decode()


def test_settings_of_the_conversation():
    history = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call00001", "type": "function", "function": {"name": "forecast", "arguments": "{}"}}
        ]},
        {"role": "tool", "tool_call_id": "call00001", "name": "forecast", "content": "rain"},
        {"role": "user", "content": "And now?"},
    ]  # fmt: skip
    result = Scripted(RAIN, RAIN.replace("Oslo", "Lima"), "ok").chat(Conversation(history), tools=[forecast])
    ids = [call["id"] for message in result.messages for call in message.get("tool_calls", ())]
    assert len(set(ids)) == len(ids) == 3 and len(history) == 4
    for wrong, message in (
        (Conversation(history, continue_final_message=True, add_generation_prompt=False), "begins a new message"),
        (Conversation(history, tools=[{"type": "function"}]), "second argument"),
        (["q"], "'q' is not a message"),
        (b"x", "messages must be a string or a list"),
        ([], "messages must be a string or a list"),
    ):
        with pytest.raises(guided.GuidedError, match=message):
            Scripted("x").chat(wrong, tools=[forecast])
    with pytest.raises(guided.OptionError, match="registry cannot be combined with tools"):
        Scripted("x").chat("?", tools=[forecast], registry={})
    with pytest.raises(guided.OptionError, match="max_rounds is 0"):
        Scripted("x").chat("?", tools=[forecast], tool_choice="required", max_rounds=0)


def test_prompts_do_not_repeat_the_documents_of_quotations():
    def cite(source: Annotated[str, guided.Quote({"report": "It rained in Oslo."})]) -> str:
        """Cite the report."""
        return source

    engine = Scripted(call("cite", {"source": "rained in"}), "Yes.")
    assert engine.chat("?", tools=[cite]).tool_calls[0].value == "rained in"
    assert "report" in engine.prompts[0] and "It rained in Oslo" not in engine.prompts[0]
    with pytest.raises(AssertionError):  # the constraint has the text
        Scripted(call("cite", {"source": "snowed in"}), "Yes.").chat("?", tools=[cite])


def test_allowed_tools_hold_for_the_whole_turn():
    only = {"type": "function", "function": {"name": "forecast"}}
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [only]}}
    with pytest.raises(AssertionError):  # the second message calls a function that is not allowed
        Scripted(RAIN, call("fail", {"why": "x"}), "ok").chat("?", tools=[forecast, fail], tool_choice=choice)
    assert Scripted(RAIN, "ok").chat("?", tools=[forecast, fail], tool_choice=choice).text == "ok"


def test_results_that_have_no_text_and_awaitables():
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def give() -> Any:
        """Give something."""
        return Broken()

    assert Scripted(call("give", {}), "ok").chat("?", tools=[give]).tool_calls[0].result.startswith("error: ")

    class Later:
        async def __call__(self, a: int) -> int:
            """Add two."""
            return a + 2

    tool = guided.function_tool(Later(), name="later-1")
    assert tool.description == "Add two."
    result = asyncio.run(Scripted(call("later-1", {"a": 1}), "ok").achat("?", tools=[tool]))
    assert result.tool_calls[0].value == 3
    with pytest.raises(guided.OptionError, match="coroutine function"):
        Scripted("x").chat("?", tools=[tool])


def test_streamed_reasoning_has_no_end_marker():
    engine = small_engine(6000)
    options: dict[str, Any] = {"reasoning_end": "ab", "max_tokens": 60, "temperature": 1.0}
    for seed in range(5):
        deltas = list(engine.stream_chat("Go.", constraint="x{3}", seed=seed, **options))
        result = deltas[-1].result
        reasoning = [delta.text for delta in deltas if isinstance(delta, guided.ReasoningDelta)]
        assert "".join(reasoning) == result.results[0].reasoning
        assert result.messages[-1].get("reasoning_content", "") == result.results[0].reasoning
        assert result.text == "xxx" and not result.results[0].reasoning.endswith("ab")


def test_options_that_need_a_constraint_hold_for_every_message():
    engine = small_engine(6000, more=("<tool_call>", "</tool_call>"))
    result = engine.chat(
        "Go.", tools=[fail], tool_choice="required", max_rounds=1, seed=1, temperature=1.0, max_tokens=60,
        max_string=3, parallel=False, retries=1,
    )  # fmt: skip
    assert len(result.tool_calls) == 1 and result.messages[-1]["role"] == "assistant"
