"""`masks_of` compared with `GrammarMatcher`, step by step: equal masks, with and without budgets, for right and wrong
ids.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import guided
from guided.errors import BudgetError, GuidedError, LimitExceeded, OptionError
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.matching.bitmask import is_allowed
from guided.vocabulary import Vocabulary
from tests.brute_force import SPECIALS
from tests.core_support import EVERY_SPEC, SANITIZED, mask_of, vocabulary
from tests.drawn_grammars import ALPHABETS, grammars, vocabularies
from tests.effort import examples
from tests.random_schemas import draw_schema

BYTES = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
COMPILER = GrammarCompiler(BYTES)


def twin(grammar: CompiledGrammar, ids: list[int], max_tokens: int | None) -> tuple[Any, int | None, bool]:
    """The expected result of `masks_of`: the rows up to the first refused id, its position, and `is_complete`."""
    matcher, size, rows = GrammarMatcher(grammar), grammar.vocabulary.size, []
    for at, id in enumerate(ids):
        row = allocate_token_bitmask(1, size)
        budget = None if max_tokens is None or matcher.is_terminated() else max_tokens - at + 1
        matcher.fill_next_token_bitmask(row, max_tokens=budget)
        rows.append(row[0])
        if not 0 <= id < size or not is_allowed(row[0], id):
            assert budget is not None or matcher.validate_tokens([id]) == 0
            return rows, at, False
        assert matcher.accept_token(id)
    return rows, None, matcher.is_accepting()


def check(grammar: CompiledGrammar, ids: list[int], max_tokens: int | None = None) -> guided.Masks:
    rows, refused, complete = twin(grammar, ids, max_tokens)
    masks = guided.masks_of(grammar, ids, max_tokens)
    assert (masks.refused_at, masks.is_complete) == (refused, complete)
    rows += [np.zeros(masks.shape[1], np.int32)] * (len(ids) - len(rows))
    assert masks.shape == (len(ids), (grammar.vocabulary.size + 31) // 32)
    assert np.array_equal(np.asarray(masks), np.array(rows, np.int32).reshape(masks.shape))
    assert len({row.tobytes() for row in masks.rows}) == len(masks.rows) == len(set(masks.row_numbers.tolist()))
    sets = [allowed_tokens(row[None]) for row in rows]
    assert masks.allowed.tolist() == [at < (len(ids) if refused is None else refused) for at in range(len(ids))]
    assert masks.forced.tolist() == [len(allowed) == 1 for allowed in sets]
    assert masks.indptr.dtype == np.int64 and masks.indices.dtype == np.int32
    assert [masks.indices[a:b].tolist() for a, b in zip(masks.indptr, masks.indptr[1:], strict=False)] == sets
    return masks


def draw_output(grammar: CompiledGrammar, rng: random.Random, most: int, max_tokens: int | None) -> list[int]:
    """Ids that the masks allow. Sometimes one of them is changed, or some are added after the end."""
    matcher, ids = GrammarMatcher(grammar), list[int]()
    while len(ids) < most and not matcher.is_terminated():
        budget = None if max_tokens is None else max_tokens - len(ids) + 1
        ids.append(rng.choice(mask_of(matcher, budget)))
        assert matcher.accept_token(ids[-1])
    if ids and rng.random() < 0.4:
        ids[rng.randrange(len(ids))] = rng.randrange(-1, grammar.vocabulary.size + 1)
    if rng.random() < 0.3:
        ids += rng.choices([*grammar.vocabulary.eos_token_ids, 5], k=rng.randint(1, 4))
    return ids


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_masks_of_every_kind_of_grammar(name):
    grammar, rng = EVERY_SPEC[name](GrammarCompiler(vocabulary())), random.Random(name)
    least = GrammarMatcher(grammar).min_tokens_to_finish() - 1
    for number in range(4 if SANITIZED else 12):
        max_tokens = None if number % 3 == 0 else least + rng.choice([0, 1, 2, 5, 40, 1000])
        check(grammar, draw_output(grammar, rng, 25, max_tokens), max_tokens)


@examples(40)
@given(st.data())
def test_masks_of_random_grammars(data: st.DataObject):
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    grammar = data.draw(grammars(alphabet, specials=tuple(SPECIALS)))
    drawn = data.draw(vocabularies(alphabet, complete=True))
    words = Vocabulary(drawn.tokens, eos_token_ids=drawn.eos_token_ids, special_tokens=drawn.special_tokens)
    try:
        compiled = GrammarCompiler(words).compile_grammar(grammar)
    except GuidedError:
        assume(False)
    slack = data.draw(st.sampled_from([None, 0, 1, 3, 100]))
    budget = None if slack is None else GrammarMatcher(compiled).min_tokens_to_finish() - 1 + slack
    check(compiled, draw_output(compiled, random.Random(data.draw(st.integers(0, 1 << 30))), 12, budget), budget)


@examples(30)
@given(st.integers(0, 1 << 30), st.sampled_from([None, 0, 2, 30]))
def test_masks_of_random_schemas(seed, slack):
    rng = random.Random(seed)
    try:
        grammar = GrammarCompiler(vocabulary()).compile_json_schema(draw_schema(rng), unknown_format="ignore")
    except GuidedError:
        assume(False)
    budget = None if slack is None else GrammarMatcher(grammar).min_tokens_to_finish() - 1 + slack
    check(grammar, draw_output(grammar, rng, 20, budget), budget)


def test_states_that_are_replaced_on_the_way():
    """With so little memory, matchers switch to fresh states all the time, which have other numbers."""
    compiler = GrammarCompiler(vocabulary(), limits=guided.Limits(memory=20_000))
    grammar, rng = EVERY_SPEC["counted"](compiler), random.Random(1)
    for max_tokens in (None, 60, 400):
        rebuilds = grammar.native.rebuilds
        check(grammar, draw_output(grammar, rng, 60, max_tokens), max_tokens)
        assert grammar.native.rebuilds > rebuilds


def test_threads_share_a_grammar():
    grammar = EVERY_SPEC["tree"](GrammarCompiler(vocabulary()))
    outputs = [draw_output(grammar, random.Random(seed), 40, 80) for seed in range(16)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda ids: (m := guided.masks_of(grammar, ids, 80), np.asarray(m)), outputs))
    for ids, (masks, array) in zip(outputs, found, strict=True):
        rows, refused, _ = twin(grammar, ids, 80)
        assert masks.refused_at == refused and np.array_equal(array[: len(rows)], rows)


def test_positions_of_a_string_share_a_row():
    grammar = COMPILER.compile_json_schema(
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    )
    masks = check(grammar, BYTES.encode('{"a":"' + "lorem ipsum " * 20 + '"}'))
    inside = masks.row_numbers[7:-3]
    assert len(masks) > 240 and len(masks.rows) < 12 and len(set(inside.tolist())) == 1
    assert masks.forced[1] == masks.forced[2] == False  # noqa: E712 (whitespace may come before the name)
    assert not masks.forced[10]


def test_as_an_array():
    masks = guided.masks_of(COMPILER.compile_regex("[ab]c"), BYTES.encode("ac"))
    assert allowed_tokens(masks, 0) == [97, 98] and allowed_tokens(masks, 1) == [99]
    assert masks.dtype == np.int32 and len(masks) == 2 and masks[-1].tolist() == masks[1].tolist()
    assert np.asarray(masks, np.int64).dtype == np.int64 and [row.shape for row in masks] == [(9,), (9,)]
    assert masks[:1].shape == (1, 9) and (masks == np.asarray(masks)).all()
    with pytest.raises(ValueError, match="must be copied"):
        np.array(masks, copy=False)
    assert repr(masks) == "Masks(2 tokens, all allowed)"


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda ids: np.array(ids, np.uint16)])
def test_ids_of_any_kind(kind):
    grammar = COMPILER.compile_regex("a*")
    assert guided.masks_of(grammar, kind([97, 97, 256])).is_complete
    assert guided.masks_of(grammar, np.array([97, 98, 97])[::2]).refused_at is None


def test_no_ids():
    masks = check(COMPILER.compile_regex("a?"), [])
    assert masks.is_complete and masks.refused_at is None and masks.rows.shape == (0, 9)
    assert not check(COMPILER.compile_regex("a"), []).is_complete


def test_why_a_token_is_refused():
    schema = {"type": "object", "properties": {"age": {"type": "integer", "maximum": 99}}, "required": ["age"]}
    grammar = COMPILER.compile_json_schema(schema, whitespace="single_space", numbers="plain")
    assert guided.masks_of(grammar, BYTES.encode('{"age": 99}')).explain() is None
    masks = check(grammar, BYTES.encode('{"age": 100}'))
    assert masks.refused_at == 10 and not masks.is_complete
    explanation = masks.explain()
    assert not explanation.accepted and explanation.refused_by == ("/properties/age/maximum",)
    assert "'0' is not allowed: expected" in explanation.reason
    outside = check(grammar, [*b'{"', 257, *b"age"])
    assert (outside.refused_at, outside.explain().reason) == (2, "257 is not an id of the vocabulary (0 to 256)")
    ended = check(COMPILER.compile_regex("a*"), [97, 256, 256, 97])
    assert (ended.refused_at, ended.explain().reason) == (3, "the output has ended: nothing may follow")


@given(st.text("ab", max_size=12), st.integers(3, 9))
def test_tokens_that_only_the_budget_refuses(text, max_tokens):
    grammar, ids = COMPILER.compile_regex("[ab]*end"), BYTES.encode(text)
    masks = check(grammar, ids, max_tokens)
    assert masks.refused_at == (max_tokens - 3 if len(text) > max_tokens - 3 else None)
    if masks.refused_at is not None:
        explanation = masks.explain()
        assert not explanation.accepted
        assert explanation.reason == (
            "the specification allows the token, but the budget does not (tokens left after it: 2, shortest known "
            "completion: 3)"
        )
    assert guided.masks_of(grammar, ids).refused_at is None


def test_budgets_count_as_in_the_engine():
    """The end token costs nothing, so an output of n tokens fits into a budget of n."""
    grammar = COMPILER.compile_regex("a{3}b*")
    with pytest.raises(BudgetError) as caught:
        guided.masks_of(grammar, [97], 2)
    assert (caught.value.needed, caught.value.given) == (3, 2)
    assert check(grammar, [97, 97, 97, 256], 3).is_complete
    assert check(grammar, [97, 97, 97, 98], 3).refused_at == 3
    assert check(grammar, [97, 97, 97, 256, 256, 256], 3).is_complete


@pytest.mark.parametrize(
    ("ids", "max_tokens", "error", "message"),
    [
        ("abc", None, TypeError, "ids are a sequence of integers, not 'abc'"),
        ([1.0], None, TypeError, "ids are a sequence of integers"),
        ([[1]], None, TypeError, "ids are a sequence of integers"),
        ([[1], [1, 2]], None, TypeError, "ids are a sequence of integers"),
        ([True], None, TypeError, "ids are a sequence of integers"),
        ([2**70], None, TypeError, "ids are a sequence of integers"),
        (np.array([2**63], np.uint64), None, OptionError, "more than a 64-bit integer"),
        (iter([1]), None, TypeError, "ids are a sequence of integers"),
        ([97], -1, OptionError, "max_tokens is -1"),
        ([97], 1.5, OptionError, "max_tokens is 1.5"),
    ],
)
def test_bad_arguments(ids, max_tokens, error, message):
    with pytest.raises(error, match=message):
        guided.masks_of(COMPILER.compile_regex("a*"), ids, max_tokens)


def test_the_grammar_must_be_compiled():
    with pytest.raises(TypeError, match="grammar is a CompiledGrammar, not 'a'"):
        guided.masks_of("a", [97])


def test_the_memory_of_rows_is_bounded():
    wide = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256], size=1 << 24)
    text = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ"
    grammar = GrammarCompiler(wide, limits=guided.Limits(memory=1 << 20)).compile_choice([text])
    masks = guided.masks_of(grammar, wide.encode(text))
    assert masks.refused_at is None
    with pytest.raises(LimitExceeded, match="limit 'memory' exceeded"):
        _ = masks.rows


def test_masks_match_the_engine(monkeypatch):
    """Every row from which the engine chose a token, under ample, tight and minimum budgets."""
    torch = pytest.importorskip("torch")
    from guided.engine import Engine
    from guided.engine.sequence import Sequence
    from guided.models.architectures.llama import Llama, LlamaConfig

    torch.set_num_threads(1)
    sizes = {"layers": 1, "dim": 16, "heads": 2, "kv_heads": 1, "head_dim": 8, "hidden": 24}
    engine = Engine(Llama.random(LlamaConfig(**sizes, vocab_size=257, context=400), seed=7), BYTES)
    rows: dict[int, Any] = {}
    choose = Sequence.choice

    def recorded(sequence, at, drafts):
        choice = choose(sequence, at, drafts)
        rows[len(sequence.transcript.tokens) + at] = choice.allowed.copy()
        return choice

    monkeypatch.setattr(Sequence, "choice", recorded)
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }
    grammar = engine.compiler.compile_json_schema(schema, whitespace="single_space", additional_properties=False)
    for max_tokens in (17, 19, 30, 100):
        rows.clear()
        result = engine.generate("x", grammar, max_tokens=max_tokens, temperature=1.0, seed=max_tokens, raw=True)
        masks = guided.masks_of(grammar, [*result.tokens, 256], max_tokens)
        assert masks.refused_at is None and masks.is_complete and len(rows) > 2
        for position, row in rows.items():
            assert np.array_equal(row, masks[position])


def test_budgets_of_numpy_and_arrays_that_are_reused():
    compiler = guided.GrammarCompiler(guided.Vocabulary([b"a", b"b"], eos_token_ids=[2]))
    grammar = compiler.compile_regex("ab*")
    for budget in (np.int8(127), np.uint8(255), np.int32(2**31 - 1), 2**63 - 1, 2**80):
        assert guided.masks_of(grammar, [0, 1, 2], max_tokens=budget).refused_at is None
    ids = np.array([0, 1, 1, 2])
    masks = guided.masks_of(grammar, ids)
    ids[:] = 7
    assert masks.ids.tolist() == [0, 1, 1, 2] and masks[:].all(axis=1).all()
    explanation = guided.masks_of(grammar, [0, 1, 1], max_tokens=2).explain()
    assert explanation is not None and "the budget of 2 tokens is used up" in explanation.reason
