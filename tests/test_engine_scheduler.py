"""Continuous batching changes no output, whatever the batch contains, preempts, cancels or shares."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from threading import Event, get_ident
from time import thread_time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.engine import batch_matchers, runs
from guided.engine.long_chunks import LongChunks
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.sequence import Sequence
from guided.engine.stepper import SLOW_SECONDS, Stepper
from guided.engine.stopping import Stops
from guided.engine.task import Task
from guided.kv.cache import KVCache
from guided.kv.dense import DenseCache
from guided.kv.offload.cache import OffloadCache
from guided.kv.paged import PagedCache
from guided.kv.radix import RadixCache
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.sampling import SamplingParams
from guided.sampling.logprobs import LogprobParams
from guided.vocabulary import Vocabulary
from tests.effort import examples
from tests.engine_support import drive
from tests.test_models_forward import MODELS

torch.set_num_threads(1)
VOCABULARY = Vocabulary([*(bytes([c]) for c in b"abcde01 ,"), b"ab", b"cd", b"bcd", None], eos_token_ids=[12])
CONFIG = LlamaConfig(layers=2, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=16, context=256)
MODEL = Llama.random(CONFIG, seed=3)
LOW = Llama.random(CONFIG, seed=3, dtype=torch.bfloat16)
COMPILER = GrammarCompiler(VOCABULARY)
GRAMMARS = [None, *map(COMPILER.compile_regex, ("[abcde]{3,9}", "ab(cd){2,6}e", "(ab|cd|0)+1", "[01]+(,[01]+){0,4}"))]
CACHES = {
    "dense": lambda shape, size: DenseCache(shape, 256 * size),
    "paged": lambda shape, size: PagedCache(shape, size * 4, 4),
    "radix": lambda shape, size: RadixCache(shape, size * 16),
    "offload": lambda shape, size: OffloadCache(shape, size * 4, 4, 4),
}


def numbers(rng: random.Random) -> dict:
    """Penalties and bans that leave any of the grammars some tokens."""
    some = {
        "min_p": 0.05, "repetition_penalty": 1.5, "presence_penalty": -1.0, "frequency_penalty": 0.5,
        "logit_bias": {0: 2.0, 12: -3.0}, "bad_words": [[0, 1, 0], [9, 11]], "min_tokens": 4,
    }  # fmt: skip
    return {name: value for name, value in some.items() if rng.random() < 0.25}


class InPython(GrammarMatcher):
    """A matcher whose steps the core must not take."""

    def accept_token(self, token: int, /) -> bool:
        return super().accept_token(token)


def sequence(rng: random.Random, start: list[int]) -> Sequence:
    """A request. Prompts have common beginnings."""
    grammar = rng.choice(GRAMMARS)
    prompt = [
        *start[: rng.randrange(len(start) + 1)],
        *(rng.randrange(12) for _ in range(rng.randrange(1, rng.choice([12, 12, 60])))),
    ]
    is_plain = rng.random() < 0.4
    params = SamplingParams(
        rng.choice([0.0, 1.0, 2.0]),
        rng.choice([None, 3]),
        None,
        rng.randrange(1000),
        **({} if is_plain else numbers(rng)),
    )
    matcher = None if grammar is None else rng.choice([GrammarMatcher, GrammarMatcher, InPython])(grammar)
    options, length = {"budget_ramp": rng.choice([0.0, 3.0])}, rng.randrange(24, 40)
    if not is_plain:
        has_stops = grammar is None and rng.random() < 0.5
        options |= {
            "score_forced": rng.random() < 0.3,
            "stops": Stops(["ab", "c,"], [11], ["[01]b*a"], ignore_eos=True) if has_stops else Stops(),
            "logprobs": LogprobParams(rng.choice([None, 2]), rng.choice([None, 1]), rng.choice(["raw", "masked"])),
            "drafts": rng.choice([0, 0, 1, 5]),
        }
    return Sequence(VOCABULARY, prompt, matcher, params, max_tokens=length, **options)


def twin(one: Sequence) -> Sequence:
    """The same request from its beginning, without drafts."""
    matcher = one.matcher
    if matcher is not None:
        matcher = matcher.fork()
        matcher.reset()
    return Sequence(
        VOCABULARY, one.prompt, matcher, one.params, max_tokens=one.max_tokens, score_forced=one.score_forced,
        stops=one.stops, logprobs=one.logprob_params, budget_ramp=0.0 if one.masks is None else one.masks._max_penalty,
    )  # fmt: skip


def alone(one: Sequence, model=MODEL, dense=DenseCache):
    batch = Scheduler(ModelRunner(model, dense(cache_shape(model), 1 << 16)))
    return drive(batch, [Task(twin(one))])[0][-1].result


def assert_same(got, want) -> None:
    """Equality, bit for bit."""
    assert_alike(got, want)
    assert got.removed_log_mass == want.removed_log_mass, "the logits have the same bits"
    assert (got.logprobs, got.prompt_logprobs) == (want.logprobs, want.prompt_logprobs)


def assert_alike(got, want) -> None:
    """The same tokens. Log probabilities may differ by rounding, as between kernels."""
    assert (got.tokens, got.text, got.token_masks, got.finish_reason) == (
        want.tokens, want.text, want.token_masks, want.finish_reason,
    )  # fmt: skip
    assert got.stop == want.stop
    assert got.removed_log_mass == pytest.approx(want.removed_log_mass, abs=1e-4)
    for a, b in ((got.logprobs, want.logprobs), (got.prompt_logprobs, want.prompt_logprobs)):
        assert (a is None) == (b is None)
        for x, y in zip(a or (), b or (), strict=True):
            assert (x and x.token) == (y and y.token)
            assert (x and x.logprob) == (y and pytest.approx(y.logprob, abs=1e-4))


@pytest.mark.parametrize("name", CACHES)
@examples(15)
@given(
    st.randoms(use_true_random=False), st.sampled_from([3, 5, 60]), st.sampled_from([1, 7, 512]), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_any_batch_composition_cache_and_memory(
    name: str, rng: random.Random, size: int, token_budget: int, low: bool, run_ahead: bool
) -> None:
    model = LOW if low else MODEL
    in_any_batch(rng, CACHES[name](cache_shape(model), size), token_budget, model, run_ahead=run_ahead)


def in_any_batch(
    rng: random.Random, cache: KVCache, token_budget: int, model=MODEL, dense=DenseCache, run_ahead=False, same=None
) -> None:
    """Requests arrive, are cancelled and are preempted. Those that finish have the same outputs as alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_matchers, "_MIN_MATCHERS", 1)  # threads run the matchers of the smallest batch
        patch.setattr(runs, "MIN_RUNNING", rng.choice([1, 3]))
        patch.setattr(runs, "USUAL_TOKENS", rng.choice([1, 2, 100]))
        patch.setattr(runs, "MAX_TOKENS", rng.choice([3, 16]))
        in_this_batch(rng, cache, token_budget, model, dense, run_ahead, same or assert_same)


