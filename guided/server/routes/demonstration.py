"""`/stream`: a minimal demonstration of streaming, with one event for each token of a completion.

    {"prompt": "ROMEO:", "max_tokens": 50}  ->  data: {"token": " I", "token_id": 7, "is_first": true, "ttft_ms": 12.5}
                                                data: {"token": " am", "token_id": 9, "is_first": false}
                                                data: {"done": true, "full_text": " I am"}

If a token ends inside a character, its text is "". The token that completes the character contains the whole character.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated

from fastapi import FastAPI, Request, Response
from pydantic import ConfigDict, Field

from guided.engine.request import Options
from guided.engine.request import Request as EngineRequest
from guided.server.engine_thread import Stream
from guided.server.http.errors import make_error_body
from guided.server.http.openapi import takes
from guided.server.openai.reading import StrictModel, read_request
from guided.server.openai.streaming import format_sse, to_milliseconds, wait_until_begun
from guided.server.server import Server, run_while_connected, stream_response

__all__ = ["StreamRequest", "add"]


class StreamRequest(StrictModel):
    """A request to /stream."""

    model_config = ConfigDict(strict=False)

    prompt: str
    max_tokens: Annotated[int, Field(ge=1, strict=True)] = 50


def add(app: FastAPI, server: Server) -> None:
    """Add the route."""

    @app.post("/stream")
    @takes(StreamRequest, events=True)
    async def stream(request: Request) -> Response:
        body = await server.read(request, partial(read_request, StreamRequest))
        options = Options(max_tokens=body.max_tokens, raw=True)
        (token_stream,) = server.submit(request, [EngineRequest(body.prompt, options=options)])
        await run_while_connected(request, wait_until_begun([token_stream]))
        return stream_response(_format_events(token_stream), {})


async def _format_events(stream: Stream) -> AsyncGenerator[str, None]:
    is_first = True
    try:
        async for _, event in stream:
            for number, token in enumerate(event.tokens, 1):
                text = event.text if number == len(event.tokens) else ""
                ttft = {"ttft_ms": to_milliseconds(stream.ttft)} if is_first else {}
                yield format_sse({"token": text, "token_id": token, "is_first": is_first} | ttft)
                is_first = False
            if event.result is not None:
                yield format_sse({"done": True, "full_text": event.result.text})
    except Exception as error:
        yield format_sse(make_error_body(error))
    finally:
        stream.cancel()
