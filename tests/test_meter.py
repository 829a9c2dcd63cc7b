"""Meters: what a piece of work may cost, and that explanations are bounded by one."""

from __future__ import annotations

import threading

import pytest

import guided
from guided.errors import LimitExceeded
from guided.limits import Limits
from guided.matching import explanation
from guided.meter import is_exhausted, metered, seconds_left, spend

COMPILER = guided.GrammarCompiler(guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))


def test_without_a_meter_nothing_is_counted() -> None:
    spend(1 << 40)
    assert not is_exhausted() and seconds_left(3.0) == 3.0


def test_work_is_bounded() -> None:
    with metered(60.0, work=3):
        spend(3)
        with pytest.raises(LimitExceeded) as caught:
            spend()
        assert (caught.value.limit, caught.value.given, caught.value.allowed) == ("work", 4, 3)
        assert "ask for less" in str(caught.value)
        assert is_exhausted()
    assert not is_exhausted()


def test_time_is_bounded() -> None:
    with metered(0.0), pytest.raises(LimitExceeded, match="seconds"):
        while True:
            spend()


def test_an_inner_meter_allows_no_more_than_the_outer() -> None:
    with metered(5.0, work=10):
        with metered(100.0, work=100):
            assert seconds_left(60.0) <= 5.0
            with pytest.raises(LimitExceeded) as caught:
                spend(11)
            assert caught.value.allowed == 10
        assert is_exhausted()


def test_what_is_spent_inside_counts_outside() -> None:
    with metered(60.0, work=10):
        with metered(60.0, work=6), pytest.raises(LimitExceeded):
            spend(7)
        assert not is_exhausted()
        with pytest.raises(LimitExceeded):
            spend(4)


def test_work_ends_when_it_is_stopped() -> None:
    stop, begun, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        with metered(600.0, stop=stop), pytest.raises(LimitExceeded, match="nobody waits"):
            while True:
                spend()
                begun.set()
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    assert begun.wait(30) and not ended.is_set()
    stop.set()
    assert ended.wait(30)


def test_a_meter_is_that_of_its_thread() -> None:
    found: list[float] = []
    with metered(0.0):
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
    """Whatever work is left, an explanation ends, and says what is true: more work never makes it say less."""
    grammar = MANY[kind]()
    text = {"tags": "<f12>x", "schema": '{"k":"a1","v":"', "rules": "a1x"}[kind]
    before: guided.Explanation | None = None
    for work in (0, 10, 1_000, 100_000):
        monkeypatch.setattr(explanation, "_WORK", work)
        explanation._schema_places.cache_clear()
        explanation._labelled.cache_clear()
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
    with metered(0.0), pytest.raises(LimitExceeded, match="seconds"):
        guided.GrammarCompiler(COMPILER.vocabulary, limits=Limits(seconds=1000)).compile_json_schema(schema)
