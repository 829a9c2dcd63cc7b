"""The decode loop with a small random model and a simple matcher of a finite language."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.engine.masks import Masks
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.sequence import Sequence
from guided.engine.task import Task
from guided.errors import BudgetError, GuidedError
from guided.kv.dense import DenseCache
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.sampling import SamplingParams
from guided.sampling.penalties import Penalties, apply_changes
from guided.vocabulary.vocabulary import Vocabulary
from tests.effort import examples
from tests.engine_support import Reader, drive

torch.set_num_threads(1)
LETTERS = [b"a", b"b", b"c", b"d", b"e", b"ab", b"abc", b"cd", b"de", b" ", b"\xc3", b"\xa9", b"\xc3\xa9", None]
VOCABULARY = Vocabulary([*LETTERS, None], eos_token_ids=[len(LETTERS)])
EOS = len(LETTERS)
# The head has padding: 3 logits without a token.
CONFIG = LlamaConfig(layers=2, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=EOS + 4, context=128)
MODEL = Llama.random(CONFIG, seed=3)
PROMPT = [0, 3, 9]


class Words:
    """A matcher of a finite set of byte strings."""

    def __init__(self, words: list[bytes], *, forces: bool = True) -> None:
        self.words, self.forces, self.done, self.ended = words, forces, b"", False
        self.budget_bound = False

    def tokens(self, done: bytes) -> list[int]:
        return [i for i, t in enumerate(LETTERS) if t and any(w.startswith(done + t) for w in self.words)]

    def shortest(self, done: bytes) -> float:
        if done in self.words:
            return 1
        return 1 + min((self.shortest(done + LETTERS[i]) for i in self.tokens(done)), default=math.inf)

    def within(self, left: float) -> list[int]:
        """The tokens that are allowed with a given number of tokens left."""
        fits = [i for i in self.tokens(self.done) if 1 + self.shortest(self.done + LETTERS[i]) <= left]
        return [*fits, *[EOS] * self.is_accepting()]

    def fill_next_token_bitmask(self, bitmask, row=0, *, max_tokens=None):
        left = math.inf if max_tokens is None else max_tokens
        if self.shortest(self.done) > left and not self.ended:
            raise BudgetError(int(self.shortest(self.done)), left)
        bits = np.zeros(bitmask.shape[1] * 32, np.uint8)
        self.budget_bound = False
        if not self.ended:
            bits[(within := self.within(left))] = 1
            self.budget_bound = within != self.within(math.inf)
        bitmask[row] = np.packbits(bits, bitorder="little").view(np.int32)
        return True

    def accept_token(self, token):
        if token == EOS and self.is_accepting() and not self.ended:
            self.ended = True
            return True
        if self.ended or token not in self.tokens(self.done):
            return False
        self.done += LETTERS[token]
        return True

    def forced_tokens(self):
        going_on = [w[len(self.done) :] for w in self.words if w.startswith(self.done)]
        shared = "".join(
            chr(c[0]) for c in itertools.takewhile(lambda c: len(set(c)) == 1, zip(*going_on, strict=False))
        )
        if not self.forces or b"" in going_on:
            return []
        return [LETTERS.index(c.encode("latin-1")) for c in shared if c.encode("latin-1") in LETTERS]

    def is_accepting(self):
        return self.done in self.words

    def is_terminated(self):
        return self.ended

    def min_tokens_to_finish(self):
        return int(self.shortest(self.done))


WORDS = st.lists(
    st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e", b" ", b"\xc3\xa9"]), max_size=7).map(b"".join),
    min_size=1, max_size=6,
)  # fmt: skip
PARAMS = st.builds(
    SamplingParams, st.sampled_from([0.0, 0.5, 2.0]), st.none() | st.integers(1, 4), st.none() | st.just(0.7),
    st.integers(0, 1000), min_p=st.sampled_from([None, 0.1]), repetition_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 1.0]), frequency_penalty=st.sampled_from([0.0, -0.5]),
    logit_bias=st.sampled_from([{}, {0: 5.0, 4: -5.0}]), min_tokens=st.integers(0, 4),
)  # fmt: skip


def scheduler(capacity=2000, **options) -> Scheduler:
    return Scheduler(ModelRunner(MODEL, DenseCache(cache_shape(MODEL), capacity)), **options)


def task(matcher, params=SamplingParams(), max_tokens=40, **options) -> Task:  # noqa: B008
    return Task(Sequence(VOCABULARY, PROMPT, matcher, params, max_tokens=max_tokens, **options))


def decode(matcher, params=SamplingParams(), max_tokens=40, **options):  # noqa: B008
    return drive(scheduler(), [task(matcher, params, max_tokens, **options)])[0]


def log_softmax(tokens: list[int]) -> torch.Tensor:
    """Log probabilities after each token, by full recomputation."""
    return Reader(MODEL, 100).forward(tokens, len(tokens)).double().log_softmax(-1)


@examples(150)
@given(WORDS, PARAMS, st.booleans(), st.integers(0, 6))
def test_outputs_are_words_and_complete_within_the_budget(words, params, forces, slack):
    budget = Words(words).min_tokens_to_finish() - 1 + slack  # tokens of the text, without the end token
    events = decode(Words(words, forces=forces), params, budget)
    result = events[-1].result
    assert VOCABULARY.decode(result.tokens) in words
    assert result.finish_reason == "stop"
    assert len(result.tokens) <= budget
    assert result.text == "".join(e.text for e in events) == VOCABULARY.decode(result.tokens).decode()
    assert result.tokens == [t for e in events for t in e.tokens]
    assert result.token_masks == [int(not e.forced) for e in events for _ in e.tokens]
    assert all(e.result is None for e in events[:-1])
    assert result.seed == params.seed
    assert result.prompt_tokens == len(PROMPT)


@examples(60)
@given(WORDS, PARAMS, st.integers(0, 6) | st.just(40), st.sampled_from([0, 3]), st.sampled_from([0.0, 1.0, 5.0]))
def test_choices_equal_a_full_recomputation(words, params, slack, drafts, ramp):
    """Cache, chunks and masks change nothing: an oracle without them makes the same choices, and computes the same
    probabilities removed by the mask and by the budget.
    """
    from guided.sampling.sampler import choose

    budget = Words(words).min_tokens_to_finish() - 1 + slack
    events = decode(Words(words), params, budget, drafts=drafts, budget_ramp=ramp)
    result = events[-1].result
    oracle, tokens, removed, by_budget, token = Words(words), [], [], [], None
    while True:
        for token in oracle.forced_tokens():
            if token not in oracle.within(budget + 1 - len(tokens)):
                break
            tokens.append(token)
            assert oracle.accept_token(token)
        left, needed = budget + 1 - len(tokens), oracle.min_tokens_to_finish()
        plain, allowed = oracle.within(math.inf), oracle.within(left)
        if plain == [EOS]:
            break
        logits = Reader(MODEL, 100).forward([*PROMPT, *tokens])[0]
        lowered = torch.zeros_like(logits)
        lowered[[token for token in allowed if token not in oracle.within(needed)]] = ramp * max(0, 2 - left / needed)
        probabilities = logits.double().softmax(0)
        kept = (probabilities * (-lowered.double()).exp())[allowed].sum()
        if allowed != plain or lowered.any():
            by_budget.append(float(probabilities[plain].sum() - kept))
        masked = torch.full_like(logits, -math.inf)
        masked[allowed] = (logits - lowered)[allowed]
        apply_changes(Penalties(params, PROMPT, [EOS], len(LETTERS) + 1).changes(tokens), masked, len(tokens))
        token = choose(masked, params, len(tokens))
        removed.append(-math.log(float(kept)) - float(lowered[token]))
        assert oracle.accept_token(token)
        if token == EOS:
            break
        tokens.append(token)
    assert result.tokens == tokens
    assert result.removed_log_masses == pytest.approx(removed, abs=1e-4)
    assert len(result.removed_log_masses) == sum(result.token_masks) + (token == EOS), "one for each chosen token"
    assert result.removed_log_mass == pytest.approx(sum(removed), abs=1e-3)
    assert result.budget_bound.steps == len(by_budget)
    assert result.budget_bound.mass == pytest.approx(sum(by_budget), abs=1e-4)
    assert events[-1].budget_bound == result.budget_bound
    assert [event.budget_bound.steps for event in events] == sorted(event.budget_bound.steps for event in events)


@examples(60)
@given(WORDS, PARAMS)
def test_scored_weights_match_importance_sampling(words, params):
    """log q(output) - log p(output) at temperature 1. q is the probability with which the sampler makes its choices."""
    result = decode(Words(words), params, score_forced=True)[-1].result
    p = log_softmax([*PROMPT, *result.tokens])[len(PROMPT) - 1 :]
    expected, oracle = 0.0, Words(words)
    for i, token in enumerate([*result.tokens, EOS]):
        forced = i < len(result.tokens) and result.token_masks[i] == 0
        allowed = [token] if forced else [*oracle.tokens(oracle.done), *[EOS] * oracle.is_accepting()]
        expected -= float(p[i, allowed].logsumexp(0))
        oracle.accept_token(token)
    assert result.removed_log_mass == pytest.approx(expected, abs=1e-3)


def test_forced_tokens_need_one_forward_pass_and_the_end_needs_none(monkeypatch):
    seen = []
    step = ModelRunner.step
    monkeypatch.setattr(ModelRunner, "step", lambda self, c: seen.extend(list(x.tokens) for x in c) or step(self, c))
    result = decode(Words([b"ab" + x + b"cde" for x in (b"a", b"d")]))[-1].result
    choice = result.tokens[2]
    assert choice in (0, 3)
    assert result.tokens == [0, 1, choice, 2, 3, 4]
    assert result.token_masks == [0, 0, 1, 0, 0, 0]
    assert seen == [[*PROMPT, 0, 1]]
    assert len(result.timings.forward) == 0 < result.timings.prefill
    assert len(result.timings.mask) == 2
    assert len(result.timings.mask_us) == 2
    assert result.tokens_per_second > 0
    seen.clear()
    assert decode(Words([b"abcd"]))[-1].result.text == "abcd"
    assert seen == []


def test_a_forced_end_token_ends(monkeypatch):
    matcher = Words([b"ab"])
    matcher.forced_tokens = lambda: [0, 1, EOS]
    result = decode(matcher)[-1].result
    assert (result.tokens, result.finish_reason, matcher.ended) == ([0, 1], "stop", True)


def test_forcing_stops_where_the_budget_wants_shorter_tokens():
    result = decode(Words([b"abcabcabc"]), max_tokens=3)[-1].result  # letter by letter, the forced text would take nine
    assert result.tokens == [6, 6, 6]
    assert result.token_masks == [1, 1, 1]


def test_a_budget_that_cannot_be_met_is_refused_before_anything_runs(monkeypatch):
    monkeypatch.setattr(ModelRunner, "step", lambda *_: pytest.fail("ran the model"))
    with pytest.raises(BudgetError, match="completion has 2 tokens, but the budget is 1"):
        decode(Words([b"abab"]), max_tokens=1)


def test_an_end_costs_no_token_and_a_forced_end_no_forward_pass(monkeypatch):
    """A choice of one token fits into a budget of one token, with one pass over the prompt."""
    steps, step = [], ModelRunner.step
    monkeypatch.setattr(ModelRunner, "step", lambda *args: steps.append(1) or step(*args))
    result = decode(Words([b"a", b"b"]), max_tokens=1)[-1].result
    assert len(result.tokens) == 1 and result.finish_reason == "stop" and result.budget_bound.steps == 0
    assert len(steps) == 1
    longer = decode(Words([b"a", b"aa", b"aaa"]), max_tokens=1)[-1].result
    assert longer.text == "a" and longer.finish_reason == "stop"
    assert longer.budget_bound.steps == 1  # the budget ended it, and the model's preferred continuation is reported
    assert longer.budget_bound.mass > 0


def test_without_a_constraint_it_ends_at_an_end_token_or_with_the_budget():
    reasons = set()
    for seed in range(30):
        events = decode(None, SamplingParams(3.0, seed=seed), 12)
        result = events[-1].result
        reasons.add(result.finish_reason)
        assert len(result.tokens) == 12 if result.finish_reason == "length" else len(result.tokens) < 12
        assert EOS not in result.tokens
        assert max(result.tokens, default=0) < VOCABULARY.size
        assert set(result.token_masks) <= {1}
        assert result.removed_log_mass == 0
        assert "".join(e.text for e in events) == result.text
    assert reasons == {"stop", "length"}


def test_incomplete_characters_are_withheld():
    matcher = Words([b"a\xc3\xa9", b"b\xc3\xa9"], forces=False)
    original = matcher.tokens
    matcher.tokens = lambda done: [i for i in original(done) if LETTERS[i] != b"\xc3\xa9"]  # byte by byte
    texts = [e.text for e in decode(matcher)]
    assert texts[1:] == ["", "é", ""]
    assert decode(None, SamplingParams(0.0), 1, parse=len)[-1].result.value is None


def test_samples_share_the_prompt_and_equal_single_runs():
    words = [b"ab" + w for w in (b"a", b"b", b"cd", b"de", b"e e")]
    params = SamplingParams(1.5, seed=11)
    group = [task(Words(words), params.sample(i), 20, parse=len) for i in range(12)]
    results = [events[-1].result for events in drive(scheduler(4000), group)]
    assert len({r.text for r in results}) > 1
    assert results[0].timings.prefill > 0
    assert {r.timings.prefill for r in results[1:]} == {0.0}
    for r in results:
        alone = decode(Words(words), SamplingParams(1.5, seed=r.seed), 20)[-1].result
        assert (alone.tokens, r.value) == (r.tokens, len(r.text))
        assert alone.removed_log_mass == pytest.approx(r.removed_log_mass, abs=1e-5)


@examples(100)
@given(WORDS, PARAMS, st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=2), max_size=3), st.booleans())
def test_bans_hold_or_it_fails_with_the_reason(words, params, bad_words, some):
    allowed = [*range(0, 13, 2), *range(1, 9), EOS] if some else None
    params = replace(params, bad_words=bad_words, allowed_token_ids=allowed)
    try:
        result = decode(Words(words), params)[-1].result
    except GuidedError as error:
        assert "forbid every token" in str(error)
        assert bad_words or some
        return
    assert VOCABULARY.decode(result.tokens) in words
    assert not some or set(result.tokens) <= set(allowed)
    pairs = [*zip(result.tokens, result.tokens[1:], strict=False), *((t,) for t in result.tokens)]
    assert not set(map(tuple, bad_words)) & set(pairs)


def test_min_tokens_holds_if_the_constraint_allows_it():
    words = [b"", b"a", b"ab", b"abcd", b"b"]
    for seed in range(20):
        result = decode(Words(words), SamplingParams(2.0, seed=seed, min_tokens=2))[-1].result
        assert len(result.tokens) >= 2 or result.text in ("b", "abcd")
        free = decode(None, SamplingParams(2.0, seed=seed, min_tokens=9, logit_bias={EOS: 20.0}), 12)[-1].result
        assert (len(free.tokens), free.finish_reason) == (9, "stop")


def test_a_matcher_that_contradicts_its_mask_fails_the_output():
    matcher = Words([b"ab", b"cd"])
    matcher.accept_token = lambda token: False
    with pytest.raises(GuidedError, match="although the mask allowed it"):
        decode(matcher)
    empty = Words([b"ab", b"cd"])
    empty.fill_next_token_bitmask = lambda bitmask, row=0, *, max_tokens=None: bitmask.fill(0) or True
    with pytest.raises(GuidedError, match="the mask is empty"):
        decode(empty)


def test_a_mask_that_masks_nothing_still_allows_only_the_vocabulary():
    class Anything(Words):
        def fill_next_token_bitmask(self, bitmask, row=0, *, max_tokens=None):
            bitmask.fill(0x5A5A5A5A)
            return False

        def accept_token(self, token):
            assert token < VOCABULARY.size
            self.ended = token == EOS
            return True

    ended = 0
    for seed in range(20):
        try:
            ended += (
                decode(Anything([b"", b"x"]), SamplingParams(3.0, seed=seed), 20)[-1].result.finish_reason == "stop"
            )
        except GuidedError as error:
            assert "did not end within its budget" in str(error)
    assert 0 < ended < 20


def test_a_cancelled_output_holds_nothing():
    batch = scheduler()
    one = task(None, SamplingParams(1.0), 50)
    batch.add([one])
    batch.step()
    assert batch.running_count == 1
    batch.cancel(one)
    batch.cancel(one)
    assert (batch.running_count, batch.waiting_count, one.is_done) == (0, 0, True)


def test_the_time_of_a_mask_counts_only_the_applied_row(monkeypatch):
    """With a clock that only the matcher's calls advance, by the remaining budget of the call."""
    now = [0.0]
    monkeypatch.setattr("guided.engine.masks.perf_counter", lambda: now[0])

    class Costs(GrammarMatcher):
        def fill_next_token_bitmask(self, bitmask, row=0, *, max_tokens=None):
            now[0] += 1000 if max_tokens is None else max_tokens
            return super().fill_next_token_bitmask(bitmask, row, max_tokens=max_tokens)

    grammar = GrammarCompiler(VOCABULARY).compile_regex("a{3}|a{9}")  # needs 4 tokens with the end, or 10
    for left, applied in ((100, 50), (6, 6)):  # half of it suffices, but then does not
        now[0], times = 0.0, []
        Masks(Costs(grammar), VOCABULARY, 1, times, ramp=2.0).fill(left)
        assert times == [applied] and (now[0] > applied) == (left == 6)
