"""Log probabilities and ids of answers: they are the model's own, cover only the text, and are the same in streams and
complete answers.
"""

from __future__ import annotations

import asyncio
import json
import random
from functools import partial

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

import guided  # noqa: E402
from guided.engine.answer_splitter import AnswerSplitter  # noqa: E402
from guided.engine.result import Result, StreamEvent, Timings  # noqa: E402
from guided.engine.token_text import AnswerDecoder  # noqa: E402
from guided.sampling.logprobs import TokenLogprobs  # noqa: E402
from guided.server.openai.answers import Answer  # noqa: E402
from guided.server.openai.attribution import ShownToken  # noqa: E402
from guided.server.openai.deltas import ReadingOptions, SampleReader  # noqa: E402
from guided.server.openai.scores import Offsets, format_text_logprobs  # noqa: E402
from guided.server.openai.streaming import format_sse  # noqa: E402
from guided.vocabulary import Vocabulary  # noqa: E402
from tests.engine_support import Reader  # noqa: E402
from tests.live_server import served  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

SAY = [{"role": "user", "content": "x"}]
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}},
}  # fmt: skip
MARKS = ("<tool_call>", "</tool_call>", "<think>", "</think>")
FORCED = "(foo|bar)baz[0-9]qux"


def run(body, **settings):
    async def whole():
        engine = small_engine(more=MARKS)
        async with served(engine, **settings) as (server, http):
            await body(openai.AsyncOpenAI(api_key="k", base_url="http://t/v1", http_client=http, max_retries=0), server)

    asyncio.run(whole())


async def chunks_of(stream):
    """The choices of a stream, by number."""
    found = {}
    async for chunk in stream:
        for choice in chunk.choices:
            found.setdefault(choice.index, []).append(choice)
    return found


def expected(server, prompt: list[int], tokens: list[int]) -> list[np.ndarray]:
    """The model's log probabilities at each of the tokens, from one pass over all tokens."""
    rows = Reader(server.engine.model).forward([*prompt, *tokens], len(tokens) + 1)[:-1].double().numpy()
    return [row - row.max() - np.log(np.exp(row - row.max()).sum()) for row in rows[:, : server.engine.vocabulary.size]]


def test_forced_tokens_have_the_models_values_in_chats():
    async def body(ask, server):
        options = {"model": "guided", "messages": SAY, "max_tokens": 40, "seed": 3, "logprobs": True, "top_logprobs": 2}
        options |= {"n": 2, "extra_body": {"regex": FORCED}}
        whole = await ask.chat.completions.create(**options)
        chunks = await chunks_of(await ask.chat.completions.create(**options, stream=True))
        prompt = server.engine.encode_prompt(SAY)
        for choice in whole.choices:
            content = choice.logprobs.content
            streamed = [each for part in chunks[choice.index] if part.logprobs for each in part.logprobs.content]
            assert streamed == content and len(content) == len(choice.message.content)
            rows = expected(server, prompt, list(choice.message.content.encode()))
            for each, row in zip(content, rows, strict=True):
                assert each.logprob == pytest.approx(row[each.bytes[0]], abs=1e-3)
                assert [top.logprob for top in each.top_logprobs] == pytest.approx(sorted(row)[:-3:-1], abs=1e-3)

    run(body)


def test_forced_tokens_have_the_models_values_in_completions():
    async def body(ask, server):
        options = {"model": "guided", "prompt": "x", "max_tokens": 40, "seed": 3, "logprobs": 3}
        options |= {"extra_body": {"regex": FORCED}}
        whole = (await ask.completions.create(**options)).choices[0]
        parts = (await chunks_of(await ask.completions.create(**options, stream=True)))[0]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            assert [each for part in parts for each in getattr(part.logprobs, name)] == getattr(whole.logprobs, name)
        rows = expected(server, [ord("x")], list(whole.text.encode()))
        told = [row[token] for row, token in zip(rows, whole.text.encode(), strict=True)]
        assert whole.logprobs.token_logprobs == pytest.approx(told, abs=1e-3)
        for token, value, top in zip(whole.logprobs.tokens, told, whole.logprobs.top_logprobs, strict=True):
            assert top[token] == pytest.approx(value, abs=1e-3) and len(top) in (3, 4)

    run(body)


