"""Masks and budgets on the vocabularies of five real models, at random states of 210 specifications.

The whole mask, which comes from token tables, is compared with a simulation of each id, byte by byte. Samples are
compared with the readable twin, which shares no code. By default, each specification is tested with one vocabulary; the
slow runs test all pairs. Skipped if the files are missing (see vocabulary_support.asset).
"""

from __future__ import annotations

import json
import random
from functools import cache

import numpy as np
import pytest

from guided.automaton.reference.token_masks import ReferenceGrammar
from guided.errors import BudgetError, LimitExceeded
from guided.matching import GrammarMatcher, allocate_token_bitmask
from guided.vocabulary import Vocabulary
from tests.core_support import ReadingCompiler
from tests.specifications import SPECIFICATIONS, Specification
from tests.vocabulary_support import asset
from tests.weights import SMOLLM2, weights_of


def _llama3() -> Vocabulary:
    special = json.loads(asset("llama3.special.json").read_text())["special"]
    return Vocabulary.from_tiktoken(asset("llama3.tiktoken"), eos_token_ids=[128001, 128009], special_tokens=special)


def _qwen() -> Vocabulary:
    special = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
    path = asset("qwen.tiktoken")
    return Vocabulary.from_tiktoken(path, eos_token_ids=[151643, 151645], special_tokens=special, size=151936)


VOCABULARIES = {
    "smollm2": lambda: Vocabulary.from_gguf(weights_of(SMOLLM2)),
    "llama3": _llama3,
    "qwen": _qwen,
    "tekken": lambda: Vocabulary.from_tekken(asset("tekken_240911.json")),
    "sentencepiece": lambda: Vocabulary.from_sentencepiece(asset("tokenizer.model.v1")),
}
PARTS = 4  # the default run divides the specifications of a vocabulary, so a failure names fewer of them


@cache
def compiler_for(name: str) -> ReadingCompiler:
    return ReadingCompiler(VOCABULARIES[name](), cache_bytes=0)


def pairs(everything: bool) -> list[tuple[str, tuple[Specification, ...]]]:
    """(vocabulary, specifications): all of them, or every fifth."""
    names = list(VOCABULARIES)
    share = 1 if everything else len(names)
    own = {name: SPECIFICATIONS[at % share :: share] for at, name in enumerate(names)}
    return [(name, specs[part::PARTS]) for name, specs in own.items() for part in range(PARTS)]


def both_runs(test):
    """The same test on some of the pairs and, marked slow, on all of them."""
    rows = [pytest.param(*row, id=f"{row[0]}-{at % PARTS}") for at, row in enumerate(pairs(False))]
    rows += [
        pytest.param(*row, id=f"{row[0]}-all-{at % PARTS}", marks=pytest.mark.slow)
        for at, row in enumerate(pairs(True))
    ]
    return pytest.mark.parametrize(("name", "specs"), rows)(test)


def ids_of(matcher: GrammarMatcher, max_tokens: int | None = None) -> np.ndarray:
    """As `mask_of`, for masks of 100,000 ids."""
    bitmask = allocate_token_bitmask(1, matcher.grammar.vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask, max_tokens=max_tokens)
    return np.flatnonzero(np.unpackbits(bitmask.view(np.uint8), bitorder="little"))


def simulated(matcher: GrammarMatcher) -> list[int]:
    """The ids that can be accepted, tried one by one, including ids outside the vocabulary."""
    validate = matcher.validate_tokens
    return [id for id in range(-1, matcher.grammar.vocabulary.size + 33) if validate((id,))]


def random_state(matcher: GrammarMatcher, rng: random.Random, steps: int) -> list[int]:
    """Walk at most `steps` tokens, and stay before the end. No mask is empty. Returns the tokens."""
    ends = matcher.grammar.vocabulary.eos_token_ids
    taken = []
    for _ in range(steps):
        allowed = ids_of(matcher)
        assert allowed.size, "a dead end"
        id = next((id for _ in range(8) if (id := int(rng.choice(allowed))) not in ends), None)
        if id is None:
            break
        taken.append(id)
        assert matcher.accept_token(id)
    return taken


def one_way(specification: Specification, name: str) -> GrammarMatcher:
    return GrammarMatcher(specification.compile(compiler_for(name)))


def test_two_hundred_specifications():
    assert len(SPECIFICATIONS) == len({spec.name for spec in SPECIFICATIONS}) == 210


@both_runs
def test_masks_match_single_tokens(name: str, specs: tuple[Specification, ...]) -> None:
    for spec in specs:
        rng = random.Random(f"{name} {spec.name}")
        matcher = one_way(spec, name)
        for steps in (0, rng.randint(1, 12)):
            taken = random_state(matcher, rng, steps)
            expected = simulated(matcher)
            assert ids_of(matcher).tolist() == expected, spec.name
            matcher.rollback(len(taken))
            assert all(map(matcher.accept_token, taken)) and ids_of(matcher.fork()).tolist() == expected, spec.name


