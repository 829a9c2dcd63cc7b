"""`/tokenize` with `add_special_tokens`, and `/tokenizer_info`: for clients without their own tokenizer, such as
lm-evaluation-harness with `tokenizer_backend=remote`, whose calls are repeated here.
"""

from __future__ import annotations

import asyncio

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from guided.chat import ChatTemplate  # noqa: E402
from guided.chat.template import CHATML  # noqa: E402
from guided.engine import Engine  # noqa: E402
from tests.live_server import served  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

TOKENS = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}


def engine_with(*, tokens=None, bos=(), chat=True) -> Engine:
    """The small engine, with token variables for its chat template, and ids before each text."""
    small = small_engine()
    template = ChatTemplate(small.vocabulary, CHATML, tokens=tokens) if chat else None
    return Engine(small.model, small.vocabulary, chat=template, bos=bos)


def run(body, engine=None):
    async def whole():
        async with served(engine or engine_with(tokens=TOKENS)) as (_, http):
            await body(http)

    asyncio.run(whole())


async def encoded(http, text: str, **fields) -> list[int]:
    answer = await http.post("/tokenize", json={"prompt": text, **fields})
    assert answer.status_code == 200, answer.text
    assert answer.json()["count"] == len(answer.json()["tokens"])
    return answer.json()["tokens"]


def test_names_of_tokens_and_the_template():
    async def body(http):
        found = (await http.get("/tokenizer_info")).json()
        assert found == {**TOKENS, "unk_token": None, "chat_template": CHATML}
        ids = [await encoded(http, found[name], add_special_tokens=False) for name in ("bos_token", "eos_token")]
        assert ids == [[256], [257]]

    run(body)


@pytest.mark.parametrize(
    ("engine", "tokens"),
    [
        ({}, (None, "<|im_end|>")),
        ({"bos": [256]}, ("<|im_start|>", "<|im_end|>")),
        ({"bos": [256], "chat": False}, ("<|im_start|>", "<|im_end|>")),
        ({"bos": [97], "chat": False}, (None, "<|im_end|>")),  # a BOS token without a name
        ({"tokens": {"eos_token": "<|im_start|>"}}, (None, "<|im_start|>")),
    ],
)
def test_names_that_the_model_file_lacks(engine, tokens):
    async def body(http):
        found = (await http.get("/tokenizer_info")).json()
        assert (found["bos_token"], found["eos_token"]) == tokens
        assert (found["chat_template"] is None) == (engine.get("chat") is False)

    run(body, engine_with(**engine))


def test_special_tokens_in_a_text():
    """The prompt of a completion is read as plain text, even if it contains the name of a special token."""

    async def body(http):
        text = "é<|im_end|>b"
        plain = list(text.encode())
        assert await encoded(http, text) == await encoded(http, text, add_special_tokens=None) == [97, *plain]
        assert await encoded(http, text, add_special_tokens=False) == [*"é".encode(), 257, 98]
        assert await encoded(http, text, add_special_tokens=True) == [97, *"é".encode(), 257, 98]
        assert await encoded(http, "", add_special_tokens=False) == []

    run(body, engine_with(bos=[97]))


def test_a_document_may_be_longer_than_the_context():
    async def body(http):
        long = "ab" * 5000
        assert await encoded(http, long, add_special_tokens=False) == [97, 98] * 5000
        refused = await http.post("/tokenize", json={"prompt": long})
        assert refused.status_code == 400 and "context holds 600" in refused.json()["error"]["message"]

    run(body)


def test_values_are_checked():
    async def body(http):
        refused = await http.post("/tokenize", json={"prompt": "a", "add_special_tokens": "no"})
        assert refused.status_code == 400 and refused.json()["error"]["param"] == "add_special_tokens"

    run(body)
