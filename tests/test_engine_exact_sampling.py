"""Exact samples, compared with the probabilities of all outputs of small languages."""

from __future__ import annotations

import re
from collections import Counter
from math import exp
from typing import Any

import pytest
import torch

import guided
from guided.engine.engine import Engine
from guided.engine.result import Result
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler
from guided.engine.task import Task
from guided.kv.paged import PagedCache
from guided.matching.bitmask import allowed_tokens
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.vocabulary.vocabulary import Vocabulary
from tests.effort import every
from tests.engine_support import drive

torch.set_num_threads(1)
TOKENS = [b"a", b"b", b"c", b"d", b"ab", b"cd", b"aa", b'"', b",", None, None]
ENDS = (9, 10)
VOCABULARY = Vocabulary(TOKENS, eos_token_ids=ENDS, special_tokens={9: "<end>", 10: "<stop>"})
CONFIG = LlamaConfig(layers=1, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=16, context=64)
MODEL = Llama.random(CONFIG, seed=4)
ENGINE = Engine(MODEL, VOCABULARY)
PROMPT = [0, 3, 5]
# the mask lets the model begin freely, but the required continuation is unlikely
LANGUAGES = ["a(ab){0,2}d|b[cd]{1,2}|c", "(a|b|cd){1,3}", '"(aa|d)",(a|b)"|c{1,4}']


def outputs(pattern: str, max_tokens: int, temperature: float) -> dict[tuple[int, ...], float]:
    """Every allowed output, and the model's probability of it (including the end), normalized."""
    grammar = ENGINE.compiler.compile_regex(pattern)
    found = dict[tuple[int, ...], float]()

    def walk(tokens: list[int], probability: float) -> None:
        matcher = guided.GrammarMatcher(grammar)
        assert all(map(matcher.accept_token, tokens))
        logits = ENGINE.logits([*PROMPT, *tokens])[0, : VOCABULARY.size]
        chances = torch.softmax(logits.double() / temperature, 0).tolist()
        if matcher.is_accepting():
            found[tuple(tokens)] = probability * sum(chances[end] for end in ENDS)
        if len(tokens) < max_tokens:
            for token in range(9):
                if matcher.accept_token(token):
                    matcher.rollback(1)
                    walk([*tokens, token], probability * chances[token])

    walk([], 1.0)
    total = sum(found.values())
    return {tokens: probability / total for tokens, probability in found.items()}


def samples(pattern: str, n: int, max_tokens: int, **options: Any) -> list[Result]:
    results = ENGINE.generate(PROMPT, pattern, n=n, max_tokens=max_tokens, seed=11, **options)
    return results if isinstance(results, list) else [results]


def distance(results: list[Result], expected: dict[tuple[int, ...], float]) -> float:
    """The total variation distance between frequencies and probabilities."""
    counts = Counter(tuple(result.tokens) for result in results)
    assert counts.keys() <= expected.keys()
    return sum(abs(counts[tokens] / len(results) - chance) for tokens, chance in expected.items()) / 2


@pytest.mark.parametrize("temperature", every(2, [1.0, 0.3]))
@pytest.mark.parametrize("pattern", LANGUAGES)
def test_frequencies_are_the_probabilities(pattern: str, temperature: float) -> None:
    count = 800
    expected = outputs(pattern, 4, temperature)
    exact = samples(pattern, count, 4, temperature=temperature, sampling="exact")
    masked = samples(pattern, count, 4, temperature=temperature, budget_ramp=0.0)
    noise = sum((chance * (1 - chance) / count) ** 0.5 for chance in expected.values())  # more than twice the mean
    assert distance(exact, expected) < noise
    assert distance(masked, expected) > 2 * noise
    assert all(one.finish_reason == "stop" and re.fullmatch(pattern, one.text) for one in exact)


def test_weighted_samples_have_the_same_distribution() -> None:
    """Masked samples with their weights, in a language of few outputs."""
    expected = outputs(LANGUAGES[2], 4, 1.0)
    results = samples(LANGUAGES[2], 800, 4, temperature=1.0, budget_ramp=0.0, score_forced=True)
    weights = Counter[tuple[int, ...]]()
    for result in results:
        weights[tuple(result.tokens)] += exp(result.log_weight)
    total = sum(weights.values())
    weighted = sum(abs(weights[tokens] / total - chance) for tokens, chance in expected.items()) / 2
    assert weighted < 0.1 < distance(results, expected)
    assert all(one.log_weight == 0 for one in samples(LANGUAGES[2], 3, 4, temperature=1.0, sampling="exact"))


def test_the_scores_of_an_exact_sample() -> None:
    for result in samples(LANGUAGES[0], 20, 4, temperature=1.0, sampling="exact"):
        at = 0
        for position, (token, chosen) in enumerate(zip(result.tokens, result.token_masks, strict=True)):
            if not chosen:
                continue
            before = [*PROMPT, *result.tokens[:position]]
            chances = torch.softmax(ENGINE.logits(before)[0, : VOCABULARY.size].double(), 0).tolist()
            matcher = guided.GrammarMatcher(ENGINE.compiler.compile_regex(LANGUAGES[0]))
            assert all(map(matcher.accept_token, result.tokens[:position]))
            bitmask = guided.allocate_token_bitmask(1, VOCABULARY.size)
            matcher.fill_next_token_bitmask(bitmask, max_tokens=5 - position)
            allowed = allowed_tokens(bitmask)
            mass = sum(chances[one] for one in allowed)
            assert exp(-result.removed_log_masses[at]) == pytest.approx(mass, abs=1e-4)
            assert token in allowed
            at += 1


