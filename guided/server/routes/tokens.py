"""`/tokenize` and `/detokenize`: text to token ids and back, as vLLM has them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field

from guided.server.errors import RequestError
from guided.server.openapi import takes
from guided.server.requests import ChatRequest, read_request
from guided.server.routes.openai import prepared
from guided.server.server import Server

__all__ = ["add"]


class TokenizeRequest(BaseModel):
    """A text to be tokenised; a conversation is a `ChatRequest`."""

    model_config = ConfigDict(extra="forbid", strict=True)
    model: str | None = None
    prompt: str


class DetokenizeRequest(BaseModel):
    """Ids that are to become text."""

    model_config = ConfigDict(extra="forbid", strict=True)
    model: str | None = None
    tokens: Annotated[list[Annotated[int, Field(ge=0)]], Field(fail_fast=True)]


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""

    @app.post("/tokenize")
    @takes(TokenizeRequest, ChatRequest, answer={"tokens": "array", "count": "integer", "max_model_len": "integer"})
    async def tokenize(request: Request) -> dict[str, Any]:
        body, encode = await server.json(request), server.engine.encode_prompt
        if isinstance(body, dict) and "messages" in body:
            chat = read_request(ChatRequest, body)
            server.check_model(chat.model)
            ids = await asyncio.to_thread(encode, prepared(server, chat).parts[0].prompt)
        else:
            asked = read_request(TokenizeRequest, body)
            server.check_model(asked.model)
            ids = await asyncio.to_thread(encode, asked.prompt, raw=True)
        return {"tokens": ids, "count": len(ids), "max_model_len": server.engine.model.config.context}

    @app.post("/detokenize")
    @takes(DetokenizeRequest, answer={"prompt": "string"})
    async def detokenize(request: Request) -> dict[str, str]:
        asked, size = read_request(DetokenizeRequest, await server.json(request)), server.engine.vocabulary.size
        server.check_model(asked.model)
        if wrong := [id for id in asked.tokens if id >= size]:
            raise RequestError(f"tokens holds {wrong[0]}, ids are 0 to {size - 1}", param="tokens")
        return {"prompt": server.engine.vocabulary.decode(asked.tokens).decode("utf-8", "replace")}
