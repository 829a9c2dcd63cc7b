"""`/metrics`: read by Prometheus' own parser, and compared with the answers. The dashboard uses existing names."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")

from tests.live_server import becomes_idle, served, until  # noqa: E402

ROOT = Path(__file__).parents[1]
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}


async def samples(http) -> dict[str, float]:
    """Each sample by its name, and by the label that only its metric has."""
    answer = await http.get("/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain")
    found = {}
    for family in parser.text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = dict(sample.labels)
            if not sample.name.endswith("_created"):
                assert (labels.pop("model_name"), labels.pop("engine")) == ("guided", "0")
                found[sample.name + "".join(f" {value}" for value in labels.values())] = sample.value
    return found


def test_metrics_count_answers():
    async def run():
        async with served(max_queued_requests=3) as (_, http):
            usage, bodies = [], [
                {"prompt": "one", "max_tokens": 30, "json_schema": SCHEMA},
                {"prompt": "two", "max_tokens": 12, "json_schema": SCHEMA, "seed": 1, "n": 2},
                {"prompt": "three", "max_tokens": 5, "ignore_eos": True},
            ]  # fmt: skip
            reasons = []
            for body in bodies:
                answer = (await http.post("/v1/completions", json=body)).json()
                usage.append(answer["usage"])
                reasons += [choice["finish_reason"] for choice in answer["choices"]]
                bound = [choice.get("budget_bound") for choice in answer["choices"]]
            refused = await http.post("/v1/completions", json={"prompt": "a", "regex": "("})
            many = await http.post("/v1/completions", json={"prompt": "a", "regex": "a{9}", "max_tokens": 3})
            assert refused.status_code == many.status_code == 400
            found = await samples(http)
            assert found["vllm:prompt_tokens_total"] == sum(each["prompt_tokens"] for each in usage)
            assert found["vllm:generation_tokens_total"] == sum(each["completion_tokens"] for each in usage)
            for reason in ("stop", "length"):
                assert found[f"vllm:request_success_total {reason}"] == reasons.count(reason) > 0
            assert found["vllm:request_success_total abort"] == 0  # refused requests do not count
            for name in ("time_to_first_token", "e2e_request_latency", "request_queue_time", "request_prefill_time",
                         "request_decode_time"):  # fmt: skip
                assert found[f"vllm:{name}_seconds_count"] == 3
                assert found[f"vllm:{name}_seconds_sum"] >= 0
            parts = ("request_queue_time", "request_prefill_time", "request_decode_time")
            whole = found["vllm:e2e_request_latency_seconds_sum"]
            assert sum(found[f"vllm:{part}_seconds_sum"] for part in parts) == pytest.approx(whole)
            assert 0 < found["vllm:inter_token_latency_seconds_count"] < found["vllm:generation_tokens_total"]
            assert found["sglang:num_grammar_total"] == found["sglang:grammar_compilation_time_seconds_count"] == 4
            assert found["sglang:num_grammar_cache_hit_total"] == 1
            assert found["guided:specifications_refused_total invalid_specification"] == 1
            assert found["guided:masks_total"] > 0 and found["guided:mask_time_seconds_total"] > 0
            assert found["guided:removed_log_mass_total"] > 0 and found["guided:forced_tokens_total"] > 0
            assert not any(bound)  # for the last one, which has no constraint
            assert found["guided:budget_bound_answers_total"] > 0 and found["guided:budget_bound_steps_total"] > 0

    asyncio.run(run())


def test_metrics_count_waiting_and_refused_requests():
    async def run():
        async with served(max_queued_requests=2) as (server, http):
            with server.engine.driver.lock:
                body = {"prompt": "a", "max_tokens": 2, "n": 2}
                asked = asyncio.create_task(http.post("/v1/completions", json=body))
                await until(lambda: server.admission.queued_outputs == 2)
                assert (await http.post("/v1/completions", json={"prompt": "a"})).status_code == 503
                found = await samples(http)
                assert found["vllm:num_requests_waiting"] == 2 and found["vllm:num_requests_running"] == 0
                assert found["vllm:admission_rejections_total max_queued_requests"] == 1
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
            assert await becomes_idle(server)
            found = await samples(http)
            assert found["vllm:num_requests_waiting"] == 0 and found["vllm:request_success_total abort"] == 2
            assert found["vllm:kv_cache_usage_perc"] == 0

    asyncio.run(run())


def test_a_prefix_that_is_known_is_a_hit():
    async def run():
        async with served() as (server, http):
            prompt, size = "x" * 300, server.engine.scheduler.runner.cache.block_size
            for _ in range(2):
                await http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 2})
            found = await samples(http)
            assert found["vllm:prefix_cache_queries_total"] == 600
            assert found["vllm:prefix_cache_hits_total"] == 299 // size * size > 0  # whole blocks, not the last token

    asyncio.run(run())


def test_two_applications_count_for_themselves():
    async def run():
        async with served() as (_, one), served() as (_, two):
            await one.post("/v1/completions", json={"prompt": "a", "max_tokens": 3, "ignore_eos": True})
            assert (await samples(one))["vllm:generation_tokens_total"] == 3
            assert (await samples(two))["vllm:generation_tokens_total"] == 0

    asyncio.run(run())


def test_the_dashboard_names_metrics_that_exist():
    board = json.loads((ROOT / "docs" / "grafana" / "guided.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    named = {name for each in expressions for name in re.findall(r"(?:vllm|sglang|guided):\w+", each)}

    async def run():
        async with served(max_queued_requests=1) as (server, http):
            await http.post("/v1/completions", json={"prompt": "a", "regex": "("})
            server.thread.is_draining = True
            await http.post("/v1/completions", json={"prompt": "a"})
            server.admission.timeouts["queue_timeout"] += 1
            return {name.split(" ")[0] for name in await samples(http)}

    assert len(expressions) >= 12 and len(named) >= 20
    assert named <= asyncio.run(run())
    assert {panel["id"] for panel in board["panels"]} == set(range(1, len(board["panels"]) + 1))


def test_the_documented_names_exist():
    """Compared with the table at the head of the module."""
    from guided.server.http import metrics

    async def run():
        async with served() as (server, http):
            await http.post("/v1/completions", json={"prompt": "a", "regex": "("})
            server.admission.timeouts["queue_timeout"] = server.admission.rejections["draining"] = 1
            return {re.sub(r"_(total|sum|count|bucket)$", "", name.split(" ")[0]) for name in await samples(http)}

    table = "".join(line for line in metrics.__doc__.splitlines() if line.startswith("|"))
    named = set(re.findall(r"`((?:vllm|sglang|guided):\w+)`", table))
    named |= {"vllm:request_prefill_time_seconds", "vllm:request_decode_time_seconds"}
    assert asyncio.run(run()) == named