def test_unlikely_tokens_are_kept_at_low_temperatures() -> None:
    """All allowed tokens are far less likely than the others, so their ratios decide."""
    expected = outputs("a|b|c", 4, 0.05)
    results = samples("a|b|c", 400, 4, temperature=0.05, sampling="exact")
    assert distance(results, expected) < 0.1
    for temperature in (0.01, 0.002):
        assert samples("a|b|c", 1, 4, temperature=temperature, sampling="exact")[0].text in "abc"


def most_likely_at_zero(pattern: str, max_tokens: int) -> tuple[int, ...]:
    """The most likely output as the temperature approaches 0: its logits are least below the largest ones."""
    grammar = ENGINE.compiler.compile_regex(pattern)
    distances = dict[tuple[int, ...], float]()

    def walk(tokens: list[int], distance: float) -> None:
        matcher = guided.GrammarMatcher(grammar)
        assert all(map(matcher.accept_token, tokens))
        logits = ENGINE.logits([*PROMPT, *tokens])[0, : VOCABULARY.size].double()
        below = (logits.max() - logits).tolist()
        if matcher.is_accepting():
            distances[tuple(tokens)] = distance + min(below[end] for end in ENDS)
        for token in range(9) if len(tokens) < max_tokens else ():
            if matcher.accept_token(token):
                matcher.rollback(1)
                walk([*tokens, token], distance + below[token])

    walk([], 0.0)
    return min(distances, key=distances.__getitem__)


@pytest.mark.parametrize("temperature", [1e-10, 1e-38, 1e-300, 5e-324])
def test_the_lowest_temperatures_yield_the_most_likely_output(temperature: float) -> None:
    for pattern in LANGUAGES:
        results = samples(pattern, 3, 4, temperature=temperature, sampling="exact")
        assert {tuple(result.tokens) for result in results} == {most_likely_at_zero(pattern, 4)}


def test_captures_of_an_exact_sample() -> None:
    pair = (
        guided.capture("first", guided.regex("[ab]")) + guided.regex(",") + guided.capture("last", guided.regex("c|d"))
    )
    result = ENGINE.generate(PROMPT, pair, sampling="exact", temperature=1.0, seed=1, max_tokens=9)
    assert [*result.captures.values()] == [[result.text[0]], [result.text[-1]]] and "," in result.text
    assert [field.text for field in result.fields.values()] == [result.text[0], result.text[-1]]


def test_seeds_batches_and_caches_change_nothing() -> None:
    options = {"sampling": "exact", "seed": 3, "temperature": 1.0, "max_tokens": 4}
    alone = [ENGINE.generate(PROMPT, LANGUAGES[0], **{**options, "seed": seed}) for seed in range(3, 9)]
    together = ENGINE.generate(PROMPT, LANGUAGES[0], n=6, **options)
    assert [one.tokens for one in together] == [one.tokens for one in alone]
    request = guided.Request(PROMPT, LANGUAGES[0], n=6, options=options)
    small = Scheduler(ModelRunner(MODEL, PagedCache(cache_shape(MODEL), 6, 4)), run_ahead=True)
    tasks = [Task(one) for one in ENGINE.outputs(request, PROMPT, ENGINE.compiler)]
    assert [events[-1].result.tokens for events in drive(small, tasks)] == [one.tokens for one in alone]


def test_too_few_passes_are_an_error() -> None:
    with pytest.raises(guided.LimitExceeded, match="raise max_passes") as caught:
        ENGINE.generate(PROMPT, "c{4}|dcdc", sampling="exact", temperature=0.5, seed=1, max_passes=1)
    assert (caught.value.limit, caught.value.allowed) == ("max_passes", 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"sampling": "exactly"}, "must be"),
        ({"sampling": "exact", "temperature": 0.0}, "needs a temperature above 0"),
        ({"sampling": "exact", "max_passes": 0}, "must be a positive integer"),
        ({"sampling": "exact", "top_p": 0.9}, "parameters that change"),
        ({"sampling": "exact", "repetition_penalty": 1.1}, "parameters that change"),
        ({"sampling": "exact", "logprobs": 1}, "cannot be combined with logprobs"),
        ({"sampling": "exact", "drafts": 2}, "cannot be combined with drafts"),
        ({"sampling": "exact", "reasoning_end": "<stop>"}, "cannot be combined with reasoning_end"),
        ({"sampling": "exact", "score_forced": True}, "cannot be combined with score_forced"),
    ],
)
def test_options_that_cannot_be_combined(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(guided.OptionError, match=reason):
        ENGINE.generate(PROMPT, "a|b", **{"temperature": 1.0, **options})
    with pytest.raises(guided.OptionError, match="free text"):
        ENGINE.generate(PROMPT, sampling="exact", temperature=1.0)
