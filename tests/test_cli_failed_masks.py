"""`guided lint` and `guided bench` report masks that exceed a limit, and everything else that they measured."""

from __future__ import annotations

import json

import pytest

import guided
from guided.frontends.json_schema.options import JsonSchemaOptions
from tests.test_cli import run

COUNTED = json.dumps({
    "type": "object", "minProperties": 50, "propertyNames": {"maxLength": 2},
    "patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "string"}},
})  # fmt: skip
DISTINCT = '{"uniqueItems": true, "type": "array", "minItems": 300, "items": {"type": "string", "maxLength": 2}}'
BYTES = guided.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_token_ids=[256])


def fails_after(schema: str, text: str, max_tokens: int | None) -> bool:
    """Whether the mask after a text exceeds the limit of a call."""
    options = JsonSchemaOptions.for_generation().non_defaults()
    matcher = guided.GrammarMatcher(guided.GrammarCompiler(BYTES).compile_json_schema(schema, **options))
    assert matcher.accept_string(text)
    bitmask = guided.allocate_token_bitmask(1, BYTES.size)
    try:
        matcher.fill_next_token_bitmask(bitmask, max_tokens=max_tokens)
    except guided.LimitExceeded as error:
        return error.limit == "call_work"
    return False


@pytest.mark.parametrize("schema", [COUNTED, DISTINCT])
def test_lint_reports_a_mask_that_exceeds_a_limit_with_the_other_findings(schema):
    code, out, _ = run("lint", "--json", "--schema", schema)
    report = json.loads(out)
    limit, *others = report["findings"]
    assert code == 1 and limit["kind"] == "limit" and limit["matters"] and others
    assert "can exceed the limit 'call_work'" in limit["message"] and "guided.Limits(call_work=...)" in limit["hint"]
    assert report["masks"]["measured"] == 2 and report["size"]["positions"]
    assert "limit: everywhere: masks under a budget of this" in run("lint", "--schema", schema)[1]


@pytest.mark.parametrize("schema", [COUNTED, DISTINCT])
def test_bench_reports_the_failure_and_the_measured_masks(schema):
    code, out, _ = run("bench", "--json", "--schema", schema)
    report = json.loads(out)
    (failed,) = report["failed_masks"]
    assert code == 1 and failed["limit"] == "call_work" and report["steps"] == 3 and report["first_mask_ms"] > 0
    assert fails_after(schema, failed["after"], failed["max_tokens"])
    assert not fails_after(schema, failed["after"], None), "only the budget needs the work"
    code, out, _ = run("bench", "--schema", schema)
    assert code == 1 and "failure       a mask under a budget of " in out and "first visit p50" in out


def test_bench_writes_texts_that_are_longer_than_its_default():
    code, out, _ = run("bench", "--json", "--regex", "a{300}", "--n", "1")
    assert code == 0 and json.loads(out)["steps"] == 301 and json.loads(out)["failed_masks"] == []
    code, _, err = run("bench", "--regex", "a{300}", "--max-tokens", "200")
    assert code == 2 and "the shortest known completion has 301 tokens" in err
