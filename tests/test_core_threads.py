"""The core on many threads: matchers of one grammar and of different grammars give the same answers as alone."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from guided import Limits
from guided.automaton import _core
from guided.errors import BudgetError
from guided.ir import DeferredRule, Grammar, Ref, Repeat, Seq, Text
from guided.matching import GrammarCompiler, GrammarMatcher, allocate_token_bitmask, fill_batch
from guided.matching.bitmask import row_of
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


def walks(name: str) -> list[GrammarMatcher]:
    """Matchers of a grammar in different states."""
    native_vocabulary(vocabulary()).clear_cache()
    grammar = EVERY_SPEC[name](GrammarCompiler(vocabulary()))
    matchers = [GrammarMatcher(grammar) for _ in range(24)]
    for seed, matcher in enumerate(matchers):
        journey(matcher, seed, seed)
    return [matcher for matcher in matchers if not matcher.is_terminated()]


def next_tokens(matchers: list[GrammarMatcher], rng: random.Random) -> list[int]:
    """A token for each matcher, usually one that it allows."""
    allowed = [matcher._walk_mask() for matcher in matchers]
    return [rng.choice(ids) if ids and rng.random() < 0.9 else rng.randrange(vocabulary().size) for ids in allowed]


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_steps_on_threads_equal_calls_one_after_the_other(name: str) -> None:
    """For all budgets, including ones that are too small. The walks of the matchers are all different."""

    def step_alone(matcher: GrammarMatcher, token: int, rows: np.ndarray, budget: int, has_ramp: bool) -> tuple:
        if not matcher.accept_token(token):
            return False, False, None
        if matcher.is_terminated() or matcher._forced(1):
            return True, False, None
        try:
            return True, True, matcher._fill_under_budget(rows, budget, has_ramp)[:2]
        except BudgetError:
            return True, True, None

    alone, together, rng = walks(name), walks(name), random.Random(name)
    words = len(allocate_token_bitmask(1, vocabulary().size)[0])
    for budget in (1, 3, 8, 40):
        steps = [
            (token, np.zeros((3, words), np.int32), budget, rng.random() < 0.7) for token in next_tokens(alone, rng)
        ]
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


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_rows_on_threads_equal_calls_one_after_the_other(name: str) -> None:
    """`advance_rows`, for all budgets: it fills a row only if the budget removes nothing and the text may go on."""
    alone, together, rng = walks(name), walks(name), random.Random(name)
    ends = row_of(vocabulary().size, sorted(vocabulary().eos_token_ids))

    def step_alone(matcher: GrammarMatcher, token: int, budget: int, has_ramp: bool) -> tuple[int, np.ndarray]:
        rows = np.zeros((3, len(ends)), np.int32)
        if not matcher.accept_token(token):
            return 0, rows[0]
        if matcher.is_terminated() or matcher._forced(1):
            return 1, rows[0]
        try:
            if has_ramp:
                matcher.fill_next_token_bitmask(rows, max_tokens=budget // 2)
            matcher.fill_next_token_bitmask(rows, max_tokens=budget)
        except BudgetError:
            return 2, rows[0]
        must_end = matcher.is_accepting() and not (rows[0] & ~ends).any()
        return (2 if matcher.budget_bound or must_end else 3), rows[0]

    for budget in (40, 1, 3, 8, 40):
        count, numbers = len(together), rng.sample(range(2 * len(together)), len(together))
        bits, rows, tokens = np.zeros((2 * count, len(ends)), np.int32), np.array(numbers), next_tokens(alone, rng)
        ramps, statuses, seconds = (
            np.array([rng.random() < 0.7 for _ in alone]),
            np.zeros(count, np.uint8),
            np.zeros((count, 2)),
        )
        expected = [step_alone(*step) for step in zip(alone, tokens, [budget] * count, ramps.tolist(), strict=True)]
        columns = rows, np.array(tokens), np.full(count, budget), ramps, statuses, seconds

        def run(part: slice, bits: np.ndarray = bits, columns: tuple = columns) -> None:
            _core.advance_rows(together[part], bits, *(column[part] for column in columns))

        at_once([partial(run, slice(0, count // 2)), partial(run, slice(count // 2, count))])
        assert statuses.tolist() == [status for status, _ in expected]
        assert (seconds[:, 1] > 0).all()
        for row, (status, own) in zip(rows, expected, strict=True):
            assert status != 3 or np.array_equal(bits[row], own)
        assert [m._walk_mask() for m in together] == [m._walk_mask() for m in alone]


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, lambda matchers: [matchers[0]] * 2),
        (0, lambda matchers: matchers[:1]),
        (0, lambda matchers: [matchers[0], None]),
        (1, lambda bits: bits[:, :-1].copy()),
        (1, lambda bits: bits.astype(np.int64)),
        (2, lambda rows: np.array([0, 0])),
        (2, lambda rows: np.array([0, 9])),
        (2, lambda rows: np.array([0, -1])),
        (3, lambda tokens: np.array([0, -1])),
        (3, lambda tokens: np.array([0, vocabulary().size])),
        (3, lambda tokens: tokens.astype(np.int32)),
        (4, lambda budgets: budgets[::-1]),
        (5, lambda ramps: ramps.astype(np.int64)),
        (6, lambda statuses: np.zeros(3, np.uint8)),
        (7, lambda seconds: np.zeros((2, 3))),
    ],
)
def test_rows_that_do_not_fit_are_refused(number: int, change: Callable[[Any], Any]) -> None:
    matchers = [GrammarMatcher(EVERY_SPEC["tree"](GrammarCompiler(vocabulary()))) for _ in range(2)]
    arguments: list[Any] = [
        matchers, allocate_token_bitmask(3, vocabulary().size), np.array([0, 2]), np.array([0, 1]), np.array([9, 9]),
        np.array([False, True]), np.zeros(2, np.uint8), np.zeros((2, 2)),
    ]  # fmt: skip
    arguments[number] = change(arguments[number])
    with pytest.raises((TypeError, ValueError, IndexError)):
        _core.advance_rows(*arguments)
    assert not any(matcher.steps for matcher in matchers)


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
