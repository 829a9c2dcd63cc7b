"""Calls that fail in the middle, at a limit or for lack of memory, do not change later answers of the shared
grammar.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter

import pytest

import guided
from benchmarks.bad_inputs.calls import vocabulary as search_vocabulary
from guided import GrammarCompiler, GrammarMatcher, Limits
from guided.matching.explain import explanation
from tests.core_support import EVERY_SPEC, SANITIZED, journey, mask_of, vocabulary
from tests.effort import every
from tests.failing_support import FailingMatcher, Failures, arm_fault
from tests.test_json_schema_suites import _data

STEPS = 30 if SANITIZED else 40
WORK = [round(20 * 1.7**n) for n in range(24)]
"""Limits of one call, up to what any call of these grammars needs."""

needs_faults = pytest.mark.skipif(arm_fault is None, reason="needs a core with GUIDED_FAULTS: scripts/sanitize.sh")


def reference_walk(name: str, seed: int) -> list[tuple[int, tuple[int, ...], int, tuple[int, ...]]]:
    """The tokens of a random walk; before each token the mask, the smallest number of tokens, and a mask under a
    budget.
    """
    matcher, rng, out = GrammarMatcher(EVERY_SPEC[name](GrammarCompiler(vocabulary()))), random.Random(seed), []
    while len(out) < STEPS and not matcher.is_terminated():
        mask, least = mask_of(matcher), matcher.min_tokens_to_finish()
        token = rng.choice(mask)
        out.append((token, mask, least, mask_of(matcher, least + 1)))
        assert matcher.accept_token(token)
    return out


def open_rules(name: str, tokens: list[int]) -> list[str]:
    """What errors name before each of the tokens."""
    matcher, out = GrammarMatcher(EVERY_SPEC[name](GrammarCompiler(vocabulary()))), []
    for token in tokens:
        out.append(", ".join(matcher._open_rules(b"")[:3]))
        assert matcher.accept_token(token)
    return out


@pytest.mark.parametrize("name", every(2, EVERY_SPEC))
def test_an_interrupted_call_changes_no_later_result(name: str) -> None:
    """Each limit is reached at a different point. Every answer that is returned equals that of a grammar without
    limits.
    """
    walk, answers, failures = reference_walk(name, 7), 0, 0
    places = open_rules(name, [token for token, *_ in walk])
    for work in WORK:
        try:
            grammar = EVERY_SPEC[name](GrammarCompiler(vocabulary(), limits=Limits(call_work=work)))
        except guided.LimitExceeded as error:
            assert error.limit == "call_work"
            continue
        for _ in range(2):
            matcher = GrammarMatcher(grammar)
            for (token, mask, least, budgeted), place in zip(walk, places, strict=True):
                for ask, expected in (
                    (lambda: mask_of(matcher), mask),  # noqa: B023
                    (matcher.min_tokens_to_finish, least),
                    (lambda: mask_of(matcher, least + 1), budgeted),  # noqa: B023
                ):
                    try:
                        assert ask() == expected
                        answers += 1
                    except guided.LimitExceeded as error:
                        assert error.limit == "call_work" and error.allowed == work
                        assert error.place == place
                        failures += 1
                steps = matcher.steps
                try:
                    assert matcher.accept_token(token)
                except guided.LimitExceeded:
                    assert matcher.steps == steps
                    break
    assert answers > 0 and failures > 0


def test_errors_name_the_open_rules() -> None:
    schema = {"properties": {"a/b": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{3,9}$"}}}}
    grammar = GrammarCompiler(vocabulary(), limits=Limits(call_work=100)).compile_json_schema(schema)
    matcher = GrammarMatcher(grammar)
    for char in '{"a/b": ["x':
        assert matcher.accept_string(char)
    with pytest.raises(guided.LimitExceeded, match=r"> 100 \(at string of #/properties/a~1b/items\)"):
        mask_of(matcher)


def test_a_matcher_continues_after_another_one_has_failed() -> None:
    """Steps, forks and rollbacks of a matcher that existed before the failure."""
    for name in EVERY_SPEC:
        walk = reference_walk(name, 3)
        for work in WORK[::3]:
            try:
                grammar = EVERY_SPEC[name](GrammarCompiler(vocabulary(), limits=Limits(call_work=work)))
                matcher = GrammarMatcher(grammar)
                for token, *_ in walk[: len(walk) // 2]:
                    assert matcher.accept_token(token)
            except guided.LimitExceeded:
                continue
            fork, steps = matcher.fork(), matcher.steps
            for token in range(vocabulary().size):  # other matchers fail, or not
                try:
                    other = GrammarMatcher(grammar)
                    mask_of(other, other.min_tokens_to_finish())
                    other.accept_token(token)
                except guided.LimitExceeded:
                    continue
            for number, (_, mask, _, _) in reversed(list(enumerate(walk[:steps]))):
                fork.rollback(fork.steps - number)
                try:
                    assert mask_of(fork) == mask
                except guided.LimitExceeded as error:
                    assert error.limit == "call_work"
            assert matcher.steps == steps


def test_threads_share_a_grammar_whose_calls_fail() -> None:
    """Calls of some threads fail all the time. The others get the answers of a grammar without limits, or the limit."""
    walk = reference_walk("tree", 5)
    grammar = EVERY_SPEC["tree"](GrammarCompiler(vocabulary(), limits=Limits(call_work=4000)))
    wrong: list[object] = []

    def answer() -> None:
        for _ in range(20):
            matcher = GrammarMatcher(grammar)
            for token, mask, _, _ in walk:
                try:
                    if mask_of(matcher) != mask:
                        wrong.append((token, mask))
                    if not matcher.accept_token(token):
                        wrong.append(token)
                except guided.LimitExceeded as error:
                    if error.limit != "call_work":
                        wrong.append(error)
                    break

    threads = [threading.Thread(target=answer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_faults
@pytest.mark.parametrize("name", EVERY_SPEC)
def test_failures_at_any_allocation_and_limit_change_no_answer(name: str) -> None:
    unharmed = EVERY_SPEC[name](GrammarCompiler(vocabulary()))
    expected = [journey(GrammarMatcher(unharmed), seed, STEPS) for seed in range(6)]
    failures = Failures(1)
    grammar = EVERY_SPEC[name](GrammarCompiler(vocabulary()))
    for seed, answers in enumerate(expected):
        assert journey(FailingMatcher(GrammarMatcher(grammar), failures), seed, STEPS) == answers  # type: ignore[arg-type]
    assert min(failures.injected["MemoryError"], failures.injected["LimitExceeded"]) > 100
    print(f"{name}: {dict(failures.injected)}")


@needs_faults
@pytest.mark.slow
def test_failures_change_no_answer_of_real_grammars(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred schemas of MaskBench. Explanations have all the time that they need."""
    for seconds in ("SECONDS", "_SECONDS_OF_PART", "_SECONDS_OF_COMPLETION"):
        monkeypatch.setattr(explanation, seconds, 600.0)
    files = sorted(_data("maskbench").glob("*.json"))
    total, walked = Counter[str](), 0
    for file in files[:: max(1, len(files) // 160)]:
        schema = json.loads(file.read_text("utf-8"))["schema"]
        try:
            first, second = (real_grammar(schema) for _ in range(2))
        except guided.GuidedError:
            continue
        failures = Failures(walked, dense=8)
        failing = asked(FailingMatcher(GrammarMatcher(first), failures), walked)
        assert failing == asked(GrammarMatcher(second), walked), file.stem
        print(f"{file.stem}: {dict(failures.injected)}", flush=True)
        total += failures.injected
        walked += 1
        if walked == 100:
            break
    print(f"{walked} grammars, {sum(total.values())} failures: {dict(total)}")
    assert walked == 100


def real_grammar(schema: object) -> guided.CompiledGrammar:
    compiler = GrammarCompiler(search_vocabulary(), cache_bytes=0, warn=False)
    return compiler.compile_json_schema(schema, unknown_format="ignore")


def asked(matcher: GrammarMatcher | FailingMatcher, seed: int) -> list[object]:
    """The answers of a random walk, its budgets, its explanations and its rollbacks."""
    rng, record = random.Random(seed), list[object]()
    for _ in range(12):
        mask = mask_of(matcher)
        least = matcher.min_tokens_to_finish()
        record += [mask, least, mask_of(matcher, least + rng.randrange(3)), matcher.forced_tokens()]
        record.append(repr(matcher.explain(chr(rng.randrange(32, 127)))))
        if matcher.is_terminated():
            break
        if matcher.steps and rng.random() < 0.2:
            matcher.rollback(rng.randint(1, matcher.steps))
        elif rng.random() < 0.2:
            matcher = matcher.fork()
        else:
            assert matcher.accept_token(rng.choice(mask))
    return record
