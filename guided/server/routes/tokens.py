"""`/tokenize` and `/detokenize`: text to token ids and back, as vLLM has them."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI, Request

from guided.server.errors import RequestError
from guided.server.server import Server

__all__ = ["add"]


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""

    @app.post("/tokenize")
    async def tokenize(request: Request) -> dict[str, Any]:
        body = await server.json(request)
        prompt = body.get("messages") if isinstance(body, dict) and "messages" in body else None
        if prompt is None and not (isinstance(body, dict) and isinstance(body.get("prompt"), str)):
            raise RequestError("give a prompt, or messages", param="prompt")
        ids = await asyncio.to_thread(server.engine.encode_prompt, prompt or body["prompt"], raw=prompt is None)
        return {"tokens": ids, "count": len(ids), "max_model_len": server.engine.model.config.context}

    @app.post("/detokenize")
    async def detokenize(request: Request) -> dict[str, str]:
        body = await server.json(request)
        ids, size = (body.get("tokens") if isinstance(body, dict) else None), server.engine.vocabulary.size
        if not (isinstance(ids, list) and all(isinstance(id, int) and 0 <= id < size for id in ids)):
            raise RequestError(f"tokens is a list of ids from 0 to {size - 1}", param="tokens")
        return {"prompt": server.engine.vocabulary.decode(ids).decode("utf-8", "replace")}
