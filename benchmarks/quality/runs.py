"""Runs the cases of the quality benchmark in several modes. In: an engine, cases, a mode. Out: a `Score`.

| mode | what it does |
|---|---|
| free | free text; the prompt describes what the specification requires, and the answer is read leniently |
| plain | the mask, with `describe=False` |
| described | the mask, with the default options; the same as plain if the specification is a grammar |
| thoughts | the mask, after `think_first=128` |
| answer | the mask, after `think_first="answer"` |
| retries | the mask, with `describe=False, retries=4` |
| both | the mask, with `retries=8, retry_below=0.8` |

Free text before an answer does not count towards the answer's budget. Decoding is greedy. Intervals are of 95 %: cases
are drawn again 1,000 times, with replacement.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import guided
from benchmarks.quality.cases import Case, Verdict
from guided.engine.fields import text_with_names

__all__ = ["MODES", "Score", "auroc", "interval", "measure"]

MODES: Final[Mapping[str, Mapping[str, Any] | None]] = {
    "free": None,
    "plain": {"describe": False},
    "described": {},
    "thoughts": {"think_first": 128},
    "answer": {"think_first": "answer"},
    "retries": {"describe": False, "retries": 4},
    "both": {"retries": 8, "retry_below": 0.8},
}
"""Mode -> the options of its requests; None: free text."""
_DRAWS: Final = 1000


@dataclass(frozen=True, slots=True)
class Score:
    """The result of a mode.

    Attributes:
        right, units: the number of right units, and of all units.
        low, high: the interval of right / units.
        valid, cases: the number of valid answers, and of all answers.
        tokens, passes: written tokens, and forward passes that were read for them (a batch shares passes).
        removed: -log of the probability that the masks removed, summed over all answers.
        seconds: for all cases, in one batch.
        auroc: the probability that a right field has a higher confidence than a wrong one; nan without both.
    """

    right: int
    units: int
    low: float
    high: float
    valid: int
    cases: int
    tokens: int
    passes: int
    removed: float
    seconds: float
    auroc: float

    @property
    def share(self) -> float:
        """The share of right units."""
        return self.right / self.units if self.units else float("nan")


def measure(engine: guided.Engine, cases: Sequence[Case], options: Mapping[str, Any] | None) -> Score:
    """Answer all cases in one mode. `options`: see `MODES`."""
    begin = time.perf_counter()
    verdicts, confidences = list[Verdict](), {True: list[float](), False: list[float]()}
    tokens, passes, removed = 0, 0, 0.0
    for case, result in _results(engine, cases, options):
        tokens, passes = tokens + len(result.tokens), passes + 1 + len(result.timings.forward)
        removed += result.removed_log_mass
        verdict = case.judge(_text(engine.vocabulary, case, result))
        verdicts.append(verdict)
        parts = verdict.units if case.reader is None else verdict.parts
        for name, confidence in _confidences(case, result).items():
            if name in parts:
                confidences[parts[name]].append(confidence)
    seconds = time.perf_counter() - begin
    counts = [(sum(one.units.values()), len(one.units)) for one in verdicts]
    low, high = interval(counts)
    return Score(
        sum(right for right, _ in counts),
        sum(units for _, units in counts),
        low,
        high,
        sum(one.valid for one in verdicts),
        len(verdicts),
        tokens,
        passes,
        removed,
        seconds,
        auroc(confidences[True], confidences[False]),
    )


def _results(
    engine: guided.Engine, cases: Sequence[Case], options: Mapping[str, Any] | None
) -> Iterator[tuple[Case, guided.Result]]:
    def requests() -> Iterator[guided.Request]:
        for case in cases:
            grammar = case.constraint(engine.compiler)
            thoughts = (options or {}).get("think_first", 0)  # besides the budget of the answer
            most = case.max_tokens * 2 if thoughts == "answer" else case.max_tokens + thoughts
            request_options = guided.Options(max_tokens=most, **cast("guided.Options", options or {}))
            if options is None:
                yield guided.Request(case.free_conversation(grammar), options=request_options)
            else:
                yield guided.Request(case.conversation(), grammar, options=request_options)

    for number, outcome in engine.generate_each(requests(), total=len(cases), progress=True):
        if isinstance(outcome, Exception):
            raise outcome
        yield cases[number], outcome[0]


def _text(vocabulary: guided.Vocabulary, case: Case, result: guided.Result) -> str:
    """The text of an answer; for calls, with the names of control tokens."""
    if case.reader is None:
        return result.text
    return text_with_names(vocabulary, result.tokens[result.reasoning_tokens :])[0]


def _confidences(case: Case, result: guided.Result) -> dict[str, float]:
    """The confidence of each field; for calls, of each argument of the first call: that of its least certain part."""
    if case.reader is None:
        return {name: field.confidence for name, field in result.fields.items()}
    confidences = dict[str, float]()
    for pointer, field in result.call_fields(case.reader()).items():
        _, call, kind, *path = pointer.split("/")
        if (call, kind) == ("0", "arguments") and path:
            name = path[0].replace("~1", "/").replace("~0", "~")
            confidences[name] = min(field.confidence, confidences.get(name, 1.0))
    return confidences


def auroc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """The probability that a right field has the higher confidence; ties count half."""
    pairs = [(a > b) + 0.5 * (a == b) for a in right for b in wrong]
    return sum(pairs) / len(pairs) if pairs else float("nan")


def interval(counts: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """The interval of the share of right units, if cases are drawn with replacement."""
    source, shares = random.Random(0), list[float]()
    for _ in range(_DRAWS):
        drawn = source.choices(counts, k=len(counts))
        shares.append(sum(right for right, _ in drawn) / max(1, sum(units for _, units in drawn)))
    shares.sort()
    return shares[_DRAWS // 40], shares[-_DRAWS // 40]
