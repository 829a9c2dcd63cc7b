"""The cases of the quality benchmark and its scores, with a small model that writes nonsense."""

from __future__ import annotations

import json
import sys
from math import isnan
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import guided
from benchmarks.quality import __main__ as command
from benchmarks.quality.cases import Case, cases_of, first_json
from benchmarks.quality.runs import MODES, auroc, measure
from guided.chat.template import ChatTemplate
from guided.engine.engine import Engine
from guided.models.architectures.llama import Llama
from tests.test_describe import CONFIG, VOCABULARY

ENGINE = Engine(Llama.random(CONFIG, seed=1), VOCABULARY, chat=ChatTemplate(VOCABULARY))


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_answers_the_extractions(mode: str) -> None:
    cases = cases_of("extraction")
    assert len(cases) == 50 and len({case.name for case in cases}) == 50
    small = [case for case in cases if len(json.dumps(case.messages)) < 900][:3]
    score = measure(ENGINE, small, MODES[mode])
    assert (score.cases, score.units) >= (3, 3)
    assert score.valid == (score.cases if mode != "free" else 0)
    assert 0 <= score.low <= score.share <= score.high <= 1
    assert score.tokens > 0 and score.passes > 3 and (mode == "free" or isnan(score.auroc) or 0 <= score.auroc <= 1)


@pytest.mark.parametrize("task", ["sql", "sql-names"])
def test_statements_prepare_or_are_refused(task: str) -> None:
    case = cases_of(task)[2]
    assert case.judge("```sql\nSELECT COUNT(*) FROM customers WHERE city = 'Basel'\n```") == ({"": True}, True, {})
    assert case.judge("SELECT COUNT(*) FROM customers") == ({"": False}, True, {})
    assert case.judge("Three customers.") == ({"": False}, False, {})
    grammar = case.constraint(ENGINE.compiler)
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.accept_string("SELECT COUNT(*) FROM customers WHERE city = 'Basel'") and matcher.is_accepting()


@pytest.mark.parametrize(
    ("text", "value"),
    [('Here: {"a": [1]} and {"b": 2}', {"a": [1]}), ("```json\n[1, 2]\n```", [1, 2]), ("{a} [3", None), ("none", None)],
)
def test_json_is_found_in_free_text(text: str, value: Any) -> None:
    assert first_json(text) == value


def test_calls_are_judged() -> None:
    pytest.importorskip("bfcl_eval", reason="bfcl-eval is not installed: pip install --no-deps bfcl-eval")
    from benchmarks.quality import bfcl

    task = bfcl.load_all("simple")[0]
    case = next(case for case in cases_of("tools") if case.name == task.name)
    (name, arguments) = bfcl.right_calls(task)[0]
    call = json.dumps({"name": name, "arguments": arguments})
    right = case.judge(f"<tool_call>\n{call}\n</tool_call>")
    assert right.units == {"": True} and right.valid and right.parts == dict.fromkeys(arguments, True)
    assert case.judge(f"```json\n[{call}]\n```").units == {"": True}
    assert case.judge(f"{call} {call}") == ({"": False}, True, {})
    assert case.judge("I cannot do that.") == ({"": False}, False, {})
    reader = case.reader() if case.reader is not None else None
    assert reader is not None
    reader.read(f"<tool_call>\n{call}\n</tool_call>")
    assert json.loads(reader.calls[0].arguments) == arguments


def test_auroc_is_the_share_of_ordered_pairs() -> None:
    assert auroc([0.9, 0.5], [0.5, 0.1]) == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert isnan(auroc([], [0.5]))


def test_the_command_prints_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    def few(task: str, **_: Any) -> list[Case]:
        return [case for case in cases_of(task) if len(json.dumps(case.messages)) < 900][:2]

    monkeypatch.setattr(command, "cases_of", few)
    monkeypatch.setattr(command.guided.Engine, "from_pretrained", lambda *_: ENGINE)
    file = tmp_path / "scores"
    monkeypatch.setattr(sys, "argv", ["quality", "--mode", "plain", "--mode", "described", "--json", str(file)])
    command.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[-2:]] == ["| plain", "| described"]
    assert [json.loads(line)["mode"] for line in file.read_text().splitlines()] == ["plain", "described"]