def test_forced_tokens_have_the_models_values_in_responses():
    async def body(ask, server):
        options = {"model": "guided", "input": "x", "max_output_tokens": 40, "top_logprobs": 2}
        options |= {"include": ["message.output_text.logprobs"], "extra_body": {"regex": FORCED, "seed": 3}}
        whole = (await ask.responses.create(**options)).output[0].content[0]
        events = [event async for event in await ask.responses.create(**options, stream=True)]
        deltas = [each for event in events if event.type == "response.output_text.delta" for each in event.logprobs]
        (done,) = [event for event in events if event.type == "response.output_text.done"]
        plain = [(each.token, each.logprob, [(top.token, top.logprob) for top in each.top_logprobs]) for each in deltas]
        for others in (done.logprobs, whole.logprobs):
            told = [(each.token, each.logprob, [(t.token, t.logprob) for t in each.top_logprobs]) for each in others]
            assert told == plain
        rows = expected(server, server.engine.encode_prompt(SAY), list(whole.text.encode()))
        values = [row[token] for row, token in zip(rows, whole.text.encode(), strict=True)]
        assert [each.logprob for each in deltas] == pytest.approx(values, abs=1e-3)
        assert all(len(each.top_logprobs) == 2 for each in deltas)

    run(body)


# ---- only the visible text


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("choice", ["auto", "required", "none"])
def test_tokens_of_calls_and_of_hidden_reasoning_are_not_reported(choice, shown):
    fields = {"return_token_ids": True, "include_reasoning": shown}

    async def body(ask, server):
        spell = server.engine.vocabulary.decode
        for seed in range(3):
            options = {"model": "guided", "messages": SAY, "tools": [WEATHER], "tool_choice": choice, "seed": seed}
            options |= {"logprobs": True, "max_tokens": 90, "extra_body": fields, "parallel_tool_calls": False}
            whole = (await ask.chat.completions.create(**options)).choices[0]
            parts = (await chunks_of(await ask.chat.completions.create(**options, stream=True)))[0]
            text, thought = whole.message.content or "", whole.message.model_extra.get("reasoning", "")
            assert bool(thought) == shown
            content = whole.logprobs.content
            assert b"".join(bytes(each.bytes) for each in content).decode("utf-8", "replace").strip() == text.strip()
            assert [each for part in parts if part.logprobs for each in part.logprobs.content] == content
            ids = whole.model_extra["token_ids"]
            assert [id for part in parts for id in part.model_extra.get("token_ids", ())] == ids
            told = spell(ids).decode("utf-8", "replace")
            assert "weather" not in told and told.startswith(thought) and told.endswith(text)
            assert len(told.strip()) == len((thought + text).strip())
            assert (whole.message.tool_calls is not None) == (choice == "required" or bool(whole.message.tool_calls))

    run(body, reasoning_end="</think>")


def test_the_content_of_a_message_that_only_calls_is_null_in_streams_too():
    async def body(ask, server):
        for choice, nothing in (("required", None), ("none", "")):
            options = {"model": "guided", "messages": SAY, "tools": [WEATHER], "tool_choice": choice, "seed": 1}
            options |= {"max_tokens": 60} | ({"extra_body": {"regex": "a?"}} if choice == "none" else {})
            whole = (await ask.chat.completions.create(**options)).choices[0].message
            parts = (await chunks_of(await ask.chat.completions.create(**options, stream=True)))[0]
            pieces = [part.delta.content for part in parts if part.delta.content is not None]
            assert ("".join(pieces) if pieces else None) == whole.content
            assert (whole.content is None) == (nothing is None)
            async with ask.chat.completions.stream(**options) as stream:
                final = (await stream.get_final_completion()).choices[0].message
            assert final.content == whole.content

    run(body)


def test_an_answer_without_calls_and_without_text_has_an_empty_content():
    """The content is "" although the reader of calls has begun with null."""
    vocabulary = small_engine(more=MARKS).vocabulary
    style = guided.tool_style("qwen_3")
    calls = partial(style.reader, [WEATHER])
    options = ReadingOptions(
        make_call_reader=calls, make_splitter=lambda: AnswerSplitter(AnswerDecoder(vocabulary), calls())
    )
    reading, answer = SampleReader(options), Answer(True, "guided", vocabulary)
    assert answer.begin(0, reading)["choices"][0]["delta"]["content"] is None
    end = StreamEvent((), "", result=Result("", [], [], "stop", Timings(), [], 0.0, 0, 0))
    (chunk,) = answer.chunks(0, end, reading.read(end), reading)
    assert chunk["choices"][0]["delta"] == {"content": ""}
    assert answer.body([[reading]])["choices"][0]["message"]["content"] == ""


