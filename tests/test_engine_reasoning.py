"""Thinking before a constrained answer."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.engine.reasoning import ReasoningGate, find_reasoning_end
from guided.errors import BudgetError, GuidedError, SpecError
from guided.matching.constraint import ConstraintCompiler
from guided.matching.matcher import GrammarMatcher
from tests.effort import every
from tests.test_engine_drafting import CONTROL, END, ENGINE, LETTERS, VOCABULARY

torch.set_num_threads(1)
ENDS = [[CONTROL], [0, 1], [0, 0, 1], [0, 1, 0, 2], [CONTROL, 0, CONTROL], [0, CONTROL]]
SHORT = settings(deadline=None, max_examples=60)
GRAMMAR = ENGINE.compiler.compile_regex("abc(,ab)*")


def allowed(matcher, left) -> set[int]:
    row = np.zeros((1, 1), np.int32)
    if not matcher.fill_next_token_bitmask(row, 0, max_tokens=left):
        return set(range(VOCABULARY.size))
    return {id for id in range(VOCABULARY.size) if row[0, 0] >> id & 1}


@SHORT
@given(st.sampled_from(ENDS), st.randoms(use_true_random=False), st.integers(0, 6))
def test_masks_leave_enough_tokens_for_the_answer(end, rng, spare):
    """Walks through the gate: a token is in the mask if and only if the output can be completed after it within the
    budget.
    """
    gate = ReasoningGate(GrammarMatcher(GRAMMAR), end, VOCABULARY)
    left, walked = gate.min_tokens_to_finish() + spare, []
    while not gate.is_terminated():
        mask = allowed(gate, left)
        for id in range(VOCABULARY.size):
            after = gate.fork()
            taken = after.accept_token(id)
            room = taken and (after.is_terminated() or after.min_tokens_to_finish() <= left - 1)
            assert (id in mask) == room, (walked, id, left)
            if taken and not gate.has_ended:
                text = [*walked, id]
                assert after.has_ended == (text[-len(end) :] == end)
        token = rng.choice(sorted(mask))
        back = gate.fork()
        assert gate.accept_token(token)
        gate.rollback(1)
        assert (allowed(gate, left), gate.has_ended) == (allowed(back, left), back.has_ended)
        assert gate.accept_token(token)
        walked.append(token)
        left -= 1
    assert left >= 0
    begin = next(i for i in range(len(walked)) if walked[i + 1 - len(end) : i + 1] == end) + 1
    assert walked[-1] == END
    assert GrammarMatcher(GRAMMAR).accept_string(VOCABULARY.decode(walked[begin:-1]))
    gate.rollback(len(walked))
    assert gate.min_tokens_to_finish() == ReasoningGate(GrammarMatcher(GRAMMAR), end, VOCABULARY).min_tokens_to_finish()
    with pytest.raises(ValueError, match="cannot take back"):
        gate.rollback(1)


@SHORT
@given(st.sampled_from(["</think>", "ab", "cc,"]), st.integers(8, 40), st.integers(0, 99), st.sampled_from([0, 3]))
def test_the_answer_follows_the_thinking(end, most, seed, drafts):
    events = list(
        ENGINE.stream(
            [0, 1, 2, 0, 1], "abc(,ab)*", reasoning_end=end, max_tokens=most, temperature=1.5, seed=seed, drafts=drafts
        )
    )
    result = events[-1].result
    assert "".join(e.text for e in events if not e.reasoning) == result.text
    assert "".join(e.text for e in events if e.reasoning).removesuffix(end) == result.reasoning
    assert [t for e in events for t in e.tokens] == result.tokens
    assert GrammarMatcher(GRAMMAR).accept_string(result.text) and result.finish_reason == "stop"
    assert result.text.startswith("abc")
    plain = ENGINE.generate(
        [0, 1, 2, 0, 1], "abc(,ab)*", reasoning_end=end, max_tokens=most, temperature=1.5, seed=seed
    )
    assert (plain.tokens, plain.reasoning) == (result.tokens, result.reasoning)


def test_end_markers():
    assert find_reasoning_end(VOCABULARY, "</think>") == [CONTROL]
    assert find_reasoning_end(VOCABULARY, "ab") == [LETTERS.index(b"ab")]
    assert find_reasoning_end(VOCABULARY, "</think>ab</think>,") == [CONTROL, LETTERS.index(b"ab"), CONTROL, 6]
    with pytest.raises(GuidedError, match="empty"):
        find_reasoning_end(VOCABULARY, "")
    with pytest.raises(BudgetError):
        ENGINE.generate([0], "abc", reasoning_end="</think>", max_tokens=1)


@pytest.mark.parametrize("seed", every(2, range(6)))
def test_free_text_after_reasoning_ends_by_itself_or_is_cut(seed: int):
    result = ENGINE.generate([0], reasoning_end="</think>", max_tokens=9, temperature=1.5, seed=seed)
    assert CONTROL in result.tokens and result.reasoning is not None
    assert result.finish_reason == ("length" if len(result.tokens) == 9 else "stop")
    assert result.text == VOCABULARY.decode(result.tokens[result.tokens.index(CONTROL) + 1 :]).decode()


def test_a_constraint_that_compiles_itself():
    def ask(free: bool, pattern: str, most: int) -> str:
        constraint = ConstraintCompiler(lambda compiler: compiler.compile_regex(pattern), open_ended=free)
        result = ENGINE.generate([0], constraint, max_tokens=most, temperature=1.5, seed=3)
        assert re.fullmatch(pattern, result.text)
        return result.finish_reason

    assert ask(True, "[abc,]*", 3) == "length"  # it would have continued
    assert ask(True, "abc", 9) == "stop"  # the constraint ended it
    assert ask(False, "[abc,]*", 3) == "stop"
    with pytest.raises(SpecError):
        ask(True, "(", 3)
    with pytest.raises(GuidedError, match="compiles itself"):
        ENGINE.generate([0], ConstraintCompiler(lambda compiler: compiler.compile_regex("a")), whitespace="compact")


def test_a_control_token_of_the_marker_is_allowed_where_it_continues_the_marker():
    gate = ReasoningGate(GrammarMatcher(GRAMMAR), [0, CONTROL], VOCABULARY)
    assert CONTROL not in allowed(gate, 20)
    assert not gate.accept_token(CONTROL)
    assert gate.accept_token(0)
    assert CONTROL in allowed(gate, 20)
    assert gate.accept_token(CONTROL) and gate.has_ended


def test_without_a_gate_there_is_no_reasoning():
    assert ENGINE.generate([0], "abc").reasoning is None
