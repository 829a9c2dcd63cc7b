"""The state that a server's routes share: its engine, its settings, and the path of a request through the engine.

middleware  ->  route  ->  read, check_model  ->  submit (admission)  ->  whole answer or stream  ->  finish (log)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Send

from guided.engine import Engine
from guided.engine.reasoning import find_reasoning_end
from guided.engine.request import Prompt
from guided.engine.request import Request as EngineRequest
from guided.errors import brief
from guided.frontends.structural_tag.tool_prompts import check_style
from guided.matching.grammar_folder import GrammarFolder
from guided.server.anthropic.errors import anthropic_error, is_messages_route
from guided.server.engine_thread import EngineThread, Stream
from guided.server.http.access_log import write_line
from guided.server.http.admission import Admission
from guided.server.http.body_limits import BodyReader
from guided.server.http.errors import RequestError, find_status, make_error_body
from guided.server.http.metrics import Metrics
from guided.server.http.request_context import RequestContext, choose_request_id, get_request_context
from guided.server.http.tracing import RequestTracer
from guided.server.openai.conversations import resolve_tool_style
from guided.server.preparing import RequestPreparer
from guided.server.settings import Settings
from guided.tools.toolbox import Toolbox

__all__ = ["Server", "run_while_connected", "stream_response"]

_Result = TypeVar("_Result")


class Server:
    """The shared state of the routes.

    Attributes:
        engine: the engine with its model.
        settings: the operator's settings.
        thread: runs the engine.
        admission: admits or refuses requests.
        metrics: the metrics at `/metrics`.
        tracer: records spans; None: requests are not traced.
        bodies: reads the bodies of requests.
        open_requests: the contexts of open requests.
        start_time: when the server started, as Unix time.
    """

    def __init__(self, engine: Engine, settings: Settings, tracer: RequestTracer | None = None) -> None:
        """Raises GuidedError if the vocabulary lacks a token that the settings need, or the tool style is unusable."""
        style, template = resolve_tool_style(engine, settings), engine.chat_template
        if template is None or style != template.style:  # otherwise the template defines the style
            check_style(style)
        Toolbox(settings.tools, engine.vocabulary)
        if settings.reasoning_end:
            find_reasoning_end(engine.vocabulary, settings.reasoning_end)
        self.engine, self.settings = engine, settings
        preparer = RequestPreparer(engine, settings.compile_timeout)
        self.thread = EngineThread(engine, preparer)
        self.admission = Admission(self.thread, settings)
        self.metrics = Metrics(self.thread, self.admission, settings.model_name)
        self.tracer = tracer
        self.open_requests = set[RequestContext]()
        self.bodies, self._lanes = BodyReader(settings, preparer.lanes), preparer.lanes
        self.start_time = int(time.time())
        engine.scheduler.max_running = settings.max_running
        engine.compiler.limits = replace(engine.compiler.limits, memory=settings.grammar_memory)
        if settings.grammar_cache:
            engine.compiler.folder = GrammarFolder(settings.grammar_cache)

    async def read(self, request: Request, make: Callable[[Any], _Result]) -> _Result:
        """Call `make` with the JSON of a request's body and return its result; see `BodyReader.read`."""
        return await self.bodies.read(request, make)

    async def encode(self, request: Request, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """The tokens of a request's prompt. Raises the errors of `Engine.encode_prompt`."""
        return await self.compute(request, partial(self.engine.encode_prompt, prompt, raw=raw))

    async def read_prompt(self, request: Request, engine_request: EngineRequest) -> list[int]:
        """The tokens of the prompt with which the model answers, with the description of the specification.

        Raises the errors of `Engine.encode_prompt`, and those of a compilation if the specification is described.
        """
        context = get_request_context(request)
        future = self.thread.preparer.read_prompt(engine_request, _find_owner(context), context.body_size)
        async with self.bodies.limit_time():
            return await asyncio.wrap_future(future)

    async def compute(self, request: Request, work: Callable[[], _Result]) -> _Result:
        """Call `work` on the thread for requests of this size, and return its result."""
        executor = self._lanes.executor_for(get_request_context(request).body_size)
        async with self.bodies.limit_time():
            return await asyncio.get_running_loop().run_in_executor(executor, work)

    def check_model(self, name: str | None) -> None:
        """Raise RequestError if a request names a model that this server does not serve."""
        if name not in (None, self.settings.model_name):
            message = f"the model {brief(name)} does not exist; this server has {self.settings.model_name!r}"
            raise RequestError(message, param="model", code="model_not_found", status=404)

    def submit(
        self,
        request: Request,
        engine_requests: Sequence[EngineRequest],
        priority: int = 0,
        *,
        rid: str | None = None,
        is_streamed: bool = True,
    ) -> list[Stream]:
        """Submit the engine requests of an HTTP request, unless the queue is full.

        Args:
            request: the HTTP request.
            engine_requests: one for each prompt.
            priority: requests with a lower number run first.
            rid: the request id from the body, if any.
            is_streamed: whether the answers are streamed.

        Raises:
            RequestError: the queue is full, or `rid` is invalid.
            EngineStopped: the engine no longer runs.
        """
        context = get_request_context(request)
        if rid is not None:
            if choose_request_id(rid) != rid:
                message = "rid must consist of 1 to 128 letters, digits and the characters ._:-"
                raise RequestError(message, param="rid")
            context.id = rid
        self.admission.check_outputs(sum(engine_request.n for engine_request in engine_requests))
        interval = self.settings.stream_interval if is_streamed else 0
        for engine_request in engine_requests:
            stream = self.thread.submit(
                engine_request,
                priority,
                owner=_find_owner(context),
                admit=self.admission.check_prompt_tokens,
                interval=interval,
                size=context.body_size,
            )
            context.streams.append(stream)
            context.request = context.request or engine_request
            self.admission.enforce_time_limits(stream)
        self.open_requests.add(context)
        return context.streams

    def abort(self, key: int | None, id: str | None = None) -> int:
        """Abort the open requests of a key with this id (None: all of the key), and return their number."""
        contexts = [context for context in self.open_requests if context.key_number == key and id in (None, context.id)]
        for context in contexts:
            for stream in context.streams:
                stream.fail(RequestError("the request was aborted", code="aborted", status=499))
        return len(contexts)

    def end_open_requests(self) -> None:
        """End all open requests with an error, because the server is shutting down."""
        self.thread.cut_off_requests += self.admission.open_requests
        for stream in list(self.thread.open_streams):
            stream.fail(RequestError("the server is shutting down", code="draining", status=503))

    def make_error_response(self, context: RequestContext, error: Exception, param: str | None = None) -> JSONResponse:
        """The response to a request that failed, in the format of the route's API. `param`: see `make_error_body`."""
        status, body, headers = find_status(error), make_error_body(error, param), {}
        if status in (429, 503):
            retry_after = error.retry_after if isinstance(error, RequestError) else None
            headers["Retry-After"] = str(retry_after or self.admission.retry_after)
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"  # RFC 9110, section 15.5.2
        if status == 413:  # the rest of the body is not read
            headers["Connection"] = "close"
        if is_messages_route(context.path):
            status, body = anthropic_error(status, body, context.id)
        return JSONResponse(body, status, headers=headers)

    def finish(self, context: RequestContext) -> None:
        """Log and trace a finished request."""
        self.open_requests.discard(context)
        unfinished_count = sum(len(stream.tasks) - len(stream.results) for stream in context.streams)
        if unfinished_count:
            if context.status != 400:  # with status 400, the request never began
                self.metrics.record_aborted(unfinished_count)
            error = next((stream.error for stream in context.streams if stream.error is not None), None)
            context.error_code = context.error_code or (
                "client_gone" if error is None else make_error_body(error)["error"]["code"]
            )
        results = [result for stream in context.streams for result in stream.results]
        write_line(self.settings, context, results)
        if self.tracer is not None:
            self.tracer.record(context, time.perf_counter())

    def health(self) -> dict[str, Any]:
        """The state of the engine."""
        scheduler = self.engine.scheduler
        prefilling_count = scheduler.prefilling_count
        return {
            "status": "dead" if not self.thread.is_alive else "draining" if self.thread.is_draining else "ok",
            "step": self.thread.steps,
            "waiting": scheduler.waiting_count,
            "prefilling": prefilling_count,
            "active": scheduler.running_count - prefilling_count,
            "compiling": scheduler.compiling_count,
            "pending_submit": self.thread.pending_commands,
        }


def _find_owner(context: RequestContext) -> str:
    """The key of a request's client, for fair queues; "": the client has no key."""
    return "" if context.key_number is None else str(context.key_number)


class _EventStream(StreamingResponse):
    """A response that closes its events as soon as the client disconnects, which cancels the request.

    Starlette's own response leaves this to the garbage collector.
    """

    async def stream_response(self, send: Send) -> None:
        async with aclosing(cast("AsyncGenerator[str, None]", self.body_iterator)):
            await super().stream_response(send)


def stream_response(events: AsyncGenerator[str, None], headers: Mapping[str, str]) -> Response:
    """A response of server-sent events."""
    return _EventStream(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache", **headers})


async def run_while_connected(request: Request, work: Awaitable[_Result]) -> _Result:
    """Await `work`; cancel it if the client disconnects first."""

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    work_task, disconnect_task = asyncio.ensure_future(work), asyncio.ensure_future(wait_for_disconnect())
    try:
        await asyncio.wait([work_task, disconnect_task], return_when=asyncio.FIRST_COMPLETED)
        if not work_task.done():
            raise RequestError("the client closed the connection", status=499)
        return work_task.result()
    finally:
        work_task.cancel()
        disconnect_task.cancel()
