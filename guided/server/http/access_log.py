"""Writes one log line for each request: who sent it, its result, and how long it took.

In: a request context, and the results of the request's outputs. Out: JSON or text.

The line contains no part of the prompt or the answer, unless the operator chooses to log whole requests.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from guided.engine.result import Result
from guided.server.http.request_context import RequestContext
from guided.server.openai.deltas import find_finish_reason
from guided.server.settings import Settings

__all__ = ["make_log_fields", "write_line"]


def make_log_fields(context: RequestContext, results: list[Result]) -> dict[str, Any]:
    """The fields of a request's log line.

    | name | what |
    |---|---|
    | `time` | arrival, in UTC |
    | `id`, `key` | the request's id; the number of its key |
    | `method`, `route`, `status` | HTTP method, path and status; 0: the client had disconnected |
    | `seconds` | time to the last byte |
    | `ttft_ms` | time to the first token |
    | `prompt_tokens`, `tokens` | tokens read and tokens written |
    | `finish_reason` | the finish reason of each output that ended |
    | `constraint` | the field that constrained the text |
    | `error` | the error code, if the request failed or was aborted |
    """
    ttft = next((stream.ttft for stream in context.streams if stream.ttft is not None), None)
    fields = {
        "time": datetime.fromtimestamp(context.unix_time, UTC).isoformat(timespec="milliseconds"),
        "id": context.id,
        "key": context.key_number,
        "method": context.method,
        "route": context.path[:200],
        "status": context.status,
        "seconds": round(perf_counter() - context.start_time, 6),
        "ttft_ms": None if ttft is None else round(1e3 * ttft, 3),
        "prompt_tokens": sum(stream.prompt_tokens for stream in context.streams),
        "tokens": sum(len(result.tokens) for result in results),
        "finish_reason": [find_finish_reason(result) for result in results],
        "constraint": context.constraint_field,
        "error": context.error_code,
    }
    return {name: value for name, value in fields.items() if value not in (None, [], "")}


def write_line(settings: Settings, context: RequestContext, results: list[Result]) -> None:
    """Write a request's log line to standard error, in the format that the settings choose."""
    if settings.log_format == "none":
        return
    fields = make_log_fields(context, results)
    if settings.log_requests:
        fields["request"] = context.body
    if settings.log_format == "json":
        line = json.dumps(fields, separators=(",", ":"))
    else:
        line = " ".join(f"{name}={json.dumps(value)}" for name, value in fields.items())
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
