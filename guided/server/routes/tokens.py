"""`/tokenize` and `/detokenize`: text to token ids and back, as in vLLM."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Request
from pydantic import Field

from guided.engine.request import Prompt
from guided.server.http.errors import RequestError
from guided.server.http.openapi import takes
from guided.server.openai.reading import Checked, read_request
from guided.server.openai.requests import ChatRequest
from guided.server.routes.openai import prepare_request
from guided.server.server import Server

__all__ = ["add"]


class TokenizeRequest(Checked):
    """A text to tokenise. For a conversation, the request is a `ChatRequest`."""

    model: str | None = None
    prompt: str


class DetokenizeRequest(Checked):
    """Token ids to decode."""

    model: str | None = None
    tokens: Annotated[list[Annotated[int, Field(ge=0)]], Field(fail_fast=True)]


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""

    @app.post("/tokenize")
    @takes(TokenizeRequest, ChatRequest, answer={"tokens": "array", "count": "integer", "max_model_len": "integer"})
    async def tokenize(request: Request) -> dict[str, Any]:
        def read(value: Any) -> tuple[Prompt, bool]:
            """The prompt, and whether it is a text to complete."""
            if isinstance(value, dict) and "messages" in value:
                chat = read_request(ChatRequest, value)
                server.check_model(chat.model)
                return prepare_request(server, chat).parts[0].prompt, False
            body = read_request(TokenizeRequest, value)
            server.check_model(body.model)
            return body.prompt, True

        prompt, raw = await server.read(request, read)
        ids = await server.encode(request, prompt, raw=raw)
        return {"tokens": ids, "count": len(ids), "max_model_len": server.engine.model.config.context}

    @app.post("/detokenize")
    @takes(DetokenizeRequest, answer={"prompt": "string"})
    async def detokenize(request: Request) -> dict[str, str]:
        body = await server.read(request, partial(read_request, DetokenizeRequest))
        size = server.engine.vocabulary.size
        server.check_model(body.model)
        if wrong := [id for id in body.tokens if id >= size]:
            raise RequestError(f"tokens contains {wrong[0]}, but ids are 0 to {size - 1}", param="tokens")
        return {"prompt": server.engine.vocabulary.decode(body.tokens).decode("utf-8", "replace")}
