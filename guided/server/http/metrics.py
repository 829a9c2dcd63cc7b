"""The metrics at `/metrics`. In: outcomes of the engine, as they arrive. Out: Prometheus' text format.

Metrics that vLLM also has use vLLM's names. Grammar metrics that SGLang also has use SGLang's names. All other names
begin with `guided:`. As in vLLM, all metrics have the labels `model_name` and `engine`. Counters end in `_total`, as
the Prometheus format requires. Each application has its own registry.

| name | |
|---|---|
| `vllm:num_requests_running`, `vllm:num_requests_waiting` | outputs in the batch, and outputs in the queue |
| `vllm:kv_cache_usage_perc` | used share of the cache, 0 to 1 |
| `vllm:prefix_cache_queries`, `vllm:prefix_cache_hits` | prompt tokens that were looked up, and found |
| `vllm:num_preemptions` | outputs that were preempted |
| `vllm:prompt_tokens`, `vllm:generation_tokens` | tokens read, and tokens written |
| `vllm:request_success` | outputs by `finished_reason`: stop, length, abort |
| `vllm:time_to_first_token_seconds`, `vllm:e2e_request_latency_seconds` | arrival to first token; arrival to end |
| `vllm:inter_token_latency_seconds` | time between two steps that produced tokens of an output |
| `vllm:request_queue_time_seconds` | arrival to entry into the batch |
| `vllm:request_prefill_time_seconds`, `..._decode_time_...` | batch to first token; first token to end |
| `vllm:admission_rejections` | refused requests by `reason`, the name of the setting |
| `guided:timeouts` | requests that ran out of time, by `reason`, the name of the setting |
| `sglang:num_grammar`, `sglang:num_grammar_cache_hit` | specifications, and grammars found in the cache |
| `sglang:grammar_compilation_time_seconds` | compile time of each specification, including cached ones |
| `sglang:num_grammar_queue_reqs`, `sglang:num_grammar_timeout` | specifications being compiled; timed out |
| `guided:specifications_refused` | refused specifications, by the `code` of the error |
| `guided:mask_time_seconds`, `guided:masks` | total time for filling masks, and number of masks |
| `guided:removed_log_mass` | the sum of `Result.removed_log_mass`: -log of the probability of the allowed tokens |
| `guided:forced_tokens` | tokens for which the grammar left no choice |
| `guided:budget_bound_answers`, `guided:budget_bound_steps`, `guided:budget_bound_mass` | what the budget removed |

Cost: a few microseconds for each event of an output (`benchmarks/server_overhead.py`). Gauges are read on each scrape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from guided.engine.result import Result
from guided.engine.task import Outcome, Task
from guided.errors import BudgetError, GuidedError
from guided.server.engine_thread import EngineThread, Stream
from guided.server.http.admission import Admission
from guided.server.http.errors import make_error_body
from guided.server.openai.deltas import find_finish_reason
from guided.server.preparing import CompileTimeout

__all__ = ["Metrics"]

_LABELS: Final = ("model_name", "engine")
_LATENCIES: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 600.0
)  # fmt: skip
_HISTOGRAMS: Final = {
    "vllm:time_to_first_token_seconds": "from the arrival of a request to its first token",
    "vllm:inter_token_latency_seconds": "between two steps that produced tokens of an output",
    "vllm:e2e_request_latency_seconds": "from the arrival of a request to its end",
    "vllm:request_queue_time_seconds": "from the arrival of a request to its entry into the batch",
    "vllm:request_prefill_time_seconds": "from the entry of a request into the batch to its first token",
    "vllm:request_decode_time_seconds": "from the first token of a request to its end",
    "sglang:grammar_compilation_time_seconds": "compile time of each specification, including cached ones",
}
_COUNTERS: Final = {
    "vllm:prompt_tokens": "prompt tokens read",
    "vllm:generation_tokens": "tokens written",
    "sglang:num_grammar": "specifications",
    "sglang:num_grammar_timeout": "specifications that took too long to compile",
    "guided:mask_time_seconds": "total time for filling masks",
    "guided:masks": "masks filled",
    "guided:removed_log_mass": "-log of the model's probability of all allowed tokens, summed over choices",
    "guided:forced_tokens": "tokens for which the grammar left no choice",
    "guided:budget_bound_answers": "answers from which the budget removed probability",
    "guided:budget_bound_steps": "choices from which the budget removed probability",
    "guided:budget_bound_mass": "the model's probability that the budget removed, summed over choices",
}


class Metrics(Collector):
    """See the module docstring. Its methods run on the event loop, except `record_compilation` and `text`."""

    def __init__(self, thread: EngineThread, admission: Admission, model_name: str) -> None:
        self.registry = CollectorRegistry()
        self._thread, self._admission, self._labels = thread, admission, (model_name, "0")
        self._seconds = {
            name: Histogram(name, description, _LABELS, registry=self.registry, buckets=_LATENCIES).labels(
                *self._labels
            )
            for name, description in _HISTOGRAMS.items()
        }
        self._counts = {
            name: Counter(name, description, _LABELS, registry=self.registry).labels(*self._labels)
            for name, description in _COUNTERS.items()
        }
        counter = Counter("vllm:request_success", "outputs", (*_LABELS, "finished_reason"), registry=self.registry)
        self._finish_reasons = {reason: counter.labels(*self._labels, reason) for reason in ("stop", "length", "abort")}
        self._refused_specifications = Counter(
            "guided:specifications_refused", "refused specifications, by error code", (*_LABELS, "code"),
            registry=self.registry,
        )  # fmt: skip
        self.registry.register(self)
        thread.observers.append(self.observe)
        thread.preparer.on_compiled = self.record_compilation

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def observe(self, stream: Stream, task: Task, outcome: Outcome, now: float) -> None:
        """Record an outcome of the engine."""
        if isinstance(outcome, Exception):
            return
        if outcome.tokens:
            self._counts["vllm:generation_tokens"].inc(len(outcome.tokens))
            if not stream.last_token_times:
                self._counts["vllm:prompt_tokens"].inc(stream.prompt_tokens)
                self._seconds["vllm:time_to_first_token_seconds"].observe(now - stream.submit_time)
            elif (last_time := stream.last_token_times.get(task, now)) < now:
                self._seconds["vllm:inter_token_latency_seconds"].observe(now - last_time)
        if outcome.result is not None:
            self._record_output(outcome.result)
            if len(stream.results) + 1 == len(stream.tasks):
                self._record_request_end(stream, now)

    def _record_output(self, result: Result) -> None:
        counts, bound = self._counts, result.budget_bound
        self._finish_reasons[find_finish_reason(result)].inc()
        counts["guided:mask_time_seconds"].inc(sum(result.timings.mask))
        counts["guided:masks"].inc(len(result.timings.mask))
        counts["guided:removed_log_mass"].inc(max(0.0, result.removed_log_mass))
        counts["guided:forced_tokens"].inc(result.token_masks.count(0))
        if bound.steps:
            counts["guided:budget_bound_answers"].inc()
            counts["guided:budget_bound_steps"].inc(bound.steps)
            counts["guided:budget_bound_mass"].inc(bound.mass)

    def _record_request_end(self, stream: Stream, now: float) -> None:
        admission_time = min((task.admission_time for task in stream.tasks if task.admission_time), default=now)
        first_token_time = max(admission_time, now if stream.first_token_time is None else stream.first_token_time)
        self._seconds["vllm:request_queue_time_seconds"].observe(admission_time - stream.submit_time)
        self._seconds["vllm:request_prefill_time_seconds"].observe(first_token_time - admission_time)
        self._seconds["vllm:request_decode_time_seconds"].observe(now - first_token_time)
        self._seconds["vllm:e2e_request_latency_seconds"].observe(now - stream.submit_time)

    def record_aborted(self, count: int) -> None:
        """Record a number of aborted outputs."""
        self._finish_reasons["abort"].inc(count)

    def record_compilation(self, seconds: float, error: Exception | None) -> None:
        """Record that a specification was compiled or refused. Runs on any thread."""
        self._counts["sglang:num_grammar"].inc()
        self._seconds["sglang:grammar_compilation_time_seconds"].observe(seconds)
        if isinstance(error, CompileTimeout):
            self._counts["sglang:num_grammar_timeout"].inc()
        if isinstance(error, GuidedError) and not isinstance(error, BudgetError):
            self._refused_specifications.labels(
                *self._labels, make_error_body(error)["error"]["code"] or "bad_request"
            ).inc()

    # ---- read on each scrape
    def collect(self) -> Iterable[Metric]:
        """Yield the gauges, and the counters that other objects keep. Prometheus' `Collector` requires this method."""
        scheduler, cache = self._thread.engine.scheduler, self._thread.engine.scheduler.runner.cache
        gauges = {
            "vllm:num_requests_running": ("outputs in the batch", scheduler.running_count),
            "vllm:num_requests_waiting": ("outputs that wait for a slot in the batch", self._admission.queued_outputs),
            "vllm:kv_cache_usage_perc": ("used share of the cache, 0 to 1", 1 - cache.available / cache.capacity),
            "sglang:num_grammar_queue_reqs": (
                "outputs whose specification is being compiled",
                scheduler.compiling_count,
            ),
        }
        for name, (description, value) in gauges.items():
            gauge = GaugeMetricFamily(name, description, labels=_LABELS)
            gauge.add_metric(self._labels, value)
            yield gauge
        counters = {
            "vllm:num_preemptions": ("outputs that were preempted", scheduler.preemptions),
            "vllm:prefix_cache_queries": ("prompt tokens looked up in the prefix cache", scheduler.prefix_queries),
            "vllm:prefix_cache_hits": ("prompt tokens found in the prefix cache", scheduler.prefix_hits),
            "sglang:num_grammar_cache_hit": ("grammars found in the cache", self._thread.engine.compiler.cache.hits),
        }
        for name, (description, value) in counters.items():
            counter = CounterMetricFamily(name, description, labels=_LABELS)
            counter.add_metric(self._labels, value)
            yield counter
        yield self._make_reason_counter("vllm:admission_rejections", "refused requests", self._admission.rejections)
        yield self._make_reason_counter("guided:timeouts", "requests that ran out of time", self._admission.timeouts)

    def _make_reason_counter(self, name: str, description: str, counts: Mapping[str, int]) -> Metric:
        counter = CounterMetricFamily(name, f"{description}, by the setting", labels=(*_LABELS, "reason"))
        for reason, count in dict(counts).items():
            counter.add_metric((*self._labels, reason), count)
        return counter
