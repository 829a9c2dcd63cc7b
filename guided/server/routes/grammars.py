"""`/v1/grammars/check`, `explain`, `sample`, `step`: analyses of a specification or of a step of an output.

A few requests run at once, on separate threads. If too many are waiting, clients are asked to retry.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final, TypeVar

from fastapi import FastAPI, Request

from guided.engine.polite_pool import PolitePool
from guided.errors import LimitExceeded
from guided.frontends.library import library
from guided.matching.gc_pause import gc_paused
from guided.meter import limit_work
from guided.server.http.errors import RequestError
from guided.server.http.openapi import takes
from guided.server.inspector.inspection import CheckRequest, ExplainRequest, SampleRequest, check, explain, sample
from guided.server.inspector.stepping import CHUNK_TOKENS, Step, StepRequest
from guided.server.openai.requests import read_request
from guided.server.preparing import CompileTimeout
from guided.server.server import Server, run_while_connected

__all__ = ["add"]

_THREADS: Final = 2
_MAX_REQUESTS: Final = 32
_TIMEOUT: Final = 30.0  # seconds
_Result = TypeVar("_Result")

_CHECK_ANSWER = {"valid": "boolean", "kind": "string"}
_EXPLAIN_ANSWER = {
    "accepted": "boolean",
    "reason": "string",
    "after_prefix": "object",
    "allowed": "integer",
    "allowed_tokens": "array",
    "forced_tokens": "array",
    "min_tokens_to_finish": "integer",
    "min_tokens_is_exact": "boolean",
}
_SAMPLE_ANSWER = {"seed": "integer", "texts": "array"}
_STEP_ANSWER = {"mask": "object", "before": "array", "after": "array", "removed": "object", "budget": "object"}


class _InspectionPool:
    """Runs blocking work on a few threads, with a limit on the number of waiting requests."""

    def __init__(self) -> None:
        self._pool = PolitePool(_THREADS, "guided inspector")
        self._slots = threading.Semaphore(_MAX_REQUESTS)

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Run `work` and return its result. Once the client is answered, the work stops at its next step.

        Raises:
            RequestError: too many requests are waiting, or the work takes too long.
        """
        if not self._slots.acquire(blocking=False):
            message = f"{_MAX_REQUESTS} inspections are already waiting: retry later"
            raise RequestError(message, code="overloaded", status=503)
        client_is_answered, deadline = threading.Event(), perf_counter() + _TIMEOUT

        def metered_work() -> _Result:
            with limit_work(deadline - perf_counter(), stop=client_is_answered), gc_paused():
                return work()

        future = self._pool.submit(metered_work)
        future.add_done_callback(lambda _: self._slots.release())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), _TIMEOUT)
        except (TimeoutError, LimitExceeded, CompileTimeout) as error:
            if not isinstance(error, TimeoutError) and perf_counter() < deadline:
                raise
            message = f"the request took more than {_TIMEOUT:.0f} seconds"
            raise RequestError(message, code="request_timeout", status=503) from None
        finally:
            client_is_answered.set()


def add(app: FastAPI, server: Server) -> None:
    """Add the routes."""
    pool, engine, settings = _InspectionPool(), server.engine, server.settings
    options: Any = {"allow_special_tokens": settings.allow_special_tokens, "seconds": settings.compile_timeout}

    @app.post("/v1/grammars/check")
    @takes(CheckRequest, answer=_CHECK_ANSWER)
    async def check_grammar(request: Request) -> dict[str, Any]:
        body = await server.read(request, partial(read_request, CheckRequest))
        return await pool.run(partial(check, engine, body, **options))

    @app.post("/v1/grammars/explain")
    @takes(ExplainRequest, answer=_EXPLAIN_ANSWER)
    async def explain_grammar(request: Request) -> dict[str, Any]:
        body = await server.read(request, partial(read_request, ExplainRequest))
        return await pool.run(partial(explain, engine, body, **options))

    @app.post("/v1/grammars/sample")
    @takes(SampleRequest, answer=_SAMPLE_ANSWER)
    async def sample_grammar(request: Request) -> dict[str, Any]:
        body = await server.read(request, partial(read_request, SampleRequest))
        return await pool.run(partial(sample, body, seconds=settings.compile_timeout))

    @app.post("/v1/grammars/step")
    @takes(StepRequest, answer=_STEP_ANSWER)
    async def step_of_output(request: Request) -> dict[str, Any]:
        body = await server.read(request, partial(read_request, StepRequest))
        server.check_model(body.model)

        async def compute_step() -> dict[str, Any]:
            step = await pool.run(partial(Step.prepare, engine, body, **options))
            for end in range(CHUNK_TOKENS, len(step.ids), CHUNK_TOKENS):
                await server.thread.call(partial(engine.logits, step.ids[:end]))
            logits = await server.thread.call(partial(engine.logits, step.ids))
            return await pool.run(partial(step.fields, logits[0], engine.vocabulary))

        return await run_while_connected(request, compute_step())

    @app.get("/v1/grammars")
    @takes(answer={"object": "string", "data": "array"})
    def grammars() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": entry.name, "title": entry.title} for entry in library().values()]}
