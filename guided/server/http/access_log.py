"""One log line for each request: who sent it, its result, and how long it took. A request context in; JSON or text out.

The line has nothing of the prompt or the answer, except for the complete request if the operator asks for it.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from guided.engine.result import Result
from guided.server.http.request_context import RequestContext
from guided.server.openai.deltas import end_of
from guided.server.settings import Settings

__all__ = ["fields_of", "write_line"]


def fields_of(context: RequestContext, results: list[Result]) -> dict[str, Any]:
    """What is told of a request, by name.

    | name | what |
    |---|---|
    | `time` | when it came, in UTC |
    | `id`, `key` | of the request; the number of its key |
    | `method`, `route`, `status` | of HTTP; status 0: the client had gone |
    | `seconds` | until its last byte |
    | `ttft_ms` | until its first token |
    | `prompt_tokens`, `tokens` | that were read and written |
    | `finish_reason` | of each output that ended |
    | `constraint` | the field that said what the text must be |
    | `error` | the code of what was refused |
    """
    ttft = next((stream.ttft for stream in context.streams if stream.ttft is not None), None)
    told = {
        "time": datetime.fromtimestamp(context.at, UTC).isoformat(timespec="milliseconds"),
        "id": context.id,
        "key": context.key,
        "method": context.method,
        "route": context.path[:200],
        "status": context.status,
        "seconds": round(perf_counter() - context.begun, 6),
        "ttft_ms": None if ttft is None else round(1e3 * ttft, 3),
        "prompt_tokens": sum(stream.prompt_tokens for stream in context.streams),
        "tokens": sum(len(result.tokens) for result in results),
        "finish_reason": [end_of(result) for result in results],
        "constraint": context.kind,
        "error": context.ended,
    }
    return {name: value for name, value in told.items() if value not in (None, [], "")}


def write_line(settings: Settings, context: RequestContext, results: list[Result]) -> None:
    """Write the line of a request to standard error, as the settings ask for it."""
    if settings.log_format == "none":
        return
    told = fields_of(context, results)
    if settings.log_requests:
        told["request"] = context.body
    if settings.log_format == "json":
        line = json.dumps(told, separators=(",", ":"))
    else:
        line = " ".join(f"{name}={json.dumps(value)}" for name, value in told.items())
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