def in_this_batch(
    rng: random.Random, cache: KVCache, token_budget: int, model, dense, run_ahead: bool, same: Callable
) -> None:
    batch = Scheduler(
        ModelRunner(model, cache), token_budget=token_budget, max_running=rng.choice([2, 8]), run_ahead=run_ahead
    )
    start = [rng.randrange(12) for _ in range(10)]
    waiting = [sequence(rng, start) for _ in range(rng.randrange(1, 9))]
    results, running, cancelled = {}, [], set()
    for _ in range(3000):
        if waiting and rng.random() < 0.4:
            group = [Task(waiting.pop(), priority=rng.randrange(2))]
            if rng.random() < 0.3:
                group += [Task(twin(group[0].sequence), group[0].priority) for _ in range(2)]
            running += group
            batch.add(group)
        if running and rng.random() < 0.02:
            task = rng.choice(running)
            batch.cancel(task)
            cancelled.add(task)
        for task, outcome in batch.step():
            if isinstance(outcome, Exception):
                assert isinstance(outcome, MemoryError)
                cancelled.add(task)
            elif outcome.result is not None:
                results[task] = outcome.result
        if not waiting and not batch:
            break
    assert not waiting and not batch
    assert set(running) == set(results) | cancelled
    for task, result in results.items():
        same(result, alone(task.sequence, model, dense))
    assert cache.available == cache.capacity, "nothing is held any more"


