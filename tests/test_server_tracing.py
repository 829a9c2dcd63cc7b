"""Spans of requests: their names, their attributes, and their consistency. OpenTelemetry's own SDK collects them, and
its package of semantic conventions defines the names.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")

from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased  # noqa: E402
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id  # noqa: E402

from guided.errors import GuidedError  # noqa: E402
from guided.server.app import create_app  # noqa: E402
from guided.server.http import tracing  # noqa: E402
from guided.server.settings import Settings  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CHAT = {"messages": [{"role": "user", "content": "secret words"}], "max_tokens": 9, "temperature": 0.5, "seed": 3}
MESSAGE = {"model": "guided", "messages": CHAT["messages"], "max_tokens": 9, "regex": "[ab]{3}"}
PHASES = ["compile", "queue", "prefill", "decode"]
CONVENTIONS = ("gen_ai", "server", "http", "error")


class Spans:
    """The finished spans of a server."""

    def __init__(self, **options):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(**options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def roots(self):
        return [span for span in self.exporter.get_finished_spans() if span.kind == SpanKind.SERVER]

    def inside(self, span):
        """The phases of a request, ordered by their begin."""
        spans = self.exporter.get_finished_spans()
        found = [each for each in spans if each.parent is not None and each.parent.span_id == span.context.span_id]
        return sorted(found, key=lambda each: each.start_time)


@asynccontextmanager
async def traced(spans: Spans | None, **settings):
    provider = None if spans is None else spans.provider
    app = create_app(small_engine(), Settings(**settings), tracer_provider=provider)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://t:81", timeout=60) as http:
            yield http


def run(body, *, spans: Spans | None = None, **settings) -> Spans:
    spans = spans or Spans()

    async def whole():
        async with traced(spans, **settings) as http:
            await body(http)

    asyncio.run(whole())
    return spans


def one(body, **settings):
    """The span of the only request, and its child spans."""
    spans = run(body, **settings)
    (span,) = spans.roots()
    return span, spans.inside(span)


def test_a_request_has_a_span_with_its_phases():
    async def body(http):
        answer = await http.post("/v1/chat/completions", json={**CHAT, "regex": "[a-c]{4}x"})
        usage.update(answer.json()["usage"], id=answer.headers["x-request-id"])
        (usage["masks"],) = re.findall(r"^guided:masks_total{.*} (\d+)", (await http.get("/metrics")).text, re.M)

    usage: dict = {}
    span, phases = one(body, model_name="small")
    assert (span.name, span.kind, span.parent) == ("chat small", SpanKind.SERVER, None)
    assert span.status.status_code is StatusCode.UNSET
    exported = dict(span.attributes)
    assert exported.pop("gen_ai.response.time_to_first_chunk") > 0
    assert exported == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "guided", "gen_ai.request.model": "small",
        "gen_ai.response.model": "small", "gen_ai.request.max_tokens": 9, "gen_ai.request.temperature": 0.5,
        "gen_ai.request.seed": 3, "gen_ai.usage.input_tokens": usage["prompt_tokens"],
        "gen_ai.usage.output_tokens": 5, "gen_ai.response.finish_reasons": ("stop",),
        "server.address": "t", "server.port": 81, "http.request.method": "POST",
        "http.route": "/v1/chat/completions", "http.response.status_code": 200, "guided.request.id": usage["id"],
        "guided.constraint": "regex",
    }  # fmt: skip
    assert [phase.name for phase in phases] == PHASES
    times = [time for phase in phases for time in (phase.start_time, phase.end_time)]
    assert times == sorted(times) and all(a == b for a, b in zip(times[1:-1:2], times[2::2], strict=True))
    assert span.start_time <= times[0] and times[-1] <= span.end_time
    assert {phase.context.trace_id for phase in phases} == {span.context.trace_id}
    work = phases[-1].attributes
    assert (work["guided.masks"], work["guided.forced_tokens"]) == (int(usage["masks"]), 1)
    assert work["guided.masks"] >= 4 and 0 < work["guided.mask_time"] < 1


@pytest.mark.parametrize(
    ("path", "body", "name", "output"),
    [
        ("/v1/completions", {"prompt": "a", "max_tokens": 3, "ignore_eos": True}, "text_completion", 3),
        ("/v1/completions", {"prompt": "abc", "max_tokens": 0, "echo": True, "logprobs": 1}, "text_completion", 0),
        ("/v1/completions", {"prompt": "a", "max_tokens": 9, "regex": "abc"}, "text_completion", 3),
        ("/v1/responses", {"input": "a", "max_output_tokens": 9, "regex": "[ab]{3}"}, "chat", 3),
        ("/v1/messages", MESSAGE, "chat", 3),
        ("/stream", {"prompt": "a", "max_tokens": 3}, "text_completion", None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_routes_of_text_have_spans_whole_and_streamed(path, body, name, output, stream):
    async def ask(http):
        answer = await http.post(path, json=body if path == "/stream" else {**body, "stream": stream})
        assert answer.status_code == 200, answer.text
        for other in ("/health", "/metrics", "/v1/models", path):
            await http.get(other)
        await http.post("/tokenize", json={"prompt": "a"})

    span, phases = one(ask)
    assert (span.name, span.attributes["http.route"]) == (f"{name} guided", path)
    assert output in (None, span.attributes["gen_ai.usage.output_tokens"])
    assert [phase.name for phase in phases] == PHASES[: len(phases)] and len(phases) >= 3


def test_prompts_and_samples():
    async def body(http):
        fields = {"prompt": ["a", "bc"], "n": 3, "max_tokens": 4, "ignore_eos": True}
        assert (await http.post("/v1/completions", json=fields)).status_code == 200

    span, phases = one(body)
    assert (span.attributes["gen_ai.usage.input_tokens"], span.attributes["gen_ai.usage.output_tokens"]) == (3, 24)
    assert span.attributes["gen_ai.response.finish_reasons"] == ("length",) * 6
    assert span.attributes["gen_ai.request.choice.count"] == 3
    for number in range(2):
        assert [phase.name for phase in phases if phase.attributes["guided.prompt"] == number] == PHASES


@pytest.mark.parametrize(
    ("fields", "settings", "status", "code", "phases"),
    [
        ({"max_tokens": -1}, {}, 400, "invalid_request", []),
        ({"regex": "(a"}, {}, 400, "invalid_specification", ["compile"]),
        ({}, {"api_keys": ("k",)}, 401, "invalid_api_key", []),
        ({"model": "other"}, {}, 404, "model_not_found", []),
        ({"max_tokens": 500, "ignore_eos": True}, {"request_timeout": 1e-9}, 503, "request_timeout", ["compile"]),
    ],
)
def test_refused_requests_have_a_span_with_the_error(fields, settings, status, code, phases):
    async def body(http):
        assert (await http.post("/v1/chat/completions", json=CHAT | fields)).status_code == status

    span, inside = one(body, **settings)
    assert (span.attributes["error.type"], span.attributes["http.response.status_code"]) == (code, status)
    assert span.status.status_code is (StatusCode.ERROR if status >= 500 else StatusCode.UNSET)
    assert [phase.name for phase in inside][:1] == phases
    assert all(phase.end_time <= span.end_time for phase in inside)


def test_an_aborted_request_ends_in_the_phase_that_it_was_in():
    async def body(http):
        async def abort():
            while (await http.post("/abort_request", json={"rid": "r"})).json()["aborted"] == 0:
                await asyncio.sleep(0)

        fields = {"prompt": "a", "max_tokens": 500, "ignore_eos": True, "rid": "r"}
        answer, _ = await asyncio.gather(http.post("/v1/completions", json=fields), abort())
        assert answer.status_code == 499

    span, phases = one(body)
    assert (span.attributes["error.type"], span.attributes["guided.request.id"]) == ("aborted", "r")
    assert [phase.name for phase in phases] == PHASES[: len(phases)]
    assert phases[-1].end_time == span.end_time


def test_the_parent_is_the_clients_span():
    async def body(http):
        for headers in ({"traceparent": PARENT, "tracestate": "a=b"}, {"traceparent": "nonsense"}, {}):
            assert (await http.post("/v1/chat/completions", json=CHAT, headers=headers)).status_code == 200

    child, *others = run(body).roots()
    trace, parent = PARENT.split("-")[1:3]
    assert format_trace_id(child.context.trace_id) == trace and format_span_id(child.parent.span_id) == parent
    assert child.context.trace_state.get("a") == "b"
    assert all(span.parent is None for span in others) and len(others) == 2


def test_a_client_that_does_not_sample_gets_no_spans():
    async def body(http):
        for flag in ("00", "01"):
            await http.post("/v1/chat/completions", json=CHAT, headers={"traceparent": PARENT[:-2] + flag})

    spans = run(body, spans=Spans(sampler=ParentBased(ALWAYS_OFF)))
    assert len(spans.roots()) == 1 and len(spans.exporter.get_finished_spans()) == 5


def test_no_attribute_has_a_text_of_the_client():
    async def body(http):
        fields = {**CHAT, "stop": ["hidden"], "user": "hidden", "regex": "written"}
        await http.post("/v1/chat/completions", json={**fields, "stop": None})
        await http.post("/v1/chat/completions", json=fields)

    spans = run(body).exporter.get_finished_spans()
    exported = str([(span.name, dict(span.attributes), span.events, span.status) for span in spans])
    assert not any(word in exported for word in ("secret", "hidden", "written")) and len(spans) > 5


def test_names_match_the_conventions():
    async def body(http):
        options = {"top_p": 0.9, "top_k": 5, "presence_penalty": 0.5, "frequency_penalty": 0.5, "n": 2}
        await http.post("/v1/chat/completions", json={**CHAT, **options})
        await http.post("/v1/chat/completions", json={**CHAT, "max_tokens": -1})

    modules = [f"opentelemetry.semconv._incubating.attributes.{name}_attributes" for name in CONVENTIONS]
    modules += [f"opentelemetry.semconv.attributes.{name}_attributes" for name in CONVENTIONS[1:]]
    known = {value for name in modules for value in vars(importlib.import_module(name)).values() if type(value) is str}
    names = {name for span in run(body).exporter.get_finished_spans() for name in span.attributes}
    assert {name for name in names if not name.startswith("guided.")} <= known
    assert {f"gen_ai.request.{name}" for name in tracing._OPTIONS} <= names


def test_a_collector_has_an_address_of_http():
    for address in ("127.0.0.1:4318", "grpc://x", "", "file:///x"):
        with pytest.raises(GuidedError, match="not an HTTP address"):
            tracing.otlp_provider(address)


def test_without_a_provider_opentelemetry_is_not_imported():
    code = (
        "import asyncio, sys\nfrom tests.test_server_tracing import *\n"
        "for name in [name for name in sys.modules if name.startswith('opentelemetry')]: del sys.modules[name]\n"
        "async def body():\n"
        "    async with traced(None) as http:\n"
        "        answer = await http.post('/v1/chat/completions', json=CHAT, headers={'traceparent': PARENT})\n"
        "        assert answer.status_code == 200\n"
        "asyncio.run(body())\nassert not any(name.startswith('opentelemetry') for name in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