# ---- characters of several tokens


def test_offsets_and_names_of_parts_of_characters():
    async def body(ask, server):
        options = {"model": "guided", "prompt": "x", "max_tokens": 60, "logprobs": 5, "seed": 2}
        options |= {"extra_body": {"regex": "([é中]a?){9}"}}
        whole = (await ask.completions.create(**options)).choices[0]
        data, offsets = whole.text.encode(), whole.logprobs.text_offset
        for at, (begin, name) in enumerate(zip(offsets, whole.logprobs.tokens, strict=True)):
            before = len(data[: at + 1].decode("utf-8", "ignore"))  # complete characters, including this one's byte
            is_last = len(data[:at].decode("utf-8", "ignore")) < before
            assert begin == before - is_last
            assert name == (chr(data[at]) if data[at] < 128 else f"bytes:\\x{data[at]:02x}")
        for byte, value, top in zip(data, whole.logprobs.token_logprobs, whole.logprobs.top_logprobs, strict=True):
            own = chr(byte) if byte < 128 else f"bytes:\\x{byte:02x}"
            assert top[own] == value and len(top) in (5, 6)
        parts = (await chunks_of(await ask.completions.create(**options, stream=True)))[0]
        assert [each for part in parts for each in part.logprobs.text_offset] == offsets

    run(body)


def test_offsets_of_any_bytes():
    """Compared with a decoder that gets all bytes at once: each byte belongs to the character that contains it."""
    source = random.Random(3)
    pool = [b"a", *(bytes((byte,)) for byte in b"\xc3\xa9\xe4\xb8\xad\xff\xf0\x9f\x98\x80\xed\xa0")]
    for _ in range(3000):
        tokens = [b"".join(source.choices(pool, k=source.randint(1, 3))) for _ in range(source.randint(1, 6))]
        data, owners, at = b"".join(tokens), [], 0
        while at < len(data):  # the part of the character that begins at a byte
            for size in (4, 3, 2, 1):
                try:
                    if len(data[at : at + size].decode()) == 1 and at + size <= len(data):
                        break
                except UnicodeDecodeError:
                    continue
            else:
                size = invalid_size(data[at:])
            owners += [len(set(owners))] * size
            at += size
        offsets, begin = Offsets(), 0
        for token in tokens:
            assert offsets.next_offset(token) == owners[begin], (tokens, owners)
            begin += len(token)


def invalid_size(data: bytes) -> int:
    """The number of bytes for which the first U+FFFD stands, by Python's decoder."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        assert error.start == 0
        return error.end
    raise AssertionError


def test_names_of_top_tokens_do_not_collide():
    vocabulary = Vocabulary([b"a", b"a", b"\xc3", b"\xa9", b"a", None, None], eos_token_ids=[5],
                            special_tokens={5: "<end>", 6: "a"})  # fmt: skip
    top = tuple((id, -float(id)) for id in range(7))
    found = format_text_logprobs([ShownToken(1, False, TokenLogprobs(1, -1.0, top))], Offsets(), vocabulary)[
        "top_logprobs"
    ][0]
    assert found["a"] == -1.0 and len(found) == 7
    assert {"bytes:\\xc3", "bytes:\\xa9", "<end>", "token_id:0", "token_id:4", "token_id:6"} < found.keys()


# ---- events


def test_no_character_ends_a_line_of_an_event():
    text = "a\u2028b\u2029c\x85d\x0b\x0c\x1c\x1d\x1e\r\né"
    for event in (format_sse({"a": text, text: 1}), format_sse({"a": text}, "name")):
        assert len(event.splitlines()) == event.count("\n")
        data = event.splitlines()[-2].removeprefix("data: ")
        assert json.loads(data)["a"] == text and "é" in data


def test_a_stream_with_line_separators_is_read_by_any_client():
    async def body(ask, server):
        raw = await ask.completions.with_raw_response.create(
            model="guided", prompt="x", stream=True, max_tokens=30, extra_body={"regex": "\u2028\x85\u2029a"}
        )
        data = (await raw.http_response.aread()).decode()
        lines = [line for line in data.splitlines() if line]
        assert all(line.startswith("data: ") for line in lines)
        chunks = [json.loads(line[6:]) for line in lines[:-1]]
        assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "\u2028\x85\u2029a"

    run(body)