@pytest.mark.parametrize("kind", ["paged", "offload"])
@pytest.mark.parametrize("name", MODELS)
def test_a_batch_equals_its_singles_on_every_architecture(name: str, kind: str) -> None:
    model, rng = MODELS[name], random.Random(1)
    words = Vocabulary([bytes([97 + i]) for i in range(26)], eos_token_ids=[26], size=27)
    sequences = [
        Sequence(words, [rng.randrange(26) for _ in range(rng.randrange(1, 9))], None, params, max_tokens=15)
        for params in (SamplingParams(t, seed=s) for t, s in ((0.0, 0), (1.0, 1), (1.5, 2), (0.0, 3)))
    ]
    batch = Scheduler(ModelRunner(model, CACHES[kind](cache_shape(model), 8)), token_budget=6)
    tasks = [Task(s) for s in sequences]
    for task in tasks:
        batch.add([task])
    ended = {}
    while batch:
        ended |= {task: outcome.result for task, outcome in batch.step() if outcome.result}
    for task in tasks:
        one = Sequence(words, task.sequence.prompt, None, task.sequence.params, max_tokens=15)
        single = Scheduler(ModelRunner(model, DenseCache(cache_shape(model), 4096)))
        assert_same(ended[task], drive(single, [Task(one)])[0][-1].result)


def chunks_of(batch: Scheduler) -> list[list[int]]:
    """The numbers of tokens that each sequence reads in each pass."""
    passes: list[list[int]] = []
    step = batch.runner.step
    batch.runner.step = lambda chunks: (passes.append([len(c.tokens) for c in chunks]), step(chunks))[1]
    return passes


def plain(prompt: int, tokens: int) -> Task:
    return Task(Sequence(VOCABULARY, [1] * prompt, None, SamplingParams(min_tokens=tokens), max_tokens=tokens))


def test_short_prompts_do_not_wait_for_a_long_one_that_came_first() -> None:
    batch = Scheduler(ModelRunner(MODEL, DenseCache(cache_shape(MODEL), 4096)), token_budget=40)
    tasks = {name: plain(prompt, 1) for name, prompt in (("long", 200), ("short", 50), ("shorter", 25))}
    passes, ended = chunks_of(batch), []
    batch.add([tasks["long"]])
    batch.step()
    batch.add([tasks["short"]])
    batch.add([tasks["shorter"]])
    while batch:
        ended += [task for task, outcome in batch.step() if outcome.result is not None]
    assert passes[:4] == [[40], [20, 20], [5, 18, 17], [20, 20]], "5 tokens are read at once"
    assert ended == [tasks["shorter"], tasks["short"], tasks["long"]]


def test_of_another_priority_nothing_is_read_before_the_first() -> None:
    batch = Scheduler(ModelRunner(MODEL, DenseCache(cache_shape(MODEL), 4096)), token_budget=40)
    passes = chunks_of(batch)
    batch.add([Task(plain(50, 1).sequence, priority=1)])
    batch.add([plain(100, 1)])
    while batch:
        batch.step()
    assert passes == [[40], [40], [20, 20], [30]]


def test_decoding_waits_at_most_as_long_as_long_text_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("guided.engine.scheduler.perf_counter", lambda: now[0])
    batch = Scheduler(ModelRunner(MODEL, DenseCache(cache_shape(MODEL), 4096)), long_seconds=0.75)
    step = batch.runner.step

    def slow(chunks):  # also for each token of a prompt
        now[0] += 1 / 8 + 1 / 64 * sum(len(c.tokens) for c in chunks if len(c.tokens) > 1)
        return step(chunks)

    batch.runner.step = slow
    passes = chunks_of(batch)
    batch.add([plain(1, 40)])
    batch.step()
    batch.step()
    batch.add([plain(240, 1)])
    while batch:
        batch.step()
    assert passes[2:7] == [[1, 64], [1, 48], [1, 48], [1, 48], [1, 32]], "0.75 seconds are 48 tokens"