@both_runs
def test_samples_of_masks_match_the_reference(name: str, specs: tuple[Specification, ...]) -> None:
    vocabulary = compiler_for(name).vocabulary
    single = [id for id, data in enumerate(vocabulary.tokens) if data is not None and len(data) == 1]
    given_up = 0
    for spec in specs:
        rng = random.Random(f"{name} {spec.name}")
        matcher = one_way(spec, name)
        taken = random_state(matcher, rng, rng.randint(0, 4))
        allowed = ids_of(matcher).tolist()
        sample = {*single, *vocabulary.eos_token_ids, *taken, *rng.sample(allowed, min(len(allowed), 60))}
        sample |= {rng.randrange(vocabulary.size) for _ in range(40)}
        sample -= set(vocabulary.special_tokens) - vocabulary.eos_token_ids - set(taken) - set(allowed)
        numbers = sorted(sample | set(list(vocabulary.special_tokens)[:1]) | {7})
        tokens: list[bytes | None] = [None] * vocabulary.size
        for id in numbers:
            tokens[id] = vocabulary.token_bytes(id)
        try:
            reference = ReferenceGrammar(
                compiler_for(name).rules, tokens, vocabulary.eos_token_ids, vocabulary.special_tokens
            )
            state = reference.initial()
            for id in taken:
                after = reference.accept_token(state, id)
                assert after is not None, spec.name
                state = after
            assert sorted(reference.mask(state).intersection(numbers)) == sorted(set(allowed).intersection(numbers)), (
                spec.name
            )
            assert reference.is_accepting(state) == matcher.is_accepting()
        except LimitExceeded:
            given_up += 1
    assert given_up <= len(specs) / 2


RULES = ("uniform", "longest", "opening")


@cache
def tastes(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The length of each token, and the number of brackets that it opens."""
    vocabulary = compiler_for(name).vocabulary
    texts = [vocabulary.token_bytes(id) or b"" for id in range(vocabulary.size)]
    return np.array([*map(len, texts)]), np.array(
        [text.count(b"{") + text.count(b"[") + text.count(b"(") for text in texts]
    )


@both_runs
def test_budgets_hold_for_any_choice(name: str, specs: tuple[Specification, ...]) -> None:
    for spec in specs:
        rng = random.Random(f"{name} {spec.name}")
        start = one_way(spec, name)
        if rng.random() < 0.5:
            random_state(start, rng, rng.randint(0, 10))
        least = start.min_tokens_to_finish()
        assert least >= 1
        bitmask = allocate_token_bitmask(1, start.grammar.vocabulary.size)
        for short in {least - 1, least // 2, 0}:
            with pytest.raises(BudgetError) as caught:
                start.fill_next_token_bitmask(bitmask, max_tokens=short)
            assert (caught.value.needed, caught.value.given) == (least, short)
        for extra in (0, rng.randint(1, 25)):
            finish(start.fork(), least + extra, rng.choice(RULES), rng, *tastes(name), spec.name)


def finish(matcher, budget, rule, rng, lengths, opening, what) -> None:
    """Take tokens by a rule, with a smaller budget at each step. The output ends with an end token within the first
    budget.
    """
    ends = np.array(sorted(matcher.grammar.vocabulary.eos_token_ids))
    for left in range(budget, 0, -1):
        if left < budget - 40 and budget > 150:  # the shortest output is long; see its beginning
            return
        allowed = ids_of(matcher, left)
        assert allowed.size, (what, left)
        if rule != "uniform":
            going = np.setdiff1d(allowed, ends, assume_unique=True)
            allowed = going if going.size else allowed
            score = lengths[allowed] + (100 * opening[allowed] if rule == "opening" else 0)
            allowed = allowed[score == score.max()]
        assert matcher.accept_token(int(rng.choice(allowed))), (what, left)
        if matcher.is_terminated():
            assert matcher.min_tokens_to_finish() == 0 and np.array_equal(ids_of(matcher), ends)
            return
        assert matcher.min_tokens_to_finish() <= left - 1, (what, left)
    raise AssertionError(f"{what}: not complete")


@both_runs
def test_no_walk_ends_dead(name: str, specs: tuple[Specification, ...]) -> None:
    for spec in specs:
        rng = random.Random(f"{name} {spec.name}")
        matcher = one_way(spec, name)
        random_state(matcher, rng, 60)
        least = matcher.min_tokens_to_finish()
        if least <= 400:
            finish(matcher, least + rng.randint(0, 3), "uniform", rng, *tastes(name), spec.name)
