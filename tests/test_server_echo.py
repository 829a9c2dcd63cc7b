"""Completions that repeat their prompt: its text, and the model's log probabilities of its tokens, as evaluation
harnesses read them. They are compared with one pass of the model over all tokens."""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest

from tests.effort import every

pytest.importorskip("torch", reason="torch is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from guided.server.http.errors import RequestError  # noqa: E402
from guided.server.openai.echo import MAX_SCORES, EchoedPrompt, check_scores  # noqa: E402
from guided.server.openai.scores import Offsets  # noqa: E402
from guided.vocabulary import Vocabulary  # noqa: E402
from tests.engine_support import Reader  # noqa: E402
from tests.live_server import served  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

EXTRA = ("return_token_ids", "regex", "heal_prompt", "return_fields")
PARTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


def run(body, **settings):
    async def whole():
        async with served(small_engine(), **settings) as (server, http):
            client = openai.AsyncOpenAI(api_key="k", base_url="http://t/v1", http_client=http, max_retries=0)

            async def ask(prompt, **options):
                extra = {name: options.pop(name) for name in EXTRA if name in options}
                return await client.completions.create(model="guided", prompt=prompt, extra_body=extra, **options)

            await body(ask, server)

    asyncio.run(whole())


def rows_of(server, ids: list[int]) -> np.ndarray:
    """The model's log probabilities after each token, from one pass over all tokens."""
    rows = Reader(server.engine.model).forward(ids, len(ids)).double().numpy()[:, : server.engine.vocabulary.size]
    rows = rows - rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def check(logprobs, rows: np.ndarray, ids: list[int], k: int) -> None:
    """Check that `logprobs` are those of `ids`, with the `k` most likely tokens. The first id has none."""
    assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
    assert len(ids) == len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs)
    for at, (value, top) in enumerate(zip(logprobs.token_logprobs[1:], logprobs.top_logprobs[1:], strict=True)):
        row, token = rows[at], ids[at + 1]
        assert value == pytest.approx(row[token], abs=1e-3) == top[logprobs.tokens[at + 1]]
        assert len(top) in (k, k + 1)
        assert sorted(top.values())[::-1][:k] == pytest.approx(np.sort(row)[::-1][:k], abs=1e-3)


@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("max_tokens", [0, 1, 7])
@pytest.mark.parametrize("length", every(2, [1, 2, 128, 129, 130, 300]))
def test_the_tokens_of_prompt_and_answer_have_the_models_log_probabilities(length, max_tokens, k):
    async def body(ask, server):
        text = "".join(random.Random(length).choices("abc é", k=length))
        prompt = list(text.encode())[:length]
        for given in (prompt, [prompt]):
            answer = await ask(given, echo=True, logprobs=k, max_tokens=max_tokens, temperature=0, seed=1)
            (choice,) = answer.choices
            assert answer.usage.prompt_tokens == length and answer.usage.completion_tokens <= max_tokens
            written = answer.usage.completion_tokens
            assert choice.finish_reason == ("length" if written == max_tokens else "stop")
            rows = rows_of(server, prompt)
            ids = list(prompt)
            for _ in range(written):  # greedy
                ids.append(int(rows_of(server, ids)[-1].argmax()))
            rows = rows_of(server, ids)
            assert choice.text == bytes(ids).decode("utf-8", "replace")
            check(choice.logprobs, rows, ids, k)

    run(body)


