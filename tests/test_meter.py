"""Meters: the bound of a piece of work, and that explanations have one."""

from __future__ import annotations

import threading
from itertools import count

import pytest

import guided
from guided.errors import LimitExceeded
from guided.limits import Limits
from guided.matching.explain import explanation
from guided.meter import fail_if_exhausted, is_exhausted, limit_compilation, limit_work, seconds_left, spend

COMPILER = guided.GrammarCompiler(guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))


def test_without_a_meter_nothing_is_counted() -> None:
    spend(1 << 40)
    assert not is_exhausted() and seconds_left(3.0) == 3.0


def test_work_is_bounded() -> None:
    with limit_work(60.0, work=3):
        spend(3)
        with pytest.raises(LimitExceeded) as caught:
            spend()
        assert (caught.value.limit, caught.value.given, caught.value.allowed) == ("work", 4, 3)
        assert "request less" in str(caught.value)
        assert is_exhausted()
    assert not is_exhausted()


def test_time_is_bounded() -> None:
    with limit_work(0.0), pytest.raises(LimitExceeded, match="seconds"):
        while True:
            spend()


def test_an_inner_meter_allows_no_more_than_the_outer() -> None:
    with limit_work(5.0, work=10):
        with limit_work(100.0, work=100):
            assert seconds_left(60.0) <= 5.0
            with pytest.raises(LimitExceeded) as caught:
                spend(11)
            assert caught.value.allowed == 10
        assert is_exhausted()


def test_work_inside_counts_outside() -> None:
    with limit_work(60.0, work=10):
        with limit_work(60.0, work=6), pytest.raises(LimitExceeded):
            spend(7)
        assert not is_exhausted()
        with pytest.raises(LimitExceeded):
            spend(4)


def test_work_ends_when_it_is_stopped() -> None:
    stop, begun, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        with limit_work(600.0, stop=stop), pytest.raises(LimitExceeded, match="was cancelled"):
            while True:
                spend()
                begun.set()
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    assert begun.wait(30) and not ended.is_set()
    stop.set()
    assert ended.wait(30)


def test_each_thread_has_its_own_meter() -> None:
    found: list[float] = []
    with limit_work(0.0):
        thread = threading.Thread(target=lambda: found.append(seconds_left(7.0)))
        thread.start()
        thread.join()
    assert found == [7.0]


ALTERNATIVES = 2_000
MANY = {
    "tags": lambda: COMPILER.compile_structural_tag({"type": "structural_tag", "format": {"type": "or", "elements": [
        {"type": "tag", "begin": f"<f{number}>", "end": "</f>", "content": {
            "type": "json_schema", "json_schema": {"type": "integer", "minimum": number}}}
        for number in range(ALTERNATIVES)
    ]}}),
    "schema": lambda: COMPILER.compile_json_schema({"anyOf": [
        {"properties": {"k": {"const": f"a{number}"}, "v": {"type": "integer"}}, "required": ["k"]}
        for number in range(60)
    ]}),
    "rules": lambda: COMPILER.compile_gbnf(
        "root ::= " + " | ".join(f"r{number}" for number in range(ALTERNATIVES)) + "\n"
        + "\n".join(f'r{number} ::= "a" [0-9]* "b{number}"' for number in range(ALTERNATIVES))
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", MANY)
def test_every_loop_of_an_explanation_is_metered(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With any amount of work left, an explanation ends and is right. More work never makes it less complete."""
    grammar = MANY[kind]()
    text = {"tags": "<f12>x", "schema": '{"k":"a1","v":"', "rules": "a1x"}[kind]
    before: guided.Explanation | None = None
    for work in (0, 10, 1_000, 100_000):
        monkeypatch.setattr(explanation, "_WORK", work)
        explanation._build_schema_locator.cache_clear()
        explanation._labelled_grammar.cache_clear()
        found = guided.GrammarMatcher(grammar).explain(text)
        assert not found.accepted and found.reason
        if work == 0:
            assert found.is_partial and "incomplete" in found.reason
        if before is not None:
            assert (found.read, found.expected) == (before.read, before.expected)
            assert not (found.is_partial and not before.is_partial)
        before = found


def test_a_compilation_takes_no_longer_than_its_meter() -> None:
    schema = {"properties": {f"p{number}": {"pattern": f"^a{number}.*b$"} for number in range(50)}}
    with limit_work(0.0), pytest.raises(LimitExceeded, match="seconds"):
        guided.GrammarCompiler(COMPILER.vocabulary, limits=Limits(seconds=1000)).compile_json_schema(schema)


def test_a_compilation_is_bounded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pattern of a schema is short, but together they exceed `Limits.seconds`, even without the core."""
    clock = count()
    monkeypatch.setattr("guided.meter.perf_counter", lambda: next(clock) / 1_000)
    compiler = guided.GrammarCompiler(COMPILER.vocabulary, limits=Limits(seconds=1.0), cache_bytes=0)
    few, many = (
        {"patternProperties": {f"^x{number}{'ab'[number % 2]}": True for number in range(size)}} for size in (2, 200)
    )
    compiler.compile_json_schema(few)
    before = next(clock)
    with pytest.raises(LimitExceeded, match="raise guided") as caught:
        compiler.compile_json_schema(many)
    assert caught.value.allowed == 1.0 and not caught.value.fixed
    assert next(clock) - before < 1_100


def test_the_core_names_the_seconds_of_the_whole_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"properties": {f"p{number}": {"pattern": f"^a{number}.*b$"} for number in range(50)}}
    limits = Limits(seconds=0.5)
    monkeypatch.setattr("guided.automaton.build.seconds_left", lambda most: 0.0)
    with limit_compilation(Limits(seconds=0.0)), pytest.raises(LimitExceeded) as caught:
        fail_if_exhausted("here")
    assert (caught.value.allowed, caught.value.place) == (0.0, "here")
    with pytest.raises(LimitExceeded) as caught:
        guided.GrammarCompiler(COMPILER.vocabulary, limits=limits).compile_json_schema(schema)
    assert caught.value.limit == "seconds"


def test_a_meter_that_is_entered_again_continues_its_count() -> None:
    meter = limit_work(60.0, work=3)
    for spent in (2, 1):
        with meter:
            spend(spent)
    with meter, pytest.raises(LimitExceeded, match="work"):
        spend()
    assert not is_exhausted()


def test_reading_the_numbers_of_a_schema_is_metered() -> None:
    text = '{"enum": [' + "1, " * 100_000 + "2]}"
    with limit_work(600.0, work=50_000), pytest.raises(LimitExceeded, match="work"):
        guided.GrammarCompiler(COMPILER.vocabulary, cache_bytes=0).compile_json_schema(text)
