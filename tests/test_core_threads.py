"""The core on many threads: matchers of one grammar and of different grammars give the same answers as alone."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import cycle

import numpy as np
import pytest

from guided import Limits
from guided.automaton import _core
from guided.errors import BudgetError
from guided.ir import DeferredRule, Grammar, Ref, Repeat, Seq, Text
from guided.matching import GrammarCompiler, GrammarMatcher, allocate_token_bitmask, fill_batch
from guided.matching.compiled import native_vocabulary
from tests.core_support import EVERY_SPEC, journey, vocabulary

THREADS = 8
STEPS = 15


def at_once(jobs: list[Callable[[], object]]) -> list[object]:
    """Run the jobs on THREADS threads that start together. Returns their results in order."""
    gate = threading.Barrier(THREADS)

    def lane(number: int) -> list[object]:
        gate.wait()
        return [job() for job in jobs[number::THREADS]]

    with ThreadPoolExecutor(THREADS) as pool:
        lanes = list(pool.map(lane, range(THREADS)))
    return [lanes[i % THREADS][i // THREADS] for i in range(len(jobs))]


@cache
def alone(name: str, seed: int) -> list[object]:
    native_vocabulary(vocabulary()).clear_cache()
    return journey(GrammarMatcher(EVERY_SPEC[name](GrammarCompiler(vocabulary()))), seed, STEPS)


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_one_grammar(name: str) -> None:
    expected = [alone(name, seed) for seed in range(THREADS)]
    native_vocabulary(vocabulary()).clear_cache()
    grammar = EVERY_SPEC[name](GrammarCompiler(vocabulary()))
    assert (
        at_once([lambda seed=seed: journey(GrammarMatcher(grammar), seed, STEPS) for seed in range(THREADS)])
        == expected
    )


@pytest.mark.parametrize("memory", [128 << 20, 1 << 15])
def test_different_grammars(memory: int) -> None:
    """All grammars at once share token tables. With little memory, their workspaces are renewed during the run."""
    cases = [(name, seed) for seed in range(2) for name in EVERY_SPEC]
    expected = [alone(*case) for case in cases]
    native_vocabulary(vocabulary()).clear_cache()
    compiler = GrammarCompiler(vocabulary(), limits=Limits(memory=memory))
    grammars = {name: make(compiler) for name, make in EVERY_SPEC.items()}
    found = at_once([lambda n=name, s=seed: journey(GrammarMatcher(grammars[n]), s, STEPS) for name, seed in cases])
    assert found == expected
    assert any(grammar.native.rebuilds for grammar in grammars.values()) == (memory < 1 << 20)


def test_compiling_and_measuring_meanwhile() -> None:
    """Compilation, statistics, clearing of caches and destruction of matchers, during fills of the same grammars."""
    compiler = GrammarCompiler(vocabulary(), cache_bytes=0)
    shared = {name: make(compiler) for name, make in EVERY_SPEC.items()}

    def follow(name: str, seed: int) -> None:
        journey(GrammarMatcher(shared[name]), seed, STEPS // 2)
        journey(GrammarMatcher(EVERY_SPEC[name](compiler)), seed, 3)

    def measure() -> None:
        for _ in range(30):
            for grammar in shared.values():
                assert grammar.native.memory_bytes > 0 and grammar.native.states > 0 and grammar.native.rebuilds == 0
            native_vocabulary(vocabulary()).clear_cache()

    names = cycle(EVERY_SPEC)
    at_once([(lambda n=next(names), s=i: follow(n, s)) if i % 4 else measure for i in range(3 * THREADS)])  # noqa: B008


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_batches(threads: int) -> None:
    """fill_batch on cold grammars equals fills one by one."""
    size = vocabulary().size

    def matchers() -> list[GrammarMatcher]:
        native_vocabulary(vocabulary()).clear_cache()
        compiler = GrammarCompiler(vocabulary())
        out = []
        for make in EVERY_SPEC.values():
            grammar = make(compiler)
            for seed in range(4):
                matcher = GrammarMatcher(grammar)
                journey(matcher, seed, seed * 3)
                out.append(matcher)
        return out

    singles = matchers()
    expected = allocate_token_bitmask(len(singles), size)
    for row, matcher in enumerate(singles):
        matcher.fill_next_token_bitmask(expected, row)
    batch = matchers()
    rows = [(row * 7) % len(batch) for row in range(len(batch))] if len(batch) % 7 else list(range(len(batch)))
    found = np.zeros_like(expected)
    fill_batch([batch[row] for row in rows], found, rows, threads=threads)
    assert np.array_equal(found, expected)
    budget = 2 + max(m.min_tokens_to_finish() for m in singles)
    for row, matcher in enumerate(singles):
        matcher.fill_next_token_bitmask(expected, row, max_tokens=budget)
    fill_batch(batch, found, max_tokens=budget, threads=threads)
    assert np.array_equal(found, expected)


def test_failures_in_batches() -> None:
    """An error in one row is raised after all threads are done, and does not affect other calls."""
    grammar = EVERY_SPEC["tree"](GrammarCompiler(vocabulary()))
    matchers = [GrammarMatcher(grammar) for _ in range(32)]
    bitmask = allocate_token_bitmask(len(matchers), vocabulary().size)
    with pytest.raises(BudgetError):
        fill_batch(matchers, bitmask, max_tokens=1, threads=THREADS)
    fill_batch(matchers, bitmask, threads=1000)
    assert (bitmask == bitmask[0]).all()


def test_one_matcher_on_two_threads_is_refused() -> None:
    """Simultaneous calls end in an error or in an answer, and leave the matcher intact."""
    matcher = GrammarMatcher(EVERY_SPEC["tree"](GrammarCompiler(vocabulary(), limits=Limits(memory=1 << 15))))
    refused: list[RuntimeError] = []

    def use(seed: int) -> None:
        for _ in range(40):
            try:
                journey(matcher, seed, 5)
            except RuntimeError as error:
                refused.append(error)
            except (AssertionError, ValueError):
                pass  # another thread has moved the matcher meanwhile

    at_once([lambda seed=seed: use(seed) for seed in range(THREADS)])
    assert all("another thread is using this matcher" in str(error) for error in refused)
    matcher.reset()
    assert matcher.min_tokens_to_finish() > 0 and matcher.steps == 0


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_steps_on_threads_equal_calls_one_after_the_other(name: str) -> None:
    """For all budgets, including ones that are too small. The walks of the matchers are all different."""

    def walks() -> list[GrammarMatcher]:
        native_vocabulary(vocabulary()).clear_cache()
        grammar = EVERY_SPEC[name](GrammarCompiler(vocabulary()))
        matchers = [GrammarMatcher(grammar) for _ in range(24)]
        for seed, matcher in enumerate(matchers):
            journey(matcher, seed, seed)
        return [matcher for matcher in matchers if not matcher.is_terminated()]

    def step_alone(matcher: GrammarMatcher, token: int, rows: np.ndarray, budget: int, has_ramp: bool) -> tuple:
        if not matcher.accept_token(token):
            return False, False, None
        if matcher.is_terminated() or matcher._forced(1):
            return True, False, None
        try:
            return True, True, matcher._fill_under_budget(rows, budget, has_ramp)[:2]
        except BudgetError:
            return True, True, None

    alone, together, rng = walks(), walks(), random.Random(name)
    words = len(allocate_token_bitmask(1, vocabulary().size)[0])
    for budget in (1, 3, 8, 40):
        steps = []
        for matcher in alone:
            allowed = matcher._walk_mask()
            token = rng.choice(allowed) if allowed and rng.random() < 0.9 else rng.randrange(vocabulary().size)
            steps.append((token, np.zeros((3, words), np.int32), budget, rng.random() < 0.7))
        own_rows = [rows.copy() for _, rows, _, _ in steps]
        expected = [
            step_alone(matcher, token, rows, budget, has_ramp)
            for matcher, (token, _, _, has_ramp), rows in zip(alone, steps, own_rows, strict=True)
        ]
        results = []

        def run(part: slice, steps: list = steps, results: list = results) -> None:
            results.append((part.start, _core.advance_matchers(together[part], steps[part])))

        middle = len(steps) // 2
        at_once([partial(run, slice(0, middle)), partial(run, slice(middle, len(steps)))])
        found = [result for _, part in sorted(results) for result in part]
        assert [(*result[:2], result[2] and result[2][:2]) for result in found] == expected
        assert all(result[3] > 0 for result in found)
        for (_, rows, _, _), own, (_, _, filled) in zip(steps, own_rows, expected, strict=True):
            if filled is not None:
                used = [0, *([1] if filled[0] else []), *([2] if filled[1] else [])]
                assert np.array_equal(rows[used], own[used])
        assert [m._walk_mask() for m in together] == [m._walk_mask() for m in alone]


def test_a_deferred_rule_that_many_threads_enter_is_compiled_once() -> None:
    reads = list[int]()

    def read() -> Grammar:
        reads.append(threading.get_ident())
        time.sleep(0.05)  # the other threads arrive meanwhile
        return Grammar({"start": Repeat(Text("b"), 1, 9)})

    rules = {"start": Seq((Text("a"), Ref("b"))), "b": Repeat(Text("b"), 1, None)}
    grammar = GrammarCompiler(vocabulary()).compile_grammar(Grammar(rules, later={"b": DeferredRule(read, b"x", 1)}))
    matchers = [GrammarMatcher(grammar) for _ in range(THREADS)]
    assert at_once([partial(matcher.accept_string, "abb") for matcher in matchers]) == [True] * THREADS
    assert len(reads) == 1
    assert len({tuple(matcher._walk_mask()) for matcher in matchers}) == 1