def test_prompts_and_samples_in_order_whole_and_streamed():
    async def body(ask, server):
        prompts = ["ab é", "x", "中国 a"]
        options = {"echo": True, "logprobs": 2, "max_tokens": 6, "n": 2, "seed": 4, "return_token_ids": True}
        whole = await ask(prompts, **options)
        streamed: dict[int, list] = {}
        async for chunk in await ask(prompts, **options, stream=True):
            for choice in chunk.choices:
                streamed.setdefault(choice.index, []).append(choice)
        assert [choice.index for choice in whole.choices] == list(range(6)) == sorted(streamed)
        for choice in whole.choices:
            prompt, parts = prompts[choice.index // 2], streamed[choice.index]
            assert choice.text.startswith(prompt) and parts[0].text.startswith(prompt)
            assert "".join(part.text for part in parts) == choice.text
            for name in PARTS:
                scores = [part.logprobs for part in parts if part.logprobs is not None]
                assert [each for score in scores for each in getattr(score, name)] == getattr(choice.logprobs, name)
            ids = choice.model_extra["token_ids"]  # only for the answer, as in vLLM
            assert ids == [id for part in parts for id in part.model_extra.get("token_ids", ())]
            check(choice.logprobs, rows_of(server, [*prompt.encode(), *ids]), [*prompt.encode(), *ids], 2)
            for begin, token in zip(choice.logprobs.text_offset, choice.logprobs.tokens, strict=True):
                assert token.startswith("bytes:") or choice.text[begin] == token
        assert whole.usage.prompt_tokens == sum(len(prompt.encode()) for prompt in prompts)

    run(body)


def test_the_text_alone_and_with_a_constraint():
    async def body(ask, server):
        answer = await ask("ab", echo=True, max_tokens=9, regex="c{3}")
        assert (answer.choices[0].text, answer.choices[0].logprobs) == ("abccc", None)
        answer = await ask("ab", echo=True, max_tokens=0)
        assert (answer.choices[0].text, answer.choices[0].logprobs, answer.usage.completion_tokens) == ("ab", None, 0)
        assert (await ask("ab", echo=False, max_tokens=9, regex="c{3}")).choices[0].text == "ccc"
        scored = (await ask("ab", echo=True, logprobs=0, max_tokens=9, regex="c{3}")).choices[0]
        check(scored.logprobs, rows_of(server, list(b"abccc")), list(b"abccc"), 0)

    run(body)


def test_control_tokens_have_names_and_no_text():
    async def body(ask, server):
        choice = (await ask([256, 97, 257, 98], echo=True, logprobs=1, max_tokens=0)).choices[0]
        assert (choice.text, choice.logprobs.tokens) == ("ab", ["<|im_start|>", "a", "<|im_end|>", "b"])
        assert choice.logprobs.text_offset == [0, 0, 1, 1]
        check(choice.logprobs, rows_of(server, [256, 97, 257, 98]), [256, 97, 257, 98], 1)

    run(body)


@pytest.mark.parametrize(
    ("options", "param", "message"),
    [
        ({"max_tokens": 0}, "max_tokens", "no answer without echo"),
        ({"max_tokens": -1, "echo": True}, "max_tokens", "greater than or equal to 0"),
        ({"max_tokens": 0, "echo": True, "regex": "a"}, "max_tokens", "the budget is 0"),
        ({"echo": True, "heal_prompt": True}, "heal_prompt", "cannot be combined with echo"),
        ({"echo": True, "return_fields": True}, "return_fields", "cannot be combined with echo"),
        ({"echo": True, "prompt": [[97] * 500] * 100, "logprobs": 20}, "logprobs", "send fewer prompts"),
        ({"echo": True, "prompt": ["a"] * 300}, "n", "at most 256 can wait"),
        ({"echo": True, "prompt": [999]}, None, "999"),
        ({"echo": True, "prompt": [97] * 700}, None, "600"),
    ],
)  # fmt: skip
def test_refusals(options, param, message):
    async def body(ask, server):
        with pytest.raises(openai.BadRequestError, match=message) as caught:
            await ask(**{"prompt": "a", **options})
        assert caught.value.param == param
        assert not server.thread.open_streams

    run(body)


def test_a_request_has_a_limited_number_of_log_probabilities():
    check_scores([MAX_SCORES // 4], 2, 1)
    check_scores([MAX_SCORES // 8] * 2, 1, 3)
    for lengths, samples, top in (([MAX_SCORES // 4 + 1], 2, 1), ([MAX_SCORES // 8] * 2, 2, 3), ([50_000], 1, 20)):
        with pytest.raises(RequestError, match="send fewer prompts"):
            check_scores(lengths, samples, top)


def test_a_space_that_the_tokenizer_adds_is_not_in_the_text():
    """For example, SentencePiece adds one at the beginning of a text."""
    vocabulary = Vocabulary([b" Hi", b" you", b"Hi", None], eos_token_ids=[3], special_tokens={3: "<s>"})
    echo = EchoedPrompt.from_tokens("Hi you", [3, 0, 1], vocabulary)
    offsets = Offsets(echo.offset)
    assert (echo.text, echo.offset) == ("Hi you", -1)
    assert [offsets.next_offset(vocabulary.decode([token])) for token in (3, 0, 1)] == [0, 0, 2]
    assert EchoedPrompt.from_tokens([3, 0, 1], [3, 0, 1], vocabulary) == EchoedPrompt(" Hi you", [3, 0, 1])
    assert EchoedPrompt.from_tokens("Hi you", [2, 1], vocabulary).offset == 0
