"""`guided generate` reports if the budget shortened an answer, and only then."""

from __future__ import annotations

import json
import re

import pytest

from tests.test_cli import run, run_json
from tests.test_cli_batch import batch, engine, with_engine  # noqa: F401 - the last two are fixtures

LONG = json.dumps(
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
)


def test_an_answer_that_the_budget_shortened_has_a_note(tmp_path):
    flags = (
        "generate",
        "x",
        "--raw",
        "--regex",
        "[a-z ]+-[a-z ]+",
        "--max-tokens",
        "6",
        "--seed",
        "1",
        "--temperature",
        "1",
    )
    code, out, err = run(*flags)
    assert code == 0 and len(out) <= 7
    told = re.fullmatch(
        r"shortened to fit --max-tokens: at (\d) of (\d) choices the budget excluded or penalized tokens that the "
        r"specification allows \((\d+)% of the probability there\); raise --max-tokens for a longer answer\n",
        err,
    )
    assert told, err
    got = run_json(*flags)
    bound = got["budget_bound"]
    assert bound["steps"] == int(told[1])
    assert 100 * bound["mass"] / bound["steps"] == pytest.approx(int(told[3]), abs=0.51)
    events = [json.loads(line) for line in run(*flags, "--stream", "--json")[1].splitlines()]
    assert events[-1]["result"]["budget_bound"] == pytest.approx(bound, rel=1e-4)
    assert 1 <= events[-2]["budget_bound"]["steps"] <= bound["steps"]
    lines = [{"prompt": "x"}, {"prompt": "x", "max_tokens": 300, "regex": "[a-z]{3}"}]
    answers, err = batch(tmp_path, lines, *flags[2:])
    assert answers[0]["budget_bound"] == pytest.approx(bound, rel=1e-4)
    assert answers[1]["budget_bound"] == {"steps": 0, "mass": 0}
    assert "1 answer was shortened to fit max_tokens (see budget_bound)" in err


@pytest.mark.parametrize("flags", [("--regex", "[a-z]{5}"), ("--choice", "yes,no"), ("--schema", LONG), ()])
def test_an_answer_that_the_budget_did_not_change_has_no_note(flags):
    more = ("--max-tokens", "390", "--max-string", "8") if "--schema" in flags else ("--max-tokens", "20")
    code, _, err = run("generate", "x", "--raw", *flags, *more, "--seed", "1")
    assert code == 0 and "shortened" not in err