def test_a_long_prompt_alone_is_read_in_passes_of_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that arrives meanwhile waits for a pass. Five times 0.25 seconds are 80 tokens."""
    now = [0.0]
    monkeypatch.setattr("guided.engine.scheduler.perf_counter", lambda: now[0])
    batch = Scheduler(ModelRunner(MODEL, DenseCache(cache_shape(MODEL), 4096)), token_budget=100, long_seconds=0.25)
    step = batch.runner.step

    def slow(chunks):
        now[0] += sum(len(chunk.tokens) for chunk in chunks) / 64
        return step(chunks)

    batch.runner.step = slow
    passes = chunks_of(batch)
    batch.add([plain(240, 1)])
    while batch:
        batch.step()
    assert passes == [[100], [80], [60]]


def test_passes_without_decoding_sequences_have_a_least_length() -> None:
    chunks = LongChunks(0.2)
    assert (chunks.tokens(512), chunks.tokens(512, is_alone=True)) == (64, 512)  # nothing was measured
    chunks.record(64.0, 64)
    assert (chunks.tokens(512), chunks.tokens(512, is_alone=True)) == (16, 64)


def test_a_slow_matcher_runs_on_another_thread() -> None:
    threads: dict[str, list[int]] = {"slow": [], "quick": []}

    class Noted(GrammarMatcher):
        seconds = 0.0

        def fill_next_token_bitmask(self, *args: object, **options: object) -> bool:
            end = thread_time() + self.seconds
            threads["slow" if self.seconds else "quick"].append(get_ident())
            while thread_time() < end:
                pass
            return super().fill_next_token_bitmask(*args, **options)  # type: ignore[arg-type]

    class Slow(Noted):
        seconds = 1.2 * SLOW_SECONDS

    grammar = COMPILER.compile_regex("[abcde]{8}")
    tasks = [
        Task(Sequence(VOCABULARY, [1, 2], kind(grammar), SamplingParams(1.0, seed=4), max_tokens=30))
        for kind in (Slow, Noted)
    ]
    batch = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), 64, 4)))
    for task in tasks:
        batch.add([task])
    ended = []
    while batch:
        ended += [outcome.result for _, outcome in batch.step() if not isinstance(outcome, Exception)]
    slow, quick = (result for result in ended if result is not None)
    assert slow.text == quick.text == alone(tasks[1].sequence, MODEL).text
    assert set(threads["quick"]) == {get_ident()}
    assert get_ident() not in threads["slow"][2:], "the first tells that it is slow"


def test_a_slow_task_can_be_cancelled_during_its_step() -> None:
    begun, go_on = Event(), Event()

    class Held(GrammarMatcher):
        def fill_next_token_bitmask(self, *args: object, **options: object) -> bool:
            if task.stepper is not None and task.stepper.is_slow:
                begun.set()
                go_on.wait(10)
            return super().fill_next_token_bitmask(*args, **options)  # type: ignore[arg-type]

    grammar = COMPILER.compile_regex("[abcde]{20}")
    task = Task(Sequence(VOCABULARY, [1, 2], Held(grammar), SamplingParams(), max_tokens=30))
    batch = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), 16, 4)))
    batch.add([task])
    assert task.stepper is not None
    task.stepper.is_slow = True
    while not begun.is_set():
        batch.step()
    batch.cancel(task)
    assert batch, "its step is still being taken"
    go_on.set()
    while batch:
        assert not batch.step()
    assert batch.runner.cache.available == batch.runner.cache.capacity


def test_only_the_sequence_that_exceeds_the_cache_fails() -> None:
    batch = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), 4, 4)))
    large = Task(Sequence(VOCABULARY, [1] * 30, None, SamplingParams(), max_tokens=4))
    small = Task(Sequence(VOCABULARY, [1] * 3, None, SamplingParams(), max_tokens=4))
    batch.add([small])
    batch.add([large])
    outcomes = {}
    while batch:
        for task, outcome in batch.step():
            outcomes[task] = outcome
    assert isinstance(outcomes[large], MemoryError) and "30 tokens do not fit" in str(outcomes[large])
    assert outcomes[small].result is not None


def test_an_error_in_a_sequence_does_not_affect_others() -> None:
    class Broken(GrammarMatcher):
        def accept_token(self, token: int) -> bool:
            return False

    batch = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), 16, 4)))
    grammar = COMPILER.compile_regex("[abc]{4}")
    broken, good = (
        Task(Sequence(VOCABULARY, [1, 2], kind(grammar), SamplingParams(), max_tokens=9))
        for kind in (Broken, GrammarMatcher)
    )
    batch.add([broken])
    batch.add([good])
    outcomes = {}
    while batch:
        for task, outcome in batch.step():
            outcomes[task] = outcome
    assert "although the mask allowed it" in str(outcomes[broken])
    assert len(outcomes[good].result.text) == 4


def test_some_wait_for_their_grammar_while_others_run() -> None:
    """Futures finish late, in any order. One fails and one is cancelled. The others end as they would alone."""
    rng = random.Random(5)
    batch = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), 64, 4)))
    made = [sequence(rng, [1, 2, 3]) for _ in range(6)]
    futures = [Future() for _ in made]
    groups = [[Task.from_future(future, number) for number in range(2)] for future in futures]
    for group in groups:
        batch.add(group)
    now = Task(twin(made[0]))
    batch.add([now])
    assert (batch.compiling_count, batch.waiting_count) == (12, 1)
    cancelled = groups[1][0]
    batch.cancel(cancelled)
    late, ended, errors = [3, 0, 5, 1, 4, 2], {}, {}
    for step in range(3000):
        if late and step % 5 == 4:
            number = late.pop()
            if number == 4:
                futures[number].set_exception(ValueError("it does not compile"))
            else:
                steppers = [Stepper(twin(made[number])) for _ in range(2)]
                if number % 2:
                    steppers[0].begin()
                futures[number].set_result(steppers)
        for task, outcome in batch.step():
            if isinstance(outcome, Exception):
                errors[task] = outcome
            elif outcome.result is not None:
                ended[task] = outcome.result
        if not batch:
            break
    assert not batch
    assert set(errors) == set(groups[4])
    assert set(ended) == {now, *(task for group in groups for task in group)} - set(groups[4]) - {cancelled}
    for task, result in ended.items():
        assert_same(result, alone(task.sequence))
    assert batch.runner.cache.available == batch.runner.cache.capacity


def test_priorities_and_order() -> None:
    batch = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), 16, 4)), max_running=1)
    tasks = [Task(Sequence(VOCABULARY, [1], None, SamplingParams(), max_tokens=2), p) for p in (1, 0, 1, 0)]
    for task in tasks:
        batch.add([task])
    ended = []
    while batch:
        ended += [tasks.index(task) for task, outcome in batch.step() if outcome.result]
    assert ended == [1, 3, 0, 2]


def test_who_finds_the_memory_of_others_full_waits_for_it() -> None:
    """The second sequence needs a block while the first one, which has precedence and reads forced text, holds the last
    block.
    """
    cache = PagedCache(cache_shape(MODEL), 24, 4)
    batch = Scheduler(ModelRunner(MODEL, cache), token_budget=5)
    rng = random.Random(37)
    sizes = [rng.randrange(20, 40) for _ in range(2)]
    prompts = [[rng.randrange(9) for _ in range(size)] for size in sizes]
    forced = GrammarMatcher(COMPILER.compile_regex("[abcde]{6,9}" + "ab01" * 10 + "[01]"))
    first = Sequence(VOCABULARY, prompts[0], forced, SamplingParams(1.0, seed=37), max_tokens=60)
    second = Sequence(VOCABULARY, prompts[1], None, SamplingParams(), max_tokens=60, stops=Stops(ignore_eos=True))
    results = drive(batch, [Task(first), Task(second)])
    assert all(events[-1].result is not None for events in results)
    assert batch.preemptions and cache.available == cache.capacity
