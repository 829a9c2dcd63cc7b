"""Records OpenTelemetry spans. In: the context of a finished request. Out: a span for the request, and for each phase.

    chat smollm2                  from arrival to the last byte; its parent is the span in `traceparent`
        compile                   turning the prompt into tokens, compiling the specification, waiting for a thread
        queue                     waiting for a slot in the batch
        prefill                   from the slot to the first token
        decode                    from the first token to the last one; the mask time is an attribute

Each prompt of a request has its own phases. Nothing is measured for the spans alone: the metrics and the log use the
same times (`Stream`, `Result.timings`). Masks are filled in each step of `decode`, so they have no spans of their own.
The span `decode` has the attributes `guided.masks` (their number) and `guided.mask_time` (seconds).

The attribute names follow the semantic conventions for generative AI
(https://github.com/open-telemetry/semantic-conventions-genai) and for HTTP. Names that begin with `guided.` are this
project's. No attribute contains a part of a prompt, an answer or a specification.

Cost: none without a provider: OpenTelemetry is then not even imported. With a provider, about 0.2 ms after the last
byte of a request.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from guided.engine.result import Result
from guided.errors import GuidedError, brief
from guided.packages import importing
from guided.server.engine_thread import Stream
from guided.server.http.request_context import RequestContext
from guided.server.openai.deltas import find_finish_reason

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["TRACE_HEADERS", "RequestTracer", "otlp_provider"]

TRACE_HEADERS: Final = ("traceparent", "tracestate")
_OPERATIONS: Final[Mapping[str, str]] = {
    "/v1/completions": "text_completion",
    "/stream": "text_completion",
    "/v1/chat/completions": "chat",
    "/v1/responses": "chat",
    "/v1/messages": "chat",
}
"""Routes that generate text -> `gen_ai.operation.name`."""
_OPTIONS: Final = ("max_tokens", "temperature", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty")


class RequestTracer:
    """Turns finished requests into spans.

    Args:
        provider: receives the spans.
        model: the model's name.
    """

    def __init__(self, provider: TracerProvider, model: str) -> None:
        """Raises ModuleNotFoundError if OpenTelemetry is not installed."""
        with importing("tracing"):
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        self._trace, self._propagator = trace, TraceContextTextMapPropagator()
        self._tracer, self._model = provider.get_tracer("guided"), model

    def record(self, context: RequestContext, end: float) -> None:
        """Record the spans of a request that generates text. `end`: when it ended, by `perf_counter`."""
        if context.method != "POST" or context.path not in _OPERATIONS:
            return
        trace, unix_offset = self._trace, context.unix_time - context.start_time

        def to_nanoseconds(time: float) -> int:
            return int(1e9 * (time + unix_offset))

        span = self._tracer.start_span(
            f"{_OPERATIONS[context.path]} {self._model}",
            self._propagator.extract(context.trace_headers),
            trace.SpanKind.SERVER,
            start_time=to_nanoseconds(context.start_time),
        )
        if span.is_recording():
            span.set_attributes(_make_attributes(context, self._model))
            if context.error_code is not None and not 400 <= context.status < 500:
                span.set_status(trace.StatusCode.ERROR, context.error_code)
            parent_context = trace.set_span_in_context(span)
            for number, stream in enumerate(context.streams):
                for name, begin, finish in _list_phases(stream, end):
                    phase = self._tracer.start_span(name, parent_context, start_time=to_nanoseconds(begin))
                    if len(context.streams) > 1:
                        phase.set_attribute("guided.prompt", number)
                    if name == "decode":
                        phase.set_attributes(_summarize_steps(stream.results))
                    phase.end(to_nanoseconds(finish))
        span.end(to_nanoseconds(end))


def _list_phases(stream: Stream, end: float) -> Iterator[tuple[str, float, float]]:
    """The phases that a request has reached: (name, begin, end), by `perf_counter`.

    If the answer is not complete, the last phase ends at `end`.
    """
    admission_time = min(
        (task.admission_time for task in stream.tasks if task.admission_time), default=stream.first_token_time
    )
    is_complete = len(stream.results) == len(stream.tasks)
    last_token_time = max(stream.last_token_times.values()) if is_complete and stream.last_token_times else None
    begin = stream.submit_time
    phases = (
        ("compile", stream.prepared_time),
        ("queue", admission_time),
        ("prefill", stream.first_token_time),
        ("decode", last_token_time),
    )
    for name, end_time in phases:
        finish = end if end_time is None else max(begin, min(end_time, end))  # other threads measure these times
        yield name, begin, finish
        if end_time is None:
            return
        begin = finish


def _make_attributes(context: RequestContext, model: str) -> dict[str, Any]:
    results = [result for stream in context.streams for result in stream.results]
    ttft = next((stream.ttft for stream in context.streams if stream.ttft is not None), None)
    address, port = context.server or (None, None)
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": _OPERATIONS[context.path],
        "gen_ai.provider.name": "guided",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.response.time_to_first_chunk": ttft,
        "server.address": address,
        "server.port": port,
        "http.request.method": context.method,
        "http.route": context.path,
        "http.response.status_code": context.status or None,
        "error.type": context.error_code,
        "guided.request.id": context.id,
        "guided.constraint": context.constraint_field or None,
    }
    if context.streams:
        attributes |= {
            "gen_ai.usage.input_tokens": sum(stream.prompt_tokens for stream in context.streams),
            "gen_ai.usage.output_tokens": sum(len(result.tokens) for result in results),
            "gen_ai.usage.reasoning.output_tokens": sum(result.reasoning_tokens for result in results) or None,
            "gen_ai.response.finish_reasons": [find_finish_reason(result) for result in results] or None,
        }
    if context.request is not None:
        options = context.request.options
        attributes |= {f"gen_ai.request.{name}": options.get(name) for name in _OPTIONS}
        attributes["gen_ai.request.choice.count"] = context.request.n if context.request.n > 1 else None
    return {name: value for name, value in attributes.items() if value is not None}


def _summarize_steps(results: Sequence[Result]) -> dict[str, Any]:
    """What happened in the steps of a prompt's outputs."""
    masks = [seconds for result in results for seconds in result.timings.mask]
    return {
        "guided.masks": len(masks),
        "guided.mask_time": sum(masks),
        "guided.forced_tokens": sum(result.token_masks.count(0) for result in results),
    }


def otlp_provider(endpoint: str) -> Any:
    """A provider from the OpenTelemetry SDK that sends spans in batches to a collector, with OTLP over HTTP.

    The SDK's environment variables still apply, such as OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and
    OTEL_EXPORTER_OTLP_HEADERS. The provider's `shutdown` sends the last spans.

    Args:
        endpoint: the collector's address, such as "http://127.0.0.1:4318".

    Raises:
        GuidedError: the address is not an HTTP address.
        ModuleNotFoundError: OpenTelemetry is not installed.
    """
    if urlsplit(endpoint).scheme not in ("http", "https"):
        hint = "write the address of a collector for OTLP over HTTP, such as http://127.0.0.1:4318"
        raise GuidedError(f"{brief(endpoint)} is not an HTTP address: {hint}")
    with importing("tracing"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    is_named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create({} if is_named else {"service.name": "guided"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")))
    return provider
