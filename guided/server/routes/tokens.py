"""`/tokenize` and `/detokenize`: text to token ids and back. `/tokenizer_info`: names of special tokens. As in vLLM.

With these routes, a client can use the tokenizer without the files of the model. For example, lm-evaluation-harness
does so with `tokenizer_backend=remote`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Request
from pydantic import Field

from guided.engine import Engine
from guided.engine.request import Request as EngineRequest
from guided.server.http.errors import RequestError
from guided.server.http.openapi import takes
from guided.server.openai.reading import StrictModel, read_request
from guided.server.openai.requests import ChatRequest
from guided.server.routes.openai import prepare_request
from guided.server.server import Server

__all__ = ["add"]


class TokenizeRequest(StrictModel):
    """A text to tokenize. For a conversation, the request is a `ChatRequest` instead.

    Attributes:
        add_special_tokens: None: encode the text like a prompt of `/v1/completions`. Otherwise, encode it with the
            tokenizer alone: names of special tokens in the text become these tokens, and the text may have any length.
            True: the ids also begin with the model's BOS token.
    """

    model: str | None = None
    prompt: str
    add_special_tokens: bool | None = None


class DetokenizeRequest(StrictModel):
    """Token ids to decode."""

    model: str | None = None
    tokens: Annotated[list[Annotated[int, Field(ge=0)]], Field(fail_fast=True)]


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""

    @app.post("/tokenize")
    @takes(TokenizeRequest, ChatRequest, answer={"tokens": "array", "count": "integer", "max_model_len": "integer"})
    async def tokenize(request: Request) -> dict[str, Any]:
        def read(value: Any) -> EngineRequest | Callable[[], list[int]]:
            """A request of the engine, or a function that computes the ids of a text."""
            if isinstance(value, dict) and "messages" in value:
                chat = read_request(ChatRequest, value)
                server.check_model(chat.model)
                return prepare_request(server, chat).engine_requests[0]
            body = read_request(TokenizeRequest, value)
            server.check_model(body.model)
            if body.add_special_tokens is None:
                return partial(server.engine.encode_prompt, body.prompt, raw=True)
            return partial(_encode, server.engine, body.prompt, bos=body.add_special_tokens)

        work = await server.read(request, read)
        if isinstance(work, EngineRequest):
            ids = await server.read_prompt(request, work)
        else:
            ids = await server.compute(request, work)
        return {"tokens": ids, "count": len(ids), "max_model_len": server.engine.context}

    @app.post("/detokenize")
    @takes(DetokenizeRequest, answer={"prompt": "string"})
    async def detokenize(request: Request) -> dict[str, str]:
        body = await server.read(request, partial(read_request, DetokenizeRequest))
        size = server.engine.vocabulary.size
        server.check_model(body.model)
        if invalid_ids := [id for id in body.tokens if id >= size]:
            raise RequestError(f"tokens contains {invalid_ids[0]}, but ids are 0 to {size - 1}", param="tokens")
        return {"prompt": server.engine.vocabulary.decode(body.tokens).decode("utf-8", "replace")}

    @app.get("/tokenizer_info")
    async def tokenizer_info() -> dict[str, str | None]:
        return _collect_tokenizer_info(server.engine)


def _encode(engine: Engine, text: str, *, bos: bool) -> list[int]:
    """The ids of a text; names of special tokens in it become these tokens."""
    return [*(engine.bos if bos else ()), *engine.vocabulary.encode_with_special(text)]


def _collect_tokenizer_info(engine: Engine) -> dict[str, str | None]:
    """The names of special tokens, each of which `/tokenize` encodes as one id, and the chat template."""
    names, chat = engine.vocabulary.special_tokens, engine.chat_template
    tokens = dict(chat.tokens) if chat else {}
    tokens.setdefault(
        "eos_token", next((names[id] for id in sorted(engine.vocabulary.eos_token_ids) if id in names), "")
    )
    tokens.setdefault("bos_token", names.get(engine.bos[0], "") if engine.bos else "")
    special_tokens = {name: tokens.get(name) or None for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
    return special_tokens | {"chat_template": chat.source if chat else None}
